// SPDX-License-Identifier: MIT OR Apache-2.0
//! `eval noise` with links of a program whose speed depends on the addresses of its code.

use super::{code, err, eval, fails, lines, out};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;
use support::{Need, case, root};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc"), Need::Program("ld")];
    vec![
        case("noise_finds_the_luck_of_layouts", &compiler, noise_finds_the_luck_of_layouts),
        case("noise_of_existing_links", &compiler, noise_of_existing_links),
        case("noise_of_a_build", &compiler, noise_of_a_build),
        case("noise_of_runs_that_differ_is_not_judged", &compiler, noise_of_runs_that_differ_is_not_judged),
        case("noise_without_padding_is_refused", &compiler, noise_without_padding_is_refused),
    ]
}

const LINK: &str = "cc {padding_object} steps.o -o {output}";

/// Makes a folder with the object of the program; runs take some milliseconds.
fn compiled(options: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    cc(folder.path(), &[&["-O1", "-c", "-o", "steps.o"], options, &[&source()]].concat());
    folder
}

fn source() -> String {
    root().join("tests/golden/noise/steps.c").display().to_string()
}

fn cc(folder: &Path, arguments: &[&str]) {
    assert!(Command::new("cc").args(arguments).current_dir(folder).status().unwrap().success());
}

fn noise(folder: &Path, arguments: &[&str]) -> std::process::Output {
    // The addresses determine how many pages the program touches; this does not depend on the load of the machine.
    let few = [
        "noise",
        "--no-counters",
        "--layouts",
        "6",
        "--blocks",
        "3",
        "--seed",
        "5",
        "--primary",
        "minor-faults",
    ];
    eval(folder, &[&few[..], arguments, &["--", "{program}"]].concat())
}

