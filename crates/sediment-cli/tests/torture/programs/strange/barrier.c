// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o barrier barrier.c */
/* A generational heap finds dirty pages with mprotect and SIGSEGV, and each epoch must see exactly the pages it wrote, each fault from its own text. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 256, EPOCHS = 700 };
extern char __executable_start, etext;
static char *heap;
static unsigned char dirty[PAGES];
static volatile int faults, odd;

static void segv(int sig, siginfo_t *si, void *ctx)
{
    (void)sig;
    greg_t *g = ((ucontext_t *)ctx)->uc_mcontext.gregs;
    uintptr_t off = (uintptr_t)si->si_addr - (uintptr_t)heap;
    if (off >= PAGES * 4096u)
        _exit(9);
    char *pc = (char *)g[REG_RIP];
    odd += si->si_code != SEGV_ACCERR || g[REG_TRAPNO] != 14 || !(g[REG_ERR] & 2) || pc < &__executable_start || pc > &etext;
    odd += (uintptr_t)g[REG_CR2] != (uintptr_t)si->si_addr;
    dirty[off / 4096] = 1;
    faults++;
    mprotect(heap + off / 4096 * 4096, 4096, PROT_READ | PROT_WRITE);
}

static void __attribute__((noinline)) store(uint32_t at, uint32_t v) { *(volatile uint32_t *)(heap + at % (PAGES * 4096) / 4 * 4) = v; }

int main(void)
{
    heap = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = segv, .sa_flags = SA_SIGINFO }, NULL);
    uint32_t rng = 1, x = 0;
    long wrong = 0;
    for (int e = 0; e < EPOCHS; e++) {
        unsigned char want[PAGES] = { 0 };
        for (int i = 0; i < 60; i++) {
            rng = rng * 1664525 + 1013904223;
            uint32_t at = rng >> 4;
            want[at % (PAGES * 4096) / 4096] = 1;
            store(at, rng);
        }
        wrong += memcmp(want, dirty, PAGES) != 0;
        memset(dirty, 0, PAGES);
        mprotect(heap, PAGES * 4096, PROT_READ);
    }
    for (int i = 0; i < PAGES * 1024; i++)
        x = x * 33 + ((uint32_t *)heap)[i];
    printf("epochs wrong %ld, faults %d, odd %d, heap %08x\n", wrong, faults, odd, x);
    return 0;
}
