// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads folded stacks, the input of flame graphs: `outermost;…;innermost COUNT`, one stack per line.
//!
//! Many tools write them, but a file does not name its tool. The suffixes of names are recognised: `_[k]` kernel,
//! `_[i]` inlined, `_[j]` compiled at run time; `-` separates the frames of a program and of the kernel.
//!
//! **Process names.** Some tools put the name of the process before the outermost frame. It is not a function, but has
//! no mark. A first pass searches for a root that is the direct parent of a function with which a process or thread
//! begins (`_start`, `start_thread`, `main`). Only another such function calls these, so the root is the name of a
//! process. Because one tool wrote all lines, every root then is a process name, unless it is one of these functions or
//! also occurs deeper in a stack.

use super::frame_names::{begins_thread, enters_kernel, is_interpreted, is_no_symbol};
use super::input::InputLines;
use super::stacks::{self, StackFrame};
use super::{Input, ReadSettings, Reader, RecordedAddress, Recording, Spot, StackOrder};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, SharedLibraries, TimeOrder},
};
use sediment_core::skipped::{Nowhere, Reason};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "folded",
    summary: "folded stacks (flame graphs), a;b;c COUNT per line",
    recognises,
    read,
    replay: None,
};

const LOOKED_AT: usize = 1000;

fn recognises(head: &[u8]) -> bool {
    if memchr::memchr(0, head).is_some() {
        return false;
    }
    let complete = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let (mut stacks, mut others) = (0, 0);
    for line in complete.split(|b| *b == b'\n').take(LOOKED_AT) {
        let line = line.trim_ascii();
        if is_comment(line) {
            continue;
        }
        let number = |count: &[u8]| count.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        match frames_and_count(line).filter(|(_, count)| number(count)) {
            // A stack with a single frame could be anything.
            Some((frames, _)) => stacks += usize::from(frames.contains(&b';')),
            None => others += usize::from(!line.is_empty()),
        }
    }
    // When the file is read, a damaged line is reported with its number.
    stacks > 0 && others <= stacks.div_ceil(4)
}

/// Splits `a;b c 12` into `a;b c` and `12`.
fn frames_and_count(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = line.iter().rposition(u8::is_ascii_whitespace)?;
    let (frames, count) = (line[..blank].trim_ascii(), &line[blank + 1..]);
    (!frames.is_empty() && count.first()?.is_ascii_digit()).then_some((frames, count))
}

/// Returns the frames of a stack, without the blanks that some tools leave around them.
fn frames_of(stack: &[u8]) -> impl Iterator<Item = &[u8]> {
    stack.split(|b| *b == b';').map(<[u8]>::trim_ascii)
}

/// True for a line that tools write for readers.
fn is_comment(line: &[u8]) -> bool {
    line.starts_with(b"#")
        && (frames_and_count(line).is_none() || line.starts_with(b"# ") || !line.contains(&b';'))
}

/// Result of the first pass over a file.
#[derive(Debug, Default)]
struct FirstPass {
    /// Roots that are names of processes.
    processes: BTreeSet<Vec<u8>>,
    /// By address without a name: the function called by it, if it is always the same; `None` if it varies.
    above: HashMap<Vec<u8>, Option<Vec<u8>>>,
    lines: u64,
}

