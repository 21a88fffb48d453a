// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of cases, by kind and result.

use sediment_core::random::Generator;
use std::collections::BTreeMap;
use std::path::PathBuf;
use support::mutate;

/// Number of cases for a comparison within this process, and for one with another program.
pub struct CaseCount {
    pub in_process: u64,
    pub by_program: u64,
}

pub fn count() -> CaseCount {
    match std::env::var("SEDIMENT_DIFFERENTIAL").as_deref() {
        Ok("long") => CaseCount { in_process: 200_000, by_program: 5_000 },
        _ => CaseCount { in_process: 3_000, by_program: 100 },
    }
}

/// Returns the inputs of a target from which mutants are made: its corpus, and its inputs among the goldens.
pub fn seeds(target: &str, golden: &str) -> Vec<Vec<u8>> {
    let corpus = support::root().join("fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    if !golden.is_empty() {
        for case in support::golden_cases(golden) {
            let of_case = std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path());
            files.extend(
                of_case.filter(|path| path.ends_with("input") || path.extension().is_some_and(|e| e == "gv")),
            );
        }
    }
    files.retain(|path| path.is_file() && path.metadata().is_ok_and(|file| file.len() <= 16 << 10));
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Makes the mutant with this number from one of the seeds. Most mutants are well-formed; a few have blind damage.
pub fn mutant(target: &str, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut numbers = Generator::stream(number, 7);
    let seed = &seeds[numbers.below(seeds.len())];
    let mut mutant = mutate::mutate(target, seed, 1 << 16, numbers.draw()).unwrap_or_else(|| seed.clone());
    if numbers.below(12) == 0 && !mutant.is_empty() {
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(mutant.len());
            match numbers.below(3) {
                0 => mutant.truncate(at.max(1)),
                1 => mutant[at] ^= 1 << numbers.below(8),
                _ => mutant[at] = numbers.draw() as u8,
            }
        }
    }
    mutant
}

/// Results of the cases of one comparison.
#[derive(Default)]
pub struct CaseTally {
    pub name: &'static str,
    pub read: u64,
    pub refused: u64,
    /// Number of cases that a rule skips, by rule.
    pub rules: BTreeMap<&'static str, u64>,
}

impl CaseTally {
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    pub fn pass_over(&mut self, rule: &'static str) {
        *self.rules.entry(rule).or_default() += 1;
    }

    /// Prints the results, and checks that at least `least_read` percent were read by both, and at most
    /// `most_passed_over` percent were skipped.
    pub fn finish(&self, least_read: u64, most_passed_over: u64) {
        let passed_over: u64 = self.rules.values().sum();
        let cases = self.read + self.refused + passed_over;
        println!(
            "differential | {} | {cases} | {} | {} | {passed_over} |",
            self.name, self.read, self.refused
        );
        for (rule, count) in &self.rules {
            println!("differential rule | {} | {rule} | {count} |", self.name);
        }
        assert!(
            self.read * 100 >= cases * least_read,
            "{}: {} of {cases} cases are read, not {least_read} %",
            self.name,
            self.read
        );
        assert!(
            passed_over * 100 <= cases * most_passed_over,
            "{}: rules pass over {passed_over} of {cases} cases: {:?}",
            self.name,
            self.rules
        );
    }
}

/// Panics with the input, so that it can be made again and kept.
pub fn differs(what: &str, number: u64, bytes: &[u8], said: &str) -> ! {
    let kept = std::env::temp_dir().join(format!("sediment-differential-{what}-{number}"));
    std::fs::write(&kept, bytes).unwrap();
    panic!("{what}: case {number} differs ({}): {said}", kept.display());
}
