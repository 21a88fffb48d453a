// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns the rights of its own code over and over while threads run it: readable, writable too, and back.
#include "act.h"
#include <pthread.h>
#include <sys/mman.h>
static volatile int over;
static void *busy(void *none) { while (!over) work(5); return 0; }
static void once(long round) {
    static pthread_t thread;
    if (!round) pthread_create(&thread, 0, busy, 0);
    char *page = (char *)((unsigned long)f20 & -4096ul);
    for (int i = 0; i < 20; i++) {
        expect(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
        f3(i);
        expect(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0, "mprotect");
        f7(i);
    }
    usleep(200);
    if (act_rounds && round == act_rounds - 1) { over = 1; pthread_join(thread, 0); }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
