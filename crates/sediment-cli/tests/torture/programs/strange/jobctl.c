// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o jobctl jobctl.c */
/* A miniature shell with job control: process groups, SIGTSTP and SIGCONT seen through waitid, exact wait statuses of all deaths, SA_NOCLDWAIT, WNOWAIT and a group that ends itself with kill(0). */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t chld, conts;
static void on_chld(int s) { chld += s == SIGCHLD; }
static void on_cont(int s) { conts += s == SIGCONT; }
static int __attribute__((noinline)) work(int n) { return n < 2 ? n : work(n - 1) + work(n - 2); }

static int check(pid_t p, int opt, int code, int status)
{
    siginfo_t si = { 0 };
    if (waitid(P_PID, p, &si, opt) || si.si_pid != p || si.si_uid != getuid())
        return 0;
    return si.si_signo == SIGCHLD && si.si_code == code && si.si_status == status;
}

int main(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    signal(SIGCHLD, SIG_DFL);
    long stops = 0, groups = 0, deaths = 0, nowait = 0, continued = 0;
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *volatile null = NULL;
    const int stop_by[] = { SIGTSTP, SIGSTOP, SIGTTIN, SIGTTOU };
    for (int i = 0; i < 220; i++) {
        pid_t p = fork();
        if (p == 0) {
            setpgid(0, 0);
            signal(SIGCONT, on_cont);
            for (int k = 0; k < 4; k++) {
                signal(stop_by[k], SIG_DFL);
                raise(stop_by[k]);
                shared[0] += work(10);
            }
            _exit(conts * 10 + 2);
        }
        setpgid(p, p);
        for (int k = 0; k < 4; k++) {
            stops += check(p, WSTOPPED | WNOWAIT, CLD_STOPPED, stop_by[k]);
            stops += check(p, WSTOPPED, CLD_STOPPED, stop_by[k]);
            siginfo_t si = { 0 };
            stops += waitid(P_PID, p, &si, WSTOPPED | WEXITED | WNOHANG) == 0 && si.si_pid == 0;
            kill(-p, SIGCONT);
            /* the next stop overwrites this event only after the report above is eaten */
        }
        int st;
        waitpid(p, &st, 0);
        stops += WIFEXITED(st) && WEXITSTATUS(st) == 42;
        /* WCONTINUED on a sleeping child */
        p = fork();
        if (p == 0)
            for (;;)
                pause();
        kill(p, SIGSTOP);
        continued += waitpid(p, &st, WUNTRACED) == p && WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP;
        kill(p, SIGCONT);
        continued += waitpid(p, &st, WCONTINUED) == p && WIFCONTINUED(st);
        kill(p, SIGTERM);
        continued += waitpid(p, &st, 0) == p && st == SIGTERM;
        /* a whole group kills itself */
        int end[2];
        char b;
        if (pipe(end))
            return 1;
        pid_t lead = fork();
        if (lead == 0) {
            setpgid(0, 0);
            signal(SIGHUP, SIG_IGN);
            for (int k = 0; k < 3; k++)
                if (fork() == 0)
                    for (;;)
                        pause();
            kill(0, SIGHUP); /* ignored by all */
            kill(0, SIGUSR2);
            _exit(1);
        }
        groups += waitpid(lead, &st, 0) == lead && st == SIGUSR2;
        close(end[1]);
        groups += read(end[0], &b, 1) == 0; /* all members are dead */
        close(end[0]);
    }
    const int sigs[] = { SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGSYS, SIGVTALRM, SIGPROF };
    for (unsigned i = 0; i < sizeof sigs / sizeof *sigs; i++)
        for (int core = 0; core < 2; core++) {
            pid_t p = fork();
            if (p == 0) {
                signal(sigs[i], SIG_DFL);
                if (core && sigs[i] == SIGSEGV)
                    *null = 1;
                else if (core && sigs[i] == SIGILL)
                    __asm__ volatile("ud2");
                else if (core && sigs[i] == SIGTRAP)
                    __asm__ volatile("int3");
                else if (core && sigs[i] == SIGFPE)
                    __asm__ volatile("xor %%ecx,%%ecx\ndiv %%ecx" ::: "eax", "ecx", "edx");
                else
                    raise(sigs[i]);
                _exit(99);
            }
            nowait += check(p, WEXITED | WNOWAIT, CLD_KILLED, sigs[i]);
            int st;
            deaths += waitpid(p, &st, 0) == p && st == sigs[i] && !WCOREDUMP(st);
        }
    printf("stops %ld, continued %ld, groups %ld, deaths %ld, nowait %ld, work %d\n", stops, continued, groups, deaths, nowait, shared[0]);
    sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = on_chld, .sa_flags = SA_NOCLDWAIT | SA_RESTART }, NULL);
    int none = 0;
    for (int i = 0; i < 30; i++) {
        if (fork() == 0)
            _exit(i);
        int st;
        none += wait(&st) == -1 && errno == ECHILD;
    }
    printf("never zombies %d, SIGCHLD %d\n", none, chld);
    signal(SIGCHLD, SIG_IGN);
    fflush(stdout);
    if (fork() == 0) {
        struct sigaction sa;
        sigaction(SIGCHLD, NULL, &sa);
        printf("child ignores SIGCHLD: %s\n", sa.sa_handler == SIG_IGN ? "yes" : "no");
        exit(0);
    }
    printf("ignored: %s\n", wait(NULL) == -1 && errno == ECHILD ? "no status" : "status");
    return 0;
}
