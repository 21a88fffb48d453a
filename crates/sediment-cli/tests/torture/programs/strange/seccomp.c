// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o seccomp seccomp.c */
/* Children compute inside seccomp strict mode, a four-call filter, a trapping filter that emulates getppid, and one that answers ENOTTY; the last act gets the program itself killed with SIGSYS. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int trapped;

static void sys(int sig, siginfo_t *si, void *c)
{
    (void)sig;
    trapped += si->si_syscall == SYS_getppid && si->si_code == 1;
    ((ucontext_t *)c)->uc_mcontext.gregs[REG_RAX] = 4242;
}

static int filter(unsigned otherwise)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = { sizeof f / sizeof *f, f };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0);
}

static long __attribute__((noinline)) ack(long m, long n) { return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1)); }

static void child(int kind, int fd)
{
    long v;
    if (kind == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        _exit(77);
    if (kind == 1 && filter(SECCOMP_RET_KILL_PROCESS))
        _exit(77);
    if (kind == 2) {
        sigaction(SIGSYS, &(struct sigaction){ .sa_sigaction = sys, .sa_flags = SA_SIGINFO }, NULL);
        if (filter(SECCOMP_RET_TRAP))
            _exit(77);
    }
    if (kind == 3 && filter(SECCOMP_RET_ERRNO | ENOTTY))
        _exit(77);
    v = ack(2, 60 + kind);
    if (kind == 2)
        v += syscall(SYS_getppid) + trapped;
    if (kind == 3)
        v += (syscall(SYS_getpid) == -1 && errno == ENOTTY) * 1000;
    if (write(fd, &v, sizeof v) != sizeof v)
        v = 1;
    if (kind == 1 && v % 2 == 0)
        syscall(SYS_getpid);
    syscall(kind == 0 ? SYS_exit : SYS_exit_group, kind + 20);
}

int main(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    long sum[4] = { 0 }, status[4] = { 0 };
    for (int i = 0; i < 400; i++)
        for (int k = 0; k < 4; k++) {
            int p[2], st;
            long v = 0;
            if (pipe(p))
                return 1;
            pid_t c = fork();
            if (c == 0)
                child(k, p[1]);
            close(p[1]);
            if (read(p[0], &v, sizeof v) == sizeof v)
                sum[k] += v;
            close(p[0]);
            waitpid(c, &st, 0);
            status[k] += st;
            if (WIFEXITED(st) && WEXITSTATUS(st) == 77) {
                puts("skip: seccomp not permitted");
                return 77;
            }
        }
    for (int k = 0; k < 4; k++)
        printf("kind %d: sum %ld, status %ld\n", k, sum[k], status[k] / 400);
    fflush(stdout);
    if (filter(SECCOMP_RET_KILL_PROCESS))
        return 77;
    long v = ack(2, 200);
    if (v == 403 && write(1, "403, and now getuid\n", 20) == 20)
        syscall(SYS_getuid);
    return 1;
}
