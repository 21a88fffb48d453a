// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first pass over the records finds the changes of address spaces, the events with samples, and the content of the
//! samples. It classifies and counts samples, but does not read them.

use super::attribute::{SampleContent, sample_type};
use super::cursor::PerfDataCursor;
use super::file::PerfFile;
use super::mappings::{AddressSpaceChange, Spaces, When};
use super::records::{PerfRecord, kind};
use super::stream::{Batch, on_all_cores, workers};
use crate::read::Input;
use crate::read::replay::ReplaySampling;
use sediment_core::error::{Error, ErrorCode, Result};

/// A file whose samples can now be read in any order.
pub(super) struct Survey<'a> {
    pub(super) file: PerfFile<'a>,
    pub(super) spaces: Spaces,
    /// Content of the samples.
    pub(super) content: SampleContent,
    /// True for each event whose samples are read, by its index.
    pub(super) read: Vec<bool>,
    /// Number of samples of each event.
    samples: Vec<u64>,
    /// Number of records for which the kernel had no room.
    pub(super) lost: u64,
}

/// Samples that a worker keeps for later, with their positions.
#[derive(Debug)]
pub(super) struct RetainedSamples {
    told: Option<ReplaySampling>,
    big_endian: bool,
    /// Position among the records, flags, offset in the file, and end in `bodies`, of each.
    samples: Vec<(u64, u16, u64, usize)>,
    bodies: Vec<u8>,
}

impl RetainedSamples {
    fn take(&mut self, sequence: u64, record: &PerfRecord) {
        if self.told.is_some_and(|told| told.has(sequence)) {
            self.bodies.extend_from_slice(record.body.left());
            self.samples.push((sequence, record.misc, record.body.offset(), self.bodies.len()));
        }
    }

    /// Returns the samples with their positions.
    pub(super) fn records(&self) -> impl Iterator<Item = Result<(u64, PerfRecord<'_>)>> {
        let mut start = 0;
        self.samples.iter().map(move |(sequence, misc, offset, end)| {
            let body = PerfDataCursor::new(&self.bodies[start..*end], *offset, self.big_endian);
            start = *end;
            Ok((*sequence, PerfRecord { kind: kind::SAMPLE, misc: *misc, body }))
        })
    }
}

/// Survey of one worker.
struct WorkerSurvey<'a> {
    retained: RetainedSamples,
    changes: Vec<(When, AddressSpaceChange)>,
    samples: Vec<u64>,
    lost: u64,
    /// Records that perf wrote for itself about the file, with their positions.
    of_perf: Vec<(u64, u32, u16, Vec<u8>)>,
    file: &'a PerfFile<'a>,
}

impl<'a> Survey<'a> {
    pub(super) fn of(input: &'a dyn Input) -> Result<Self> {
        Self::keeping(input, None).map(|(survey, _)| survey)
    }

    /// Makes the survey, and returns the samples for the replay, which each worker keeps separately.
    pub(super) fn keeping(
        input: &'a dyn Input,
        told: Option<ReplaySampling>,
    ) -> Result<(Self, Vec<RetainedSamples>)> {
        let mut file = PerfFile::open(input)?;
        let big_endian = file.big_endian;
        let new = || WorkerSurvey {
            retained: RetainedSamples { told, big_endian, samples: Vec::new(), bodies: Vec::new() },
            changes: Vec::new(),
            samples: vec![0; file.events.attributes.len()],
            lost: 0,
            of_perf: Vec::new(),
            file: &file,
        };
        let all = on_all_cores(file.records(), workers(input.length()), new, WorkerSurvey::take)?;
        let mut samples = vec![0; file.events.attributes.len()];
        let (mut changes, mut of_perf, mut lost) = (Vec::new(), Vec::new(), 0);
        let mut retained = Vec::new();
        for met in all {
            retained.push(met.retained);
            changes.extend(met.changes);
            of_perf.extend(met.of_perf);
            lost += met.lost;
            samples.iter_mut().zip(met.samples).for_each(|(sum, more)| *sum += more);
        }
        changes.sort_unstable_by_key(|(when, _)| *when);
        of_perf.sort_unstable();
        for (_, kind, misc, bytes) in of_perf {
            let body = PerfDataCursor::new(&bytes, 0, file.big_endian);
            file.read_record_of_perf(&PerfRecord { kind, misc, body })?;
        }
        let spaces = Spaces::follow(changes)?;
        let attributes = &file.events.attributes;
        let with_samples = || attributes.iter().zip(&samples).filter(|(_, samples)| **samples > 0);
        if with_samples().next().is_none() {
            return Err(Error::new(ErrorCode::EmptyRecording, "no samples in this perf.data").with_hint(if file.in_folder {
                "they are in the files next to it (perf record --threads): perf inject -i DIR -o joined, then import joined/data"
            } else {
                "did the program run long enough? record again, or with a lower period (-c)"
            }));
        }
        let content =
            with_samples().map(|(attribute, _)| attribute.content()).min().unwrap_or(SampleContent::Nothing);
        // Branches of different events can be added, whatever event triggered the sample. Stacks and addresses
        // represent a number of events, and counts of different events cannot be added.
        let first = with_samples().map(|(attribute, _)| attribute).find(|one| one.content() == content);
        let read = attributes
            .iter()
            .map(|one| {
                one.content() == content
                    && (content <= SampleContent::SingleBranches
                        || first.is_some_and(|first| first.counts_the_same(one)))
            })
            .collect();
        Ok((Self { spaces, content, read, samples, lost, file }, retained))
    }

    /// Returns names and numbers of samples of the events that are not read.
    pub(super) fn not_read(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.file.events.attributes.iter().zip(&self.read).zip(&self.samples);
        all.filter(|((_, read), _)| !**read).map(|((one, _), samples)| (one.name(), *samples))
    }

    /// True if the samples of an event that is read have copies of the stack.
    pub(super) fn has_stack_copies(&self) -> bool {
        let all = self.file.events.attributes.iter().zip(&self.read);
        all.filter(|(_, read)| **read).any(|(one, _)| one.has(sample_type::STACK_USER))
    }

    /// True if no event that is read would record an indirect call.
    pub(super) fn no_indirect_calls(&self) -> bool {
        let all = self.file.events.attributes.iter().zip(&self.read);
        all.filter(|(_, read)| **read).all(|(one, _)| one.records_no_indirect_calls())
    }

    /// Returns the names of the events that are read, joined by `+`.
    pub(super) fn event_names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (attribute, _) in self.file.events.attributes.iter().zip(&self.read).filter(|(_, read)| **read) {
            if !names.contains(&attribute.name()) {
                names.push(attribute.name());
            }
        }
        names.join("+")
    }
}

impl WorkerSurvey<'_> {
    fn take(&mut self, batch: &Batch) -> Result<()> {
        let events = &self.file.events;
        for record in batch.records() {
            let (sequence, record) = record?;
            match record.kind {
                kind::SAMPLE => {
                    self.samples[events.index_of(kind::SAMPLE, record.body)] += 1;
                    self.retained.take(sequence, &record);
                }
                kind::HEADER_BUILD_ID | kind::EVENT_UPDATE => {
                    self.of_perf.push((sequence, record.kind, record.misc, record.body.left().to_vec()));
                }
                kind::HEADER_ATTR.. => {}
                _ => {
                    if let Some((time, change)) = record.change(events)? {
                        self.changes.push((When { time, sequence }, change));
                    } else if let Some(count) = record.lost()? {
                        self.lost = self.lost.saturating_add(count);
                    }
                }
            }
        }
        Ok(())
    }
}
