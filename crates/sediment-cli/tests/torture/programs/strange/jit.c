// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o jit jit.c */
/* A small just-in-time compiler writes through one mapping of a memfd, runs through another, and re-uses the same code addresses for new functions. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 512, SLOT = 64 };
static unsigned char *w, *x;
static long helper_calls;

static uint32_t __attribute__((noinline)) helper(uint32_t a)
{
    helper_calls++;
    return a * 2654435761u;
}

/* f(a) = helper(prev(a) + k), prev being the slot before */
static void emit(int slot, uint32_t k)
{
    unsigned char b[SLOT], *p = b;
    int32_t rel;
    memset(b, 0xcc, SLOT);
    memcpy(p, "\x55\x48\x89\xe5", 4), p += 4; /* push rbp; mov rbp,rsp */
    if (slot % 8) {
        *p++ = 0xe8; /* call rel32 */
        rel = -SLOT - (int32_t)(p + 4 - b);
        memcpy(p, &rel, 4), p += 4;
        memcpy(p, "\x89\xc7", 2), p += 2; /* mov edi,eax */
    }
    memcpy(p, "\x81\xc7", 2), memcpy(p + 2, &k, 4), p += 6; /* add edi,k */
    uint64_t h = (uintptr_t)helper;
    memcpy(p, "\x48\xb8", 2), memcpy(p + 2, &h, 8), p += 10; /* mov rax,helper */
    if (slot % 3 == 0)
        memcpy(p, "\x5d\xff\xe0", 3); /* pop rbp; jmp rax */
    else
        memcpy(p, "\xff\xd0\x5d\xc3", 4); /* call rax; pop rbp; ret */
    memcpy(w + slot * SLOT, b, SLOT);
}

int main(void)
{
    int fd = memfd_create("jit", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, SLOTS * SLOT))
        return 1;
    w = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    x = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (w == MAP_FAILED || x == MAP_FAILED) {
        puts("skip: executable memory not allowed");
        return 77;
    }
    uint32_t acc = 1, seed = 7;
    long changed = 0;
    for (int gen = 0; gen < 16000; gen++) {
        for (int s = 0; s < SLOTS; s++)
            if (gen == 0 || (s + gen) % 5 == 0) {
                seed = seed * 1664525 + 1013904223;
                emit(s, seed);
            }
        unsigned char copy[SLOT];
        memcpy(copy, x + gen % SLOTS * SLOT, SLOT);
        for (int s = 0; s < SLOTS; s += 3)
            acc += ((uint32_t(*)(uint32_t))(void *)(x + s * SLOT))(acc);
        changed += memcmp(copy, w + gen % SLOTS * SLOT, SLOT) != 0;
        if (gen % 100 == 99) { /* move the executable view */
            munmap(x, SLOTS * SLOT);
            x = mmap(gen % 200 == 99 ? x : NULL, SLOTS * SLOT, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        }
    }
    printf("result %08x, helper calls %ld, code changed %ld\n", acc, helper_calls, changed);
    return 0;
}
