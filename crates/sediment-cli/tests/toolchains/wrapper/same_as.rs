// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --same-as`: an ordered file and an unordered one are the same, also for packagers' tools; and every
//! difference is found.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use serde_json::Value;
use std::process::{Command, Output};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let tools = [gcc, Need::Program("objcopy"), Need::Program("strip")];
    vec![
        case("nothing_but_the_order_differs", &[gcc, Need::Program("strip")], same_as),
        case("packagers_see_the_same", &tools, tools_agree),
        case("differences_for_debuggers_are_named", &tools, tools_disagree),
        case("tools_that_are_missing_are_named", &[gcc], missing_tools),
    ]
}

const HARDENED: [&str; 4] = ["-g", "-fcf-protection", "-Wl,-z,relro,-z,now", "-Wl,--build-id=sha1"];

/// Links the program without the wrapper.
fn plain(build: &BuildFolder, arguments: &[&str], output: &str) {
    let output = build.link(
        Command::new("gcc").current_dir(build.0.path()).args(["-O2", "-w", "-o", output]).args(arguments),
    );
    assert!(output.status.success(), "{}", said(&output));
}

/// A program with its order, and `base` without one.
fn ordered() -> BuildFolder {
    let build = BuildFolder::new();
    let output = build.link(build.compiler("gcc").args(HARDENED).args(["-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["outcome"], "ordered");
    plain(&build, &HARDENED, "base");
    build
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn same_as() {
    let build = ordered();
    let same = |base: &str, file: &str| sediment(&build, &["verify", file, "--same-as", base]);
    let output = same("base", "prog");
    assert!(output.status.success(), "{}{}", text(&output), said(&output));
    let rows: &[(&[&str], &str)] = &[
        (
            &["-g", "-fcf-protection", "-no-pie", "-Wl,-z,relro,-z,now", "-Wl,--build-id=sha1"],
            "position independent",
        ),
        (&["-g", "-fcf-protection", "-Wl,-z,norelro,-z,now", "-Wl,--build-id=sha1"], "RELRO"),
        (&["-g", "-fcf-protection", "-Wl,-z,relro,-z,lazy", "-Wl,--build-id=sha1"], "BIND_NOW"),
        (&["-g", "-fcf-protection", "-Wl,-z,relro,-z,now", "-Wl,--build-id=none"], "build-id"),
        (
            &["-g", "-fcf-protection", "-Wl,-z,relro,-z,now,-z,execstack", "-Wl,--build-id=sha1"],
            "executable stack",
        ),
        (
            &[
                "-g",
                "-fcf-protection",
                "-Wl,-z,relro,-z,now",
                "-Wl,--build-id=sha1",
                "-fno-asynchronous-unwind-tables",
            ],
            "unwind tables",
        ),
        (&["-fcf-protection", "-Wl,-z,relro,-z,now", "-Wl,--build-id=sha1"], "source lines"),
        (
            &[
                "-g",
                "-fcf-protection",
                "-Wl,-z,relro,-z,now",
                "-Wl,--build-id=sha1",
                "-Wl,--no-as-needed",
                "-lm",
            ],
            "needed libraries",
        ),
    ];
    for (arguments, what) in rows {
        plain(&build, arguments, "changed");
        let output = same("base", "changed");
        let text = text(&output);
        let said = text.lines().any(|line| line.contains("DIFFERENT") && line.contains(what));
        assert!(output.status.code() == Some(5) && said, "{what}: {text}");
    }
    let strip = Command::new("strip").arg(build.path("prog")).status().unwrap();
    assert!(strip.success());
    assert!(text(&same("base", "prog")).contains("symbol names"));
}

/// Returns the check with this name from the JSON.
fn check<'a>(report: &'a Value, what: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|check| check["what"] == what).unwrap_or_else(|| panic!("no {what} in {report}"))
}

fn tools_agree() {
    let build = ordered();
    let output = sediment(&build, &["verify", "prog", "--same-as", "base", "--log", "log", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report}");
    assert_eq!(report["unchecked"], serde_json::json!([]), "{report}");
    let apart = check(&report, "stripped, with a separate debug file")["this"].as_str().unwrap();
    assert!(!apart.starts_with("0 of"), "{apart}");
    let links = &report["link_milliseconds"];
    assert!(links["this"].is_u64() && links["order"].is_u64() && links["base"].is_null(), "{links}");
    assert!(report["sizes"]["this"]["debug"].as_u64().unwrap() > 0);
    // Without an order, but through the wrapper: its log also has the time of that link.
    std::fs::create_dir(build.path("none")).unwrap();
    let mut compiler = build.compiler("gcc");
    let output =
        build.link(compiler.env("PROF_DIR", build.path("none")).args(HARDENED).args(["-o", "again"]));
    assert!(output.status.success());
    let output = sediment(&build, &["verify", "prog", "--same-as", "again", "--log", "log", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let links = &report["link_milliseconds"];
    assert!(links["base"].is_u64() && links["this"].is_u64(), "{report}");
    // A file that is not a program is named, whichever of the two it is.
    for pair in [["prog", "main.c"], ["main.c", "prog"]] {
        let output = sediment(&build, &["verify", pair[0], "--same-as", pair[1]]);
        assert!(output.status.code() == Some(1) && said(&output).contains("main.c: "), "{}", said(&output));
    }
    // Another BINARY with the common log.
    assert_eq!(sediment(&build, &["verify", "prog", "--log", "log"]).status.code(), Some(2));
}

fn tools_disagree() {
    let build = ordered();
    let moved = format!("\n{}", crate::build::source('b'));
    std::fs::write(build.path("b.c"), moved).unwrap();
    plain(&build, &HARDENED, "changed");
    let output = sediment(&build, &["verify", "changed", "--same-as", "base", "--json"]);
    assert_eq!(output.status.code(), Some(5));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = check(&report, "functions with their source lines");
    assert!(lines["same"] == false && lines["base"].as_str().unwrap().contains(" at b.c:"), "{lines}");
    assert_eq!(check(&report, "stripped, with a separate debug file")["same"], true);
}

fn missing_tools() {
    let build = ordered();
    let output = Command::new(env!("CARGO_BIN_EXE_sediment"))
        .args(["verify", "prog", "--same-as", "base"])
        .current_dir(build.0.path())
        .env("PATH", build.path("nowhere"))
        .output()
        .unwrap();
    let said_so = text(&output);
    let is_named = |line: &str| line.contains("unchecked") && line.contains(" objcopy: ");
    assert!(output.status.success() && said_so.lines().any(is_named), "{said_so}");
}
