// SPDX-License-Identifier: MIT OR Apache-2.0
// A library that is preloaded into a recorder: it kills the process instead of the step with the number in KILLED_AT. A step is a call of ptrace, or
// a write at an offset, as into a process's memory. The file "killed" then says which it was.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

static void step(const char *name, long request) {
    static pid_t counted;
    static long steps;
    if (counted != getpid()) counted = getpid(), steps = 0;
    const char *at = getenv("KILLED_AT");
    if (!at || ++steps != atol(at)) return;
    int said = open("killed", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
    dprintf(said, "%s %lx", name, request);
    kill(getpid(), SIGKILL);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    long process = va_arg(rest, long), address = va_arg(rest, long), data = va_arg(rest, long);
    va_end(rest);
    step("ptrace", request);
    long (*next)(long, long, long, long) = dlsym(RTLD_NEXT, "ptrace");
    return next(request, process, address, data);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
    step("write", (long)offset);
    ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return next(file, bytes, length, offset);
}
