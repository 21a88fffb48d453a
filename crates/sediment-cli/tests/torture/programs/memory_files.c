// SPDX-License-Identifier: MIT OR Apache-2.0
// Children that become a program which is in memory alone: a copy of this one, without a name in any folder.
#include "act.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
extern char **environ;
static void once(long round) {
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("copy", MFD_CLOEXEC);
    struct stat about;
    fstat(from, &about);
    expect(sendfile(to, from, 0, about.st_size) == about.st_size, "not copied");
    close(from);
    pid_t child = fork();
    if (child == 0) { char *words[] = {"copy", "child", 0}; fexecve(to, words, environ); _exit(99); }
    expect_exit(child, 9);
    close(to);
    work(3);
}
int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "child")) { work(3); return act_wrong ? 1 : 9; }
    return act(count, arguments, once);
}
