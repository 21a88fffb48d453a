// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads callgrind.out of `valgrind --tool=callgrind`, and of programs that write the same format.
//!
//! The format is a stream of lines: a function's own cost (`fn=`, then lines of positions and costs), and its calls
//! (`cfn=`, `calls=COUNT`, then a line with the cost of the callee, which is not the caller's own). Names are
//! compressed to ids, which are defined at their first use; [`names`] follows them. Positions are skipped, because only
//! their number per line matters here. [`tally`] adds up the calls without a hash or an allocation per call.
//!
//! Source: valgrind's manual, "Callgrind Format Specification", and the output of valgrind 3.19
//! (docs/formats/callgrind.md).

mod address_ids;
mod instructions;
mod names;
mod tally;

use super::{Input, ReadSettings, Reader, Recording, input};
use address_ids::AddressIds;
use instructions::Instructions;
use memchr::memchr;
use names::{CallgrindFunctions, CompressedNames};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::ProfileSource;
use sediment_core::skipped::Reason;
use tally::PairTally;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "callgrind",
    summary: "callgrind.out of valgrind --tool=callgrind",
    recognises,
    read,
    replay: None,
};

const SIBLINGS: &str = "valgrind may have written to files next to it: NAME.1, NAME.2 for dumps, NAME-01, NAME-02 for threads; import those";
const CUT_OFF: &str = "is the file cut off? Let the program end, or copy the file again";
const LONGEST_HEADER: usize = 1 << 16;

fn recognises(bytes: &[u8]) -> bool {
    const FIRST_LINES: [&[u8]; 9] =
        [b"version:", b"pid:", b"cmd:", b"part:", b"thread:", b"desc:", b"event:", b"summary:", b"totals:"];
    let start = &bytes[..bytes.len().min(LONGEST_HEADER)];
    for line in start.split(|b| *b == b'\n').map(<[u8]>::trim_ascii) {
        if line.starts_with(b"# callgrind format")
            || line.starts_with(b"creator: callgrind")
            || line.starts_with(b"events:")
            || line.starts_with(b"positions:")
        {
            return true;
        }
        let header = line.is_empty()
            || line.starts_with(b"#")
            || line.starts_with(b"creator:")
            || FIRST_LINES.iter().any(|first| line.starts_with(first));
        if !header {
            return false;
        }
    }
    false
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let mut parser = CallgrindParser::new(bytes);
    parser.may_be_empty = settings.part;
    parser.keeps_executions = settings.executions;
    while parser.at < bytes.len() {
        parser.line += 1;
        parser.read_line()?;
    }
    parser.finish()
}

/// Callee of the next `calls=` line, from `cob=`, `cfi=` and `cfn=`.
#[derive(Default)]
struct CallTarget {
    object: Option<u32>,
    file: Option<u32>,
    function: Option<u32>,
}

struct CallgrindParser<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    objects: CompressedNames<'a>,
    files: CompressedNames<'a>,
    functions: CallgrindFunctions<'a>,
    tally: PairTally,
    unknown_lines: u64,
    /// Number of `calls=0` lines.
    uncounted: u64,
    unknown_example: &'a [u8],
    by_callgrind: bool,
    /// Name of the first event, once an `events:` line was read.
    event: Option<&'a [u8]>,
    /// Number of positions at the start of each line of costs.
    position_columns: usize,
    /// True if costs were read since the last `totals:`.
    open_part: bool,
    /// True if a `totals:` was read.
    closed: bool,
    /// True if a complete file without counts is valid: one of several threads may have done nothing.
    may_be_empty: bool,
    /// Cost of the parts in the first event, as stated by `summary:`.
    announced: u128,
    object: u32,
    /// File of the last `fl=`, `fi=` or `fe=`.
    file: u32,
    function: Option<u32>,
    callee: CallTarget,
    /// File of `jfi=` for the next jump.
    jump_file: Option<u32>,
    keeps_executions: bool,
    /// Execution counts of instructions, if positions are instructions.
    instructions: Option<Instructions>,
}

