// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --same-as`: an ordered file and an unordered one are the same, to gdb and the tools of packagers, too; and whatever is
//! not is found.

use super::sediment;
use crate::build::{Build, said};
use libtest_mimic::Trial;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let tools = [gcc, Need::Program("gdb"), Need::Program("objcopy"), Need::Program("strip")];
    vec![
        case("nothing_but_the_order_differs", &[gcc, Need::Program("strip")], same_as),
        case("debuggers_and_packagers_see_the_same", &tools, tools_agree),
        case("differences_for_debuggers_are_named", &tools, tools_disagree),
        case("callers_are_the_same_where_both_files_run", &tools, backtraces),
        case("tools_that_are_missing_are_named", &[gcc], missing_tools),
    ]
}

const HARDENED: [&str; 4] = ["-g", "-fcf-protection", "-Wl,-z,relro,-z,now", "-Wl,--build-id=sha1"];

/// Links the program without the wrapper.
fn plain(build: &Build, arguments: &[&str], output: &str) {
    let output = build.link(
        Command::new("gcc").current_dir(build.0.path()).args(["-O2", "-w", "-o", output]).args(arguments),
    );
    assert!(output.status.success(), "{}", said(&output));
}

/// A program in its order, and as `base` without one.
fn ordered() -> Build {
    let build = Build::new();
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

/// The check of this name in JSON.
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
    // The functions of the order: all_a, all_b, main, two called twin, and six of each file.
    assert_eq!(check(&report, "gdb breaks by name")["this"], "16 of 16", "{report}");
    assert_eq!(check(&report, "gdb breaks by line")["this"], "16 of 16");
    let apart = check(&report, "stripped, with a debug file apart")["this"].as_str().unwrap();
    assert!(!apart.starts_with("0 of"), "{apart}");
    let links = &report["link_milliseconds"];
    assert!(links["this"].is_u64() && links["order"].is_u64() && links["base"].is_null(), "{links}");
    assert!(report["sizes"]["this"]["debug"].as_u64().unwrap() > 0);
    // Without an order, but through the wrapper: its log times that link, too.
    std::fs::create_dir(build.path("none")).unwrap();
    let mut compiler = build.compiler("gcc");
    let output =
        build.link(compiler.env("PROF_DIR", build.path("none")).args(HARDENED).args(["-o", "again"]));
    assert!(output.status.success());
    let output = sediment(&build, &["verify", "prog", "--same-as", "again", "--log", "log", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let links = &report["link_milliseconds"];
    assert!(links["base"].is_u64() && links["this"].is_u64(), "{report}");
    // Without debug information there are no lines.
    plain(&build, &["-Wl,--build-id"], "bare");
    let words = text(&sediment(&build, &["verify", "bare", "--same-as", "bare"]));
    let line = words.lines().find(|line| line.contains("gdb breaks by line"));
    assert!(line.is_some_and(|line| line.contains("unchecked")), "{words}");
    // What is no program is named, whichever of the two it is.
    for pair in [["prog", "main.c"], ["main.c", "prog"]] {
        let output = sediment(&build, &["verify", pair[0], "--same-as", pair[1]]);
        assert!(output.status.code() == Some(1) && said(&output).contains("main.c: "), "{}", said(&output));
    }
    // Another BINARY with the log of all of them.
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
    for what in ["gdb breaks by name", "gdb breaks by line"] {
        let check = check(&report, what);
        assert!(check["same"] == false && check["base"].as_str().unwrap().contains("at b.c:"), "{check}");
    }
    assert_eq!(check(&report, "stripped, with a debug file apart")["same"], true);
}

fn backtraces() {
    let build = ordered();
    let run = |base: &str, arguments: &[&str]| {
        let words = ["verify", "prog", "--same-as", base, "--log", "log", "--backtrace", "--json"];
        sediment(&build, &[&words, arguments].concat())
    };
    let output = run("base", &[]);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert!(output.status.success(), "{report}");
    assert_eq!(check(&report, "backtraces")["this"], "first calls: 8");
    // With two arguments main calls in another way; its own line is the same.
    let main = "volatile int sink;\nextern int all_a(int), all_b(int); \
        __attribute__((noinline, noclone)) int between(int x) { return all_b(all_a(x)) + 1; }\n\
        int main(int argc, char **argv) { return (argc > 2 ? between(argc) : all_b(all_a(argc))) == 12345; }\n";
    std::fs::write(build.path("main.c"), main).unwrap();
    plain(&build, &HARDENED, "changed");
    let seen = |arguments: &[&str]| {
        let output = run("changed", arguments);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        check(&report, "backtraces").clone()
    };
    assert_eq!(seen(&["--", "one"])["same"], true);
    let other = seen(&["--", "one", "a 'second' one"]);
    assert!(other["same"] == false && other["base"].as_str().unwrap().contains("< between ("), "{other}");
    // What cannot be run shows no backtrace, and that is no success.
    let shared = build.link(
        Command::new("gcc")
            .current_dir(build.0.path())
            .args(["-O2", "-w", "-shared", "-fPIC", "-o", "lib.so"]),
    );
    assert!(shared.status.success());
    let output = sediment(&build, &["verify", "lib.so", "--same-as", "lib.so", "--backtrace"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("/lib.so: "), "{}", said(&output));
}

fn missing_tools() {
    let build = ordered();
    let words = ["verify", "prog", "--same-as", "base"];
    let run = |more: &[&str], folder: &str| {
        Command::new(env!("CARGO_BIN_EXE_sediment"))
            .args(words)
            .args(more)
            .current_dir(build.0.path())
            .env("PATH", build.path(folder))
            .output()
            .unwrap()
    };
    let output = run(&[], "nowhere");
    let said_so = text(&output);
    let unchecked = |text: &str, why: &str| {
        text.lines().filter(|line| line.contains("unchecked") && line.contains(why)).count()
    };
    assert_eq!((unchecked(&said_so, " gdb: "), unchecked(&said_so, " objcopy: ")), (2, 1), "{said_so}");
    assert!(output.status.success(), "{said_so}");
    assert_eq!(run(&["--backtrace"], "nowhere").status.code(), Some(6));
    // A debugger that does not get on.
    std::fs::create_dir(build.path("tools")).unwrap();
    let gdb = build.path("tools/gdb");
    std::fs::write(&gdb, "#!/bin/sh\necho no such luck >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&gdb, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said_so = text(&run(&[], "tools"));
    assert_eq!((unchecked(&said_so, "exit code 1"), unchecked(&said_so, " objcopy: ")), (2, 1), "{said_so}");
}
