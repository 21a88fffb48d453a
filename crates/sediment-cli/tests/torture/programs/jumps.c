// SPDX-License-Identifier: MIT OR Apache-2.0
// A clock that jumps: loaded before the C library, it moves the time of day an hour back and forth at each look.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static time_t jump(void) { static volatile int looks; return __sync_fetch_and_add(&looks, 1) & 1 ? 3600 : -3600; }
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int result = syscall(SYS_gettimeofday, time, zone);
    time->tv_sec += jump();
    return result;
}
time_t time(time_t *place) {
    struct timespec at;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &at);
    time_t now = at.tv_sec + jump();
    if (place) *place = now;
    return now;
}
