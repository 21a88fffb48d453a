// SPDX-License-Identifier: MIT OR Apache-2.0
// Forks that work on both sides, and fork once more.
#include "act.h"
static void once(long round) {
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        work(5);
        if (grandchild == 0) _exit(act_wrong ? 1 : 3);
        expect_exit(grandchild, 3);
        _exit(act_wrong ? 1 : 4);
    }
    work(5);
    expect_exit(child, 4);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
