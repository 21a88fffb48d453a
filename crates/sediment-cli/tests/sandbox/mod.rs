// SPDX-License-Identifier: MIT OR Apache-2.0
//! A C program that removes the right to trace.

/// Runs its arguments under a seccomp filter that refuses `ptrace`, as in some containers.
pub const SANDBOX: &str = "#include <errno.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stddef.h>\n\
    #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    int main(int count, char **arguments) {\n\
    \x20   struct sock_filter rules[] = {\n\
    \x20       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
    \x20       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),\n\
    \x20       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),\n\
    \x20       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };\n\
    \x20   struct sock_fprog program = { sizeof rules / sizeof *rules, rules };\n\
    \x20   if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;\n\
    \x20   execv(arguments[1], arguments + 1);\n\
    \x20   return 98;\n}\n";
