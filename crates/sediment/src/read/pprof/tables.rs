// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables that samples refer to: strings, functions, locations, mappings; and what becomes of a location.

use super::super::stacks::Frame;
use super::super::{DsoId, RecordedAddress, RecordedDso, Recording, Spot};
use super::unpack::{Content, Messages};
use super::wire::{Damage, Fields, Value};
use crate::error::{Error, ErrorCode, Result};
use crate::skipped::Nowhere;

const LONGEST_NAME: usize = 4096;
const LONGEST_BUILD_ID: usize = 64;
/// From here on addresses are the kernel's, on every processor of 64 bits.
const KERNEL_ADDRESSES: u64 = 1 << 63;
const KERNELS: [&[u8]; 4] = [b"[kernel", b"[guest.kernel", b"[hypervisor]", b"[k]"];

/// Bytes of memory that a profile may still take.
#[derive(Debug)]
pub(super) struct Budget(pub(super) u64);

impl Budget {
    /// In proportion to the file, and for small ones what none of them needs.
    pub(super) fn of(length: u64) -> Self {
        Self(length.saturating_mul(12).saturating_add(40 << 20))
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.0 = self.0.checked_sub(bytes as u64).ok_or_else(|| {
            Error::new(ErrorCode::TooLarge, "the tables of the profile are too large for its size")
                .with_hint("it is damaged or malicious")
        })?;
        Ok(())
    }
}

