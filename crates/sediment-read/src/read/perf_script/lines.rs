// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies the lines of perf script, and splits their fields.
//!
//! A sample begins with a line of fields (command, process and thread, processor, time, period, event, as far as
//! requested). With a call chain, it ends with an empty line; otherwise it is only that one line. The frames of a chain
//! begin with a tab. In copied text they may begin with blanks or nothing; then a line is a frame because it follows a
//! sample. A command may contain blanks, so the fields before the time are read backwards.

use super::branches;
use super::frames::{ChainFrame, cut, frame, hex};
use crate::read::numbers::decimal;

/// A classified line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScriptLine<'a> {
    Empty,
    /// A line of the header, without its `#`.
    Comment(&'a [u8]),
    Mapping(PrintedMapping<'a>),
    /// A process executes another program.
    Exec(u32),
    Fork {
        parent: u32,
        child: u32,
    },
    /// Number of records for which the kernel had no room.
    Lost(u64),
    /// Another kernel record, which perf was asked to print.
    Record,
    Sample(SampleLine<'a>),
    Frame(ChainFrame<'a>),
    /// An unknown line.
    Stray,
}

/// Mapping made by one process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PrintedMapping<'a> {
    pub(super) process: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) file_offset: u64,
    pub(super) build_id: Option<&'a [u8]>,
    pub(super) executable: bool,
    /// True for a mapping of the kernel, which all processes share.
    pub(super) kernel: bool,
    pub(super) path: &'a [u8],
}

/// The first line of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampleLine<'a> {
    pub(super) process: Option<u32>,
    pub(super) thread: Option<u64>,
    pub(super) period: Option<u64>,
    /// Empty if it was not printed.
    pub(super) event: &'a [u8],
    /// Rest of the line with its leading blanks: empty, or the sampled address and the text after it.
    pub(super) rest: &'a [u8],
}

impl SampleLine<'_> {
    /// True if only the address or its branches were printed.
    pub(super) fn has_no_fields(&self) -> bool {
        self.thread.is_none() && self.event.is_empty()
    }
}

/// Number of bytes that the fields of a sample may take in a line.
const FIELDS: usize = 512;

impl<'a> ScriptLine<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        match line.first() {
            None => Self::Empty,
            Some(b'#') => Self::Comment(&line[1..]),
            Some(_) if line.trim_ascii().is_empty() => Self::Empty,
            Some(b'\t') => frame(line).map_or(Self::Stray, Self::Frame),
            Some(_) => {
                let fields = &line[..line.len().min(FIELDS)];
                match memchr::memmem::find(fields, b"PERF_RECORD_") {
                    Some(at) => record(&line[at + b"PERF_RECORD_".len()..]),
                    None => sample(line).map_or(Self::Stray, Self::Sample),
                }
            }
        }
    }
}

fn record(text: &[u8]) -> ScriptLine<'_> {
    let words = |prefix: &[u8]| text.strip_prefix(prefix);
    let parsed = if let Some(rest) = words(b"MMAP2 ").or_else(|| words(b"MMAP ")) {
        mapping(rest).map(ScriptLine::Mapping)
    } else if let Some(rest) = words(b"COMM exec: ") {
        let ids = rest.rsplit(|b| *b == b':').next().unwrap_or_default();
        process_and_thread(ids).map(|(process, _)| ScriptLine::Exec(process))
    } else if let Some(rest) = words(b"FORK(") {
        fork(rest)
    } else if let Some(rest) = words(b"LOST lost ").or_else(|| words(b"LOST_SAMPLES lost ")) {
        decimal(first_word(rest)).map(ScriptLine::Lost)
    } else {
        return ScriptLine::Record;
    };
    parsed.unwrap_or(ScriptLine::Stray)
}

