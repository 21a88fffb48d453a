// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o redzone redzone.c */
/* Leaf functions keep values in the red zone and in vector registers while another thread sends them exactly 3000 queued signals whose handler uses deep stack, x87 and vectors. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 3000 };
/* fills 16 red-zone words and two vectors, spins, adds them all up */
uint64_t leaf(uint64_t seed, uint64_t spins);
__asm__(".text\n.globl leaf\n.type leaf,@function\nleaf:\n"
        "mov $-16,%rcx\n1: lea (%rdi,%rcx),%rax\nmov %rax,(%rsp,%rcx,8)\ninc %rcx\njnz 1b\n"
        "movq %rdi,%xmm15\nmovq %rdi,%xmm3\n"
        "2: dec %rsi\njnz 2b\n"
        "xor %eax,%eax\nmov $-16,%rcx\n3: add (%rsp,%rcx,8),%rax\ninc %rcx\njnz 3b\n"
        "paddq %xmm3,%xmm15\nmovq %xmm15,%rdx\nadd %rdx,%rax\nret\n.size leaf,.-leaf\n");

static atomic_long got, done;
static atomic_int ready;

static long __attribute__((noinline)) mess(int d)
{
    volatile long double x = d * 1.5L;
    volatile char pad[512];
    memset((char *)pad, 0xee, sizeof pad);
    __asm__ volatile("pcmpeqd %%xmm15,%%xmm15\npcmpeqd %%xmm3,%%xmm3\nstd\ncld" ::: "xmm15", "xmm3");
    return d ? mess(d - 1) + (long)x : pad[5];
}

static void handler(int sig, siginfo_t *si, void *c)
{
    (void)sig;
    (void)c;
    if (si->si_code == SI_QUEUE)
        got++;
    if (mess(4) == 12345)
        done = 2;
}

static void *worker(void *arg)
{
    long *bad = arg;
    ready++;
    for (uint64_t i = 0; !done; i++)
        *bad += leaf(i, 300) != 16 * i - 136 + 2 * i;
    return NULL;
}

int main(void)
{
    sigaction(SIGRTMIN, &(struct sigaction){ .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART }, NULL);
    long bad[2] = { 0, 0 };
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, worker, &bad[i]);
    while (ready < 2)
        sched_yield();
    for (long i = 0; i < SIGNALS; i++) {
        pthread_sigqueue(t[i % 2], SIGRTMIN, (union sigval){ .sival_int = i });
        usleep(100);
    }
    while (got < SIGNALS)
        usleep(1000);
    done = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("signals %ld, red zones damaged %ld\n", (long)got, bad[0] + bad[1]);
    return 0;
}
