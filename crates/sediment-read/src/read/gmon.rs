// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads gmon.out, which programs compiled with `-pg` write when they end.
//!
//! After a header of 20 bytes, the file is a sequence of records, each with one byte for its kind: the number of calls
//! of a function from an address (an arc), the number of clock ticks in each few bytes of the program's code (a
//! histogram), and counts of basic blocks, which no tool writes any more.
//!
//! The file names neither its program nor the size of its addresses. The user must name the program. The version at the
//! beginning of the header shows the byte order. The size of addresses is the one with which the records end exactly at
//! the end of the file. Addresses are addresses in the ELF file, even if the program was loaded elsewhere.
//!
//! Source: `sys/gmon_out.h` of the GNU C library, "gprof: Details" in the manual of binutils, and the output of glibc
//! 2.36 (docs/formats/gmon.md).

use super::{
    AddressId, DsoId, Input, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Spot,
    TransferKind, input,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{SharedLibraries, TimeOrder},
};
use sediment_core::skipped::Reason;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "gmon",
    summary: "gmon.out of a program compiled with -pg",
    recognises,
    read,
    replay: None,
};

const MAGIC: &[u8] = b"gmon";
const HEADER: usize = 20;
/// Limit of the number of addresses for a small file.
const MOST_ADDRESSES: usize = 180_000;
/// Number of buckets with ticks beyond which neighbours are added up, so that memory stays proportional to the file.
const MOST_BUCKETS: usize = 1 << 16;
const HOW: &str = "was the program compiled and linked with -pg, and did it return from main or call exit?";

fn recognises(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let layout = NumberFormat::of(bytes)?;
    let Some(program) = &settings.program else {
        return Err(Error::new(
            ErrorCode::NeedsBinary,
            "gmon.out has addresses, but not the name of the program",
        )
        .with_hint("name the program: --binary PROGRAM"));
    };
    let mut recording = Recording {
        source: ProfileSource::new("gprof gmon.out", "ticks", &[TimeOrder, SharedLibraries]),
        return_addresses: true,
        ..Recording::default()
    };
    let dso = recording.dso(RecordedDso { path: program.clone(), build_id: None });
    let mut reading = GmonConversion {
        recording,
        layout,
        dso,
        code: HistogramRanges::default(),
        arcs: 0,
        ticks: 0,
        most: 0,
    };
    // An arc may come before the histogram that has the range of the program's code.
    let (mut addresses, mut arcs) = (Vec::new(), 0);
    for record in layout.records(bytes) {
        match record? {
            GmonRecord::Histogram { low, high, .. } => reading.code.0.push((low, high)),
            GmonRecord::Arc { from, to, .. } => {
                addresses.extend([from, to]);
                arcs += 1;
            }
            GmonRecord::Blocks { .. } => {}
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    reading.most = MOST_ADDRESSES + bytes.len() / if layout.address == 8 { 17 } else { 20 };
    let distinct = addresses.len().min(reading.most);
    drop(addresses);
    // If they grew step by step, the tables would take twice the memory.
    reading.recording.addresses.reserve_exact(distinct);
    reading.recording.reserve_addresses(distinct);
    reading.recording.transfers.reserve(arcs);
    for record in layout.records(bytes) {
        reading.add(record?);
    }
    reading.finish(settings.part)
}

/// Address size and byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberFormat {
    address: usize,
    little: bool,
}

impl NumberFormat {
    fn of(bytes: &[u8]) -> Result<Self> {
        let version = bytes.get(4..8).unwrap_or_default();
        let little = match version {
            [1, 0, 0, 0] => true,
            [0, 0, 0, 1] => false,
            _ => {
                return Err(Error::at_offset(4, "unsupported version; expected 1")
                    .with_found(format!("{version:02x?}").as_bytes())
                    .with_hint(
                        "only gmon.out of programs compiled with -pg is supported; print a library's LD_PROFILE file with sprof",
                    ));
            }
        };
        if bytes.len() < HEADER {
            return Err(
                Error::at_offset(bytes.len() as u64, "the file ends inside its header").with_hint(HOW)
            );
        }
        let (wide, narrow) = (Self { address: 8, little }, Self { address: 4, little });
        match (wide.misfit(bytes), narrow.misfit(bytes)) {
            (None, None) => Ok(if wide.is_likely(bytes) { wide } else { narrow }),
            (None, Some(_)) => Ok(wide),
            (Some(_), None) => Ok(narrow),
            // The layout whose records are valid for longer was intended.
            (Some(a), Some(b)) => {
                let (at, why) = if a.0 >= b.0 { a } else { b };
                Err(Error::at_offset(at, why).with_hint(
                    "is the file cut off, or written by several processes at once? Record again with GMON_OUT_PREFIX=NAME, which gives each process its own file",
                ))
            }
        }
    }

    /// Returns the offset and the reason if the records do not fit the file with this layout; `None` if they fit.
    fn misfit(self, bytes: &[u8]) -> Option<(u64, &'static str)> {
        self.records(bytes).find_map(|record| record.err().map(|misfit| (misfit.at, misfit.why)))
    }

    /// True if arcs join addresses within 4 GB of each other, as in a real program.
    fn is_likely(self, bytes: &[u8]) -> bool {
        self.records(bytes).all(|record| match record {
            Ok(GmonRecord::Arc { from, to, .. }) => from == 0 || from.abs_diff(to) < 1 << 32,
            _ => true,
        })
    }

    fn records(self, bytes: &[u8]) -> GmonRecords<'_> {
        GmonRecords { layout: self, bytes, at: HEADER }
    }

    fn number(self, bytes: &[u8]) -> u64 {
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if self.little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
    }
}

