// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies its own functions to new memory at its start, and calls the copies: calls, tail jumps and indirect calls among them.
#include "act.h"
#include <sys/mman.h>
#define COPIED __attribute__((noinline, section("copied"), noipa)) static
typedef long leaf(long);
COPIED long twice(long x) { return 2 * x; }
COPIED long plus(long x) { return twice(x) + 3; }
COPIED long tail(long x) { return x & 1 ? plus(x) : twice(x + 1); }
COPIED long through(long x, leaf *other) { long sum = other(x); sum += tail(x); return sum + other(x + 1); }
extern char __start_copied[], __stop_copied[];
static long (*copy)(long, leaf *);
static leaf *copied_leaf;
static void make(void) {
    char *begin = (char *)((long)__start_copied & -4096L);
    size_t length = __stop_copied - begin;
    char *at = mmap(0, length, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(3);
    memcpy(at, begin, length);
    copy = (long (*)(long, leaf *))(at + ((char *)through - begin));
    copied_leaf = (leaf *)(at + ((char *)plus - begin));
}
static void once(long round) {
    for (int i = 0; i < 200; i++) {
        long result = copy(i, copied_leaf), expected = through(i, plus);
        expect(result == expected, "through(%d) = %ld in the copy, and %ld", i, result, expected);
    }
}
int main(int count, char **arguments) { make(); once(0); return act(count, arguments, once); }
