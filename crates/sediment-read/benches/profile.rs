// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmark of reading, printing and merging a profile of 60,000 functions:
//! `cargo bench -p sediment-order --bench profile`.

use divan::Bencher;
use divan::counter::BytesCount;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::text::{parse, print};
use sediment_core::profile::{EdgeFacts, FunctionKey, Profile};

const FUNCTIONS: u64 = 60_000;
const EDGES: u64 = 240_000;

fn main() {
    divan::main();
}

/// A profile of one program with random calls, always the same.
fn profile() -> Profile {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut profile = Profile::default();
    let key = |number| FunctionKey {
        dso: Some("program".to_owned()),
        name: format!("_ZN4some9namespace8function{number}Ev"),
        file: None,
    };
    let functions: Vec<_> = (0..FUNCTIONS).map(|number| profile.function(key(number))).collect();
    for function in &functions {
        profile.facts_mut(*function).size = Some(random(4000));
    }
    for _ in 0..EDGES {
        let (caller, callee) = (random(FUNCTIONS), random(FUNCTIONS));
        let (count, affinity) = (u128::from(random(100_000)), u128::from(random(100_000)));
        *profile.edge_mut(functions[caller as usize], functions[callee as usize]) =
            EdgeFacts { count: Some(count), affinity: Some(affinity), ..EdgeFacts::default() };
        profile.total += count;
    }
    profile
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn read(bencher: Bencher) {
    let text = print(&profile());
    bencher.counter(BytesCount::of_str(&text)).bench(|| parse(text.as_bytes()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn write(bencher: Bencher) {
    let profile = profile();
    bencher.counter(BytesCount::of_str(&print(&profile))).bench(|| print(&profile));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn merge_two(bencher: Bencher) {
    let profile = profile();
    bencher.bench(|| merge(&[(&profile, Weight::ONE), (&profile, Weight::ONE)], false));
}
