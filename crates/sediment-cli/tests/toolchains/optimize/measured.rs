// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of commands, and what commands leave behind.

use super::project::{Project, code, err};
use crate::projects::Kind;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    let valgrind = [&make[..], &[Need::Program("valgrind")]].concat();
    vec![
        case("misses_in_a_folder_with_a_blank", &valgrind, misses_in_a_folder_with_a_blank),
        case("daemons_count", &make, daemons_count),
        case(
            "daemons_end_with_an_interrupted_measurement",
            &make,
            daemons_end_with_an_interrupted_measurement,
        ),
        case("outputs_of_one_name_have_a_page_each", &make, outputs_of_one_name_have_a_page_each),
        case("links_out_of_the_tree_lead_there", &make, links_out_of_the_tree_lead_there),
    ]
}

/// A shell that computes for some hundredths of a second.
const SPINS: &str = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";

/// The program's own misses are told from those of the shell and of tools that the command runs.
fn misses_in_a_folder_with_a_blank() {
    let project = Project::of(Kind::Make).with_valgrind();
    let misses = |measure: &str| {
        let report = project.optimize(&["--train", "./toy", "--measure", measure, "--json"], &["make"]);
        report["measured"][0]["simulated"]["itlb"]["before"].as_u64().unwrap_or_else(|| panic!("{report}"))
    };
    let alone = misses("./toy");
    assert!(alone > 0 && misses("ls / >/dev/null; ls / >/dev/null; ./toy") < alone * 3 / 2);
}

fn daemons_count() {
    let project = Project::of(Kind::Make);
    let measure = format!("./toy; setsid sh -c '{SPINS}' >/dev/null 2>&1 & sleep 0.4");
    let report = project.optimize(&["--train", "./toy", "--measure", &measure, "--json"], &["make"]);
    let seconds = report["measured"][0]["cpu_time"]["before_seconds"].as_f64().unwrap();
    assert!(seconds > 0.02, "{report}");
}

fn daemons_end_with_an_interrupted_measurement() {
    let project = Project::of(Kind::Make);
    let measure = "setsid sleep 300 >/dev/null 2>&1 & touch ../../../begun; sleep 300";
    let mut run = project.command(&["--train", "./toy", "--measure", measure, "--json"], &["make"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !project.path("../begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no measurement");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", err(&output));
    assert_eq!(project.processes(), Vec::<String>::new(), "left running");
}

fn outputs_of_one_name_have_a_page_each() {
    let project = Project::of(Kind::Make);
    let build = "make && mkdir -p a b && gcc -o a/twin *.o && gcc -Wl,-z,now -o b/../b/twin *.o";
    let report = project.optimize(&["--train", "a/twin; b/twin", "--json"], &[build]);
    let outputs = report["outputs"].as_array().unwrap();
    let twins: Vec<_> = outputs.iter().filter(|output| output["name"] == "twin").collect();
    let pages: BTreeSet<&str> = twins.iter().filter_map(|output| output["report"].as_str()).collect();
    assert_eq!((twins.len(), pages.len()), (2, 2), "{report}");
    assert!(pages.iter().all(|page| std::path::Path::new(page).is_file()), "{report}");
    assert!(twins.iter().all(|output| output["not_ordered"].is_null()), "{report}");
}

fn links_out_of_the_tree_lead_there() {
    let project = Project::of(Kind::Make);
    std::fs::create_dir(project.path("../shared")).unwrap();
    std::fs::write(project.path("../shared/text"), "shared").unwrap();
    std::fs::create_dir(project.path("folder")).unwrap();
    std::os::unix::fs::symlink("../../shared", project.path("folder/out")).unwrap();
    std::os::unix::fs::symlink("../Makefile", project.path("folder/in")).unwrap();
    let build =
        "test \"$(cat folder/out/text)\" = shared && test \"$(readlink folder/in)\" = ../Makefile && make";
    let report = project.optimize(&["--train", "./toy", "--json"], &[build]);
    project.is_ordered(&report, &["toy"]);
}
