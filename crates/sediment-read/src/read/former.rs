// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats that earlier releases could read. They are still recognised, so that no other reader accepts them, and
//! refused with advice on the replacement.

use sediment_core::error::{Error, ErrorCode};

/// A format that is no longer read.
#[derive(Debug)]
pub struct FormerFormat {
    /// Name of the format in an earlier release.
    pub name: &'static str,
    summary: &'static str,
    recognises: fn(&[u8]) -> bool,
    replacement: &'static str,
}

/// All formats that are no longer read.
pub const FORMER_FORMATS: &[FormerFormat] = &[FormerFormat {
    name: "gprof",
    summary: "the text of gprof",
    recognises: is_gprof_text,
    replacement: "import the gmon.out itself: sediment import gmon.out --binary PROGRAM",
}];

impl FormerFormat {
    pub(super) fn recognise(head: &[u8]) -> Option<&'static Self> {
        FORMER_FORMATS.iter().find(|format| (format.recognises)(head))
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        FORMER_FORMATS.iter().find(|format| format.name == name)
    }

    pub(super) fn error(&self) -> Error {
        Error::new(ErrorCode::UnsupportedVariant, format!("{} is no longer supported", self.summary))
            .with_hint(self.replacement)
    }
}

/// True for a flat profile and for a call graph. Some versions of gprof begin with an explanation of the columns.
fn is_gprof_text(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let begins = |line: &[u8]| {
        line.starts_with(b"Flat profile:")
            || matches!(line, b"call graph profile:" | b"Call graph" | b"Call graph (explanation follows)")
            || line.starts_with(b"granularity: each sample hit covers")
            || line.starts_with(b"%   cumulative ")
    };
    lines.clone().next().is_some_and(begins) || lines.any(is_gprof_header)
}

/// True for `time seconds seconds calls ms/call ms/call name` or `index % time self children called name`.
fn is_gprof_header(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let has = |beginning: &[u8]| words.iter().any(|word| word.starts_with(beginning));
    match words[..] {
        [b"time" | b"%" | b"%time", b"seconds" | b"cycles" | b"cumsecs", .., b"name"] => has(b"calls"),
        [b"index", share, ..] => share.starts_with(b"%") && has(b"self") && has(b"called") && has(b"name"),
        _ => false,
    }
}
