// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o procself procself.c */
/* Reads /proc/self as hardened programs do: no tracer, no writable code, no unknown executable mapping, exact thread counts, clean signal masks, unchanged environment, arguments, name and libraries. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;
static char buf[1 << 20];

static char *slurp(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    size_t n = 0;
    ssize_t k;
    while (fd >= 0 && (k = read(fd, buf + n, sizeof buf - 1 - n)) > 0)
        n += k;
    close(fd);
    buf[n] = 0;
    if (len)
        *len = n;
    return buf;
}

static unsigned long field(const char *key, int base)
{
    char *s = strstr(slurp("/proc/self/status", NULL), key);
    return s ? strtoul(s + strlen(key), NULL, base) : 999999;
}

static int tasks(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static struct { int wx, code, anon_code, odd, shared_rw, stack, heap; } maps;
static void read_maps(void)
{
    memset(&maps, 0, sizeof maps);
    char *save;
    for (char *l = strtok_r(slurp("/proc/self/maps", NULL), "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char perm[8], name[256] = "";
        sscanf(l, "%*s %7s %*s %*s %*s %255[^\n]", perm, name);
        maps.wx += perm[1] == 'w' && perm[2] == 'x';
        maps.stack += !strcmp(name, "[stack]");
        maps.shared_rw += perm[3] == 's';
        if (perm[2] == 'x' && name[0] == '/')
            maps.code++, maps.odd += strstr(name, "/libc.so") == NULL && strstr(name, "/ld-linux") == NULL && strstr(name, "/procself") == NULL;
        else if (perm[2] == 'x')
            maps.anon_code += strcmp(name, "[vdso]") && strcmp(name, "[vsyscall]");
    }
}

static pthread_barrier_t bar;
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void *thread(void *arg)
{
    pthread_setname_np(pthread_self(), "worker");
    pthread_barrier_wait(&bar);
    fib(12);
    pthread_barrier_wait(&bar);
    return arg;
}

int main(int argc, char **argv)
{
    if (argc == 1) { /* start from a known state */
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 1; i < 65; i++)
            signal(i, SIG_DFL);
        close_range(3, ~0u, 0);
        char *env[] = { "A=1", "PATH=/nowhere", "LANG=C", NULL };
        execve("/proc/self/exe", (char *[]){ "procself", "one", "", "three words", NULL }, env);
        return 1;
    }
    long r[16] = { 0 };
    for (int i = 0; i < 400; i++) {
        pthread_t t[3];
        pthread_barrier_init(&bar, NULL, 4);
        r[0] += field("TracerPid:", 10) == 0;
        read_maps();
        r[1] += maps.wx;
        r[2] += maps.code;
        r[3] += maps.anon_code;
        r[4] += maps.odd;
        r[5] += maps.shared_rw + maps.stack - 1;
        for (int k = 0; k < 3; k++)
            pthread_create(&t[k], NULL, thread, NULL);
        pthread_barrier_wait(&bar);
        r[6] += field("Threads:", 10) * 10 + tasks();
        pthread_barrier_wait(&bar);
        for (int k = 0; k < 3; k++)
            pthread_join(t[k], NULL);
        r[7] += field("SigBlk:", 16) + field("SigIgn:", 16) + field("SigPnd:", 16) + field("ShdPnd:", 16);
        r[8] += field("SigCgt:", 16) & ~0x180000000ul; /* glibc's own two */
        r[9] += field("NoNewPrivs:", 10) + field("Seccomp:", 10) == (unsigned long)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) + prctl(PR_GET_SECCOMP);
        r[10] += prctl(PR_GET_DUMPABLE) == 1;
        size_t n;
        r[11] += !memcmp(slurp("/proc/self/cmdline", &n), "procself\0one\0\0three words", 26) && n == 26;
        slurp("/proc/self/environ", &n);
        r[12] += n == 25 && !memcmp(buf, "A=1\0PATH=/nowhere\0LANG=C", 25);
        r[13] += environ[3] == NULL && getauxval(AT_SECURE) == 0 && !getenv("LD_PRELOAD");
        r[14] += !strncmp(slurp("/proc/self/comm", NULL), "exe\n", 4);
        char st, *s = slurp("/proc/self/stat", NULL);
        int ppid;
        r[15] += sscanf(strrchr(s, ')'), ") %c %d", &st, &ppid) == 2 && st == 'R' && ppid == getppid();
    }
    const char *what[] = { "untraced", "writable code", "code files", "anonymous code", "odd code files", "odd mappings", "threads", "signals blocked or ignored", "signals caught", "privileges", "dumpable", "arguments", "environment", "secure", "name", "state" };
    for (int i = 0; i < 16; i++)
        printf("%s %ld\n", what[i], r[i]);
    return 0;
}
