// SPDX-License-Identifier: MIT OR Apache-2.0
// Children that become a program which may be run, but not read: ./unreadable.
#include "act.h"
static void once(long round) {
    pid_t child = fork();
    if (child == 0) { execl("./unreadable", "unreadable", "1", "1", (char *)0); _exit(99); }
    work(3);
    expect_exit(child, 7);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
