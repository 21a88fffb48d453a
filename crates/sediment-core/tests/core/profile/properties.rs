// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for every profile and every input.

use super::generated::{ProfileParts, parts, parts_in};
use proptest::collection::vec;
use proptest::prelude::*;
use sediment_core::profile::merge::{Weight, into_shares, merge};
use sediment_core::profile::split::split;
use sediment_core::profile::text::{parse, print};
use sediment_core::profile::{Profile, WeightUnit};

fn config() -> ProptestConfig {
    // Failures get fixed, so they are not kept in files.
    ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() }
}

fn added(inputs: &[(&Profile, Weight)]) -> Profile {
    merge(inputs, false).unwrap()
}

fn weight() -> impl Strategy<Value = Weight> {
    prop_oneof![
        Just("1".to_owned()),
        Just("0".to_owned()),
        Just("0.000000001".to_owned()),
        (0..40u32, 0..1_000_000_000u32).prop_map(|(whole, places)| format!("{whole}.{places:09}")),
    ]
    .prop_map(|text| Weight::parse(&text).unwrap())
}

/// Removes what part of a split recording cannot contain: `affinity` and `samples` are shares of sums that only the
/// whole recording has.
fn only_counts(mut parts: ProfileParts) -> ProfileParts {
    for (_, facts) in &mut parts.functions {
        facts.samples = None;
    }
    for (_, _, facts) in &mut parts.edges {
        facts.affinity = None;
    }
    parts
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printed_profiles_parse_to_the_same(parts in parts()) {
        let profile = parts.profile(0);
        let text = print(&profile);
        let (read, _) = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&read, &profile, "{}", text);
        prop_assert_eq!(print(&read), text);
    }

    #[test]
    fn the_order_of_adding_does_not_show(parts in parts(), turn in any::<usize>()) {
        prop_assert_eq!(print(&parts.profile(turn)), print(&parts.profile(0)));
    }

    #[test]
    fn the_order_of_merging_does_not_show(
        inputs in vec((parts(), weight()), 2..5),
        turn in 0..5usize,
    ) {
        let profiles: Vec<_> = inputs.iter().map(|(parts, weight)| (parts.profile(turn), *weight)).collect();
        let mut pairs: Vec<_> = profiles.iter().map(|(profile, weight)| (profile, *weight)).collect();
        let text = print(&added(&pairs));
        let places = turn % pairs.len();
        pairs.rotate_left(places);
        prop_assert_eq!(print(&added(&pairs)), text.as_str());
        pairs.reverse();
        prop_assert_eq!(print(&added(&pairs)), text);
    }

    #[test]
    fn shares_made_in_place_are_those_of_merging_alone(parts in parts()) {
        let profile = parts.profile(0);
        let alone = merge(&[(&profile, Weight::ONE)], false).map(|merged| (print(&merged), merged));
        prop_assert_eq!(into_shares(profile).map(|shares| (print(&shares), shares)), alone);
    }

    #[test]
    fn the_grouping_of_merging_does_not_show(
        inputs in vec((parts(), weight()), 2..6),
        cut in 1..5usize,
    ) {
        let profiles: Vec<_> = inputs.iter().map(|(parts, weight)| (parts.profile(0), *weight)).collect();
        let pairs: Vec<_> = profiles.iter().map(|(profile, weight)| (profile, *weight)).collect();
        let (left, right) = pairs.split_at(cut.min(pairs.len() - 1));
        let at_once = added(&pairs);
        let (left_sum, right_sum) = (added(left), added(right));
        let grouped = added(&[(&left_sum, Weight::ONE), (&right_sum, Weight::ONE)]);
        prop_assert_eq!(&grouped, &at_once);
        prop_assert_eq!(print(&grouped), print(&at_once));
        // A new recording is added to an existing merge.
        let mut grown = vec![(&left_sum, Weight::ONE)];
        grown.extend(right);
        prop_assert_eq!(print(&added(&grown)), print(&at_once));
        // A merge that is written, read and merged once more stays the same.
        let (read, _) = parse(print(&at_once).as_bytes()).unwrap();
        prop_assert_eq!(print(&added(&[(&read, Weight::ONE)])), print(&at_once));
    }

    #[test]
    fn split_and_merge_commute(
        inputs in vec((prop_oneof![
            parts_in(WeightUnit::Share),
            parts_in(WeightUnit::Calls).prop_map(only_counts),
        ], weight()), 1..4),
        dso in prop::sample::select(vec!["a", "b", "libc.so.6", "absent"]),
    ) {
        let whole: Vec<_> = inputs.iter().map(|(parts, weight)| (parts.profile(0), *weight)).collect();
        let split_up: Vec<_> = whole.iter().map(|(profile, weight)| (split(profile, dso), *weight)).collect();
        let borrowed = |list: &[(Profile, Weight)]| {
            added(&list.iter().map(|(profile, weight)| (profile, *weight)).collect::<Vec<_>>())
        };
        let merged_parts = borrowed(&split_up);
        let part_of_merged = split(&borrowed(&whole), dso);
        prop_assert_eq!(print(&merged_parts), print(&part_of_merged));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_profile(bytes in vec(any::<u8>(), 0..200)) {
        check_total(&bytes);
        check_total(&[b"digraph {".as_slice(), &bytes].concat());
        check_total(&[b"digraph { a [x=\"".as_slice(), &bytes, b"\"] }"].concat());
    }

    #[test]
    fn any_words_of_dot_are_an_error_or_a_profile(words in vec(prop::sample::select(vec![
        "{", "}", "[", "]", "=", ";", ",", ":", "->", "--", "+", "a", "b", "\"c\"", "\"\\\"\"", "<d>", "1.5", "-.5", "node",
        "edge", "graph", "subgraph", "subgraph cluster1 {", "label=x", "[label=0.5]", "[count=3]", "sediment=2", "total=9",
        "key=k", "strict", "digraph", "// x\n", "# y\n", "/* z */", "[size=4]", "near=1",
    ]), 0..60)) {
        let text = words.join(" ");
        check_total(format!("digraph {{ {text} }}").as_bytes());
        check_total(format!("strict digraph {{ sediment=2 {text}").as_bytes());
        check_total(format!("digraph {{ {text} {}", "}".repeat(20)).as_bytes());
    }

    #[test]
    fn mutated_profiles_are_an_error_or_a_profile(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        kind in 0..4u8,
        byte in any::<u8>(),
    ) {
        let mut bytes = print(&parts.profile(0)).into_bytes();
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => { bytes.remove(at); }
            _ => bytes.truncate(at),
        }
        check_total(&bytes);
    }
}

/// Checks that an error has a line, and that a profile can be printed and read again, whatever the bytes are.
fn check_total(bytes: &[u8]) {
    match parse(bytes) {
        Err(error) => assert!(error.location().is_some(), "{error} has no line"),
        Ok((profile, _)) => {
            let (again, _) = parse(print(&profile).as_bytes()).unwrap();
            assert!(again == profile, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
