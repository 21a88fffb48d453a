// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of GCC's instrumentation: from a training build, through text, to a build elsewhere.

use super::blocks::{self, ran};
use super::{done, err, sediment};
use crate::compilers::Compiler;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

pub const WORK: &str = r#"#include <stdio.h>
static __attribute__((noinline)) int rare(int x) { return x > 3 ? x * 7 : x; }
static __attribute__((noinline)) int step(int x) { if (x % 1000 == 999) return rare(x); return x / 2 + 1; }
int main(void) { int sum = 0; for (int i = 0; i < 5000; i++) sum += step(i); printf("%d\n", sum); return 0; }
"#;
pub const TRAIN: [&str; 3] = ["-O2", "-fprofile-generate", "-ftest-coverage"];
pub const USE: [&str; 7] = [
    "-O2",
    "-Werror",
    "-fprofile-use",
    "-fprofile-partial-training",
    "-fprofile-correction",
    "-Wno-missing-profile",
    "-Wno-coverage-mismatch",
];
pub const COUNTERS: &str = "-fplugin-arg-sediment-counters=counters";

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns the file of counters of a run, in the folder of a copy of the sources.
fn trained(gcc: &Compiler) -> (TempDir, TempDir) {
    let (there, here) = (gcc.folder(), gcc.folder());
    for folder in [&there, &here] {
        std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    }
    gcc.run(there.path(), gcc.c, &[&TRAIN[..], &["-static", "work.c", "-o", "train"]].concat());
    // Counts need not be in the same folder as the names.
    let mut train = Command::new(there.path().join("train"));
    assert!(train.env("GCOV_PREFIX", there.path().join("elsewhere")).output().unwrap().status.success());
    done(&sediment(there.path(), &["import", ".", "-o", "p.gv"]));
    done(&sediment(there.path(), &["export", "p.gv", "--format", "counters", "-o", "counters"]));
    std::fs::copy(there.path().join("counters"), here.path().join("counters")).unwrap();
    (there, here)
}

/// Returns the object for the sources in a folder, with these flags.
fn object(gcc: &Compiler, folder: &Path, flags: &[&str]) -> Vec<u8> {
    gcc.run(folder, gcc.c, &[flags, &["-c", "work.c", "-o", "work.o"]].concat());
    std::fs::read(folder.join("work.o")).unwrap()
}

pub fn counters_reach_a_build_elsewhere(gcc: &'static Compiler) {
    let (there, here) = trained(gcc);
    let profile = read(&there.path().join("p.gv"));
    for function in ["\"main\" [counters=\"work.c@", "\"step\" [file=\"work.c\", counters=\"work.c@"] {
        assert!(profile.contains(function), "{profile}");
    }
    // It contains no paths.
    assert!(!profile.contains(there.path().to_str().unwrap()), "{profile}");
    let again = gcc.folder();
    for file in ["work.c", "counters"] {
        std::fs::copy(here.path().join(file), again.path().join(file)).unwrap();
    }
    let plugin = gcc.plugin();
    let with = [&USE[..], &[&plugin, COUNTERS]].concat();
    let one = object(gcc, here.path(), &with);
    assert!(one == object(gcc, again.path(), &with), "objects of two folders differ");
    // -fprofile-use alone changes objects, too. Therefore the object is compared with one for a file without counters.
    let text = read(&again.path().join("counters"));
    std::fs::write(again.path().join("counters"), &text[..=text.find('\n').unwrap()]).unwrap();
    assert!(one != object(gcc, again.path(), &with), "counters change nothing");
}

pub fn changed_functions_are_compiled_without_counters(gcc: &'static Compiler) {
    let (_there, here) = trained(gcc);
    let moved = format!("\n\n{}", WORK.replace("x / 2 + 1", "x > 5 ? x / 2 : 1 + x / 3"));
    std::fs::write(here.path().join("work.c"), moved).unwrap();
    let output = gcc.run(
        here.path(),
        gcc.c,
        &[&USE[..], &[&gcc.plugin(), COUNTERS, "-static", "work.c", "-o", "work"]].concat(),
    );
    // `rare` has too few executions.
    assert!(err(&output).contains("work.c: 1 of 2 functions"), "{}", err(&output));
    assert_eq!(ran(&here, "work", &[]).1, Some(0));
}

