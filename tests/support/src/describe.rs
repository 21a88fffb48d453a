// SPDX-License-Identifier: MIT OR Apache-2.0
//! A [`Recording`] as text for goldens: by names, in one order.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use sediment_read::read::{AddressId, RecordedAddress, Recording, Spot};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `DSO:name (file)`, with `-` for no DSO.
pub fn place(recording: &Recording, id: AddressId) -> String {
    let RecordedAddress { dso, spot } = &recording.addresses()[id.0 as usize];
    let dso = dso.map_or("-", |dso| recording.dsos()[dso.0 as usize].path.as_str());
    match spot {
        Spot::Symbol { name, file } => {
            let file =
                file.as_ref().map_or(String::new(), |file| format!(" ({})", String::from_utf8_lossy(file)));
            format!("{dso}:{}{file}", String::from_utf8_lossy(name))
        }
        Spot::FileOffset(offset) => format!("{dso}+{offset:#x}"),
        Spot::Address(address) => format!("{dso}@{address:#x}"),
    }
}

/// All of a recording.
pub fn describe(recording: &Recording) -> String {
    let mut text = format!("source: {}\n", recording.source);
    if let Some(arch) = &recording.arch {
        writeln!(text, "arch: {arch}").unwrap();
    }
    writeln!(text, "total: {}", recording.total).unwrap();
    let samples: BTreeMap<AddressId, u128> = recording.samples().into_iter().collect();
    let mut addresses: Vec<String> = (0..recording.addresses().len() as u32)
        .map(AddressId)
        .map(|id| {
            let cost = samples.get(&id).map_or(String::new(), |cost| format!(" samples={cost}"));
            format!("  {}{cost}\n", place(recording, id))
        })
        .collect();
    addresses.sort();
    writeln!(text, "places: {}\n{}", addresses.len(), addresses.concat().trim_end_matches('\n')).unwrap();
    let mut transfers: Vec<String> = recording
        .transfers()
        .into_iter()
        .map(|(from, to, kind, count)| {
            format!("  {} -> {} {kind:?} {count}\n", place(recording, from), place(recording, to))
        })
        .collect();
    transfers.sort();
    writeln!(text, "transfers: {}\n{}", transfers.len(), transfers.concat().trim_end_matches('\n')).unwrap();
    writeln!(text, "losses:").unwrap();
    for (reason, entry) in recording.skipped.iter() {
        let example = entry.example.as_ref().map_or(String::new(), |example| format!(" (such as {example})"));
        writeln!(text, "  {reason}: {} items of weight {}{example}", entry.items, entry.weight).unwrap();
    }
    text
}
