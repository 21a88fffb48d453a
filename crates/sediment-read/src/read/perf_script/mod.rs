// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads text of perf script: branch stacks, call chains or plain samples, with any printed fields.
//!
//! [`choice`] chooses the event to read, [`lines`] classifies lines, [`branches`] reads the entries of a branch stack,
//! [`frames`] reads the frames of a call chain, and [`mappings`] follows the mapped files. The beginning of the file
//! decides which data is read: the first event with branch stacks, otherwise with call chains, otherwise with samples.
//! Then the file is read once, line by line, and takes memory only for its distinct addresses and transfers.
//!
//! Source: perf's manual pages, and the output of perf 6.1 (docs/formats/perf-script.md).

mod branches;
mod choice;
mod frames;
mod lines;
mod mappings;

use super::frame_names::{is_interpreted, is_kernel_object, is_linked_file};
use super::replay::ReplaySampling;
use super::stacks::{self, StackFrame};
use super::{
    AddressId, DsoId, Input, Listener, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Replay,
    Spot, Step, TransferKind,
};
use crate::read::input::InputLines;
use branches::{BranchEnd, BranchKind, Rest};
use choice::{EventChoice, SampleKind};
use frames::FrameSymbol;
use lines::{SampleLine, ScriptLine};
use mappings::{AddressLookup, ProcessMappings};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::skipped::{Amount, NoCall, Nowhere, Reason, both};
use std::collections::{BTreeMap, HashMap};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "perf-script",
    summary: "text of perf script",
    recognises,
    read,
    replay: Some(Replay { whole: false, steps }),
};

const COMMAND: &str = "print it with: perf script --no-demangle --show-mmap-events --show-task-events \
     -F comm,pid,tid,time,event,ip,brstack > script.txt";
/// First address of the kernel, on every architecture with branch records in perf.
const KERNEL: u64 = 1 << 63;
/// Number of branches that wait to be resolved; beyond it, they are resolved at once.
const PENDING: usize = 1 << 20;

fn recognises(head: &[u8]) -> bool {
    const LOOKED_AT: usize = 400;
    if memchr::memchr(0, head).is_some() || head.starts_with(b"PERFTEXT") {
        return false;
    }
    let (mut after_sample, mut after_event) = (false, false);
    for line in head.split(|b| *b == b'\n').take(LOOKED_AT) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line_of = ScriptLine::of(line);
        // An empty line may be between a sample and its chain.
        let of_event = std::mem::take(&mut after_event);
        after_event = of_event && line_of == ScriptLine::Empty;
        let after = std::mem::take(&mut after_sample);
        match line_of {
            ScriptLine::Mapping(_) | ScriptLine::Fork { .. } | ScriptLine::Exec(_) => return true,
            // Beginning of perf report's output.
            ScriptLine::Comment(text)
                if [&b"Samples:"[..], b"Event count", b"Total Lost Samples:"]
                    .iter()
                    .any(|words| text.trim_ascii_start().starts_with(words)) =>
            {
                return false;
            }
            ScriptLine::Sample(sample) if branches::has_entry(sample.rest) => return true,
            ScriptLine::Sample(sample) => {
                let place = frames::frame(sample.rest);
                let address = place.is_some_and(|place| place.address > 0xfff);
                if of_event && address && sample.has_no_fields() {
                    return true;
                }
                if !sample.event.is_empty() && place.is_some_and(|place| place.text.ends_with(b")")) {
                    return true;
                }
                after_sample = sample.thread.is_some() && sample.rest.trim_ascii().is_empty();
                after_event = after_sample && !sample.event.is_empty();
            }
            ScriptLine::Frame(_) if after => return true,
            ScriptLine::Frame(frame) if frame.text.ends_with(b")") && line.starts_with(b"\t  ") => {
                return true;
            }
            ScriptLine::Empty => after_sample = true,
            _ => {}
        }
    }
    false
}

