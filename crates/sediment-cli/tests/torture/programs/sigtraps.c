// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for SIGTRAP with every signal blocked. Its children handle SIGTRAP, and keep the handler through new threads and processes.
#include "act.h"
#include <pthread.h>
#include <spawn.h>
extern char **environ;
static void on_trap(int signal) {}
static void *thread(void *none) { return work(1), none; }
static int handles(void) {
    struct sigaction now;
    sigaction(SIGTRAP, 0, &now);
    return now.sa_handler == on_trap;
}
static void wait_for_traps(int sent) {
    sigset_t trap;
    sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
    int taken = sigtimedwait(&trap, 0, &(struct timespec){5, 0});
    expect(taken == SIGTRAP, "%d was waited for, sent %d", taken, sent);
}
static void once(long round) {
    sigset_t every, before, now;
    sigfillset(&every);
    sigprocmask(SIG_BLOCK, &every, &before);
    kill(getpid(), SIGTRAP);
    work(2);
    wait_for_traps(0);
    raise(SIGTRAP);
    work(2);
    wait_for_traps(1);
    sigprocmask(SIG_SETMASK, &before, &now);
    expect(sigismember(&now, SIGTRAP), "SIGTRAP was unblocked in round %ld", round);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTRAP, on_trap);
        pthread_t other;
        pthread_create(&other, 0, thread, 0);
        pthread_join(other, 0);
        int kept = handles();
        char *words[] = {"true", 0};
        pid_t grandchild;
        if (posix_spawnp(&grandchild, *words, 0, 0, words, environ) == 0) waitpid(grandchild, 0, 0);
        raise(SIGTRAP);
        _exit(20 + kept + handles());
    }
    expect_exit(child, 22);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
