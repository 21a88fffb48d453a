// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o rlimits rlimits.c */
/* Children live under tight limits: address space to the megabyte, open files to the last number, file size, stack for arguments, CPU time ended by SIGXCPU, and exec under a small address space. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void limit(int what, rlim_t soft) { setrlimit(what, &(struct rlimit){ soft, soft }); }
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static rlim_t vmsize(void)
{
    char b[64];
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = read(fd, b, sizeof b - 1);
    close(fd);
    b[n > 0 ? n : 0] = 0;
    return strtoul(b, NULL, 10) * 4096;
}

static int space(void)
{
    int n = 0;
    limit(RLIMIT_AS, vmsize() + (64 << 20));
    while (mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        n += fib(10) == 55;
    return n == 64 && errno == ENOMEM ? n : 0;
}

static int files(void)
{
    int n = 0, fd, last = -1;
    close_range(3, ~0u, 0);
    limit(RLIMIT_NOFILE, 40);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fib(8))
        last = fd, n++;
    return errno == EMFILE && last == 39 ? n : 0;
}

static int size(void)
{
    char b[9000] = { 0 };
    limit(RLIMIT_FSIZE, 8192);
    int fd = memfd_create("x", 0);
    if (write(fd, b, sizeof b) != 8192)
        return 1;
    fib(15);
    return write(fd, b, 1) == 1; /* dies by SIGXFSZ */
}

static int stack(char *self)
{
    limit(RLIMIT_STACK, 8 << 20); /* exec arguments may take a quarter: 2 MiB */
    static char arg[100 * 1024];
    char *av[40] = { self, "quiet" };
    memset(arg, 'y', sizeof arg - 1);
    for (int i = 2; i < 30; i++)
        av[i] = arg;
    execv("/proc/self/exe", av);
    if (errno != E2BIG)
        return 1;
    av[12] = NULL;
    execv("/proc/self/exe", av);
    return 2;
}

static int small(char *self)
{
    limit(RLIMIT_AS, 6 << 20);
    limit(RLIMIT_NOFILE, 8);
    execl("/proc/self/exe", self, "quiet", (char *)NULL);
    return 1;
}

static int data(void)
{
    char *b = sbrk(0);
    limit(RLIMIT_DATA, 0);
    return sbrk(1 << 20) == (void *)-1 && sbrk(0) == b && mmap(NULL, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 33 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return fib(15) == 610 ? 20 + argc : 1;
    limit(RLIMIT_CORE, 0);
    pid_t cpu = fork();
    if (cpu == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){ 1, 3 });
        for (;;)
            fib(20);
    }
    const char *names[] = { "address space", "open files", "file size", "arguments", "small exec", "data" };
    int sum[6] = { 0 }, st;
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 6; k++) {
            pid_t p = fork();
            if (p == 0)
                _exit(k == 0 ? space() : k == 1 ? files() : k == 2 ? size() : k == 3 ? stack(argv[0]) : k == 4 ? small(argv[0]) : data());
            waitpid(p, &st, 0);
            sum[k] += WIFEXITED(st) ? WEXITSTATUS(st) : 1000 * WTERMSIG(st);
        }
    for (int k = 0; k < 6; k++)
        printf("%s %d\n", names[k], sum[k] / 40);
    waitpid(cpu, &st, 0);
    printf("processor time: signal %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
    return 0;
}
