// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks by return addresses that a binary is the executed one, if the recording does not name its build.
//!
//! A function that was compiled with `-pg` calls a counting function as it begins, which records the return address. In
//! the executed binary, a call instruction ends at each of these addresses. If calls are not known, each address must
//! be in a different function, because every function makes this call once, and the binary must name the counting
//! function, which few programs do. In another binary most addresses do not fit.

use super::dsos::{At, BinaryView, Dsos};
use crate::read::{AddressId, DsoId, Recording, Spot, TransferKind};
use sediment_core::error::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};

/// One in this many addresses may be misplaced without raising doubt: code may lack symbols, or be written by hand.
const DOUBT: usize = 8;

/// Refuses binaries that the recorded addresses do not fit.
///
/// # Errors
/// If the addresses do not fit, with what does not fit.
pub(super) fn check(recording: &Recording, dsos: &Dsos) -> Result<()> {
    let mut found: BTreeMap<DsoId, Findings> = BTreeMap::new();
    let calls = recording.transfers().into_iter().filter(|(_, _, kind, _)| *kind == TransferKind::Call);
    let callees: BTreeSet<AddressId> = calls.map(|(_, callee, _, _)| callee).collect();
    for callee in callees {
        let place = &recording.addresses()[callee.0 as usize];
        let (Some(dso), Spot::Address(address)) = (place.dso, &place.spot) else { continue };
        let Some(view) = dsos.view(dso) else { continue };
        let findings = found.entry(dso).or_default();
        findings.addresses += 1;
        let fits = match view.follows_call(*address) {
            Some(follows) => follows,
            None if !names_counting(view) => false,
            None => match view.at_address(*address) {
                Ok(At::Function { function, .. }) => findings.functions.insert(function.address),
                // A stripped binary has almost no functions.
                _ => view.is_stripped(),
            },
        };
        if !fits {
            findings.misfits += 1;
            findings.example.get_or_insert(*address);
        }
    }
    for (dso, findings) in found {
        if findings.misfits * DOUBT > findings.addresses {
            let example = findings.example.unwrap_or_default();
            return Err(Error::new(ErrorCode::WrongBinary, format!(
                "not a recording of {}: {} of the {} recorded functions begin elsewhere in that file, for example at {example:#x}",
                dsos.label(dso).unwrap_or("this binary"),
                findings.misfits,
                findings.addresses,
            ))
            .with_hint(
                "give the recorded file itself (--binary), not another program or build",
            ));
        }
    }
    Ok(())
}

/// True if a binary names a counting function (`mcount`, `_mcount`, `__gnu_mcount_nc`, `__fentry__`), or has no names.
fn names_counting(view: &BinaryView<'_>) -> bool {
    let is_named = |name: &[u8]| memchr::memmem::find(view.bytes(), name).is_some();
    view.is_stripped() || is_named(b"mcount") || is_named(b"__fentry__")
}

#[derive(Default)]
struct Findings {
    addresses: usize,
    misfits: usize,
    example: Option<u64>,
    functions: BTreeSet<u64>,
}
