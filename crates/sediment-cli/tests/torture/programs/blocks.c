// SPDX-License-Identifier: MIT OR Apache-2.0
// Works with every signal blocked, in a handler too, and waits for signals in turn.
#include "act.h"
#include <time.h>
static void on_signal(int signal) { work(2); }
static void once(long round) {
    sigset_t every, before, two;
    sigfillset(&every), sigdelset(&every, SIGTERM);
    struct sigaction action = {.sa_handler = on_signal, .sa_mask = every};
    sigaction(SIGUSR1, &action, 0);
    sigprocmask(SIG_BLOCK, &every, &before);
    raise(SIGUSR1), raise(SIGUSR2);
    work(3);
    sigemptyset(&two), sigaddset(&two, SIGUSR2);
    struct timespec moment = {5, 0};
    int taken;
    while ((taken = sigtimedwait(&two, 0, &moment)) < 0 && errno == EINTR) {}
    expect(taken == SIGUSR2, "signal %d was waited for", taken);
    sigprocmask(SIG_SETMASK, &before, 0);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
