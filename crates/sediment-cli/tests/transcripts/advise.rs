// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment advise inline` from a user's point of view, on a program built by the system's compiler.

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SOURCE: &str = "__attribute__((noinline)) static int step(int x) { return x * 3 + 1; }
int main(int count, char **words) {
  (void)words;
  for (int i = 0; i < 1000; i++) count = step(count);
  return count == 7;
}
";

const PROFILE: &str = "digraph Callgraph {
  graph [sediment=2, source=\"valgrind callgrind (Ir)\", unit=calls, total=1000];
  subgraph cluster0 {
    graph [label=\"program\"];
    \"main\" [samples=9000];
    \"step\" [samples=3000];
  }
  \"main\" -> \"step\" [label=1.000000, count=1000];
}
";

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().unwrap()
}

fn prepared() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("main.c"), SOURCE).unwrap();
    std::fs::write(folder.path().join("p.gv"), PROFILE).unwrap();
    let made = run(folder.path(), "cc", &["-O2", "-g", "-o", "program", "main.c"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

fn advise(folder: &Path, more: &[&str]) -> Output {
    let arguments = [&["advise", "inline", "p.gv", "--binary", "program"], more].concat();
    run(folder, env!("CARGO_BIN_EXE_sediment"), &arguments)
}

#[test]
fn candidates_are_named_with_what_to_change() {
    let folder = prepared();
    let output = advise(folder.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for datum in ["1. main -> step\n", " 1000 (100.00 % ", " main.c:1;", " main.c:4\n", "always_inline"] {
        assert!(text.contains(datum), "{datum}: {text}");
    }
    let output = advise(folder.path(), &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["candidates"][0]["callee"]["name"], "step");
    assert_eq!(value["candidates"][0]["calls"], "1000");
}

/// Without debug information it is not known where `step` is defined, unless it is a local function.
#[test]
fn advice_without_debug_information_has_no_lines() {
    let folder = prepared();
    let exported = SOURCE.replace(" static int step", " int step");
    for (source, is_exported) in [(exported.as_str(), true), (SOURCE, false)] {
        std::fs::write(folder.path().join("main.c"), source).unwrap();
        assert!(run(folder.path(), "cc", &["-O2", "-o", "program", "main.c"]).status.success());
        let output = advise(folder.path(), &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("main -> step") && !text.contains("main.c"), "{text}");
        assert_eq!(text.contains("-flto"), is_exported, "{text}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("sediment: warning: program ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn nothing_worth_it_is_said_so() {
    let folder = prepared();
    let output = advise(folder.path(), &["--least", "50"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" main -> step: ") && !text.contains("1. main"), "{text}");
    assert_eq!(advise(folder.path(), &["--least", "101"]).status.code(), Some(2));
}

/// `sediment eval` accepts the plan unchanged.
#[test]
fn the_plan_runs() {
    let folder = prepared();
    let variants = ["base", "inline"];
    let output = advise(
        folder.path(),
        &["--emit-plan", "plan.toml", "--build", "cc {flags} -o {output} {folder}/main.c"],
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("plan.toml")).unwrap();
    assert!(text.contains("#   main -> step: "), "{text}");
    for name in ["base", "inline", "lto", "lto and inline", "order", "order and inline", "Os", "O3"] {
        assert!(text.contains(&format!("name = \"{name}\"")), "{text}");
    }
    // Parts that need no further file, with the smallest number of blocks.
    let parts: Vec<&str> = text.split("\n[[").collect();
    let wanted = |part: &&&str| {
        !part.starts_with("variant")
            || variants.iter().any(|name| part.contains(&format!("name = \"{name}\"\n")))
    };
    let few = parts.iter().filter(wanted).copied().collect::<Vec<_>>().join("\n[[");
    std::fs::write(folder.path().join("plan.toml"), few).unwrap();
    let output =
        run(folder.path(), env!("CARGO_BIN_EXE_sediment"), &["eval", "run", "plan.toml", "--blocks", "7"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("inline"), "{report}");
}
