// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of commands, and files and processes that commands leave.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    let valgrind = [&make[..], &[Need::Program("valgrind")]].concat();
    let linkers = [("bfd", "ld.bfd"), ("gold", "ld.gold"), ("lld", "ld.lld-19")];
    let layouts = linkers.map(|(linker, program)| {
        let needs = [&make[..], &[Need::Program(program), Need::Program("nm")]].concat();
        case(&format!("layouts_differ_by_padding_alone_{linker}"), &needs, move || {
            layouts_differ_by_padding_alone(linker);
        })
    });
    let mut cases = vec![
        case("misses_in_a_folder_with_a_blank", &valgrind, misses_in_a_folder_with_a_blank),
        case("daemons_count", &make, daemons_count),
        case(
            "daemons_end_with_an_interrupted_measurement",
            &make,
            daemons_end_with_an_interrupted_measurement,
        ),
        case("cycles_decide_where_perf_counts_them", &make, cycles_decide_where_perf_counts_them),
        case("outputs_of_one_name_have_a_page_each", &make, outputs_of_one_name_have_a_page_each),
        case("commands_that_differ_are_not_judged", &make, commands_that_differ_are_not_judged),
        case("links_out_of_the_tree_lead_there", &make, links_out_of_the_tree_lead_there),
    ];
    cases.extend(layouts);
    cases
}

/// The order is judged and not its random layout: all layouts of a side have the same order, and each has the program
/// at a different address.
fn layouts_differ_by_padding_alone(linker: &str) {
    // Some functions that are not called are between the called ones.
    let functions: String = ('a'..='i')
        .flat_map(|letter| {
            ["f", "g"].map(|name| {
                format!("__attribute__((noinline)) int {name}{letter}(int x) {{ return x * '{letter}'; }}\n")
            })
        })
        .collect();
    let calls =
        |name: &str| ('a'..='i').map(|letter| format!(" x += {name}{letter}(x);")).collect::<String>();
    let main = format!(
        "int main(int count, char **words) {{ (void)words; int x = 1; if (count > 9) {{{} }}\nfor (int i = 0; i < 100000; i++) {{{} }}\nreturn x == 7; }}\n",
        calls("g"),
        calls("f")
    );
    let makefile = format!("toy: toy.c\n\t$(CC) -O1 -fuse-ld={linker} -Wl,--gc-sections -o $@ toy.c\n");
    let files = [("toy.c".to_owned(), functions + &main), ("Makefile".to_owned(), makefile)];
    let project = OptimizedProject::new(&files);
    let report = project.optimize(&["--train", "./toy", "--json"], &["make"]);
    assert!(report["outputs"][0]["not_ordered"].is_null(), "{report}");
    let mut orders = Vec::new();
    for side in ["before", "after"] {
        let mut places = BTreeSet::new();
        let mut of_side = BTreeSet::new();
        for number in 1..=5 {
            let layout = project.path(&format!(".sediment/{side}/layouts/{number}/0/toy"));
            let said = Command::new("nm").arg("-n").arg(&layout).output().unwrap();
            assert!(said.status.success(), "{}", err(&said));
            let text = String::from_utf8(said.stdout).unwrap();
            let names: Vec<&str> = text.lines().filter_map(|line| line.rsplit(' ').next()).collect();
            let own = names.iter().filter(|name| name.len() == 2 && name.starts_with(['f', 'g']));
            of_side.insert(own.map(|name| (*name).to_owned()).collect::<Vec<String>>());
            places.insert(text.lines().find(|line| line.ends_with(" fe")).unwrap().to_owned());
        }
        assert_eq!((places.len(), of_side.len()), (5, 1), "{side}: {places:?} {of_side:?}");
        orders.extend(of_side);
    }
    assert_ne!(orders[0], orders[1]);
}

/// A shell that computes for a few hundredths of a second.
const SPINS: &str = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";

/// The program's own misses are separated from the misses of the shell and of tools that the command runs.
fn misses_in_a_folder_with_a_blank() {
    let project = OptimizedProject::of(ProjectKind::Make).with_valgrind();
    let misses = |measure: &str| {
        let report = project.optimize(&["--train", "./toy", "--measure", measure, "--json"], &["make"]);
        report["measured"][0]["simulated"]["itlb"]["before"].as_u64().unwrap_or_else(|| panic!("{report}"))
    };
    let alone = misses("./toy");
    assert!(alone > 0 && misses("ls / >/dev/null; ls / >/dev/null; ./toy") < alone * 3 / 2);
}