fn noise_finds_the_luck_of_layouts() {
    let folder = compiled(&[]);
    let done = noise(folder.path(), &["--link", LINK, "--json", "-o", "n.jsonl"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let found: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!((&found["layouts"], &found["blocks"], &found["seed"]), (&6.into(), &3.into(), &"5".into()));
    assert_eq!(found["metric"], "minor-faults");
    let floor = found["floor_percent"].as_f64().unwrap();
    let interval: Vec<f64> =
        found["floor_interval_percent"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap()).collect();
    assert!(interval[0] <= floor && floor <= interval[1], "{found}");
    let runs = lines(folder.path(), "n.jsonl", "run");
    assert_eq!(runs.iter().filter(|run| run["phase"] == "measured").count(), 6 * 3);
    // The file of the runs is an ordinary experiment.
    let report = eval(folder.path(), &["report", "n.jsonl"]);
    assert!(code(&report) == 0 && out(&report).contains("6 layouts"), "{}{}", out(&report), err(&report));
    assert_eq!(code(&eval(folder.path(), &["report", "n.jsonl", "-o", "n.html"])), 0);
    let longer = eval(folder.path(), &["resume", "n.jsonl", "--blocks", "4", "--json"]);
    let longer: serde_json::Value = serde_json::from_str(&out(&longer)).unwrap();
    assert_eq!(longer["workloads"][0]["layout_noise"]["blocks"], 4);

    let failing = noise(folder.path(), &["--link", LINK, "--fail-above", "5"]);
    fails(&failing, 5, &["5 %"]);
    assert!(out(&failing).contains("(6 layouts)"), "the floor is printed all the same: {}", out(&failing));
    assert_eq!(code(&noise(folder.path(), &["--link", LINK, "--fail-above", "99.9"])), 0);
}

fn noise_of_existing_links() {
    let folder = compiled(&[]);
    for (name, bytes) in [("one", 16), ("two", 1024), ("three", 2048)] {
        let text = format!(".text\n.zero {bytes}\n.section .note.GNU-stack,\"\",%progbits\n");
        std::fs::write(folder.path().join("padding.s"), text).unwrap();
        cc(folder.path(), &["padding.s", "steps.o", "-o", name]);
    }
    let before = std::fs::read(folder.path().join("one")).unwrap();
    let asked = |programs: &[&str], last: &[&str]| {
        let options = ["noise", "--no-counters", "--primary", "minor-faults", "--blocks", "2", "--programs"];
        eval(folder.path(), &[&options[..], programs, &["--"], last].concat())
    };
    let done = asked(&["one", "two", "three"], &["{program}"]);
    assert!(code(&done) == 0 && out(&done).contains("(3 layouts)"), "{}{}", out(&done), err(&done));
    assert_eq!(std::fs::read(folder.path().join("one")).unwrap(), before);
    // In a script, in their original folder.
    let script = asked(
        &["one", "two", "three", "--in-place"],
        &["case {program} in */one | */two | */three) {program} ;; *) exit 9 ;; esac"],
    );
    assert_eq!(code(&script), 0, "{}", err(&script));
    let copied = asked(&["one", "two", "three"], &["case {program} in */two) exit 9 ;; esac; {program}"]);
    assert_eq!(code(&copied), 0, "a copy has the first name: {}", err(&copied));
    fails(&asked(&["one", "two"], &["{program}"]), 2, &["2 programs", "3"]);
    fails(&asked(&["one", "two", "none"], &["{program}"]), 1, &["none", "not found"]);
    fails(
        &asked(&["one", "two", "three"], &["sh", "-c", "echo no such input; exit 7", "{program}"]),
        1,
        &["7", "no such input"],
    );
}

fn noise_of_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |build: &str, file: &str| noise(folder.path(), &["--build", build, "--file", file, "--json"]);
    let compile = format!("mkdir -p bin && cc -O1 {} -o bin/steps", source());
    let done = asked(&compile, "bin/steps");
    assert_eq!(code(&done), 0, "{}", err(&done));
    let found: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(found["layouts"], 6);
    assert!(found["floor_percent"].as_f64().unwrap() > 5.0, "{found}");
    assert!(folder.path().join("bin/steps").is_file());
    fails(&asked("true", "bin/steps"), 1, &["bin/steps", "--link"]);
    fails(&asked("exit 3", "bin/steps"), 1, &["3"]);
}

/// Programs that do different work in one layout, and work that shrinks from run to run.
fn noise_of_runs_that_differ_is_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |blocks: &str, run: &str| {
        let links = ["true", "false", "echo"].map(|name| format!("/bin/{name}"));
        for (at, link) in links.iter().enumerate() {
            std::fs::copy(link, folder.path().join(at.to_string())).unwrap();
        }
        let options = ["noise", "--no-counters", "--ignore-failure", "--blocks", blocks];
        eval(folder.path(), &[&options[..], &["--programs", "0", "1", "2", "--", run]].concat())
    };
    fails(&asked("2", "{program}"), 1, &["no floor: the exit codes of the links of program differ"]);
    fails(&asked("2", "{program} hello; true"), 1, &["the outputs of the links of program differ"]);
    let shrinking = "n=$(cat n || echo 200000); echo $((n * 4 / 5)) >n; i=0; while [ $i -lt $n ]; do i=$((i+1)); done; test {program}";
    fails(&asked("8", shrinking), 1, &["no floor: the work changes from run to run: -"]);
}

fn noise_without_padding_is_refused() {
    let folder = compiled(&["-ffunction-sections"]);
    let here = folder.path();
    fails(&noise(here, &["--link", "cc steps.o -o {output}"]), 2, &["{padding_object}"]);
    fails(&noise(here, &["--link", "cc {padding_object} steps.o"]), 2, &["{output}"]);
    let layouts = ["noise", "--layouts", "2", "--link", LINK, "--", "{program}"];
    fails(&eval(here, &layouts), 2, &["--layouts 2", "3"]);
    fails(&noise(here, &["--link", "cc {padding_object} none.o -o {output}"]), 1, &["link", "none.o"]);
    // The linker removes the padding.
    let removing = "cc -Wl,--gc-sections {padding_object} steps.o -o {output}";
    fails(&noise(here, &["--link", removing]), 1, &["the same", "-Wl,-u,sediment_eval_padding"]);
    let keeping = "cc -Wl,--gc-sections -Wl,-u,sediment_eval_padding {padding_object} steps.o -o {output}";
    let done = noise(here, &["--link", keeping]);
    assert_eq!(code(&done), 0, "{}", err(&done));
}
