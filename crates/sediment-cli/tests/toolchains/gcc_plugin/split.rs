// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions split only by counters: blocks that the training did not execute, without a recording of blocks.

use super::blocks::{self, MARKS, ran};
use super::counters::{COUNTERS, TRAIN, USE};
use super::{done, sediment};
use crate::compilers::{COMPILERS, Compiler};
use std::process::Command;
use tempfile::TempDir;

/// Trains a program from one source in the folder; `counters` has the counters of that run.
pub fn train(gcc: &Compiler, folder: &TempDir, compiler: &str, source: &str, arguments: &[&str]) {
    let flags = [&TRAIN[..], &["-w", "-static", source, "-o", "train"]].concat();
    gcc.run(folder.path(), compiler, &flags);
    let elsewhere = folder.path().join("elsewhere");
    let _ = std::fs::remove_dir_all(&elsewhere);
    let mut train = Command::new(folder.path().join("train"));
    train.args(arguments).env("GCOV_PREFIX", elsewhere).output().unwrap();
    done(&sediment(folder.path(), &["import", ".", "-o", "p.gv"]));
    done(&sediment(folder.path(), &["export", "p.gv", "--format", "counters", "-o", "counters"]));
}

/// Symbols of an object with their sections, in objdump's notation.
pub fn symbols(folder: &TempDir, object: &str) -> Vec<(String, String)> {
    let output = Command::new("objdump").arg("-t").arg(folder.path().join(object)).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let fields = text.lines().filter_map(|line| {
        let (front, name) = line.rsplit_once(' ')?;
        let section = front.split('\t').next()?.rsplit(' ').next()?;
        Some((name.to_owned(), section.to_owned()))
    });
    fields.collect()
}

/// A source in which only other work calls `never`. It has a branch that GCC itself does not assume to be unlikely.
pub fn work() -> String {
    let text = blocks::WORK.replace(
        "return x * 31 + table[x & 63];",
        "if (x % 5 == 3)\n    for (int j = 0; j < x % 7; j++)\n      table[j] += x ^ table[x & 63];\n  return x * 31 + table[x & 63];",
    );
    assert!(text.contains("table[j] += x"));
    text
}

/// Promise to users: a block that never ran is moved out of a trained function, an untrained function stays whole, and
/// the program behaves the same.
pub fn never_run_blocks_leave_trained_functions(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), work()).unwrap();
    train(gcc, &folder, gcc.c, "work.c", &[]);
    let plugin = gcc.plugin();
    let object = |more: &[&str], object: &str| {
        let with =
            [&USE[..], &["-ffunction-sections", &plugin, COUNTERS], more, &["-c", "work.c", "-o", object]];
        gcc.run(folder.path(), gcc.c, &with.concat());
        symbols(&folder, object)
    };
    let used = object(&[], "used.o");
    let section = |name: &str| {
        let found = used.iter().find(|(symbol, _)| symbol == name);
        found.map(|(_, section)| section.as_str())
    };
    assert_eq!(section("work.cold"), Some(".text.unlikely.work"), "{used:?}");
    assert_eq!(section("work"), Some(".text.hot.work"), "{used:?}");
    let untrained = used.iter().filter(|(symbol, _)| symbol.starts_with("never"));
    let untrained: Vec<_> = untrained.map(|(_, section)| section.as_str()).collect();
    assert!(!untrained.is_empty(), "{used:?}");
    assert!(untrained.iter().all(|section| section.starts_with(".text.never")), "{used:?}");
    // An option that disables parts is respected. Numbers of blocks change no part.
    let whole = object(&["-fno-reorder-blocks-and-partition"], "whole.o");
    assert!(!whole.iter().any(|(symbol, _)| symbol.ends_with(".cold")), "{whole:?}");
    let numbered = object(&[MARKS], "numbered.o");
    assert!(numbered.iter().any(|(symbol, _)| symbol == "work.cold"), "{numbered:?}");

    gcc.run(folder.path(), gcc.c, &["-O2", "-static", "work.c", "-o", "plain"]);
    gcc.run(folder.path(), gcc.c, &["-static", "used.o", "-o", "used"]);
    for arguments in [&[][..], &["0"], &["7"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
    }
    assert!(!blocks::runs_in_cold_part(&folder, "used", "work"));
}

/// Counters of this machine, for a program of another architecture.
pub fn counters_split_cross_builds(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    let cross = COMPILERS.iter().find(|compiler| compiler.name == "aarch64-gcc").unwrap();
    let plugin = cross.plugin();
    for (source, arguments) in [("work.c", &["0", "7"][..]), ("thrown.cc", &["thrown"])] {
        let (compiler, other) = if source == "work.c" { (gcc.c, cross.c) } else { (gcc.cxx, cross.cxx) };
        train(gcc, &folder, compiler, source, &[]);
        let flags = ["-w", "-static", "-ffunction-sections", &plugin, COUNTERS, source, "-o", "used"];
        cross.run(folder.path(), other, &[&flags[..], &USE].concat());
        // Functions with exceptions stay whole there.
        let is_split = symbols(&folder, "used").iter().any(|(symbol, _)| symbol == "work.cold");
        assert_eq!(is_split, source == "work.c");
        for arguments in [&[][..]].into_iter().chain(arguments.chunks(1)) {
            let mut emulated = Command::new("qemu-aarch64");
            let emulated =
                emulated.current_dir(folder.path()).arg("./used").args(arguments).output().unwrap();
            let expected = ran(&folder, "train", arguments);
            assert_eq!((emulated.stdout, emulated.status.code()), expected, "{source} {arguments:?}");
        }
    }
}

/// Exceptions between the parts, jumps of all kinds, and code that the training never reaches.
pub fn whatever_never_ran_the_program_is_the_same(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let modes: Vec<String> = (0..64).map(|mode| mode.to_string()).collect();
    let modes: Vec<&str> = modes.iter().map(String::as_str).collect();
    let sources = [
        ("jumps.c", include_str!("jumps.c"), gcc.c, &["unusual"][..], &[&[][..], &["unusual"]][..]),
        ("thrown.cc", include_str!("thrown.cc"), gcc.cxx, &modes, &[&["0"], &["1"], &["6"]]),
    ];
    for (source, text, compiler, others, trained) in sources {
        std::fs::write(folder.path().join(source), text).unwrap();
        let build = |more: &[&str]| {
            let flags = ["-w", "-O2", "-static", "-ffunction-sections", source, "-o"];
            gcc.run(folder.path(), compiler, &[&flags, more].concat());
        };
        build(&["plain"]);
        for arguments in trained {
            train(gcc, &folder, compiler, source, arguments);
            // GCC checks its graph after each pass.
            build(&[&["used", "-fchecking", &gcc.plugin(), COUNTERS], &USE[2..]].concat());
            let is_split = symbols(&folder, "used").iter().any(|(symbol, _)| symbol.ends_with(".cold"));
            assert!(is_split, "{source} {arguments:?}");
            for other in std::iter::once(&[][..]).chain(others.chunks(1)) {
                let expected = ran(&folder, "plain", other);
                assert_eq!(ran(&folder, "used", other), expected, "{source} {arguments:?} {other:?}");
            }
        }
    }
}
