/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that works until SIGTERM, and then says if all went well.
 *   attached threads     two threads call functions, while the first one waits for them; a timer's signals arrive
 *   attached registers   the only thread has known values in all registers most of the time
 *   attached sleeps      the only thread sleeps most of the time
 *   attached vectors     the only thread has known values in all vectors of SVE most of the time
 *   attached both        one thread as for registers, two threads that sleep
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define FUNCTION __attribute__((noinline, noclone))

static volatile int over;
static volatile long work, rings;
static long wrong, interrupted;

FUNCTION long one(long x) { work += x; return x + 1; }
FUNCTION long three(long x) { work += x; return x + 2; }
static long (*volatile chosen)(long) = one;
FUNCTION long turn(long x) {
    x = chosen(x);
    for (int i = 0; i < 3; i++)
        x = three(x);
    return x;
}

static void end(int signal) { over = 1; }
FUNCTION long rang(long x) { return x + 1; }
static void ring(int signal) { rings = rang(rings); }

/* Fills x0 to x30 and v0 to v31, counts x28 down, and stores what the registers have then, and the flags. */
void spin(const uint64_t *before, uint64_t *after);
__asm__(".globl spin\n.type spin, %function\nspin:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, -176]!\n.cfi_def_cfa_offset 176\n.cfi_offset 29, -176\n.cfi_offset 30, -168\n"
        "stp x19, x20, [sp, 16]\n stp x21, x22, [sp, 32]\n stp x23, x24, [sp, 48]\n stp x25, x26, [sp, 64]\n stp x27, x28, [sp, 80]\n"
        "stp d8, d9, [sp, 96]\n stp d10, d11, [sp, 112]\n stp d12, d13, [sp, 128]\n stp d14, d15, [sp, 144]\n str x1, [sp, 160]\n"
        "mov x30, x0\n add x0, x0, 256\n"
        "ldp q0, q1, [x0]\n ldp q2, q3, [x0, 32]\n ldp q4, q5, [x0, 64]\n ldp q6, q7, [x0, 96]\n ldp q8, q9, [x0, 128]\n"
        "ldp q10, q11, [x0, 160]\n ldp q12, q13, [x0, 192]\n ldp q14, q15, [x0, 224]\n ldp q16, q17, [x0, 256]\n ldp q18, q19, [x0, 288]\n"
        "ldp q20, q21, [x0, 320]\n ldp q22, q23, [x0, 352]\n ldp q24, q25, [x0, 384]\n ldp q26, q27, [x0, 416]\n ldp q28, q29, [x0, 448]\n"
        "ldp q30, q31, [x0, 480]\n ldr x0, [x30, 248]\n msr nzcv, x0\n"
        "ldp x0, x1, [x30]\n ldp x2, x3, [x30, 16]\n ldp x4, x5, [x30, 32]\n ldp x6, x7, [x30, 48]\n ldp x8, x9, [x30, 64]\n"
        "ldp x10, x11, [x30, 80]\n ldp x12, x13, [x30, 96]\n ldp x14, x15, [x30, 112]\n ldp x16, x17, [x30, 128]\n ldp x18, x19, [x30, 144]\n"
        "ldp x20, x21, [x30, 160]\n ldp x22, x23, [x30, 176]\n ldp x24, x25, [x30, 192]\n ldp x26, x27, [x30, 208]\n ldp x28, x29, [x30, 224]\n"
        "ldr x30, [x30, 240]\n"
        "1: sub x28, x28, 1\n cbnz x28, 1b\n"
        "ldr x28, [sp, 160]\n"
        "stp x0, x1, [x28]\n stp x2, x3, [x28, 16]\n stp x4, x5, [x28, 32]\n stp x6, x7, [x28, 48]\n stp x8, x9, [x28, 64]\n"
        "stp x10, x11, [x28, 80]\n stp x12, x13, [x28, 96]\n stp x14, x15, [x28, 112]\n stp x16, x17, [x28, 128]\n stp x18, x19, [x28, 144]\n"
        "stp x20, x21, [x28, 160]\n stp x22, x23, [x28, 176]\n stp x24, x25, [x28, 192]\n stp x26, x27, [x28, 208]\n stp xzr, x29, [x28, 224]\n"
        "mrs x0, nzcv\n stp x30, x0, [x28, 240]\n add x0, x28, 256\n"
        "stp q0, q1, [x0]\n stp q2, q3, [x0, 32]\n stp q4, q5, [x0, 64]\n stp q6, q7, [x0, 96]\n stp q8, q9, [x0, 128]\n"
        "stp q10, q11, [x0, 160]\n stp q12, q13, [x0, 192]\n stp q14, q15, [x0, 224]\n stp q16, q17, [x0, 256]\n stp q18, q19, [x0, 288]\n"
        "stp q20, q21, [x0, 320]\n stp q22, q23, [x0, 352]\n stp q24, q25, [x0, 384]\n stp q26, q27, [x0, 416]\n stp q28, q29, [x0, 448]\n"
        "stp q30, q31, [x0, 480]\n"
        "ldp d8, d9, [sp, 96]\n ldp d10, d11, [sp, 112]\n ldp d12, d13, [sp, 128]\n ldp d14, d15, [sp, 144]\n"
        "ldp x19, x20, [sp, 16]\n ldp x21, x22, [sp, 32]\n ldp x23, x24, [sp, 48]\n ldp x25, x26, [sp, 64]\n ldp x27, x28, [sp, 80]\n"
        "ldp x29, x30, [sp], 176\n ret\n.cfi_endproc\n.size spin, .-spin\n");