fn read(input: &dyn Input, _: &ReadSettings) -> Result<Recording> {
    let choice = EventChoice::of(input)?;
    let mut reading = PerfScriptConversion::new(input, &choice);
    let mut lines = InputLines::of(input);
    while let Some(line) = lines.next()? {
        reading.take(line).map_err(|error| {
            let at = sediment_core::error::ErrorLocation::Line(lines.number());
            if error.location().is_some() { error } else { error.with_location(at) }
        })?;
    }
    reading.finish()
}

/// A possible call, or the sampled address (without another end).
type Passage = (Option<u32>, u64, u64, TransferKind);

struct PerfScriptConversion<'c> {
    choice: &'c EventChoice,
    recording: Recording,
    processes: ProcessMappings,
    arch: Option<String>,
    samples: u64,
    branches: u64,
    /// The chain that is being read: process and weight; its frames, the innermost first, are in `chain`.
    open: Option<(Option<u32>, u128)>,
    /// True if a frame of it was read.
    begun: bool,
    /// True if the next frames belong to an event that is not read.
    passing_over: bool,
    /// True if a frame of the kernel, and another one, was read.
    kernel: bool,
    program: bool,
    chain: Vec<StackFrame>,
    /// Address of the previous frame if it was inlined.
    inlined_at: Option<u64>,
    by_path: HashMap<Box<[u8]>, DsoId>,
    /// Frames by their text after the address.
    by_text: HashMap<Box<[u8]>, Option<StackFrame>>,
    /// Ends of branches by name and object.
    by_name: HashMap<Box<[u8]>, Option<AddressId>>,
    /// Branches of addresses since the mappings last changed.
    pending: HashMap<Passage, u64>,
    other_events: BTreeMap<Vec<u8>, u64>,
}

impl<'c> PerfScriptConversion<'c> {
    fn new(input: &dyn Input, choice: &'c EventChoice) -> Self {
        Self {
            choice,
            recording: Recording { source: choice.source(), ..Recording::default() },
            processes: ProcessMappings::new(input.length()),
            arch: None,
            samples: 0,
            branches: 0,
            open: None,
            begun: false,
            passing_over: false,
            kernel: false,
            program: false,
            chain: Vec::new(),
            inlined_at: None,
            by_path: HashMap::new(),
            by_text: HashMap::new(),
            by_name: HashMap::new(),
            pending: HashMap::new(),
            other_events: BTreeMap::new(),
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<()> {
        match ScriptLine::of(line) {
            ScriptLine::Frame(frame) => self.frame(&frame),
            // An empty line between a sample and its chain ends nothing.
            ScriptLine::Empty if self.begun => self.close(),
            ScriptLine::Empty => {}
            ScriptLine::Sample(sample) => match self.frame_without_tab(&sample) {
                Some(frame) => self.frame(&frame),
                None => self.sample(&sample),
            },
            ScriptLine::Mapping(mapping) => {
                self.close();
                self.settle();
                if mapping.executable && !mapping.kernel {
                    let file = is_linked_file(mapping.path);
                    let dso = if file { self.mapped_dso(mapping.path, mapping.build_id) } else { None };
                    self.processes.map(&mapping, dso)?;
                }
            }
            ScriptLine::Exec(process) => {
                self.settle();
                self.processes.exec(process);
            }
            ScriptLine::Fork { parent, child } => {
                self.settle();
                self.processes.fork(parent, child);
            }
            ScriptLine::Lost(count) => {
                self.recording.skipped.add_many(Reason::LostRecord, count, 0, "");
            }
            ScriptLine::Comment(text) => {
                if let Some(arch) = text.trim_ascii_start().strip_prefix(b"arch :") {
                    let arch = String::from_utf8_lossy(arch.trim_ascii()).into_owned();
                    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                    self.arch = Some(arch).filter(|arch| arch.bytes().all(plain) && !arch.is_empty());
                }
            }
            ScriptLine::Record => {}
            ScriptLine::Stray => self.recording.skipped.add(Reason::StrayLine, 0, ""),
        }
        Ok(())
    }

    /// Returns the DSO of a path, with the build-id of its last mapping.
    fn dso_of(&mut self, path: &[u8]) -> Option<DsoId> {
        if let Some(&known) = self.by_path.get(path) {
            return Some(known);
        }
        self.mapped_dso(path, None)
    }

    fn mapped_dso(&mut self, path: &[u8], build_id: Option<&[u8]>) -> Option<DsoId> {
        let text = std::str::from_utf8(path).ok()?.to_owned();
        let build_id = build_id.map(|id| String::from_utf8_lossy(id).to_ascii_lowercase());
        let dso = self.recording.dso(RecordedDso { path: text, build_id });
        self.by_path.insert(path.into(), dso);
        Some(dso)
    }

    /// Reads a frame of the open chain that is indented by blanks or not at all, as in text from terminals and editors.
    fn frame_without_tab<'a>(&self, sample: &SampleLine<'a>) -> Option<frames::ChainFrame<'a>> {
        let in_chain = (self.open.is_some() || self.passing_over) && sample.has_no_fields();
        let place = Rest::of(sample.rest).place.filter(|_| in_chain)?;
        Rest::of(sample.rest).branches().next().is_none().then_some(place)
    }

