// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/tutorial/c-program.md: each block of commands is marked, and those to be run are run as written, one after the other.

#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

/// A block of commands and its mark.
struct Block {
    mark: String,
    commands: String,
}

/// The blocks of a page. A mark is the comment in front of its block.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut mark: Option<String> = None;
    let mut is_in_block = false;
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(command) if is_in_block => {
                let block = blocks.last_mut().expect("a block was begun");
                block.commands += command;
                block.commands.push('\n');
            }
            Some(command) => {
                let mark = mark.take().unwrap_or_else(|| panic!("a block without a mark: {command}"));
                blocks.push(Block { mark, commands: format!("{command}\n") });
                is_in_block = true;
            }
            None => {
                is_in_block = false;
                if let Some(comment) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
                    mark = Some(comment.to_owned());
                }
            }
        }
    }
    blocks
}

#[test]
fn the_tutorial_is_run_as_written() {
    if !Command::new("cc").arg("--version").output().is_ok_and(|version| version.status.success()) {
        return support::skip("cc is missing");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial/c-program.md");
    let blocks = blocks(&std::fs::read_to_string(page).unwrap());
    assert!(blocks.len() > 5);
    let folder = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_sediment")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    for Block { mark, commands } in blocks {
        match mark.as_str() {
            "run" => {
                let mut shell = Command::new("sh");
                shell.args(["-euc", &commands]).env("PATH", &path).current_dir(folder.path());
                let found = shell.output().unwrap();
                let said = String::from_utf8_lossy(&found.stderr);
                assert!(found.status.success(), "{commands}{said}");
            }
            shown => assert!(
                shown.strip_prefix("shown: ").is_some_and(|reason| reason.len() > 10),
                "a mark is `run`, or `shown: ` with a reason: {shown}"
            ),
        }
    }
    for made in ["layout.html", "calls.gv"] {
        assert!(folder.path().join(made).is_file(), "{made}");
    }
}
