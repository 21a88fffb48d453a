// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence that a file is the recorded one, if there is no build-id.
//!
//! A file is the recorded one if it has not changed under its path since the recording began (time of the last change,
//! inode), or if the recorded addresses fit its code: a call ends at each return address, an instruction begins at each
//! sampled one. If addresses or mappings do not fit, it is another file. Nothing is proved for all other files; they
//! are used with a warning.

use super::dsos::{BinaryView, Dsos};
use crate::read::{AddressId, DsoId, Inode, Recording, Spot, TransferKind};
use sediment_core::binary::{FileFacts, Files};
use sediment_core::error::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Number of recorded addresses that must fit a file's code to prove that it is the recorded file.
const ENOUGH: usize = 12;
/// At most one in this many addresses may be misplaced, because of hand-written code or interrupts inside an
/// instruction.
const DOUBT: usize = 8;
/// Largest number of addresses of one file that are examined, evenly spread.
const MOST: usize = 4096;

/// A file that was used, although nothing shows that it is the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unproven {
    /// The recorded path.
    pub path: String,
    /// The evidence against it.
    pub doubt: Doubt,
    /// Calls with an end in it.
    pub calls: u128,
    /// Own cost in it.
    pub cost: u128,
}

/// Why a file may not be the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// It changed after the recording began.
    Changed,
    /// The recorded file had another inode.
    OtherInode,
    /// Time, inode and code give no evidence.
    NoEvidence,
}

impl Doubt {
    /// Name for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::OtherInode => "other-inode",
            Self::NoEvidence => "no-evidence",
        }
    }

    /// Text for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Changed => "the file changed after the recording began",
            Self::OtherInode => "another file had this path when it was recorded",
            Self::NoEvidence => "neither times nor code prove that it is the recorded file",
        }
    }
}

/// How well the recorded addresses fit the code of a file.
#[derive(Debug, Default)]
struct Fit {
    checked: usize,
    misfits: usize,
    example: Option<u64>,
}

impl Fit {
    fn count(&mut self, fits: Option<bool>, address: u64) {
        self.checked += usize::from(fits.is_some());
        if fits == Some(false) {
            self.misfits += 1;
            self.example.get_or_insert(address);
        }
    }

    /// A single address may be inside an instruction, for example after a prefix that code jumps over.
    fn is_other(&self) -> bool {
        self.misfits > 1 && self.misfits * DOUBT > self.checked
    }

    fn is_same(&self) -> bool {
        self.checked >= ENOUGH && self.misfits * 8 * DOUBT <= self.checked
    }
}

/// Files without a build-id to compare that are not proved to be the recorded ones.
#[derive(Debug, Default)]
pub(super) struct FileDoubts {
    /// Files that may be the recorded ones, the heaviest first.
    pub(super) unproven: Vec<Unproven>,
    /// Files that are not the recorded ones, and that the user did not name.
    pub(super) others: Vec<DsoId>,
}

/// Looks for evidence that each file without a build-id is the recorded one.
///
/// # Errors
/// If a file requested by the user is certainly another one.
pub(super) fn check(recording: &Recording, dsos: &Dsos, files: &dyn Files) -> Result<FileDoubts> {
    let (mut unproven, mut others) = (Vec::new(), Vec::new());
    let ids = dsos.without_build_id(recording);
    if ids.is_empty() {
        return Ok(FileDoubts::default());
    }
    let found = addresses(recording, &ids);
    for id in ids {
        let Some(view) = dsos.view(id) else { continue };
        let empty = Addresses::default();
        let fit = found.get(&id).unwrap_or(&empty).fit(recording, view);
        let recorded = dsos.recorded(id);
        let other = |why: String| {
            if files.names_some() && !files.is_chosen(&recorded.path, recorded.build_id.as_deref()) {
                return Ok(());
            }
            Err(Error::new(ErrorCode::WrongBinary, format!("not the recorded file: {why}"))
                .with_input(dsos.label(id).unwrap_or("the binary"))
                .with_hint(
                    "give the recorded file itself (--binary); to use this file at the risk of wrong names: --ignore-build-id",
                ))
        };
        if let Some((offset, length)) = foreign_part(recording, view, id) {
            other(format!(
                "the recording has {length} bytes of code at offset {offset:#x}, but the file has no code there"
            ))?;
            others.push(id);
            continue;
        }
        if fit.is_other() {
            other(format!(
                "{} of {} recorded addresses are not in its code, for example {:#x}",
                fit.misfits,
                fit.checked,
                fit.example.unwrap_or_default()
            ))?;
            others.push(id);
            continue;
        }
        let facts = files.facts(&recorded.path, recorded.build_id.as_deref());
        let doubt = facts.map_or(Some(Doubt::NoEvidence), |facts| doubt(recording, id, facts, files));
        // The time is better evidence than the code: much of it may be unchanged in another build.
        let Some(doubt) = doubt.filter(|doubt| *doubt == Doubt::Changed || !fit.is_same()) else { continue };
        let (calls, cost) = weights(recording, id);
        unproven.push(Unproven { path: recorded.path.clone(), doubt, calls, cost });
    }
    unproven.sort_by(|a, b| (b.calls, b.cost, &a.path).cmp(&(a.calls, a.cost, &b.path)));
    Ok(FileDoubts { unproven, others })
}