impl FirstPass {
    fn of(input: &dyn Input, outermost_first: bool) -> Result<Self> {
        let mut lines = InputLines::of(input);
        let mut roots: HashMap<Vec<u8>, bool> = HashMap::new();
        let mut deeper: HashSet<Vec<u8>> = HashSet::new();
        let mut first = Self::default();
        let mut two_counts = 0;
        let mut number = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            let line = line.trim_ascii();
            if line.is_empty() || is_comment(line) {
                continue;
            }
            let Some((stack, count)) = frames_and_count(line) else {
                return Err(Error::at_line(number, "a stack without a count")
                    .with_found(line)
                    .with_hint("is the file cut off? each line is `caller;callee COUNT`"));
            };
            if !count.iter().all(u8::is_ascii_digit) || count.len() > 20 {
                return Err(Error::at_line(number, "the count is not a whole number")
                    .with_found(count)
                    .with_hint("make the profiler write samples, not seconds or shares"));
            }
            first.lines += 1;
            two_counts += u64::from(frames_and_count(stack).is_some());
            let mut frames: Vec<&[u8]> = frames_of(stack).collect();
            if !outermost_first {
                frames.reverse();
            }
            if let Some(root) = frames.first() {
                let begins = frames.get(1).is_some_and(|next| begins_thread(plain(next).0));
                match roots.get_mut(*root) {
                    Some(known) => *known |= begins,
                    None => drop(roots.insert(root.to_vec(), begins)),
                }
            }
            for pair in frames.windows(2).filter(|pair| is_address(pair[0])) {
                let above = first.above.entry(pair[0].to_vec()).or_insert_with(|| Some(pair[1].to_vec()));
                if above.as_deref().is_some_and(|known| known != pair[1]) {
                    *above = None;
                }
            }
            for frame in frames.iter().skip(1) {
                if !deeper.contains(*frame) {
                    deeper.insert(frame.to_vec());
                }
            }
        }
        if two_counts == first.lines && two_counts > 0 {
            return Err(Error::new(
                ErrorCode::UnsupportedVariant,
                "two counts per line: a difference of two recordings",
            )
            .with_hint("import the folded stacks of each recording, from before difffolded.pl"));
        }
        let is_function = |name: &[u8]| begins_thread(plain(name).0) || is_no_symbol(name);
        if roots.iter().any(|(root, begins)| *begins && !is_function(root)) {
            first.processes =
                roots.into_keys().filter(|root| !is_function(root) && !deeper.contains(root)).collect();
        }
        Ok(first)
    }
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let outermost_first = settings.stacks != Some(StackOrder::CalleeFirst);
    let first = FirstPass::of(input, outermost_first)?;
    let mut recording = Recording {
        source: ProfileSource::new("folded stacks", "", &[CallCounts, TimeOrder, SharedLibraries]),
        seen: counted(first.lines, "stack"),
        ..Recording::default()
    };
    // An address that calls only one function is a linkage stub: its caller called that function.
    let is_stub = |above: &Vec<u8>| !is_no_symbol(above) && !is_no_symbol(plain(above).0);
    let stubs: HashSet<&[u8]> = first
        .above
        .iter()
        .filter(|(_, above)| above.as_ref().is_some_and(is_stub))
        .map(|(address, _)| address.as_slice())
        .collect();
    let mut known: HashMap<Vec<u8>, Option<StackFrame>> = HashMap::new();
    let mut lines = InputLines::of(input);
    let mut frames = Vec::new();
    let (mut inlined, mut process_names) = (0, 0);
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii();
        let Some((stack, count)) = frames_and_count(line).filter(|_| !is_comment(line)) else { continue };
        let count = count.iter().fold(0, |number, digit| number * 10 + u128::from(digit - b'0'));
        frames.clear();
        let mut names: Vec<&[u8]> = frames_of(stack).collect();
        if !outermost_first {
            names.reverse();
        }
        let mut kernel = false;
        for (depth, name) in names.iter().copied().enumerate() {
            if depth == 0 && first.processes.contains(name) {
                process_names += 1;
                continue;
            }
            // After this mark all frames belong to the kernel.
            kernel |= name == b"-" || name == b"--";
            if kernel {
                frames.push(StackFrame::System);
                break;
            }
            let callee = names.get(depth + 1).map(|name| plain(name).0);
            let frame = match known.get(name) {
                _ if plain(name).1 == b'.' && enters_kernel(plain(name).0, callee) => {
                    Some(StackFrame::System)
                }
                _ if stubs.contains(name) => continue,
                Some(frame) => *frame,
                None => {
                    let frame = frame(&mut recording, name);
                    known.insert(name.to_vec(), frame);
                    frame
                }
            };
            match frame {
                Some(frame) => frames.push(frame),
                None => inlined += 1,
            }
            if frame == Some(StackFrame::System) {
                break;
            }
        }
        stacks::add_stack(&mut recording, &frames, count);
    }
    recording.skipped.add_many(Reason::InlinedFrame, inlined, 0, "");
    let example = first.processes.first().map_or(&[][..], Vec::as_slice);
    recording.skipped.add_many(Reason::ProcessName, process_names, 0, example);
    if recording.addresses().is_empty() {
        return Err(Error::new(ErrorCode::Unresolved, "no frame is a function to order").with_hint(
            "is the recorded program interpreted, or without symbols? then there is nothing to order",
        ));
    }
    Ok(recording)
}

/// True for an address in place of a name.
fn is_address(name: &[u8]) -> bool {
    is_no_symbol(name) && !name.is_empty() && !name.starts_with(b"[")
}

/// Returns a name without the suffix of some tools, and the suffix.
fn plain(name: &[u8]) -> (&[u8], u8) {
    match name {
        [plain @ .., b'_', b'[', mark @ (b'k' | b'i' | b'j' | b'g'), b']'] if !plain.is_empty() => {
            (plain, *mark)
        }
        _ => (name, b'.'),
    }
}

/// Makes the frame of a name; `None` if it was inlined.
fn frame(recording: &mut Recording, name: &[u8]) -> Option<StackFrame> {
    let (plain, mark) = plain(name);
    Some(match mark {
        b'k' | b'g' => StackFrame::System,
        b'i' => return None,
        b'j' => StackFrame::Unknown(Nowhere::CompiledCode),
        _ if plain.ends_with(b" (inlined)") => return None,
        _ if is_interpreted(plain) => StackFrame::Unknown(Nowhere::Interpreted),
        _ if is_no_symbol(plain) => StackFrame::Unknown(Nowhere::NoName),
        _ => {
            let spot = Spot::Symbol { name: plain.to_vec(), file: None };
            StackFrame::Known(recording.place(RecordedAddress { dso: None, spot }))
        }
    })
}