pub fn whatever_counters_say_the_program_is_the_same(gcc: &'static Compiler) {
    let (_there, here) = trained(gcc);
    gcc.run(here.path(), gcc.c, &["-O2", "-static", "work.c", "-o", "work"]);
    let expected = ran(&here, "work", &[]);
    let text = read(&here.path().join("counters"));
    let huge = "4611686018427387903";
    let forged = [
        text.replace("5000", huge),
        text.replace("5000", "0"),
        text.replace(" 5", " 7 5*100"),
        text.replace(" | top", " | top 9 8=7:1=9,2=9 0=1 | bits 77 | top"),
        text.replace(
            "top ",
            &format!(
                "top 3 0={huge}:{huge}=1,16={huge} 1=1 | average {huge} 1 | interval 1 2 3 | power 1 | top "
            ),
        ),
        text.replace("\t", " "),
        text[..text.len() / 2].to_owned(),
        text.replace(" 0*", " 4000000000*"),
        swapped(&text, "main", "step"),
        // Sums beyond 64 bits, and a first call later than GCC accepts.
        all_counts(&text, huge),
        text.replace(" | first ", " | first 3000000000"),
    ];
    for forged in forged {
        std::fs::write(here.path().join("counters"), &forged).unwrap();
        gcc.run(
            here.path(),
            gcc.c,
            &[&USE[..], &[&gcc.plugin(), COUNTERS, "-static", "work.c", "-o", "work"]].concat(),
        );
        assert_eq!(ran(&here, "work", &[]), expected, "{forged}");
    }
}

/// Returns the file with this count in the place of each.
fn all_counts(text: &str, count: &str) -> String {
    let line = |line: &str| {
        let Some((front, counts)) = line.rsplit_once('\t') else { return format!("{line}\n") };
        let counts = counts
            .split(' ')
            .map(|item| if item.starts_with(|c: char| c.is_ascii_digit()) { count } else { item });
        format!("{front}\t{}\n", counts.collect::<Vec<_>>().join(" "))
    };
    text.lines().map(line).collect()
}

/// Returns the file with the checksums of two functions exchanged: each has counts that contradict its graph.
fn swapped(text: &str, one: &str, other: &str) -> String {
    let checksums = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}\t"))).unwrap();
        line.split('\t').nth(3).unwrap()
    };
    let [first, second] = [one, other].map(checksums);
    assert_ne!(first, second);
    text.replace(first, "?").replace(second, first).replace('?', second)
}

/// Block counts of a build with counters: blocks with count zero are split off as without counters. GCC's probabilities
/// come from the same work there, not from guesses that contradict the counts.
pub fn blocks_on_top_of_counters_are_split(gcc: &'static Compiler) {
    let folder = blocks::sources(gcc);
    gcc.run(folder.path(), gcc.c, &[&TRAIN[..], &["-static", "work.c", "-o", "train"]].concat());
    assert_eq!(ran_in(&folder), Some(0));
    done(&sediment(folder.path(), &["import", ".", "-o", "p.gv"]));
    done(&sediment(folder.path(), &["export", "p.gv", "--format", "counters", "-o", "counters"]));
    let plugin = gcc.plugin();
    let build = |more: &str, program: &str| {
        let with = [&USE[..], &["-g", "-static", &plugin, COUNTERS, more, "work.c", "-o", program]].concat();
        gcc.run(folder.path(), gcc.c, &with);
    };
    build(blocks::MARKS, "train");
    blocks::record(&folder, &[]);
    build(blocks::COUNTS, "used");
    let symbols = Command::new("nm").arg(folder.path().join("used")).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    assert!(symbols.contains(" work.cold\n"), "{symbols}");
    for arguments in [&[][..], &["0"], &["7"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
    }
}

/// Trains in the folder, below which the counts are written; returns the exit code.
fn ran_in(folder: &TempDir) -> Option<i32> {
    let mut train = Command::new("./train");
    let train = train.current_dir(folder.path()).env("GCOV_PREFIX", folder.path().join("elsewhere"));
    train.output().unwrap().status.code()
}

/// Builds with SEDIMENT_LOG, and reads from the log, for each unit, the number of functions with counters, and of
/// changed functions among them.
pub fn build_logged(gcc: &Compiler, folder: &Path, flags: &[&str]) -> Vec<(u64, u64)> {
    let _ = std::fs::remove_dir_all(folder.join("log"));
    let mut command = gcc.command(folder, gcc.c);
    let output = command.args(flags).env("SEDIMENT_LOG", "log").output().unwrap();
    assert!(output.status.success(), "{flags:?}: {}", err(&output));
    let log = read(&folder.join("log/counters.jsonl"));
    let line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (line["functions"].as_u64().unwrap(), line["changed"].as_u64().unwrap())
    };
    log.lines().map(line).collect()
}