FUNCTION void check_registers(long number) {
    enum { WORDS = 32 + 64, TIMES = 2000000 };
    uint64_t before[WORDS], after[WORDS];
    for (int i = 0; i < WORDS; i++)
        before[i] = UINT64_C(0x123456789abcdef1) * (i + 1) + number;
    before[28] = TIMES;
    before[31] = number % 16 << 28;
    spin(before, after);
    before[28] = 0;
    if (memcmp(before, after, sizeof before))
        wrong++;
}

/* The same with z0 to z31, p0 to p15, and ffr; a number of loops is given. */
void spin_vectors(const uint8_t *before, uint8_t *after, long times);
#define NUMBERS "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"
#define FURTHER "16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31"
__asm__(".arch_extension sve\n.globl spin_vectors\n.type spin_vectors, %function\nspin_vectors:\n"
        ".cfi_startproc\n stp d8, d9, [sp, -64]!\n.cfi_def_cfa_offset 64\n stp d10, d11, [sp, 16]\n stp d12, d13, [sp, 32]\n stp d14, d15, [sp, 48]\n"
        "addvl x3, x0, 31\n addvl x3, x3, 1\n addvl x4, x1, 31\n addvl x4, x4, 1\n"
        "ldr p0, [x3, 16, mul vl]\n wrffr p0.b\n"
        ".irp n, " NUMBERS ", " FURTHER "\n ldr z\\n, [x0, \\n, mul vl]\n .endr\n"
        ".irp n, " NUMBERS "\n ldr p\\n, [x3, \\n, mul vl]\n .endr\n"
        "1: sub x2, x2, 1\n cbnz x2, 1b\n"
        ".irp n, " NUMBERS ", " FURTHER "\n str z\\n, [x1, \\n, mul vl]\n .endr\n"
        ".irp n, " NUMBERS "\n str p\\n, [x4, \\n, mul vl]\n .endr\n"
        "rdffr p0.b\n str p0, [x4, 16, mul vl]\n"
        "ldp d10, d11, [sp, 16]\n ldp d12, d13, [sp, 32]\n ldp d14, d15, [sp, 48]\n ldp d8, d9, [sp], 64\n ret\n"
        ".cfi_endproc\n.size spin_vectors, .-spin_vectors\n");

FUNCTION void check_vectors(long number) {
    enum { TIMES = 2000000, LONGEST = 32 * 256 + 17 * 32 };
    static uint8_t before[LONGEST], after[LONGEST];
    for (int i = 0; i < LONGEST; i++)
        before[i] = i * 7 + number;
    memset(after, 0, LONGEST);
    /* ffr must have all of its first bits set. */
    long length;
    __asm__(".arch_extension sve\n rdvl %0, 1" : "=r"(length));
    memset(before + 32 * length + 16 * length / 8, 0xff, length / 8);
    spin_vectors(before, after, TIMES);
    if (memcmp(before, after, 32 * length + 17 * length / 8))
        wrong++;
}

// Works, and between makes a check of registers.
static void *works(void *check) {
    for (long i = 0; !over; i++) {
        if (check)
            ((void (*)(long))check)(i);
        if (turn(i) != i + 7)
            wrong++;
    }
    return 0;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *sleeps(void *unused) {
    for (long i = 0; !over; i++) {
        struct timespec length = {.tv_nsec = 500000000};
        double begun = now();
        int result = nanosleep(&length, NULL);
        if (result && !over)
            interrupted++;
        if (!over && now() - begun < 0.5)
            wrong++;
        if (turn(i) != i + 7)
            wrong++;
    }
    return unused;
}

int main(int count, char **words) {
    void *(*first)(void *) = NULL, *(*other)(void *) = NULL, *check = NULL;
    pthread_t threads[2];
    struct sigaction ends = {.sa_handler = end}, rings_often = {.sa_handler = ring, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &ends, NULL);
    const char *mode = count > 1 ? words[1] : "";
    if (!strcmp(mode, "threads")) {
        struct itimerval often = {{0, 5000}, {0, 5000}};
        other = works;
        sigaction(SIGALRM, &rings_often, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    } else if (!strcmp(mode, "registers")) {
        first = works, check = check_registers;
    } else if (!strcmp(mode, "vectors")) {
        first = works, check = check_vectors;
    } else if (!strcmp(mode, "sleeps")) {
        first = sleeps;
    } else if (!strcmp(mode, "both")) {
        first = works, check = check_registers, other = sleeps;
    } else {
        return 2;
    }
    for (int i = 0; i < 2 && other; i++)
        pthread_create(&threads[i], NULL, other, NULL);
    if (first)
        first(check);
    for (int i = 0; i < 2 && other; i++)
        pthread_join(threads[i], NULL);
    printf("%s: %ld wrong, %ld interrupted\n", mode, wrong, interrupted);
    return 3;
}
