// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes LLVM's sample profile as text, for `clang -fprofile-sample-use=FILE` and `rustc -Zprofile-sample-use=FILE`.
//!
//! Source: LLVM's documentation of the format (llvm/ProfileData/SampleProfReader.h); `llvm-profdata merge --sample`
//! reads it. The heaviest function comes first, as in LLVM; equally heavy ones are sorted by name.

use super::lines::{Body, LineCounts, LinePosition};
use sediment_core::skipped::{Reason, Skipped};
use std::fmt::Write as _;

/// Largest depth of inlining that is written, because LLVM's reader is recursive.
const DEEPEST: usize = 64;

/// Returns the text of the file.
#[must_use]
pub fn sample_profile(lines: &LineCounts) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut functions: Vec<(&String, &Body, u64)> =
        lines.functions.iter().map(|(name, body)| (name, body, body.total())).collect();
    functions.sort_by(|(name, _, total), (other, _, others)| others.cmp(total).then(name.cmp(other)));
    let mut text = String::new();
    for (name, body, total) in functions {
        if total == 0 {
            continue;
        }
        if !can_be_written(name) {
            skipped.add(Reason::UnwritableFunction, total.into(), name);
            continue;
        }
        let _ = writeln!(text, "{name}:{total}:{}", body.head);
        write_body(&mut text, body, 1, &mut skipped);
    }
    (text, skipped)
}

fn write_body(text: &mut String, body: &Body, depth: usize, skipped: &mut Skipped) {
    let indent = " ".repeat(depth);
    for (site, count) in &body.counts {
        let _ = write!(text, "{indent}{}: {count}", place(*site));
        let first = (*site, String::new());
        for ((_, callee), calls) in body.calls.range(first..).take_while(|((at, _), _)| at == site) {
            if can_be_written(callee) {
                let _ = write!(text, " {callee}:{calls}");
            }
        }
        text.push('\n');
    }
    for ((site, name), inlined) in &body.inlined {
        let total = inlined.total();
        if total == 0 {
            continue;
        }
        if depth == DEEPEST || !can_be_written(name) {
            skipped.add(Reason::UnwritableFunction, total.into(), name);
            continue;
        }
        let _ = writeln!(text, "{indent}{}: {name}:{total}", place(*site));
        write_body(text, inlined, depth + 1, skipped);
    }
}

fn place(site: LinePosition) -> String {
    match site.discriminator {
        0 => site.offset.to_string(),
        discriminator => format!("{}.{discriminator}", site.offset),
    }
}

/// True for a name that LLVM can read: a blank ends a name, and a digit begins a count.
fn can_be_written(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'[' | b']' | b'!' | b'#');
    !name.is_empty() && name.bytes().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(offset: u32, discriminator: u32) -> LinePosition {
        LinePosition { offset, discriminator }
    }

    #[test]
    fn bodies_stand_in_one_another() {
        let mut inner = Body::default();
        inner.raise(site(1, 0), 7);
        let mut outer = Body { head: 2, ..Body::default() };
        outer.raise(site(1, 0), 2);
        outer.raise(site(3, 2), 9);
        outer.calls.insert((site(3, 2), "work".to_owned()), 8);
        outer.inlined.insert((site(2, 0), "inner".to_owned()), inner);
        let mut lines = LineCounts::default();
        lines.functions.insert("outer".to_owned(), outer);
        lines.functions.insert("never".to_owned(), Body::default());
        lines
            .functions
            .insert("two words".to_owned(), Body { counts: [(site(0, 0), 1)].into(), ..Body::default() });
        let (text, skipped) = sample_profile(&lines);
        assert_eq!(text, "outer:18:2\n 1: 2\n 3.2: 9 work:8\n 2: inner:7\n  1: 7\n");
        assert_eq!(skipped.weight(|reason| reason == Reason::UnwritableFunction), 1);
    }

    #[test]
    fn recordings_add_up() {
        let mut one = LineCounts::default();
        one.functions
            .insert("f".to_owned(), Body { head: 1, counts: [(site(0, 0), 5)].into(), ..Body::default() });
        let mut two = one.clone();
        two.absorb(&one);
        assert_eq!(sample_profile(&two).0, "f:10:2\n 0: 10\n");
    }
}
