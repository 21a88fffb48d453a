// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -fno-omit-frame-pointer -fno-optimize-sibling-calls -no-pie -o profwalk profwalk.c */
/* A SIGPROF and SIGALRM profiler walks frame pointers in its handler; each return address must lie in the program's text just behind a call and the chain must end in main. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

extern unsigned char __executable_start[], etext[];
static uintptr_t main_frame;
static volatile long samples, bad_addr, bad_call, bad_end;

static void sample(int sig, siginfo_t *si, void *ctx)
{
    (void)sig;
    (void)si;
    greg_t *g = ((ucontext_t *)ctx)->uc_mcontext.gregs;
    uintptr_t fp = g[REG_RBP];
    unsigned char *pc = (unsigned char *)g[REG_RIP];
    samples++;
    if (pc < __executable_start || pc >= etext)
        bad_addr++;
    for (int n = 0; fp != main_frame; n++) {
        if (fp % 8 || fp > main_frame || fp < (uintptr_t)g[REG_RSP] - 4096 || n > 200) {
            bad_end++;
            return;
        }
        unsigned char *ret = ((unsigned char **)fp)[1];
        if (ret < __executable_start || ret >= etext)
            bad_addr++;
        else if (ret[-5] != 0xe8 && ret[-2] != 0xff && ret[-3] != 0xff)
            bad_call++;
        fp = *(uintptr_t *)fp;
    }
}

static unsigned (*volatile table[4])(unsigned, int);
static unsigned __attribute__((noinline)) tiny(unsigned x) { return x * 0x9e3779b1u ^ x >> 15; }
static unsigned f0(unsigned x, int d) { return d ? table[x & 3](tiny(x), d - 1) + 1 : tiny(x); }
static unsigned f1(unsigned x, int d) { return d ? tiny(table[x >> 9 & 3](x + d, d - 1)) : x; }
static unsigned f2(unsigned x, int d)
{
    volatile unsigned a[20];
    a[x % 20] = x;
    return d ? table[x >> 3 & 3](a[x % 20] ^ 5, d - 1) : tiny(a[x % 20]);
}
static unsigned f3(unsigned x, int d)
{
    if (d < 2)
        return x;
    return table[x >> 5 & 3](x, d - 1) ^ f0(x + 1, d / 2);
}

static unsigned __attribute__((noinline)) work(long n)
{
    unsigned x = 1;
    while (n--)
        x = table[n & 3](x, 24);
    return x;
}

int main(void)
{
    main_frame = (uintptr_t)__builtin_frame_address(0);
    table[0] = f0, table[1] = f1, table[2] = f2, table[3] = f3;
    struct sigaction sa = { .sa_sigaction = sample, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGPROF, &sa, NULL);
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval it = { { 0, 1000 }, { 0, 1000 } }, off = { { 0, 0 }, { 0, 0 } };
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGPROF);
    sigaddset(&s, SIGALRM);
    sigprocmask(SIG_BLOCK, &s, NULL);
    setitimer(ITIMER_PROF, &it, NULL);
    setitimer(ITIMER_REAL, &it, NULL);
    unsigned long flags, x;
    /* unblock by raw system calls, so that every sample falls into this program's text */
    register long r10 __asm__("r10") = 8;
    __asm__ volatile("syscall" : "=a"(flags) : "a"(14L), "D"((long)SIG_UNBLOCK), "S"(&s), "d"(0L), "r"(r10) : "rcx", "r11", "memory");
    x = work(400000);
    r10 = 8;
    __asm__ volatile("syscall" : "=a"(flags) : "a"(14L), "D"((long)SIG_BLOCK), "S"(&s), "d"(0L), "r"(r10) : "rcx", "r11", "memory");
    setitimer(ITIMER_PROF, &off, NULL);
    setitimer(ITIMER_REAL, &off, NULL);
    printf("result %08lx, samples %s, bad addresses %ld, not after a call %ld, lost %ld\n", x, samples > 20 ? "enough" : "too few", bad_addr, bad_call, bad_end);
    return 0;
}
