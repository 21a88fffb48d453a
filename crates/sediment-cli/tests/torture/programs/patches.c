// SPDX-License-Identifier: MIT OR Apache-2.0
// Changes its own code as it runs: the number that a function returns, behind its first instruction.
#include "act.h"
#include <sys/mman.h>
int patched(void);
extern char patched_number[];
#ifdef __aarch64__
#define PATCHED " ldr w0, patched_number\n ret\n.globl patched_number\npatched_number: .long 5\n"
#else
#define PATCHED " .byte 0xb8\n.globl patched_number\npatched_number: .long 5\n ret\n"
#endif
__asm__(".text\n.p2align 4\n.globl patched\n.type patched,%function\npatched: nop\n nop\n" PATCHED
        ".size patched, .-patched\n.globl plain\n.type plain,%function\nplain: nop\n ret\n.size plain,.-plain\n");
void plain(void);
static void once(long round) {
    char *page = (char *)((unsigned long)patched_number & -4096ul);
    expect(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
    for (int i = 0; i < 200; i++) {
        int number = (int)(round * 200 + i);
        *(volatile int *)patched_number = number;
        plain();
        expect(patched() == number, "patched() = %d instead of %d", patched(), number);
        work(1);
    }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
