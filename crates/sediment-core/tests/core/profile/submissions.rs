// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of merging users' submissions.

use sediment_core::error::ErrorKind;
use sediment_core::profile::merge::{self, Weight};
use sediment_core::profile::submissions::{BuildCoverage, Submission, coverage, grow};
use sediment_core::profile::{EdgeFacts, FunctionKey, Profile};

fn key(name: &str) -> FunctionKey {
    FunctionKey { dso: Some("app".into()), name: name.into(), file: None }
}

fn profile(calls: &[(&str, u128)]) -> Profile {
    let mut profile = Profile::default();
    let main = profile.function(key("main"));
    for (name, count) in calls {
        let callee = profile.function(key(name));
        *profile.edge_mut(main, callee) = EdgeFacts { count: Some(*count), ..EdgeFacts::default() };
        profile.total += count;
    }
    profile
}

fn submissions(profiles: &[Profile]) -> Vec<Submission<'_>> {
    let each = profiles.iter().enumerate();
    each.map(|(submitter, profile)| Submission { profile, weight: Weight::ONE, submitter }).collect()
}

#[test]
fn without_a_cap_it_is_a_merge() {
    let profiles = [profile(&[("a", 10)]), profile(&[("a", 5), ("b", 15)])];
    let base = merge::merge(&[(&profiles[0], Weight::ONE)], false).unwrap();
    let grown = grow(Some((&base, Weight::ONE)), &submissions(&profiles[1..]), None).unwrap();
    let merged = merge::merge(&[(&profiles[0], Weight::ONE), (&profiles[1], Weight::ONE)], false).unwrap();
    assert_eq!(grown.profile, merged);
    assert_eq!((grown.kept, grown.added[0].part), (500_000, 500_000));
    assert_eq!((grown.added[0].new_functions, grown.added[0].new_share), (1, 375_000));
    assert_eq!(grown.added[0].agreement, Some(250_000));
}

#[test]
fn nobody_counts_above_the_cap() {
    let profiles: Vec<Profile> = (0..5).map(|_| profile(&[("a", 1), ("b", 1)])).collect();
    let mut given = submissions(&profiles);
    // One submitter sends three files, and wants to count a hundred times.
    given[1].submitter = 0;
    given[2].submitter = 0;
    given[3].weight = Weight::parse("100").unwrap();
    let grown = grow(None, &given, Some(400_000)).unwrap();
    let of = |who: &[usize]| who.iter().map(|index| grown.added[*index].part).sum::<u64>();
    assert!((399_990..=400_010).contains(&of(&[0, 1, 2])), "{:?}", grown.added);
    assert!((399_990..=400_010).contains(&of(&[3])), "{:?}", grown.added);
    assert!((199_990..=200_010).contains(&of(&[4])), "{:?}", grown.added);
    assert!(grown.added[3].capped && !grown.added[4].capped);
    assert_eq!(grown.halves, Some(1_000_000));
}

#[test]
fn a_cap_that_cannot_hold_is_said() {
    let profiles = [profile(&[("a", 1)]), profile(&[("b", 1)])];
    let error = grow(None, &submissions(&profiles), Some(250_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("25 %"), "{error}");
    // The profile kept before counts as the missing submitters.
    let base = merge::merge(&[(&profile(&[("c", 1)]), Weight::ONE)], false).unwrap();
    let grown = grow(Some((&base, Weight::ONE)), &submissions(&profiles), Some(250_000)).unwrap();
    assert_eq!(grown.kept, 500_000);
}

#[test]
fn coverage_is_of_the_files_that_were_built() {
    let mut profile = profile(&[("a", 3), ("gone", 1)]);
    let elsewhere = profile.function(FunctionKey { dso: Some("libc.so.6".into()), ..key("printf") });
    let main = profile.find(&key("main")).unwrap();
    profile.edge_mut(main, elsewhere).count = Some(100);
    let is_there = |key: &FunctionKey| (key.dso.as_deref() == Some("app")).then(|| key.name != "gone");
    assert_eq!(coverage(&profile, &is_there), BuildCoverage { belongs: 38_462, there: Some(750_000) });
    assert_eq!(coverage(&profile, &|_| None), BuildCoverage { belongs: 0, there: None });
    assert_eq!(coverage(&Profile::default(), &|_| Some(true)), BuildCoverage { belongs: 0, there: None });
}
