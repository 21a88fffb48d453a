// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Runs a program; prints its wall time in milliseconds, and how often it gave its processor away.
//   timed PROGRAM ARGUMENT...
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int count, char **words) {
    double begun = now();
    pid_t process;
    if (count < 2 || posix_spawn(&process, words[1], 0, 0, words + 1, environ)) return 127;
    int status;
    struct rusage usage;
    wait4(process, &status, 0, &usage);
    fprintf(stderr, "took %.2f %ld\n", now() - begun, usage.ru_nvcsw);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
