// SPDX-License-Identifier: MIT OR Apache-2.0
//! The house rules of ARCHITECTURE.md, executable: who may use whom, tables against docs, links, sizes, figures against proofs.

#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::root;

/// The rooms of the library, left to right. A room may use those before it and never those behind it.
const LINE: &[&str] = &[
    "error",
    "skipped",
    "escape",
    "isa",
    "counts",
    "random",
    "ascending",
    "unpack",
    "affinity",
    "callgraph",
    "profile",
    "binary",
    "matching",
    "read",
    "resolve",
    "static_graph",
    "model",
    "order",
    "trace",
    "link",
    "wrapper",
    "verify",
    "record",
    "advise",
    "report",
];

/// Folders whose files are siblings of one kind, each behind one row of a table: no sibling uses another. Files listed here are
/// shared ground of the folder.
const KINDS: &[(&str, &[&str])] = &[
    ("read", &["mod", "input", "numbers", "replay", "stacks", "frame_names"]),
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
    ("order/keep", NAMES, "older orders are of ids and integers, no names"),
    ("order/score", NAMES, "scores know ids and integers, no names"),
];

/// What tells functions by name.
const NAMES: &[&str] = &["FunctionTable", "FunctionKey", "BuiltGraph"];

/// The library, which works on values: only these rooms may start processes or touch files.
const MAY_TOUCH_THE_WORLD: &[&str] = &["record"];

/// What experiments take from the library: they know no layout and no profile.
const KNOWN_TO_EXPERIMENTS: &[&str] = &["error", "escape", "random", "report"];

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn tracked_files() -> Vec<PathBuf> {
    let output =
        std::process::Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "git ls-files failed: is this a git checkout?");
    let names = String::from_utf8(output.stdout).unwrap();
    names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(|name| root().join(name))
        .filter(|p| p.is_file())
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A source text without its comments and without its unit tests, which may look anywhere.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Room of a source file of the library.
fn room_of(path: &Path) -> String {
    file_below(&root().join("crates/sediment/src"), path)
}

/// The file (without .rs) or folder below a folder that a path leads through.
fn file_below(folder: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(folder).unwrap().with_extension("");
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// Words used after `prefix` in a text, such as the room names after `crate::`, also inside braces.
fn names_after<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(prefix) {
        let rest = &text[at + prefix.len()..];
        let word = |s: &'a str| {
            let end = s.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(s.len());
            &s[..end]
        };
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut start = true;
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => start = true,
                    c if start && !c.is_whitespace() => {
                        found.insert(word(&group[i..]));
                        start = false;
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        } else {
            found.insert(word(rest));
        }
    }
    found.remove("");
    found
}

#[test]
fn data_flows_left_to_right() {
    let place = |room: &str| LINE.iter().position(|name| *name == room);
    for path in files_below(&root().join("crates/sediment/src"), "rs") {
        let room = room_of(&path);
        if room == "lib" {
            continue;
        }
        let here = place(&room)
            .unwrap_or_else(|| panic!("{}: no such room in the line; ARCHITECTURE.md", relative(&path)));
        let code = code_of(&read(&path));
        for used in names_after(&code, "crate::") {
            if let Some(there) = place(used) {
                assert!(
                    there <= here,
                    "{} uses {used}, which stands behind {room} in the line: see ARCHITECTURE.md, \"The line\"",
                    relative(&path)
                );
            }
        }
        let source = root().join("crates/sediment/src");
        let Some((folder, shared)) = KINDS.iter().find(|(folder, _)| path.starts_with(source.join(folder)))
        else {
            continue;
        };
        let file = file_below(&source.join(folder), &path);
        if shared.contains(&file.as_str()) {
            continue;
        }
        let siblings: BTreeSet<String> = files_below(&source.join(folder), "rs")
            .iter()
            .map(|p| file_below(&source.join(folder), p))
            .filter(|name| !shared.contains(&name.as_str()) && *name != file)
            .collect();
        let uses: BTreeSet<&str> = names_after(&code, "super::")
            .union(&names_after(&code, &format!("crate::{}::", folder.replace('/', "::"))))
            .copied()
            .collect();
        for used in uses {
            // Inside a folder of its own, `super::` names the reader's own parts.
            assert!(
                !siblings.contains(used) || path.parent().is_some_and(|p| p.ends_with(&file)),
                "{} uses its sibling {used}: what two share belongs into {folder}/mod.rs or further left",
                relative(&path)
            );
        }
    }
}

