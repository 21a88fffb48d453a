// SPDX-License-Identifier: MIT OR Apache-2.0
// Leaves children behind that work on by themselves for a while.
#include "act.h"
static void once(long round) {
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) { usleep(1000 * (round % 7)); work(5); _exit(act_wrong ? 1 : 5); }
        _exit(4);
    }
    work(5);
    expect_exit(child, 4);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
