// SPDX-License-Identifier: MIT OR Apache-2.0
// cold FILE COMMAND...: removes FILE from the page cache, runs the command with empty input and discarded output, and prints its major and minor
// page faults.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    if (count < 3) return 2;
    int file = open(words[1], O_RDONLY);
    if (file < 0 || fdatasync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)) return 3;
    close(file);
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 0);
        dup2(nothing, 1);
        dup2(nothing, 2);
        execv(words[2], words + 2);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) < 0 || status != 0) return 4;
    printf("%ld %ld\n", used.ru_majflt, used.ru_minflt);
    return 0;
}
