// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -pthread -o lazypage lazypage.c */
/* A userfaultfd pager thread fills pages on first touch, exactly once each, while a kernel access to an untouched page must fail with EFAULT. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 1024, ROUNDS = 36 };
static int uffd, stop[2];
static char *area;
static long served;

static void *pager(void *arg)
{
    (void)arg;
    static uint64_t page[512] __attribute__((aligned(4096)));
    struct pollfd p[2] = { { .fd = uffd, .events = POLLIN }, { .fd = stop[0], .events = POLLIN } };
    for (;;) {
        poll(p, 2, -1);
        if (p[1].revents)
            return NULL;
        struct uffd_msg m;
        if (read(uffd, &m, sizeof m) != sizeof m || m.event != UFFD_EVENT_PAGEFAULT)
            continue;
        uint64_t at = m.arg.pagefault.address & ~4095ull;
        for (int i = 0; i < 512; i++)
            page[i] = (at - (uintptr_t)area) / 8 + i;
        struct uffdio_copy c = { .dst = at, .src = (uintptr_t)page, .len = 4096 };
        served += ioctl(uffd, UFFDIO_COPY, &c) == 0;
    }
}

static uint64_t __attribute__((noinline)) touch(int page) { return ((volatile uint64_t *)area)[page * 512 + page % 512]; }

int main(void)
{
    uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);
    struct uffdio_api api = { .api = UFFD_API };
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) {
        puts("skip: userfaultfd not available");
        return 77;
    }
    area = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(area, PAGES * 4096, MADV_NOHUGEPAGE);
    struct uffdio_register r = { .range = { (uintptr_t)area, PAGES * 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    if (ioctl(uffd, UFFDIO_REGISTER, &r) || pipe(stop)) {
        puts("skip: cannot register");
        return 77;
    }
    pthread_t t;
    pthread_create(&t, NULL, pager, NULL);
    uint64_t sum = 0;
    int efault = 0, pp[2];
    if (pipe(pp))
        return 1;
    for (int k = 0; k < ROUNDS; k++) {
        efault += write(pp[1], area + 4096 * k, 1) == -1 && errno == EFAULT;
        for (int i = 0; i < PAGES; i++)
            sum += touch(i * 37 % PAGES) * (k + 1);
        madvise(area, PAGES * 4096, MADV_DONTNEED);
    }
    if (write(stop[1], "x", 1) != 1)
        return 1;
    pthread_join(t, NULL);
    printf("sum %llu, pages served %ld, efault %d\n", (unsigned long long)sum, served, efault);
    return 0;
}
