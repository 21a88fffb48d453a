// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading, printing and merging single values.

use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::similar_labels::similar_labels;
use sediment_core::profile::split::{only, split};
use sediment_core::profile::text::{parse, print};
use sediment_core::profile::{FunctionKey, Profile, SHARE_TOTAL, WeightUnit};
use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, ErrorKind};
use std::collections::BTreeSet;

fn read(text: &str) -> Profile {
    parse(text.as_bytes()).unwrap().0
}

fn key(dso: Option<&str>, name: &str) -> FunctionKey {
    FunctionKey { dso: dso.map(str::to_owned), name: name.to_owned(), file: None }
}

fn count(profile: &Profile, caller: &str, callee: &str) -> Option<u128> {
    let find = |name| profile.find(&key(None, name)).unwrap();
    profile.edge(find(caller), find(callee)).unwrap().count
}

/// Returns a version 2 profile with these counts of edges from `a`.
fn counted(unit: &str, total: u128, counts: &[(&str, u128)]) -> Profile {
    let edges: String = counts.iter().map(|(head, count)| format!("a -> {head} [count={count}]; ")).collect();
    read(&format!("digraph {{ graph [sediment=2, unit={unit}, total={total}]; a; {edges} }}"))
}

#[test]
fn functions_without_names_merge_with_those_of_one_build_alone() {
    let of_build = |attributes: &str| {
        read(&format!(
            "digraph {{ graph [sediment=3, total=0]; subgraph cluster0 {{ graph [label=lib{attributes}]; \"0x40\"; }} }}"
        ))
    };
    let stripped = of_build(", build_id=\"a1\", unresolved=1");
    for other in ["", ", build_id=\"b2\"", ", build_id=\"b2\", unresolved=1"].map(of_build) {
        for inputs in [[&stripped, &other], [&other, &stripped]] {
            let error = merge(&inputs.map(|input| (input, Weight::ONE)), false).unwrap_err();
            assert_eq!(error.code(), ErrorCode::IncompatibleInputs, "{error}");
            assert!(error.to_string().contains("a1"), "{error}");
        }
    }
    let named = of_build(", build_id=\"a1\"");
    let merged = merge(&[(&stripped, Weight::ONE), (&named, Weight::ONE)], false).unwrap();
    assert!(merged.dsos()["lib"].unresolved && merged.is_nameless(merged.functions()[0]));
    // Without the mark `unresolved`, the address is an ordinary name.
    assert!(!named.is_nameless(named.functions()[0]));
}

#[test]
fn the_heaviest_variants_are_kept() {
    let mut profile = read(
        "digraph { graph [sediment=3, blocks_total=66, counters_total=66]; \
         f [blocks=\"1:1=1; 2:1=2; 3:1=30; 4:1=4\", counters=\"a@1 1.1: 1; b@1 1.1: 2; c@1 1.1: 30 0; d@1 1.1: 4\"]; }",
    );
    assert!(!profile.keep_heaviest_variants(4));
    assert!(profile.keep_heaviest_variants(2));
    let text = print(&profile);
    for kept in [
        "blocks=\"00000003:1=30; 00000004:1=4\"",
        "counters=\"c@00000001 00000001.00000001: 30 0; d@00000001 00000001.00000001: 4\"",
        // They are still part of the total.
        "blocks_total=66, counters_total=66",
    ] {
        assert!(text.contains(kept), "{text}");
    }
}

#[test]
fn labels_of_version_1_are_exact_shares() {
    for (label, expected) in [
        ("0.115600", 115_600_000_000_000),
        (".5", SHARE_TOTAL / 2),
        ("1", SHARE_TOTAL),
        ("0", 0),
        ("\"1e-05\"", 10_000_000_000),
        ("<0.25>", SHARE_TOTAL / 4),
        ("0.0000000000000005", 0),
        ("0.0000000000000015", 2),
    ] {
        let profile = read(&format!("digraph {{ a -> b [ label = {label} ]; }}"));
        assert_eq!((profile.unit, profile.total), (WeightUnit::Share, SHARE_TOTAL));
        assert_eq!(count(&profile, "a", "b"), Some(expected), "{label}");
    }
}

