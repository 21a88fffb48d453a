// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o eintr eintr.c */
/* Blocking calls must fail with EINTR exactly when a handler without SA_RESTART ran, restart when they should, and not notice stops, continues or ignored signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int ticks, feed_fd = -1, feed_at;
static void tick(int s)
{
    (void)s;
    if (++ticks == feed_at && feed_fd >= 0 && write(feed_fd, "x", 1) != 1)
        _exit(3);
}

static void timer(int us)
{
    struct itimerval it = { { 0, us }, { 0, us } };
    setitimer(ITIMER_REAL, &it, NULL);
}

static void handler(int flags) { sigaction(SIGALRM, &(struct sigaction){ .sa_handler = tick, .sa_flags = flags }, NULL); }

static int __attribute__((noinline)) blocked_call(int k, int fd, int ep, sem_t *sem)
{
    char b;
    fd_set s;
    struct timespec five = { 5, 0 }, rem = { 0, 0 };
    struct pollfd pf = { .fd = fd, .events = POLLIN };
    struct epoll_event ev;
    sigset_t none;
    sigemptyset(&none);
    FD_ZERO(&s);
    FD_SET(fd, &s);
    switch (k) {
    case 0: return nanosleep(&five, &rem) == -1 && errno == EINTR && rem.tv_sec == 4;
    case 1: return read(fd, &b, 1) == -1 && errno == EINTR;
    case 2: return poll(&pf, 1, 5000) == -1 && errno == EINTR;
    case 3: return select(fd + 1, &s, NULL, NULL, &(struct timeval){ 5, 0 }) == -1 && errno == EINTR;
    case 4: return pause() == -1 && errno == EINTR;
    case 5: return sem_wait(sem) == -1 && errno == EINTR;
    case 6: return epoll_wait(ep, &ev, 1, 5000) == -1 && errno == EINTR;
    case 7: return clock_nanosleep(CLOCK_MONOTONIC, 0, &five, &rem) == EINTR && rem.tv_sec == 4;
    case 8: return ppoll(&pf, 1, &five, &none) == -1 && errno == EINTR;
    case 9: return sigsuspend(&none) == -1 && errno == EINTR;
    default: return wait(NULL) == -1 && errno == (k == 10 ? EINTR : 0);
    }
}

int main(void)
{
    int p[2], ep = epoll_create1(0);
    sem_t sem;
    sem_init(&sem, 0, 0);
    if (pipe(p))
        return 1;
    signal(SIGWINCH, SIG_IGN);
    pid_t idle = fork();
    if (idle == 0) {
        alarm(20);
        for (;;)
            pause();
    }
    long got[11] = { 0 };
    handler(0);
    for (int r = 0; r < 10; r++)
        for (int k = 0; k < 11; k++) {
            timer(2000);
            got[k] += blocked_call(k, p[0], ep, &sem);
            setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
        }
    printf("EINTR:");
    for (int k = 0; k < 11; k++)
        printf(" %ld", got[k]);
    kill(idle, SIGKILL);
    waitpid(idle, NULL, 0);

    /* SA_RESTART: read goes on until the fifth tick feeds it, poll and nanosleep do not */
    handler(SA_RESTART);
    int restarted = 0, still = 0;
    for (int r = 0; r < 10; r++) {
        char b = 0;
        ticks = 0, feed_at = 5, feed_fd = p[1];
        timer(1000);
        restarted += read(p[0], &b, 1) == 1 && b == 'x' && ticks >= 5;
        feed_fd = -1;
        still += blocked_call(0, p[0], ep, &sem) + blocked_call(2, p[0], ep, &sem) + blocked_call(6, p[0], ep, &sem);
        timer(0);
    }
    printf("\nrestarted %d, still interrupted %s\n", restarted, still > 20 ? "often" : "rarely");

    /* nobody handles anything: no EINTR may show, though the process is stopped and continued */
    long calm = 0;
    pid_t me = getpid(), nag = fork();
    if (nag == 0) {
        for (int i = 0; i < 40; i++) {
            kill(me, SIGWINCH);
            kill(me, SIGSTOP);
            usleep(2000);
            kill(me, SIGCONT);
            usleep(2000);
        }
        _exit(0);
    }
    for (int i = 0; i < 40; i++) {
        struct timespec t = { 0, 5000000 };
        struct pollfd pf = { .fd = p[0], .events = POLLIN };
        calm += nanosleep(&t, NULL) == 0;
        calm += poll(&pf, 1, 1) == 0;
        calm += select(0, NULL, NULL, NULL, &(struct timeval){ 0, 1000 }) == 0;
    }
    int st;
    calm += waitpid(nag, &st, 0) == nag && st == 0;
    printf("undisturbed %ld\n", calm);
    return 0;
}
