// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of mutations that keep an input well-formed: most mutants can be read, each keeps the reader's properties, and
//! the same seed gives the same mutant. fuzz/ makes many more of them.

use super::fuzz_check::{self, check};
use super::turn;
use std::path::Path;
use support::mutate;

/// Returns the number of mutants of each input, which the environment may raise.
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
    // An input that cannot be read has little structure to keep.
    inputs.retain(|bytes| check(target, bytes));
    inputs
}

/// Checks that at least this percentage of the mutants can be read; with blind mutation it is at most a tenth.
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

/// Many mutants have fields that the declaration lacks, which are refused.
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
