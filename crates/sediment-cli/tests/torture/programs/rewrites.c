// SPDX-License-Identifier: MIT OR Apache-2.0
// Puts other first bytes into a function again and again, as those who switch tracing on and off do, and never reads them.
#include "act.h"
#include <sys/mman.h>
int switched(void);
#ifdef __aarch64__
#define SWITCHED "mov w0, #0\n ret\n nop\n nop\n"
static const unsigned off[] = {0x52800000, 0xd65f03c0}, on[] = {0x52800020, 0xd65f03c0};
#else
#define SWITCHED "xor %eax, %eax\n ret\n .skip 12, 0x90\n"
static const unsigned char off[] = {0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90}, on[] = {0xb8, 1, 0, 0, 0, 0xc3};
#endif
__asm__(".text\n.p2align 4\n.globl switched\n.type switched,%function\nswitched: " SWITCHED ".size switched, .-switched\n");
static void once(long round) {
    char *page = (char *)((unsigned long)switched & -4096ul);
    for (int i = 0; i < 20; i++) {
        expect(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
        memcpy((void *)switched, i & 1 ? on : off, sizeof on);
        __builtin___clear_cache((char *)switched, (char *)switched + sizeof on);
        expect(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0, "mprotect");
        for (int k = 0; k < 5; k++) { work(1); int result = switched(); expect(result == (i & 1), "switched() = %d in %d", result, i); }
    }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
