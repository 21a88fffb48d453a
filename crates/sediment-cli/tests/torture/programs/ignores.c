// SPDX-License-Identifier: MIT OR Apache-2.0
// Ignores SIGTRAP, blocks it and waits for it, by system calls that no C library sees.
#include "act.h"
#include <sys/syscall.h>
struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };
static void once(long round) {
    struct kernel_action ignored = {(void *)SIG_IGN}, by_default = {(void *)SIG_DFL}, now;
    unsigned long trap = 1ul << (SIGTRAP - 1), before;
    syscall(SYS_rt_sigaction, SIGTRAP, &ignored, 0, 8);
    work(1);
    raise(SIGTRAP);
    syscall(SYS_rt_sigaction, SIGTRAP, 0, &now, 8);
    expect(now.handler == (void *)SIG_IGN, "SIGTRAP is no longer ignored");
    syscall(SYS_rt_sigaction, SIGTRAP, &by_default, 0, 8);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, &before, 8);
    work(1);
    raise(SIGTRAP);
    work(1);
    struct timespec soon = {5, 0};
    long came = syscall(SYS_rt_sigtimedwait, &trap, 0, &soon, 8);
    expect(came == SIGTRAP, "waited for SIGTRAP, and got %ld", came);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
