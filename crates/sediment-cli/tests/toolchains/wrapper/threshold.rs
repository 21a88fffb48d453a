// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report on the outputs in a build's log, and failed thresholds: outputs with a profile that could not be ordered,
//! files that were installed under another name, and profiles that are in two files.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = [Need::Program("gcc")];
    let tools = [Need::Program("gcc"), Need::Program("strip"), Need::Program("objcopy")];
    vec![
        case("outputs_with_a_profile_and_no_order_are_below_a_threshold", &gcc, unplaced),
        case("installed_under_another_name_it_is_found", &tools, renamed),
        case("the_settings_of_a_package_have_a_threshold", &gcc, settings),
        case("damaged_settings_are_a_warning_in_a_link_and_an_error_elsewhere", &gcc, damaged_settings),
        case("of_two_profiles_of_a_program_it_is_said_which_counts", &gcc, two_profiles),
    ]
}

fn settings() {
    let build = BuildFolder::new();
    std::fs::write(build.path("profiles/sediment.conf"), "sediment = 1\nmin-coverage = 50\n").unwrap();
    assert!(build.link_prog().status.success());
    assert_eq!(verify(&build, &[]).0, 0);
    build.profile("fixed.prof", "fixed", "");
    let stale =
        build.compiler("gcc").args(["-O2", "-w", "a.c", "b.c", "main.c", "-o", "fixed"]).output().unwrap();
    assert!(stale.status.success(), "{}", said(&stale));
    let (code, words) = verify(&build, &[]);
    assert!(code == 5 && words.contains("sediment: fixed: ") && words.contains(" 50.00 %"), "{words}");
    // The command line takes precedence over the settings, and these over the default for packages without settings.
    assert_eq!(verify(&build, &["--min-coverage", "0"]).0, 0);
    assert_eq!(verify(&build, &["--default-min-coverage", "0"]).0, 5);
    std::fs::remove_file(build.path("profiles/sediment.conf")).unwrap();
    assert_eq!(verify(&build, &["--default-min-coverage", "0"]).0, 0);
    assert_eq!(verify(&build, &["--default-min-coverage", "50"]).0, 5);
}

fn damaged_settings() {
    let build = BuildFolder::new();
    std::fs::create_dir(build.path("debian")).unwrap();
    for (settings, line, found) in [
        ("sediment = 1\nengines = 2\n", ":2: ", "\"engines = 2\""),
        ("# of the future\nsediment = 2\n", ":2: ", "\"sediment = 2\""),
        ("engine = 1\n", ":1: ", "\"engine = 1\""),
        ("sediment = 1\nkeep = gone.order prog.order\n", "/prog.order", ""),
        ("", "sediment.conf: ", ""),
    ] {
        std::fs::write(build.path("profiles/sediment.conf"), settings).unwrap();
        let linked = build.link_prog();
        let words = said(&linked);
        assert!(linked.status.success() && words.lines().count() == 1, "{words}");
        assert!(words.contains(line) && words.contains(found), "{settings}: {words}");
        assert_eq!(build.last()["outcome"], "left");
        // An older order matters to the link, and to those who add it to a package.
        let commands = [&["show", "profiles"][..], &["verify", "--log", "log"]];
        for command in &commands[..if line.ends_with("order") { 1 } else { 2 }] {
            let output = sediment(&build, command);
            let (code, words) = (output.status.code().unwrap(), said(&output));
            assert!(code == 1 && words.contains("sediment.conf"), "{command:?}: {code} {words}");
            assert!(line.ends_with("order") || words.contains(line) && words.contains(found), "{words}");
        }
    }
}

/// Returns the exit code and all output.
fn verify(build: &BuildFolder, more: &[&str]) -> (i32, String) {
    let output = sediment(build, &[&["verify", "--log", "log"], more].concat());
    (output.status.code().unwrap(), all_of(&output))
}

fn all_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &said(output)
}