    fn sample(&mut self, sample: &SampleLine) {
        let open = self.open.filter(|_| sample.has_no_fields());
        if let Some((process, _)) = open.filter(|_| self.choice.what == SampleKind::Branches) {
            // The branch stack comes after the call chain.
            self.branches_of(process, &Rest::of(sample.rest));
            return;
        }
        self.close();
        self.passing_over = sample.event != self.choice.event;
        if self.passing_over {
            *self.other_events.entry(sample.event.to_vec()).or_default() += 1;
            return;
        }
        self.samples += 1;
        let weight = u128::from(sample.period.unwrap_or(1).max(1));
        let rest = Rest::of(sample.rest);
        if let Some(place) = rest.place {
            let frame =
                self.frame_of(place.address, place.text).unwrap_or(StackFrame::Unknown(Nowhere::NoSymbol));
            let frame = match frame {
                StackFrame::Unknown(_) => self.raw_frame(sample.process, place.address, frame),
                frame => frame,
            };
            if self.choice.what == SampleKind::Chains {
                // Also if other samples have a chain: this one has a single frame.
                self.chain.push(frame);
                self.open = Some((sample.process, weight));
                self.close();
            } else {
                stacks::add_stack(&mut self.recording, &[frame], weight);
            }
        } else {
            self.open = Some((sample.process, weight));
        }
        if self.choice.what == SampleKind::Branches {
            self.branches_of(sample.process, &rest);
        }
    }

    fn branches_of(&mut self, process: Option<u32>, rest: &Rest) {
        for branch in rest.branches() {
            self.branches += 1;
            match branch {
                Some(branch) => self.branch(process, &branch),
                None => self.recording.skipped.add(Reason::UnreadableBranch, 0, ""),
            }
        }
        if self.pending.len() > PENDING {
            self.settle();
        }
    }

    /// Returns the byte of a file for a sampled address, which perf prints as an address in memory.
    fn raw_frame(&mut self, process: Option<u32>, address: u64, otherwise: StackFrame) -> StackFrame {
        match self.processes.find(process, address) {
            AddressLookup::File(dso, offset) => {
                let place = RecordedAddress { dso: Some(dso), spot: Spot::FileOffset(offset) };
                StackFrame::Known(self.recording.place(place))
            }
            _ => otherwise,
        }
    }

    fn frame(&mut self, frame: &frames::ChainFrame) {
        if self.open.is_none() {
            // No field was requested, so that a chain has no line before it; or it belongs to an event that is not
            // read.
            if self.passing_over {
                return;
            }
            if !self.choice.event.is_empty() {
                self.recording.skipped.add(Reason::StrayLine, 0, "");
                return;
            }
            self.samples += 1;
            self.open = Some((None, 1));
        }
        self.begun = true;
        // A 0 ends a chain of frame pointers. Callers are skipped if branches give them.
        if frame.address == 0 || self.choice.what != SampleKind::Chains && !self.chain.is_empty() {
            return;
        }
        self.settle_inlined(Some(frame.address));
        match self.frame_of(frame.address, frame.text) {
            Some(known) => {
                self.inlined_at = None;
                self.chain.push(known);
            }
            None => {
                self.recording.skipped.add(Reason::InlinedFrame, 0, "");
                self.inlined_at = Some(frame.address);
            }
        }
    }

