// SPDX-License-Identifier: MIT OR Apache-2.0
//! Iterates over the relevant lines of the log.
//!
//! Nearly all lines are `SB ` and eight digits, so they are parsed eight bytes at once.

use super::super::numbers::hexadecimal;
use super::super::{Input, input};
use memchr::{memchr, memmem};
use sediment_core::error::{Error, Result};

/// Meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogEvent<'a> {
    /// The block at this address was executed.
    Block(u64),
    /// The log continues with this thread.
    Thread(u32),
    /// Another process begins.
    Started,
    /// valgrind reads the symbols of this file; the next line may have its address.
    Object(&'a [u8]),
    /// Address of that file's code: as linked, and in memory.
    Loaded { linked: u64, loaded: u64 },
    /// The file with code at this address is unmapped.
    Discarded { code: u64 },
}

/// Facts about the whole run from the log.
#[derive(Debug, Default)]
pub(super) struct RunFacts {
    /// The architecture, as `uname -m` spells it.
    pub(super) arch: Option<String>,
    /// True if valgrind's options are listed and the option that separates blocks is missing.
    pub(super) chased: bool,
    /// True if it records how the program ended.
    pub(super) ended: bool,
}

const BANNER: &[u8] = b"Lackey, an example Valgrind tool";
const LONGEST_LINE: usize = 1 << 20;
const PIECE: usize = 1 << 18;

pub(super) fn recognises(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii_end();
        let block = line.strip_prefix(b"SB ").is_some_and(|digits| matches!(address(digits), Some((_, 8..))));
        block || said(line).is_some_and(|said| said == BANNER)
    })
}

/// Passes on every event with its line number, and returns the facts known at the end.
pub(super) fn each(
    input: &dyn Input,
    event: &mut impl FnMut(LogEvent<'_>, u64) -> Result<()>,
) -> Result<RunFacts> {
    let mut parser = LogParser::default();
    let mut buffer: Vec<u8> = Vec::new();
    let mut offset = 0u64;
    loop {
        let kept = buffer.len();
        // A long line doubles the amount that is read at once, so that the search takes linear time.
        let piece = PIECE.max(kept);
        buffer.resize(kept + piece, 0);
        let count = input::fill(input, offset, &mut buffer[kept..])?;
        buffer.truncate(kept + count);
        offset += count as u64;
        let ended = count < piece;
        if ended && !buffer.is_empty() && !buffer.ends_with(b"\n") {
            buffer.push(b'\n');
        }
        let used = parser.lines(&buffer, event)?;
        buffer.drain(..used);
        if ended {
            return Ok(parser.finish());
        }
        if buffer.len() > LONGEST_LINE {
            return Err(Error::at_line(parser.line + 1, format!("a line longer than {LONGEST_LINE} bytes")));
        }
    }
}

#[derive(Debug, Default)]
struct LogParser {
    /// Number of the last line, from 1.
    line: u64,
    known: RunFacts,
    options_listed: bool,
    apart: bool,
}

impl LogParser {
    /// Parses all complete lines, and returns their length in bytes.
    fn lines(
        &mut self,
        bytes: &[u8],
        event: &mut impl FnMut(LogEvent<'_>, u64) -> Result<()>,
    ) -> Result<usize> {
        let mut at = 0;
        loop {
            if let Some(line) = bytes.get(at..at + 12) {
                if line[..3] == *b"SB " && line[11] == b'\n' {
                    if let Some(address) = eight_digits(&line[3..11]) {
                        self.line += 1;
                        at += 12;
                        event(LogEvent::Block(address), self.line)?;
                        continue;
                    }
                }
            }
            let Some(length) = memchr(b'\n', &bytes[at..]) else { return Ok(at) };
            self.line += 1;
            let line = bytes[at..at + length].trim_ascii_end();
            at += length + 1;
            if let Some(found) = self.event_of(line)? {
                event(found, self.line)?;
            }
        }
    }

    fn event_of<'a>(&mut self, line: &'a [u8]) -> Result<Option<LogEvent<'a>>> {
        if let Some(digits) = line.strip_prefix(b"SB ") {
            return match address(digits) {
                Some((address, 8..)) => Ok(Some(LogEvent::Block(address))),
                _ => {
                    Err(Error::at_line(self.line, "a block (SB) without an address of eight or more digits")
                        .with_found(line)
                        .with_hint("is the file cut off? Let the program end, or copy the file again"))
                }
            };
        }
        let Some(said) = said(line) else {
            // Output of the program itself, if it goes to the same file; a block may follow on the same line.
            let block = memmem::rfind(line, b"SB ").and_then(|at| address(&line[at + 3..]));
            return Ok(block.filter(|(_, digits)| *digits >= 8).map(|(address, _)| LogEvent::Block(address)));
        };
        if let Some(rest) = said.trim_ascii_start().strip_prefix(b"SCHED[") {
            let number = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
            let acquired = rest[number..].strip_prefix(b"]:").map(<[u8]>::trim_ascii_start);
            if acquired.is_some_and(|rest| rest.starts_with(b"acquired lock")) {
                let number = std::str::from_utf8(&rest[..number]).ok().and_then(|text| text.parse().ok());
                return Ok(number.map(LogEvent::Thread));
            }
            return Ok(None);
        }
        if let Some(path) = said.strip_prefix(b"Reading syms from ") {
            return Ok(Some(LogEvent::Object(path)));
        }
        if let Some(rest) = said.trim_ascii_start().strip_prefix(b"svma ") {
            let loaded = memmem::find(rest, b", avma ").map(|at| (&rest[..at], &rest[at + 7..]));
            let addresses = loaded.and_then(|(linked, loaded)| Some((prefixed(linked)?, prefixed(loaded)?)));
            return Ok(addresses.map(|(linked, loaded)| LogEvent::Loaded { linked, loaded }));
        }
        if let Some(rest) = said.strip_prefix(b"Discarding syms at ") {
            let end = memchr(b'-', rest).unwrap_or(rest.len());
            return Ok(prefixed(&rest[..end]).map(|code| LogEvent::Discarded { code }));
        }
        if said == BANNER {
            return Ok(Some(LogEvent::Started));
        }
        self.learn(said);
        Ok(None)
    }

    fn learn(&mut self, said: &[u8]) {
        let said = said.trim_ascii();
        if let Some(rest) = said.strip_prefix(b"Arch and hwcaps: ") {
            let name = rest.split(|byte| *byte == b',').next().unwrap_or_default();
            let little = memmem::find(rest, b"LittleEndian").is_some();
            let arch = match (name, little) {
                (b"AMD64", _) => "x86_64",
                (b"X86", _) => "i686",
                (b"ARM64", _) => "aarch64",
                (b"ARM", _) => "armv7l",
                (b"PPC64", true) => "ppc64le",
                (b"PPC64", false) => "ppc64",
                (b"S390X", _) => "s390x",
                (b"RISCV64", _) => "riscv64",
                _ => return,
            };
            self.known.arch = Some(arch.to_owned());
        } else if said == b"Valgrind options:" {
            self.options_listed = true;
        } else if said == b"--vex-guest-chase=no" || said == b"--vex-guest-chase-thresh=0" {
            self.apart = true;
        } else if said.starts_with(b"Exit code:") {
            self.known.ended = true;
        }
    }

    fn finish(mut self) -> RunFacts {
        self.known.chased = self.options_listed && !self.apart;
        self.known
    }
}

