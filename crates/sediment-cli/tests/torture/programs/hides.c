// SPDX-License-Identifier: MIT OR Apache-2.0
// Forks children that work; after as many rounds as its second argument says it lets nobody look into it.
#include "act.h"
#include <sys/prctl.h>
static void once(long round) {
    if (round == act_threads) prctl(PR_SET_DUMPABLE, 0);
    pid_t child = fork();
    if (child == 0) { work(3); _exit(act_wrong ? 1 : 4); }
    work(3);
    expect_exit(child, 4);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
