// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for any input: no panic; no empty success; the same result whether the input is in memory or is
//! read in pieces; memory of at most 64 MB plus 16 times the input's size; and time in proportion to its size.
//!
//! There is a target for each reader, named after it, and one for each other kind of file that users exchange
//! ([`OTHERS`]). The programs in fuzz/ call [`check`] with new inputs of libFuzzer, tests/fuzz_corpus.rs with those
//! that it found before. Both install [`Counting`] as the allocator. It counts memory, and refuses requests above the
//! bound, which ends the program.

#![allow(dead_code, unreachable_pub)] // fuzz/ and the tests each use their part
#![allow(unsafe_code)] // an allocator cannot be written without

use sediment_core::binary::{self, Binary, Files, NoFiles};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::Profile;
use sediment_core::skipped::Reason;
use sediment_core::{Result, Skipped, profile};
use sediment_order::link;
use sediment_read::read::{
    AddressId, HEAD, Input, READERS, ReadSettings, Reader, Recording, StackOrder, Step,
};
use sediment_read::trace::file::{TraceRecord, TraceRecords, TraceWriter};
use sediment_read::{counters::gcov, resolve, trace};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A check with the name of its target. It returns whether it accepted the input as its format.
pub type FuzzCheck = (&'static str, fn(&[u8]) -> bool);

/// Targets that are not readers.
pub const OTHERS: &[FuzzCheck] = &[
    ("elf", elf),
    ("gcov", gcov),
    ("order-file", order_file),
    ("profile-text", profile_text),
    ("trace-file", trace_file),
];

/// Bytes of memory allowed for each byte of the input, and a constant allowance.
const MEMORY_PER_BYTE: usize = 16;
const MEMORY_BESIDE: usize = 64 << 20;

/// Processor time allowed for each byte of the input, and a constant allowance. This is far more than any reader takes,
/// but a reader that is not linear exceeds it with a sufficiently large input.
const TIME_PER_BYTE: Duration = Duration::from_micros(20);
const TIME_BESIDE: Duration = Duration::from_secs(3);

/// Returns the names of all targets.
pub fn targets() -> Vec<&'static str> {
    READERS.iter().map(|reader| reader.name).chain(OTHERS.iter().map(|(name, _)| *name)).collect()
}

/// Checks all properties of a target, panics if one fails, and returns whether the target accepted the input.
pub fn check(target: &str, bytes: &[u8]) -> bool {
    check_with(target, bytes, &settings())
}