/// Parses `100/100: [0x1000(0x2000) @ 0x3000 08:01 12 0]: r-xp /path`, with a build-id in `<>` in place of the device,
/// or without either in the older form `… @ 0x3000]: x /path`.
fn mapping(text: &[u8]) -> Option<PrintedMapping<'_>> {
    let (ids, rest) = cut(text, b": [")?;
    let (process, _) = ids.strip_prefix(b"-1/").map_or_else(
        || process_and_thread(ids),
        // A mapping of the kernel, which belongs to no process.
        |_| Some((u32::MAX, 0)),
    )?;
    let (start, rest) = cut(rest, b"(")?;
    let (length, rest) = cut(rest, b") @ ")?;
    let (place, rest) = cut(rest, b"]: ")?;
    let (rights, path) = cut(rest, b" ")?;
    let mut place = place.splitn(2, |b| *b == b' ');
    let file_offset = prefixed(place.next()?)?;
    let build_id = place.next().and_then(|rest| rest.strip_prefix(b"<")?.strip_suffix(b">"));
    Some(PrintedMapping {
        process,
        start: prefixed(start)?,
        length: prefixed(length)?,
        file_offset,
        build_id: build_id.filter(|id| !id.is_empty() && id.iter().all(u8::is_ascii_hexdigit)),
        executable: rights.contains(&b'x'),
        kernel: process == u32::MAX,
        path,
    })
}

/// Parses `5595:5595):(5590:5590)`.
fn fork(text: &[u8]) -> Option<ScriptLine<'_>> {
    let (child, rest) = cut(text, b"):(")?;
    let (parent, _) = cut(rest, b")")?;
    let process = |ids| u32::try_from(decimal(cut(ids, b":")?.0)?).ok();
    Some(ScriptLine::Fork { parent: process(parent)?, child: process(child)? })
}

fn sample(line: &[u8]) -> Option<SampleLine<'_>> {
    let words = LineWords { line: &line[..line.len().min(FIELDS)], at: 0 };
    let mut before: Option<(usize, usize)> = None;
    let mut first = None;
    let mut pair = None;
    let mut single = None;
    let (mut earlier, mut by_event): (Option<(u64, usize)>, _) = (None, None);
    let mut earlier_end = None;
    for (start, end) in words {
        let word = &line[start..end];
        first.get_or_insert((start, end));
        if is_time(word) {
            let (process, thread) = ids_before(&line[..start])?;
            return Some(after_time(line, end, process, Some(thread)));
        }
        if let Some((_, before_end)) = before {
            // `command 100 401149`, if only these fields were requested.
            let previous = &line[before.map_or(0, |(start, _)| start)..before_end];
            let thread = decimal(previous).map(|thread| (thread, before_end));
            if is_event(word) && thread.is_some() && by_event.is_none() {
                // A period between them is right-aligned.
                let period = before.is_some_and(|(start, _)| start > 1 && line[start - 2] == b' ');
                let after_pair = pair.is_some_and(|(_, end)| Some(end) == earlier_end);
                by_event = if period { earlier.or(thread.filter(|_| !after_pair)) } else { thread };
            }
            if single.is_none() && before != first && is_address(word) {
                single = thread;
            }
            earlier = thread;
            earlier_end = Some(before_end);
        }
        if let Some(ids) = process_and_thread(word) {
            // A command may contain such a word too, so the last one counts.
            pair = Some((ids, end));
        }
        if word.starts_with(b"0x") {
            break;
        }
        before = Some((start, end));
    }
    if let Some((thread, end)) = by_event {
        return Some(after_time(line, end, None, Some(thread)));
    }
    if let Some(((process, thread), end)) = pair {
        return Some(after_time(line, end, Some(process), Some(thread)));
    }
    let (start, end) = first?;
    // Without any field before it, the address is in the first column, sixteen digits wide.
    if is_address(&line[start..end]) || line[start..].starts_with(b"0x") || glued(line).is_some() {
        return Some(SampleLine { rest: line, ..SampleLine::default() });
    }
    if let Some((thread, end)) = single {
        return Some(after_time(line, end, None, Some(thread)));
    }
    if branches::has_entry(line) {
        return Some(SampleLine { rest: line, ..SampleLine::default() });
    }
    // The first line of a chain with only command and thread.
    let (_, end) = before.filter(|last| Some(*last) != first)?;
    let (process, thread) = ids_before(&line[..end])?;
    Some(SampleLine { process, thread: Some(thread), ..SampleLine::default() })
}

