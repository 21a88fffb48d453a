// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of profiles as rows of a table: sums of rows give the merged profile.

use super::generated::{ProfileParts, parts};
use proptest::collection::vec;
use proptest::prelude::*;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::rows::{Assembly, ProfileRow, RowKind, rows};
use sediment_core::profile::text::print;
use sediment_core::profile::{FunctionKey, Profile};
use std::collections::BTreeMap;

/// The subject of a row, with names for its functions.
type RowSubject = (RowKind, Option<FunctionKey>, Option<FunctionKey>, String);

/// A subject with the sum of its weights and its lowest rank.
type SubjectSums = (RowSubject, Option<u128>, Option<u64>);

/// Returns the sums of the weights and the lowest ranks by subject, as a query engine computes them.
fn grouped<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> sediment_core::Result<Vec<SubjectSums>> {
    let mut groups: BTreeMap<RowSubject, (Option<u128>, Option<u64>)> = BTreeMap::new();
    for profile in profiles {
        for row in rows(profile) {
            let key = |function: Option<_>| function.map(|function| profile.key(function).clone());
            let group = groups.entry((row.kind, key(row.function), key(row.callee), row.detail)).or_default();
            if let Some(weight) = row.weight {
                let sum = group.0.unwrap_or(0).checked_add(weight);
                group.0 =
                    Some(sum.ok_or_else(|| {
                        sediment_core::Error::new(sediment_core::ErrorCode::Overflow, "a sum")
                    })?);
            }
            group.1 = group.1.into_iter().chain(row.first).min();
        }
    }
    Ok(groups.into_iter().map(|(subject, (weight, first))| (subject, weight, first)).collect())
}

fn assembled(rows: Vec<SubjectSums>) -> sediment_core::Result<Profile> {
    let mut assembly = Assembly::default();
    for ((kind, function, callee, detail), weight, first) in rows {
        let [function, callee] =
            [function, callee].map(|key| key.map(|key| assembly.profile().function(key)));
        assembly.add(&ProfileRow { kind, function, callee, detail, weight, first })?;
    }
    assembly.finish()
}

/// Removes counters of instrumentation, because they have no rows.
fn without_counters(mut parts: ProfileParts) -> ProfileParts {
    for (_, facts) in &mut parts.functions {
        facts.counters = None;
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn sums_of_rows_make_the_merged_profile(inputs in vec(parts().prop_map(without_counters), 1..5), turn in 0..7usize) {
        let profiles: Vec<Profile> = inputs.iter().map(|parts| parts.profile(turn)).collect();
        let of_shares: Result<Vec<Profile>, _> =
            profiles.iter().map(|profile| merge(&[(profile, Weight::ONE)], false)).collect();
        prop_assume!(of_shares.is_ok());
        let of_shares = of_shares.unwrap();
        let all: Vec<(&Profile, Weight)> = profiles.iter().map(|profile| (profile, Weight::ONE)).collect();
        let rows = grouped(&of_shares).map(|mut rows| {
            let middle = turn % rows.len();
            rows.rotate_left(middle);
            rows
        });
        match (merge(&all, false), rows.and_then(assembled)) {
            (Ok(merged), Ok(assembled)) => prop_assert_eq!(print(&assembled), print(&merged)),
            (Err(one), Err(other)) => prop_assert_eq!(one.code(), other.code()),
            (one, other) => prop_assert!(false, "{:?} and {:?}", one.err(), other.err()),
        }
    }
}

#[test]
fn kinds_are_spelled_once() {
    for (kind, text) in RowKind::ALL {
        assert_eq!((kind.text(), RowKind::parse(text)), (text, Some(kind)));
    }
    assert!(RowKind::Block.is_of_blocks() && !RowKind::Near.is_of_blocks());
}

#[test]
fn rows_of_no_profile_are_errors() {
    for (kind, detail) in [
        (RowKind::Quality, "covered=1000001"),
        (RowKind::Quality, "speed=1"),
        (RowKind::Library, "build_id=1"),
        (RowKind::Library, "build_id=1g package=p\tlib"),
        (RowKind::Library, "package=p\t../lib"),
        (RowKind::Library, "package=\"\tlib"),
        (RowKind::Source, "two\nlines"),
        (RowKind::Arch, ""),
        (RowKind::Function, "alias=a\\"),
        (RowKind::Function, "size=x"),
        (RowKind::Function, "power=1"),
        (RowKind::Call, "kind=often"),
        (RowKind::Block, "8f3a90c1"),
        (RowKind::Signature, "8f3a90c1:1@"),
        (RowKind::BlocksTotal, "meters"),
    ] {
        let mut assembly = Assembly::default();
        let function = Some(assembly.profile().function(FunctionKey::new(None, b"f", None).unwrap()));
        let row = ProfileRow {
            kind,
            function,
            callee: function,
            detail: detail.to_owned(),
            weight: Some(1),
            first: None,
        };
        assert!(assembly.add(&row).is_err(), "{kind:?} {detail}");
    }
    let call = ProfileRow {
        kind: RowKind::Call,
        function: None,
        callee: None,
        detail: String::new(),
        weight: Some(1),
        first: None,
    };
    assert!(Assembly::default().add(&call).is_err());
}
