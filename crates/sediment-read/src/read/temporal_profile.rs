// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads LLVM's temporal profiles: the functions of an instrumented program in order of first use, for some of its
//! runs.
//!
//! There are two forms. `llvm-profdata show --temporal-profile-traces` prints a line
//! `Temporal Profile Trace N (weight=W count=C):`, followed by one function per line. `llvm-profdata merge --text`
//! writes a line `:temporal_prof_traces`, followed by the number of traces and the number of runs from which they were
//! drawn. Each trace has its weight and a line of names, each followed by a comma; lines with `#` are comments. Local
//! functions are called `file;name`, or `file:name` in older files.
//!
//! Source: LLVM's documentation of llvm-profdata, and the output of version 19 (docs/formats/temporal-profile.md).

use super::input::InputLines;
use super::numbers::decimal;
use super::{
    AddressId, Input, Listener, ReadSettings, Reader, RecordedAddress, Recording, Replay, Spot, Step,
    TransferKind,
};
use sediment_core::affinity::Window;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, Callers, OwnCost},
};
use sediment_core::skipped::Reason;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "temporal-profile",
    summary: "temporal profile traces of LLVM, as llvm-profdata prints them",
    recognises,
    read,
    replay: Some(Replay { whole: true, steps }),
};

const RECORD: &str = "build with clang -fprofile-generate -mllvm -pgo-temporal-instrumentation, run, and print the traces: \
                      llvm-profdata merge *.profraw -o p.profdata; llvm-profdata show --temporal-profile-traces p.profdata";
const CUT_OFF: &str = "is the file cut off? copy it again, or print it again with llvm-profdata";
const RAW: [&[u8]; 3] = [b"\xfflprofi\x81", b"\x81rforpl\xff", b"\xfflprofr\x81"];
/// The first lines of llvm-profdata's text.
const FLAGS: [&[u8]; 8] = [
    b":ir",
    b":fe",
    b":csir",
    b":entry_first",
    b":not_entry_first",
    b":single_byte_coverage",
    b":instrument_loop_entries",
    TRACES,
];
const TRACES: &[u8] = b":temporal_prof_traces";
const SHOWN: &[u8] = b"Instrumentation level:";
const SHOWN_TRACES: &[u8] = b"Temporal Profile Traces (samples=";
const SHOWN_TRACE: &[u8] = b"Temporal Profile Trace ";

fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end);
    let first = lines.find(|line| !line.is_empty() && line[0] != b'#').unwrap_or_default();
    RAW.iter().any(|magic| head.starts_with(magic))
        || first.starts_with(SHOWN)
        || first.starts_with(SHOWN_TRACES)
        || FLAGS.iter().any(|flag| first.eq_ignore_ascii_case(flag))
}

/// Token of a text with traces.
enum Word<'a> {
    /// Begins a trace that represents this number of runs.
    Trace { weight: u64 },
    /// First use of a function.
    Function(&'a [u8]),
    /// Begins the counters of a function.
    Counters,
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let mut recording = Recording::default();
    let dso = settings.program_dso().map(|program| recording.dso(program));
    let (mut traces, mut weight, mut rank) = (0u64, 0u128, 0u64);
    let mut window = Window::default();
    words(input, &mut |word| match word {
        Word::Trace { weight: runs } => {
            traces += 1;
            (weight, rank) = (runs.into(), 0);
            window = Window::default();
        }
        Word::Function(name) => {
            let place = recording.place(RecordedAddress { dso, spot: spot(name) });
            recording.set_first(place, rank);
            rank += 1;
            window.enter(place.0, |other| {
                recording.add_transfer(AddressId(other), place, TransferKind::Affinity, weight);
            });
        }
        Word::Counters => recording.skipped.add(Reason::FunctionCounter, 0, ""),
    })?;
    if recording.addresses().is_empty() {
        return Err(
            Error::new(ErrorCode::EmptyRecording, "no temporal profile trace in this file").with_hint(RECORD)
        );
    }
    recording.source =
        ProfileSource::new("LLVM temporal profile traces", "", &[Callers, CallCounts, OwnCost]);
    recording.seen =
        format!("{} in {}", counted(recording.addresses().len(), "function"), counted(traces, "trace"));
    Ok(recording)
}

fn steps(
    input: &dyn Input,
    settings: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    let dso = settings.program_dso().map(|program| recording.find_dso(&program));
    // Traces come from different runs, so none follows another.
    let mut thread = 0;
    words(input, &mut |word| match word {
        Word::Trace { .. } => {
            thread += 1;
            listener.step(Step::Gap { thread });
        }
        Word::Function(name) => {
            if let Some(place) =
                recording.find_address(&RecordedAddress { dso: dso.flatten(), spot: spot(name) })
            {
                listener.step(Step::Run { thread, place });
            }
        }
        Word::Counters => {}
    })
}