    /// Inlined frames come before the frame into which they were inlined, at the same address. If that frame is
    /// missing, the last inlined one is a function whose symbol differs from its name in debug information, such as a
    /// clone.
    fn settle_inlined(&mut self, next: Option<u64>) {
        if self.inlined_at.is_some_and(|address| Some(address) != next) {
            self.inlined_at = None;
            self.chain.push(StackFrame::Unknown(Nowhere::NotInlined));
        }
    }

    /// Returns the frame at an address; `None` if it was inlined.
    fn frame_of(&mut self, address: u64, text: &[u8]) -> Option<StackFrame> {
        let frame = match self.by_text.get(text) {
            _ if address >= KERNEL => Some(StackFrame::System),
            Some(known) => *known,
            None => {
                let frame = self.new_frame(text);
                self.by_text.insert(text.into(), frame);
                frame
            }
        };
        self.kernel |= frame == Some(StackFrame::System);
        self.program |= frame != Some(StackFrame::System);
        frame
    }

    fn new_frame(&mut self, text: &[u8]) -> Option<StackFrame> {
        let (symbol, object) = match frames::symbol_and_object(text) {
            FrameSymbol::Inlined => return None,
            FrameSymbol::CutOff => return Some(StackFrame::Unknown(Nowhere::CutOff)),
            FrameSymbol::Of { name, object } => (name, object),
        };
        if is_interpreted(symbol) {
            return Some(StackFrame::Unknown(Nowhere::Interpreted));
        }
        let no_symbol = symbol.is_empty() || symbol == b"[unknown]";
        let dso = match object {
            Some(object) if is_kernel_object(object) => return Some(StackFrame::System),
            Some(b"[unknown]") => return Some(StackFrame::Unknown(Nowhere::NoSymbol)),
            Some(object) if !is_linked_file(object) && object != b"[vdso]" => {
                return Some(StackFrame::Unknown(Nowhere::AnonymousOrVdso));
            }
            _ if no_symbol => return Some(StackFrame::Unknown(Nowhere::NoSymbol)),
            Some(object) => match self.dso_of(object) {
                Some(dso) => Some(dso),
                None => return Some(StackFrame::Unknown(Nowhere::NotUtf8)),
            },
            None => None,
        };
        let spot = Spot::Symbol { name: symbol.to_vec(), file: None };
        Some(StackFrame::Known(self.recording.place(RecordedAddress { dso, spot })))
    }

    /// Ends a chain, which was printed from the innermost frame outwards.
    fn close(&mut self) {
        self.settle_inlined(None);
        self.begun = false;
        let Some((_, weight)) = self.open.take() else {
            self.chain.clear();
            return;
        };
        if self.choice.what == SampleKind::Chains {
            self.chain.reverse();
            stacks::add_stack(&mut self.recording, &self.chain, weight);
        } else if let Some(innermost) = self.chain.first().copied() {
            stacks::add_stack(&mut self.recording, &[innermost], weight);
        }
        self.chain.clear();
    }

    fn branch(&mut self, process: Option<u32>, branch: &branches::PrintedBranch) {
        let kind = match branch.kind {
            BranchKind::Passage(kind) => kind,
            BranchKind::Other(why) => {
                self.recording.skipped.add(Reason::NoCall(why), 1, "");
                return;
            }
        };
        match (branch.from, branch.to) {
            (
                BranchEnd::Address { address: from, object: None },
                BranchEnd::Address { address: to, object: None },
            ) => {
                *self.pending.entry((process, from, to, kind)).or_default() += 1;
            }
            (from, to) => self.named(process, &from, &to, kind),
        }
    }

