// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment report`: the picture of a real program's layout, of an order of it, and of the program as linked with that order.

mod running;
#[path = "../../sediment/tests/support/said.rs"]
mod said;
#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use running::{done, err, sediment};
use said::{says, says_in_log};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Two hundred functions, a profile of their calls, and the program; None where there is no compiler.
fn program(folder: &Path) -> Option<()> {
    let mut code = String::from("#include <stdio.h>\nvolatile int sink;\n");
    let mut profile = String::from(
        "digraph Callgraph {\n  graph [sediment=2, unit=calls, total=100000];\n  subgraph cluster0 {\n    graph [label=\"prog\"];\n    \"main\";\n",
    );
    let mut calls = String::new();
    for function in 0..200 {
        writeln!(code, "__attribute__((noinline)) int f{function}(int x) {{ for (int i = 0; i < x; i++) sink += i * {function}; return sink; }}").unwrap();
        if function % 20 == 0 {
            writeln!(profile, "    \"f{function}\" [first={function}];").unwrap();
            writeln!(calls, "  \"main\" -> \"f{function}\" [label=0.1, count=10000];").unwrap();
        }
    }
    code += "int main(void) { int sum = 0;\n";
    for function in 0..200 {
        writeln!(code, "sum += f{function}({function});").unwrap();
    }
    code += "printf(\"%d\\n\", sum); return 0; }\n";
    std::fs::write(folder.join("prog.c"), code).unwrap();
    std::fs::write(folder.join("p.gv"), format!("{profile}  }}\n{calls}}}\n")).unwrap();
    let linked = Command::new("cc")
        .args(["-O1", "-ffunction-sections", "prog.c", "-o", "prog"])
        .current_dir(folder)
        .status();
    linked.is_ok_and(|status| status.success()).then_some(())
}

/// Copies a report to the file that SEDIMENT_KEEP_REPORT names: `scripts/prove report` looks at it in browsers.
fn keep(page: &Path) {
    if let Some(kept) = std::env::var_os("SEDIMENT_KEEP_REPORT") {
        std::fs::copy(page, kept).unwrap();
    }
}

#[test]
fn before_and_after_of_a_real_program() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let report = |more: &[&str]| {
        let arguments = [&["report", "p.gv", "--binary", "prog", "-o", "layout.html"], more].concat();
        done(&sediment(folder.path(), &arguments));
        std::fs::read_to_string(folder.path().join("layout.html")).unwrap()
    };
    let page = report(&[]);
    keep(&folder.path().join("layout.html"));
    let dated = |seconds: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
        command.args(["report", "p.gv", "--binary", "prog", "-o", "-"]).env("SOURCE_DATE_EPOCH", seconds);
        command.current_dir(folder.path()).output().unwrap()
    };
    for (seconds, day) in [("1000000000", "2001-09-09"), ("253402300799", "9999-12-31")] {
        assert!(String::from_utf8(dated(seconds).stdout).unwrap().contains(day), "{seconds}");
    }
    for seconds in ["253402300800", "18446744073709551615", "-1", "today"] {
        assert_eq!(dated(seconds).status.code(), Some(2), "{seconds}");
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    says_in_log("report/before_and_after_of_a_real_program", &page, &["<h1>", "<h2>", "<h3>"]);
    // Every function that was called is drawn with its size, heat and group, and stands in the table.
    for function in (0..200).step_by(20) {
        assert!(page.contains(&format!(">f{function}, ")), "f{function}");
        assert!(page.contains(&format!("<bdi>f{function}</bdi>")), "f{function}");
    }
    done(&sediment(
        folder.path(),
        &["order", "p.gv", "--binary", "prog", "--linker", "gnu-ld-script", "-o", "order.ld"],
    ));
    says_in_log("report/before_and_after_of_a_real_program", report(&["--order", "order.ld"]), &["<h3>"]);
    let linked = Command::new("cc")
        .args(["-O1", "-ffunction-sections", "prog.c", "-o", "ordered", "-Wl,-T,order.ld"])
        .current_dir(folder.path())
        .status();
    if linked.is_ok_and(|status| status.success()) {
        says_in_log("report/linked_with_the_order", report(&["--after", "ordered"]), &["<h3>"]);
        let verified = report(&["--after", "ordered", "--order", "order.ld"]);
        assert!(verified.contains("<dt>verify</dt><dd><bdi>100.00"), "verify's share");
        let several = report(&["--binary", "ordered"]);
        assert_eq!(several.matches("<section class=\"program\"").count(), 2);
        assert!(several.contains("href=\"#program-1\""));
    }
}

