// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o nsprctl nsprctl.c */
/* Children run as pid 1 of new pid and user name spaces, without dumpability, without the time-stamp counter, with W^X enforced by prctl, with death signals and subreapers, and without address randomisation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static char *self;

static int status(pid_t p)
{
    int st = -1;
    waitpid(p, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

/* pid 1 reaps orphans and takes all others with it */
static int in_namespace(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) && unshare(CLONE_NEWPID))
        return 77;
    pid_t p = fork();
    if (p == 0) {
        int s = getpid() == 1 && getppid() == 0 ? 10 : 0, st;
        pid_t c = fork();
        if (c == 0) {
            if (fork() == 0) {
                while (getppid() != 1)
                    usleep(100);
                _exit(getpid() == 3 ? fib(5) : 1);
            }
            _exit(getpid());
        }
        s += c == 2;
        while (wait(&st) > 0)
            s += WEXITSTATUS(st);
        kill(getpid(), SIGTERM); /* pid 1 has no handler: ignored */
        if (fork() == 0)
            for (;;)
                pause();
        _exit(s); /* 10 + 1 + 2 + 5 */
    }
    return status(p);
}

static int undumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int s = fib(12) == 144 && prctl(PR_GET_DUMPABLE) == 0;
    pid_t p = fork();
    if (p == 0)
        _exit(prctl(PR_GET_DUMPABLE) == 0 && fib(10) == 55 ? 3 : 4);
    s += status(p);
    if ((p = fork()) == 0) {
        execl("/proc/self/exe", self, "privs", NULL);
        execl(self, self, "privs", NULL); /* /proc/self/exe may be closed to us */
        _exit(1);
    }
    return s + status(p);
}

static volatile int tsc_faults;
static void segv(int sig, siginfo_t *si, void *c)
{
    (void)sig, (void)si;
    greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs;
    unsigned char *pc = (unsigned char *)g[REG_RIP];
    if (pc[0] != 0x0f || pc[1] != 0x31)
        _exit(5);
    tsc_faults++;
    g[REG_RIP] += 2;
    g[REG_RAX] = g[REG_RDX] = 0;
}

static int no_clock(void)
{
    sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = segv, .sa_flags = SA_SIGINFO }, NULL);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        return 7;
    fib(16);
    int z = 0;
    for (int i = 0; i < 7; i++)
        z += __rdtsc() != 0;
    fib(16);
    prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
    return z ? 6 : tsc_faults;
}

static int strict_memory(void)
{
    if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0))
        return fib(10); /* an older kernel: nothing to enforce */
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int s = mprotect(m, 4096, PROT_READ | PROT_EXEC) == -1 && errno == EACCES;
    s += mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    pid_t p = fork();
    if (p == 0)
        _exit(fib(11) == 89 ? 0 : 1);
    return status(p) ? 0 : fib(10) + s - 2;
}

/* the middle process ends, its child gets the death signal and comes to the subreaper */
static int death_signal(void)
{
    int ready[2], n = 0, st;
    char b;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (pipe(ready))
        return 0;
    pid_t mid = fork();
    if (mid == 0) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGUSR1);
            if (write(ready[1], "r", 1) == 1)
                for (;;)
                    fib(20);
        }
        _exit(read(ready[0], &b, 1));
    }
    for (pid_t p; (p = wait(&st)) > 0;)
        n += p == mid ? WIFEXITED(st) && WEXITSTATUS(st) == 1 : 10 * (WIFSIGNALED(st) && WTERMSIG(st) == SIGUSR1);
    close(ready[0]);
    close(ready[1]);
    return n;
}

/* without randomisation all runs see equal addresses */
static int fixed_layout(void)
{
    int p[2], same = 0;
    uintptr_t first[4] = { 0 }, now[4];
    if (pipe(p))
        return 0;
    for (int i = 0; i < 3; i++) {
        pid_t c = fork();
        if (c == 0) {
            dup2(p[1], 9);
            personality(ADDR_NO_RANDOMIZE);
            execle("/proc/self/exe", "nsprctl", "layout", NULL, (char *[]){ NULL });
            _exit(1);
        }
        if (status(c) != 21 || read(p[0], now, sizeof now) != sizeof now)
            return 77;
        if (i == 0)
            memcpy(first, now, sizeof now);
        same += !memcmp(first, now, sizeof now);
    }
    return same;
}

static int names(void)
{
    char b[32] = "";
    prctl(PR_SET_NAME, "a name too long for it");
    int fd = open("/proc/self/comm", O_RDONLY);
    ssize_t n = read(fd, b, sizeof b);
    close(fd);
    return n == 16 && !memcmp(b, "a name too long\n", 16) && fib(9) == 34 ? 34 : 0;
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1 && !strcmp(argv[1], "privs"))
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE) == 1 ? 40 : 41;
    if (argc > 1) {
        uintptr_t a[4] = { (uintptr_t)main, (uintptr_t)&printf, (uintptr_t)&argc, (uintptr_t)sbrk(0) };
        return write(9, a, sizeof a) == sizeof a && (personality(~0u) & ADDR_NO_RANDOMIZE) ? 21 : 1;
    }
    int (*f[])(void) = { in_namespace, undumpable, no_clock, strict_memory, death_signal, fixed_layout, names };
    const char *what[] = { "name space", "undumpable", "no clock", "strict memory", "death signal", "layout", "names" };
    for (int k = 0; k < 7; k++) {
        int s = 0;
        for (int i = 0; i < 12; i++) {
            pid_t p = fork();
            if (p == 0)
                _exit(f[k]());
            int r = status(p);
            if (r == 77) {
                printf("skip: %s not permitted\n", what[k]);
                return 77;
            }
            s += r;
        }
        printf("%s %d\n", what[k], s / 12);
        fflush(stdout);
    }
    return 0;
}
