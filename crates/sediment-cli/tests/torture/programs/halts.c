// SPDX-License-Identifier: MIT OR Apache-2.0
// Children that their parent stops while they begin; it has other children before it continues them.
#include "act.h"
static char *own;
static void once(long round) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) { execl(own, own, "1", "1", "child", NULL); _exit(98); }
    usleep(round * 373 % 6000);
    kill(child, SIGSTOP);
    while (waitpid(child, &status, WUNTRACED) < 0 && errno == EINTR) {}
    if (WIFSTOPPED(status)) {
        pid_t other = fork();
        if (other == 0) _exit(12);
        expect_exit(other, 12);
        kill(child, SIGCONT);
        expect_exit(child, 11);
    } else expect(WIFEXITED(status) && WEXITSTATUS(status) == 11, "status %x", status);
    work(2);
}
int main(int count, char **arguments) {
    own = arguments[0];
    if (count > 3) { work(2); return act_wrong ? 1 : 11; }
    return act(count, arguments, once);
}
