// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of call graphs that real compilers write without a plugin: clang's section, compared with LLVM's own reader,
//! and GCC's `-fcallgraph-info`.

use libtest_mimic::Trial;
use sediment_core::Skipped;
use sediment_core::profile::Profile;
use sediment_read::static_graph::read_unit;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::{Need, case};

const MAIN: &str = "int shared(int);
static __attribute__((noinline)) int leaf(int x) { return x * 3 + 1; }
__attribute__((noinline)) int seldom(int x) { return leaf(x) + shared(x); }
int main(int count, char **words)
{
  int sum = count;
  for (int i = 0; i < 1000; i++) {
    sum += leaf(i);
    if (i % 100 == 0)
      sum += seldom(i);
  }
  return !words || sum == 12;
}
";
const OTHER: &str = "static __attribute__((noinline)) int leaf(int x) { return x - 7; }
int shared(int x) { return leaf(x) * 2; }
";

pub(crate) fn cases() -> Vec<Trial> {
    let clang = ["clang-19", "llvm-profdata-19", "llvm-readobj-19"].map(Need::Program);
    vec![
        case("clang_counts_in_objects", &clang, clang_counts_in_objects),
        case("callgraph_info_of_gcc", &[Need::Program("gcc")], callgraph_info_of_gcc),
    ]
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn sources() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("main.c", MAIN), ("other.c", OTHER)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn unit(folder: &Path, name: &str) -> Profile {
    let bytes = std::fs::read(folder.join(name)).unwrap();
    read_unit(name, &bytes, &mut Skipped::default()).unwrap().graph
}

/// Returns the calls and counts that LLVM's own reader prints for the section.
fn as_llvm_reads(folder: &Path, object: &str) -> BTreeMap<(String, String), u128> {
    let text = run(folder, "llvm-readobj-19", &["--cg-profile", object]);
    let values = |label: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(label).map(str::trim));
        lines.map(|value| value.split(' ').next().unwrap().to_owned()).collect()
    };
    let ends = values("From:").into_iter().zip(values("To:"));
    ends.zip(values("Weight:")).map(|(ends, weight)| (ends, weight.parse().unwrap())).collect()
}

fn clang_counts_in_objects() {
    let folder = sources();
    let path = folder.path();
    run(path, "clang-19", &["-O1", "-fprofile-instr-generate", "main.c", "other.c", "-o", "counting"]);
    let status = Command::new("./counting").current_dir(path).env("LLVM_PROFILE_FILE", "run.raw").status();
    assert!(status.unwrap().success());
    run(path, "llvm-profdata-19", &["merge", "run.raw", "-o", "run.profile"]);
    for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let target = format!("--target={target}");
        let options = [&target, "-O1", "-ffreestanding", "-fprofile-instr-use=run.profile", "-c"];
        run(path, "clang-19", &[&options[..], &["main.c", "other.c"]].concat());
        for object in ["main.o", "other.o"] {
            let graph = unit(path, object);
            let name = |end| graph.key(end).name.clone();
            let calls: BTreeMap<(String, String), u128> = graph
                .edges()
                .iter()
                .map(|(caller, callee, facts)| ((name(*caller), name(*callee)), facts.count.unwrap()))
                .collect();
            assert!(!calls.is_empty());
            assert_eq!(calls, as_llvm_reads(path, object), "{target} {object}");
            assert_eq!(graph.total, calls.values().sum::<u128>());
        }
        let graph = unit(path, "other.o");
        let files: Vec<Option<&str>> =
            graph.functions().iter().map(|function| graph.key(*function).file.as_deref()).collect();
        assert_eq!(files, [Some("other.c"), None], "leaf is local, shared is not");
        // Without a profile, the objects contain no counts.
        run(path, "clang-19", &[&target, "-O1", "-ffreestanding", "-c", "main.c"]);
        assert_eq!(unit(path, "main.o").function_count(), 0);
    }
}

fn callgraph_info_of_gcc() {
    let folder = sources();
    run(folder.path(), "gcc", &["-O1", "-fcallgraph-info=su,da", "-c", "main.c", "other.c"]);
    let mut calls = Vec::new();
    for name in ["main.ci", "other.ci"] {
        let graph = unit(folder.path(), name);
        let spelt = |end| {
            let key = graph.key(end);
            key.file.as_ref().map_or(key.name.clone(), |file| format!("{}:{file}", key.name))
        };
        calls.extend(graph.edges().iter().map(|edge| format!("{} {}", spelt(edge.0), spelt(edge.1))));
    }
    let expected =
        ["main leaf:main.c", "main seldom", "seldom leaf:main.c", "seldom shared", "shared leaf:other.c"];
    assert_eq!(calls, expected);
}
