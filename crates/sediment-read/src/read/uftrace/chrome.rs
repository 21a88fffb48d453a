// SPDX-License-Identifier: MIT OR Apache-2.0
//! `uftrace dump --chrome`: events as JSON, one in a line, in the order of time.
//!
//! ```text
//! {"traceEvents":[
//! {"ts":0,"ph":"M","pid":13900,"name":"process_name","args":{"name":"[13900] p"}},
//! {"ts":12479163323.336,"ph":"B","pid":13900,"name":"main"},
//! {"ts":12479163325.089,"ph":"E","pid":13900,"tid":13901,"name":"main"}
//! ```

use super::{Aside, Event, EventKind, EventListener};
use crate::read::input::{Input, Lines};
use crate::read::numbers::decimal;
use sediment_core::error::Result;
use std::collections::HashMap;

pub(super) fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines.next().is_some_and(|line| line == b"{\"traceEvents\":[")
        && lines.next().is_some_and(|line| line.starts_with(b"{\"ts\":") && event(line).is_some())
}

/// Time, phase, thread and name.
fn event(line: &[u8]) -> Option<(&[u8], u8, u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"ts\":")?;
    let comma = memchr::memchr(b',', rest)?;
    let (time, rest) = (&rest[..comma], rest[comma..].strip_prefix(b",\"ph\":\"")?);
    let (phase, rest) = (*rest.first()?, rest[1..].strip_prefix(b"\",\"pid\":")?);
    let (mut thread, mut rest) = leading_number(rest)?;
    if let Some(more) = rest.strip_prefix(b",\"tid\":") {
        (thread, rest) = leading_number(more)?;
    }
    let name = rest.strip_prefix(b",\"name\":\"")?;
    let end = (0..name.len()).find(|at| name[*at] == b'"' && (*at == 0 || name[*at - 1] != b'\\'))?;
    Some((time, phase, thread, &name[..end]))
}

fn leading_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit())?;
    Some((decimal(&text[..end])?, &text[end..]))
}

/// Microseconds with three digits behind the point, as nanoseconds.
fn nanoseconds(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text)?;
    let (whole, fraction) = (decimal(&text[..point])?, &text[point + 1..]);
    (fraction.len() == 3).then_some(())?;
    whole.checked_mul(1000)?.checked_add(decimal(fraction)?)
}

pub(super) fn tell(input: &dyn Input, listener: EventListener<'_>) -> Result<Aside> {
    let mut aside = Aside::default();
    let mut depths: HashMap<u64, u32> = HashMap::new();
    let mut lines = Lines::of(input);
    let mut first = true;
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii();
        if line.starts_with(b"]") {
            break;
        }
        if std::mem::take(&mut first) || line.is_empty() {
            continue;
        }
        let Some((time, phase, thread, name)) = event(line.strip_suffix(b",").unwrap_or(line)) else {
            aside.other(line);
            continue;
        };
        // Events of the system are named as perf names them.
        if !matches!(phase, b'B' | b'E') || name.starts_with(b"linux:") {
            aside.events += u64::from(phase != b'M');
            continue;
        }
        let Some(time) = nanoseconds(time) else {
            aside.other(line);
            continue;
        };
        let depth = depths.entry(thread).or_default();
        let event = if phase == b'B' {
            *depth = depth.saturating_add(1);
            Event { thread, time: Some(time), depth: *depth - 1, kind: EventKind::Enter(name) }
        } else if *depth > 0 {
            *depth -= 1;
            Event { thread, time: Some(time), depth: *depth, kind: EventKind::Leave }
        } else {
            aside.other(line);
            continue;
        };
        listener(event)?;
    }
    Ok(aside)
}
