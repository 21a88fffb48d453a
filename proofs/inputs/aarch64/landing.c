/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program without a C library, all of whose code is guarded: an indirect branch that does not arrive at a landing pad ends it. Prints a line, and exits
 * with 6.
 */
#define FUNCTION __attribute__((noinline, noclone))

static volatile long work;
FUNCTION static long one(long x) { work += x; return x + 1; }
FUNCTION static long two(long x) { work -= x; return x + 2; }
static long (*volatile table[2])(long) = {one, two};
FUNCTION static long through(long x) { return table[x & 1](x) + 1; }
FUNCTION static long onwards(long x) { work++; return table[x & 1](x); }

static long call(long number, long first, const void *second, long third) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x2 __asm__("x2") = third;
    register const void *x1 __asm__("x1") = second;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

void _start(void) {
    long sum = 0;
    for (long i = 0; i < 1000; i++)
        sum += through(i) + onwards(i + 1);
    call(64, 1, sum == 1004000 ? "right\n" : "wrong\n", 6);
    call(93, 6, 0, 0);
    __builtin_unreachable();
}