/// Type and unit of one value of each sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValueType {
    pub(super) kind: u64,
    pub(super) unit: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Function {
    id: u64,
    name: u64,
    system_name: u64,
    file: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mapping {
    id: u64,
    start: u64,
    limit: u64,
    file_offset: u64,
    path: u64,
    build_id: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Location {
    id: u64,
    mapping: u64,
    address: u64,
    /// The last function of its lines, into which those before it were inlined; 0 where there is none.
    function: u64,
    frame: Option<Frame>,
}

/// All that stands beside the samples.
#[derive(Debug, Default)]
pub(super) struct Tables {
    strings: Vec<u8>,
    ends: Vec<usize>,
    pub(super) types: Vec<ValueType>,
    /// The type that the writer means to be looked at, by its name; 0 for none.
    pub(super) default_type: u64,
    functions: Vec<Function>,
    mappings: Vec<Mapping>,
    locations: Vec<Location>,
}

impl Tables {
    /// Reads everything but the samples.
    pub(super) fn read(messages: &mut Messages<'_>, budget: &mut Budget) -> Result<Self> {
        let mut tables = Self::default();
        while let Some((number, content)) = messages.next()? {
            match (number, content) {
                (14, Content::Number(index)) => tables.default_type = index,
                (1 | 3..=6, Content::Bytes) => {
                    let row = tables.row(number, &messages.buffer, budget)?;
                    row.map_err(|Damage| messages.damage("a damaged row of a table"))?;
                }
                (1..=6, Content::Number(_) | Content::Fixed) => {
                    return Err(messages.damage("a number in place of a table row"));
                }
                (14, _) => {
                    return Err(messages.damage("no number in place of the type that counts"));
                }
                _ => {}
            }
        }
        tables.functions.sort_unstable_by_key(|function| function.id);
        tables.mappings.sort_unstable_by_key(|mapping| mapping.id);
        tables.locations.sort_unstable_by_key(|location| location.id);
        only_once("functions", tables.functions.iter().map(|function| function.id))?;
        only_once("mappings", tables.mappings.iter().map(|mapping| mapping.id))?;
        only_once("locations", tables.locations.iter().map(|location| location.id))?;
        Ok(tables)
    }

    /// One row of the table of this number.
    fn row(
        &mut self,
        number: u32,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<std::result::Result<(), Damage>> {
        // Vectors grow by doubling: what they hold costs twice its size, and half as much again while they grow.
        let cost = match number {
            1 => size_of::<ValueType>(),
            3 => size_of::<Mapping>(),
            4 => size_of::<Location>(),
            5 => size_of::<Function>(),
            _ => bytes.len() + size_of::<usize>(),
        };
        budget.take(cost * 5 / 2)?;
        let mut row = [0u64; 8];
        Ok(match number {
            6 => {
                self.strings.extend_from_slice(bytes);
                self.ends.push(self.strings.len());
                Ok(())
            }
            4 => location(bytes).map(|location| self.locations.push(location)),
            _ => numbers(bytes, &mut row).map(|()| match number {
                1 => self.types.push(ValueType { kind: row[1], unit: row[2] }),
                3 => self.mappings.push(Mapping {
                    id: row[1],
                    start: row[2],
                    limit: row[3],
                    file_offset: row[4],
                    path: row[5],
                    build_id: row[6],
                }),
                _ => self.functions.push(Function {
                    id: row[1],
                    name: row[2],
                    system_name: row[3],
                    file: row[4],
                }),
            }),
        })
    }

    /// A string by its index.
    pub(super) fn string(&self, index: u64) -> Result<&[u8]> {
        let found = usize::try_from(index).ok().filter(|index| *index < self.ends.len());
        let Some(index) = found else {
            let count = self.ends.len();
            return Err(Error::new(
                ErrorCode::Damaged,
                format!("string {index} is used, but there are only {count}"),
            )
            .with_hint("is the file cut off? copy it again"));
        };
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(&self.strings[from..self.ends[index]])
    }

    /// The frame of the location of this id.
    pub(super) fn frame(&mut self, id: u64, recording: &mut Recording, budget: &mut Budget) -> Result<Frame> {
        let Ok(index) = self.locations.binary_search_by_key(&id, |location| location.id) else {
            return Err(Error::new(
                ErrorCode::Damaged,
                format!("a sample at location {id}, which is missing"),
            ));
        };
        if let Some(frame) = self.locations[index].frame {
            return Ok(frame);
        }
        let frame = self.name(&self.locations[index], recording, budget)?;
        self.locations[index].frame = Some(frame);
        Ok(frame)
    }

    fn name(&self, location: &Location, recording: &mut Recording, budget: &mut Budget) -> Result<Frame> {
        let mapping = match location.mapping {
            0 => None,
            id => {
                let found = self.mappings.binary_search_by_key(&id, |mapping| mapping.id).map_err(|_| {
                    Error::new(
                        ErrorCode::Damaged,
                        format!("location {} is in mapping {id}, which is missing", location.id),
                    )
                })?;
                Some(&self.mappings[found])
            }
        };
        let path = mapping.map_or(Ok(&b""[..]), |mapping| self.string(mapping.path))?;
        let pseudo = [
            &b"["[..],
            b"//anon",
            b"anon_inode:",
            b"/dev/zero",
            b"/memfd:",
            b"/SYSV",
            b"linux-vdso",
            b"linux-gate",
        ];
        let high = location.address >= KERNEL_ADDRESSES && !path.starts_with(b"/") && path != b"[vsyscall]";
        if high || KERNELS.iter().any(|name| path.starts_with(name)) {
            return Ok(Frame::System);
        }
        if pseudo.iter().any(|name| path.starts_with(name)) {
            return Ok(Frame::Unknown(Nowhere::Memory));
        }
        let spot = match location.function {
            0 => None,
            id => self.symbol(location.id, id)?,
        };
        let dso = match mapping {
            Some(mapping) => match self.dso(mapping, path)? {
                Ok(dso) => dso,
                Err(why) => return Ok(Frame::Unknown(why)),
            },
            None => None,
        };
        let spot = match (spot, mapping) {
            (Some(spot), _) => spot,
            (None, _) if location.function != 0 => return Ok(Frame::Unknown(Nowhere::UnacceptableLength)),
            (None, Some(mapping)) if dso.is_some() && mapping.holds(location.address) => {
                Spot::FileOffset((location.address - mapping.start).wrapping_add(mapping.file_offset))
            }
            _ => return Ok(Frame::Unknown(Nowhere::NoMapping)),
        };
        budget.take(place_cost(&spot))?;
        let dso: Option<DsoId> = dso.map(|dso| recording.dso(dso));
        Ok(Frame::Known(recording.place(RecordedAddress { dso, spot })))
    }

    /// The function of this id, by the name that the linker knows where it was recorded; None where it has none.
    fn symbol(&self, location: u64, id: u64) -> Result<Option<Spot>> {
        let Ok(index) = self.functions.binary_search_by_key(&id, |function| function.id) else {
            return Err(Error::new(
                ErrorCode::Damaged,
                format!("location {location} is in function {id}, which is missing"),
            ));
        };
        let function = self.functions[index];
        let name = match self.string(function.system_name)? {
            b"" => self.string(function.name)?,
            name => name,
        };
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Ok(None);
        }
        let path = self.string(function.file)?;
        let file = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let file = (!file.is_empty() && file.len() < 256).then(|| file.to_vec());
        Ok(Some(Spot::Symbol { name: name.to_vec(), file }))
    }

    /// The file of a mapping: none where it says none, or why there can be none.
    fn dso(
        &self,
        mapping: &Mapping,
        path: &[u8],
    ) -> Result<std::result::Result<Option<RecordedDso>, Nowhere>> {
        let build_id = self.string(mapping.build_id)?;
        // Go's own is no hexadecimal number, and stands in no ELF note.
        let build_id = std::str::from_utf8(build_id).ok().filter(|id| {
            !id.is_empty()
                && id.len() <= 2 * LONGEST_BUILD_ID
                && id.len() % 2 == 0
                && id.bytes().all(|b| b.is_ascii_hexdigit())
        });
        if path.len() > LONGEST_NAME {
            return Ok(Err(Nowhere::PathNotUtf8));
        }
        let Ok(path) = std::str::from_utf8(path) else { return Ok(Err(Nowhere::PathNotUtf8)) };
        let path = if path.is_empty() { build_id.unwrap_or_default() } else { path };
        if path.is_empty() {
            return Ok(Ok(None));
        }
        Ok(Ok(Some(RecordedDso { path: path.to_owned(), build_id: build_id.map(str::to_ascii_lowercase) })))
    }
}

impl Mapping {
    fn holds(&self, address: u64) -> bool {
        address >= self.start && (self.limit == 0 || address < self.limit)
    }
}

/// Memory of an address: it stands in a list and in a table.
fn place_cost(spot: &Spot) -> usize {
    let text = match spot {
        Spot::Symbol { name, file } => name.len() + file.as_ref().map_or(0, Vec::len),
        Spot::FileOffset(_) | Spot::Address(_) => 0,
    };
    5 * size_of::<RecordedAddress>() + 2 * text + 64
}

fn only_once(what: &str, ids: impl Iterator<Item = u64>) -> Result<()> {
    let mut before = 0;
    for id in ids {
        if id == 0 {
            return Err(Error::new(ErrorCode::Damaged, format!("one of its {what} has no id")));
        }
        if id == before {
            return Err(Error::new(ErrorCode::Damaged, format!("two of its {what} have the id {id}")));
        }
        before = id;
    }
    Ok(())
}

/// The integers of a message, by the numbers of their fields; the last of each counts, as everywhere in protocol buffers.
fn numbers(bytes: &[u8], row: &mut [u64; 8]) -> std::result::Result<(), Damage> {
    for field in Fields(bytes) {
        if let (number @ 1..=7, value) = field? {
            let Value::Varint(value) = value else { return Err(Damage) };
            row[number as usize] = value;
        }
    }
    Ok(())
}

fn location(bytes: &[u8]) -> std::result::Result<Location, Damage> {
    let mut location = Location::default();
    for field in Fields(bytes) {
        match field? {
            (1, Value::Varint(id)) => location.id = id,
            (2, Value::Varint(id)) => location.mapping = id,
            (3, Value::Varint(address)) => location.address = address,
            (4, Value::Bytes(line)) => {
                let mut row = [0; 8];
                numbers(line, &mut row)?;
                location.function = row[1];
            }
            (1..=4, _) => return Err(Damage),
            _ => {}
        }
    }
    Ok(location)
}
