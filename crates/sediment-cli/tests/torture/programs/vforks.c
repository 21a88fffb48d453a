// SPDX-License-Identifier: MIT OR Apache-2.0
// vfork and posix_spawn, of programs that are there and of some that are not.
#include "act.h"
#include <spawn.h>
extern char **environ;
static char *self;
static void once(long round) {
    char *words[] = {self, "child", 0};
    pid_t child = vfork();
    if (child == 0) { execv(self, words); _exit(99); }
    expect_exit(child, 9);
    if (posix_spawn(&child, self, 0, 0, words, environ) == 0) expect_exit(child, 9);
    else expect(0, "posix_spawn failed");
    child = vfork();
    if (child == 0) { execv("/nonexistent/program", words); _exit(8); }
    expect_exit(child, 8);
    expect(posix_spawn(&child, "/nonexistent/program", 0, 0, words, environ) == ENOENT, "a missing program was started");
    work(3);
}
int main(int count, char **arguments) {
    self = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "child")) { work(3); return act_wrong ? 1 : 9; }
    return act(count, arguments, once);
}
