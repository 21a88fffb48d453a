// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the call graph of PostgreSQL that upstream sediment made. tests/golden/profile/original has the same test with
//! artificial data.

use libtest_mimic::Trial;
use sediment_core::profile::text::{parse, print};
use sediment_core::profile::{FunctionKey, SHARE_TOTAL, WeightUnit};
use support::{Need, case, shared_data};

const FILE: &str = "postgresql16.original.gv";

pub(crate) fn cases() -> Vec<Trial> {
    vec![case("profile::the_graph_of_the_original_reads_in", &[Need::SharedData(FILE)], original)]
}

fn original() {
    let (profile, skipped) = parse(&std::fs::read(shared_data(FILE)).unwrap()).unwrap();
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!((profile.function_count(), profile.edge_count()), (770, 1344));
    assert_eq!((profile.unit, profile.total), (WeightUnit::Share, SHARE_TOTAL));
    let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    assert_eq!(labels, ["libc.so.6", "libm.so.6", "postgres"]);
    for (label, functions) in [("libc.so.6", 17), ("libm.so.6", 2), ("postgres", 751)] {
        let of_dso = |function| profile.key(function).dso.as_deref() == Some(label);
        assert_eq!(profile.functions().into_iter().filter(|function| of_dso(*function)).count(), functions);
    }
    let find = |dso: &str, name: &str| {
        profile.find(&FunctionKey { dso: Some(dso.to_owned()), name: name.to_owned(), file: None })
    };
    // Ids are cut at the first `@`.
    let memcpy = find("libc.so.6", "memcpy").unwrap();
    assert!(find("libc.so.6", "memcpy@@GLIBC_2.14").is_none());
    assert!(profile.functions().into_iter().all(|function| !profile.key(function).name.contains('@')));
    let strlcpy = find("libc.so.6", "__GI___strlcpy").unwrap();
    assert_eq!(profile.edge(strlcpy, memcpy).unwrap().count, Some(500_000_000_000));
    // Both ends have names in 0.9871 of the total.
    let counted: u128 = profile.edges().iter().filter_map(|(_, _, facts)| facts.count).sum();
    assert_eq!(counted, 987_100_000_000_000);

    let text = print(&profile);
    let (again, nothing) = parse(text.as_bytes()).unwrap();
    assert!(nothing.is_empty(), "{nothing:?}");
    assert!(again == profile);
    assert_eq!(print(&again), text);
}
