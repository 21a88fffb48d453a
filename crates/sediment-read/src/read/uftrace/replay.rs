// SPDX-License-Identifier: MIT OR Apache-2.0
//! `uftrace replay`: the run as nested braces, in the order of time, with columns before a bar.
//!
//! ```text
//! # DURATION     TID     FUNCTION
//!             [ 13900] | main() {
//!    0.049 us [ 13900] |   leaf();
//!    0.780 us [ 13900] | } /* main */
//! ```
//!
//! Columns can be chosen (`-f`), and omitted. Without the one of threads, a run of several threads cannot be told
//! apart; it shows where a brace closes another function than was opened.

use super::{Aside, Event, EventKind, EventListener};
use crate::read::input::{self, Input, Lines};
use crate::read::numbers::decimal;
use memchr::memmem;
use sediment_core::error::{Error, Result};

const FEWEST: usize = 3;

pub(super) fn recognises(head: &[u8]) -> bool {
    let whole = head.len() < crate::read::HEAD;
    let mut lines: Vec<&[u8]> =
        head.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    // What the program printed itself may stand before it.
    if has_header(head) {
        return true;
    }
    if !whole {
        lines.pop();
    }
    let bodies: Vec<Body<'_>> = lines.iter().map(|line| Body::parse(line)).collect();
    let is_entry = |body: &Body<'_>| matches!(body, Body::Enter { .. } | Body::Call { .. });
    let is_leave = |body: &Body<'_>| matches!(body, Body::Leave { .. });
    bodies.len() >= FEWEST
        && bodies.first().is_some_and(is_entry)
        && !bodies.iter().any(|body| matches!(body, Body::Other))
        && (!whole
            || bodies.iter().any(is_leave)
            || bodies.iter().all(|body| matches!(body, Body::Call { .. })))
}

fn has_header(head: &[u8]) -> bool {
    memchr::memchr_iter(b'#', head)
        .filter(|at| *at == 0 || head[at - 1] == b'\n')
        .any(|at| Columns::of_header(head[at..].split(|b| *b == b'\n').next().unwrap_or_default()).is_some())
}

/// Which columns stand before the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    any: bool,
    thread: bool,
}

impl Columns {
    fn of_header(line: &[u8]) -> Option<Self> {
        let words = line.strip_prefix(b"#")?.trim_ascii();
        // With --srcline: `main() { /* main.c:12 */`.
        let words = words.strip_suffix(b"[SOURCE]").map_or(words, <[u8]>::trim_ascii);
        let words = words.strip_suffix(b"FUNCTION")?;
        let known = [&b"DURATION"[..], b"TID", b"ADDRESS", b"TIMESTAMP", b"TIMEDELTA", b"ELAPSED", b"NAME"];
        let mut columns = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
        columns.peek()?;
        let all_known =
            columns.all(|word| known.contains(&word) || matches!(word, b"TASK" | b"MODULE" | b"[SOURCE]"));
        all_known.then(|| Self { any: true, thread: memmem::find(words, b"TID").is_some() })
    }
}

/// Text behind the bar.
#[derive(Debug, PartialEq, Eq)]
enum Body<'a> {
    /// `name() {`
    Enter {
        depth: u32,
        name: &'a [u8],
    },
    /// `name();`
    Call {
        depth: u32,
        name: &'a [u8],
    },
    /// `} /* name */`
    Leave {
        depth: u32,
        name: Option<&'a [u8]>,
    },
    /// `/* linux:sched-out */`
    Event,
    /// `/* LOST 3 records!! */`
    Lost,
    Nothing,
    Other,
}

impl<'a> Body<'a> {
    fn parse(line: &'a [u8]) -> Self {
        let line = line.trim_ascii_end();
        let indent = line.iter().position(|b| *b != b' ').unwrap_or(line.len());
        let text = &line[indent..];
        let Some(depth) = u32::try_from(indent / 2).ok().filter(|_| indent % 2 == 0) else {
            return Self::Other;
        };
        if text.is_empty() {
            return Self::Nothing;
        }
        if let Some(comment) = text.strip_prefix(b"/*") {
            let comment = comment.trim_ascii();
            let ended = comment.ends_with(b"*/");
            return match (ended, comment.starts_with(b"LOST ")) {
                (false, _) => Self::Other,
                (true, true) => Self::Lost,
                (true, false) => Self::Event,
            };
        }
        let (code, comment) = match memmem::rfind(text, b" /* ") {
            Some(at) if text.ends_with(b" */") => (&text[..at], text[at + 4..].strip_suffix(b" */")),
            _ => (text, None),
        };
        if let Some(result) = code.strip_prefix(b"}") {
            let plain = result.is_empty() || result.starts_with(b" = ") && result.ends_with(b";");
            return if plain { Self::Leave { depth, name: comment } } else { Self::Other };
        }
        let name = name(code);
        match (name, code.last()) {
            (Some(name), Some(b'{')) if code.ends_with(b") {") => Self::Enter { depth, name },
            (Some(name), Some(b';')) if code.ends_with(b");") || memmem::find(code, b") = ").is_some() => {
                Self::Call { depth, name }
            }
            _ => Self::Other,
        }
    }
}