impl<'a> CallgrindParser<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut objects = CompressedNames::new(bytes.len());
        let mut files = CompressedNames::new(bytes.len());
        let (object, file) = (objects.unknown(), files.unknown());
        Self {
            bytes,
            at: 0,
            line: 0,
            objects,
            files,
            functions: CallgrindFunctions::new(bytes.len()),
            tally: PairTally::default(),
            unknown_lines: 0,
            uncounted: 0,
            unknown_example: b"",
            by_callgrind: false,
            event: None,
            position_columns: 1,
            open_part: false,
            closed: false,
            may_be_empty: false,
            announced: 0,
            object,
            file,
            function: None,
            callee: CallTarget::default(),
            jump_file: None,
            keeps_executions: false,
            instructions: None,
        }
    }

    /// Reads the line at `at`, and the next one if the two belong together.
    fn read_line(&mut self) -> Result<()> {
        match self.bytes[self.at] {
            b'0'..=b'9' | b'+' | b'-' | b'*' => self.own_costs(),
            b'\n' => {
                self.at += 1;
                Ok(())
            }
            b' ' | b'\t' | b'\r' => {
                while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r')) {
                    self.at += 1;
                }
                if self.at < self.bytes.len() { self.read_line() } else { Ok(()) }
            }
            _ => {
                let line = self.take_line();
                self.named_line(line)
            }
        }
    }

    /// Returns the rest of the line without its end, and moves after it.
    fn take_line(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let (line, used) = match memchr(b'\n', rest) {
            Some(end) => (&rest[..end], end + 1),
            None => (rest, rest.len()),
        };
        self.at += used;
        line.trim_ascii_end()
    }

    /// Reads lines `POSITION… COST…`, the current function's own costs. Most lines of a file are of this kind, so all
    /// consecutive ones are read together.
    fn own_costs(&mut self) -> Result<()> {
        let Some(function) = self.function else {
            let found = self.take_line();
            return Err(self.error("cost line before any fn=", found).with_hint(CUT_OFF));
        };
        if self.event.is_none() {
            let found = self.take_line();
            return Err(self.error("cost line before any events:", found).with_hint(CUT_OFF));
        }
        if self.instructions.is_some() {
            self.executions(function);
        }
        let (bytes, columns) = (self.bytes, self.position_columns);
        let mut at = self.at;
        let mut lines = 0;
        let mut sum: u64 = 0;
        loop {
            let start = at;
            if let Some((cost, next)) = short_line(bytes, at, columns) {
                if let Some(more) = sum.checked_add(cost) {
                    sum = more;
                    at = next;
                    if !matches!(bytes.get(at), Some(b'0'..=b'9' | b'+' | b'-' | b'*')) {
                        break;
                    }
                    lines += 1;
                    continue;
                }
            }
            for _ in 0..columns {
                while bytes.get(at).is_some_and(|b| *b > b' ') {
                    at += 1;
                }
                while matches!(bytes.get(at), Some(b' ' | b'\t')) {
                    at += 1;
                }
            }
            let (cost, end) = match first_number(&bytes[at..]) {
                Some((cost, length)) => (cost, at + length),
                None => {
                    self.line += lines;
                    return Err(self.bad_cost(start));
                }
            };
            // Skips further events.
            at = match bytes.get(end) {
                Some(b'\n') => end + 1,
                Some(_) => memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |length| end + length + 1),
                None => bytes.len(),
            };
            match sum.checked_add(cost) {
                Some(more) => sum = more,
                None => {
                    self.functions.add_cost(function, sum);
                    sum = cost;
                }
            }
            if !matches!(bytes.get(at), Some(b'0'..=b'9' | b'+' | b'-' | b'*')) {
                break;
            }
            lines += 1;
        }
        self.functions.add_cost(function, sum);
        self.line += lines;
        self.at = at;
        self.open_part = true;
        Ok(())
    }

    /// Reads consecutive lines of costs by instruction; they are read again for their costs.
    fn executions(&mut self, function: u32) {
        let Some(instructions) = &mut self.instructions else { return };
        let mut rest = &self.bytes[self.at..];
        while matches!(rest.first(), Some(b'0'..=b'9' | b'+' | b'-' | b'*')) {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            instructions.executed(function, &rest[..end], self.position_columns);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }

    fn bad_cost(&mut self, start: usize) -> Error {
        self.at = start;
        let found = self.take_line();
        self.error("a cost outside 0 to 2^64 - 1", found)
    }

    /// Reads any line that begins with a word.
    fn named_line(&mut self, line: &'a [u8]) -> Result<()> {
        let (word, rest) = match line.iter().position(|b| matches!(b, b'=' | b':')) {
            Some(end) => (&line[..=end], line[end + 1..].trim_ascii()),
            None => (line, &line[line.len()..]),
        };
        match word {
            b"cfn=" => {
                let object = self.callee.object.unwrap_or(self.object);
                let file = self.callee.file.unwrap_or(self.file);
                let function = self
                    .functions
                    .named(rest, object, file, self.line)
                    .map_err(|what| self.unnamed(what, line))?;
                self.callee.function = Some(function);
            }
            b"calls=" => self.call(line, rest)?,
            b"fn=" => {
                let (object, file) = (self.object, self.file);
                let function = self
                    .functions
                    .defined(rest, object, file, self.line)
                    .map_err(|what| self.unnamed(what, line))?;
                self.tally.end_block();
                self.function = Some(function);
                self.callee = CallTarget::default();
            }
            b"fi=" | b"fe=" | b"fl=" => {
                self.file = self.files.named(rest).map_err(|what| self.unnamed(what, line))?;
            }
            b"ob=" => self.object = self.objects.named(rest).map_err(|what| self.unnamed(what, line))?,
            b"cfi=" | b"cfl=" => {
                self.callee.file = Some(self.files.named(rest).map_err(|what| self.unnamed(what, line))?);
            }
            b"cob=" => {
                self.callee.object = Some(self.objects.named(rest).map_err(|what| self.unnamed(what, line))?);
            }
            b"jump=" | b"jcnd=" => {
                self.jump_file = None;
                self.line_after(line)?;
            }
            // These lines have the target of a jump, but may define a name that later lines refer to.
            b"jfi=" => {
                self.jump_file = Some(self.files.named(rest).map_err(|what| self.unnamed(what, line))?)
            }
            b"jfn=" => {
                let (object, file) = (self.object, self.jump_file.unwrap_or(self.file));
                self.functions
                    .named(rest, object, file, self.line)
                    .map_err(|what| self.unnamed(what, line))?;
            }
            b"events:" => {
                self.event = Some(rest.split(|b| *b == b' ').next().unwrap_or_default());
                self.begin_part();
            }
            b"positions:" => self.positions(rest),
            b"totals:" => {
                self.open_part = false;
                self.closed = true;
            }
            b"summary:" => {
                let first = rest.split(|b| *b == b' ').next().and_then(|sum| std::str::from_utf8(sum).ok());
                self.announced += first.and_then(|sum| sum.parse::<u64>().ok()).map_or(0, u128::from);
            }
            b"version:" => self.begin_file(),
            b"creator:" => self.by_callgrind |= rest.starts_with(b"callgrind"),
            _ if word.starts_with(b"#") || word.ends_with(b":") => {}
            _ if word.ends_with(b"=") && word[..word.len() - 1].iter().all(u8::is_ascii_alphabetic) => {
                self.unknown_lines += 1;
                if self.unknown_example.is_empty() {
                    self.unknown_example = line;
                }
            }
            _ => {
                return Err(self.error("not a line of the callgrind format", line).with_hint(CUT_OFF));
            }
        }
        Ok(())
    }

    /// Reads `calls=COUNT POSITION…` and the next line, which has the inclusive cost.
    fn call(&mut self, line: &'a [u8], rest: &'a [u8]) -> Result<()> {
        let first = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let count = number(first)
            .ok_or_else(|| self.error("a number of calls outside 0 to 2^64 - 1", line).with_hint(CUT_OFF))?;
        if self.function.is_none() {
            return Err(self.error("calls= before any fn=", line).with_hint(CUT_OFF));
        }
        let callee = std::mem::take(&mut self.callee);
        let Some(function) = callee.function else {
            return Err(self.error("calls= without a cfn= before it", line).with_hint(CUT_OFF));
        };
        self.line_after(line)?;
        if let Some(caller) = self.function {
            if count == 0 {
                // The call began before this part did.
                self.uncounted += 1;
            } else {
                self.tally.add(caller, function, count);
            }
            self.functions.executed(function);
        }
        self.open_part = true;
        Ok(())
    }

    /// Skips the line of positions that belongs to the previous line.
    fn line_after(&mut self, line: &'a [u8]) -> Result<()> {
        match self.bytes.get(self.at) {
            Some(b'0'..=b'9' | b'+' | b'-' | b'*') => {
                let found = self.take_line();
                self.line += 1;
                if let Some(instructions) = &mut self.instructions {
                    instructions.at(found);
                }
                Ok(())
            }
            _ => Err(self.error("calls= without its line of positions and costs", line).with_hint(CUT_OFF)),
        }
    }

    fn positions(&mut self, names: &[u8]) {
        let words = names.split(|b| *b == b' ').filter(|word| !word.is_empty());
        self.position_columns = words.count().max(1);
        if self.keeps_executions {
            self.instructions = self.instructions.take().or_else(|| Instructions::of(names));
        }
    }

    fn begin_part(&mut self) {
        self.tally.end_block();
        self.function = None;
        self.callee = CallTarget::default();
        self.object = self.objects.unknown();
        self.file = self.files.unknown();
        self.open_part = false;
    }

    /// Ids are valid within one file, and a file may be a concatenation of several.
    fn begin_file(&mut self) {
        self.objects.forget_ids();
        self.files.forget_ids();
        self.functions.forget_ids();
        self.begin_part();
    }

    fn unnamed(&self, what: &str, found: &[u8]) -> Error {
        self.error(what, found)
            .with_hint("is the beginning of the file missing? Each file defines its own ids")
    }

    fn error(&self, message: impl Into<String>, found: &[u8]) -> Error {
        Error::at_line(self.line, message).with_found(found)
    }

    fn finish(mut self) -> Result<Recording> {
        self.tally.end_block();
        let Some(event) = self.event else {
            return Err(Error::at_line(self.line, "the file ends before a line `events:`")
                .with_hint(format!("{CUT_OFF}; or {SIBLINGS}")));
        };
        // Without the totals at its end, a file is complete if it has all the cost that its beginning states.
        if self.by_callgrind && self.open_part && self.functions.cost() != self.announced {
            return Err(
                Error::at_line(self.line, "the file ends without a line `totals:`").with_hint(CUT_OFF)
            );
        }
        let calls = self.tally.into_calls();
        let nothing = calls.is_empty() && self.functions.cost() == 0;
        let whole_part = self.may_be_empty && self.by_callgrind && self.closed && self.announced == 0;
        if nothing && !whole_part {
            return Err(Error::at_line(self.line, "the file has a header, but no costs and no calls")
                .with_hint(SIBLINGS));
        }
        if calls.is_empty() && !self.by_callgrind && self.uncounted > 0 {
            return Err(Error::new(
                ErrorCode::UnsupportedVariant,
                "all call counts are 0, as in files written by pprof",
            )
            .with_hint("import the original profile: pprof -proto -output=profile.pb.gz FILE"));
        }
        if calls.is_empty() && !self.by_callgrind {
            return Err(Error::new(
                ErrorCode::UnsupportedVariant,
                "no calls (costs only, as written by cachegrind)",
            )
            .with_hint("record with: valgrind --tool=callgrind --demangle=no PROGRAM"));
        }
        let mut recording = Recording {
            source: ProfileSource::new("valgrind callgrind", &String::from_utf8_lossy(event), &[]),
            seen: counted(calls.len(), "call edge"),
            ..Recording::default()
        };
        recording.skipped.add_many(Reason::UnknownLine, self.unknown_lines, 0, self.unknown_example);
        if !self.by_callgrind {
            recording.skipped.add_many(Reason::UncountedCall, self.uncounted, 0, "");
        }
        let addresses = AddressIds::of(&self.functions, &self.objects, &self.files, &mut recording);
        addresses.add_costs(&self.functions, &mut recording);
        addresses.add_calls(&self.functions, &calls, &mut recording);
        if let Some(instructions) = self.instructions.filter(|_| event == b"Ir") {
            addresses.add_executed(instructions, &mut recording);
        }
        if recording.addresses().is_empty() && !nothing {
            return Err(Error::new(ErrorCode::Unresolved, "no function has a name to order by")
                .with_hint("install the debug symbols of the program, then record it again"));
        }
        Ok(recording)
    }
}

