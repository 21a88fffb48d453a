// SPDX-License-Identifier: MIT OR Apache-2.0
// Lets nobody look into it from now on, and forks children that work.
#include "act.h"
#include <sys/prctl.h>
static void once(long round) {
    if (round == 2) prctl(PR_SET_DUMPABLE, 0);
    pid_t child = fork();
    if (child == 0) { work(3); _exit(act_wrong ? 1 : 4); }
    work(3);
    expect_exit(child, 4);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
