// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locations of sampled profiles: a function named by the profiler, or an address in a mapped file. All formats that
//! have both use this conversion to a recording.

use super::stacks::StackFrame;
use super::{RecordedAddress, RecordedDso, Recording, Spot};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::Nowhere;

const LONGEST_NAME: usize = 4096;
const LONGEST_BUILD_ID: usize = 64;
/// First address of the kernel on every 64-bit processor.
const KERNEL_ADDRESSES: u64 = 1 << 63;
const KERNELS: [&[u8]; 4] = [b"[kernel", b"[guest.kernel", b"[hypervisor]", b"[k]"];
/// Names of mappings that are not files.
const PSEUDO_FILES: [&[u8]; 8] =
    [b"[", b"//anon", b"anon_inode:", b"/dev/zero", b"/memfd:", b"/SYSV", b"linux-vdso", b"linux-gate"];

/// Largest depth of a call stack.
pub(super) const DEEPEST: usize = 1 << 18;
/// Memory of a transfer in a table that doubles when it grows.
const PASSAGE_COST: usize = 110;

/// Number of bytes of memory that a profile may still take.
#[derive(Debug)]
pub(super) struct MemoryBudget(pub(super) u64);

impl MemoryBudget {
    /// Makes a budget proportional to the file, with a minimum that is enough for any small file.
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

    /// Takes the memory for the recording's transfers beyond `before`, and returns the number of transfers.
    pub(super) fn take_passages(&mut self, recording: &Recording, before: usize) -> Result<usize> {
        let now = recording.transfer_count();
        self.take((now - before) * PASSAGE_COST)?;
        Ok(now)
    }
}

/// Texts by index.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    pub(super) fn push(&mut self, text: &[u8], budget: &mut MemoryBudget) -> Result<()> {
        budget.take(grown(text.len() + size_of::<usize>()))?;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[from..end])
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }
}

/// Memory of this number of bytes in a vector: it doubles when it grows, and meanwhile has half as much again.
pub(super) fn grown(bytes: usize) -> usize {
    bytes * 5 / 2
}

/// A location in a profile.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResolvedLocation<'a> {
    pub(super) address: u64,
    pub(super) mapping: Option<LocationMapping<'a>>,
    pub(super) function: Option<LocationFunction<'a>>,
}

/// A mapped file and its addresses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LocationMapping<'a> {
    pub(super) start: u64,
    /// Its end; 0 if unknown.
    pub(super) limit: u64,
    pub(super) file_offset: u64,
    pub(super) path: &'a [u8],
    pub(super) build_id: &'a [u8],
}

/// A function that the profiler named.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LocationFunction<'a> {
    pub(super) name: &'a [u8],
    /// The linkage name; empty if unknown.
    pub(super) system_name: &'a [u8],
    pub(super) file: &'a [u8],
}

impl ResolvedLocation<'_> {
    /// Returns its frame, and adds its address to the recording.
    pub(super) fn frame(&self, recording: &mut Recording, budget: &mut MemoryBudget) -> Result<StackFrame> {
        let path = self.mapping.map_or(&b""[..], |mapping| mapping.path);
        let high = self.address >= KERNEL_ADDRESSES && !path.starts_with(b"/") && path != b"[vsyscall]";
        if high || KERNELS.iter().any(|name| path.starts_with(name)) {
            return Ok(StackFrame::System);
        }
        if PSEUDO_FILES.iter().any(|name| path.starts_with(name)) {
            return Ok(StackFrame::Unknown(Nowhere::Memory));
        }
        let dso = match self.mapping.map(|mapping| mapping.dso()) {
            Some(Err(why)) => return Ok(StackFrame::Unknown(why)),
            Some(Ok(dso)) => dso,
            None => None,
        };
        let spot = match (self.function, self.mapping) {
            (Some(function), _) => function.spot().ok_or(Nowhere::UnacceptableLength),
            (None, Some(mapping)) if dso.is_some() => mapping.spot(self.address).ok_or(Nowhere::NoMapping),
            _ => Err(Nowhere::NoMapping),
        };
        let spot = match spot {
            Ok(spot) => spot,
            Err(why) => return Ok(StackFrame::Unknown(why)),
        };
        budget.take(place_cost(&spot))?;
        let dso = dso.map(|dso| recording.dso(dso));
        if let (Some(dso), Some((offset, length))) = (dso, self.mapping.and_then(|mapping| mapping.extent()))
        {
            recording.file_mut(dso).add_mapped(offset, length);
        }
        Ok(StackFrame::Known(recording.place(RecordedAddress { dso, spot })))
    }
}

