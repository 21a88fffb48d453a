// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that `record` counts, and profiles of sampled addresses.

use crate::compilers::Compiler;
use crate::gcc_plugin::blocks::{self, blocks_of, ran};
use crate::gcc_plugin::{has, read};
use crate::running::{done, sediment};
use sediment_core::binary::gcc_block_map;
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;
use support::perf_data_writer::{Branch, JUMP, PerfData};
use support::pprof_writer::{self, Form, Location, Mapping, Profile, Sample};
use tempfile::TempDir;

/// Executed blocks of a function with their counts, in the heaviest graph only.
fn executed(profile: &str, function: &str) -> BTreeMap<u32, u64> {
    let line = profile.lines().find(|line| line.trim_start().starts_with(&format!("\"{function}\" [")));
    let blocks = line.and_then(|line| line.split_once("blocks=\"")).map(|(_, blocks)| blocks);
    let blocks = blocks.and_then(|blocks| blocks.split_once('"')).unwrap_or_else(|| panic!("{profile}")).0;
    let graph = blocks.split(';').next().unwrap().split_once(':').unwrap().1;
    let known = graph.split(' ').filter_map(|block| {
        let (block, count) = block.split_once('=')?;
        let count = count.split('@').next()?.parse().ok()?;
        (count > 0).then_some((block.parse().ok()?, count))
    });
    known.collect()
}

/// `record --blocks` finds every executed block with its count, and no other block.
pub fn recordings_count_blocks(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    blocks::recorded(gcc, &folder, "work.c");
    for arguments in [&[][..], &["0"]] {
        blocks::record(&folder, arguments);
        let exact = read(&folder, "p.gv");
        let record = ["record", "--method", "valgrind", "--blocks", "-o", "b.gv", "--", "./train"];
        let output = sediment(folder.path(), &[&record, arguments].concat());
        assert_eq!((output.stdout, output.status.code()), ran(&folder, "train", arguments));
        let found = read(&folder, "b.gv");
        for function in ["work", "jumps", "leaves", "main"] {
            assert_eq!(executed(&found, function), executed(&exact, function), "{function} {arguments:?}");
        }
    }
}

/// Executions of each instruction of `train`, by address.
pub fn instructions(folder: &TempDir) -> BTreeMap<u64, u64> {
    let options = ["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no"];
    let valgrind = Command::new("valgrind")
        .current_dir(folder.path())
        .args(options)
        .args(["--callgrind-out-file=executed", "./train"])
        .output();
    assert!(valgrind.unwrap().status.success());
    let (mut executed, mut is_call) = (BTreeMap::new(), false);
    for line in read(folder, "executed").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let address = fields[0].strip_prefix("0x").and_then(|text| u64::from_str_radix(text, 16).ok());
        // The line after a call has the cost of the callee.
        if let (Some(address), false) = (address, is_call) {
            *executed.entry(address).or_default() += fields.last().unwrap().parse::<u64>().unwrap();
        }
        is_call = line.starts_with("calls=");
    }
    executed
}

/// Number of executions of an instruction per sample.
pub const EXECUTIONS_OF_A_SAMPLE: u64 = 300;

/// A pprof profile of `train` whose locations are addresses, with one sample per so many executions of an instruction.
pub fn sampled(folder: &TempDir) -> Profile {
    let sampled: Vec<(u64, i64)> = instructions(folder)
        .into_iter()
        .map(|(address, executions)| (address, (executions / EXECUTIONS_OF_A_SAMPLE) as i64))
        .filter(|(_, samples)| *samples > 0)
        .collect();
    // The program is linked to the address 0x400000, which is the beginning of its file.
    let path = folder.path().join("train").display().to_string();
    let whole = Mapping { id: 1, start: 0x40_0000, limit: 0x80_0000, path, ..Mapping::default() };
    Profile {
        types: vec![("samples".into(), "count".into())],
        mappings: vec![whole],
        locations: (1..)
            .zip(&sampled)
            .map(|(id, (address, _))| Location { id, mapping: 1, address: *address, lines: Vec::new() })
            .collect(),
        samples: (1..)
            .zip(&sampled)
            .map(|(id, (_, samples))| Sample { locations: vec![id], values: vec![*samples] })
            .collect(),
        ..Profile::default()
    }
}

/// Number of executions of a piece of code per branch record.
pub const EXECUTIONS_OF_A_RECORD: u64 = 50;

