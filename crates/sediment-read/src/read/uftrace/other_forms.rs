// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises outputs of uftrace other than `dump` by their first lines. Some contain only sums, others have less data
//! than `dump` for the same recording.

/// Returns the reason why an output with this beginning cannot be read; `None` for other text.
pub(super) fn fault(head: &[u8]) -> Option<&'static str> {
    let lines = || head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines().next()?;
    let second = lines().nth(1).unwrap_or_default();
    let columns = [&b"Total time"[..], b"Self time", b"Calls", b"Function"];
    if first.starts_with(b"# Function Call Graph for ") {
        Some("the output of uftrace graph contains no callers and times")
    } else if columns.iter().all(|column| has(first, column)) {
        Some("the output of uftrace report contains no callers and times")
    } else if first == b"{\"traceEvents\":[" && second.starts_with(b"{\"ts\":") && has(second, b",\"ph\":\"")
    {
        Some("the output of uftrace dump --chrome is no longer supported")
    } else if first.starts_with(b"# version\":\"uftrace")
        || first.starts_with(b"digraph ") && has(second, b"\" [xlabel = \"")
    {
        Some("the output of uftrace dump --graphviz is no longer supported")
    } else if lines().any(is_replay_header) || is_bare_replay(head) {
        Some("the output of uftrace replay is no longer supported")
    } else {
        None
    }
}

fn has(line: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(line, part).is_some()
}

/// True for `# DURATION TID FUNCTION` with any columns; `[SOURCE]` may follow.
fn is_replay_header(line: &[u8]) -> bool {
    const COLUMNS: [&[u8]; 9] = [
        b"DURATION",
        b"TID",
        b"ADDRESS",
        b"TIMESTAMP",
        b"TIMEDELTA",
        b"ELAPSED",
        b"TASK",
        b"MODULE",
        b"NAME",
    ];
    let Some(words) = line.strip_prefix(b"#") else { return false };
    let words = words.strip_suffix(b"[SOURCE]").unwrap_or(words).trim_ascii_end();
    let Some(columns) = words.strip_suffix(b"FUNCTION") else { return false };
    let mut columns = columns.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    columns.peek().is_some() && columns.all(|column| COLUMNS.contains(&column))
}

/// True for text that has only calls, braces and comments, as printed by `uftrace replay -f none`.
fn is_bare_replay(head: &[u8]) -> bool {
    let end =
        if head.len() < crate::read::HEAD { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let mut lines =
        head[..end].split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).peekable();
    let is_call = |line: &&[u8]| line.ends_with(b") {") || line.ends_with(b");");
    let mut returns = false;
    lines.peek().is_some_and(is_call)
        && lines.all(|line| {
            returns |= line.starts_with(b"} /* ");
            [&b"{"[..], b";", b"*/"].iter().any(|ending| line.ends_with(ending))
        })
        && returns
}
