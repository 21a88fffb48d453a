// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the rules in ARCHITECTURE.md: allowed dependencies, tables and their documentation, links, sizes, figures and
//! their proofs, skipped tests. They do not need git, so they also run on a release's tarball.

mod circles;
mod figures;
mod links;
mod pages;
mod rooms;
mod skips;
mod surface;
mod tree;

use tree::{code_of, files, files_below, read, relative, root};

#[test]
fn every_row_of_a_table_has_its_page_and_its_goldens() {
    let read_table: Vec<&str> = sediment_read::read::READERS.iter().map(|reader| reader.name).collect();
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
    let names: Vec<&str> = sediment_read::read::READERS.iter().map(|reader| reader.name).collect();
    assert_eq!(rows, names, "docs/formats/README.md: a row for each reader, in the order of the table");
    let algorithms = read(&root().join("docs/background/algorithms.md"));
    for algorithm in sediment_order::order::algorithms::ALGORITHMS {
        assert!(
            algorithms.contains(&format!("`{}`", algorithm.name)),
            "docs/background/algorithms.md lacks `{}`",
            algorithm.name
        );
    }
    let linkers = read(&root().join("docs/linkers.md"));
    for linker in sediment_order::link::LINKERS {
        assert!(linkers.contains(&format!("`{}`", linker.name)), "docs/linkers.md lacks `{}`", linker.name);
    }
    let measuring = read(&root().join("docs/measuring.md"));
    for meter in sediment_measure::METERS {
        assert!(measuring.contains(&format!("`{}`", meter.name)), "docs/measuring.md lacks `{}`", meter.name);
    }
}

#[test]
fn files_stay_small_and_carry_their_licence() {
    for path in files() {
        let name = relative(&path);
        let source = [".rs", ".cc", ".h"].iter().any(|ending| name.ends_with(ending));
        let folders = ["scripts/", "proofs/scripts/", "proofs/lib/", "proofs/inputs/"];
        let script = folders.iter().any(|folder| name.starts_with(folder))
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

/// A `let` within a chain of conditions needs Rust 1.88, but the oldest supported version is 1.85. No lint checks that.
#[test]
fn conditions_are_those_of_the_oldest_rust() {
    let chained = |code: &str| {
        let words: Vec<&str> = code.split_whitespace().collect();
        words.windows(2).any(|pair| matches!(pair, ["&&" | "||", "let"]))
    };
    assert!(chained("if is_so &&\n let Some(it) = that {") && !chained("if is_so {\n let it = that;"));
    for path in ["crates", "proofs"].iter().flat_map(|folder| files_below(&root().join(folder), "rs")) {
        let name = relative(&path);
        let is_this = name.ends_with("tidy/mod.rs");
        assert!(is_this || !chained(&code_of(&read(&path))), "{name}: a chain of conditions with `let`");
    }
}

/// Temporary folders are private, whatever the umask, because one function makes all of them.
#[test]
fn temporary_folders_are_made_in_one_place() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        for path in files_below(&entry.unwrap().path().join("src"), "rs") {
            let name = relative(&path);
            if name.ends_with("/tests.rs") {
                continue;
            }
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