fn daemons_count() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let measure = format!("./toy; setsid sh -c '{SPINS}' >/dev/null 2>&1 & sleep 0.4");
    let report = project.optimize(&["--train", "./toy", "--measure", &measure, "--json"], &["make"]);
    let seconds = report["measured"][0]["cpu_time"]["before_seconds"].as_f64().unwrap();
    assert!(seconds > 0.02, "{report}");
}

/// A stand-in for perf on a machine with counters, with which each run takes the same number of cycles, whatever its
/// time.
const COUNTS_CYCLES: &str = r#"#!/bin/sh
[ "$1" != --version ] || { echo perf version 6.1; exit; }
[ "$1" = stat ] || exit 1
while [ "$1" != -- ]; do
    case $1 in --output=*) file=${1#--output=} ;; -e) events=$2 ;; esac
    shift
done
shift
"$@"
code=$?
for event in $(echo "$events" | tr , ' '); do echo "1000000,,$event,1000000,100.00,,"; done >"$file"
exit $code
"#;

fn cycles_decide_where_perf_counts_them() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let perf = project.path("../bin/perf");
    std::fs::write(&perf, COUNTS_CYCLES).unwrap();
    std::fs::set_permissions(&perf, std::fs::Permissions::from_mode(0o755)).unwrap();
    let report = project.optimize(&["--train", "./toy", "--measure", "./toy", "--json"], &["make"]);
    let cpu_time = &report["measured"][0]["cpu_time"];
    let interval = ["saved_percent", "lower_percent", "upper_percent"].map(|key| cpu_time[key].as_f64());
    assert_eq!(interval, [Some(0.0); 3], "{report}");
}

fn daemons_end_with_an_interrupted_measurement() {
    let project = OptimizedProject::of(ProjectKind::Make);
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
    let project = OptimizedProject::of(ProjectKind::Make);
    let build = "make && mkdir -p a b && gcc -o a/twin *.o && gcc -Wl,-z,now -o b/../b/twin *.o";
    let report = project.optimize(&["--train", "a/twin; b/twin", "--json"], &[build]);
    let outputs = report["outputs"].as_array().unwrap();
    let twins: Vec<_> = outputs.iter().filter(|output| output["name"] == "twin").collect();
    let pages: BTreeSet<&str> = twins.iter().filter_map(|output| output["report"].as_str()).collect();
    assert_eq!((twins.len(), pages.len()), (2, 2), "{report}");
    assert!(pages.iter().all(|page| std::path::Path::new(page).is_file()), "{report}");
    assert!(twins.iter().all(|output| output["not_ordered"].is_null()), "{report}");
}

/// A program that prints the addresses of its functions, and fails with the order: each is reported, and neither is
/// judged.
fn commands_that_differ_are_not_judged() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
        __attribute__((noinline)) int first(int x) { return x * 3; }\n\
        __attribute__((noinline)) int between(int x) { return x * 5; }\n\
        __attribute__((noinline)) int last(int x) { return x * 7; }\n\
        int main(int count, char **words) {\n\
        int x = 1; for (int i = 0; i < 1000000; i++) x = last(first(x));\n\
        if (count > 8) x = between(x);\n\
        long distance = labs((char *)main - (char *)last);\n\
        if (count > 1 && words[1][0] == 'p') printf(\"%ld\\n\", distance);\n\
        return x == 9 || (count > 1 && words[1][0] == 'f' && distance < 48); }\n";
    let makefile = "toy: toy.c\n\t$(CC) -O1 -falign-functions=16 -o $@ toy.c\n";
    let files = [("toy.c", source), ("Makefile", makefile)];
    let project = OptimizedProject::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let shrinks = "n=$(cat ../../../n || echo 300000); echo $((n * 3 / 4)) >../../../n; i=0; while [ $i -lt $n ]; do i=$((i+1)); done; ./toy";
    let measured = [
        "--train",
        "./toy",
        "--measure",
        "./toy print",
        "--measure",
        shrinks,
        "--json",
        "--measure-for",
        "16s",
    ];
    let report = project.optimize(&measured, &["make"]);
    let why = |row: usize| report["measured"][row]["cpu_time"]["not_judged"].as_str().unwrap_or_default();
    assert_eq!(why(0), "the outputs before and after differ", "{report}");
    assert!(why(1).starts_with("the work changes from run to run: -"), "{report}");
    assert_eq!(report["verdict"]["code"], "unknown", "{report}");
    // If it fails in one of the builds, the command ends with an error that names the build.
    let failed = project.run(&["--train", "./toy", "--measure", "./toy fail"], &["make"]);
    assert_eq!(code(&failed), 1, "{}", err(&failed));
    assert!(err(&failed).contains("`./toy fail` (after)"), "{}", err(&failed));
}

fn links_out_of_the_tree_lead_there() {
    let project = OptimizedProject::of(ProjectKind::Make);
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
