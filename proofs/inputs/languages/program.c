/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code that relies on its place: code between two labels, code that falls through to the next function, functions of a section that
 * the linker gives a beginning and an end, and a signal handler that looks up an address. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#define N __attribute__((noinline))

/* A copy of a range of code, as trampolines and boot code are made. */
extern const char fast_begin[], fast_end[];
extern int fast_add(int, int), fast_twice(int), fall_first(int), fall_second(int);
__asm__(".section .text.fast_begin,\"ax\",@progbits\n.globl fast_begin\nfast_begin:\n"
        ".section .text.fast_add,\"ax\",@progbits\n.globl fast_add\n.type fast_add,@function\nfast_add: leal (%rdi,%rsi), %eax\n ret\n.size fast_add,.-fast_add\n"
        ".section .text.fast_twice,\"ax\",@progbits\n.globl fast_twice\n.type fast_twice,@function\nfast_twice: leal (%rdi,%rdi), %eax\n ret\n.size fast_twice,.-fast_twice\n"
        ".section .text.fast_end,\"ax\",@progbits\n.globl fast_end\nfast_end:\n"
        ".section .text.fall_first,\"ax\",@progbits\n.globl fall_first\n.type fall_first,@function\nfall_first: addl $1, %edi\n.size fall_first,.-fall_first\n"
        ".section .text.fall_second,\"ax\",@progbits\n.globl fall_second\n.type fall_second,@function\nfall_second: leal (%rdi,%rdi), %eax\n ret\n.size fall_second,.-fall_second\n.text\n");

/* The same by functions of C, in the order of the source. */
N void marked_begin(void) {}
N int marked_square(int x) { __asm__(""); return x * x; }
N int marked_cube(int x) { __asm__(""); return x * x * x; }
N void marked_end(void) {}

/* A section that has a name of its own. */
#define IN(name) __attribute__((noinline, section(#name), used))
IN(handlers) int handler_one(int x) { return x + 1; }
IN(handlers) int handler_two(int x) { return x + 2; }
extern const char __start_handlers[], __stop_handlers[];

#define WITHIN(a, from, to) ((const char *)(a) >= (const char *)(from) && (const char *)(a) < (const char *)(to))
N int plain_one(int x) { __asm__(""); return x ^ 1; }
N int plain_two(int x) { __asm__(""); return x ^ 2; }

int main(void) {
    printf("%d %d %d\n", WITHIN(fast_add, fast_begin, fast_end), WITHIN(fast_twice, fast_begin, fast_end), fast_add(1, fast_twice(2)));
    printf("%d %d\n", fall_first(3), fall_second(3));
    printf("%d %d %d\n", WITHIN(marked_square, marked_begin, marked_end), WITHIN(marked_cube, marked_begin, marked_end), marked_square(2) + marked_cube(2));
    printf("%d %d %d\n", WITHIN(handler_one, __start_handlers, __stop_handlers), WITHIN(handler_two, __start_handlers, __stop_handlers), handler_one(1) + handler_two(2));
    printf("%d\n", plain_one(plain_two(5)));
    return 0;
}
