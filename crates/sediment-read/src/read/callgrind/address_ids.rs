// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the functions of a file to addresses of a recording, with their costs and calls.

use super::instructions::Instructions;
use super::names::{self, CallgrindFunction, CallgrindFunctions, CompressedNames};
use super::tally::PairCount;
use crate::read::{
    AddressId, DsoId, ExecutedInstruction, RecordedAddress, RecordedDso, Recording, Spot, TransferKind,
};
use sediment_core::skipped::{Amount, Nowhere, Reason};
use std::collections::HashMap;

/// No file system here has longer names, and many functions may name the same file.
const LONGEST_FILE_NAME: usize = 255;

/// Address of each executed function, or the reason why it has none.
pub(super) struct AddressIds(Vec<std::result::Result<AddressId, Reason>>);

impl AddressIds {
    pub(super) fn of<'a>(
        functions: &CallgrindFunctions<'_>,
        objects: &CompressedNames<'_>,
        files: &CompressedNames<'a>,
        recording: &mut Recording,
    ) -> Self {
        let dsos: Vec<std::result::Result<Option<DsoId>, Reason>> = objects
            .texts()
            .iter()
            .map(|path| match (known(path), std::str::from_utf8(path)) {
                (false, _) => Ok(None),
                (true, Ok(path)) => {
                    Ok(Some(recording.dso(RecordedDso { path: path.to_owned(), build_id: None })))
                }
                (true, Err(_)) => Err(Reason::NotUtf8End),
            })
            .collect();
        let count = functions.all().len();
        recording.reserve_addresses(count);
        recording.samples.reserve(count);
        let base_name = |path: &&'a [u8]| path.rsplit(|b| *b == b'/').next().filter(|name| can_be_file(name));
        let base_names: Vec<Option<&[u8]>> = files.texts().iter().map(base_name).collect();
        let mut address_of = |function: &CallgrindFunction<'_>| {
            let name = names::function_name(function.name);
            if names::is_below_main(name) {
                return Err(Reason::BelowMain);
            }
            if !known(name) || names::is_address(name) {
                return Err(Reason::NamelessEnd);
            }
            let dso = dsos[function.object as usize]?;
            let file = base_names[function.file as usize].map(<[u8]>::to_vec);
            Ok(recording.place(RecordedAddress { dso, spot: Spot::Symbol { name: name.to_vec(), file } }))
        };
        // A function that was only mentioned as the target of a jump gets no address.
        Self(
            functions
                .all()
                .iter()
                .map(|f| if f.executed { address_of(f) } else { Err(Reason::NamelessEnd) })
                .collect(),
        )
    }

    pub(super) fn add_costs(&self, functions: &CallgrindFunctions<'_>, recording: &mut Recording) {
        for (function, place) in functions.all().iter().zip(&self.0).filter(|(f, _)| f.cost > 0) {
            match place {
                Ok(place) => recording.add_samples(*place, function.cost),
                Err(_) => {
                    let example = format!("{} in line {}", example(function.name), function.line);
                    recording.skipped.add(Nowhere::Nameless.of(Amount::OwnCost), function.cost, &example);
                }
            }
        }
    }

    pub(super) fn add_executed(&self, instructions: Instructions, recording: &mut Recording) {
        let addresses = instructions.0.into_iter().filter_map(|(function, address, count)| {
            let function = self.0[function as usize].ok()?;
            Some(ExecutedInstruction { function, address, count })
        });
        recording.add_executed(addresses);
    }

    /// Adds the calls, and their number to the total. valgrind names only the linkage stubs in `.plt`. Code without a
    /// name that calls only one function is therefore a stub: its callers call that function.
    pub(super) fn add_calls(
        &self,
        functions: &CallgrindFunctions<'_>,
        calls: &[PairCount],
        recording: &mut Recording,
    ) {
        recording.transfers.reserve(calls.len());
        let targets = self.stub_targets(functions, calls);
        for calls in calls {
            let (caller, mut callee, count) = (calls.caller(), calls.callee(), u128::from(calls.count));
            if targets.contains_key(&caller) {
                recording.skipped.add(Reason::StubPassage, count, "");
                continue;
            }
            recording.total = recording.total.saturating_add(count);
            callee = targets.get(&callee).copied().unwrap_or(callee);
            match (self.0[caller as usize], self.0[callee as usize]) {
                (Ok(from), Ok(to)) => recording.add_transfer(from, to, TransferKind::Call, count),
                (Err(why), _) | (_, Err(why)) => {
                    let [from, to] = [caller, callee].map(|function| &functions.all()[function as usize]);
                    // The caller is named before its calls, so the later line is the closer one.
                    let line = from.line.max(to.line);
                    let example = format!("{} -> {} in line {line}", example(from.name), example(to.name));
                    recording.skipped.add(why, count, &example);
                }
            }
        }
    }
}

impl AddressIds {
    /// Returns the only function that each stub calls.
    fn stub_targets(&self, functions: &CallgrindFunctions<'_>, calls: &[PairCount]) -> HashMap<u32, u32> {
        let name = |function: u32| names::function_name(functions.all()[function as usize].name);
        // The first call of each stub goes to the dynamic linker.
        let binds = |function: u32| name(function).starts_with(b"_dl_runtime_resolve");
        let mut targets: HashMap<u32, Option<u32>> = HashMap::new();
        for calls in calls.iter().filter(|calls| names::is_address(name(calls.caller()))) {
            let (caller, callee) = (calls.caller(), calls.callee());
            if binds(callee) {
                continue;
            }
            let target = targets.entry(caller).or_insert(Some(callee));
            if *target != Some(callee) {
                *target = None;
            }
        }
        let named = targets.into_iter().filter_map(|(stub, target)| Some((stub, target?)));
        named.filter(|(_, target)| self.0[*target as usize].is_ok()).collect()
    }
}

/// Returns the beginning of a name: a name may be long, and many skipped items may have it.
fn example(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&name[..name.len().min(100)])
}

fn can_be_file(name: &[u8]) -> bool {
    known(name) && name.len() <= LONGEST_FILE_NAME
}

/// True if valgrind knew this name or path.
fn known(name: &[u8]) -> bool {
    !name.is_empty() && name != b"???"
}
