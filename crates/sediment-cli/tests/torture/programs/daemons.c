// SPDX-License-Identifier: MIT OR Apache-2.0
// Forks into the background and leaves; what stays works for the rounds and ends by itself.
#include "act.h"
int main(int count, char **arguments) {
    act_begin(count, arguments);
    puts("ready"), fflush(stdout);
    work(5);
    if (fork() == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        for (long round = 0; round < act_rounds; round++) work(20);
        _exit(act_finish());
    }
    return 12;
}
