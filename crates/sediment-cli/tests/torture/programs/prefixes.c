// SPDX-License-Identifier: MIT OR Apache-2.0
// Function symbols in the middle of instructions: behind a prefix that an entry further on does without. AArch64 has no prefixes; there it is
// two bytes behind a function that is called.
#include "act.h"
void with_lock(int *), without_lock(int *);
#ifdef __aarch64__
#define ADD "ldr w1, [x0]\n add w1, w1, #1\n str w1, [x0]\n ret\n"
__asm__(".text\n.globl with_lock\n.type with_lock,%function\nwith_lock: " ADD ".size with_lock, .-with_lock\n"
        ".globl without_lock\n.type without_lock,%function\nwithout_lock: " ADD ".size without_lock, .-without_lock\n"
        ".globl within\n.type within,%function\n.set within, with_lock + 2\n.size within, 14\n");
#else
__asm__(".text\n.globl with_lock\n.type with_lock,@function\nwith_lock: lock\n.globl without_lock\n.type without_lock,@function\n"
        "without_lock: incl (%rdi)\n ret\n.size with_lock, .-with_lock\n.size without_lock, .-without_lock\n");
#endif
static void once(long round) {
    int count = 0;
    for (int i = 0; i < 20; i++) with_lock(&count), without_lock(&count);
    expect(count == 40, "%d counted", count);
    work(2);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
