// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads frames of call chains as perf script prints them: an address, and `symbol+0xoffset (object)`.

use crate::read::numbers::hexadecimal;

/// One frame of a call chain, or the sampled address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainFrame<'a> {
    pub(super) address: u64,
    /// The printed part of `symbol+0xoffset (object)`.
    pub(super) text: &'a [u8],
}

/// Splits a line into an address and the rest.
pub(super) fn frame(line: &[u8]) -> Option<ChainFrame<'_>> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|b| !b.is_ascii_hexdigit()).unwrap_or(line.len());
    if end < line.len() && line[end] != b' ' {
        return None;
    }
    Some(ChainFrame { address: hex(&line[..end])?, text: line[end..].trim_ascii() })
}

/// Finds the start of the object after a symbol: ` (/path)` or ` ([name])`, otherwise the last parenthesis.
pub(super) fn object_start(text: &[u8]) -> Option<usize> {
    let path = memchr::memmem::find(text, b" (/");
    let name = memchr::memmem::find(text, b" ([");
    match (path, name) {
        (Some(path), Some(name)) => Some(path.min(name)),
        (None, None) => {
            let text = text.strip_suffix(b" (deleted))").unwrap_or(text);
            memchr::memmem::rfind(text, b" (")
        }
        (path, name) => path.or(name),
    }
}

/// Symbol of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameSymbol<'a> {
    /// A name, empty if it was not printed, and its object.
    Of { name: &'a [u8], object: Option<&'a [u8]> },
    /// A function that was inlined into the next frame.
    Inlined,
    /// Not reliable: the line ends within the object.
    CutOff,
}

/// Splits a frame's `symbol+0xoffset (object)`.
pub(super) fn symbol_and_object(text: &[u8]) -> FrameSymbol<'_> {
    if text.ends_with(b" (inlined)") {
        return FrameSymbol::Inlined;
    }
    let (symbol, object) = match (text.ends_with(b")"), object_start(text)) {
        (true, Some(open)) => (&text[..open], Some(&text[open + 2..text.len() - 1])),
        // No symbol contains a path or the name of a mapping in parentheses.
        (false, Some(open)) if matches!(text.get(open + 2), Some(b'/' | b'[')) => return FrameSymbol::CutOff,
        // Only an object.
        _ if text.starts_with(b"(") && text.ends_with(b")") => (&b""[..], Some(&text[1..text.len() - 1])),
        _ => (text, None),
    };
    let name = match memchr::memmem::rfind(symbol, b"+0x") {
        Some(plus) if plus > 0 && hex(&symbol[plus + 3..]).is_some() => &symbol[..plus],
        _ => symbol,
    };
    FrameSymbol::Of { name, object }
}

pub(super) fn cut<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

pub(super) fn hex(digits: &[u8]) -> Option<u64> {
    if digits.len() <= 16 { hexadecimal(digits) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart_from_the_right() {
        let of = |name: &'static str, object: &'static str| FrameSymbol::Of {
            name: name.as_bytes(),
            object: (!object.is_empty()).then_some(object.as_bytes()),
        };
        let cases = [
            ("leaf+0x11 (/tmp/my prog)", of("leaf", "/tmp/my prog")),
            ("leaf (/tmp/my prog (deleted))", of("leaf", "/tmp/my prog (deleted)")),
            ("operator new (unsigned long)+0x1 (/x)", of("operator new (unsigned long)", "/x")),
            ("f (inlined)", FrameSymbol::Inlined),
            ("[unknown] ([unknown])", of("[unknown]", "[unknown]")),
            ("leaf", of("leaf", "")),
            ("(/x)", of("", "/x")),
            ("leaf+0x1 (prog)", of("leaf", "prog")),
            ("leaf+0x1 (/lib/x86_64-lin", FrameSymbol::CutOff),
            ("leaf ([kernel.kal", FrameSymbol::CutOff),
            ("f((anonymous namespace)::g) const", of("f((anonymous namespace)::g) const", "")),
        ];
        for (text, expected) in cases {
            assert_eq!(symbol_and_object(text.as_bytes()), expected, "{text}");
        }
    }
}
