// SPDX-License-Identifier: MIT OR Apache-2.0
// Consumes the number of nanoseconds of CPU time in PLANTED before main: a change of known size in an otherwise identical program.

#include <stdlib.h>
#include <time.h>

static long long taken(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((constructor)) static void planted(void) {
    const char *text = getenv("PLANTED");
    long long end = taken() + (text ? atoll(text) : 0);
    while (taken() < end)
        for (volatile int i = 0; i < 100; i++) {}
}
