// SPDX-License-Identifier: MIT OR Apache-2.0
// A program whose data stand among its code, in pages that are writable and executable: counts that nobody else may change.
// Without a C library. ROUNDS 0: until SIGTERM, by a handler of its own.
typedef long word;
#ifdef __aarch64__
enum { SIGACTION = 134, WRITE = 64, EXIT_GROUP = 94 };
static word call(word number, word a, word b, word c, word d) {
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
__asm__(".text\nback: mov x8, #139\n svc #0\n");
__asm__(".globl _start\n_start: mov x29, #0\n mov x30, #0\n mov x0, sp\n bl begin\n");
#else
enum { SIGACTION = 13, WRITE = 1, EXIT_GROUP = 231 };
static word call(word number, word a, word b, word c, word d) {
    word result;
    register word r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
__asm__(".text\nback: mov $15, %eax\n syscall\n");
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
#endif
static volatile word counts[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static volatile int over = 0;
#define FUNCTION __attribute__((noinline)) static
FUNCTION word one(word x) { __asm__ volatile(""); return x + 1; }
FUNCTION word two(word x) { return one(x) + 1; }
FUNCTION word three(word x) { return two(x) + one(x); }
FUNCTION word four(word x) { return three(x) + two(x); }
static void end(int signal) { over = signal; }
extern char back[];
__attribute__((used)) static void begin(word *stack) {
    word rounds = 0;
    if (stack[0] > 1) for (const char *digit = (const char *)stack[2]; *digit; digit++) rounds = rounds * 10 + *digit - '0';
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {(void *)end, 0x04000000, back, 0};
    if (!rounds) call(SIGACTION, 15, (word)&action, 0, 8);
    call(WRITE, 1, (word)"ready\n", 6, 0);
    counts[0] = 0;
    word bad = 0;
    for (word i = 0; rounds ? i < rounds * 200000 : !over; i++) {
        counts[0] = counts[0] + 1;
        if (counts[0] != i + 1) bad++, counts[0] = i + 1;
        if ((i & 15) == 0) four(i);
    }
    if (bad) call(WRITE, 1, (word)"wrong\n", 6, 0);
    else call(WRITE, 1, (word)"well\n", 5, 0);
    call(EXIT_GROUP, bad ? 1 : 7, 0, 0, 0);
}
