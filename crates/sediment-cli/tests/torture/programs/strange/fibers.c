// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o fibers fibers.c */
/* Hand-written fibers on painted 8-KiB stacks hop between two threads, ucontext generators nest, and the unused half of each stack must keep its paint. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 200, SIZE = 8192, ROUNDS = 2400 };
void swtch(void **save, void *to);
__asm__(".text\n.globl swtch\n.type swtch,@function\nswtch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size swtch,.-swtch");

static struct fiber { void *sp, *home; unsigned long acc; unsigned char *stack; } fib[FIBERS];

static void __attribute__((noinline)) yield(struct fiber *f) { void *home = f->home; swtch(&f->sp, home); }

static unsigned long __attribute__((noinline)) walk(struct fiber *f, int d)
{
    if (d == 0) {
        yield(f); /* may come back on another thread */
        return 1;
    }
    unsigned long a = walk(f, d - 1);
    return a * 3 + d;
}

static void body(struct fiber *f)
{
    for (;;) {
        f->acc = f->acc * 7 + walk(f, 8);
        f->acc ^= f->acc >> 13;
    }
}

static void resume(struct fiber *f) { swtch(&f->home, f->sp); }

static void boot(void);
static struct fiber *starting;
static void boot(void) { struct fiber *f = starting; yield(f); body(f); }

static void *runner(void *arg)
{
    (void)arg;
    for (int i = 0; i < FIBERS; i++)
        resume(&fib[i]);
    return NULL;
}

static ucontext_t uc_main, uc_gen[2];
static unsigned long produced;
static void gen1(void)
{
    for (int i = 1;; i++) {
        produced += i;
        swapcontext(&uc_gen[1], &uc_gen[0]);
    }
}
static void gen0(void)
{
    for (;;) {
        swapcontext(&uc_gen[0], &uc_gen[1]);
        swapcontext(&uc_gen[0], &uc_main);
    }
}

int main(void)
{
    unsigned char *mem = mmap(NULL, (size_t)FIBERS * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mem, 0xa5, (size_t)FIBERS * SIZE);
    for (int i = 0; i < FIBERS; i++) {
        fib[i].stack = mem + (size_t)i * SIZE;
        void **sp = (void **)(fib[i].stack + SIZE - 16);
        *sp = NULL;
        *--sp = (void *)boot;
        for (int k = 0; k < 6; k++)
            *--sp = NULL;
        fib[i].sp = sp;
        fib[i].acc = i;
        starting = &fib[i];
        resume(&fib[i]);
    }
    for (int r = 0; r < ROUNDS; r++) {
        if (r % 4 == 0) {
            pthread_t t;
            pthread_create(&t, NULL, runner, NULL);
            pthread_join(t, NULL);
        } else {
            runner(NULL);
        }
    }
    unsigned long x = 0;
    int spoilt = 0;
    for (int i = 0; i < FIBERS; i++) {
        x = x * 31 + fib[i].acc;
        for (int k = 0; k < SIZE / 2; k++)
            if (fib[i].stack[k] != 0xa5) {
                spoilt++;
                break;
            }
    }
    printf("fibers %lx, stacks spoilt %d\n", x, spoilt);
    void (*fn[2])(void) = { gen0, gen1 };
    for (int i = 0; i < 2; i++) {
        getcontext(&uc_gen[i]);
        uc_gen[i].uc_stack.ss_sp = malloc(65536);
        uc_gen[i].uc_stack.ss_size = 65536;
        makecontext(&uc_gen[i], fn[i], 0);
    }
    for (int i = 0; i < 80000; i++)
        swapcontext(&uc_main, &uc_gen[0]);
    printf("generators %lu\n", produced);
    return 0;
}
