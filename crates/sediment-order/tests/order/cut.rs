// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of removing the edges of a profile that no order needs.

use sediment_core::profile::{FunctionKey, Profile, text};
use sediment_core::random::Generator;
use sediment_order::order::cut;
use sediment_order::order::{OrderRequest, Selection, compute};
use std::collections::BTreeMap;

/// Makes a program of 60 functions and a library of 20, with the calls and affinity of loops.
fn recorded(seed: u64) -> Profile {
    let mut numbers = Generator::new(seed);
    let mut profile = Profile::default();
    profile.total = 10_000_000;
    let functions: Vec<_> = (0..80)
        .map(|number| {
            let dso = if number < 60 { "prog" } else { "libx.so.1" };
            let name = format!("function_{number}");
            let function =
                profile.function(FunctionKey::new(Some(dso.as_bytes()), name.as_bytes(), None).unwrap());
            profile.facts_mut(function).size = Some(64 + 16 * numbers.scaled(200));
            function
        })
        .collect();
    for number in 1..functions.len() {
        let caller = functions[numbers.scaled(number as u64) as usize];
        let count = if number % 3 == 0 { 1 } else { 1 + numbers.scaled(300_000) as u128 };
        profile.edge_mut(caller, functions[number]).count = Some(count);
    }
    for _ in 0..600 {
        let [one, other] = [(); 2].map(|()| functions[numbers.scaled(80) as usize]);
        if one != other {
            let most = 1 << numbers.scaled(16);
            profile.edge_mut(one, other).affinity = Some(1 + u128::from(numbers.scaled(most)));
        }
    }
    profile
}

#[test]
fn a_cut_profile_gives_the_same_orders() {
    for seed in 1..=3 {
        let whole = recorded(seed);
        let cut = cut::cut(&whole).unwrap().expect("edges go");
        assert_eq!(cut.before, whole.edge_count());
        assert_eq!(cut.after, cut.profile.edge_count());
        assert!(cut.after < cut.before);
        for label in ["prog", "libx.so.1"] {
            let order = |profile| compute(profile, &Selection::Dso(label), &OrderRequest::default()).unwrap();
            let [before, after] = [order(&whole), order(&cut.profile)];
            assert_eq!(before.order, after.order, "{label}, seed {seed}");
            assert_eq!(before.built.table.keys, after.built.table.keys, "every function stays");
        }
        let calls = |profile: &Profile| -> BTreeMap<String, u128> {
            let mut calls = BTreeMap::new();
            for (_, callee, facts) in profile.edges() {
                *calls.entry(profile.key(callee).name.clone()).or_default() += facts.count.unwrap_or(0);
            }
            calls
        };
        let [before, after] = [calls(&whole), calls(&cut.profile)].map(|calls| calls.values().sum::<u128>());
        assert!(after * 1000 >= before * 999, "{after} of {before} calls stay");
        // The same profile gives the same bytes.
        let again = cut::cut(&whole).unwrap().expect("edges go");
        assert_eq!(text::print(&again.profile), text::print(&cut.profile));
    }
}

#[test]
fn affinity_between_files_goes() {
    let mut profile = Profile::default();
    profile.total = 10;
    let mut function = |dso: &str, name: &str| {
        profile.function(FunctionKey::new(Some(dso.as_bytes()), name.as_bytes(), None).unwrap())
    };
    let [main, f, g] = [function("prog", "main"), function("prog", "f"), function("libx.so.1", "g")];
    profile.edge_mut(main, f).count = Some(5);
    profile.edge_mut(f, g).count = Some(5);
    profile.edge_mut(main, g).affinity = Some(7);
    let cut = cut::cut(&profile).unwrap().expect("one edge goes");
    assert_eq!((cut.before, cut.after), (3, 2));
    assert!(cut.profile.edge(main, g).is_none());
}
