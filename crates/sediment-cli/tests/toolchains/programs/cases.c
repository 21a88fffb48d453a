/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Lines of which an argument tells which are executed: cases of a switch, conditions, loops, code that is split off.
 *   cases [MORE]      prints a sum
 */
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline))

static volatile int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};

FUNCTION __attribute__((cold)) void fail(int i)
{
    fprintf(stderr, "%d\n", i);
    exit(9);
}

FUNCTION int choose(int i)
{
    switch (i) {
    case 0: return table[1] + 7;
    case 1: return table[2] ^ 21;
    case 2: return table[3] - table[4];
    case 3: return table[4] * 3;
    case 4: table[0] = (table[0] + 1) & 3; return 11;
    case 5: table[5] = 3; return table[5] / 3;
    case 6: return table[6] << table[0];
    case 7: fail(i);
    }
    return 0;
}

FUNCTION int search(int length, int wanted)
{
    int found = -1;
    for (int i = 0; i < length; i++)
        if (table[i & 7] == wanted && i > 100)
            found = i;
        else if (table[i & 7] > 100)
            fail(i);
    if (found < 0)
        return 1000;
    return found;
}

FUNCTION int increase(int *value)
{
    int before = __atomic_fetch_add(value, 3, __ATOMIC_SEQ_CST);
    if (before < 0)
        fail(before);
    return before;
}

int main(int count, char **words)
{
    int sum = 0, value = 1, half = count > 1 ? 4 : 0;
    for (int i = 0; i < 400; i++)
        sum += choose(half + (i & 3) % 3) + increase(&value) % 5;
    sum += search(200, count > 1 ? 77 : 9);
    printf("%d %s\n", sum, words[0] ? "done" : "");
    return 0;
}
