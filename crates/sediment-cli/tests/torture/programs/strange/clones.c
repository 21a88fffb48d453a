// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o clones clones.c */
/* Raw clone and clone3 with unusual flags: no exit signal, odd exit signal, CLONE_PARENT, shared memory without a thread group, shared files, untraced, pidfd, cleared handlers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 65536 };
static volatile int shared, usr1;
static volatile pid_t tid_word;
static char *stack;

static void on_usr1(int s) { usr1 += s == SIGUSR1; }
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int child(void *arg)
{
    shared += fib(12);
    return (int)(intptr_t)arg;
}
static int child_fd(void *arg)
{
    (void)arg;
    close(100);
    return dup2(1, 101) == 101 && chdir("/") == 0;
}
static int child_parent(void *arg)
{
    (void)arg;
    pid_t p = clone(child, stack + STACK, CLONE_PARENT | SIGCHLD, (void *)6);
    _exit(p > 0 ? 0 : 1);
}

int main(void)
{
    signal(SIGUSR1, on_usr1);
    stack = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long r[10] = { 0 };
    int st;
    for (int i = 0; i < 400; i++) {
        /* shared memory, no exit signal: only __WCLONE sees it */
        pid_t p = clone(child, stack + STACK, CLONE_VM, (void *)3);
        r[0] += waitpid(p, &st, 0) == -1 && errno == ECHILD;
        r[0] += waitpid(p, &st, __WCLONE) == p && WEXITSTATUS(st) == 3;
        /* odd exit signal */
        p = clone(child, stack + STACK, SIGUSR1 | CLONE_VM | CLONE_VFORK, (void *)4);
        r[1] += waitpid(p, &st, __WALL) == p && WEXITSTATUS(st) == 4;
        /* shared files and directory */
        dup2(2, 100);
        int cwd = open(".", O_PATH | O_CLOEXEC);
        p = clone(child_fd, stack + STACK, CLONE_FILES | CLONE_FS | CLONE_UNTRACED | SIGCHLD, NULL);
        r[2] += waitpid(p, &st, 0) == p && WEXITSTATUS(st) == 1;
        r[2] += fcntl(100, F_GETFD) == -1 && fcntl(101, F_GETFD) == 0;
        char b[8];
        r[2] += getcwd(b, sizeof b) && !strcmp(b, "/");
        if (fchdir(cwd))
            return 1;
        close(cwd);
        close(101);
        /* a child that makes a sibling */
        p = clone(child_parent, stack + 2 * STACK, SIGCHLD, NULL);
        waitpid(p, &st, 0);
        r[3] += WIFEXITED(st) && WEXITSTATUS(st) == 0;
        r[3] += waitpid(-1, &st, 0) > 0 && WEXITSTATUS(st) == 6;
        /* a bare thread, cleared tid word and futex wake */
        tid_word = 1;
        p = clone(child, stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID, (void *)8, &tid_word, NULL, &tid_word);
        while (tid_word)
            syscall(SYS_futex, &tid_word, FUTEX_WAIT, p, NULL, NULL, 0);
        r[4] += waitpid(p, &st, __WALL) == p && WEXITSTATUS(st) == 8;
        /* clone3, pidfd, handlers cleared */
        int pidfd = -1;
        struct clone_args a = { .flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD };
        long q = syscall(SYS_clone3, &a, sizeof a);
        if (q == 0) {
            raise(SIGUSR1);
            _exit(1);
        }
        siginfo_t si;
        r[5] += waitid(P_PIDFD, pidfd, &si, WEXITED) == 0 && si.si_code == CLD_KILLED && si.si_status == SIGUSR1;
        close(pidfd);
        /* plain fork by number: parent's memory must not change */
        int before = shared;
        if (syscall(SYS_fork) == 0) {
            shared += fib(13);
            _exit(shared - before == 233 ? 5 : 6);
        }
        r[6] += wait(&st) > 0 && WEXITSTATUS(st) == 5 && shared == before;
        /* flags the kernel must refuse */
        r[7] += syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0) == -1 && errno == EINVAL;
        r[7] += syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0) == -1 && errno == EINVAL;
        r[7] += syscall(SYS_clone, CLONE_FS | CLONE_NEWNS, 0, 0, 0, 0) == -1;
    }
    for (int i = 0; i < 8; i++)
        printf("%ld ", r[i]);
    printf("shared %d, SIGUSR1 %d, children left %s\n", shared, usr1, wait(&st) == -1 && errno == ECHILD ? "none" : "some");
    return 0;
}
