// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks recorded by breakpoints, without valgrind and without a processor's counters.

use crate::blocks::{self, ran};
use crate::compilers::Compiler;
use crate::read;
use crate::running::sediment;
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

/// Executed blocks of a function with their counts, heaviest graph alone.
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

/// Records `train` by breakpoints; checks that it does what it does alone.
fn by_breakpoints(folder: &TempDir, options: &[&str], arguments: &[&str]) -> String {
    let command =
        [&["record", "--method", "breakpoints", "-o", "b.gv"], options, &["--", "./train"], arguments]
            .concat();
    let output = sediment(folder.path(), &command);
    assert_eq!((output.stdout, output.status.code()), ran(folder, "train", arguments), "{options:?}");
    read(folder, "b.gv")
}

/// Each executed block is found, in every mode, and no other.
pub fn breakpoints_find_executed_blocks(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    blocks::recorded(gcc, &folder, "work.c");
    for arguments in [&[][..], &["0"]] {
        blocks::record(&folder, arguments);
        let exact = read(&folder, "p.gv");
        for options in [&["--blocks", "always"][..], &["--blocks", "always", "--startup"], &[]] {
            let found = by_breakpoints(&folder, options, arguments);
            for function in ["work", "jumps", "leaves", "main"] {
                let found: Vec<u32> = executed(&found, function).into_keys().collect();
                let exact: Vec<u32> = executed(&exact, function).into_keys().collect();
                assert_eq!(found, exact, "{function} {arguments:?} {options:?}");
            }
        }
    }
    let without = by_breakpoints(&folder, &["--blocks", "never"], &[]);
    assert!(!without.contains("blocks="), "{without}");
    let at_start = by_breakpoints(&folder, &["--startup"], &[]);
    assert!(!at_start.contains("blocks="), "{at_start}");
}

/// Maps that say wrong where blocks begin: no breakpoint stands inside an instruction.
pub fn wrong_maps_harm_no_program(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    blocks::recorded(gcc, &folder, "work.c");
    let expected = ran(&folder, "train", &["0"]);
    let section = ".debug.sediment_blocks";
    let objcopy = |arguments: &[&str]| {
        let status = Command::new("objcopy").current_dir(folder.path()).args(arguments).status();
        assert!(status.unwrap().success(), "{arguments:?}");
    };
    objcopy(&[
        "-O",
        "binary",
        "--only-section",
        section,
        "--set-section-flags",
        &format!("{section}=alloc"),
        "train",
        "map",
    ]);
    let map = std::fs::read(folder.path().join("map")).unwrap();
    assert!(map.len() > 50, "{}", map.len());
    let mut state = 12345u64;
    for _ in 0..40 {
        let mut wrong = map.clone();
        for _ in 0..wrong.len() / 16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % wrong.len();
            // Small numbers stay numbers: most mutants are maps.
            wrong[at] = if state & 1 << 20 == 0 { wrong[at] ^ 1 } else { wrong[at].wrapping_add(1) };
        }
        std::fs::write(folder.path().join("wrong"), wrong).unwrap();
        objcopy(&["--update-section", &format!("{section}=wrong"), "train", "other"]);
        let options =
            ["record", "--method", "breakpoints", "--blocks", "always", "-o", "w.gv", "--", "./other", "0"];
        let output = sediment(folder.path(), &options);
        assert_eq!((output.stdout, output.status.code()), expected);
    }
}
