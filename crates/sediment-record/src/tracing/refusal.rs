// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why a process may not be traced, and what helps, by the rules that the kernel enforces: owners, Yama,
//! seccomp, another tracer, setuid.

use super::mappings::status_field;
use nix::errno::Errno;
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode};
use std::path::Path;

/// Facts that decide whether a process may be traced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TracingFacts {
    process: Pid,
    /// True if we started the process.
    ours: bool,
    /// True if we are root.
    root: bool,
    /// True if the process belongs to another user.
    of_another: bool,
    /// Yama's setting: /proc/sys/kernel/yama/ptrace_scope. 0 without Yama.
    scope: u8,
    /// True if a seccomp filter applies to us.
    filtered: bool,
    /// Error of the kernel.
    error: Errno,
}

/// Error for a process that the kernel does not let us trace, with the reason and what helps. `ours`: we started it.
pub(crate) fn not_allowed(process: Pid, ours: bool, error: Errno) -> Error {
    let owner =
        status_field(process, "Uid").and_then(|ids| ids.split_whitespace().next()?.parse::<u32>().ok());
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    in_words(&TracingFacts {
        process,
        ours,
        root: nix::unistd::geteuid().is_root(),
        of_another: owner.is_some_and(|owner| owner != nix::unistd::getuid().as_raw()),
        scope: scope.trim().parse().unwrap_or(0),
        filtered: status_field(Pid::this(), "Seccomp").is_some_and(|mode| mode != "0"),
        error,
    })
}

fn in_words(facts: &TracingFacts) -> Error {
    let TracingFacts { process, root, error, .. } = *facts;
    let unsupported = |message: String| Error::new(ErrorCode::Unsupported, message);
    if error == Errno::ESRCH {
        return Error::new(ErrorCode::NotFound, format!("no process {process}"));
    }
    if facts.of_another && !root {
        return unsupported(format!("process {process} belongs to another user"))
            .with_hint("record it as root (sudo)");
    }
    match facts.scope {
        3.. => unsupported("this machine forbids tracing (kernel.yama.ptrace_scope = 3)".to_owned())
            .with_hint("this setting lasts until the next reboot; use another --method (perf-stacks, valgrind)"),
        2 if !root => {
            unsupported("only root may trace programs on this machine (kernel.yama.ptrace_scope = 2)".to_owned())
                .with_hint("record as root, or allow it: sudo sysctl kernel.yama.ptrace_scope=1")
        }
        1 if !root && !facts.ours => unsupported(format!(
            "only its parent may trace process {process} (kernel.yama.ptrace_scope = 1)"
        ))
        .with_hint(
            "start it with `sediment record -- PROGRAM`, record as root, or allow it: sudo sysctl kernel.yama.ptrace_scope=0",
        ),
        _ if facts.filtered => unsupported(format!(
            "a seccomp filter, as in containers and sandboxes, forbids tracing: {error}"
        ))
        .with_hint(
            "record outside the container, allow it with --cap-add=SYS_PTRACE (docker, podman), or use --method valgrind",
        ),
        _ if !facts.ours && !root => unsupported(format!("the kernel forbids tracing process {process}: {error}"))
            .with_hint("only root may trace a program with setuid or capabilities: record as root (sudo)"),
        _ => unsupported(format!("the kernel forbids tracing process {process}: {error}")).with_hint(
            "in a container allow it with --cap-add=SYS_PTRACE, or use --method valgrind",
        ),
    }
}

/// Error for a process that is already traced.
pub(crate) fn traced_already(process: Pid, by: i32) -> Error {
    let name = std::fs::read_to_string(format!("/proc/{by}/comm")).unwrap_or_default();
    let message = format!("process {process} is already traced by {} (process {by})", name.trim());
    Error::new(ErrorCode::Unsupported, message)
        .with_hint("end that first, or record with perf: --method perf-stacks")
}

/// Error for a program that would not get the rights that it needs.
pub(crate) fn other_rights(program: &Path) -> Error {
    let message = format!(
        "{} has setuid or capabilities, which the kernel drops while a program is traced",
        program.display()
    );
    Error::new(ErrorCode::Unsupported, message)
        .with_hint("record as root, or record the program that it starts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_why_and_what_helps() {
        let plain = TracingFacts {
            process: Pid::from_raw(71),
            ours: false,
            root: false,
            of_another: false,
            scope: 0,
            filtered: false,
            error: Errno::EPERM,
        };
        let cases = [
            (TracingFacts { of_another: true, scope: 1, ..plain.clone() }, "belongs to another user", "sudo"),
            (
                TracingFacts { scope: 1, ..plain.clone() },
                "ptrace_scope = 1",
                "sysctl kernel.yama.ptrace_scope=0",
            ),
            (
                TracingFacts { scope: 2, ..plain.clone() },
                "ptrace_scope = 2",
                "sysctl kernel.yama.ptrace_scope=1",
            ),
            (TracingFacts { scope: 2, ours: true, ..plain.clone() }, "ptrace_scope = 2", "as root"),
            (TracingFacts { scope: 3, root: true, ..plain.clone() }, "ptrace_scope = 3", "valgrind"),
            (
                TracingFacts { scope: 1, ours: true, filtered: true, ..plain.clone() },
                "seccomp",
                "--cap-add=SYS_PTRACE",
            ),
            (
                TracingFacts { root: true, ours: true, filtered: true, ..plain.clone() },
                "seccomp",
                "--method valgrind",
            ),
            (plain.clone(), "forbids tracing process 71: EPERM", "setuid"),
            (TracingFacts { root: true, ..plain.clone() }, "forbids tracing process 71: EPERM", "SYS_PTRACE"),
        ];
        for (facts, why, way_out) in cases {
            let error = in_words(&facts);
            assert_eq!(error.code(), ErrorCode::Unsupported, "{facts:?}");
            assert!(error.to_string().contains(why), "{facts:?}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(way_out)), "{facts:?}: {error}");
        }
        let gone = in_words(&TracingFacts { error: Errno::ESRCH, ..plain });
        assert_eq!(gone.to_string(), "no process 71");
    }
}