#[test]
fn percentages_without_counts_are_no_weights() {
    let (profile, skipped) = parse(br#"digraph { a -> b [label="12.5%"]; b -> c [label="7%"]; }"#).unwrap();
    assert_eq!((profile.total, count(&profile, "a", "b")), (0, None));
    assert_eq!((skipped.items(Reason::Percentage), skipped.items(Reason::NoWeights)), (2, 2));
}

#[test]
fn a_share_that_a_hand_wrote_in_version_2_is_a_count() {
    let profile = read("digraph { sediment=2 total=2000 a -> b [label=0.25] a -> c [label=0.25, count=7] }");
    assert_eq!((count(&profile, "a", "b"), count(&profile, "a", "c")), (Some(500), Some(7)));
}

#[test]
fn labels_are_rounded_half_to_even() {
    for (part, total, label) in [
        (1, 2_000_000, "0.000000"),
        (3, 2_000_000, "0.000002"),
        (1, 3, "0.333333"),
        (2, 3, "0.666667"),
        (1_999_999, 2_000_000, "1.000000"),
        (7, 2, "3.500000"),
        ((1 << 78) - 1, (1 << 78) - 1, "1.000000"),
    ] {
        let text = print(&counted("calls", total, &[("b", part)]));
        assert!(text.contains(&format!("\"a\" -> \"b\" [label={label}, count={part}];")), "{text}");
    }
    let text = print(&counted("share", u128::MAX, &[("b", u128::MAX / 2)]));
    assert!(text.contains("[label=0.500000, "), "{text}");
}

#[test]
fn recordings_become_shares_and_shares_stay() {
    let recording = counted("calls", 3, &[("b", 1), ("c", 2)]);
    let merged = merge(&[(&recording, Weight::ONE)], false).unwrap();
    assert_eq!((merged.unit, merged.total, merged.inputs), (WeightUnit::Share, SHARE_TOTAL, Some(1)));
    assert_eq!(count(&merged, "a", "b"), Some(333_333_333_333_333));
    assert_eq!(count(&merged, "a", "c"), Some(666_666_666_666_667));
    let again = merge(&[(&merged, Weight::ONE), (&recording, Weight::ONE)], false).unwrap();
    assert_eq!((again.total, again.inputs), (2 * SHARE_TOTAL, Some(2)));
    assert_eq!(count(&again, "a", "b"), Some(666_666_666_666_666));
}

#[test]
fn counts_above_zero_stay_at_least_1() {
    let recording = counted("calls", (1 << 78) - 1, &[("b", 1), ("c", 0)]);
    let with = |weight| {
        let merged = merge(&[(&recording, Weight::parse(weight).unwrap())], false).unwrap();
        (merged.total, count(&merged, "a", "b"), count(&merged, "a", "c"))
    };
    assert_eq!(with("1"), (SHARE_TOTAL, Some(1), Some(0)));
    assert_eq!(with("0.000000001"), (1_000_000, Some(1), Some(0)));
    assert_eq!(with("0"), (0, Some(0), Some(0)));
    assert_eq!(with("2.5"), (2_500_000_000_000_000, Some(2), Some(0)));
}

#[test]
fn near_and_samples_are_shares_of_their_own_sums() {
    let recording = read(
        "digraph { graph [sediment=2, total=8]; a [samples=1]; b [samples=3]; a -> b [near=1]; b -> a [near=4, count=8]; }",
    );
    let merged = merge(&[(&recording, Weight::ONE)], false).unwrap();
    let find = |name| merged.find(&key(None, name)).unwrap();
    assert_eq!(merged.facts(find("b")).samples, Some(SHARE_TOTAL / 4 * 3));
    assert_eq!(merged.edge(find("a"), find("b")).unwrap().affinity, Some(SHARE_TOTAL / 5));
    assert_eq!(merged.edge(find("a"), find("b")).unwrap().count, None);
}

#[test]
fn normalizing_brings_a_sum_back_to_one_recording() {
    let sum = counted("share", 4 * SHARE_TOTAL, &[("b", SHARE_TOTAL), ("c", 2)]);
    let merged = merge(&[(&sum, Weight::ONE)], true).unwrap();
    assert_eq!(merged.total, SHARE_TOTAL);
    assert_eq!((count(&merged, "a", "b"), count(&merged, "a", "c")), (Some(SHARE_TOTAL / 4), Some(1)));
}

#[test]
fn an_input_without_counts_adds_none() {
    let graph = read("digraph { a -> b; b -> c; }");
    let recording = counted("calls", 4, &[("b", 4)]);
    let merged = merge(&[(&graph, Weight::ONE), (&recording, Weight::ONE)], false).unwrap();
    assert_eq!((merged.total, merged.inputs), (SHARE_TOTAL, Some(2)));
    assert_eq!(count(&merged, "b", "c"), None);
}

#[test]
fn sums_above_128_bits_are_an_error() {
    let huge = counted("share", SHARE_TOTAL, &[("b", u128::MAX)]);
    assert!(merge(&[(&huge, Weight::ONE)], false).is_ok());
    for inputs in [vec![(&huge, Weight::ONE); 2], vec![(&huge, Weight::parse("1.000000001").unwrap())]] {
        assert_eq!(merge(&inputs, false).unwrap_err().code(), ErrorCode::Overflow);
    }
    let half = merge(&[(&huge, Weight::parse("0.5").unwrap())], false).unwrap();
    assert_eq!(count(&half, "a", "b"), Some(1 << 127));
}

#[test]
fn weights_are_decimals_in_range() {
    for text in ["0", "1", "0.75", ".5", "1000000000", "1000000000.000000000", "0.000000001", "007"] {
        assert!(Weight::parse(text).is_ok(), "{text}");
    }
    assert_eq!(Weight::parse("1.0").unwrap(), Weight::ONE);
    for (text, shown) in
        [("1.0", "1"), (".75", "0.75"), ("0.000000001", "0.000000001"), ("0", "0"), ("100", "100")]
    {
        assert_eq!(Weight::parse(text).unwrap().to_string(), shown);
    }
    for text in ["", "-1", "nan", "1e3", "1000000000.000000001", "0.0000000001"] {
        assert_eq!(Weight::parse(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
    }
}

#[test]
fn a_part_has_one_dso_and_the_other_ends() {
    let whole = read(
        r#"digraph { graph [sediment=2, total=10, source=x, inputs=3];
        subgraph cluster0 { graph [label=app, package=p]; f [size=4]; g; }
        subgraph cluster1 { graph [label=lib, build_id=ab]; h [size=8]; i; }
        j; f -> h [count=1]; h -> i [count=2]; j -> g [count=3]; j -> i [count=4]; }"#,
    );
    let part = split(&whole, "app");
    assert_eq!((part.total, part.inputs, part.unit), (10, Some(3), WeightUnit::Calls));
    assert_eq!((part.function_count(), part.edge_count()), (4, 2));
    let other = part.find(&key(Some("lib"), "h")).unwrap();
    assert_eq!(part.facts(other).size, None);
    assert_eq!(part.dsos()["lib"].build_id, None);
    assert_eq!(part.dsos()["app"].package.as_deref(), Some("p"));
    assert_eq!(split(&whole, "absent").function_count(), 0);
}

#[test]
fn counters_without_a_dso_stay_with_those_who_are_kept() {
    let whole = read(
        r#"digraph { graph [sediment=3, total=10, counters_total=9];
        subgraph cluster0 { graph [label=app]; f; } subgraph cluster1 { graph [label=bash]; secret; }
        h [counters="a@1 1.1: 9"]; g [size=8]; h -> g [count=1]; }"#,
    );
    let part = only(&whole, &BTreeSet::from(["app"]));
    let text = print(&part);
    assert!(text.contains("counters=\"a@00000001 00000001.00000001: 9\""), "{text}");
    assert!(!text.contains("secret") && !text.contains("size=8"), "{text}");
    assert_eq!((part.function_count(), part.edge_count(), part.counters_total), (2, 0, 9));
}

#[test]
fn labels_that_look_like_one_library_are_found() {
    let mut profile = Profile::default();
    for label in
        ["libc.so.6", "libc-2.31.so", "libz.so.1", "libz.so.1.2.13", "libz.so.2", "libssl.so.3", "app"]
    {
        profile.dso_mut(label);
    }
    for (label, build_id) in [("app (deleted)", "ab"), ("app-renamed", "ef"), ("apple", "cd"), ("app", "cd")]
    {
        profile.dso_mut(label).build_id = Some(build_id.to_owned());
    }
    let found = similar_labels(&profile);
    let pairs: Vec<(&str, &str)> = found.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect();
    assert_eq!(
        pairs,
        [
            ("app", "app (deleted)"),
            ("app", "apple"),
            ("libc-2.31.so", "libc.so.6"),
            ("libz.so.1", "libz.so.1.2.13"),
        ]
    );
}
