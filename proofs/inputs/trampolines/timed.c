// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Runs a program; prints its wall time in milliseconds, and how often it gave its processor away.
//   timed PROGRAM ARGUMENT...
// It is recorded, too, so that its functions do not depend on the time: the C library prints a fraction by functions that its value chooses.
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

// Hundredths of a millisecond.
static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 100000 + time.tv_nsec / 10000;
}

int main(int count, char **words) {
    long begun = now();
    pid_t process;
    if (count < 2 || posix_spawn(&process, words[1], 0, 0, words + 1, environ)) return 127;
    int status;
    struct rusage usage;
    wait4(process, &status, 0, &usage);
    long took = now() - begun;
    fprintf(stderr, "took %ld.%02ld %ld\n", took / 100, took % 100, usage.ru_nvcsw);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
