// SPDX-License-Identifier: MIT OR Apache-2.0
// Its children take all memory away from themselves.
#include "act.h"
#include <sys/syscall.h>
static void once(long round) {
    work(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work(1);
        syscall(SYS_munmap, 0, 0x7fffffffe000ul);
        _exit(1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a child without memory ended with status %x", status);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
