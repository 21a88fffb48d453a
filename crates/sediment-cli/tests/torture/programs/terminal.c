// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a command on a terminal of its own, types "hello" there, and so many milliseconds after "ready" has appeared the key of that
// number; 0 takes the terminal away.
//
//   terminal MILLISECONDS KEY COMMAND…
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
int main(int count, char **arguments) {
    long end = 0;
    char key = atoi(arguments[2]);
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ours < 0 || grantpt(ours) || unlockpt(ours)) return 99;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        int theirs = open(ptsname(ours), O_RDWR);
        ioctl(theirs, TIOCSCTTY, 0);
        // Standard output stays where it is compared; the rest is the terminal's.
        dup2(theirs, 0), dup2(theirs, 2);
        if (theirs > 2) close(theirs);
        execvp(arguments[3], arguments + 3);
        _exit(98);
    }
    write(ours, "hello\n", 6);
    int status, done = 0;
    char shown[65536];
    size_t length = 0;
    for (;;) {
        struct pollfd waiting = {ours, POLLIN, 0};
        if (poll(&waiting, 1, 20) > 0) {
            if (length > sizeof shown / 2) length = 0;
            ssize_t more = read(ours, shown + length, sizeof shown - 1 - length);
            if (more > 0) length += more; else usleep(5000);
            shown[length] = 0;
            if (!end && strstr(shown, "ready")) end = now() + atol(arguments[1]);
        }
        if (waitpid(child, &status, WNOHANG) == child) break;
        if (done || !end || now() < end) continue;
        done = 1;
        if (key) { write(ours, &key, 1); continue; }
        close(ours);
        waitpid(child, &status, 0);
        break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