/// Reads period and event, and the rest; any of them may be missing.
fn after_time(line: &[u8], at: usize, process: Option<u32>, thread: Option<u64>) -> SampleLine<'_> {
    let mut sample = SampleLine { process, thread, rest: &line[at..], ..SampleLine::default() };
    let mut words = LineWords { line, at };
    let Some((start, end)) = words.next() else { return sample };
    let (word, next) = (&line[start..end], words.next());
    match (decimal(word), next) {
        (Some(period), Some((start, end))) if is_event(&line[start..end]) => {
            sample.period = Some(period);
            sample.event = &line[start..end - 1];
            sample.rest = &line[end..];
        }
        _ if is_event(word) => {
            sample.event = &line[start..end - 1];
            sample.rest = &line[end..];
        }
        // A period is right-aligned before the address, which is wider.
        (Some(period), Some((start, end))) if is_address(&line[start..end]) => {
            sample.period = Some(period);
            sample.rest = &line[start - 1..];
        }
        _ => {}
    }
    sample
}

/// Reads process and thread at the end of a line of fields, before the processor and flags that may follow.
fn ids_before(fields: &[u8]) -> Option<(Option<u32>, u64)> {
    let words = fields.rsplit(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
    let mut ids = words.take(4).map(|word| match process_and_thread(word) {
        Some((process, thread)) => Some((Some(process), thread)),
        None => decimal(word).map(|thread| (None, thread)),
    });
    ids.find_map(|ids| ids)
}

/// Finds the end of an address that is directly followed by the first name of a branch, in the form without fields.
fn glued(line: &[u8]) -> Option<usize> {
    const WIDTH: usize = 17;
    let (address, rest) = line.split_at_checked(WIDTH)?;
    (is_address(address.trim_ascii()) && address[0] == b' ' && !rest.starts_with(b" ")).then_some(WIDTH)
}

struct LineWords<'a> {
    line: &'a [u8],
    at: usize,
}

impl Iterator for LineWords<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        // simpleperf prints a tab after the command.
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let start = self.at + self.line[self.at..].iter().position(|b| !is_blank(b))?;
        let end = self.line[start..].iter().position(is_blank).map_or(self.line.len(), |n| start + n);
        self.at = end;
        Some((start, end))
    }
}

/// True for a time such as `13006.700357:`.
fn is_time(word: &[u8]) -> bool {
    let Some(digits) = word.strip_suffix(b":") else { return false };
    let Some(point) = digits.iter().position(|b| *b == b'.') else { return false };
    let (seconds, fraction) = (&digits[..point], &digits[point + 1..]);
    let all = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    all(seconds) && all(fraction) && fraction.len() >= 6
}

fn is_event(word: &[u8]) -> bool {
    word.ends_with(b":") && word[0].is_ascii_alphanumeric() && !word.starts_with(b"0x")
}

fn is_address(word: &[u8]) -> bool {
    (1..=16).contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit)
}

fn process_and_thread(word: &[u8]) -> Option<(u32, u64)> {
    let (process, thread) = cut(word, b"/")?;
    Some((u32::try_from(decimal(process)?).ok()?, decimal(thread)?))
}

fn first_word(text: &[u8]) -> &[u8] {
    text.split(|b| *b == b' ').next().unwrap_or_default()
}

