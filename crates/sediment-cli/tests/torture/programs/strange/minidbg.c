// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O1 -Wall -no-pie -o minidbg minidbg.c */
/* A miniature debugger traces its own forked child: breakpoints, single steps, system-call stops, exit events, register and memory edits, all counted exactly. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int edited = 5;
static int __attribute__((noinline, noclone)) target(int x) { return x * 2 + edited; }
void marks(void);
extern char mark_begin[], mark_end[];
__asm__(".text\n.globl marks\n.type marks,@function\nmarks:\nmark_begin: nop\nnop\nmov $7,%ecx\n1: dec %ecx\njnz 1b\ncall 2f\nnop\nmark_end: ret\n2: ret\n.size marks,.-marks\n");

static void debuggee(void)
{
    if (ptrace(PTRACE_TRACEME, 0, 0, 0))
        _exit(77);
    raise(SIGSTOP);
    int s = 0;
    for (int i = 0; i < 10; i++)
        s += target(i);
    for (int i = 0; i < 5; i++)
        syscall(SYS_getppid);
    marks();
    raise(SIGUSR1); /* the debugger swallows it */
    if (fork() == 0)
        _exit(9);
    wait(NULL);
    _exit(s & 255);
}

int main(void)
{
    long hits = 0, args = 0, steps = 0, stops = 0, swallowed = 0, forks = 0, exits = 0, clean = 0, code = 0;
    for (int r = 0; r < 160; r++) {
        pid_t p = fork();
        if (p == 0)
            debuggee();
        int st;
        waitpid(p, &st, 0);
        if (WIFEXITED(st)) {
            puts("skip: ptrace not permitted");
            return 77;
        }
        ptrace(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
        uintptr_t at = (uintptr_t)target, bp[2] = { at, (uintptr_t)mark_begin };
        long old[2];
        for (int k = 0; k < 2; k++) {
            old[k] = ptrace(PTRACE_PEEKTEXT, p, bp[k], 0);
            clean += (old[k] & 0xff) != 0xcc && old[k] == *(long *)bp[k];
            ptrace(PTRACE_POKETEXT, p, bp[k], (old[k] & ~0xffL) | 0xcc);
        }
        ptrace(PTRACE_POKEDATA, p, &edited, 11);
        long go = PTRACE_CONT;
        int sig = 0;
        for (;;) {
            ptrace(go, p, 0, sig);
            sig = 0;
            pid_t q = waitpid(-1, &st, __WALL);
            if (q != p) { /* the grandchild, attached automatically */
                if (WIFSTOPPED(st))
                    ptrace(PTRACE_CONT, q, 0, st >> 16 || WSTOPSIG(st) == SIGSTOP ? 0 : WSTOPSIG(st));
                go = -1;
            }
            while (go == -1) {
                q = waitpid(-1, &st, __WALL);
                if (q == p)
                    go = PTRACE_CONT;
                else if (WIFSTOPPED(st))
                    ptrace(PTRACE_CONT, q, 0, 0);
            }
            if (!WIFSTOPPED(st))
                break;
            struct user_regs_struct u;
            ptrace(PTRACE_GETREGS, p, 0, &u);
            int event = st >> 16, s = WSTOPSIG(st);
            if (event == PTRACE_EVENT_FORK) {
                forks++;
            } else if (event == PTRACE_EVENT_EXIT) {
                exits++;
            } else if (s == (SIGTRAP | 0x80)) {
                stops += u.orig_rax == SYS_getppid;
            } else if (s == SIGTRAP && (u.rip == bp[0] + 1 || u.rip == bp[1] + 1)) {
                int k = u.rip == bp[1] + 1;
                hits++;
                args += k ? 0 : u.rdi;
                u.rip--;
                ptrace(PTRACE_SETREGS, p, 0, &u);
                ptrace(PTRACE_POKETEXT, p, bp[k], old[k]);
                if (k) {
                    while (u.rip != (uintptr_t)mark_end) {
                        ptrace(PTRACE_SINGLESTEP, p, 0, 0);
                        waitpid(p, &st, 0);
                        ptrace(PTRACE_GETREGS, p, 0, &u);
                        steps++;
                    }
                    go = PTRACE_CONT;
                } else {
                    ptrace(PTRACE_SINGLESTEP, p, 0, 0);
                    waitpid(p, &st, 0);
                    if (u.rdi < 9)
                        ptrace(PTRACE_POKETEXT, p, bp[0], (old[0] & ~0xffL) | 0xcc);
                    else
                        go = PTRACE_SYSCALL;
                }
            } else {
                swallowed += s == SIGUSR1;
                sig = s == SIGUSR1 ? 0 : s;
            }
        }
        code += WIFEXITED(st) ? WEXITSTATUS(st) : 10000;
        while (waitpid(-1, &st, __WALL) > 0)
            ;
    }
    printf("clean %ld, hits %ld, args %ld, stops %ld, steps %ld, swallowed %ld, forks %ld, exits %s, code %ld\n", clean, hits, args, stops, steps, swallowed, forks, exits >= 160 ? "seen" : "missed", code);
    return 0;
}
