// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes memory until there is no more, gives it back, and works.
#include "act.h"
#include <sys/resource.h>
static void once(long round) {
    static void *taken[4096];
    int count = 0;
    while (count < 64 && (taken[count] = malloc(1 << 20))) memset(taken[count++], round, 1 << 16);
    for (int i = 0; i < count; i++) free(taken[i]);
    work(10);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
