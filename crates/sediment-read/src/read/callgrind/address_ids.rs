// SPDX-License-Identifier: MIT OR Apache-2.0
//! From functions as a file names them to addresses of a recording, with their costs and calls.

use super::instructions::Instructions;
use super::names::{self, Function, Functions, Names};
use super::tally::Calls;
use crate::read::{AddressId, DsoId, Executed, RecordedAddress, RecordedDso, Recording, Spot, TransferKind};
use sediment_core::skipped::{Amount, Nowhere, Reason};

/// No file system here has longer ones, and many functions may be said to be of one file.
const LONGEST_FILE_NAME: usize = 255;

/// The address of each executed function, or the reason why it has none.
pub(super) struct AddressIds(Vec<std::result::Result<AddressId, Reason>>);

impl AddressIds {
    pub(super) fn of<'a>(
        functions: &Functions<'_>,
        objects: &Names<'_>,
        files: &Names<'a>,
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
        let mut address_of = |function: &Function<'_>| {
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
        // A name that was only mentioned as the aim of a jump is no place.
        Self(
            functions
                .all()
                .iter()
                .map(|f| if f.executed { address_of(f) } else { Err(Reason::NamelessEnd) })
                .collect(),
        )
    }

    pub(super) fn add_costs(&self, functions: &Functions<'_>, recording: &mut Recording) {
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
            Some(Executed { function, address, count })
        });
        recording.add_executed(addresses);
    }

    pub(super) fn add_calls(&self, functions: &Functions<'_>, calls: &[Calls], recording: &mut Recording) {
        recording.transfers.reserve(calls.len());
        for calls in calls {
            let (caller, callee, count) = (calls.caller(), calls.callee(), u128::from(calls.count));
            match (self.0[caller as usize], self.0[callee as usize]) {
                (Ok(from), Ok(to)) => recording.add_transfer(from, to, TransferKind::Call, count),
                (Err(why), _) | (_, Err(why)) => {
                    let [from, to] = [caller, callee].map(|function| &functions.all()[function as usize]);
                    // The caller is named before its calls: the later line is the nearer one.
                    let line = from.line.max(to.line);
                    let example = format!("{} -> {} in line {line}", example(from.name), example(to.name));
                    recording.skipped.add(why, count, &example);
                }
            }
        }
    }
}

/// The beginning of a name; a name may be long, and stand for many skipped items.
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
