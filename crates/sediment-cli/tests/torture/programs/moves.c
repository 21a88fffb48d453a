// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies its own code to memory of its own, and moves that to the place of the code, as servers do for huge pages.
#include "act.h"
#include <link.h>
#include <sys/mman.h>
static char *text;
static size_t length;
static int find(struct dl_phdr_info *file, size_t size, void *unused) {
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &file->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        unsigned long from = file->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        text = (char *)(from & -4096ul);
        length = ((to + 4095) & -4096ul) - (unsigned long)text;
        return 1;
    }
    return 0;
}
static void once(long round) {
    if (!text) dl_iterate_phdr(find, 0);
    char *copy = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, text, length);
    expect(mprotect(copy, length, PROT_READ | PROT_EXEC) == 0, "the copy cannot be executed");
    work(2);
    void *moved = mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, text);
    expect(moved == text, "the copy cannot be moved");
    work(2);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