/// Text before the parenthesis of the arguments.
fn name(code: &[u8]) -> Option<&[u8]> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'(', &code[from..])?;
        let before = &code[..at];
        let part_of_name = before.ends_with(b"operator") && code[at..].starts_with(b"()")
            || code[at..].starts_with(b"(anonymous namespace)");
        if !part_of_name {
            return (!before.is_empty()).then_some(before);
        }
        from = at + 2;
    }
}

pub(super) fn tell(input: &dyn Input, listener: EventListener<'_>) -> Result<Aside> {
    let mut aside = Aside::default();
    let mut columns = Columns { any: false, thread: false };
    let mut before_header = has_header(&input::head(input, crate::read::HEAD)?);
    let mut open: Vec<(u32, Vec<u8>)> = Vec::new();
    // The least depth of what was entered or left.
    let mut shallowest = u32::MAX;
    let mut lines = Lines::of(input);
    let mut number_of_line = 0;
    while let Some(line) = lines.next()? {
        number_of_line += 1;
        if line.starts_with(b"#") {
            match Columns::of_header(line) {
                Some(found) => (columns, before_header) = (found, false),
                None => aside.other(line),
            }
            continue;
        }
        if line.starts_with(b"uftrace stopped tracing") {
            break;
        }
        let (before, body) = match memmem::find(line, b" | ") {
            Some(bar) if columns.any => (&line[..bar], &line[bar + 3..]),
            // What the program printed.
            _ if columns.any || before_header => {
                if !line.trim_ascii().is_empty() {
                    aside.other(line);
                }
                continue;
            }
            _ => (&line[..0], line),
        };
        let thread = if columns.thread { thread(before) } else { Some(0) };
        let body = Body::parse(body);
        let Some(thread) = thread else {
            if body != Body::Nothing {
                aside.other(line);
            }
            continue;
        };
        let event = |depth, kind| Event { thread, time: None, depth, kind };
        match body {
            Body::Enter { depth, name } => {
                shallowest = shallowest.min(depth);
                if !columns.thread {
                    close(&mut open, depth);
                    open.push((depth, name.to_vec()));
                }
                listener(event(depth, EventKind::Enter(name)))?;
            }
            Body::Call { depth, name } => {
                shallowest = shallowest.min(depth);
                listener(event(depth, EventKind::Enter(name)))?;
                listener(event(depth, EventKind::Leave))?;
            }
            Body::Leave { depth, name } => {
                if !columns.thread {
                    close(&mut open, depth.saturating_add(1));
                    // Where a range of time was printed (-r), what is left may have been entered before it; then nothing as deep
                    // was entered since.
                    let entered_before = open.is_empty() && depth < shallowest;
                    shallowest = shallowest.min(depth);
                    let opened = open.pop().filter(|(there, _)| *there == depth);
                    let fits = |name: &[u8]| opened.is_some_and(|(_, opened)| opened == name);
                    if !entered_before && name.is_some_and(|name| !fits(name)) {
                        return Err(Error::at_line(
                            number_of_line,
                            "a brace closes another function than the open one: several threads in one?",
                        )
                        .with_found(line.trim_ascii())
                        .with_hint("print the column of threads too: uftrace replay --demangle=no -f tid"));
                    }
                }
                listener(event(depth, EventKind::Leave))?;
            }
            Body::Lost => listener(event(0, EventKind::Lost))?,
            Body::Event => aside.events += 1,
            Body::Nothing => {}
            Body::Other => aside.other(line),
        }
    }
    Ok(aside)
}

fn close(open: &mut Vec<(u32, Vec<u8>)>, depth: u32) {
    while open.last().is_some_and(|(there, _)| *there >= depth) {
        open.pop();
    }
}

/// The number in `[ 13900]`.
fn thread(columns: &[u8]) -> Option<u64> {
    const LONGEST: usize = 24;
    let mut rest = columns;
    while let Some(open) = memchr::memchr(b'[', rest) {
        rest = &rest[open + 1..];
        let inside = rest[..rest.len().min(LONGEST)].split(|b| *b == b']').next().unwrap_or_default();
        if let Some(thread) = decimal(inside.trim_ascii()) {
            return Some(thread);
        }
    }
    None
}
