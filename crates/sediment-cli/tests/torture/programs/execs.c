// SPDX-License-Identifier: MIT OR Apache-2.0
// Becomes itself again and again, every other time from a thread beside others that work.
#include "act.h"
#include <pthread.h>
static char **words;
static void *become(void *none) { execv(words[0], words); _exit(98); }
static void *busy(void *none) { for (;;) work(10); }
int main(int count, char **arguments) {
    static char left[32];
    long rounds = atol(arguments[1]), round = count > 3 ? atol(arguments[3]) : 0;
    if (rounds == 0) {
        // A signal that came before this program handles it is still there, as it is blocked across.
        sigset_t term, pending;
        sigemptyset(&term), sigaddset(&term, SIGTERM), sigprocmask(SIG_BLOCK, &term, 0);
        sigpending(&pending);
        if (sigismember(&pending, SIGTERM)) return act_finish();
    }
    if (round == 0) puts("ready"), fflush(stdout);
    work(10);
    if (rounds && round >= rounds) return act_finish();
    snprintf(left, sizeof left, "%ld", round + 1);
    words = (char *[]){arguments[0], arguments[1], arguments[2], left, 0};
    pthread_t thread;
    if (round % 2) {
        for (int i = 0; i < atoi(arguments[2]); i++) pthread_create(&thread, 0, busy, 0);
        pthread_create(&thread, 0, become, 0);
        for (;;) pause();
    }
    become(0);
}