    /// Adds a branch with the name of at least one end, or with the objects of its ends.
    fn named(&mut self, process: Option<u32>, from: &BranchEnd, to: &BranchEnd, kind: TransferKind) {
        // The offset in the target shows which branches are not calls; the end of a function is not the beginning of
        // another.
        if let (TransferKind::Branch, BranchEnd::Symbol { name, offset, object }) = (kind, to) {
            let same = matches!(from, BranchEnd::Symbol { name: caller, object: of, .. } if caller == name && of == object);
            if same || *offset > 0 {
                let why = if same { NoCall::Inside } else { NoCall::IntoTheMiddle };
                self.recording.skipped.add(Reason::NoCall(why), 1, "");
                return;
            }
        }
        let kind = match to {
            BranchEnd::Symbol { .. } => TransferKind::Call,
            _ => kind,
        };
        self.recording.total += 1;
        let (source, target) = (self.end(process, from), self.end(process, to));
        match both(Amount::Branches, source, target) {
            Ok((from, to)) => self.recording.add_transfer(from, to, kind, 1),
            Err(reason) => self.recording.skipped.add(reason, 1, ""),
        }
    }

    fn end(&mut self, process: Option<u32>, end: &BranchEnd) -> std::result::Result<AddressId, Nowhere> {
        match *end {
            BranchEnd::Unknown => Err(Nowhere::NoSymbol),
            BranchEnd::Blurred => Err(Nowhere::Blurred),
            BranchEnd::Address { address, object } => self.address(process, address, object),
            BranchEnd::Symbol { name, object, .. } => {
                if object.is_some_and(is_kernel_object) {
                    return Err(Nowhere::Kernel);
                }
                let key = [name, b"\0", object.unwrap_or_default()].concat();
                if let Some(known) = self.by_name.get(key.as_slice()) {
                    return known.ok_or(Nowhere::AnonymousOrVdso);
                }
                let place = match object {
                    None => Some(None),
                    Some(object) if is_linked_file(object) || object == b"[vdso]" => {
                        self.dso_of(object).map(Some)
                    }
                    Some(_) => None,
                };
                let place = place.map(|dso| {
                    let spot = Spot::Symbol { name: name.to_vec(), file: None };
                    self.recording.place(RecordedAddress { dso, spot })
                });
                self.by_name.insert(key.into(), place);
                place.ok_or(Nowhere::AnonymousOrVdso)
            }
        }
    }

    /// Returns the recording's address for an address in memory or, if an object is printed with it, for an offset in
    /// the object's file.
    fn address(
        &mut self,
        process: Option<u32>,
        address: u64,
        object: Option<&[u8]>,
    ) -> std::result::Result<AddressId, Nowhere> {
        if address >= KERNEL {
            return Err(Nowhere::Kernel);
        }
        let (dso, offset) = match (self.processes.find(process, address), object) {
            (AddressLookup::File(dso, offset), _) => (dso, offset),
            (_, Some(object)) if is_linked_file(object) => match self.dso_of(object) {
                Some(dso) => (dso, address),
                None => return Err(Nowhere::NotUtf8),
            },
            (AddressLookup::NoFile, _) | (_, Some(_)) => return Err(Nowhere::AnonymousOrVdso),
            (AddressLookup::Unmapped, None) => return Err(Nowhere::Unmapped),
            (AddressLookup::Several, None) => return Err(Nowhere::SeveralProcesses),
        };
        Ok(self.recording.place(RecordedAddress { dso: Some(dso), spot: Spot::FileOffset(offset) }))
    }

    /// Adds pending counts to the recording, or to its skipped items if an end is not in a file.
    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        // The map is replaced, not drained: draining a map that was large once takes long each time.
        let mut pending: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        pending.sort_unstable();
        for ((process, from, to, kind), count) in pending {
            let weight = u128::from(count);
            self.recording.total += weight;
            let ends = (self.address(process, from, None), self.address(process, to, None));
            match both(Amount::Branches, ends.0, ends.1) {
                Ok((from, to)) => self.recording.add_transfer(from, to, kind, weight),
                Err(reason) => self.recording.skipped.add_many(reason, count, weight, ""),
            }
        }
    }

    fn finish(mut self) -> Result<Recording> {
        self.close();
        self.settle();
        let no_mappings = self.processes.is_empty();
        let mut recording = self.recording;
        recording.arch = self.arch;
        recording.seen = match self.choice.what {
            SampleKind::Branches => {
                format!("{}, {}", counted(self.samples, "sample"), counted(self.branches, "branch"))
            }
            _ => counted(self.samples, "sample"),
        };
        for (event, count) in self.other_events {
            recording.skipped.add_many(Reason::UnreadEvent, count, 0, &event);
        }
        if recording.addresses().is_empty() {
            if self.kernel && !self.program {
                return Err(Error::new(
                    ErrorCode::Unresolved,
                    "every sample is in the kernel, a hypervisor or a guest",
                )
                .with_hint("record the program itself: perf record -e cpu-clock:u -g -- PROGRAM"));
            }
            return Err(nothing_known(self.choice.what, no_mappings));
        }
        if self.choice.what == SampleKind::Branches && recording.total > 0 && recording.transfers().is_empty()
        {
            return Err(nothing_known(self.choice.what, no_mappings));
        }
        Ok(recording)
    }
}

