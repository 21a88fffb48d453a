// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o vforks vforks.c */
/* vfork children fail exec in four ways and report through shared memory, and posix_spawn starts crowds with file actions and signal defaults. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int __attribute__((noinline)) fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }

static int __attribute__((noinline)) try_exec(const char *path, char **argv, volatile int *err)
{
    pid_t p = vfork();
    if (p == 0) {
        execv(path, argv);
        *err = errno;
        *err += 1000 * fact(3); /* calls on the borrowed stack */
        _exit(*err % 100);
    }
    int st = -1;
    waitpid(p, &st, 0);
    return st;
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* child of a spawn: copy stdin to stdout */
        char b[64];
        ssize_t n = read(0, b, sizeof b);
        sigset_t s;
        sigprocmask(SIG_BLOCK, NULL, &s);
        struct sigaction sa;
        sigaction(SIGUSR2, NULL, &sa);
        if (n > 0 && write(1, b, n) != n)
            return 1;
        return sigismember(&s, SIGUSR1) * 2 + (sa.sa_handler == SIG_DFL) + 10;
    }
    char dir[] = "/tmp/vforksXXXXXX", junk[64];
    if (!mkdtemp(dir))
        return 1;
    snprintf(junk, sizeof junk, "%s/junk", dir);
    int fd = open(junk, O_CREAT | O_WRONLY, 0755);
    if (write(fd, "\1\2\3\4", 4) != 4)
        return 1;
    close(fd);
    size_t huge = 200 * 1024; /* one argument above 128 KiB */
    char *big = malloc(huge);
    memset(big, 'x', huge);
    big[huge - 1] = 0;
    char *plain[] = { "true", NULL }, *heavy[] = { "true", big, NULL };
    long errs[5] = { 0 }, stat[5] = { 0 };
    for (int i = 0; i < 60; i++) {
        const char *path[] = { "/nonexistent/x", dir, junk, "/bin/true", "/bin/true" };
        for (int k = 0; k < 5; k++) {
            volatile int e = 0;
            stat[k] += try_exec(path[k], k == 3 ? heavy : plain, &e);
            errs[k] += e;
        }
    }
    const char *what[] = { "missing", "directory", "junk", "too long", "true" };
    for (int k = 0; k < 5; k++)
        printf("%s: errno %ld, status %ld\n", what[k], errs[k] ? errs[k] / 60 - 6000 : 0, stat[k] / 60);
    unlink(junk);
    rmdir(dir);

    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t mask, def;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigemptyset(&def);
    sigaddset(&def, SIGUSR2);
    signal(SIGUSR2, SIG_IGN);
    posix_spawnattr_init(&at);
    posix_spawnattr_setsigmask(&at, &mask);
    posix_spawnattr_setsigdefault(&at, &def);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    long statuses = 0, letters = 0, missing = 0;
    for (int r = 0; r < 8; r++) {
        int in[2], out[2];
        if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
            return 1;
        posix_spawn_file_actions_init(&fa);
        posix_spawn_file_actions_adddup2(&fa, in[0], 0);
        posix_spawn_file_actions_adddup2(&fa, out[1], 1);
        pid_t p[24], q;
        char *av[] = { argv[0], "child", NULL };
        for (int i = 0; i < 24; i++)
            if (posix_spawn(&p[i], "/proc/self/exe", &fa, &at, av, environ))
                return 1;
        missing += posix_spawn(&q, "/nonexistent/y", &fa, &at, av, environ) == ENOENT;
        posix_spawn_file_actions_destroy(&fa);
        for (int i = 0; i < 24; i++)
            if (write(in[1], "a", 1) != 1)
                return 1;
        close(in[0]);
        close(in[1]);
        close(out[1]);
        char b[64];
        ssize_t n;
        while ((n = read(out[0], b, sizeof b)) > 0)
            letters += n;
        close(out[0]);
        for (int i = 0; i < 24; i++) {
            int st;
            waitpid(p[i], &st, 0);
            statuses += WIFEXITED(st) ? WEXITSTATUS(st) : 1000;
        }
    }
    printf("spawned 192: statuses %ld, letters %ld, missing %ld\n", statuses, letters, missing);
    return 0;
}
