// SPDX-License-Identifier: MIT OR Apache-2.0
// Says what it was started with: open files, signals, limits, folder, environment, ids.
#include "act.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
extern char **environ;
static void told(const char *file, const char *const *names) {
    char line[256];
    FILE *status = fopen(file, "r");
    while (fgets(line, sizeof line, status))
        for (const char *const *name = names; *name; name++)
            if (!strncmp(line, *name, strlen(*name))) {
                // The signals of the C library's own threads are set by whoever has threads.
                unsigned long set;
                if (sscanf(line, "SigIgn: %lx", &set) == 1) printf("SigIgn: %lx\n", set & ~0x180000000ul);
                else fputs(line, stdout);
            }
    fclose(status);
}
int main(int count, char **arguments) {
    const char *const names[] = {"Uid", "Gid", "Groups", "ShdPnd", "SigPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Threads", "THP_enabled", "Cpus_allowed:", 0};
    told("/proc/self/status", names);
    DIR *files = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(files));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(files)) printf("file %s\n", entry->d_name);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        printf("limit %d: %lu %lu\n", i, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
    mode_t mask = umask(0);
    char folder[4096];
    printf("umask %o, folder %s, nice %d, dumpable %d, death signal ", mask, getcwd(folder, sizeof folder), getpriority(PRIO_PROCESS, 0), prctl(PR_GET_DUMPABLE));
    int death = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    printf("%d, timer slack %d\n", death, prctl(PR_GET_TIMERSLACK));
    for (char **variable = environ; *variable; variable++) puts(*variable);
    work(3);
    return act_finish();
}
