// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a perf.data file of any size: branch records of calls between functions of programs on this machine, so that perf finds their
//! names. `perf_data_large BYTES BRANCHES FILE ELF...`; the same arguments give the same bytes.
//!
//! `scripts/prove perf-data-speed` runs this.
#![allow(clippy::print_stderr, clippy::unwrap_used)] // a proof that cannot run must fail

use sediment_core::binary::{Binary, NoFiles};
use std::io::{Seek, SeekFrom, Write};
use support::perf_data_writer::{ANY_CALL, Branch, PerfData, UNTYPED};

/// Number of branches in a record; Intel processors have stored this number since 2015.
const BRANCHES_OF_SAMPLE: usize = 32;
const PROCESS: u32 = 4711;

struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 11) * end as u128) >> 53) as usize
    }

    /// A random number; low numbers are more frequent: half of all are in the first eighth.
    fn skewed(&mut self, end: usize) -> usize {
        let mut below = end;
        for _ in 0..3 {
            below = self.below(below) + 1;
        }
        below - 1
    }
}

/// A simulated program: functions call, and return to their call sites.
struct RunningProgram {
    sites: Vec<Vec<(Branch, usize)>>,
    stack: Vec<usize>,
}

impl RunningProgram {
    const DEEPEST: usize = 64;

    /// The next call.
    fn call(&mut self, numbers: &mut RandomNumbers) -> Branch {
        loop {
            let Some(&now) = self.stack.last() else {
                self.stack.push(numbers.below(self.sites.len()));
                continue;
            };
            let sites = &self.sites[now];
            if sites.is_empty() || self.stack.len() == Self::DEEPEST || numbers.below(2) == 0 {
                self.stack.pop();
                continue;
            }
            let (branch, callee) = sites[numbers.skewed(sites.len())];
            self.stack.push(callee);
            return branch;
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bytes, branches, output, programs @ ..] = &arguments[..] else {
        panic!("usage: perf_data_large BYTES BRANCHES FILE ELF...");
    };
    let (wanted, distinct): (u64, usize) = (bytes.parse().unwrap(), branches.parse().unwrap());
    let mut file = PerfData::new();
    file.events[0].branch_sample_type = ANY_CALL | 1;
    file.comm(PROCESS, "program", true, 1);
    let mut functions: Vec<(u64, u64)> = Vec::new();
    for (index, path) in programs.iter().enumerate() {
        let content = std::fs::read(path).unwrap();
        let binary = Binary::parse(&content, &NoFiles).unwrap();
        let base = 0x7f00_0000_0000 + 0x1_0000_0000 * index as u64;
        let id: Vec<u8> = binary.build_id.iter().flat_map(|id| id.as_bytes().chunks(2)).map(hex).collect();
        file.mmap2(PROCESS, (base, content.len().next_multiple_of(4096) as u64, 0), path, &id, 2);
        let sized = binary.functions.iter().filter(|function| function.size > 16);
        functions.extend(sized.filter_map(|function| {
            Some((base + binary.file_offset_of_address(function.address)?, function.size))
        }));
    }
    let mut numbers = RandomNumbers(1);
    // Each function has this number of call sites, and makes most calls from the first ones.
    let mut sites: Vec<Vec<(Branch, usize)>> = vec![Vec::new(); functions.len()];
    for _ in 0..distinct {
        let (caller, callee) = (numbers.below(functions.len()), numbers.skewed(functions.len()));
        let from = functions[caller].0 + numbers.below(functions[caller].1 as usize) as u64;
        sites[caller].push((Branch::new(from, functions[callee].0, UNTYPED), callee));
    }
    let mut run = RunningProgram { sites, stack: Vec::new() };

    let frame = file.finish();
    let word = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
    let data_end = (word(40) + word(48)) as usize;
    let mut written = std::io::BufWriter::new(std::fs::File::create(output).unwrap());
    written.write_all(&frame[..data_end]).unwrap();
    let (mut more, mut samples) = (0u64, 0u64);
    while data_end as u64 + more < wanted {
        let mut part = file.without_records();
        for _ in 0..5_000 {
            let mut stack: Vec<Branch> = (0..BRANCHES_OF_SAMPLE).map(|_| run.call(&mut numbers)).collect();
            // The newest branch comes first.
            stack.reverse();
            samples += 1;
            part.sample(PROCESS, 1_000 + samples, stack[0].to, &stack);
        }
        // In a round, perf sorts all events from before the end of the previous round.
        part.raw(68, 0, &[]);
        more += part.len() as u64;
        written.write_all(part.records()).unwrap();
    }
    let mut features = frame[data_end..].to_vec();
    let first = u64::from_le_bytes(features[..8].try_into().unwrap()) as usize;
    for entry in features[..first - data_end].chunks_mut(16) {
        let offset = u64::from_le_bytes(entry[..8].try_into().unwrap()) + more;
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
    written.write_all(&features).unwrap();
    written.seek(SeekFrom::Start(48)).unwrap();
    written.write_all(&(word(48) + more).to_le_bytes()).unwrap();
    written.flush().unwrap();
    eprintln!(
        "{samples} samples of {BRANCHES_OF_SAMPLE} branches, {distinct} of them distinct, {} functions",
        functions.len()
    );
}

fn hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}
