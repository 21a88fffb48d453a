// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads perf.data of perf record: branch records (LBR and similar), call stacks, or samples of addresses.
//!
//! Steps: read the frame (`file`, `attribute`); read the records (`stream`, `unpack`, `records`) to follow the address
//! spaces in time order (`survey`, `mappings`); read them again, in any order and on all cores, to count branches
//! (`count`, `table`); resolve each address once. A third pass replays the time order (`replay`). No pass keeps
//! records, so memory depends only on the number of distinct branches and mappings. Format: perf.data-file-format.txt
//! of the kernel's tools/perf and include/uapi/linux/perf_event.h; the supported part: docs/formats/perf-data.md.
//!
//! No external crate reads the container; docs/background/experiments.md lists the ones that were tried.

mod attribute;
mod count;
mod cursor;
mod file;
mod mappings;
mod records;
mod replay;
mod stream;
mod survey;
mod table;
mod unpack;

use super::{Input, ReadSettings, Reader, Recording, Replay};
use attribute::SampleContent;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, Callers, IndirectCalls, TimeOrder},
};
use sediment_core::skipped::Reason;
use survey::Survey;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "perf-data",
    summary: "perf.data of perf record",
    recognises: file::recognises,
    read,
    replay: Some(Replay { whole: false, steps: replay::steps }),
};

/// Checks that a perf.data file has its recorded events. Accepts any other content.
///
/// # Errors
/// If the file is damaged or unfinished, or has no events.
pub fn check_events(recorded: &[u8]) -> Result<()> {
    if file::recognises(recorded) { file::PerfFile::open(&recorded).map(drop) } else { Ok(()) }
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let survey = Survey::of(input)?;
    let of_samples = ("perf samples", &[Callers, CallCounts, TimeOrder][..]);
    let of_stacks = &[CallCounts, TimeOrder][..];
    let ((mut what, mut unknown), passages) = match survey.content {
        SampleContent::BranchStacks if survey.no_indirect_calls() => {
            (("perf branch records", &[IndirectCalls][..]), "branches")
        }
        SampleContent::BranchStacks | SampleContent::SingleBranches => {
            (("perf branch records", &[][..]), "branches")
        }
        SampleContent::BranchesAsStack => {
            (("perf call stacks from branch records", of_stacks), "calls in stacks")
        }
        SampleContent::CallChains => (("perf call stacks", of_stacks), "calls in stacks"),
        SampleContent::AddressResolver => (of_samples, "calls"),
        SampleContent::StackCopies => return Err(stack_copies()),
        SampleContent::Nothing => {
            return Err(Error::new(
                ErrorCode::UnsupportedVariant,
                "the samples of this perf.data have no addresses",
            )
            .with_hint(HOW_TO_RECORD));
        }
    };
    let mut recording = Recording::default();
    let seen = count::count(&survey, input, settings.executions, &mut recording)?;
    if seen.passages == 0 && survey.content == SampleContent::CallChains && survey.has_stack_copies() {
        return Err(stack_copies());
    }
    if seen.passages == 0 && survey.content == SampleContent::CallChains && !recording.samples().is_empty() {
        (what, unknown) = of_samples;
        recording.skipped.add_many(Reason::NoCallers, seen.samples, 0, "");
    } else if seen.passages == 0 && survey.content != SampleContent::AddressResolver {
        return Err(Error::new(
            ErrorCode::EmptyRecording,
            format!(
                "no sample of {} in this perf.data has a {}",
                seen.samples,
                if survey.content == SampleContent::CallChains {
                    "call stack of the program"
                } else {
                    "branch"
                }
            ),
        )
        .with_hint(HOW_TO_RECORD));
    }
    recording.skipped.add_many(Reason::LostRecord, survey.lost, 0, "");
    recording.skipped.add_many(Reason::TrailingByte, survey.file.junk, 0, "");
    for (name, samples) in survey.not_read() {
        recording.skipped.add_many(Reason::OtherEvent, samples, 0, name);
    }
    recording.source = ProfileSource::new(what, &survey.event_names(), unknown);
    recording.arch = survey.file.arch.clone();
    recording.origin.host = survey.file.host.clone();
    recording.origin.duration = seen.last.saturating_sub(seen.first);
    recording.samples_taken = seen.samples;
    recording.seen = format!("{}, {} {passages}", counted(seen.samples, "sample"), seen.passages);
    Ok(recording)
}

const HOW_TO_RECORD: &str = "record with: perf record -e branches:u -j any_call,u -- PROGRAM. Without branch records (most virtual machines): perf record -e cpu-clock:u --call-graph fp -- PROGRAM, or valgrind --tool=callgrind PROGRAM";

fn stack_copies() -> Error {
    Error::new(ErrorCode::UnsupportedVariant,"this perf.data has copies of the stack (--call-graph dwarf), which only perf can unwind")
        .with_hint(
            "print them on the machine that recorded them: perf script --no-inline --no-demangle -i perf.data > stacks.txt; then import stacks.txt",
        )
}