fn nothing_known(what: SampleKind, no_mappings: bool) -> Error {
    match what {
        SampleKind::Nothing => Error::new(ErrorCode::EmptyRecording,"no sample in this perf script text")
            .with_hint("did the program run long enough? keep the field ip when you choose others with -F"),
        SampleKind::Branches if no_mappings => Error::new(ErrorCode::Unresolved,
            "the branches have addresses, but no mapped files",
        )
        .with_hint(format!("{COMMAND}; or import the perf.data file")),
        SampleKind::Branches => Error::new(ErrorCode::Unresolved,"no branch has known addresses at both ends")
            .with_hint(format!("{COMMAND}; or import the perf.data file")),
        _ => Error::new(ErrorCode::Unresolved,"no sample names a function to order").with_hint(
            "run perf script where the programs and their debug symbols are installed, with the fields sym and dso",
        ),
    }
}

/// Number of bytes of samples that are replayed for affinity edges, each branch stack from its oldest entry on.
const TOLD: u64 = 64 << 20;

fn steps(
    input: &dyn Input,
    _: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    let told = ReplaySampling::of(input.length(), TOLD, listener);
    let mut samples = 0;
    let choice = EventChoice::of(input)?;
    if choice.what != SampleKind::Branches {
        return Ok(());
    }
    let mut reading = PerfScriptConversion::new(input, &choice);
    let mut lines = InputLines::of(input);
    let mut ends: Vec<std::result::Result<AddressId, Nowhere>> = Vec::new();
    let (mut process, mut thread, mut chosen) = (None, 0, choice.event.is_empty());
    while let Some(line) = lines.next()? {
        let ScriptLine::Sample(sample) = ScriptLine::of(line) else {
            reading.take(line)?;
            continue;
        };
        if !sample.has_no_fields() {
            // Otherwise they belong to the call chain above.
            (process, thread) = (sample.process, sample.thread.unwrap_or(0));
            chosen = sample.event == choice.event;
        }
        samples += u64::from(chosen);
        if !chosen || !told.has(samples) {
            continue;
        }
        ends.clear();
        for branch in Rest::of(sample.rest).branches() {
            match branch {
                // Newest first: the target ran after the source.
                Some(branch) => {
                    ends.extend([reading.end(process, &branch.to), reading.end(process, &branch.from)])
                }
                None => ends.push(Err(Nowhere::NoSymbol)),
            }
        }
        listener.step(Step::Gap { thread });
        let mut last = None;
        for end in ends.iter().rev() {
            let known = end.ok().and_then(|id| {
                // The other recording's id for this address. It has no ids for targets of jumps.
                let RecordedAddress { dso, spot } = &reading.recording.addresses()[id.0 as usize];
                let dso = match dso {
                    Some(dso) => {
                        let dso = &reading.recording.dsos()[dso.0 as usize];
                        Some(recording.find_dso(dso)?)
                    }
                    None => None,
                };
                recording.find_address(&RecordedAddress { dso, spot: spot.clone() })
            });
            match known {
                Some(place) if last != Some(place) => {
                    listener.step(Step::Run { thread, place });
                    last = Some(place);
                }
                None if end.is_err() => {
                    listener.step(Step::Gap { thread });
                    last = None;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
