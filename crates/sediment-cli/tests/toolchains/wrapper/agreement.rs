// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrapper computes the same order as `sediment order` with the program linked without an order, function by
//! function, for any kind of profile.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let alone = |(name, parts): &(&str, &'static [&'static str])| {
        let parts = *parts;
        case(&format!("same_order_{name}"), &[gcc], move || drop(agree(&[profile(parts)], "", &[])))
    };
    let several = case("same_order_several_profiles", &[gcc], || {
        agree(&PROFILES.iter().map(|(_, parts)| profile(parts)).collect::<Vec<_>>(), "", &[]);
    });
    let settings = case("same_order_by_the_settings_of_the_package", &[gcc], by_settings);
    let needs = [gcc, Need::Program("nm"), Need::LinkerFolder("gnu-ld-2.44")];
    let optimised = case("same_layout_by_gv2link_with_link_time_optimisation", &needs, by_gv2link);
    PROFILES.iter().map(alone).chain([several, settings, optimised]).collect()
}

/// Upstream sediment's command and linker option, with link-time optimisation, which renames local functions with the
/// same name (`twin.lto_priv.0`).
fn by_gv2link() {
    let build = BuildFolder::new();
    let linker = support::linker_folder("gnu-ld-2.44").unwrap();
    let shell = |command: &str| {
        let output = Command::new("sh")
            .args(["-ec", command])
            .arg(env!("CARGO_BIN_EXE_sediment"))
            .current_dir(build.0.path())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    shell("\"$0\" gv2link < profiles/prog.prof > order");
    let sources = "-O2 -w -flto -ffunction-sections a.c b.c main.c";
    shell(&format!("gcc -B{} {sources} -Wl,--section-ordering-file,order -o by-gv2link", linker.display()));
    let linked =
        build.link(build.compiler("gcc").args(["-flto", "-o", "prog"]).env("SEDIMENT_LD", linker.join("ld")));
    assert!(linked.status.success(), "{}", said(&linked));
    assert_eq!(build.last()["outcome"], "ordered", "{}", build.last());
    let layout = |file: &str| shell(&format!("nm -n {file} | sed -n 's/.* [tT] //p'"));
    let by_gv2link = layout("by-gv2link");
    assert_eq!(by_gv2link, layout("prog"));
    assert_eq!(by_gv2link.matches("twin.lto_priv").count(), 2, "{by_gv2link}");
    let report = shell("\"$0\" verify by-gv2link --order order --profile profiles/prog.prof --json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["weight_placed_percent"], 100.0, "{report}");
}

/// Each setting acts like the option with its name, and none is without effect.
fn by_settings() {
    let whole = || [profile(PROFILES[PROFILES.len() - 1].1)];
    let plain = agree(&whole(), "", &[]);
    let older = "--keep profiles/prog.order --keep-below 100";
    for (settings, options) in [
        ("engine = 1", "--engine 1"),
        ("serve = startup", "--serve startup"),
        ("keep = prog.order libother.so.1.order\nkeep-below = 100 # everything stays", older),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        assert_ne!(agree(&whole(), &format!("sediment = 1\n{settings}\n"), &options), plain, "{settings}");
    }
    let of_another = "sediment = 1\nkeep = libother.so.1.order\n";
    assert_eq!(agree(&whole(), of_another, &[]), plain);
}

/// A previous order: the functions of the two files alternately, from the last to the first.
fn older() -> String {
    let turns = (0..30).rev().map(|number| format!("a{number:02}\nb{number:02}\n"));
    turns.chain(["all_b\nall_a\nmain\n".to_owned()]).collect()
}

/// Possible contents of a profile.
const PROFILES: &[(&str, &[&str])] = &[
    ("recording", &[RECORDED]),
    ("recording_and_compilers_graph", &[RECORDED, ESTIMATED]),
    ("compilers_graph", &[ESTIMATED]),
    ("first_uses", &[FIRST_USES]),
    ("recording_and_first_uses", &[RECORDED, FIRST_USES]),
    ("near_pairs", &[NEAR]),
    ("all", &[RECORDED, ESTIMATED, FIRST_USES, NEAR]),
];

/// Calls between functions of both files, to a function that does not exist, and of no program.
const RECORDED: &str = r#"
"main" -> "all_a" [count=2]; "main" -> "all_b" [count=2]; "all_a" -> "a00" [count=900]; "all_a" -> "a07" [count=40];
"all_b" -> "b14" [count=900]; "all_b" -> "b21" [count=40]; "a00" -> "b00" [count=7]; "b14" -> "a21" [count=7]; "all_a" -> "gone" [count=3];
"all_b" -> "twin@prog:b.c" [count=50]; "all_a" -> "twin@prog:a.c" [count=60];
"#;

/// Estimates for executed and other functions: called from executed functions, through pointers, on error paths, and
/// unreachable ones.
const ESTIMATED: &str = r#"
"main" [static=1, entry=1]; "all_a" [static=1]; "a01" [static=3]; "a02" [static=9]; "a03" [static=0, heat=hot]; "a04" [static=0];
"cold_a" [static=0, heat=cold]; "cold_b" [static=0, heat=cold]; "b01" [static=2, taken=1]; "b02" [static=0, heat=startup];
"b03" [static=0, heat=exit]; "b04" [static=0]; "b05" [static=0];
"all_a" -> "a01" [static=3, kind=direct]; "a01" -> "a02" [static=3, kind=direct]; "all_a" -> "cold_a" [static=0.1, kind=direct];
"main" -> "all_a" [static=1, kind=direct]; "b04" -> "b05" [static=2, kind=direct]; "cold_a" -> "a04" [static=1, kind=direct];
"#;

const FIRST_USES: &str = r#"
"main" [first=0]; "all_a" [first=1]; "a21" [first=2]; "a14" [first=3]; "all_b" [first=4]; "b07" [first=5]; "b00" [first=6]; "a00" [first=7];
"#;

const NEAR: &str = r#"
"a00" -> "b00" [near=400]; "b00" -> "a07" [near=300]; "a07" -> "b07" [near=200]; "b07" -> "a14" [near=100]; "all_a" -> "all_b" [near=9];
"main" -> "all_a" [near=1]; "a21" -> "b21" [near=400]; "b21" -> "a21" [near=400];
"#;

fn profile(parts: &[&str]) -> String {
    let mut text =
        String::from("digraph Callgraph {\n  graph [sediment=2, source=\"test\", unit=calls, total=5000];\n");
    let _ = writeln!(text, "  subgraph cluster0 {{\n    graph [label=\"prog\"];");
    for letter in ["a", "b"] {
        let _ = writeln!(
            text,
            "    \"twin@prog:{letter}.c\" [label=\"twin\", name=\"twin\", dso=\"prog\", file=\"{letter}.c\"];"
        );
    }
    for part in parts {
        text += part;
    }
    text += "  }\n  \"puts\"; \"main\" -> \"puts\" [count=1];\n}\n";
    text
}

/// Compares the two orders of a link, and returns them.
fn agree(profiles: &[String], settings: &str, options: &[&str]) -> Vec<(String, Option<String>)> {
    let build = BuildFolder::new();
    if !settings.is_empty() {
        std::fs::write(build.path("profiles/sediment.conf"), settings).unwrap();
        std::fs::write(build.path("profiles/prog.order"), older()).unwrap();
    }
    let files: Vec<String> = (0..profiles.len()).map(|number| format!("p{number}.gv")).collect();
    for (file, text) in files.iter().zip(profiles) {
        std::fs::write(build.path(file), text).unwrap();
    }
    let merge: Vec<&str> =
        ["merge", "-o", "profiles/prog.prof"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let merged = sediment(&build, &merge);
    assert!(merged.status.success(), "{}", said(&merged));

    let objects = ["a.o", "b.o", "main.o"];
    let gcc = |arguments: &[&str]| {
        let status = Command::new("gcc").current_dir(build.0.path()).args(arguments).status().unwrap();
        assert!(status.success());
    };
    gcc(&["-O2", "-w", "-ffunction-sections", "-c", "a.c", "b.c", "main.c"]);
    gcc(&[&objects[..], &["-o", "plain"]].concat());
    let linked = build.compiler("gcc").args(objects).args(["-o", "prog"]).output().unwrap();
    assert!(linked.status.success() && linked.stderr.is_empty(), "{}", said(&linked));
    let last = build.last();
    assert_eq!(last["outcome"], "ordered", "{last}");

    let dialect = last["linker"].as_str().unwrap();
    // The profile is of prog, which is linked as plain here.
    std::fs::rename(build.path("plain"), build.path("profiles/prog")).unwrap();
    let order =
        ["order", "profiles/prog.prof", "--binary", "profiles/prog", "--linker", dialect, "-o", "order"];
    let ordered = sediment(&build, &[&order[..], options].concat());
    assert!(ordered.status.success(), "{}", said(&ordered));
    let by_wrapper = functions(last["order"].as_str().unwrap().as_ref());
    assert!(by_wrapper.len() > 8, "{by_wrapper:?}");
    assert_eq!(by_wrapper, functions(&build.path("order")));
    by_wrapper
}

/// The functions of an ordering file; local functions with the same name have their source file. The wrapper has the
/// objects, and names their files; without it a function is listed under each name that its file may have, and once
/// more for all others.
fn functions(path: &Path) -> Vec<(String, Option<String>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let (_, asked) = sediment_order::link::read(&text).unwrap();
    let mut seen = HashSet::new();
    let function = |asked: sediment_order::link::OrderedName| {
        let name = asked.name.trim_end_matches(".cold").to_owned();
        let file = asked.file.map(|file| file.split('.').next().unwrap_or_default().to_owned());
        (name, file)
    };
    let all = asked.into_iter().map(function).filter(|(name, file)| name != "twin" || file.is_some());
    all.filter(|function| seen.insert(function.clone())).collect()
}