/// Returns the function with this name, in LLVM's notation of unique local names.
fn spot(name: &[u8]) -> Spot {
    let cut = |sign: u8| {
        let at = memchr::memrchr(sign, name).filter(|at| *at > 0 && at + 1 < name.len())?;
        Some((&name[..at], &name[at + 1..]))
    };
    // In some languages, names contain colons; but a file name contains a dot.
    let of_file = |(file, _): &(&[u8], &[u8])| {
        file.contains(&b'.')
            && !file.iter().any(|b| matches!(b, b'[' | b'(' | b'<' | b' '))
            && !file.ends_with(b":")
    };
    match cut(b';').or_else(|| cut(b':').filter(of_file)) {
        Some((path, name)) => {
            let file = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
            Spot::Symbol { name: name.to_vec(), file: (!file.is_empty()).then(|| file.to_vec()) }
        }
        None => Spot::Symbol { name: name.to_vec(), file: None },
    }
}

fn words(input: &dyn Input, say: &mut dyn FnMut(Word<'_>)) -> Result<()> {
    let head = super::input::head(input, super::HEAD)?;
    if RAW.iter().any(|magic| head.starts_with(magic)) {
        return Err(Error::new(
            ErrorCode::UnsupportedVariant,
            "a profile of clang's instrumentation in binary form",
        )
        .with_hint(RECORD));
    }
    let mut lines = InputLines::of(input);
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii_end();
        if line.starts_with(SHOWN) || line.starts_with(SHOWN_TRACES) {
            return shown(&mut lines, say);
        }
        if line == TRACES {
            return written(&mut lines, say);
        }
        if !line.is_empty() && line[0] != b'#' && !FLAGS.iter().any(|flag| line.eq_ignore_ascii_case(flag)) {
            break;
        }
    }
    Ok(())
}

/// Reads the output of `llvm-profdata show`.
fn shown(lines: &mut InputLines<'_>, say: &mut dyn FnMut(Word<'_>)) -> Result<()> {
    let mut missing = 0u64;
    while let Some(line) = lines.next()? {
        let text = line.trim_ascii();
        if missing > 0 {
            if text.is_empty() {
                return Err(cut_off(lines.number(), missing));
            }
            missing -= 1;
            say(Word::Function(text));
            continue;
        }
        let Some(rest) = text.strip_prefix(SHOWN_TRACE) else { continue };
        let number = |label: &[u8]| {
            let at = memchr::memmem::find(rest, label)? + label.len();
            let digits = rest[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            decimal(&rest[at..at + digits])
        };
        let Some((weight, count)) = number(b"weight=").zip(number(b"count=")) else {
            let found = text.to_vec();
            return Err(
                Error::at_line(lines.number(), "a trace without its weight and count").with_found(&found)
            );
        };
        missing = count;
        say(Word::Trace { weight });
    }
    if missing > 0 { Err(cut_off(lines.number(), missing)) } else { Ok(()) }
}

/// Reads the output of `llvm-profdata merge --text`; `lines` begin after the flag.
fn written(lines: &mut InputLines<'_>, say: &mut dyn FnMut(Word<'_>)) -> Result<()> {
    let traces = written_number(lines, "the number of traces")?;
    written_number(lines, "the number of sampled runs")?;
    for _ in 0..traces {
        let weight = written_number(lines, "the weight of a trace")?;
        say(Word::Trace { weight });
        let line = telling(lines)?.unwrap_or_default();
        if line.last() != Some(&b',') {
            return Err(Error::at_line(lines.number(), "a trace that does not end in a comma")
                .with_found(&line)
                .with_hint(CUT_OFF));
        }
        for name in line.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
            say(Word::Function(name));
        }
    }
    // Counters of functions follow; each function's end in a blank line.
    let mut within = false;
    while let Some(line) = lines.next()? {
        let says = !line.trim_ascii().is_empty();
        if says && !within {
            say(Word::Counters);
        }
        within = says;
    }
    Ok(())
}

/// Returns the next line that is neither blank nor a comment; `None` at the end.
fn telling(lines: &mut InputLines<'_>) -> Result<Option<Vec<u8>>> {
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii();
        if !line.is_empty() && line[0] != b'#' {
            return Ok(Some(line.to_vec()));
        }
    }
    Ok(None)
}

fn written_number(lines: &mut InputLines<'_>, what: &str) -> Result<u64> {
    let found = telling(lines)?.unwrap_or_default();
    decimal(&found).ok_or_else(|| {
        Error::at_line(lines.number(), format!("no number for {what}")).with_found(&found).with_hint(CUT_OFF)
    })
}

fn cut_off(line: u64, missing: u64) -> Error {
    Error::at_line(line, format!("the trace ends {missing} functions too early")).with_hint(CUT_OFF)
}
