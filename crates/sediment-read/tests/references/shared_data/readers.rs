// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of text profiles that others recorded. Their contents were counted by hand; tests/read.rs has the same tests
//! with generated profiles.

use libtest_mimic::Trial;
use sediment_core::skipped::Reason;
use sediment_read::read::{RecordedAddress, Spot, TransferKind};
use std::collections::{BTreeMap, BTreeSet};
use support::{Need, case, read, shared_data};

pub(crate) fn cases() -> Vec<Trial> {
    let report = "postgresql16.perf-report.txt";
    vec![case("read_the_perf_report_of_postgresql", &[Need::SharedData(report)], move || {
        postgresql(&std::fs::read(shared_data(report)).unwrap());
    })]
}

/// Positions of the columns in this file: share, source object, source symbol, target object, target symbol.
const COLUMNS: [(usize, usize); 5] = [(2, 8), (22, 20), (44, 48), (94, 21), (117, 54)];

fn postgresql(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    let rows: Vec<[&str; 5]> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| COLUMNS.map(|(start, width)| line[start..start + width].trim()))
        .collect();
    assert_eq!(rows.len(), 3_673);
    assert_eq!(rows.iter().filter(|row| row[0] == "0.00%").count(), 2_326);

    let recording = read(bytes).unwrap();
    assert_eq!(recording.source.to_string(), "perf branch records (branches:u)");
    assert_eq!(recording.total, 34_734_089);
    assert_eq!(recording.addresses().len(), 1_691, "named symbols, those beside unresolved ends among them");
    assert_eq!(recording.skipped.items(Reason::UnresolvedEnd), 311);
    assert_eq!(recording.skipped.items(Reason::UnresolvedAddress), 369);
    assert_eq!(recording.skipped.iter().count(), 2, "nothing else is lost");

    let name = |place: &RecordedAddress| {
        let Spot::Symbol { name, file: None } = &place.spot else { panic!("{place:?}") };
        let object = recording.dsos()[place.dso.unwrap().0 as usize].path.clone();
        (object, String::from_utf8(name.clone()).unwrap())
    };
    let names: BTreeSet<(String, String)> = recording.addresses().iter().map(name).collect();
    assert_eq!(names.len(), 1_691);
    let of_postgres = || names.iter().filter(|(object, _)| object == "postgres");
    assert_eq!(of_postgres().filter(|(_, name)| name.ends_with("@plt")).count(), 78);
    assert_eq!(of_postgres().count(), 1_260 + 78);
    let objects: BTreeSet<&str> = recording.dsos().iter().map(|dso| dso.path.as_str()).collect();
    assert!(!objects.contains("libevent-2.1.so.7.0."), "cut to its column");

    // Every row with two named ends is found, including rows of 0.00 %, with about its printed share.
    let transfers: BTreeMap<_, u128> = recording
        .transfers()
        .into_iter()
        .map(|(from, to, kind, count)| {
            assert_eq!(kind, TransferKind::Call);
            let name = |id: sediment_read::read::AddressId| name(&recording.addresses()[id.0 as usize]);
            ((name(from), name(to)), count)
        })
        .collect();
    let mut printed: BTreeMap<_, (u128, u128)> = BTreeMap::new();
    for [share, source, from, target, to] in rows {
        let (from, to) = (from.strip_prefix("[.] ").unwrap(), to.strip_prefix("[.] ").unwrap());
        if from.starts_with("0x") || to.starts_with("0x") {
            continue;
        }
        let pair = ((source.to_owned(), from.to_owned()), (target.to_owned(), to.to_owned()));
        let hundredths: u128 = share.trim_end_matches('%').replace('.', "").parse().unwrap();
        let entry = printed.entry(pair).or_default();
        *entry = (entry.0 + hundredths, entry.1 + 1);
    }
    assert_eq!(printed.keys().collect::<Vec<_>>(), transfers.keys().collect::<Vec<_>>());
    for (pair, (hundredths, rows)) in printed {
        let exact = recording.total * hundredths / 10_000;
        let near = rows * (recording.total / 20_000 + 1);
        assert!(transfers[&pair] >= rows && transfers[&pair].abs_diff(exact) <= near, "{pair:?}");
    }
    // The printed shares and the rows of 0.00 % add up to the total.
    let lost: u128 = recording.skipped.iter().map(|(_, entry)| entry.weight).sum();
    assert_eq!(transfers.values().sum::<u128>() + lost, recording.total);
}
