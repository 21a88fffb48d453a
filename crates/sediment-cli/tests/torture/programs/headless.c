// SPDX-License-Identifier: MIT OR Apache-2.0
// The first thread ends; others work on.
#include "act.h"
#include <pthread.h>
static void *thread(void *none) {
    puts("ready"), fflush(stdout);
    for (long round = 0; act_rounds ? round < act_rounds : !act_over; round++) work(50);
    exit(act_finish());
}
int main(int count, char **arguments) {
    act_begin(count, arguments);
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_exit(0);
}