/// Collects the file system's evidence against a file; `None` if it proves that the file is the recorded one.
fn doubt(recording: &Recording, id: DsoId, facts: FileFacts, files: &dyn Files) -> Option<Doubt> {
    let inode = recording.file(id).map(|file| file.inode).unwrap_or_default();
    let here = files.host();
    let same_host = recording.origin.host.is_none() || recording.origin.host == here;
    if !facts.at_recorded_path || !same_host {
        return Some(Doubt::NoEvidence);
    }
    let same_inode = match inode {
        Inode::Unknown => None,
        // Layered file systems report another device than the kernel recorded.
        Inode::One(device, _) if device != facts.inode.0 => None,
        Inode::One(_, number) => Some(number == facts.inode.1),
        Inode::Several => Some(false),
    };
    match (recording.origin.began, same_inode) {
        (Some(began), _) if facts.changed > began => Some(Doubt::Changed),
        (_, Some(false)) => Some(Doubt::OtherInode),
        (Some(_), _) => None,
        // The inode number may be used again for another file.
        (None, _) => Some(Doubt::NoEvidence),
    }
}

/// Finds a recorded range of a file that is not in the file's code.
fn foreign_part(recording: &Recording, view: &BinaryView<'_>, id: DsoId) -> Option<(u64, u64)> {
    const PAGE: u64 = 0x1_0000;
    let file = recording.file(id)?;
    let code: Vec<(u64, u64)> = view
        .binary()
        .segments
        .iter()
        .filter(|segment| segment.executable)
        .map(|segment| {
            (segment.file_offset & !(PAGE - 1), segment.file_offset.saturating_add(segment.file_size))
        })
        .collect();
    let overlaps = |offset: u64| code.iter().any(|(start, end)| (*start..*end).contains(&offset));
    file.mapped.iter().copied().find(|(offset, _)| !code.is_empty() && !overlaps(*offset))
}

/// Addresses of one file, by what must be at them.
#[derive(Default)]
struct Addresses {
    /// The byte before a return address, or an instruction that branches.
    callers: BTreeSet<AddressId>,
    sampled: BTreeSet<AddressId>,
}

fn addresses(recording: &Recording, ids: &[DsoId]) -> BTreeMap<DsoId, Addresses> {
    let wanted: BTreeSet<DsoId> = ids.iter().copied().collect();
    let mut found: BTreeMap<DsoId, Addresses> = BTreeMap::new();
    let dso_of = |id: AddressId| {
        let place = &recording.addresses()[id.0 as usize];
        let is_number = !matches!(place.spot, Spot::Symbol { .. });
        place.dso.filter(|dso| is_number && wanted.contains(dso))
    };
    for (from, _, kind, _) in recording.transfers() {
        if let (Some(dso), TransferKind::Call | TransferKind::Branch) = (dso_of(from), kind) {
            found.entry(dso).or_default().callers.insert(from);
        }
    }
    for (place, _) in recording.samples() {
        if let Some(dso) = dso_of(place) {
            found.entry(dso).or_default().sampled.insert(place);
        }
    }
    found
}

impl Addresses {
    fn fit(&self, recording: &Recording, view: &BinaryView<'_>) -> Fit {
        let mut fit = Fit::default();
        let address_of = |id: &AddressId| view.address_of(&recording.addresses()[id.0 as usize].spot);
        let spread = |all: &BTreeSet<AddressId>| all.len().div_ceil(MOST).max(1);
        for id in self.sampled.iter().step_by(spread(&self.sampled)) {
            match address_of(id) {
                Some(address) => fit.count(view.is_instruction(address), address),
                None => fit.count(Some(false), 0),
            }
        }
        for id in self.callers.iter().step_by(spread(&self.callers)) {
            let Some(address) = address_of(id) else {
                fit.count(Some(false), 0);
                continue;
            };
            // A branch is recorded by its own address, a caller by the last byte of its call.
            let after_call = view.follows_call(address.saturating_add(1));
            let after_call = after_call.filter(|_| view.has_odd_instructions());
            match (after_call, view.is_instruction(address)) {
                (Some(false), instruction) => fit.count(instruction, address),
                (after_call, _) => fit.count(after_call, address),
            }
        }
        fit
    }
}

/// Calls with an end in a file, and own cost in it.
fn weights(recording: &Recording, id: DsoId) -> (u128, u128) {
    let is_in = |place: AddressId| recording.addresses()[place.0 as usize].dso == Some(id);
    let calls = recording
        .transfers()
        .into_iter()
        .filter(|(from, to, kind, _)| *kind != TransferKind::Affinity && (is_in(*from) || is_in(*to)));
    let calls = calls.fold(0u128, |sum, (.., count)| sum.saturating_add(count));
    let cost = recording.samples().into_iter().filter(|(place, _)| is_in(*place));
    (calls, cost.fold(0u128, |sum, (_, cost)| sum.saturating_add(cost)))
}
