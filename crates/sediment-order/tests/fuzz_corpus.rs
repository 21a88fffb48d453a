// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the check of the fuzz targets on every input that fuzzing found (fuzz/corpus and fuzz/regressions) and on every
//! golden of the readers. Longer inputs made from these test that time and memory are in proportion to the size.

#[path = "bounds/fuzz_check.rs"]
mod fuzz_check;

use fuzz_check::{Counting, check, measured, processor_time, targets};
use libtest_mimic::{Arguments, Trial};
use sediment_core::binary::{Binary, NoFiles};
use sediment_read::read::{READERS, ReadSettings};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A lock: the counters of memory and time belong to the whole program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn main() {
    let mut trials = vec![Trial::test("every_target_has_its_program_and_its_corpus", || {
        every_target_has_its_program_and_its_corpus();
        Ok(())
    })];
    for target in targets() {
        for (what, run) in [("corpus", run_corpus as fn(&str)), ("proportion", run_in_proportion)] {
            trials.push(Trial::test(format!("{target}::{what}"), move || {
                let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                run(target);
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn fuzz() -> PathBuf {
    support::root().join("fuzz")
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|p| p.is_file()).collect();
    files.sort();
    files
}

/// Returns the inputs of a target: those that fuzzing found, and the goldens of its reader.
fn inputs(target: &str) -> Vec<PathBuf> {
    let mut inputs = files_in(&fuzz().join("corpus").join(target));
    inputs.extend(files_in(&fuzz().join("regressions").join(target)));
    if support::root().join("tests/golden/read").join(target).is_dir() {
        inputs.extend(support::golden_cases(&format!("read/{target}")).iter().map(|case| case.join("input")));
    }
    if target == "profile-text" {
        inputs.extend(support::golden_cases("profile").iter().flat_map(|case| files_in(case)));
    }
    inputs.retain(|path| path.is_file());
    inputs
}

fn run_corpus(target: &str) {
    let inputs = inputs(target);
    let mut understood = 0;
    for path in &inputs {
        let bytes = std::fs::read(path).unwrap();
        // If the check fails, the name of the input is printed before its message.
        let said = std::panic::catch_unwind(|| check(target, &bytes));
        understood += usize::from(said.unwrap_or_else(|_| panic!("{target}: {}", path.display())));
    }
    assert!(understood > 0, "{target}: none of {} inputs is one that it reads", inputs.len());
}

/// Makes two larger inputs of this size: the input repeated; and its first part, followed by the rest repeated.
fn grown(bytes: &[u8], size: usize) -> [Vec<u8>; 2] {
    let middle = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1).find(|at| *at >= bytes.len() / 2);
    let (first, rest) = bytes.split_at(middle.unwrap_or(bytes.len() / 2).min(bytes.len().saturating_sub(1)));
    let repeated = |first: &[u8], rest: &[u8]| {
        let mut grown = first.to_vec();
        while grown.len() + rest.len() <= size {
            grown.extend(rest);
        }
        grown
    };
    [repeated(&[], bytes), repeated(first, rest)]
}

fn read_once(target: &str, bytes: &[u8]) {
    measured("a long input", bytes.len(), || match READERS.iter().find(|reader| reader.name == target) {
        Some(reader) => drop((reader.read)(&bytes, &ReadSettings::default())),
        None if target == "profile-text" => drop(sediment_core::profile::text::parse(bytes)),
        None if target == "trace-file" => {
            drop(sediment_read::trace::file::load(
                &bytes,
                &sediment_core::functions::FunctionTable::default(),
            ));
        }
        None if target == "gcov" => {
            let mut skipped = sediment_core::Skipped::default();
            drop(sediment_read::counters::gcov::Units::default().read("work.gcda", bytes, &mut skipped));
        }
        None if target == "elf" => drop(Binary::parse(bytes, &NoFiles)),
        None => drop(std::str::from_utf8(bytes).map(sediment_order::link::read)),
    });
}

/// Checks that eight times the input does not take much more than eight times as long.
fn run_in_proportion(target: &str) {
    const SMALL: usize = 1 << 18;
    const TIMES: u32 = 8;
    let mut largest: Vec<Vec<u8>> = inputs(target).iter().map(|path| std::fs::read(path).unwrap()).collect();
    largest.sort_by_key(|bytes| std::cmp::Reverse(bytes.len()));
    largest.retain(|bytes| !bytes.is_empty());
    for bytes in largest.iter().take(4) {
        for (small, large) in grown(bytes, SMALL).iter().zip(&grown(bytes, SMALL * TIMES as usize)) {
            let timed = |input: &[u8]| {
                let started = processor_time();
                read_once(target, input);
                processor_time().saturating_sub(started)
            };
            let (short, long) = (timed(small), timed(large));
            let allowed = short * TIMES * 4 + Duration::from_millis(500);
            assert!(
                long <= allowed,
                "{target}: {short:?} for {} bytes, {long:?} for {}",
                small.len(),
                large.len()
            );
        }
    }
}

fn every_target_has_its_program_and_its_corpus() {
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let programs: BTreeSet<&str> = manifest
        .lines()
        .skip_while(|line| *line != "[[bin]]")
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .collect();
    assert_eq!(programs, targets().into_iter().collect(), "fuzz/Cargo.toml: a [[bin]] per target");
    for target in targets() {
        let program = fuzz().join(format!("fuzz_targets/{}.rs", target.replace('-', "_")));
        assert!(program.is_file(), "{target}: there is no {}", program.display());
        let corpus = files_in(&fuzz().join("corpus").join(target));
        let size: u64 = corpus.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(!corpus.is_empty(), "{target}: fuzz/corpus/{target} is empty");
        assert!(size <= 64 << 10, "{target}: the corpus has {size} bytes; scripts/fuzz makes it small");
    }
}
