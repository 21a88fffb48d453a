// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that meet the same functions at the same time; each round makes them anew, so that many are always being made.
#include "act.h"
#include <pthread.h>
static void *thread(void *times) { work((long)times); return times; }
static void once(long round) {
    pthread_t threads[64];
    int made = 0;
    for (; made < act_threads && made < 64; made++)
        if (pthread_create(threads + made, 0, thread, (void *)(round % 8))) break;
    expect(made == act_threads, "%d threads made", made);
    for (int i = 0; i < made; i++) {
        void *returned = 0;
        pthread_join(threads[i], &returned);
        expect(returned == (void *)(round % 8), "a thread returned %p", returned);
    }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