enum GmonRecord<'a> {
    Histogram { low: u64, high: u64, buckets: &'a [u8] },
    Arc { from: u64, to: u64, count: u64 },
    Blocks { count: u64 },
}

#[derive(Debug)]
struct BadRecord {
    at: u64,
    why: &'static str,
}

impl From<BadRecord> for Error {
    fn from(misfit: BadRecord) -> Self {
        Error::at_offset(misfit.at, misfit.why)
    }
}

/// Iterates over the records of a file, until its end or the first invalid one.
struct GmonRecords<'a> {
    layout: NumberFormat,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for GmonRecords<'a> {
    type Item = std::result::Result<GmonRecord<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let tag = *self.bytes.get(start)?;
        self.at += 1;
        let record = self.record(tag).map_err(|why| BadRecord { at: start as u64, why });
        if record.is_err() {
            self.at = self.bytes.len();
        }
        Some(record)
    }
}

impl<'a> GmonRecords<'a> {
    fn record(&mut self, tag: u8) -> std::result::Result<GmonRecord<'a>, &'static str> {
        let address = self.layout.address;
        match tag {
            0 => {
                let low = self.number(address)?;
                let high = self.number(address)?;
                let buckets = self.number(4)?;
                self.number(4)?; // ticks per second
                let dimension = self.take(16)?;
                if !dimension.iter().all(|byte| *byte == 0 || (b' '..=b'~').contains(byte)) {
                    return Err("a histogram whose unit name is not text");
                }
                if high < low || buckets > 0 && high == low {
                    return Err("a histogram that ends before it begins");
                }
                let length = buckets.checked_mul(2).and_then(|length| usize::try_from(length).ok());
                let buckets = self.take(length.ok_or(CUT_OFF)?)?;
                Ok(GmonRecord::Histogram { low, high, buckets })
            }
            1 => {
                let (from, to) = (self.number(address)?, self.number(address)?);
                Ok(GmonRecord::Arc { from, to, count: self.number(4)? })
            }
            2 => {
                let count = self.number(4)?;
                let length =
                    count.checked_mul(2 * address as u64).and_then(|length| usize::try_from(length).ok());
                self.take(length.ok_or(CUT_OFF)?)?;
                Ok(GmonRecord::Blocks { count })
            }
            _ => Err("an unknown kind of record"),
        }
    }

    fn take(&mut self, length: usize) -> std::result::Result<&'a [u8], &'static str> {
        let taken = self.bytes[self.at..].get(..length).ok_or(CUT_OFF)?;
        self.at += length;
        Ok(taken)
    }

    fn number(&mut self, length: usize) -> std::result::Result<u64, &'static str> {
        let layout = self.layout;
        self.take(length).map(|bytes| layout.number(bytes))
    }
}

const CUT_OFF: &str = "the file ends inside a record";

/// Ranges of the program's code, from the histograms.
#[derive(Debug, Default)]
struct HistogramRanges(Vec<(u64, u64)>);

impl HistogramRanges {
    fn holds(&self, address: u64) -> bool {
        address != 0
            && (self.0.is_empty() || self.0.iter().any(|(low, high)| (*low..*high).contains(&address)))
    }
}

struct GmonConversion {
    recording: Recording,
    layout: NumberFormat,
    dso: DsoId,
    code: HistogramRanges,
    arcs: u64,
    ticks: u128,
    /// Limit of the number of addresses of arcs.
    most: usize,
}

impl GmonConversion {
    fn add(&mut self, record: GmonRecord<'_>) {
        match record {
            GmonRecord::Histogram { low, high, buckets } => self.histogram(low, high, buckets),
            GmonRecord::Arc { count: 0, .. } => {}
            GmonRecord::Arc { from, to, count } => {
                self.arcs += 1;
                let count = u128::from(count);
                self.recording.total = self.recording.total.saturating_add(count);
                let Some(callee) = self.end(to) else {
                    self.recording.skipped.add(Reason::CallBeyondMemory, count, "");
                    return;
                };
                if !self.code.holds(from) {
                    let example = format!("{from:#x} -> {to:#x}");
                    self.recording.skipped.add(Reason::CallFromOutside, count, example);
                    return;
                }
                match self.end(from) {
                    Some(caller) => self.recording.add_transfer(caller, callee, TransferKind::Call, count),
                    None => self.recording.skipped.add(Reason::CallBeyondMemory, count, ""),
                }
            }
            GmonRecord::Blocks { count } => {
                self.recording.skipped.add_many(Reason::BlockCount, count.max(1), 0, "")
            }
        }
    }

