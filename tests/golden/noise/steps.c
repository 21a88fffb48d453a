/* Written by hand: a program whose speed and memory depend on where its code lies. Faults are exact on a busy machine, too. */
#include <stdint.h>
#include <stdio.h>

/* Below 2 MiB, so that no huge page holds it. */
static volatile char pages[256 * 4096];

__attribute__((noinline)) int step(int x) { return x * 3 + 1; }

int main(void) {
    /* step lies on one of 256 places of a page. */
    unsigned long place = ((uintptr_t)step >> 4) & 255;
    for (unsigned long i = 0; i < place; i++) pages[i * 4096] = 1;
    unsigned long rounds = 2000000 + 20000 * place;
    volatile int x = 1;
    for (unsigned long i = 0; i < rounds; i++) x = step(x);
    puts("done");
    return 0;
}
