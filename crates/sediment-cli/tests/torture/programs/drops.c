// SPDX-License-Identifier: MIT OR Apache-2.0
// Children that become another user, as servers started by root do, and work or become a program.
#include "act.h"
#include <grp.h>
static char *self;
static void once(long round) {
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, 0) || setgid(65533) || setuid(65533)) _exit(97);
        work(3);
        if (round % 2) execl(self, self, "child", (char *)0);
        // Its own child is nobody's but that user's.
        pid_t grandchild = fork();
        if (grandchild == 0) { work(2); _exit(9); }
        expect_exit(grandchild, 9);
        _exit(act_wrong ? 1 : 9);
    }
    work(3);
    expect_exit(child, 9);
}
int main(int count, char **arguments) {
    self = arguments[0];
    if (count > 1 && !strcmp(arguments[1], "child")) { work(3); return act_wrong ? 1 : 9; }
    return act(count, arguments, once);
}