    /// Adds the ticks of each bucket to the byte in its middle. If there are too many buckets, the ticks of neighbours
    /// go to the bucket among them with the most ticks.
    fn histogram(&mut self, low: u64, high: u64, buckets: &[u8]) {
        let layout = self.layout;
        let found = || {
            let ticks = buckets.chunks_exact(2).map(|bucket| layout.number(bucket));
            ticks.enumerate().filter(|(_, ticks)| *ticks > 0)
        };
        let number = buckets.len() as u128 / 2;
        let mut shift = 0;
        while groups(found().map(|(bucket, _)| bucket >> shift)) > MOST_BUCKETS {
            shift += 1;
        }
        let mut group: Option<BucketGroup> = None;
        for (bucket, ticks) in found() {
            match &mut group {
                Some(group) if group.number == bucket >> shift => group.add(bucket, ticks),
                _ => {
                    let next = BucketGroup { number: bucket >> shift, heaviest: bucket, most: ticks, ticks };
                    if let Some(full) = group.replace(next) {
                        self.ticks_at(middle(low, high, full.heaviest, number), full.ticks);
                    }
                }
            }
        }
        if let Some(last) = group {
            self.ticks_at(middle(low, high, last.heaviest, number), last.ticks);
        }
        if shift > 0 {
            self.recording.skipped.add(Reason::RoundedTick, 0, "");
        }
    }

    fn ticks_at(&mut self, address: u64, ticks: u64) {
        let place = self.place(address);
        self.recording.add_samples(place, u128::from(ticks));
        self.ticks += u128::from(ticks);
    }

    /// Returns the address of an end of an arc, if there is room for it.
    fn end(&mut self, address: u64) -> Option<AddressId> {
        if self.recording.addresses.len() < self.most {
            return Some(self.place(address));
        }
        self.recording.find_address(&RecordedAddress { dso: Some(self.dso), spot: Spot::Address(address) })
    }

    fn place(&mut self, address: u64) -> AddressId {
        self.recording.place(RecordedAddress { dso: Some(self.dso), spot: Spot::Address(address) })
    }

    /// One of several processes may have done nothing.
    fn finish(mut self, part: bool) -> Result<Recording> {
        if self.arcs == 0 && self.ticks == 0 && !part {
            return Err(Error::new(ErrorCode::EmptyRecording, "no calls and no ticks in this gmon.out")
                .with_hint(HOW));
        }
        self.recording.seen = format!("{}, {}", counted(self.arcs, "arc"), counted(self.ticks, "tick"));
        Ok(self.recording)
    }
}

/// Neighbouring buckets that are added up.
struct BucketGroup {
    number: usize,
    heaviest: usize,
    most: u64,
    ticks: u64,
}

impl BucketGroup {
    fn add(&mut self, bucket: usize, ticks: u64) {
        self.ticks += ticks;
        if ticks > self.most {
            (self.heaviest, self.most) = (bucket, ticks);
        }
    }
}

/// Number of distinct values in an ascending sequence.
fn groups(numbers: impl Iterator<Item = usize>) -> usize {
    let mut last = None;
    numbers.filter(|number| last.replace(*number) != Some(*number)).count()
}

/// Byte in the middle of a bucket of a histogram with `number` buckets.
fn middle(low: u64, high: u64, bucket: usize, number: u128) -> u64 {
    let inside = u128::from(high - low) * (2 * bucket as u128 + 1) / (2 * number);
    low + u64::try_from(inside).unwrap_or(high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_buckets_than_can_be_kept_are_added_up_and_lose_no_tick() {
        let buckets = 3 * MOST_BUCKETS;
        let mut file = b"gmon\x01\0\0\0".to_vec();
        file.resize(HEADER, 0);
        file.push(0);
        file.extend(0x1000u64.to_le_bytes());
        file.extend((0x1000 + 4 * buckets as u64).to_le_bytes());
        file.extend((buckets as u32).to_le_bytes());
        file.extend(100u32.to_le_bytes());
        file.extend(b"seconds\0\0\0\0\0\0\0\0s");
        for bucket in 0..buckets {
            file.extend((1 + bucket as u16 % 4).to_le_bytes());
        }
        let settings = ReadSettings { program: Some("p".to_owned()), ..ReadSettings::default() };
        let recording = read(&file, &settings).unwrap();
        let kept = recording.samples();
        assert!(kept.len() <= MOST_BUCKETS && kept.len() >= MOST_BUCKETS / 2);
        let ticks: u128 = kept.iter().map(|(_, ticks)| ticks).sum();
        assert_eq!(ticks, (0..buckets).map(|bucket| 1 + bucket as u128 % 4).sum());
        assert_eq!(recording.skipped.items(Reason::RoundedTick), 1);
        // The last of four buckets with 1, 2, 3 and 4 ticks has the most.
        assert_eq!(recording.addresses()[0].spot, Spot::Address(0x1000 + 3 * 4 + 2));
    }
}
