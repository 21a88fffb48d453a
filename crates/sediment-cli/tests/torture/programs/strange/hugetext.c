// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o hugetext hugetext.c */
/* Moves its own hot text to anonymous memory and back while it is in use, protects it and loads it lazily on fault, copies code below 2 GiB, and checks 128 MiB of .bss, fixed maps, DONTFORK and WIPEONFORK. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { HOT = 4096 * 4 };
static char bss[128 << 20];

/* four pages of functions that call across pages */
extern char hot_begin[];
long hot(long n);
__asm__(".section .hot,\"ax\",@progbits\n.p2align 12\nhot_begin:\n"
        ".globl hot\n.type hot,@function\nhot: push %rbx\nmov %rdi,%rbx\nxor %eax,%eax\n1: call hot2\ndec %rbx\njnz 1b\npop %rbx\nret\n.size hot,.-hot\n.p2align 12\n"
        ".type hot2,@function\nhot2: add %rbx,%rax\njmp hot3\n.size hot2,.-hot2\n.p2align 12\n"
        ".type hot3,@function\nhot3: lea 1(%rax,%rax),%rax\ncall hot4\nret\n.size hot3,.-hot3\n.p2align 12\n"
        ".type hot4,@function\nhot4: rol $5,%rax\nret\n.size hot4,.-hot4\n.p2align 12\n.text\n");

static volatile int exec_faults;
static void segv(int sig, siginfo_t *si, void *c)
{
    (void)sig;
    char *page = (char *)((uintptr_t)si->si_addr & ~4095ul);
    if (page < hot_begin || page >= hot_begin + HOT || (uintptr_t)si->si_addr != (uintptr_t)((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP])
        _exit(9);
    exec_faults++;
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static int forked(volatile int *a, int want)
{
    pid_t p = fork();
    int st;
    if (p == 0)
        _exit(*a == want ? 3 : 4);
    waitpid(p, &st, 0);
    return st;
}

int main(void)
{
    char *orig = malloc(HOT);
    memcpy(orig, hot_begin, HOT);
    long want = hot(200), bad = 0, low = 0, changed = 0;
    sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = segv, .sa_flags = SA_SIGINFO }, NULL);
    for (int i = 0; i < 1500; i++) {
        /* as text remappers for huge pages do: copy, then move over the old text */
        char *m = mmap(NULL, HOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(m, i % 2 ? hot_begin : orig, HOT);
        mprotect(m, HOT, PROT_READ | PROT_EXEC);
        if (mremap(m, HOT, HOT, MREMAP_MAYMOVE | MREMAP_FIXED, hot_begin) != hot_begin)
            return 1;
        bad += hot(200) != want;
        changed += memcmp(hot_begin, orig, HOT) != 0;
        /* lazy text: no page runs before it faulted */
        mprotect(hot_begin, HOT, PROT_NONE);
        bad += hot(200) != want;
        if (i % 5 == 0) { /* a private copy below 2 GiB */
            m = mmap(NULL, HOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
            if (m == MAP_FAILED)
                return 1;
            memcpy(m, hot_begin, HOT);
            mprotect(m, HOT, PROT_READ | PROT_EXEC);
            low += (uintptr_t)m < 1ul << 31;
            bad += ((long (*)(long))(void *)m)(200) != want;
            munmap(m, HOT);
        }
    }
    printf("wrong %ld, changed %ld, faults %d, low %ld\n", bad, changed, exec_faults, low);
    signal(SIGSEGV, SIG_DFL);
    long s = 0;
    for (size_t i = 0; i < sizeof bss; i += 65536)
        s += ++bss[i];
    /* a gigabyte in one place, replaced piece by piece */
    size_t giga = 1ul << 30;
    char *big = mmap(NULL, giga, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long placed = 0;
    for (size_t o = 0; o < giga; o += giga / 256) {
        placed += mmap(big + o, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == big + o;
        placed += mmap(big + o + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED;
        big[o] = 1;
    }
    munmap(big, giga);
    int aligned = 0;
    for (int a = 12; a < 28; a++) {
        void *p = NULL;
        aligned += posix_memalign(&p, 1ul << a, 100) == 0 && (uintptr_t)p % (1ul << a) == 0;
        free(p);
    }
    printf("bss %ld, placed %ld, aligned %d\n", s, placed, aligned);
    fflush(stdout);
    int *keep = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *wipe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *drop = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *keep = *wipe = *drop = 6;
    madvise(wipe, 4096, MADV_WIPEONFORK);
    madvise(drop, 4096, MADV_DONTFORK);
    long r[3] = { 0 };
    for (int i = 0; i < 40; i++) {
        r[0] += forked(keep, 6);
        r[1] += forked(wipe, 0);
        r[2] += forked(drop, 6) & 127;
    }
    printf("kept %ld, wiped %ld, dropped %ld\n", r[0] / 40, r[1] / 40, r[2] / 40);
    return 0;
}
