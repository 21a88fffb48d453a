// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o loops loops.c */
/* One event loop over epoll, signalfd, timerfd, eventfd, pidfd and io_uring, and O_ASYNC pipes that announce each byte by a queued real-time signal, all counted exactly. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 120, ENTRIES = 8 };
static struct ring { int fd; unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask; struct io_uring_sqe *sqes; struct io_uring_cqe *cqes; } ring;

static int ring_init(void)
{
    struct io_uring_params p = { 0 };
    ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring.fd < 0)
        return 0;
    char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof *ring.cqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
    ring.sqes = mmap(NULL, p.sq_entries * sizeof *ring.sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
    ring.sq_tail = (void *)(sq + p.sq_off.tail), ring.sq_mask = (void *)(sq + p.sq_off.ring_mask), ring.sq_array = (void *)(sq + p.sq_off.array);
    ring.cq_head = (void *)(cq + p.cq_off.head), ring.cq_tail = (void *)(cq + p.cq_off.tail), ring.cq_mask = (void *)(cq + p.cq_off.ring_mask);
    ring.cqes = (void *)(cq + p.cq_off.cqes);
    return sq != MAP_FAILED && cq != MAP_FAILED;
}

static void queue(int op, int fd, void *buf, unsigned n, uint64_t data)
{
    unsigned t = *ring.sq_tail, i = t & *ring.sq_mask;
    memset(&ring.sqes[i], 0, sizeof ring.sqes[i]);
    ring.sqes[i] = (struct io_uring_sqe){ .opcode = op, .fd = fd, .addr = (uintptr_t)buf, .len = n, .off = -1, .user_data = data };
    ring.sq_array[i] = i;
    __atomic_store_n(ring.sq_tail, t + 1, __ATOMIC_RELEASE);
}

static long reap(void)
{
    long s = 0;
    while (*ring.cq_head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) {
        struct io_uring_cqe *c = &ring.cqes[*ring.cq_head & *ring.cq_mask];
        s += c->user_data * 10 + c->res;
        __atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
    }
    return s;
}

static volatile int rt_count, rt_fd, io_count;
static void on_rt(int s, siginfo_t *si, void *c)
{
    (void)s, (void)c;
    rt_count++;
    rt_fd += si->si_fd;
}
static void on_io(int s) { io_count += s == SIGIO; }
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(void)
{
    if (!ring_init()) {
        puts("skip: io_uring not available");
        return 77;
    }
    sigset_t m;
    sigemptyset(&m);
    sigaddset(&m, SIGCHLD);
    sigaddset(&m, SIGRTMIN + 2);
    sigprocmask(SIG_BLOCK, &m, NULL);
    int ep = epoll_create1(EPOLL_CLOEXEC), sfd = signalfd(-1, &m, SFD_CLOEXEC | SFD_NONBLOCK), tfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), efd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    int fds[] = { sfd, tfd, efd, ring.fd };
    for (unsigned i = 0; i < 4; i++)
        epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &(struct epoll_event){ EPOLLIN, { .u32 = i } });
    timerfd_settime(tfd, 0, &(struct itimerspec){ { 0, 2000000 }, { 0, 2000000 } }, NULL);
    int started = 0, reaped = 0, pidfds = 0;
    long queued = 0, events = 0, uring = 0, ticks = 0, codes = 0, x = 0;
    union sigval v;
    while (reaped < CHILDREN || pidfds < CHILDREN || events < 2 * CHILDREN || queued < CHILDREN || ticks < 100) {
        if (started < CHILDREN && started <= reaped + 4) {
            pid_t p = fork();
            if (p == 0)
                _exit(started % 50 + (fib(10) != 55));
            int pf = syscall(SYS_pidfd_open, p, 0);
            epoll_ctl(ep, EPOLL_CTL_ADD, pf, &(struct epoll_event){ EPOLLIN, { .u32 = 1000 + pf } });
            v.sival_int = started++;
            sigqueue(getpid(), SIGRTMIN + 2, v);
            queue(IORING_OP_NOP, -1, NULL, 0, 3);
            queue(IORING_OP_WRITE, efd, &(uint64_t){ 2 }, 8, 4);
            if (syscall(SYS_io_uring_enter, ring.fd, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0) != 2)
                return 1;
        }
        struct epoll_event e[8];
        int n = epoll_wait(ep, e, 8, 1000);
        if (n <= 0) {
            printf("unexpected epoll result, errno %d\n", n ? errno : 0);
            return 1;
        }
        for (int i = 0; i < n; i++) {
            uint64_t c;
            struct signalfd_siginfo si;
            unsigned w = e[i].data.u32;
            x += fib(8);
            if (w == 0) {
                while (read(sfd, &si, sizeof si) == sizeof si)
                    if (si.ssi_signo != SIGCHLD)
                        queued += si.ssi_int >= 0 && si.ssi_code == SI_QUEUE;
            } else if (w == 1) {
                ticks += read(tfd, &c, 8) == 8 ? c : 0;
            } else if (w == 2) {
                events += read(efd, &c, 8) == 8 && c == 1;
            } else if (w == 3) {
                uring += reap();
            } else {
                siginfo_t ci = { 0 };
                pidfds++;
                if (waitid(P_PIDFD, w - 1000, &ci, WEXITED) == 0 && ci.si_code == CLD_EXITED)
                    reaped++, codes += ci.si_status;
                close(w - 1000);
            }
        }
    }
    printf("children %d, codes %ld, queued %ld, events %ld, uring %ld, ticks %s\n", reaped, codes, queued, events, uring, ticks >= 100 ? "on time" : "missing");

    int p[2], q[2];
    if (pipe2(p, O_NONBLOCK) || pipe2(q, O_NONBLOCK))
        return 1;
    int rt = SIGRTMIN + 3;
    sigaction(rt, &(struct sigaction){ .sa_sigaction = on_rt, .sa_flags = SA_SIGINFO | SA_RESTART }, NULL);
    signal(SIGIO, on_io);
    fcntl(p[0], F_SETOWN, getpid());
    fcntl(p[0], F_SETSIG, rt);
    fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    fcntl(q[0], F_SETOWN, getpid());
    fcntl(q[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    long lost = 0;
    for (int i = 0; i < 3000; i++) {
        char c = i, d;
        int r = rt_count, o = io_count;
        if (write(p[1], &c, 1) != 1 || write(q[1], &c, 1) != 1)
            return 1;
        lost += rt_count != r + 1 || io_count != o + 1 || fib(6) != 8; /* delivered on return from write */
        if (read(p[0], &d, 1) != 1 || d != c || read(q[0], &d, 1) != 1)
            return 1;
    }
    printf("asynchronous: lost %ld, real-time %d, right descriptor %s, SIGIO %d\n", lost, rt_count, rt_fd == rt_count * p[0] ? "yes" : "no", io_count);
    return 0;
}