/// The same with one setting, chosen by the input, so that three times as many inputs can be tried.
pub fn check_once(target: &str, bytes: &[u8]) -> bool {
    let settings = settings();
    let sum =
        bytes.iter().fold(bytes.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    check_with(target, bytes, &settings[sum % settings.len()..][..1])
}

fn check_with(target: &str, bytes: &[u8], settings: &[ReadSettings]) -> bool {
    if let Some(reader) = READERS.iter().find(|reader| reader.name == target) {
        return check_reader(reader, bytes, settings);
    }
    let Some((_, run)) = OTHERS.iter().find(|(name, _)| *name == target) else {
        panic!("there is no target {target}: {:?}", targets());
    };
    run(bytes)
}

fn settings() -> [ReadSettings; 3] {
    let program = Some("/opt/program".to_owned());
    [
        ReadSettings::default(),
        ReadSettings {
            program: program.clone(),
            stacks: Some(StackOrder::CallerFirst),
            ..ReadSettings::default()
        },
        ReadSettings { program, stacks: Some(StackOrder::CalleeFirst), ..ReadSettings::default() },
    ]
}

fn check_reader(reader: &Reader, bytes: &[u8], settings: &[ReadSettings]) -> bool {
    measured("recognise", bytes.len(), || (reader.recognises)(&bytes[..bytes.len().min(HEAD)]));
    let mut any = false;
    for settings in settings {
        let read = measured("read", bytes.len(), || (reader.read)(&bytes, settings));
        let again = measured("read in pieces", bytes.len(), || (reader.read)(&Pieces(bytes), settings));
        assert_eq!(outline(&read), outline(&again), "in memory and in pieces it is read differently");
        match read {
            Err(error) => assert!(!error.to_string().is_empty(), "an error without words"),
            Ok(recording) => {
                any = true;
                assert!(
                    !recording.addresses().is_empty() || !recording.skipped.is_empty(),
                    "an empty success: nothing was read and nothing is said to be lost"
                );
                assert!(
                    !recording.source.name.is_empty() && !recording.seen.is_empty(),
                    "nothing says what was read"
                );
                ids_are_those_of_the_recording(&recording);
                replay(reader, bytes, settings, &recording);
                becomes_a_profile(&recording);
            }
        }
    }
    any
}

/// A summary of a reading. Two readings of one input must have equal summaries.
fn outline(read: &Result<Recording>) -> impl PartialEq + std::fmt::Debug + use<> {
    match read {
        Err(error) => Err((error.to_string(), error.hint().map(str::to_owned))),
        Ok(recording) => {
            let skipped: Vec<String> = recording.skipped.iter().map(|entry| format!("{entry:?}")).collect();
            let sums = (recording.transfers(), recording.samples(), recording.first_uses());
            Ok((recording.addresses().to_vec(), recording.total, recording.seen.clone(), skipped, sums))
        }
    }
}

fn ids_are_those_of_the_recording(recording: &Recording) {
    let known = |place: AddressId| (place.0 as usize) < recording.addresses().len();
    assert!(recording.transfers().iter().all(|(from, to, _, _)| known(*from) && known(*to)));
    assert!(recording.samples().iter().all(|(place, _)| known(*place)));
    assert!(recording.first_uses().iter().all(|(place, _)| known(*place)));
    let mut dsos = recording.addresses().iter().filter_map(|place| place.dso);
    assert!(dsos.all(|dso| (dso.0 as usize) < recording.dsos().len()));
}

fn replay(reader: &Reader, bytes: &[u8], settings: &ReadSettings, recording: &Recording) {
    let Some(replay) = reader.replay else { return };
    let mut unknown = 0usize;
    let mut step = |step: Step| match step {
        Step::Run { place, .. } => unknown += usize::from(place.0 as usize >= recording.addresses().len()),
        Step::Gap { .. } => {}
    };
    let told = measured("replay", bytes.len(), || (replay.steps)(&bytes, settings, recording, &mut step));
    // If an input can be read, its steps can be replayed.
    told.unwrap_or_else(|error| panic!("it was read but cannot be replayed: {error}"));
    assert_eq!(unknown, 0, "steps at places that the recording does not have");
}

fn becomes_a_profile(recording: &Recording) {
    if let Ok((made, _)) = resolve::resolve(recording, &NoFiles) {
        let text = profile::text::print(&made);
        let (again, _) = profile::text::parse(text.as_bytes())
            .unwrap_or_else(|error| panic!("its profile cannot be read: {error}\n{text}"));
        assert_eq!(profile::text::print(&again), text, "its profile reads as another one");
    }
}

fn profile_text(bytes: &[u8]) -> bool {
    let Ok((profile, _)) = measured("parse", bytes.len(), || profile::text::parse(bytes)) else {
        return false;
    };
    let text = profile::text::print(&profile);
    let (again, skipped) = profile::text::parse(text.as_bytes())
        .unwrap_or_else(|error| panic!("what was printed cannot be read: {error}\n{text}"));
    assert_eq!(profile::text::print(&again), text, "parse and print do not end");
    let lost = skipped.iter().find(|(reason, _)| *reason != Reason::NoWeights);
    assert!(lost.is_none(), "what was printed is not all read: {lost:?}\n{text}");
    true
}

/// Answers every request for another file with the input itself.
struct Itself<'a>(&'a [u8]);

impl Files for Itself<'_> {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        Some(self.0.to_vec())
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        Some(self.0.to_vec())
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}

/// Reads files of units that follow each other in the input; each begins at its magic number. The resulting profile is
/// read back.
fn gcov(bytes: &[u8]) -> bool {
    let begins = |at: &usize| gcov::recognises(&bytes[*at..]);
    let mut starts: Vec<usize> = (0..bytes.len()).filter(begins).take(8).collect();
    starts.push(bytes.len());
    let mut skipped = Skipped::default();
    let profile = measured("read counters", bytes.len(), || {
        let mut units = gcov::Units::default();
        for part in starts.windows(2) {
            units.read("work.gcda", &bytes[part[0]..part[1]], &mut skipped)?;
        }
        units.profile(&[], &mut skipped)
    });
    let Ok(profile) = profile else { return false };
    assert!(profile.function_count() > 0, "an empty success");
    let text = profile::text::print(&profile);
    let (again, _) = profile::text::parse(text.as_bytes()).expect("what was written is read");
    assert_eq!(profile::text::print(&again), text, "a profile of counters changes when it is read");
    assert!(gcov::counters(&profile).0.starts_with(gcov::HEADER));
    true
}

fn elf(bytes: &[u8]) -> bool {
    let build_id = measured("build-id", bytes.len(), || binary::build_id(bytes));
    let _ = measured("code", bytes.len(), || binary::code_sections(bytes));
    let Ok(binary) = measured("parse", bytes.len(), || Binary::parse(bytes, &NoFiles)) else { return false };
    assert_eq!(binary.build_id, build_id, "another build-id is read alone");
    // The file gives the same result if it is its own debug file.
    let beside = measured("parse", 2 * bytes.len(), || Binary::parse(bytes, &Itself(bytes)));
    assert_eq!(
        beside.expect("it was read alone").functions,
        binary.functions,
        "other functions beside itself"
    );
    measured("use", bytes.len(), || {
        let index = binary.address_index();
        for function in &binary.functions {
            let last = function.address.saturating_add(function.size.saturating_sub(1));
            for address in [function.address, last] {
                let _ = (index.function_at(address), binary.plt_target(address));
            }
            let offset = binary.file_offset_of_address(function.address);
            let _ = offset.and_then(|offset| binary.address_of_file_offset(offset));
        }
        let _ = binary.same_named_locals();
    });
    true
}

