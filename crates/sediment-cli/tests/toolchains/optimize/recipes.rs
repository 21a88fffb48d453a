// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines that `optimize` prints for a build, pasted into the project.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    vec![
        case("a_package_gets_the_profile", &make, a_package_gets_the_profile),
        case("a_project_file_is_written_and_read", &make, a_project_file_is_written_and_read),
    ]
}

fn texts(value: &Value) -> String {
    let lines: Vec<&str> = value.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    lines.join("\n") + "\n"
}

/// Pastes the recipe of a report into the project, builds it, and checks that this number of outputs is linked in
/// order.
pub fn paste(project: &OptimizedProject, report: &Value, build: &str, outputs: usize) {
    let recipe = &report["recipe"];
    let bin = project.path("../bin");
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), bin.join("sediment"));
    // libtool does not link if the linker is in a folder with a blank.
    if recipe["place"].is_null() {
        project.shell("cp -a . ../pasted");
        paste_text(&project.path("../pasted"), recipe, build);
    } else {
        paste_text(&project.path(""), recipe, build);
    }
    let log = std::fs::read_to_string(project.path("../log/links.jsonl")).unwrap();
    let ordered = log.lines().filter(|line| line.contains("\"outcome\":\"ordered\"")).count();
    assert_eq!(ordered, outputs, "{recipe}: {log}");
}

/// Prepares shell lines in a project, with sediment on PATH.
pub fn shell(folder: &Path, lines: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.join("../bin")).chain(std::env::split_paths(&path));
    let mut command = Command::new("sh");
    command.args(["-c", lines]).current_dir(folder).stdin(Stdio::null());
    crate::projects::without_settings(&mut command);
    command
        .env("PATH", std::env::join_paths(folders).unwrap())
        .env("SEDIMENT_LOG", folder.join("../log"))
        .env("SEDIMENT_COMPILERS", folder.join("../compilers"));
    command
}

/// Pastes a recipe into a project, and builds it.
pub fn paste_text(folder: &Path, recipe: &Value, build: &str) {
    let run = |lines: &str| {
        let done = shell(folder, &format!("set -e\n{lines}")).output().unwrap();
        assert!(done.status.success(), "{lines}: {}", err(&done));
    };
    let [commands, lines] = ["commands", "lines"].map(|key| texts(&recipe[key]));
    if let Some(place) = recipe["place"].as_str() {
        let path = folder.join(place.rsplit(' ').next().unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        let text = if place.starts_with("below project()") {
            let at = text.find("project(").unwrap();
            let end = at + text[at..].find('\n').unwrap() + 1;
            format!("{}{lines}{}", &text[..end], &text[end..])
        } else {
            assert!(place.starts_with("at the end of "), "{place}");
            text + &lines
        };
        std::fs::write(&path, text).unwrap();
        run(&format!("{commands}{build}"));
    } else {
        run(&format!("{commands}{lines}"));
    }
}

fn a_package_gets_the_profile() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let control = "Source: toy\nBuild-Depends: debhelper-compat (= 13)\nMaintainer: A <a@b.example>\n\nPackage: toy\nArchitecture: any\nDescription: toy\n";
    let rules = "#!/usr/bin/make -f\n%:\n\tdh $@\n";
    std::fs::create_dir(project.path("debian")).unwrap();
    for (name, text) in [("control", control), ("rules", rules)] {
        std::fs::write(project.path("debian").join(name), text).unwrap();
    }
    let report = project.optimize(&["--train", "./toy", "--ship", "order", "--json"], &["make"]);
    let recipe = &report["recipe"];
    assert_eq!(recipe["build_system"], "debian");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), project.path("../bin/sediment")).unwrap();
    let apply = format!("PATH=\"$PWD/../bin:$PATH\"; {}", texts(&recipe["commands"]));
    project.shell(&apply);
    assert!(project.path("debian/sediment-profiles/toy.gv").is_file(), "{apply}");
    assert!(std::fs::read_to_string(project.path("debian/control")).unwrap().contains("sediment"));
}

/// Options that are not on the command line come from the file, which `--init` writes from a command line.
fn a_project_file_is_written_and_read() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let options = ["--init", "--train", "./toy \"a\"", "--level", "order", "--keep-profile", "toy.gv"];
    let written = project.run(&options, &["make"]);
    assert_eq!(code(&written), 0, "{}", err(&written));
    let again = project.run(&options, &["make"]);
    assert!(code(&again) == 2 && err(&again).contains("sediment.toml"), "{}", err(&again));
    assert!(!project.path(".sediment").exists());
    let report = project.optimize(&["--ship", "order", "--json"], &[]);
    project.is_ordered(&report, &["toy"]);
    assert_eq!(report["measured"][0]["command"], "./toy \"a\"");
    assert!(Path::new(&project.path("toy.gv")).is_file());
    // The command line takes precedence over the file, and errors in the file are reported with their position.
    let report = project.optimize(&["--train", "./toy", "--ship", "order", "--json"], &[]);
    assert_eq!(report["measured"][0]["command"], "./toy");
    for (line, said) in [("levels = []", ":1: "), ("level = 7", ":1: "), ("\ntrain = [", ":2: ")] {
        std::fs::write(project.path("sediment.toml"), format!("{line}\n")).unwrap();
        let wrong = project.run(&["--level", "order"], &["make"]);
        let said = format!("sediment.toml{said}");
        assert!(code(&wrong) != 0 && err(&wrong).contains(&said), "{line}: {}", err(&wrong));
    }
}