#[test]
fn undrawable_layouts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    std::fs::write(
        folder.path().join("other.gv"),
        "digraph g { subgraph cluster0 { graph [label=x]; a; b; } a -> b [label=1]; }",
    )
    .unwrap();
    let foreign = sediment(folder.path(), &["report", "other.gv", "--binary", "prog", "-o", "layout.html"]);
    assert_eq!(foreign.status.code(), Some(1));
    says("report/undrawable_layouts_are_refused", err(&foreign));
    assert!(!folder.path().join("layout.html").exists());
    let unequal =
        ["report", "p.gv", "--binary", "prog", "--after", "prog", "--after", "prog", "-o", "layout.html"];
    let unequal = sediment(folder.path(), &unequal);
    assert_eq!(unequal.status.code(), Some(2));
    says("report/undrawable_layouts_are_refused", err(&unequal));
    let nowhere = ["report", "p.gv", "--binary", "prog", "-o", "missing/layout.html"];
    assert_eq!(sediment(folder.path(), &nowhere).status.code(), Some(1));
}

/// The program with its profile as another: a newer version of the format, and without a call.
#[test]
fn profiles_without_calls_and_of_newer_versions() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let of = |profile: &str| {
        sediment(folder.path(), &["report", profile, "--binary", "prog", "-o", "layout.html"])
    };
    write(
        "newer.gv",
        "digraph g { graph [sediment=99, unit=calls, total=1]; subgraph cluster0 { graph [label=prog]; main; f0; } main -> f0 [count=1]; }",
    );
    let newer = of("newer.gv");
    assert_eq!(newer.status.code(), Some(1));
    says("report/profiles_without_calls_and_of_newer_versions", err(&newer));
    write(
        "silent.gv",
        "digraph g { graph [sediment=2, unit=calls, total=0]; subgraph cluster0 { graph [label=prog]; main; f0; } }",
    );
    done(&of("silent.gv"));
    let page = std::fs::read_to_string(folder.path().join("layout.html")).unwrap();
    says_in_log("report/profiles_without_calls_and_of_newer_versions", page, &["class=\"headline\""]);
    // A folder stands where the page should.
    std::fs::create_dir(folder.path().join("folder.html")).unwrap();
    let at_a_folder = sediment(folder.path(), &["report", "p.gv", "--binary", "prog", "-o", "folder.html"]);
    assert_eq!(at_a_folder.status.code(), Some(1));
    says("report/profiles_without_calls_and_of_newer_versions", err(&at_a_folder));
}

/// Functions with names as C++ has them, four thousand of them called, thirty thousand calls.
#[test]
fn a_report_of_42_000_functions_has_at_most_10_mb() {
    const FUNCTIONS: usize = 42_000;
    let folder = tempfile::tempdir().unwrap();
    let name = |at: usize| {
        let (class, method) = (format!("Component{}", at / 12), format!("handle_request_{at}"));
        format!(
            "_ZN6server7storage{}{class}{}{method}ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            class.len(),
            method.len()
        )
    };
    // What any assembler takes; nothing of it is run.
    let mut code = String::from(".section .note.GNU-stack,\"\"\n");
    for at in 0..=FUNCTIONS {
        let name = if at == FUNCTIONS { "main".to_owned() } else { name(at) };
        let size = 40 + at * 7919 % 400;
        writeln!(code, ".section .text.{name},\"ax\"\n.globl {name}\n.type {name},%function\n{name}: .skip {size}\n.size {name},.-{name}").unwrap();
    }
    std::fs::write(folder.path().join("prog.s"), code).unwrap();
    let mut profile = String::from(
        "digraph g { graph [sediment=2, unit=calls, total=30000000]; subgraph cluster0 { graph [label=prog];\n",
    );
    for at in (0..FUNCTIONS).step_by(10) {
        writeln!(profile, "\"{}\" [first={at}];", name(at)).unwrap();
    }
    profile += "}\n";
    for call in 0..30_000 {
        let (from, to) = (call % 4200 * 10, call * 31 % 4200 * 10);
        writeln!(profile, "\"{}\" -> \"{}\" [count={}];", name(from), name(to), 1 + 100_000 / (1 + call))
            .unwrap();
    }
    std::fs::write(folder.path().join("p.gv"), profile + "}\n").unwrap();
    let linked = Command::new("cc").args(["prog.s", "-o", "prog"]).current_dir(folder.path()).status();
    if !linked.is_ok_and(|status| status.success()) {
        return support::skip("cc is missing");
    }
    done(&sediment(folder.path(), &["report", "p.gv", "--binary", "prog", "-o", "layout.html"]));
    let size = std::fs::metadata(folder.path().join("layout.html")).unwrap().len();
    assert!((1_000_000..=10_000_000).contains(&size), "{size} bytes");
    keep(&folder.path().join("layout.html"));
}