fn order_file(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match measured("read", bytes.len(), || link::read(text)) {
        Err(_) => false,
        Ok((_, names)) => {
            assert!(!names.is_empty(), "an empty success");
            true
        }
    }
}

fn trace_file(bytes: &[u8]) -> bool {
    let in_memory = measured("read", bytes.len(), || records(&bytes));
    let in_pieces = measured("read in pieces", bytes.len(), || records(&Pieces(bytes)));
    let words = |read: &Result<Vec<TraceRecord>>| read.as_ref().map_err(ToString::to_string).cloned();
    assert_eq!(words(&in_memory), words(&in_pieces), "in memory and in pieces it is read differently");
    let _ = measured("load", bytes.len(), || trace::file::load(&bytes, &FunctionTable::default()));
    let _ =
        measured("load", bytes.len(), || trace::file::load_with_others(&bytes, &FunctionTable::default()));
    let Ok(read) = in_memory else { return false };
    let written = write_again(&read);
    let again =
        records(&&written[..]).unwrap_or_else(|error| panic!("what was written cannot be read: {error}"));
    assert_eq!(write_again(&again), written, "read and write do not end");
    true
}

fn records(input: &dyn Input) -> Result<Vec<TraceRecord>> {
    let mut records = TraceRecords::of(input)?;
    let mut read = Vec::new();
    while let Some(record) = records.next()? {
        read.push(record);
    }
    Ok(read)
}

/// Writes the trace file of a run with these records. A gap in a thread that has not run yet means nothing.
fn write_again(records: &[TraceRecord]) -> Vec<u8> {
    let mut profile = Profile::default();
    let mut functions = Vec::new();
    for record in records {
        if let TraceRecord::Definition(key) = record {
            functions.push(Some(profile.function(key.clone())));
        }
    }
    let mut written = Vec::new();
    let mut writer = TraceWriter::new(&mut written, &profile, &functions);
    let (mut thread, mut begun) = (0, BTreeSet::new());
    for record in records {
        match record {
            TraceRecord::Definition(_) => {}
            TraceRecord::Thread(other) => thread = *other,
            TraceRecord::Gap if !begun.contains(&thread) => {}
            TraceRecord::Gap => writer.step(Step::Gap { thread }),
            TraceRecord::Run(function) => {
                begun.insert(thread);
                writer.step(Step::Run { thread, place: AddressId(*function) });
            }
        }
    }
    writer.finish().expect("memory can be written to");
    written
}

/// Bytes that are delivered a few at a time, and are never in memory as a whole.
struct Pieces<'a>(&'a [u8]);

impl Input for Pieces<'_> {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(1 << 12);
        self.0.read_at(offset, &mut buffer[..few])
    }
}

/// The system's allocator, but it counts the memory in use, and refuses requests above the bound of [`measured`].
#[derive(Debug)]
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static LARGEST_PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(size: usize) -> bool {
    let now = IN_USE.fetch_add(size, Ordering::Relaxed) + size;
    if now > LIMIT.load(Ordering::Relaxed) {
        IN_USE.fetch_sub(size, Ordering::Relaxed);
        return false;
    }
    PEAK.fetch_max(now, Ordering::Relaxed);
    true
}

// SAFETY: every call is passed to the system's allocator with its layout, or refused by a null pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the conditions of this function, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the conditions of this function, which are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the conditions of this function, which are the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !grow(size - layout.size()) {
            return std::ptr::null_mut();
        }
        if size < layout.size() {
            IN_USE.fetch_sub(layout.size() - size, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the conditions of this function, which are the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs some work on an input of this length, within its bounds. Call it once at a time, because the counters belong to
/// the whole program.
pub fn measured<T>(what: &str, length: usize, work: impl FnOnce() -> T) -> T {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let most = length.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_BESIDE);
    LIMIT.store(before.saturating_add(most), Ordering::Relaxed);
    let started = processor_time();
    let result = work();
    let took = processor_time().saturating_sub(started);
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    LARGEST_PEAK.fetch_max(peak, Ordering::Relaxed);
    let allowed = TIME_BESIDE + TIME_PER_BYTE * u32::try_from(length).unwrap_or(u32::MAX);
    assert!(took <= allowed, "{what}: {took:?} for {length} bytes");
    result
}

/// Returns the peak of the memory that some work takes, in bytes beyond what was in use before, and its result. Call it
/// once at a time.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (PEAK.load(Ordering::Relaxed).saturating_sub(before), result)
}

/// Returns the highest peak of any work so far, in bytes.
pub fn largest_peak() -> usize {
    LARGEST_PEAK.load(Ordering::Relaxed)
}

/// Returns the processor time of this program, which does not grow on a busy machine.
pub fn processor_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a program can ask for its own usage");
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}