/// Writes a `perf.data` of `train` with branch records around pieces of code: the branch to the beginning of each, and
/// the branch at its end.
pub fn write_branch_records(folder: &TempDir, code: impl Iterator<Item = Range<u64>>) {
    let executed = instructions(folder);
    let mut file = PerfData::new();
    let program = folder.path().join("train").display().to_string();
    file.mmap2(10, (0x40_0000, 0x40_0000, 0), &program, &[], 1);
    for stretch in code {
        let mut own = executed.range(stretch);
        let Some((begin, executions)) = own.next() else { continue };
        let last = own.next_back().map_or(*begin, |(address, _)| *address);
        let branches = [Branch::new(last, *begin, JUMP), Branch::new(last, *begin, JUMP)];
        for _ in 0..executions / EXECUTIONS_OF_A_RECORD {
            file.sample(10, 2, last, &branches);
        }
    }
    std::fs::write(folder.path().join("perf.data"), file.finish()).unwrap();
}

pub fn branch_records_tell_of_blocks(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    blocks::recorded(gcc, &folder, "work.c");
    let exact = read(&folder, "p.gv");
    let map = gcc_block_map::read(&std::fs::read(folder.path().join("train")).unwrap()).unwrap().unwrap();
    let code = map.iter().flat_map(|function| &function.code);
    write_branch_records(&folder, code.map(|code| code.address..code.address + code.size));
    let import = ["import", "--blocks", "perf.data", "--binary", "train", "-o", "recorded.gv"];
    done(&sediment(folder.path(), &import));
    let found = read(&folder, "recorded.gv");
    has(&found, &["blocks_unit=executions"]);
    for function in ["work", "jumps"] {
        let (found, exact) = (blocks_of(&found, function), blocks_of(&exact, function));
        let executions = |all: &[(u32, u64)], block: u32| {
            all.iter().find(|(other, _)| *other == block).map_or(0, |(_, count)| *count)
        };
        for (block, count) in &exact {
            let recorded = executions(&found, *block) * EXECUTIONS_OF_A_RECORD;
            let is_near = recorded.abs_diff(*count) <= 2 * EXECUTIONS_OF_A_RECORD;
            assert!(is_near, "{function}, {block}: {found:?} {exact:?}");
        }
        let is_executed = |(block, count): &(u32, u64)| *count == 0 || executions(&exact, *block) > 0;
        assert!(found.iter().all(is_executed), "{function}: {found:?} {exact:?}");
    }
}

/// Samples by address, and samples by name only.
pub fn sampled_addresses_tell_of_blocks(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    blocks::recorded(gcc, &folder, "work.c");
    let exact = read(&folder, "p.gv");
    let imported = |profile: &Profile| {
        let bytes = profile.encode(Form { gzip: true, ..Form::default() });
        std::fs::write(folder.path().join("cpu.pb.gz"), bytes).unwrap();
        let arguments = ["import", "--blocks", "cpu.pb.gz", "--binary", "train", "-o", "sampled.gv"];
        done(&sediment(folder.path(), &arguments));
        read(&folder, "sampled.gv")
    };
    let found = imported(&sampled(&folder));
    has(&found, &["blocks_unit=samples"]);
    for function in ["work", "main"] {
        let (found, exact) = (blocks_of(&found, function), blocks_of(&exact, function));
        let executions =
            |block: u32| exact.iter().find(|(other, _)| *other == block).map_or(0, |(_, count)| *count);
        assert!(
            found.iter().all(|(block, _)| executions(*block) >= EXECUTIONS_OF_A_SAMPLE),
            "{found:?} {exact:?}"
        );
        // Sufficiently frequent code is found.
        let often = exact.iter().filter(|(_, count)| *count >= EXECUTIONS_OF_A_SAMPLE);
        assert_eq!(found.len(), often.count(), "{function}: {found:?} {exact:?}");
    }
    // The compiler accepts these counts, and code without samples still behaves the same.
    done(&sediment(folder.path(), &["export", "sampled.gv", "-o", "blocks"]));
    assert!(read(&folder, "blocks").contains("\nwork\t"));
    let flags = ["-O2", "-static", &gcc.plugin(), blocks::COUNTS, "work.c", "-o", "used"];
    gcc.run(folder.path(), gcc.c, &flags);
    for arguments in [&[][..], &["0"], &["7"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
    }
    let by_name = imported(&pprof_writer::of_stacks(&[(&["main", "work"], 5000)]));
    assert!(!by_name.contains("blocks="), "{by_name}");
}
