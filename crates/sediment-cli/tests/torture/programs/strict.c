// SPDX-License-Identifier: MIT OR Apache-2.0
// Goes into the strictest mode of seccomp after its rounds: whatever but read, write and exit ends it.
#include "act.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(int count, char **arguments) {
    act_begin(count, arguments);
    puts("ready"), fflush(stdout);
    for (long round = 0; round < act_rounds; round++) work(20);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    for (long round = 0; round < act_rounds; round++) work(20);
    write(1, act_wrong ? "wrong\n" : "well\n", act_wrong ? 6 : 5);
    syscall(SYS_exit, act_wrong ? 1 : 7);
}
