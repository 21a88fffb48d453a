// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the right to execute from a page of a library, loads another library meanwhile, and gives it back, as patchers of code do.
#include "act.h"
#include <dlfcn.h>
#include <sys/mman.h>
static void once(long round) {
    static long (*narrow)(long);
    if (!narrow) narrow = (long (*)(long))dlsym(dlopen("./libnarrow1.so", RTLD_NOW), "narrow");
    void *page = (void *)((unsigned long)narrow & -4096ul);
    expect(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0, "mprotect");
    void *other = dlopen("./libnarrow2.so", RTLD_NOW);
    expect(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0, "mprotect");
    long result = narrow(round), further = ((long (*)(long))dlsym(other, "narrow"))(round);
    expect(result == round + 2 && further == round + 3, "%ld and %ld of %ld", result, further, round);
    dlclose(other);
    work(2);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
