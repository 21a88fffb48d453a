// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mutations that keep an input well-formed: most mutants are read, what a reader must hold to holds for each, and the same seed
//! makes the same mutant. fuzz/ makes many more of them.

use super::fuzz_check::{self, check};
use super::turn;
use std::path::Path;
use support::mutate;

/// Mutants of each input; the environment may ask for more.
fn rounds() -> u64 {
    std::env::var("SEDIMENT_MUTANTS").map_or(50, |count| count.parse().unwrap())
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    let corpus = support::root().join("fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    if support::root().join("tests/golden/read").join(target).is_dir() {
        files.extend(support::golden_cases(&format!("read/{target}")).iter().map(|case| case.join("input")));
    }
    files.sort();
    for path in files.iter().filter(|path| Path::is_file(path)) {
        inputs.push(std::fs::read(path).unwrap());
    }
    // What is not read at all has little structure to keep.
    inputs.retain(|bytes| check(target, bytes));
    inputs
}

/// Per cent of the mutants that must still be read: blind mutation has a tenth or less.
fn hold(target: &str, least: u64) {
    let _turn = turn();
    let (mut made, mut read) = (0u64, 0u64);
    for (index, bytes) in inputs(target).iter().enumerate() {
        for round in 0..rounds() {
            let seed = (index as u64) << 32 | round;
            let Some(mutant) = mutate::mutate(target, bytes, 1 << 16, seed) else { continue };
            assert_eq!(mutate::mutate(target, bytes, 1 << 16, seed).as_ref(), Some(&mutant), "seed {seed}");
            made += 1;
            let said = std::panic::catch_unwind(|| check(target, &mutant));
            read += u64::from(said.unwrap_or_else(|_| panic!("{target}: input {index}, seed {seed}")));
        }
    }
    assert!(made >= rounds(), "{target}: {made} mutants alone");
    assert!(read * 100 >= made * least, "{target}: {read} of {made} mutants are read, not {least} %");
}

#[test]
fn every_mutator_has_a_target_and_a_test() {
    let names: Vec<&str> = mutate::MUTATORS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["callgrind", "elf", "otlp", "perf-data", "pprof", "profile-text", "trace-file"]);
    assert!(names.iter().all(|name| fuzz_check::targets().contains(name)));
    assert_eq!(mutate::mutate("gmon", b"gmon", 100, 1), None);
}

#[test]
fn callgrind() {
    hold("callgrind", 40);
}

#[test]
fn elf() {
    hold("elf", 40);
}

/// Fields that the declaration does not have are refused, which many mutants bring.
#[test]
fn otlp() {
    hold("otlp", 25);
}

#[test]
fn perf_data() {
    hold("perf-data", 40);
}

#[test]
fn pprof() {
    hold("pprof", 40);
}

#[test]
fn profile_text() {
    hold("profile-text", 40);
}

#[test]
fn trace_file() {
    hold("trace-file", 40);
}