/// Returns the text of valgrind's own lines: `==PID== TEXT` or `--PID-- TEXT`, with a time before the number if the
/// option is set.
fn said(line: &[u8]) -> Option<&[u8]> {
    let mark = line.get(..2).filter(|mark| matches!(*mark, b"==" | b"--"))?;
    const LONGEST_MARK: usize = 40;
    let rest = &line[2..];
    let end = memmem::find(&rest[..rest.len().min(LONGEST_MARK)], mark)?;
    let plain = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b' ');
    if end == 0 || !rest[..end].iter().all(plain) {
        return None;
    }
    let text = &rest[end + 2..];
    Some(text.strip_prefix(b" ").unwrap_or(text))
}

/// Parses a text of hexadecimal digits; also returns their number.
fn address(digits: &[u8]) -> Option<(u64, usize)> {
    let number = if digits.len() > 16 { None } else { hexadecimal(digits) };
    Some((number?, digits.len()))
}

fn prefixed(text: &[u8]) -> Option<u64> {
    address(text.strip_prefix(b"0x")?).map(|(number, _)| number)
}

/// Parses eight hexadecimal digits, in lower case as valgrind prints them, all bytes at once.
#[inline]
fn eight_digits(text: &[u8]) -> Option<u64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_be_bytes(text.try_into().ok()?);
    // Letters have bit 6, digits do not. Each kind has its own range, which is tested by sums that stay within their
    // byte.
    let letters = (word >> 6) & ONES;
    let low = word & (0x0f * ONES);
    let upper = word & (0xf0 * ONES);
    let expected = (0x30 * ONES) + letters * 0x30;
    // Digits are 0 to 9, and letters are a to f, whose lower halves are 1 to 6.
    let too_high = (low + (0x76 * ONES) + letters * 3) & (0x80 * ONES);
    let from_a = (low + letters * 0x0f) & (letters * 0x10);
    if upper != expected || too_high != 0 || from_a != letters * 0x10 {
        return None;
    }
    let values = low + letters * 9;
    // Combines half bytes to bytes, to pairs, and to the number.
    let bytes = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    Some((pairs | pairs >> 16) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_what_the_library_says() {
        for text in ["00000000", "0401ab70", "ffffffff", "deadbeef", "1ffefff0", "89abcdef", "01234567"] {
            assert_eq!(eight_digits(text.as_bytes()), u64::from_str_radix(text, 16).ok(), "{text}");
        }
        for byte in 0..=255u8 {
            for position in 0..8 {
                let mut text = *b"0a9f1c07";
                text[position] = byte;
                let lower = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                let expected = std::str::from_utf8(&text).ok().filter(|_| lower);
                let expected = expected.and_then(|text| u64::from_str_radix(text, 16).ok());
                assert_eq!(eight_digits(&text), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn output_of_valgrind_and_of_the_program_are_told_apart() {
        let cases: [(&str, Option<&str>); 7] = [
            ("==12== Command: ./p", Some("Command: ./p")),
            ("--12--    svma 0x10, avma 0x20", Some("   svma 0x10, avma 0x20")),
            ("--00:00:00:01.224 12-- Reading syms from /p", Some("Reading syms from /p")),
            ("==12==", Some("")),
            ("--help-- me", None),
            ("====", None),
            ("-", None),
        ];
        for (line, expected) in cases {
            assert_eq!(said(line.as_bytes()), expected.map(str::as_bytes), "{line}");
        }
    }
}
