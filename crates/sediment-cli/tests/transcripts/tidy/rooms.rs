// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks which files may use which within a crate: the order of its rooms, cycles, siblings of one kind, and rooms
//! without names or files.

use super::circles::{circles, uses};
use super::tree::{code_of, files_below, read, relative, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files and folders of each crate in order. Each may use earlier ones, but never later ones. Cargo separates
/// crates; this test checks the order that Cargo cannot see.
const LINES: &[(&str, &str)] = &[
    (
        "sediment-core",
        "error plural skipped escape page demangle isa counts random unpack ascending affinity flow callgraph profile functions \
         estimate binary matching",
    ),
    ("sediment-read", "static_graph counters read resolve trace"),
    ("sediment-order", "model blocks order link wrapper verify advise report"),
    ("sediment-process", "command left_behind background inherited ptrace"),
    ("sediment-record", "attend tracing perf valgrind call_sites"),
    (
        "sediment-measure",
        "clock pace samples statistics judge padding page_cache processor perf_stat machine pairs cachegrind peak_memory rusage",
    ),
    (
        "sediment-eval",
        "data samples comparison factors unjudged verdict findings gate needed advice derive analysis stopping plan \
         metrics run import report",
    ),
    (
        "sediment-cli",
        "exit output ui files counter_fit values change start next_steps kept_order distribution packages padding_object unit_graphs inputs unit_counters llvm_profdata recording compiler wrapper commands",
    ),
];

/// Folders whose files are siblings of one kind, with one row of a table each: siblings do not use one another. The
/// listed files are shared by the folder.
const KINDS: &[(&str, &str, &[&str])] = &[
    (
        "sediment-read",
        "read",
        &[
            "mod",
            "build_ids",
            "input",
            "numbers",
            "replay",
            "stacks",
            "frame_names",
            "evidence",
            "executed",
            "locations",
            "protobuf",
        ],
    ),
    // The affinity layout chooses from the others.
    ("sediment-order", "order/algorithms", &["mod", "chains", "starts", "affinity"]),
    ("sediment-order", "link", &["mod", "sections", "objects", "align"]),
    ("sediment-record", "", &["lib", "attend", "tracing"]),
    ("sediment-measure", "", &["lib", "processor", "statistics"]),
];

/// Rooms, folders and files that use only ids and integers: no names, no files, no ELF.
const NAMELESS: &[(&str, &str)] = &[
    ("sediment-core", "callgraph"),
    ("sediment-order", "model"),
    ("sediment-order", "order/algorithms"),
    ("sediment-order", "order/groups"),
    ("sediment-order", "order/keep"),
    ("sediment-order", "order/resident"),
    ("sediment-order", "order/score"),
];

/// Types that identify functions by name.
const NAMES: &[&str] = &["FunctionTable", "FunctionKey", "BuiltGraph"];

/// Crates without side effects: they open no files, start no processes, read no clock and print nothing.
const PURE: &[&str] = &["sediment-core", "sediment-read", "sediment-order"];

/// Files in `commands` that are not commands: upstream sediment's commands, which are names of the program.
const NO_COMMANDS: &[&str] = &["legacy", "mod"];

fn source(name: &str) -> PathBuf {
    root().join("crates").join(name).join("src")
}

/// Returns the file (without .rs) or folder directly below a folder on a path.
fn file_below(folder: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(folder).unwrap().with_extension("");
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// Returns the files and folders directly below a folder.
fn parts(folder: &Path) -> BTreeSet<String> {
    let all = files_below(folder, "rs");
    let parts = all.iter().map(|path| file_below(folder, path));
    parts.filter(|name| !["mod", "lib", "main"].contains(&name.as_str())).collect()
}

#[test]
fn data_flows_left_to_right() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for path in crates.filter(|path| path.join("src").is_dir()) {
        let listed = LINES.iter().any(|(name, _)| path.ends_with(name));
        assert!(listed, "{} has no line", relative(&path));
    }
    for (name, line) in LINES {
        let line: Vec<&str> = line.split_whitespace().collect();
        let listed: BTreeSet<String> = line.iter().map(|&part| part.to_owned()).collect();
        assert_eq!(parts(&source(name)), listed, "crates/{name}/src and its line");
        let place = |part: &str| line.iter().position(|listed| *listed == part);
        for (part, used) in uses(&source(name)).remove(&Vec::new()).unwrap_or_default() {
            for used in used {
                assert!(
                    place(&used) < place(&part),
                    "crates/{name}/src/{part} uses {used}, which comes later in the order: see ARCHITECTURE.md, \"Folders\""
                );
            }
        }
    }
}

/// In every folder of every crate, sibling files and folders never use one another in a cycle.
#[test]
fn there_are_no_circles() {
    for (name, _) in LINES {
        let found = circles(&uses(&source(name)));
        assert!(found.is_empty(), "crates/{name}/src: what two share belongs below both: {found:#?}");
    }
}

#[test]
fn siblings_of_one_kind_do_not_know_each_other() {
    for (name, folder, shared) in KINDS {
        let uses = uses(&source(name));
        let folder: Vec<String> =
            folder.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        for (file, used) in uses.get(&folder).into_iter().flatten() {
            for used in used.iter().filter(|_| !shared.contains(&file.as_str())) {
                assert!(
                    shared.contains(&used.as_str()),
                    "{name}: {file} uses its sibling {used}: what two share belongs into {}/mod.rs or further left",
                    folder.join("/")
                );
            }
        }
    }
}

#[test]
fn rooms_do_not_know_what_they_must_not() {
    for (name, room) in NAMELESS {
        let place = source(name).join(room);
        let files = files_below(&source(name), "rs");
        let inside: Vec<&PathBuf> = files
            .iter()
            .filter(|path| path.starts_with(&place) || **path == place.with_extension("rs"))
            .collect();
        assert!(!inside.is_empty(), "crates/{name}/src has no {room}");
        for path in inside {
            let code = code_of(&read(path));
            for word in NAMES {
                assert!(
                    !code.contains(word),
                    "{} mentions {word}: ids and integers, no names",
                    relative(path)
                );
            }
        }
    }
    for name in PURE {
        for path in files_below(&source(name), "rs") {
            let code = code_of(&read(&path));
            for word in ["std::fs", "std::env", "std::process", "std::net", "println!", "std::time"] {
                assert!(
                    !code.contains(word),
                    "{} mentions {word}: this crate works on values",
                    relative(&path)
                );
            }
        }
    }
}

/// Every file or folder is a command, and every command has one.
#[test]
fn commands_are_commands() {
    let folder = source("sediment-cli").join("commands");
    let text = read(&folder.join("mod.rs"));
    let variants =
        text.split_once("enum SedimentCommand {").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
    let commands: BTreeSet<String> = variants
        .lines()
        .filter_map(|line| Some(line.trim().split_once('(')?.0.to_lowercase()))
        .filter(|name| name.chars().all(char::is_alphabetic))
        .collect();
    let files = parts(&folder).into_iter().filter(|name| !NO_COMMANDS.contains(&name.as_str()));
    assert_eq!(files.collect::<BTreeSet<String>>(), commands);
}
