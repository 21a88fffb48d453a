// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events that are lost, or get an address as their name, because a program or library is stripped. So the
//! user learns which symbols to look for.

use super::dsos::{self, Dsos};
use super::{AddressMeaning, AddressMeanings, ResolveSettings};
use crate::read::{AddressId, Recording, TransferKind};
use sediment_core::binary::Files;
use sediment_core::error::Result;
use sediment_core::skipped::{Nowhere, Skipped};
use std::collections::BTreeMap;

/// An available but stripped DSO, and the recorded addresses in its code that no symbol covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// Its path as recorded; private.
    pub path: String,
    /// Its build-id, if recorded.
    pub build_id: Option<String>,
    /// Calls with an end there.
    pub calls: u128,
    /// Own cost there, in the source's event.
    pub cost: u128,
    /// True if its functions are kept in the profile under their addresses in the file; false if they are lost.
    pub by_address: bool,
}

/// Returns the stripped DSOs of a recording that cannot be resolved, those with the greatest loss first. If the
/// recording can be resolved, [`super::Resolved`] has them.
///
/// # Errors
/// If an available binary is damaged or is not the recorded one.
pub fn stripped(
    recording: &Recording,
    files: &dyn Files,
    settings: ResolveSettings,
) -> Result<Vec<Stripped>> {
    let loaded = dsos::load(recording, files, settings, &mut Skipped::default())?;
    let dsos = Dsos::new(recording, &loaded);
    let ends = AddressMeanings::new(recording, &dsos, &mut Skipped::default());
    Ok(lost_in(recording, &dsos, &ends))
}

pub(super) fn lost_in(recording: &Recording, dsos: &Dsos, ends: &AddressMeanings) -> Vec<Stripped> {
    let mut by_dso: BTreeMap<_, (u128, u128)> = BTreeMap::new();
    let lost = |place: AddressId| {
        let by_address = match ends.of(place) {
            AddressMeaning::Lost(Nowhere::NoFunction | Nowhere::NoName) => false,
            AddressMeaning::Function { nameless: true, .. } => true,
            _ => return None,
        };
        Some((dsos.stripped(&recording.addresses()[place.0 as usize])?, by_address))
    };
    for (from, to, kind, count) in recording.transfers() {
        // A call inside one DSO is a single lost call.
        let mut there = [lost(from), lost(to)];
        if there[0] == there[1] {
            there[1] = None;
        }
        for dso in there.into_iter().flatten().filter(|_| kind != TransferKind::Affinity) {
            let calls = &mut by_dso.entry(dso).or_default().0;
            *calls = calls.saturating_add(count);
        }
    }
    for (place, cost) in recording.samples() {
        if let Some(dso) = lost(place) {
            let sum = &mut by_dso.entry(dso).or_default().1;
            *sum = sum.saturating_add(cost);
        }
    }
    let mut all: Vec<Stripped> = by_dso
        .into_iter()
        .map(|((id, by_address), (calls, cost))| {
            let dso = &recording.dsos()[id.0 as usize];
            Stripped { path: dso.path.clone(), build_id: dso.build_id.clone(), calls, cost, by_address }
        })
        .collect();
    all.sort_by(|a, b| {
        (b.calls, b.cost, &a.path, &a.build_id, a.by_address).cmp(&(
            a.calls,
            a.cost,
            &b.path,
            &b.build_id,
            b.by_address,
        ))
    });
    all
}
