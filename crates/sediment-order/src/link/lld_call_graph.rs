// SPDX-License-Identifier: MIT OR Apache-2.0
//! The call graph file of lld: one call per line, with caller, callee and count separated by blanks; `#` starts a
//! comment line.
//!
//! It is not an order: lld computes one with `--call-graph-profile-sort`. It is for users who want lld's own layout
//! from a sediment profile.

use super::{Linker, MADE_BY, OrderedName, Placement, header};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::escape;
use sediment_core::skipped::{Reason, Skipped};
use std::fmt::Write as _;

/// Row of this dialect in the table of linkers.
pub(super) const LINKER: Linker = Linker {
    name: "lld-call-graph",
    summary: "lld (LLVM), which then makes the order itself",
    arguments: "-Wl,--call-graph-ordering-file,FILE -Wl,--no-warn-symbol-ordering",
    is_read_by: |_, _| false,
    wants_calls: true,
    write,
    recognises,
    read,
};

fn write(placements: &[Placement]) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut text = format!("# {}\n", header(&LINKER));
    // lld splits a line at its blanks.
    let word = |name: &str| escape::lld(name).filter(|name| !name.contains(char::is_whitespace));
    for placement in placements {
        let Some(caller) = word(&placement.name) else {
            skipped.add(Reason::UnwritableName, 0, &placement.name);
            continue;
        };
        for (callee, count) in &placement.calls {
            match word(callee) {
                Some(callee) => {
                    let _ = writeln!(text, "{caller} {callee} {count}");
                }
                None => skipped.add(Reason::UnwritableName, 0, callee),
            }
        }
    }
    (text, skipped)
}

fn recognises(text: &str) -> bool {
    if text.starts_with(&format!("# {MADE_BY}")) {
        return text.lines().next().is_some_and(|line| line.contains("--call-graph-ordering-file"));
    }
    let is_call = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words.as_slice(), [_, _, count] if count.parse::<u64>().is_ok())
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_some() && lines.all(is_call)
}

fn read(_: &str) -> Result<Vec<OrderedName>> {
    Err(Error::new(ErrorCode::UnsupportedVariant, "a call graph file has no order: lld computes it")
        .with_hint("to verify an order, write it with --linker lld"))
}
