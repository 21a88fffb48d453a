// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o robust robust.c */
/* Robust shared mutexes outlive killed owners, threads are cancelled in the middle of a spin, and the program ends with status 5 from a thread long after main has left. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { pthread_mutex_t m; long value; atomic_int locked; } *sh;
static long cleaned, cancelled, dead_threads;
static pthread_mutex_t pi, own;
static pthread_key_t key;
static long counter;
static atomic_long atomic_counter;

static void clean(void *p) { ++*(long *)p; }
static long __attribute__((noinline)) step(long x) { return x * 3 + 1; }

static void *spinner(void *arg)
{
    volatile long x = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, &cleaned);
    atomic_store((atomic_int *)arg, 1);
    for (;;)
        x = step(x);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *leaver(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&own); /* dies with it */
    return NULL;
}

static void *adder(void *arg)
{
    (void)arg;
    pthread_setspecific(key, &cleaned);
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&pi);
        counter = step(counter) - 2 * counter;
        pthread_mutex_unlock(&pi);
        atomic_fetch_add(&atomic_counter, step(0));
    }
    return NULL;
}

static void *last(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL); /* the main thread */
    long x = 0;
    for (int i = 0; i < 3000000; i++)
        x = step(x);
    printf("main is gone, worker done %lx\n", x);
    exit(5);
}

int main(void)
{
    sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a, b;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&own, &a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&sh->m, &a);
    pthread_mutexattr_init(&b);
    pthread_mutexattr_setprotocol(&b, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&pi, &b);
    pthread_key_create(&key, clean);
    long owner_dead = 0, killed = 0;
    for (int i = 0; i < 240; i++) {
        sh->locked = 0;
        pid_t p = fork();
        if (p == 0) {
            pthread_mutex_lock(&sh->m);
            sh->value++;
            sh->locked = 1;
            for (;;)
                pause();
        }
        while (!sh->locked)
            usleep(100);
        int st;
        kill(p, SIGKILL);
        waitpid(p, &st, 0);
        killed += WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL;
        if (pthread_mutex_lock(&sh->m) == EOWNERDEAD) {
            owner_dead++;
            pthread_mutex_consistent(&sh->m);
        }
        pthread_mutex_unlock(&sh->m);

        atomic_int up = 0;
        pthread_t t;
        void *r;
        pthread_create(&t, NULL, spinner, &up);
        while (!up)
            usleep(50);
        pthread_cancel(t);
        pthread_join(t, &r);
        cancelled += r == PTHREAD_CANCELED;

        pthread_create(&t, NULL, leaver, NULL);
        pthread_join(t, NULL);
        if (pthread_mutex_lock(&own) == EOWNERDEAD) {
            dead_threads++;
            pthread_mutex_consistent(&own);
        }
        pthread_mutex_unlock(&own);
    }
    printf("killed %ld, owner dead %ld, value %ld, cancelled %ld, cleaned %ld, dead threads %ld\n", killed, owner_dead, sh->value, cancelled, cleaned, dead_threads);
    pthread_t t[6];
    for (int i = 0; i < 6; i++)
        pthread_create(&t[i], NULL, adder, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    printf("counter %ld, atomic %ld, cleaned %ld\n", counter, (long)atomic_counter, cleaned);
    static pthread_t me;
    me = pthread_self();
    pthread_create(&t[0], NULL, last, &me);
    pthread_exit(NULL);
}
