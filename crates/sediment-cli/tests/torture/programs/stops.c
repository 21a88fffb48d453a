// SPDX-License-Identifier: MIT OR Apache-2.0
// Children that stop, as a shell's jobs do, and are continued.
#include "act.h"
static void once(long round) {
    static const int stops[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    int stop = stops[round % 4], status = 0;
    pid_t child = fork();
    // A group whose parent is elsewhere in the session is not orphaned: the keys' stops stop it.
    if (child == 0) { setpgid(0, 0); raise(stop); work(2); _exit(act_wrong ? 1 : 11); }
    while (waitpid(child, &status, WUNTRACED) < 0 && errno == EINTR) {}
    expect(WIFSTOPPED(status) && WSTOPSIG(status) == stop, "status %x instead of a stop by %d", status, stop);
    if (WIFSTOPPED(status)) {
        kill(child, SIGCONT);
        expect_exit(child, 11);
    }
    work(2);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
