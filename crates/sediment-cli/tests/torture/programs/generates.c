// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes code in memory and calls it, in pages that are writable, and in others that are mapped twice.
#include "act.h"
#include <sys/mman.h>
static void once(long round) {
#ifdef __aarch64__
    unsigned code[] = {0, 0xd65f03c0};
#define RETURNS(i) (code[0] = 0x52800000 | (i) << 5)
#else
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
#define RETURNS(i) (code[1] = i)
#endif
    int file = memfd_create("code", 0);
    ftruncate(file, 4096);
    unsigned char *writable = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int (*call)(void) = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    unsigned char *both = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 50; i++) {
        RETURNS(i);
        memcpy(writable, code, sizeof code), memcpy(both, code, sizeof code);
        __builtin___clear_cache((char *)call, (char *)call + sizeof code);
        __builtin___clear_cache((char *)both, (char *)both + sizeof code);
        expect(call() == i && ((int (*)(void))both)() == i, "%d is not returned", i);
        work(1);
    }
    munmap(writable, 4096), munmap((void *)call, 4096), munmap(both, 4096), close(file);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