impl LocationFunction<'_> {
    /// Returns the function by its linkage name, if it was recorded; `None` otherwise.
    fn spot(&self) -> Option<Spot> {
        let name = if self.system_name.is_empty() { self.name } else { self.system_name };
        if name.is_empty() || name.len() > LONGEST_NAME {
            return None;
        }
        let file = self.file.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let file = (!file.is_empty() && file.len() < 256).then(|| file.to_vec());
        Some(Spot::Symbol { name: name.to_vec(), file })
    }
}

impl LocationMapping<'_> {
    /// Returns the file: `None` if it has no name, or the reason why there cannot be one.
    fn dso(&self) -> std::result::Result<Option<RecordedDso>, Nowhere> {
        // Go's own build-id is not a hexadecimal number, and is not in an ELF note.
        let build_id = std::str::from_utf8(self.build_id).ok().filter(|id| {
            !id.is_empty()
                && id.len() <= 2 * LONGEST_BUILD_ID
                && id.len() % 2 == 0
                && id.bytes().all(|b| b.is_ascii_hexdigit())
        });
        if self.path.len() > LONGEST_NAME {
            return Err(Nowhere::PathNotUtf8);
        }
        let path = std::str::from_utf8(self.path).map_err(|_| Nowhere::PathNotUtf8)?;
        let path = if path.is_empty() { build_id.unwrap_or_default() } else { path };
        let named = || RecordedDso { path: path.to_owned(), build_id: build_id.map(str::to_ascii_lowercase) };
        Ok((!path.is_empty()).then(named))
    }

    /// Offset in the file and length, if both are known.
    fn extent(&self) -> Option<(u64, u64)> {
        let length = self.limit.checked_sub(self.start).filter(|length| *length > 0)?;
        (self.start > 0).then_some((self.file_offset, length))
    }

    /// Returns the byte of the file at an address; `None` if the mapping does not contain it.
    fn spot(&self, address: u64) -> Option<Spot> {
        // A profiler that has no mappings writes a mapping of the whole address space, with addresses as in the ELF
        // file; pprof interprets it in the same way.
        if self.start == 0 && self.file_offset == 0 && matches!(self.limit, 0 | u64::MAX) {
            return Some(Spot::Address(address));
        }
        let inside = address >= self.start && (self.limit == 0 || address < self.limit);
        inside.then(|| Spot::FileOffset((address - self.start).wrapping_add(self.file_offset)))
    }
}

/// A type of measurement and its unit.
pub(super) type MeasurementType<'a> = (&'a [u8], &'a [u8]);

/// Returns the index of the type of measurement to count: the one named by `wanted`, otherwise samples, otherwise
/// processor time, otherwise the last one, as in pprof. `None` if there are no types.
pub(super) fn counted_type(types: &[MeasurementType<'_>], wanted: &[u8]) -> Option<usize> {
    let by_name = |name: &[u8]| types.iter().position(|(kind, _)| !name.is_empty() && *kind == name);
    let counted = by_name(wanted).or_else(|| by_name(b"samples")).or_else(|| by_name(b"cpu"));
    counted.or_else(|| types.len().checked_sub(1))
}

/// Formats a type and its unit as an event of the source.
pub(super) fn event((kind, unit): MeasurementType<'_>) -> String {
    format!("{}/{}", word_of_source(kind), word_of_source(unit))
}

/// Formats a name as one word of the source, which separates several by commas.
pub(super) fn word_of_source(name: &[u8]) -> String {
    const LONGEST: usize = 60;
    let text = String::from_utf8_lossy(&name[..name.len().min(LONGEST)]).into_owned();
    text.chars()
        .map(|c| if c.is_ascii_graphic() && !matches!(c, ',' | '"' | '\\') { c } else { '_' })
        .collect()
}

/// Error for a profile without any names or files.
pub(super) fn nothing_named(recording: &Recording, hint: &str) -> Error {
    let why: Vec<String> =
        recording.skipped.iter().map(|(reason, entry)| format!("{} {reason}", entry.items)).collect();
    let what = "the profile has neither functions nor mapped files for its samples";
    Error::new(ErrorCode::Unresolved, what).with_found(why.join("; ").as_bytes()).with_hint(hint)
}

/// Error for a profile without samples.
pub(super) fn no_sample() -> Error {
    Error::new(ErrorCode::EmptyRecording, "no sample in the profile")
        .with_hint("was the program idle while recorded? record longer, or under load")
}

/// Memory of an address, which is in a list and in a table.
fn place_cost(spot: &Spot) -> usize {
    let text = match spot {
        Spot::Symbol { name, file } => name.len() + file.as_ref().map_or(0, Vec::len),
        Spot::FileOffset(_) | Spot::Address(_) => 0,
    };
    5 * size_of::<RecordedAddress>() + 2 * text + 64
}
