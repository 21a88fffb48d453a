// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -fno-ipa-ra -Wall -o scangc scangc.c */
/* A conservative mark-and-sweep collector finds its roots in registers and on the raw stack and must never free a live tree. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CELLS = 16384 };
typedef struct cell { struct cell *l, *r; uint64_t val, live; } cell;
static cell *heap, *freelist;
static char *stack_top;
static long collections, reclaimed;

static void mark(uintptr_t p)
{
    while (p >= (uintptr_t)heap && p < (uintptr_t)(heap + CELLS)) {
        cell *c = heap + (p - (uintptr_t)heap) / sizeof *c;
        if (c->live != 1)
            return;
        c->live = 2;
        mark((uintptr_t)c->l);
        p = (uintptr_t)c->r;
    }
}

static void __attribute__((noinline)) scan(void)
{
    for (uintptr_t *p = __builtin_frame_address(0); (char *)p < stack_top; p++)
        mark(*p);
}

static void __attribute__((noinline)) collect(void)
{
    __builtin_unwind_init(); /* spill all callee-saved registers */
    scan();
    freelist = NULL;
    for (int i = CELLS; i-- > 0;) {
        if (heap[i].live == 1)
            reclaimed++;
        if (heap[i].live == 2) {
            heap[i].live = 1;
        } else {
            memset(&heap[i], 0xdb, sizeof heap[i]);
            heap[i].live = 0;
            heap[i].l = freelist;
            freelist = &heap[i];
        }
    }
    collections++;
}

static cell *__attribute__((noinline)) cons(cell *l, cell *r, uint64_t v)
{
    if (!freelist)
        collect();
    if (!freelist) {
        puts("heap exhausted");
        exit(1);
    }
    cell *c = freelist;
    freelist = c->l;
    *c = (cell){ l, r, v, 1 };
    return c;
}

static cell *__attribute__((noinline)) build(int d, uint64_t v)
{
    if (d == 0)
        return cons(NULL, NULL, v);
    cell *l = build(d - 1, 2 * v);
    cell *r = build(d - 1, 2 * v + 1);
    return cons(l, r, v);
}

static uint64_t __attribute__((noinline)) sum(const cell *c)
{
    return c ? c->val + 3 * sum(c->l) + 5 * sum(c->r) : 1;
}

int main(void)
{
    pthread_attr_t a;
    void *lo;
    size_t n;
    pthread_getattr_np(pthread_self(), &a);
    pthread_attr_getstack(&a, &lo, &n);
    stack_top = (char *)lo + n - sizeof(void *);
    stack_top -= (uintptr_t)stack_top % sizeof(void *);
    heap = mmap(NULL, CELLS * sizeof *heap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    collect();
    cell *keep = build(10, 1); /* held by this frame only */
    uint64_t want = sum(keep), bad = 0, total = 0;
    for (int i = 0; i < 9000; i++) {
        total += sum(build(9, i));
        if (i % 16 == 0)
            bad += sum(keep) != want;
    }
    printf("kept tree damaged %d times, total %llx\n", (int)bad, (unsigned long long)total);
    printf("collections %s, reclaimed %s\n", collections > 50 ? "many" : "few", reclaimed > 1000000 ? "most" : "little");
    return 0;
}
