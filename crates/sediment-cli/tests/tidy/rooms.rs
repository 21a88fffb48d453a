// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may use whom: the lines of the crates, circles, siblings of one kind, and words that a room must not know.

use super::circles::{circles, mentioned, uses};
use super::tree::{code_of, files_below, read, relative, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files and folders of each crate, left to right. Each may use those before it, and never those behind it.
const LINES: &[(&str, &str)] = &[
    (
        "sediment",
        "error plural skipped escape demangle isa counts random ascending unpack affinity flow callgraph profile line_profile binary matching read resolve \
         static_graph gcov llvm_counters model blocks order trace link wrapper verify record advise report",
    ),
    ("sediment-process", "error command left_behind background inherited ptrace"),
    (
        "sediment-eval",
        "data statistics samples comparison factors verdict findings gate needed advice derive analysis stopping measure plan \
         metrics run import report",
    ),
    (
        "sediment-cli",
        "exit ui files values change start next_steps kept_order distribution packages unit_graphs inputs unit_counters llvm_profdata sample_profile recording compiler demo wrapper commands",
    ),
];

/// Folders whose files are siblings of one kind, each behind one row of a table: no sibling uses another. Files listed here are
/// shared ground of the folder.
const KINDS: &[(&str, &[&str])] = &[
    (
        "read",
        &[
            "mod",
            "input",
            "numbers",
            "replay",
            "stacks",
            "frame_names",
            "executed",
            "locations",
            "messages",
            "wire",
        ],
    ),
    // The affinity layout chooses among the others.
    ("order/algorithms", &["mod", "chains", "starts", "affinity"]),
    ("link", &["mod", "sections", "objects", "align"]),
    ("record", &["mod", "attend"]),
];

/// Words that a room, folder or file must not know, and why.
const STRANGERS: &[(&str, &[&str], &str)] = &[
    ("model", NAMES, "scores know ids and integers, no names"),
    ("callgraph", NAMES, "graphs are of ids and integers, no names"),
    ("order/algorithms", NAMES, "algorithms know ids and integers, no names"),
    ("order/groups", NAMES, "groups are of ids and integers, no names"),
    ("order/keep", NAMES, "kept_order orders are of ids and integers, no names"),
    ("order/score", NAMES, "scores know ids and integers, no names"),
];

/// Types that tell functions by name.
const NAMES: &[&str] = &["FunctionTable", "FunctionKey", "BuiltGraph"];

/// The library, which works on values: only these rooms may start processes or touch files.
const MAY_TOUCH_THE_WORLD: &[&str] = &["record"];

/// Rooms of the library that experiments use: they know no layout and no profile.
const KNOWN_TO_EXPERIMENTS: &[&str] = &["error", "plural", "escape", "random", "report"];

/// Files in `commands` that are no command of their own: the original's commands, which are names of the program.
const NO_COMMANDS: &[&str] = &["legacy", "mod"];

fn source(name: &str) -> PathBuf {
    root().join("crates").join(name).join("src")
}

/// The file (without .rs) or folder below a folder that a path leads through.
fn file_below(folder: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(folder).unwrap().with_extension("");
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// The files and folders right below a folder.
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
                    "crates/{name}/src/{part} uses {used}, which stands behind it in the line: see ARCHITECTURE.md, \"The line\""
                );
            }
        }
    }
}

/// Files and folders side by side never use one another in a circle, in any folder of any crate.
#[test]
fn there_are_no_circles() {
    for (name, _) in LINES {
        let found = circles(&uses(&source(name)));
        assert!(found.is_empty(), "crates/{name}/src: what two share belongs below both: {found:#?}");
    }
}

#[test]
fn siblings_of_one_kind_do_not_know_each_other() {
    let uses = uses(&source("sediment"));
    for (folder, shared) in KINDS {
        let folder: Vec<String> = folder.split('/').map(str::to_owned).collect();
        for (file, used) in uses.get(&folder).into_iter().flatten() {
            for used in used.iter().filter(|_| !shared.contains(&file.as_str())) {
                assert!(
                    shared.contains(&used.as_str()),
                    "{file} uses its sibling {used}: what two share belongs into {}/mod.rs or further left",
                    folder.join("/")
                );
            }
        }
    }
}

#[test]
fn rooms_do_not_know_what_they_must_not() {
    for path in files_below(&source("sediment"), "rs") {
        let room = file_below(&source("sediment"), &path);
        let code = code_of(&read(&path));
        for (name, words, why) in STRANGERS {
            let place = source("sediment").join(name);
            let is_there = path.starts_with(&place) || path == place.with_extension("rs");
            for word in words.iter().filter(|_| is_there) {
                assert!(!code.contains(word), "{} mentions {word}: {why}", relative(&path));
            }
        }
        if !MAY_TOUCH_THE_WORLD.contains(&room.as_str()) {
            for word in ["std::fs", "std::env", "std::process", "std::net", "println!", "std::time"] {
                assert!(
                    !code.contains(word),
                    "{} mentions {word}: the library works on values",
                    relative(&path)
                );
            }
        }
    }
}

/// Experiments compare builds of anything, and what starts processes knows neither.
#[test]
fn experiments_know_no_layout() {
    for (name, library, known) in [
        ("sediment-eval", "sediment", KNOWN_TO_EXPERIMENTS),
        ("sediment-process", "sediment", &[]),
        ("sediment-process", "sediment_eval", &[]),
    ] {
        for path in files_below(&source(name), "rs") {
            for used in mentioned(&code_of(&read(&path)), library) {
                let is_type = used.starts_with(|c: char| c.is_ascii_uppercase());
                assert!(
                    known.contains(&used.as_str()) || is_type && !known.is_empty(),
                    "{} uses {library}::{used}",
                    relative(&path)
                );
            }
        }
    }
}

/// One file or folder a command, and a command for each.
#[test]
fn commands_are_commands() {
    let folder = source("sediment-cli").join("commands");
    let text = read(&folder.join("mod.rs"));
    let variants = text.split_once("enum Command {").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
    let commands: BTreeSet<String> = variants
        .lines()
        .filter_map(|line| Some(line.trim().split_once('(')?.0.to_lowercase()))
        .filter(|name| name.chars().all(char::is_alphabetic))
        .collect();
    let files = parts(&folder).into_iter().filter(|name| !NO_COMMANDS.contains(&name.as_str()));
    assert_eq!(files.collect::<BTreeSet<String>>(), commands);
}

#[test]
fn the_code_map_names_every_part() {
    let map = read(&root().join("ARCHITECTURE.md"));
    for (name, line) in LINES {
        for part in line.split_whitespace() {
            let named =
                ["`{}`", "`{}.rs`", "/{}`"].iter().any(|form| map.contains(&form.replace("{}", part)));
            assert!(named, "ARCHITECTURE.md does not name {part} of {name}");
        }
    }
}
