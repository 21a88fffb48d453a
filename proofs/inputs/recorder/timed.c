// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a command, and writes its CPU time in seconds to a file: timed FILE COMMAND….
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
extern char **environ;
int main(int count, char **words) {
    pid_t child;
    int status = 0;
    struct rusage used;
    if (count < 3 || posix_spawnp(&child, words[2], 0, 0, words + 2, environ) || wait4(child, &status, 0, &used) < 0) return 127;
    FILE *file = fopen(words[1], "w");
    if (!file) return 127;
    fprintf(file, "%.6f", used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
