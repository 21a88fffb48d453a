// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals of every sort at once: a timer's, real-time ones, to threads, on a stack of their own, with values.
#include "act.h"
#include <pthread.h>
#include <sys/time.h>
static volatile long heard[65], values;
static void on_signal(int signal, siginfo_t *about, void *context) {
    __sync_fetch_and_add(heard + signal, 1);
    if (about->si_code == SI_QUEUE) __sync_fetch_and_add(&values, about->si_value.sival_int);
    f3(signal);
}
static void *thread(void *none) {
    for (int i = 0; i < 10; i++) { raise(SIGUSR2); work(1); }
    return 0;
}
static void once(long round) {
    static char stack[65536];
    if (!round) {
        stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&own, 0);
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK};
        int all[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD, SIGRTMIN + 3};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sigaction(all[i], &action, 0);
        struct itimerval often = {{0, 700}, {0, 700}};
        setitimer(ITIMER_REAL, &often, 0);
    }
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    for (int i = 0; i < 10; i++) {
        raise(SIGUSR1);
        union sigval value = {.sival_int = 3};
        sigqueue(getpid(), SIGRTMIN + 3, value);
        work(2);
    }
    pthread_join(other, 0);
    pid_t child = fork();
    if (child == 0) _exit(4);
    expect_exit(child, 4);
    long rounds = round + 1;
    expect(heard[SIGUSR1] == 10 * rounds && heard[SIGUSR2] == 10 * rounds && heard[SIGRTMIN + 3] == 10 * rounds,
        "%ld, %ld, %ld signals in %ld rounds", heard[SIGUSR1], heard[SIGUSR2], heard[SIGRTMIN + 3], rounds);
    expect(values == 30 * rounds, "values of %ld in %ld rounds", values, rounds);
    if (act_rounds && rounds == act_rounds) { struct itimerval never = {{0, 0}, {0, 0}}; setitimer(ITIMER_REAL, &never, 0); }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