fn copy(build: &BuildFolder, from: &str, to: &str) {
    let to = build.path(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(build.path(from), to).unwrap();
}

fn unplaced() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    let without_sections = |name: &str| {
        build.profile(&format!("{name}.prof"), name, "");
        let output = build.compiler("gcc").args(["a.c", "b.c", "main.c", "-o", name]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output
    };
    // Test programs of configure never count.
    without_sections("conftest");
    assert_eq!(verify(&build, &["--min-coverage", "50"]).0, 0);
    let output = without_sections("fixed");
    let last = build.last();
    assert_eq!(last["outcome"], "left");
    assert!(said(&output).contains(last["why"].as_str().unwrap()), "{}", said(&output));
    assert!(last["profile"].as_str().unwrap().ends_with("/fixed.prof"), "{last}");
    let line = "/fixed: 0.00 % ";
    let (code, words) = verify(&build, &[]);
    assert!(code == 0 && words.contains(line), "{words}");
    let (code, words) = verify(&build, &["--min-coverage", "50"]);
    assert!(code == 5 && words.contains("sediment: fixed: "), "{words}");
    let (_, json) = verify(&build, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["links"].as_array().unwrap().iter().any(|link| link["label"] == "fixed"), "{json}");
    // Only installed files count.
    copy(&build, "prog", "root/usr/bin/prog");
    let installed = ["--installed", "root", "--min-coverage", "50"];
    let (code, words) = verify(&build, &installed);
    assert!(code == 0 && words.contains("/usr/bin/prog: "), "{words}");
    copy(&build, "fixed", "root/usr/bin/fixed");
    let (code, words) = verify(&build, &installed);
    assert!(
        code == 5 && words.contains("\n/usr/bin/fixed: 0.00 %") | words.starts_with("/usr/bin/fixed: 0.00 %"),
        "{words}"
    );
    // None of its functions exists any more, which is a different case; and a damaged profile.
    let good = std::fs::read_to_string(build.path("profiles/fixed.prof")).unwrap();
    let mut stale = good.clone();
    for (name, _, _) in crate::build::hot() {
        stale = stale
            .replace(&format!("\"{name}\""), &format!("\"former_{name}\""))
            .replace(&format!("\"{name}@"), &format!("\"former_{name}@"));
        stale = stale.replace(&format!("name=\"{name}\""), &format!("name=\"former_{name}\""));
    }
    for (text, why) in [(stale.as_str(), ""), ("digraph {", "fixed.prof:1: ")] {
        std::fs::write(build.path("profiles/fixed.prof"), text).unwrap();
        assert!(build.link(build.compiler("gcc").args(["-o", "fixed"])).status.success());
        let (code, words) = verify(&build, &["--min-coverage", "50"]);
        let said = words.lines().find(|said| said.contains(line)).unwrap_or_else(|| panic!("{words}"));
        assert!(code == 5 && said.contains(why) && !said.contains("sections"), "{words}");
    }
    // A failed link leaves no output to verify.
    std::fs::write(build.path("profiles/failing.prof"), "digraph {").unwrap();
    let output = build.compiler("gcc").args(["a.c", "-o", "failing"]).output().unwrap();
    assert!(!output.status.success());
    assert!(!verify(&build, &[]).1.contains("failing:"));
    // Without a profile nothing is required of it: by its functions it could match either of the others' profiles.
    std::fs::remove_file(build.path("profiles/fixed.prof")).unwrap();
    assert!(build.link(build.compiler("gcc").args(["-o", "fixed"])).status.success());
    let (code, words) = verify(&build, &["--min-coverage", "50"]);
    assert!(code == 0 && !words.contains("/fixed: "), "{words}");
    others_have_no_threshold(&build);
}

/// Outputs that belong to no profile, although some of their names or functions do.
fn others_have_no_threshold(build: &BuildFolder) {
    // A library whose name is similar to another's, but which has none of its functions, is not a version of it.
    build.profile("kit.gv", "libkit3.13.so.1.0", "");
    std::fs::write(build.path("stub.c"), "int stub;\n").unwrap();
    let mut stub = build.compiler("gcc");
    assert!(stub.args(["-shared", "stub.c", "-o", "libkit3.so"]).status().unwrap().success());
    let (code, words) = verify(build, &["--min-coverage", "50"]);
    assert!(code == 0 && !words.contains("libkit3.so: "), "{words}");
    // Nor is a program a library only because it contains the library's one executed function, without a section of its
    // own.
    let library = "digraph Callgraph {\n  graph [sediment=2, source=\"test\", unit=calls, total=1];\n  subgraph cluster0 {\n    \
        graph [label=\"libother.so.1\"];\n    \"helper\" [samples=1];\n  }\n}\n";
    std::fs::write(build.path("profiles/library.gv"), library).unwrap();
    std::fs::write(
        build.path("helper.c"),
        "int helper(void) { return 0; }\nint main(void) { return helper(); }\n",
    )
    .unwrap();
    let output = build.compiler("gcc").args(["helper.c", "-o", "helper"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let (code, words) = verify(build, &["--min-coverage", "50"]);
    assert!(code == 0 && !words.contains("/helper: "), "{words}");
}

fn renamed() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    std::fs::write(build.path("other.c"), "int main(void) { return 3; }\n").unwrap();
    assert!(build.compiler("gcc").args(["other.c", "-o", "other"]).status().unwrap().success());
    copy(&build, "other", "root/usr/bin/other");
    let check = || verify(&build, &["--installed", "root", "--min-coverage", "95"]);
    let (code, words) = check();
    assert!(code == 5 && words.contains("/root: "), "{words}");
    let there = "root/usr/libexec/x/real-prog";
    copy(&build, "prog", there);
    let change = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        assert!(command.args(arguments).arg(build.path(there)).status().unwrap().success());
    };
    let found = |what: &str| {
        let (code, words) = check();
        assert!(code == 0 && words.contains("/usr/libexec/x/real-prog: "), "{what}: {words}");
    };
    found("as it was linked");
    change("strip", &[]);
    found("stripped");
    change("objcopy", &["-R", ".note.gnu.build-id"]);
    found("without its build-id");
    // Another file with the output's own name is not the output.
    copy(&build, "other", "root/usr/bin/prog");
    found("beside another file of its name");
    std::fs::remove_file(build.path("root/usr/bin/prog")).unwrap();
    // A second output with the same bytes, whose name equals the installed file's, takes precedence.
    std::fs::remove_dir_all(build.path("root/usr/libexec")).unwrap();
    assert!(build.link(build.compiler("gcc").args(["-o", "second"])).status.success());
    copy(&build, "second", "root/usr/bin/second");
    let (code, words) = check();
    assert!(code == 0 && words.contains("/usr/bin/second: "), "{words}");
}

fn two_profiles() {
    let build = BuildFolder::new();
    build.profile("new.gv", "prog", "");
    build.profile("old.gv", "prog", "");
    let name = |path: &serde_json::Value| {
        Path::new(path.as_str().unwrap()).file_name().unwrap().to_string_lossy().into_owned()
    };
    for (counts, others) in [("prog.prof", vec!["new.gv", "old.gv"]), ("new.gv", vec!["old.gv"])] {
        assert!(build.link_prog().status.success());
        let last = build.last();
        assert_eq!(name(&last["profile"]), counts);
        let also_in: Vec<String> = last["also_in"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(also_in, others);
        let words = verify(&build, &["--min-coverage", "95"]).1;
        assert!(words.contains(counts) && words.contains(&others.join(", ")), "{words}");
        let shown = all_of(&sediment(&build, &["show", "profiles"]));
        for other in &others {
            let files = format!("profiles/{counts} and profiles/{other} ");
            let told =
                shown.lines().find(|line| line.starts_with(&files)).unwrap_or_else(|| panic!("{shown}"));
            assert_eq!(told.matches(counts).count(), 2, "{told}");
        }
        let _ = std::fs::remove_file(build.path("profiles/prog.prof"));
    }
    std::fs::remove_file(build.path("profiles/old.gv")).unwrap();
    assert!(build.link_prog().status.success());
    assert!(!verify(&build, &[]).1.contains("old.gv"));
    let shown = sediment(&build, &["show", "--json", "profiles"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown["in_several_files"].as_array().unwrap().is_empty(), "{shown}");
    std::fs::create_dir(build.path("empty")).unwrap();
    let empty = sediment(&build, &["show", "empty"]);
    assert!(empty.status.code() == Some(1) && said(&empty).contains("empty: "), "{}", said(&empty));
}
