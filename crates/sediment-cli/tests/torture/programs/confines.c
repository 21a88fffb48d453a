// SPDX-License-Identifier: MIT OR Apache-2.0
// Sets a filter of system calls over itself: what is allowed goes on, what is not fails as it should.
#include "act.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void once(long round) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    static volatile int trapped;
    void on_trap(int signal) { trapped++; }
    if (!round) {
        signal(SIGSYS, on_trap);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "no filter");
    }
    errno = 0;
    expect(syscall(SYS_getppid) == -1 && errno == ENOTTY, "getppid was not refused");
    int before = trapped;
    syscall(SYS_getpgid, 0);
    expect(trapped == before + 1, "getpgid did not trap");
    work(5);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
