// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o fexec fexec.c */
/* Runs itself from a sealed memfd, from a deleted copy, from a second thread and through a chain of 60 execs in one process, keeping pid, ignored signals, mask and alarm. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **gargv;
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static int copy_self(int to)
{
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    fstat(fd, &st);
    ssize_t n = sendfile(to, fd, NULL, st.st_size);
    close(fd);
    return n == st.st_size;
}

static void *exec_thread(void *arg)
{
    execv("/proc/self/exe", arg);
    return NULL;
}

static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int status(pid_t p)
{
    int st;
    waitpid(p, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 200;
}

static int chain(int left, const char *pid)
{
    sigset_t m;
    struct sigaction sa, sb;
    sigprocmask(SIG_BLOCK, NULL, &m);
    sigaction(SIGHUP, NULL, &sa);
    sigaction(SIGUSR1, NULL, &sb);
    char a[16], me[16];
    snprintf(me, sizeof me, "%d", getpid());
    if (strcmp(me, pid) || getpid() != syscall(SYS_gettid) || !sigismember(&m, SIGUSR2) || sa.sa_handler != SIG_IGN || sb.sa_handler != SIG_DFL)
        return 1;
    if (left == 0) {
        sigset_t pend;
        sigpending(&pend);
        return alarm(0) > 0 && sigismember(&pend, SIGUSR2) ? 50 : 2;
    }
    snprintf(a, sizeof a, "%d", left - 1);
    signal(SIGUSR1, (void (*)(int))chain); /* a handler, reset by exec */
    char *av[] = { gargv[0], a, me, NULL };
    if (left % 3 == 0) { /* a thread replaces the whole process */
        pthread_t t[3];
        for (int i = 0; i < 2; i++)
            pthread_create(&t[i], NULL, sleeper, NULL);
        fib(12);
        pthread_create(&t[2], NULL, exec_thread, av);
        sleeper(NULL);
    }
    execv("/proc/self/exe", av);
    return 3;
}

int main(int argc, char **argv)
{
    gargv = argv;
    if (argc == 3)
        return chain(atoi(argv[1]), argv[2]);
    if (argc == 2) {
        char b[256] = "";
        ssize_t n = readlink("/proc/self/exe", b, sizeof b - 1);
        b[n < 0 ? 0 : n] = 0;
        return fib(15) == 610 && strstr(b, "(deleted)") && strstr(b, argv[1]) ? 30 : 1;
    }
    long mem = 0, del = 0, chains = 0, busy = 0, script = 0;
    for (int i = 0; i < 30; i++) {
        int fd = memfd_create("ghost", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        if (!copy_self(fd))
            return 1;
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        pid_t p = fork();
        if (p == 0) {
            fexecve(fd, (char *[]){ argv[0], "memfd:ghost", NULL }, environ);
            _exit(2);
        }
        close(fd);
        mem += status(p) == 30;
        char path[64];
        snprintf(path, sizeof path, "/tmp/fexec-%d-%d", getpid(), i);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        if (!copy_self(fd))
            return 1;
        p = fork();
        if (p == 0) {
            execv(path, (char *[]){ argv[0], path + 5, NULL }); /* ETXTBSY: still open for writing */
            _exit(7);
        }
        busy += status(p) == 7;
        close(fd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        unlink(path);
        p = fork();
        if (p == 0) {
            fexecve(fd, (char *[]){ argv[0], path + 5, NULL }, environ);
            _exit(2);
        }
        del += status(p) == 30;
        close(fd);
        fd = memfd_create("script", 0);
        if (write(fd, "#!/bin/sh\nexit 21\n", 18) != 18)
            return 1;
        p = fork();
        if (p == 0) {
            fexecve(fd, (char *[]){ "script", NULL }, environ);
            _exit(2);
        }
        script += status(p) == 21;
        close(fd);
    }
    for (int i = 0; i < 4; i++) {
        pid_t p = fork();
        if (p == 0) {
            sigset_t m;
            sigemptyset(&m);
            sigaddset(&m, SIGUSR2);
            sigprocmask(SIG_BLOCK, &m, NULL);
            signal(SIGHUP, SIG_IGN);
            signal(SIGUSR1, SIG_DFL);
            kill(getpid(), SIGUSR2);
            alarm(60);
            char me[16];
            snprintf(me, sizeof me, "%d", getpid());
            execv("/proc/self/exe", (char *[]){ argv[0], "60", me, NULL });
        }
        chains += status(p) == 50;
    }
    printf("memfd %ld, deleted %ld, busy %ld, script %ld, chains %ld\n", mem, del, busy, script, chains);
    return 0;
}