#[test]
fn rooms_do_not_know_what_they_must_not() {
    for path in files_below(&root().join("crates/sediment/src"), "rs") {
        let room = room_of(&path);
        let code = code_of(&read(&path));
        for (name, words, why) in STRANGERS {
            let place = root().join("crates/sediment/src").join(name);
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
    let uses = |folder: &str, name: &str| -> Vec<(PathBuf, BTreeSet<String>)> {
        let files = files_below(&root().join("crates").join(folder).join("src"), "rs").into_iter();
        files
            .map(|path| {
                let code = code_of(&read(&path));
                let used = names_after(&code, &format!("{name}::")).into_iter().map(str::to_owned).collect();
                (path, used)
            })
            .collect()
    };
    for (path, used) in uses("sediment-eval", "sediment") {
        for room in used.iter().filter(|used| used.chars().all(|c| c.is_ascii_lowercase() || c == '_')) {
            assert!(KNOWN_TO_EXPERIMENTS.contains(&room.as_str()), "{} uses {room}", relative(&path));
        }
    }
    for (path, used) in
        uses("sediment-process", "sediment").into_iter().chain(uses("sediment-process", "sediment_eval"))
    {
        assert!(used.is_empty(), "{} uses {used:?}", relative(&path));
    }
}

#[test]
fn every_row_of_a_table_has_its_page_and_its_goldens() {
    let read_table: Vec<&str> = sediment::read::READERS.iter().map(|reader| reader.name).collect();
    for name in read_table {
        let page = root().join(format!("docs/formats/{name}.md"));
        assert!(page.is_file(), "the reader {name} has no page: {}", relative(&page));
        let goldens = root().join("tests/golden/read").join(name);
        assert!(goldens.is_dir(), "the reader {name} has no goldens: {}", relative(&goldens));
    }
    let index = read(&root().join("docs/formats/README.md"));
    let rows: Vec<&str> = index
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split_once('`').map(|(name, _)| name))
        .collect();
    let names: Vec<&str> = sediment::read::READERS.iter().map(|reader| reader.name).collect();
    assert_eq!(rows, names, "docs/formats/README.md: a row for each reader, in the order of the table");
    let algorithms = read(&root().join("docs/algorithms.md"));
    for algorithm in sediment::order::algorithms::ALGORITHMS {
        assert!(
            algorithms.contains(&format!("`{}`", algorithm.name)),
            "docs/algorithms.md lacks `{}`",
            algorithm.name
        );
    }
    let linkers = read(&root().join("docs/linkers.md"));
    for linker in sediment::link::LINKERS {
        assert!(linkers.contains(&format!("`{}`", linker.name)), "docs/linkers.md lacks `{}`", linker.name);
    }
    let measuring = read(&root().join("docs/measuring.md"));
    for meter in sediment_eval::measure::METERS {
        assert!(measuring.contains(&format!("`{}`", meter.name)), "docs/measuring.md lacks `{}`", meter.name);
    }
}

#[test]
fn the_code_map_names_every_room() {
    let map = read(&root().join("ARCHITECTURE.md"));
    for path in files_below(&root().join("crates/sediment/src"), "rs") {
        let room = room_of(&path);
        assert!(
            room == "lib" || map.contains(&format!("`{room}")),
            "ARCHITECTURE.md does not name the room {room}"
        );
    }
}

#[test]
fn files_stay_small_and_carry_their_licence() {
    for path in tracked_files() {
        let name = relative(&path);
        let source = [".rs", ".cc", ".h"].iter().any(|ending| name.ends_with(ending));
        let script = name.starts_with("scripts/")
            || name == ".ci/run"
            || name.starts_with("examples/") && name.ends_with("/run");
        if !source && !script {
            continue;
        }
        let text = read(&path);
        assert!(
            text.lines().count() <= 700,
            "{name} is longer than 700 lines: has it two reasons to change?"
        );
        assert!(
            text.lines().take(3).any(|line| line.contains("SPDX-License-Identifier:")),
            "{name} has no licence line"
        );
    }
}

/// Temporary folders are private, whatever the umask, as one function makes them all.
#[test]
fn temporary_folders_are_made_in_one_place() {
    for room in [
        "crates/sediment/src",
        "crates/sediment-process/src",
        "crates/sediment-eval/src",
        "crates/sediment-cli/src",
    ] {
        for path in files_below(&root().join(room), "rs") {
            let name = relative(&path);
            let makes = ["tempdir", "TempDir", "env::temp_dir"]
                .iter()
                .any(|word| code_of(&read(&path)).contains(word));
            assert_eq!(
                makes,
                name == "crates/sediment-cli/src/files/temporary.rs",
                "{name}: TemporaryFolder makes them"
            );
        }
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    for path in tracked_files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = read(&path);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let there = path.parent().unwrap().join(file);
            assert!(there.exists(), "{}: the link to {target} leads nowhere", relative(&path));
        }
    }
}

/// A line of a document that links to a proof quotes only figures that stand in that proof.
#[test]
fn quoted_figures_stand_in_their_proofs() {
    let documents = tracked_files().into_iter().filter(|path| {
        let name = relative(path);
        name.ends_with(".md") && !name.starts_with("docs/proofs/")
    });
    for path in documents {
        for line in read(&path).lines().filter(|line| line.contains("proofs/") && line.contains(".md)")) {
            let Some(proof) = line.split("proofs/").nth(1).and_then(|rest| rest.split(".md").next()) else {
                continue;
            };
            let proof_path = root().join(format!("docs/proofs/{proof}.md"));
            if !proof_path.is_file() {
                continue; // the test of links says so
            }
            // Reports within proofs are Markdown, with signs escaped.
            let proven = numbers(&read(&proof_path).replace('\\', ""));
            let outside_links = strip_links(line);
            for number in numbers(&outside_links) {
                assert!(
                    proven.contains(&number),
                    "{}: {number} is not in {}: \"{}\"",
                    relative(&path),
                    relative(&proof_path),
                    line.trim()
                );
            }
        }
    }
}

fn strip_links(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        kept.push_str(before);
        rest = after.split_once(')').map_or("", |(_, tail)| tail);
    }
    kept + rest
}

/// Figures worth a proof: with a decimal point, a thousands separator, or three digits and more.
fn numbers(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .map(|token| token.trim_matches(['.', ',']).replace(',', ""))
        .filter(|token| token.contains('.') || token.len() >= 3)
        .filter(|token| token.chars().next().is_some_and(|c| c.is_ascii_digit()))
        .collect()
}
