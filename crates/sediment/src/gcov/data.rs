// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of a unit's functions (`.gcda`), as libgcov writes them at the end of a run, or adds them to an earlier one's.

use super::cursor::Cursor;
use super::units::{Counted, Place, Units};
use super::{Reader, cursor};
use crate::error::{Error, Result};
use crate::profile::counters::Arcs;
use crate::skipped::{Reason, Skipped};

pub(super) const READER: Reader = Reader { magic: *b"adcg", extension: "gcda", read };

const FUNCTION: u32 = 0x0100_0000;
const ARCS: u32 = 0x01a1_0000;

fn read(bytes: &[u8], name: &str, units: &mut Units, skipped: &mut Skipped) -> Result<()> {
    let (mut cursor, header) = Cursor::open(bytes, READER.magic)?;
    let mut counted: Vec<Counted> = Vec::new();
    let mut place = None;
    while let Some(record) = cursor.record()? {
        match record.tag {
            FUNCTION => place = place_of(record)?,
            // Other counters are those of values.
            ARCS => match place {
                None => {}
                Some(place) => match arcs(record)? {
                    Some(arcs) => counted.push(Counted { place, arcs }),
                    None => skipped.add(Reason::WrappedCounters, 0, name),
                },
            },
            _ => {}
        }
    }
    units.add_data(name, header.stamp, counted);
    Ok(())
}

/// The identity of a function; None where the linker took another unit's copy of it.
fn place_of(record: cursor::Record<'_>) -> Result<Option<Place>> {
    let mut content = record.content;
    if content.is_empty() {
        return Ok(None);
    }
    Place::read(&mut content).map(Some)
}

/// Counts of arcs; None where one went beyond 63 bits, as it does where code or a race subtracts.
fn arcs(record: cursor::Record<'_>) -> Result<Option<Arcs>> {
    let mut arcs = Arcs::default();
    let mut content = record.content;
    if record.length % 8 != 0 {
        return Err(Error::at_offset(content.offset(), "the length of counters is no multiple of 8"));
    }
    if record.length < 0 {
        // Fewer than 2^28.
        let _ = arcs.extend(0, record.length.unsigned_abs() / 8);
    }
    while !content.is_empty() {
        let count = content.counter()?;
        if count >> 63 != 0 || arcs.extend(u128::from(count), 1).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(arcs))
}
