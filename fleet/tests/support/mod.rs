// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic profiles, calls of the program, and the library's merge.

#![allow(dead_code)] // shared by several test programs

use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::{Profile, text};
use sediment_core::random::Generator;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A profile with calls, affinity, samples, first uses, GCC's counters, and blocks.
pub(crate) fn profile(number: u64) -> String {
    let mut random = Generator::new(number);
    let mut below = |limit: usize| random.below(limit);
    let version = below(3);
    let with_blocks = number.is_multiple_of(3);
    let (blocks, header) = if with_blocks { (3, ", blocks_total=1000") } else { (2, "") };
    let mut text = format!(
        "digraph Callgraph {{ graph [sediment={blocks}, source=\"perf\", unit=calls, total={}, arch=\"x86_64\", inputs=1, covered=0.9{}{header}];\n",
        10_000 + below(1000),
        below(10)
    );
    let _ = writeln!(
        text,
        "subgraph cluster0 {{ graph [label=\"libq.so.1\", build_id=\"00ff\"]; \"shared\"; \"only_{}\" [size=8]; }}",
        number % 40
    );
    let _ = writeln!(
        text,
        "subgraph cluster1 {{ graph [label=\"prog\", build_id=\"ab{version:02}\", package=\"prog-1.{version}-1\"];"
    );
    for function in 0..12 {
        let size = 16 + 16 * ((function + version) % 5);
        let _ = write!(text, "\"f{function}\" [size={size}, samples={}, first={}", below(50), below(30));
        if function == 1 {
            let _ = write!(text, ", heat=hot, alias=\"alias of\"");
        }
        if with_blocks && function < 4 {
            let _ =
                write!(text, ", blocks=\"8f3a90c{version}:1={} 2=? 4={}@20c3\"", 1 + below(90), below(20));
        }
        text.push_str("];\n");
    }
    text.push_str("}\n");
    for edge in 0..30 {
        let (caller, callee) = (edge % 12, (edge * 7 + 3) % 12);
        let kind = if edge % 9 == 0 { ", kind=uncertain" } else { "" };
        let _ = writeln!(
            text,
            "\"f{caller}\" -> \"f{callee}\" [count={}, near={}{kind}];",
            1 + below(300),
            below(9)
        );
    }
    let _ = writeln!(
        text,
        "\"f0\" -> \"shared\" [count={}];\n\"f1\" -> \"only_{}\" [count=1];\n}}",
        1 + below(9),
        number % 40
    );
    text
}

/// Writes profiles as DIR/SUBMITTER/CLASS/DAY/NUMBER.gv.
pub(crate) fn write(folder: &Path, numbers: impl IntoIterator<Item = u64>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for number in numbers {
        let class = ["desktop", "server"][(number % 2) as usize];
        let inside = folder.join(format!("s{}/{class}/2026-10-0{}", number % 7, 1 + number % 5));
        std::fs::create_dir_all(&inside).unwrap();
        let path = inside.join(format!("{number}.gv"));
        std::fs::write(&path, profile(number)).unwrap();
        paths.push(path);
    }
    paths
}

/// The output of `sediment merge` for files.
pub(crate) fn merged_by_core(paths: &[PathBuf]) -> String {
    let read = |path: &PathBuf| text::parse(&std::fs::read(path).unwrap()).unwrap().0;
    let profiles: Vec<Profile> = paths.iter().map(read).collect();
    let inputs: Vec<(&Profile, Weight)> = profiles.iter().map(|profile| (profile, Weight::ONE)).collect();
    text::print(&merge(&inputs, false).unwrap())
}

pub(crate) fn fleet(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sediment-fleet")).args(arguments).output().unwrap()
}

/// Runs the program, which must succeed. Returns its output.
pub(crate) fn run(arguments: &[&str]) -> String {
    let output = fleet(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program, which must fail with this code. Returns its messages.
pub(crate) fn refused(arguments: &[&str], code: i32) -> String {
    let output = fleet(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    errors
}

pub(crate) const LAYOUT: &str = "submitter/host-class/day";

/// Adds a folder of profiles to a dataset.
pub(crate) fn ingest(dataset: &str, folder: &Path) -> String {
    run(&["ingest", dataset, folder.to_str().unwrap(), "--layout", LAYOUT])
}

/// The merged profile of a dataset in which recordings count alike.
pub(crate) fn merge_of(dataset: &str, folder: &Path, options: &[&str]) -> String {
    merge_alike(dataset, folder, &[&["--by-recordings"], options].concat())
}

/// The merged profile of a dataset in which submitters count alike.
pub(crate) fn merge_alike(dataset: &str, folder: &Path, options: &[&str]) -> String {
    let output = folder.join("merged.gv");
    let mut arguments = vec!["merge", dataset, "-o", output.to_str().unwrap()];
    arguments.extend(options);
    run(&arguments);
    std::fs::read_to_string(output).unwrap()
}

/// Prints that a case is skipped, and why. If everything is required, that is a failure.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("SEDIMENT_REQUIRE_ALL").is_none_or(|all| all != "1"), "not run: {reason}");
    println!("skipped: {reason}");
}
