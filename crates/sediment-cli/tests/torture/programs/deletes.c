// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads a library whose file is deleted while it is loaded, and replaced by another of the same name.
#include "act.h"
#include <dlfcn.h>
static void copy(int number, const char *to) {
    char command[64], buffer[65536];
    snprintf(command, sizeof command, "./libnarrow%d.so", number);
    FILE *from = fopen(command, "r"), *into = fopen(to, "w");
    for (size_t length; (length = fread(buffer, 1, sizeof buffer, from)) > 0;) fwrite(buffer, 1, length, into);
    fclose(from), fclose(into);
}
static void once(long round) {
    char name[32];
    snprintf(name, sizeof name, "./passing%d.so", getpid());
    for (int number = 1; number <= 2; number++) {
        copy(number, name);
        void *library = dlopen(name, RTLD_NOW);
        unlink(name);
        if (!library) { expect(0, "%s", dlerror()); return; }
        long result = ((long (*)(long))dlsym(library, "narrow"))(round);
        expect(result == round + 1 + number, "narrow%d(%ld) = %ld", number, round, result);
        work(2);
        dlclose(library);
    }
}
int main(int count, char **arguments) { return act(count, arguments, once); }
