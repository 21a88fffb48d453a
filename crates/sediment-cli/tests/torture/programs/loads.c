// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads and unloads libraries beside a wide one that stays. With more than one thread, each loads its own at the same time.
#include "act.h"
#include <dlfcn.h>
#include <pthread.h>
long wide(long);
static void load(int number, long x) {
    char name[32];
    snprintf(name, sizeof name, "./libnarrow%d.so", number);
    void *library = dlopen(name, RTLD_NOW);
    if (!library) { expect(0, "%s", dlerror()); return; }
    long (*narrow)(long) = (long (*)(long))dlsym(library, "narrow");
    long result = narrow(x);
    expect(result == x + 1 + number, "narrow%d(%ld) = %ld", number, x, result);
    dlclose(library);
}
static void *thread(void *number) {
    for (int i = 0; i < 20; i++) load((long)number % 3 + 1, i);
    return 0;
}
static void once(long round) {
    pthread_t threads[16];
    int made = act_threads > 1 ? act_threads % 16 : 0;
    for (long i = 0; i < made; i++) pthread_create(threads + i, 0, thread, (void *)i);
    if (act_threads > 0)
        for (int i = 0; i < 20; i++) {
            long result = wide(i);
            expect(result == 1000L * i, "wide(%d) = %ld", i, result);
        }
    for (int i = 0; i < 3; i++) load(i + 1, round);
    for (int i = 0; i < made; i++) pthread_join(threads[i], 0);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
