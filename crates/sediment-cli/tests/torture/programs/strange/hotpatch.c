// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -fcf-protection=none -o hotpatch hotpatch.c */
/* Patches its own functions while it runs: jumps into patchable entries, own int3 breakpoints with a SIGTRAP handler, trap-flag single steps, ud2 and hlt handled by signals. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long traps, steps, ills, segvs, odd;

static __attribute__((noinline, noclone, patchable_function_entry(5, 0))) int feature(int x) { return x + 1; }
static __attribute__((noinline, noclone)) int better(int x) { return x + 100; }
int probed(int x);
int stepped(int x);
int oops(int x);
extern unsigned char probed_site[], step_begin[], step_end[];
__asm__(".text\n.globl probed\n.type probed,@function\nprobed:\nprobed_site: nop\nlea 3(%rdi),%eax\nret\n.size probed,.-probed\n"
        ".globl callee\n.type callee,@function\ncallee: inc %eax\nret\n.size callee,.-callee\n"
        ".globl stepped\n.type stepped,@function\nstepped: mov %edi,%eax\npushfq\norl $0x100,(%rsp)\npopfq\n"
        "step_begin: nop\ncall callee\ncall callee\npushfq\nandl $~0x100,(%rsp)\npopfq\nstep_end: ret\n.size stepped,.-stepped\n"
        ".globl oops\n.type oops,@function\noops: mov %edi,%eax\nud2\ninc %eax\nhlt\ninc %eax\nint3\ninc %eax\nint $3\ninc %eax\nret\n.size oops,.-oops\n");

static void trap(int sig, siginfo_t *si, void *c)
{
    greg_t *g = ((ucontext_t *)c)->uc_mcontext.gregs;
    unsigned char *pc = (unsigned char *)g[REG_RIP];
    if (sig == SIGILL) {
        ills++;
        odd += si->si_code != ILL_ILLOPN || si->si_addr != pc || pc[0] != 0x0f;
        g[REG_RIP] += 2;
    } else if (sig == SIGSEGV) {
        segvs++;
        odd += si->si_code != SI_KERNEL || pc[0] != 0xf4;
        g[REG_RIP] += 1;
    } else if (si->si_code == TRAP_TRACE) {
        steps++;
    } else {
        traps++;
        odd += si->si_code != SI_KERNEL;
        if (pc == probed_site + 1)
            g[REG_RDI] += 1000; /* the probe */
    }
}

static void patch(void *at, const void *bytes, size_t n)
{
    char *page = (char *)((uintptr_t)at & ~4095ul);
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(at, bytes, n);
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
}

int main(void)
{
    struct sigaction sa = { .sa_sigaction = trap, .sa_flags = SA_SIGINFO };
    sigaction(SIGTRAP, &sa, NULL);
    sigaction(SIGILL, &sa, NULL);
    sigaction(SIGSEGV, &sa, NULL);
    int (*volatile f)(int) = feature, (*volatile p)(int) = probed;
    unsigned char jmp[5] = { 0xe9 }, saved[5], old = probed_site[0];
    int32_t rel = (int32_t)((char *)better - (char *)feature - 5);
    memcpy(jmp + 1, &rel, 4);
    memcpy(saved, (void *)feature, 5);
    long a = 0, b = 0, c = 0, d = 0, e = 0;
    for (int i = 0; i < 1200; i++) {
        a += f(i);
        patch((void *)feature, jmp, 5);
        b += f(i) + feature(1);
        patch((void *)feature, saved, 5);
        a += feature(0);
        c += p(i);
        patch(probed_site, "\xcc", 1);
        c += p(i) + probed(0);
        patch(probed_site, &old, 1);
        d += stepped(i);
        e += oops(i);
        /* while the probe is in place its byte must be there and after that be gone */
        odd += probed_site[0] != 0x90 || memcmp((void *)feature, saved, 5);
    }
    printf("plain %ld, patched %ld, probed %ld, stepped %ld, oops %ld\n", a, b, c, d, e);
    /* Virtual machines sometimes report a step as another trap. */
    printf("traps and steps %ld, illegal %ld, faults %ld, odd %s\n", traps + steps, ills, segvs, odd > 20 ? "many" : "few");
    return 0;
}
