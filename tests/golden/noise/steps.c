/* Written by hand: a program whose speed depends on where its code lies, so that layouts differ on every machine. */
#include <stdint.h>
#include <stdio.h>

__attribute__((noinline)) int step(int x) { return x * 3 + 1; }

int main(void) {
    /* step lies on one of 256 places of a page. */
    unsigned long rounds = 2000000 + 20000 * (((uintptr_t)step >> 4) & 255);
    volatile int x = 1;
    for (unsigned long i = 0; i < rounds; i++) x = step(x);
    puts("done");
    return 0;
}