/// Returns the first cost of a line of positions and costs, and the start of the next line; `None` for lines that are
/// not of the most common form: short numbers separated by one blank. Most lines are of that form, and their numbers
/// vary in length: comparing eight bytes at once avoids branches that the processor could not predict.
#[inline]
fn short_line(bytes: &[u8], mut at: usize, columns: usize) -> Option<(u64, usize)> {
    for _ in 0..columns {
        at += bytes_before_blank(word(bytes, at)?)?;
        if bytes[at] != b' ' {
            return None;
        }
        at += 1;
    }
    let word = word(bytes, at)?;
    let length = bytes_before_blank(word)?;
    let cost = decimal(word, length)?;
    at += length;
    let end = if bytes[at] == b'\n' { at } else { at + memchr(b'\n', &bytes[at..])? };
    Some((cost, end + 1))
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Reads eight bytes, the first one as the lowest.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// Number of bytes of a word before the first blank or line end; `None` without one.
#[inline]
fn bytes_before_blank(word: u64) -> Option<usize> {
    // A byte below 33 borrows from its highest bit; the effect on later bytes does not matter.
    let blanks = word.wrapping_sub(ONES * 0x21) & !word & (ONES * 0x80);
    (blanks != 0).then(|| blanks.trailing_zeros() as usize / 8)
}

/// Parses the first `length` bytes of a word, fewer than eight, as a decimal number.
#[inline]
fn decimal(word: u64, length: usize) -> Option<u64> {
    if length == 0 || length > 7 {
        return None;
    }
    let unused = 64 - 8 * length as u32;
    // Leading zeros replace the bytes that do not belong to it.
    let digits = (word << unused).wrapping_sub((ONES * 0x30) << unused);
    if (digits | digits.wrapping_add(ONES * 0x76)) & (ONES * 0x80) != 0 {
        return None;
    }
    // Combines neighbouring digits to pairs, pairs to groups of four, and groups of four to eight digits.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// Parses the number at the start of a text; returns it with its length. A missing number at the end of a line is 0.
/// `None` for anything else.
fn first_number(text: &[u8]) -> Option<(u64, usize)> {
    let mut value: u64 = 0;
    let mut length = 0;
    loop {
        match text.get(length) {
            Some(digit @ b'0'..=b'9') => {
                value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
                length += 1;
            }
            None | Some(b'\n' | b' ' | b'\r' | b'\t') => return Some((value, length)),
            Some(_) => break,
        }
    }
    let end = text.iter().position(|b| *b <= b' ').unwrap_or(text.len());
    Some((number(&text[..end])?, end))
}

/// Parses a number of the format: decimal, or hexadecimal after `0x`.
fn number(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix(b"0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // from_str_radix accepts a sign, but the format does not.
    if !digits.first()?.is_ascii_hexdigit() {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_at_once_say_what_byte_by_byte_says() {
        let texts = [
            "0", "7", "42", "905", "1234567", "12345678", "99999999", "x1", "1x", "1/", "1:", "-5", "+5",
            "\u{ff}", "", "9 9", "\r", "0012",
        ];
        for position in ["+3", "-12", "*", "1234567", "0x4001060", ""] {
            for text in texts {
                for end in ["\n", " 7 8\n", "\r\n", "", "\n+1 2\n         "] {
                    let line = format!("{position} {text}{end}").into_bytes();
                    let Some((cost, next)) = short_line(&line, 0, 1) else { continue };
                    let digits = &line[position.len() + 1..];
                    assert_eq!(first_number(digits).map(|(cost, _)| cost), Some(cost), "{position} {text}");
                    assert_eq!(line[..next].iter().filter(|byte| **byte == b'\n').count(), 1);
                    assert_eq!(line[next - 1], b'\n');
                }
            }
        }
        assert_eq!(short_line(b"+3 1234567\n      ", 0, 1), Some((1_234_567, 11)));
        assert_eq!(short_line(b"+3 * 42 9 9\n      ", 0, 2), Some((42, 12)));
        for number in (0..9_999_999u64).step_by(7919) {
            let text = format!("{number}\n       ");
            let word = word(text.as_bytes(), 0).unwrap();
            assert_eq!(decimal(word, bytes_before_blank(word).unwrap()), Some(number));
        }
    }
}
