// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGTRAP, which breakpoints raise. If a program blocks or ignores it at a breakpoint, the kernel unblocks it and
//! resets its handler to the default (`force_sig_info_to_task` in Linux's kernel/signal.c).

use crate::tracing::mappings::status_field;
use nix::libc;
use nix::unistd::Pid;

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

const TRAP: u64 = bit(libc::SIGTRAP);
/// All other signals that can be blocked, except real-time signals: C libraries reserve some of these.
const OTHERS: u64 = (bit(32) - 1) & !(TRAP | bit(libc::SIGKILL) | bit(libc::SIGSTOP));

/// Returns the way in which a process or one of its threads uses SIGTRAP, if breakpoints would break that. Also `None`
/// for a thread that blocks all signals: see [`blocked_again`].
pub(super) fn use_of_traps(thread: Pid) -> Option<&'static str> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let mask = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    let blocked = mask("SigBlk:");
    if mask("SigCgt:") & TRAP != 0 {
        Some("handles SIGTRAP")
    } else if mask("SigIgn:") & TRAP != 0 {
        Some("ignores SIGTRAP")
    } else {
        (blocked & TRAP != 0 && blocked & OTHERS != OTHERS).then_some("blocks SIGTRAP")
    }
}

/// True if the process of a thread ignores this signal.
pub(super) fn ignores(thread: Pid, signal: i32) -> bool {
    let mask = status_field(thread, "SigIgn").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask & bit(signal) != 0)
}

/// Returns the signals that a thread blocked before it hit a breakpoint, if it now blocks all signals except SIGTRAP;
/// `None` if nothing has changed.
pub(super) fn blocked_again(mask: u64) -> Option<u64> {
    (mask & (OTHERS | TRAP) == OTHERS).then_some(mask | TRAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_are_blocked_again_with_all_others() {
        // The set made by glibc's sigfillset, without its own two signals; the kernel removes those that cannot be
        // blocked.
        let all = !(bit(32) | bit(33) | bit(libc::SIGKILL) | bit(libc::SIGSTOP));
        assert_eq!(blocked_again(all & !TRAP), Some(all));
        assert_eq!(blocked_again(all), None);
        assert_eq!(blocked_again(0), None);
        assert_eq!(blocked_again(all & !(TRAP | bit(libc::SIGSEGV))), None);
    }
}
