// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes processes until there may be no more, and waits for all of them; each of them works.
#include "act.h"
static void once(long round) {
    pid_t children[64];
    int made = 0;
    while (made < 64 && (children[made] = fork()) >= 0) {
        if (children[made] == 0) { usleep(2000); work(1); _exit(act_wrong ? 5 : 4); }
        made++;
    }
    expect(made == 64 || errno == EAGAIN, "fork failed with %d", errno);
    for (int i = 0; i < made; i++) expect_exit(children[i], 4);
    work(10);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