/// One source in two configurations of a package: each build uses the matching counters, and both programs are correct.
pub fn two_configurations_of_a_unit(gcc: &'static Compiler) {
    let there = gcc.folder();
    let work = WORK.replace(
        "return x / 2 + 1; }",
        "\n#ifdef OTHER\n if (x % 3) return x + 5;\n#endif\n return x / 2 + 1; }",
    );
    std::fs::write(there.path().join("work.c"), work).unwrap();
    let configurations = [("one", "-DONE"), ("two", "-DOTHER")];
    let mut printed = Vec::new();
    for (name, define) in configurations {
        let object = format!("{name}.o");
        gcc.run(there.path(), gcc.c, &[&TRAIN[..], &[define, "-c", "work.c", "-o", &object]].concat());
        gcc.run(there.path(), gcc.c, &[&TRAIN[..], &["-static", &object, "-o", name]].concat());
        let mut train = Command::new(there.path().join(name));
        let output = train.env("GCOV_PREFIX", there.path().join("elsewhere")).output().unwrap();
        printed.push((output.stdout, output.status.code()));
    }
    done(&sediment(there.path(), &["import", ".", "-o", "p.gv"]));
    done(&sediment(there.path(), &["export", "p.gv", "--format", "counters", "-o", "counters"]));
    let mut all_changed = 0;
    for ((name, define), expected) in configurations.iter().zip(&printed) {
        let plugin = gcc.plugin();
        let with = [&USE[..], &[&plugin, COUNTERS, define, "-static", "work.c", "-o", name]].concat();
        let [(functions, changed)] = build_logged(gcc, there.path(), &with)[..] else { panic!("one unit") };
        assert_eq!(&ran(&there, name, &[]), expected, "{name}");
        // The functions are the same, so both are one unit: the lighter configuration has another graph of `step`.
        assert!(functions == 3 && changed <= 1, "{name}: {changed} of {functions}");
        all_changed += changed;
    }
    assert_eq!(all_changed, 1);
}

/// Damaged files from another run in a folder are skipped; if the user gives such a file, it is an error.
pub fn damaged_files_of_counters(gcc: &'static Compiler) {
    let (there, _here) = trained(gcc);
    let elsewhere = |folder: &Path| -> Vec<std::path::PathBuf> {
        let found = Command::new("find").arg(folder).args(["-name", "*.gcda"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap().lines().map(Into::into).collect()
    };
    let [whole] = &elsewhere(there.path())[..] else { panic!("one file of counts") };
    let bytes = std::fs::read(whole).unwrap();
    let cut = whole.with_file_name("cut.gcda");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    done(&sediment(there.path(), &["import", ".", "-o", "again.gv"]));
    assert_eq!(read(&there.path().join("again.gv")), read(&there.path().join("p.gv")));
    let named = sediment(there.path(), &["import", cut.to_str().unwrap(), ".", "-o", "named.gv"]);
    assert_eq!(named.status.code(), Some(1), "{}", err(&named));
    assert!(!there.path().join("named.gv").exists());
    // Counts of a build whose names belong to another build.
    std::fs::remove_file(&cut).unwrap();
    let mut other = bytes;
    other[8] ^= 1;
    std::fs::write(whole, &other).unwrap();
    let refused = sediment(there.path(), &["import", ".", "-o", "other.gv"]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
}
