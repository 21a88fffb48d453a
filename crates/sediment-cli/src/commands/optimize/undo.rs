// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs and libraries of a tree that is built in place: saved before the first build, put back by `--undo`.

use super::links;
use super::state::{self, SAVED};
use super::tree;
use crate::files;
use crate::ui::Ui;
use sediment::plural::counted;
use sediment::{Error, ErrorCode, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = "list.json";
/// Largest list that is read.
const LARGEST: u64 = 64 << 20;

/// Saves the programs and libraries of a tree; those saved before stay, as they are from before the first run. Returns their number.
pub(super) fn save(tree: &Path, work: &Path) -> Result<usize> {
    let folder = work.join(SAVED);
    if let Ok(list) = list(work) {
        return Ok(list.len());
    }
    let folder = files::folder(&folder)?;
    let mut saved = Vec::new();
    for path in tree::linked_files(tree, work) {
        let name = saved.len().to_string();
        files::copy(&path, &folder.join(&name))?;
        saved.push(json!({ "path": path.to_string_lossy(), "saved": name }));
    }
    let count = saved.len();
    files::write_owned(&folder.join(LIST), Value::Array(saved).to_string().as_bytes())?;
    Ok(count)
}

fn list(work: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let folder = work.join(SAVED);
    let bytes = files::read_at_most(&folder.join(LIST), LARGEST)?;
    let list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let row = |row: &Value| Some((PathBuf::from(row["path"].as_str()?), folder.join(row["saved"].as_str()?)));
    Ok(list.as_array().into_iter().flatten().filter_map(row).collect())
}

/// Puts the saved files back, removes what the builds added beside them, and removes the working folder.
pub(super) fn run(tree: &Path, work: &Path, ui: &Ui) -> Result<()> {
    let Some(state) = state::read(work) else {
        return Err(Error::new(
            ErrorCode::NotFound,
            "nothing to undo: not a working folder of sediment optimize",
        )
        .with_input(files::display(work)));
    };
    let saved = if state["request"]["in_place"] == true { list(work)? } else { Vec::new() };
    let mut removed = 0;
    if state["request"]["in_place"] == true {
        for output in
            ["links-before", "links-after"].iter().flat_map(|log| links::outputs(&work.join(log), tree, work))
        {
            let is_new = !saved.iter().any(|(original, _)| *original == output.path);
            if is_new && fs::remove_file(&output.path).is_ok() {
                removed += 1;
            }
        }
    }
    for (original, copy) in &saved {
        files::copy(copy, original)?;
    }
    fs::remove_dir_all(work).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be removed: {error}")).with_input(files::display(work))
    })?;
    let folder = files::display(work.strip_prefix(tree).unwrap_or(work));
    ui.note(&match saved.len() {
        0 if removed == 0 => format!("removed {folder}; nothing else was changed"),
        count => {
            let back = counted(count as u64, "linked file");
            format!("put back {back}, removed {removed} that the build had added, and {folder}")
        }
    });
    Ok(())
}
