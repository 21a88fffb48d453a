/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions whose first uses and calls are known: in each round, f0 is called once, f1 twice, f2 four times, to f7 128 times.
 *   calls ROUNDS LENGTH      prints a sum, and exits with 7; LENGTH says how long each call takes
 */
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline))

static volatile long spun;
static long length;
FUNCTION void spin(long times) {
    for (long i = 0; i < times; i++)
        spun++;
}

#define CALLED(n) FUNCTION long f##n(long x) { spin(length); return x * 3 + n; }
CALLED(0) CALLED(1) CALLED(2) CALLED(3) CALLED(4) CALLED(5) CALLED(6) CALLED(7)
static long (*const called[])(long) = {f0, f1, f2, f3, f4, f5, f6, f7};

FUNCTION long round_of(long x) {
    for (int n = 0; n < 8; n++)
        for (int call = 0; call < 1 << n; call++)
            x = called[n](x);
    return x;
}

FUNCTION long never(long x) { return x - 1; }

int main(int count, char **words) {
    long sum = 0, rounds = count > 1 ? atol(words[1]) : 1;
    length = count > 2 ? atol(words[2]) : 1;
    for (long i = 0; i < rounds; i++)
        sum = round_of(sum);
    if (rounds < 0)
        sum = never(sum);
    printf("%ld\n", sum);
    return 7;
}
