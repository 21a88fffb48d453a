// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a command, and takes in all that it leaves behind: writes who ended how, and ends when nobody is left.
//
//   warden REPORT COMMAND ARGUMENTS…
//
// Lines of the report: "pid N" of the command; then for each process that ended "NAME command|orphan exit N|signal N".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int report = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (count < 3 || report < 0) return 2;
    pid_t command = fork();
    if (command == 0) {
        setsid();
        execvp(arguments[2], arguments + 2);
        _exit(127);
    }
    dprintf(report, "pid %d\n", command);
    for (;;) {
        siginfo_t about;
        if (waitid(P_ALL, 0, &about, WEXITED | WNOWAIT | __WALL) < 0) {
            if (errno == EINTR) continue;
            return errno == ECHILD ? 0 : 3;
        }
        char name[64] = "?", path[64];
        snprintf(path, sizeof path, "/proc/%d/comm", about.si_pid);
        int file = open(path, O_RDONLY);
        if (file >= 0) {
            ssize_t length = read(file, name, sizeof name - 1);
            if (length > 0) name[name[length - 1] == '\n' ? length - 1 : length] = 0;
            close(file);
        }
        for (char *letter = name; *letter; letter++) if (*letter == ' ') *letter = '_';
        dprintf(report, "%s %s %s %d\n", name, about.si_pid == command ? "command" : "orphan",
            about.si_code == CLD_EXITED ? "exit" : "signal", about.si_status);
        waitpid(about.si_pid, 0, __WALL);
    }
}
