// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads counts of a unit's functions (`.gcda`). libgcov writes them at the end of a run, or adds them to existing
//! ones.

use super::cursor::GcovCursor;
use super::units::{GcdaFunction, GcovIdentity, Units};
use super::{GcovFileKind, cursor};
use sediment_core::error::{Error, Result};
use sediment_core::profile::counters::VariantCounts;
use sediment_core::profile::runs::RunLengthCounts;
use sediment_core::profile::values::{Top, Tops};
use sediment_core::skipped::{Reason, Skipped};

pub(super) const READER: GcovFileKind = GcovFileKind { magic: *b"adcg", extension: "gcda", read };

const FUNCTION: u32 = 0x0100_0000;
const ARCS: u32 = 0x01a1_0000;

fn read(bytes: &[u8], name: &str, units: &mut Units, skipped: &mut Skipped) -> Result<()> {
    let (mut cursor, header) = GcovCursor::open(bytes, READER.magic)?;
    let mut functions: Vec<GcdaFunction> = Vec::new();
    let mut place = None;
    while let Some(record) = cursor.record()? {
        if record.tag == FUNCTION {
            place = place_of(record)?;
            functions
                .extend(place.map(|place| GcdaFunction { place, counted: Some(VariantCounts::default()) }));
        } else if let (Some(kind), Some(_), Some(function)) =
            (CounterKind::of(record.tag), place, functions.last_mut())
        {
            let counted = function.counted.take();
            function.counted = counted.map(|counted| kind.read(record, counted)).transpose()?.flatten();
        }
    }
    let wrapped = functions.iter().filter(|function| function.counted.is_none()).count();
    for _ in 0..wrapped {
        skipped.add(Reason::WrappedCounters, 0, name);
    }
    units.add_data(name, header.stamp, functions);
    Ok(())
}

/// Kinds of counters that are kept. The most frequent callees of indirect calls are not kept, because they are hashes
/// of paths.
#[derive(Clone, Copy)]
enum CounterKind {
    Arcs,
    Interval,
    Power,
    Tops,
    Average,
    Bits,
    First,
}

impl CounterKind {
    fn of(tag: u32) -> Option<Self> {
        Some(match tag.checked_sub(ARCS)? {
            0 => Self::Arcs,
            0x2_0000 => Self::Interval,
            0x4_0000 => Self::Power,
            0x6_0000 => Self::Tops,
            0xa_0000 => Self::Average,
            0xc_0000 => Self::Bits,
            0xe_0000 => Self::First,
            _ => return None,
        })
    }

    /// Reads the record of a function; `None` if counts of its arcs overflowed. Other values that overflowed count as
    /// not measured.
    fn read(
        self,
        record: cursor::GcovRecord<'_>,
        mut counted: VariantCounts,
    ) -> Result<Option<VariantCounts>> {
        if let Self::Tops = self {
            counted.values.tops = tops(record)?;
            return Ok(Some(counted));
        }
        let runs = runs(record)?;
        if let Self::Arcs = self {
            return Ok(runs.map(|arcs| VariantCounts { arcs, ..counted }));
        }
        let values = &mut counted.values;
        let place = match self {
            Self::Interval => &mut values.interval,
            Self::Power => &mut values.power,
            Self::Average => &mut values.average,
            Self::First => &mut values.first,
            _ => &mut values.bits,
        };
        *place = runs.unwrap_or_default();
        Ok(Some(counted))
    }
}

/// Reads the identity of a function; `None` if the linker used another unit's copy of it.
fn place_of(record: cursor::GcovRecord<'_>) -> Result<Option<GcovIdentity>> {
    let mut content = record.content;
    if content.is_empty() {
        return Ok(None);
    }
    GcovIdentity::read(&mut content).map(Some)
}

/// Reads counts; `None` if one exceeds 63 bits, which happens if code or a race subtracts.
fn runs(record: cursor::GcovRecord<'_>) -> Result<Option<RunLengthCounts>> {
    let mut runs = RunLengthCounts::default();
    let mut content = record.content;
    check_length(record.length, content)?;
    if record.length < 0 {
        // There are fewer than 2^28.
        let _ = runs.extend(0, record.length.unsigned_abs() / 8);
    }
    while !content.is_empty() {
        let count = content.counter()?;
        if count >> 63 != 0 || runs.extend(u128::from(count), 1).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(runs))
}

/// Reads the most frequent values of statements: for each its executions, the number of values, and values with their
/// counts.
fn tops(record: cursor::GcovRecord<'_>) -> Result<Tops<u64>> {
    let mut content = record.content;
    check_length(record.length, content)?;
    // A statement that was not executed has two counters.
    let mut tops = Tops { statements: record.length.min(0).unsigned_abs() / 16, ..Tops::default() };
    while !content.is_empty() {
        let mut top = Top::default();
        // Negative if values were dropped.
        let total = (content.counter()? as i64).unsigned_abs();
        top.total = u128::from(total);
        for _ in 0..content.counter()? {
            let value = content.counter()?;
            let count = top.values.entry(value).or_default();
            *count += u128::from(content.counter()? & i64::MAX as u64);
        }
        if top.total > 0 {
            tops.executed.insert(tops.statements, top);
        }
        tops.statements += 1;
    }
    Ok(tops)
}

fn check_length(length: i32, content: GcovCursor<'_>) -> Result<()> {
    if length % 8 != 0 {
        return Err(Error::at_offset(content.offset(), "the length of counters is not a multiple of 8"));
    }
    Ok(())
}
