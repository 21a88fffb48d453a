// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the differences between two profiles.

use sediment_core::profile::difference::difference;
use sediment_core::profile::{EdgeFacts, FunctionIndex, FunctionKey, Profile, SHARE_TOTAL};

fn profile(calls: &[(&str, u128)]) -> Profile {
    let mut profile = Profile::default();
    let function = |profile: &mut Profile, name: &str| -> FunctionIndex {
        profile.function(FunctionKey { dso: Some("app".into()), name: name.into(), file: None })
    };
    let main = function(&mut profile, "main");
    for (name, count) in calls {
        let callee = function(&mut profile, name);
        *profile.edge_mut(main, callee) = EdgeFacts { count: Some(*count), ..EdgeFacts::default() };
        profile.total += count;
    }
    profile
}

#[test]
fn equal_distributions_agree_however_long_they_were_recorded() {
    let short = profile(&[("a", 1), ("b", 3)]);
    let long = profile(&[("a", 1_000_000), ("b", 3_000_000)]);
    assert_eq!(difference(&short, &long).agreement, Some(1_000_000));
    assert!(difference(&short, &long).functions.iter().all(|moved| moved.distance() == 0));
}

#[test]
fn overlap_is_the_share_in_common() {
    let one = profile(&[("a", 3), ("b", 1)]);
    let other = profile(&[("a", 1), ("c", 1)]);
    let found = difference(&one, &other);
    assert_eq!(found.agreement, Some(500_000));
    let names: Vec<&str> = found.functions.iter().map(|moved| moved.key.name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b", "main"]);
    assert_eq!(found.functions[0].before, None);
    assert_eq!(found.functions[2].after, None);
    assert_eq!(found.dsos, [(Some("app".to_owned()), SHARE_TOTAL, SHARE_TOTAL)]);
}

#[test]
fn nothing_counted_agrees_with_nothing() {
    assert_eq!(difference(&profile(&[("a", 0)]), &profile(&[("a", 1)])).agreement, None);
}
