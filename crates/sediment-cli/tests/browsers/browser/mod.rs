// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests reports in a browser: `tests/browsers/browser/report.py` drives Chromium, or Firefox with
//! SEDIMENT_BROWSER=firefox. SEDIMENT_SCREENSHOTS is a folder for screenshots.

use crate::running::{done, sediment};
use libtest_mimic::Trial;
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::callgraph::GroupKind;
use sediment_core::profile::FunctionKey;
use sediment_order::report::layout::{
    self, LayoutReport, ProfileByName, ProfileCalls, ProfiledFunction, ReportedProgram,
};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::case;

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case(
            "a_report_is_searched_clicked_and_read_by_keyboard_and_touch",
            &[],
            a_report_is_searched_clicked_and_read_by_keyboard_and_touch,
        ),
        case("names_of_strangers_run_nothing", &[], names_of_strangers_run_nothing),
        case(
            "linkage_names_are_found_and_small_files_have_functions",
            &[],
            linkage_names_are_found_and_small_files_have_functions,
        ),
        case(
            "reports_of_one_function_and_of_two_hundred_thousand_open",
            &[],
            reports_of_one_function_and_of_two_hundred_thousand_open,
        ),
    ]
}

/// Runs a check of a report; false without a browser.
fn is_driven(check: &str, page: &Path) -> bool {
    let is_there = |program: &str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let is_firefox = std::env::var_os("SEDIMENT_BROWSER").is_some_and(|browser| browser == "firefox");
    let needed = if is_firefox { ["geckodriver", "python3"] } else { ["chromedriver", "python3"] };
    let browsers: &[&str] = if is_firefox { &["firefox", "firefox-esr"] } else { &["chromium"] };
    let no_browser = (!browsers.iter().any(|program| is_there(program))).then_some(browsers[0]);
    if let Some(missing) = needed.into_iter().find(|program| !is_there(program)).or(no_browser) {
        support::skip(&format!("{missing} is missing"));
        return false;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browsers/browser/report.py");
    let screenshots = std::env::var_os("SEDIMENT_SCREENSHOTS").filter(|folder| !folder.is_empty());
    let found = Command::new("python3")
        .arg("-B")
        .arg(script)
        .arg(check)
        .arg(page)
        .args(screenshots)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&found.stdout).into_owned() + &String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{said}");
    true
}

fn a_report_is_searched_clicked_and_read_by_keyboard_and_touch() {
    let folder = tempfile::tempdir().unwrap();
    let mut code = String::from("volatile int sink;\n");
    let mut profile = String::from(
        "digraph Callgraph {\n  graph [sediment=2, unit=calls, total=101202];\n  subgraph cluster0 {\n    graph [label=\"prog\"];\n    \"main\" [first=0];\n",
    );
    let mut calls = String::new();
    for function in 0..400 {
        writeln!(code, "__attribute__((noinline)) int f{function}(int x) {{ for (int i = 0; i < x; i++) sink += i * {function}; return sink; }}").unwrap();
        if function % 20 == 0 {
            writeln!(profile, "    \"f{function}\" [first={}];", function + 1).unwrap();
            writeln!(calls, "  \"main\" -> \"f{function}\" [label=0.05, count=60];").unwrap();
        }
    }
    profile += "  }\n  subgraph cluster1 {\n    graph [label=\"libc.so.6\"];\n    \"malloc\"; \"__minimal_malloc\";\n";
    calls += "  \"f0\" -> \"malloc\" [count=100000];\n  \"f20\" -> \"__minimal_malloc\" [count=2];\n";
    code += "int main(void) { int sum = 0;\n";
    for function in 0..400 {
        writeln!(code, "sum += f{function}({function});").unwrap();
    }
    code += "return sum & 1; }\n";
    std::fs::write(folder.path().join("prog.c"), code).unwrap();
    std::fs::write(folder.path().join("p.gv"), format!("{profile}  }}\n{calls}}}\n")).unwrap();
    let linked = Command::new("cc")
        .args(["-O1", "-ffunction-sections", "prog.c", "-o", "prog"])
        .current_dir(folder.path())
        .status();
    if !linked.is_ok_and(|status| status.success()) {
        return support::skip("cc is missing");
    }
    done(&sediment(folder.path(), &["report", "p.gv", "--binary", "prog", "-o", "layout.html"]));
    is_driven("use", &folder.path().join("layout.html"));
}

/// Makes a report with functions of these names.
fn report_of(names: &[String], folder: &Path) -> std::path::PathBuf {
    let functions = names.iter().zip(0..).map(|(name, at)| BinaryFunction {
        name: name.clone(),
        address: 0x1000 + 80 * at,
        size: 76,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    });
    let binary = Binary { functions: functions.collect(), ..Binary::default() };
    let key = |name: &String| FunctionKey { dso: None, name: name.clone(), file: None };
    let keys: Vec<FunctionKey> =
        names.iter().step_by(if names.len() > 1000 { 50 } else { 1 }).map(key).collect();
    let heat = keys
        .iter()
        .zip(1..)
        .map(|(key, weight)| (key, ProfiledFunction { weight, group: GroupKind::Hot, first: Some(weight) }));
    let heat = ProfileByName::of(heat);
    let before = layout::linked("before", &binary, &heat);
    let after = layout::predicted("after", &before, keys.iter().rev().map(|key| key.name.as_str()));
    let objects =
        before.functions.iter().map(|function| (function.address, function.name.to_owned())).collect();
    let name = names[0].clone();
    let calls = ProfileCalls::default();
    let program = ReportedProgram {
        name: name.clone(),
        before,
        after,
        objects,
        calls,
        verdict: name.clone(),
        ..ReportedProgram::default()
    };
    let page = layout::html(&LayoutReport {
        title: name,
        programs: vec![program],
        most_pages: 48,
        ..LayoutReport::default()
    });
    let path = folder.join("page.html");
    std::fs::write(&path, page).unwrap();
    path
}

fn names_of_strangers_run_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = [
        "<script>window.broken=1</script>",
        "</script><script>window.broken=2</script>",
        "<img src=x onerror=window.broken=3>",
        "\" onclick=\"window.broken=4",
        "a\u{202e}txt.exe\u{2066}",
        "عربي_שלום",
        "e\u{301}\u{301}\u{301}\u{301}_combining",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(["w".repeat(4096)])
    .collect();
    is_driven("hostile", &report_of(&names, folder.path()));
}

fn linkage_names_are_found_and_small_files_have_functions() {
    let folder = tempfile::tempdir().unwrap();
    let name = |at: usize| format!("_ZN3srv{}mod{at}6HandleEPKci", 3 + at.to_string().len());
    let names: Vec<String> = (0..300).map(name).collect();
    is_driven("many", &report_of(&names, folder.path()));
}

fn reports_of_one_function_and_of_two_hundred_thousand_open() {
    let folder = tempfile::tempdir().unwrap();
    if is_driven("opens", &report_of(&["f1".to_owned()], folder.path())) {
        let names: Vec<String> = (0..200_000).map(|at| format!("f{at}_of_a_large_program")).collect();
        is_driven("opens", &report_of(&names, folder.path()));
    }
}