/// Parses `0x1000`, or `0` as perf prints it.
fn prefixed(word: &[u8]) -> Option<u64> {
    hex(word.strip_prefix(b"0x").unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(line: &str) -> SampleLine<'_> {
        match ScriptLine::of(line.as_bytes()) {
            ScriptLine::Sample(sample) => sample,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn fields_are_found_whichever_were_asked_for() {
        type ExpectedSampleLine<'a> = (Option<u32>, Option<u64>, Option<u64>, &'a str, &'a str);
        let cases: [(&str, ExpectedSampleLine<'_>); 13] = [
            (
                "maps\t21452/21452 [007] 11371.483014: 201198 cpu-clock:",
                (Some(21452), Some(21452), Some(201_198), "cpu-clock", ""),
            ),
            (
                "my prog 23398 13006.700357:    1001001 cpu-clock:u: ",
                (None, Some(23398), Some(1_001_001), "cpu-clock:u", " "),
            ),
            (
                "lto cgu.0 25348 [000] 13113.106319:    1001001 cpu-clock: ",
                (None, Some(25348), Some(1_001_001), "cpu-clock", " "),
            ),
            (
                "my prog 23395/23398 13006.700357:    1001001 cpu-clock:u: ",
                (Some(23395), Some(23398), Some(1_001_001), "cpu-clock:u", " "),
            ),
            (
                "a 7 [b] 12 [001] d..2. 5.000001: sched:sched_switch: ",
                (None, Some(12), None, "sched:sched_switch", " "),
            ),
            ("my comm     100 ", (None, Some(100), None, "", "")),
            (
                "         my comm   100/100       0.000002:      55555555515c 0x1/0x2/P/-/-/7/ ",
                (Some(100), Some(100), None, "", "      55555555515c 0x1/0x2/P/-/-/7/ "),
            ),
            (
                " prop  5595/5595       5629ec742901 0x5629ec7428f4/0x5629ec742901/P/-/-/19/",
                (
                    Some(5595),
                    Some(5595),
                    None,
                    "",
                    "       5629ec742901 0x5629ec7428f4/0x5629ec742901/P/-/-/19/",
                ),
            ),
            (
                "     55555555515c 0x1/0x2/P/-/-/7/ ",
                (None, None, None, "", "     55555555515c 0x1/0x2/P/-/-/7/ "),
            ),
            (
                "     55555555515cmain+0xa/hot+0x0/P/-/-/7/ ",
                (None, None, None, "", "     55555555515cmain+0xa/hot+0x0/P/-/-/7/ "),
            ),
            (
                "       lto cgu.0 25348      7f65bfbf9286 name",
                (None, Some(25348), None, "", "      7f65bfbf9286 name"),
            ),
            (
                "  my prog 25312 13111.725435:    1001001 cpu-clock:u:      55c6d4aaf16a leaf+0x11 (/tmp/my prog)",
                (
                    None,
                    Some(25312),
                    Some(1_001_001),
                    "cpu-clock:u",
                    "      55c6d4aaf16a leaf+0x11 (/tmp/my prog)",
                ),
            ),
            (
                "x 1 2.000000:        168       5629ec742901 0x1/0x2/P/-/-/7/",
                (None, Some(1), Some(168), "", " 5629ec742901 0x1/0x2/P/-/-/7/"),
            ),
        ];
        for (line, (process, thread, period, event, rest)) in cases {
            let expected =
                SampleLine { process, thread, period, event: event.as_bytes(), rest: rest.as_bytes() };
            assert_eq!(sample_of(line), expected, "{line}");
        }
    }

    #[test]
    fn kernel_records_are_told_from_samples() {
        let mapping = PrintedMapping {
            process: 100,
            start: 0x5555_5555_5000,
            length: 0x1000,
            file_offset: 0x1000,
            build_id: None,
            executable: true,
            kernel: false,
            path: b"/tmp/my prog",
        };
        let line = "my comm 100/100 0.000001: PERF_RECORD_MMAP2 100/100: [0x555555555000(0x1000) @ 0x1000 08:01 1 0]: r-xp /tmp/my prog";
        assert_eq!(ScriptLine::of(line.as_bytes()), ScriptLine::Mapping(mapping));
        let line = "PERF_RECORD_MMAP2 1/1: [0x1000(0x1000) @ 0 <ae86c7>]: r-xp /x";
        assert!(matches!(
            ScriptLine::of(line.as_bytes()),
            ScriptLine::Mapping(PrintedMapping { build_id: Some(b"ae86c7"), file_offset: 0, .. })
        ));
        let line = "swapper 0/0 0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1209988) @ 0xffffffff81000000]: x [kernel.kallsyms]_text";
        assert!(matches!(
            ScriptLine::of(line.as_bytes()),
            ScriptLine::Mapping(PrintedMapping { kernel: true, .. })
        ));
        assert_eq!(ScriptLine::of(b"sh 5/5 1.000000: PERF_RECORD_COMM exec: a:b:5/5"), ScriptLine::Exec(5));
        assert_eq!(ScriptLine::of(b"PERF_RECORD_FORK(7:7):(5:5)"), ScriptLine::Fork { parent: 5, child: 7 });
        assert_eq!(ScriptLine::of(b"PERF_RECORD_LOST lost 12"), ScriptLine::Lost(12));
        assert_eq!(ScriptLine::of(b"PERF_RECORD_EXIT(7:7):(5:5)"), ScriptLine::Record);
        assert_eq!(ScriptLine::of(b"PERF_RECORD_MMAP2 nonsense"), ScriptLine::Stray);
    }
}
