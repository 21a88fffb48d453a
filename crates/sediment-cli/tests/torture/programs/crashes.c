// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends by the signal of its second argument, after its rounds, as the fault or the call that raises it.
#include "act.h"
#include <sys/mman.h>
#ifdef __aarch64__
#define UNDEFINED ".inst 0"
#define BREAKPOINT "brk #0"
#else
#define UNDEFINED "ud2"
#define BREAKPOINT "int3"
#endif
static void crash(void) {
    volatile int zero = 0;
    switch (act_threads) {
    case SIGSEGV: *(volatile int *)8 = 1; break;
#ifndef __aarch64__ // whose division by zero is zero
    case SIGFPE: zero = 1 / zero; break;
#endif
    case SIGILL: __asm__ volatile(UNDEFINED); break;
    case SIGTRAP: __asm__ volatile(BREAKPOINT); break;
    case SIGABRT: abort();
    case SIGBUS: {
        FILE *empty = tmpfile();
        *(volatile char *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(empty), 0) = 1;
        break;
    }
    default: raise(act_threads);
    }
    expect(0, "it did not end by signal %d", act_threads);
}
int main(int count, char **arguments) {
    act_begin(count, arguments);
    puts("ready"), fflush(stdout);
    for (long round = 0; act_rounds ? round < act_rounds : !act_over; round++) work(20);
    crash();
    return act_finish();
}
