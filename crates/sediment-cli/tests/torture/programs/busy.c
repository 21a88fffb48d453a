// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads the machine with so many processes, which end by themselves after so many seconds or with their parent.
//
//   busy PROCESSES SECONDS
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < atoi(arguments[1]); i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(atoi(arguments[2]));
            for (volatile unsigned long spun = 0;; spun++) {}
        }
    while (wait(0) > 0) {}
    return 0;
}
