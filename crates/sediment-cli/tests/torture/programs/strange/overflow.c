// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O1 -Wall -pthread -o overflow overflow.c */
/* Runs off the end of the stack on purpose, recovers on an alternate stack, and uses minimum-size thread stacks to their last 512 bytes. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int on_alt, near_sp, depth;
static char *alt;
static size_t altsize;

static void segv(int sig, siginfo_t *si, void *ctx)
{
    (void)sig;
    char here;
    ucontext_t *u = ctx;
    intptr_t d = (char *)u->uc_mcontext.gregs[REG_RSP] - (char *)si->si_addr;
    on_alt += &here >= alt && &here < alt + altsize;
    near_sp += d > -8192 && d < 8192;
    siglongjmp(back, 1);
}

static int __attribute__((noinline)) runaway(volatile char *prev)
{
    volatile char pad[200];
    pad[0] = (char)(depth++ + (prev ? prev[0] : 0));
    return depth < 1 << 30 ? runaway(pad) + pad[0] + 1 : 0;
}

static long __attribute__((noinline)) leaf(volatile long *a) { return a[0] + a[1]; }

static long __attribute__((noinline)) deep(char *low)
{
    volatile long a[2] = { 1, 2 };
    if ((char *)a - low < 512)
        return leaf(a);
    return deep(low) + (leaf(a) - 3);
}

static void *tight(void *arg)
{
    (void)arg;
    pthread_attr_t at;
    void *low;
    size_t n;
    pthread_getattr_np(pthread_self(), &at);
    pthread_attr_getstack(&at, &low, &n);
    pthread_attr_destroy(&at);
    long s = 0;
    for (int i = 0; i < 300; i++)
        s += deep(low);
    return (void *)s;
}

int main(void)
{
    struct rlimit rl;
    getrlimit(RLIMIT_STACK, &rl);
    rl.rlim_cur = 512 * 1024;
    setrlimit(RLIMIT_STACK, &rl);
    altsize = sysconf(_SC_MINSIGSTKSZ) + 2048;
    alt = malloc(altsize);
    sigaltstack(&(stack_t){ .ss_sp = alt, .ss_size = altsize }, NULL);
    struct sigaction sa = { .sa_sigaction = segv, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigaction(SIGSEGV, &sa, NULL);
    volatile int recovered = 0, min = INT_MAX, max = 0;
    for (volatile int i = 0; i < 1500; i++) {
        depth = 0;
        if (sigsetjmp(back, 1))
            recovered++;
        else
            recovered -= runaway(NULL) & 1;
        if (depth < min)
            min = depth;
        if (depth > max)
            max = depth;
    }
    printf("recovered %d, on alternate stack %d, near stack pointer %d, same depth %s\n", recovered, on_alt, near_sp, min == max ? "yes" : "no");
    pthread_attr_t at;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, PTHREAD_STACK_MIN);
    long s = 0;
    for (int i = 0; i < 400; i++) {
        pthread_t t;
        void *r;
        if (pthread_create(&t, &at, tight, NULL))
            return 1;
        pthread_join(t, &r);
        s += (long)r;
    }
    printf("tight threads %ld\n", s);
    return 0;
}
