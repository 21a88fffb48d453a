// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes that share one memory without being threads, some of which outlive a moment.
#include "act.h"
#include <sched.h>
#include <sys/mman.h>
static volatile long shared;
static int child(void *from) {
    for (int k = 0; k < FUNCTIONS * 20; k++) functions[k % FUNCTIONS](k);
    __sync_fetch_and_add(&shared, 1);
    return 6;
}
static void once(long round) {
    enum { SIZE = 1 << 16, CHILDREN = 3 };
    static char *stacks;
    if (!stacks) stacks = (char *)mmap(0, CHILDREN * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long before = shared;
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) children[i] = clone(child, stacks + (i + 1) * SIZE, CLONE_VM | SIGCHLD, 0);
    work(5);
    for (int i = 0; i < CHILDREN; i++) expect_exit(children[i], 6);
    expect(shared == before + CHILDREN, "%ld have run", shared - before);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
