// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment demo`: the whole of it with lld, and what it says where it cannot run.

use super::json::is_of_schema;
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case, linker_folder, program};

pub(crate) fn cases() -> Vec<Trial> {
    let all = [
        Need::Program("cc"),
        Need::Program("valgrind"),
        Need::LinkerFolder("lld"),
        Need::PythonModule("jsonschema"),
    ];
    let compiler = [Need::Program("cc"), Need::Program("ld")];
    vec![
        case("the_demo_shows_what_it_claims", &all, the_demo_shows_what_it_claims),
        case("without_a_compiler_it_says_what_to_install", &[], without_a_compiler_it_says_what_to_install),
        case("without_valgrind_it_says_what_to_install", &compiler, without_valgrind_it_says_what_to_install),
        case("without_a_linker_that_orders_it_says_so", &compiler, without_a_linker_that_orders_it_says_so),
        case("a_folder_that_exists_is_left_alone", &all[..2], a_folder_that_exists_is_left_alone),
        case(
            "an_interrupted_demo_leaves_nothing_behind",
            &all[..2],
            an_interrupted_demo_leaves_nothing_behind,
        ),
    ]
}

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
    command.arg("demo").args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Writes a script of the shell.
fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Before and after of a measured quantity.
fn row(report: &serde_json::Value, name: &str) -> (u64, u64) {
    let rows = report["measured"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"));
    (row["before"].as_u64().unwrap(), row["after"].as_u64().unwrap())
}

/// README's first command. Worth its time: it is the whole line, on a program that is built, recorded, ordered, verified and measured.
/// Its 4,000 functions take most of the time to compile, and less of it with -O1.
fn the_demo_shows_what_it_claims() {
    let folder = tempfile::tempdir().unwrap();
    let [kept, compiler] = ["kept", "quick-cc"].map(|name| folder.path().join(name));
    script(&compiler, "exec cc \"$@\" -O1");
    let choose = format!("--link-argument=-B{}", linker_folder("lld").unwrap().display());
    let output = demo(&["--json", "--keep", kept.to_str().unwrap(), "--cc", compiler.to_str().unwrap()])
        .args([&choose, "--link-argument=-fuse-ld=lld"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "no progress where there is no terminal");
    is_of_schema(&output.stdout, "demo").unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (before, after) = row(&report, "iTLB misses");
    assert!(after * 4 < before, "iTLB misses fell from {before} to {after} only:\n{report}");
    let (before, after) = row(&report, "pages touched");
    assert!(after * 10 < before * 9, "pages touched fell from {before} to {after} only:\n{report}");
    for file in ["program.h", "account.c", "program.gv", "program.order", "input/program", "order/program"] {
        assert!(kept.join(file).is_file(), "{file} was not kept");
    }
    assert!(!kept.join("callgrind").exists(), "the raw recording is private and is not kept");
}

fn fails_with(output: &Output, code: i32, words: &[&str]) {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(errors.contains(word), "{word} is not in: {errors}");
    }
}

fn without_a_compiler_it_says_what_to_install() {
    let output = demo(&["--cc", "no-such-compiler"]).output().unwrap();
    fails_with(&output, 6, &["no-such-compiler"]);
}

/// A search path with these programs alone.
fn with_only(folder: &Path, programs: &[&str]) {
    for name in programs {
        std::os::unix::fs::symlink(program(name).unwrap(), folder.join(name)).unwrap();
    }
}

fn without_valgrind_it_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    with_only(folder.path(), &["cc", "ld"]);
    let output = demo(&[]).env("PATH", folder.path()).output().unwrap();
    fails_with(&output, 6, &["valgrind"]);
}

fn without_a_linker_that_orders_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    script(&folder.path().join("ld"), "echo 'mold 2.42.0 (compatible with GNU ld)'");
    let choose = format!("--link-argument=-B{}", folder.path().display());
    let output = demo(&[&choose]).output().unwrap();
    fails_with(&output, 6, &["mold 2.42.0"]);
}

fn a_folder_that_exists_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&["--keep", folder.path().to_str().unwrap()]).output().unwrap();
    fails_with(&output, 1, &[folder.path().to_str().unwrap()]);
}

fn an_interrupted_demo_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    // What runs in the background is started to ignore the interrupt key; here it is to be heard.
    let mut demo = Command::new("env");
    demo.args(["--default-signal=INT", env!("CARGO_BIN_EXE_sediment"), "demo"]).env("TMPDIR", folder.path());
    let running =
        demo.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while entries() == 0 {
        assert!(begun.elapsed().as_secs() < 60, "the demo makes no folder");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let told = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(told.success());
    let output = running.wait_with_output().unwrap();
    assert_eq!(entries(), 0, "something is left");
    fails_with(&output, 130, &[]);
}
