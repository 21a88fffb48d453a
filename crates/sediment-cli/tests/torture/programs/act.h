// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs share: forty functions that call each other nowhere, rounds that check themselves, and one way to end.
//
//   PROGRAM ROUNDS THREADS    ROUNDS 0: until SIGTERM
//
// Prints "ready", then a line for whatever came out wrong, then "well" or "wrong". Exits with 7 if all was well.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline)) static
#define F(n) FUNCTION long f##n(long x) { __asm__ volatile(""); return x * (n % 7 + 1) + n; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19)
F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31) F(32) F(33) F(34) F(35) F(36) F(37) F(38) F(39)
static long (*const functions[])(long) = {f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18,
    f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static long act_rounds;
static int act_threads;
static volatile int act_wrong;
static volatile sig_atomic_t act_over;

static inline void expect(int truth, const char *format, ...) {
    if (truth) return;
    va_list arguments;
    va_start(arguments, format);
    if (act_wrong++ < 10) vprintf(format, arguments), putchar('\n'), fflush(stdout);
    va_end(arguments);
}

// Calls every function `times` times, and checks what it returns.
FUNCTION void work(long times) {
    for (long i = 0; i < times; i++)
        for (int k = 0; k < FUNCTIONS; k++) {
            long result = functions[k](i);
            expect(result == i * (k % 7 + 1) + k, "f%d(%ld) = %ld", k, i, result);
        }
}

static void act_end(int signal) { act_over = signal; }

// Waits for a child, through whatever interrupts, and expects this exit code.
static inline void expect_exit(pid_t child, int code) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    expect(WIFEXITED(status) && WEXITSTATUS(status) == code, "a child ended with status %x instead of %d", status, code);
}

static inline void act_begin(int count, char **arguments) {
    act_rounds = count > 1 ? atol(arguments[1]) : 1;
    act_threads = count > 2 ? atoi(arguments[2]) : 1;
    if (act_rounds == 0) signal(SIGTERM, act_end);
}

static inline int act_finish(void) {
    puts(act_wrong ? "wrong" : "well");
    fflush(stdout);
    return act_wrong ? 1 : 7;
}

static inline int act(int count, char **arguments, void (*once)(long)) {
    act_begin(count, arguments);
    puts("ready");
    fflush(stdout);
    for (long round = 0; act_rounds ? round < act_rounds : !act_over; round++) once(round);
    return act_finish();
}
