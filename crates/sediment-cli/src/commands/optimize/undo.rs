// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saves the programs and libraries of a tree that is built in place, before the first build, and puts them back for
//! `--undo`.

use super::entries::{self, LINKS_BEFORE, SAVED};
use super::links::{self, LinkedOutput};
use super::stand_ins;
use super::state;
use super::tree;
use crate::files;
use crate::ui::Ui;
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const LIST: &str = "list.json";
/// Paths of linked files that builds added.
const ADDED: &str = "added.json";
/// Largest list that is read.
const LARGEST: u64 = 64 << 20;

/// Saves the programs and libraries of a tree, and returns the number of saved files. Files that were saved earlier
/// stay, because they are from before the first run.
pub(super) fn save(tree: &Path, work: &Path) -> Result<usize> {
    let folder = work.join(SAVED);
    if folder.join(LIST).exists() {
        return Ok(list(tree, work)?.iter().filter(|saved| saved.is_file()).count());
    }
    // Also recovers the programs of a killed run whose working folder is gone.
    let renamed: Vec<PathBuf> =
        tree::linked_files(tree, work).iter().filter_map(|path| stand_ins::path_of(path)).collect();
    stand_ins::recover(renamed.iter().map(PathBuf::as_path));
    let folder = files::folder(&folder)?;
    let mut saved = Vec::new();
    for path in tree::linked_files(tree, work) {
        let name = saved.len().to_string();
        files::copy(&path, &folder.join(&name))?;
        let _ = tree::same_times(&path, &folder.join(&name));
        let owner = fs::metadata(&path).map(|found| [found.uid(), found.gid()]).unwrap_or_default();
        saved.push(json!({ "path": in_tree(&path, tree), "saved": name, "owner": owner }));
    }
    let count = saved.len();
    for path in tree::links_to_linked_files(tree, work) {
        let Ok(target) = fs::read_link(&path) else { continue };
        saved.push(json!({ "path": in_tree(&path, tree), "link": entries::to_json(&target) }));
    }
    files::write_owned(&folder.join(LIST), Value::Array(saved).to_string().as_bytes())?;
    Ok(count)
}

/// A saved file or symbolic link.
struct Saved {
    original: PathBuf,
    kept: Kept,
}

enum Kept {
    File {
        copy: PathBuf,
        owner: [u32; 2],
    },
    /// Target of a symbolic link that the linker replaces by its output.
    Link(PathBuf),
}

impl Saved {
    fn is_file(&self) -> bool {
        matches!(self.kept, Kept::File { .. })
    }

    /// Puts it back, with its owner and time. If its owner cannot be restored, it loses setuid and setgid.
    fn put_back(&self) -> Result<()> {
        let original = &self.original;
        if let Some(folder) = original.parent() {
            files::folder(folder)?;
        }
        match &self.kept {
            Kept::Link(target) if fs::read_link(original).is_ok_and(|now| now == *target) => Ok(()),
            Kept::Link(target) => files::symbolic_link(target, original),
            Kept::File { copy, owner: [user, group] } => {
                files::copy(copy, original)?;
                let given = std::os::unix::fs::chown(original, Some(*user), Some(*group)).is_ok();
                let mode = fs::metadata(copy).map_or(0o644, |found| found.permissions().mode());
                let mode = if given { mode } else { mode & 0o777 };
                // make compares times.
                let _ = tree::same_times(copy, original);
                let _ = fs::set_permissions(original, fs::Permissions::from_mode(mode));
                Ok(())
            }
        }
    }
}

/// Returns the saved files of a tree; none if no files were saved.
///
/// # Errors
/// If the list is damaged, or names a file outside the tree.
fn list(tree: &Path, work: &Path) -> Result<Vec<Saved>> {
    let folder = work.join(SAVED);
    let path = folder.join(LIST);
    if !path.exists() {
        return Ok(Vec::new());
    }
    rows(&path, |row| saved(row, tree, &folder))
}

/// Reads the rows of a list.
///
/// # Errors
/// If the list is damaged.
fn rows<T>(list: &Path, row: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
    let bytes = files::read_at_most(list, LARGEST)?;
    let rows: Option<Vec<T>> =
        serde_json::from_slice::<Vec<Value>>(&bytes).ok().and_then(|rows| rows.iter().map(row).collect());
    rows.ok_or_else(|| {
        Error::new(ErrorCode::Damaged, "not a list of files by sediment optimize")
            .with_input(files::display(list))
            .with_hint("nothing was put back; the saved files are next to this list")
    })
}

fn saved(row: &Value, tree: &Path, folder: &Path) -> Option<Saved> {
    let original = tree.join(entries::from_json(&row["path"])?);
    let kept = if let Some(target) = row.get("link") {
        Kept::Link(entries::from_json(target)?)
    } else {
        let name = row["saved"].as_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
        let number = |at: usize| u32::try_from(row["owner"][at].as_u64()?).ok();
        Kept::File { copy: folder.join(name), owner: [number(0)?, number(1)?] }
    };
    tree::is_inside(&original, tree).then_some(Saved { original, kept })
}

/// Records the outputs of a build in place, for all later runs: `run` removes the outputs that were not saved.
pub(super) fn remember(outputs: &[LinkedOutput], tree: &Path, work: &Path) -> Result<()> {
    let mut made = added(tree, work)?;
    made.extend(outputs.iter().flat_map(LinkedOutput::paths).map(Path::to_path_buf));
    let added: Vec<Value> = made.iter().map(|path| in_tree(path, tree)).collect();
    files::write_owned(&work.join(SAVED).join(ADDED), json!(added).to_string().as_bytes())
}

/// Returns the paths that builds added; none before the first build.
fn added(tree: &Path, work: &Path) -> Result<BTreeSet<PathBuf>> {
    let list = work.join(SAVED).join(ADDED);
    if !list.exists() {
        return Ok(BTreeSet::new());
    }
    Ok(rows(&list, |row| Some(tree.join(entries::from_json(row)?)))?.into_iter().collect())
}

/// A path relative to the tree, because the tree may be moved.
fn in_tree(path: &Path, tree: &Path) -> Value {
    entries::to_json(path.strip_prefix(tree).unwrap_or(path))
}

/// Puts the saved files back, removes the files that the builds added next to them, and removes the working folder.
pub(super) fn run(tree: &Path, work: &Path, ui: &Ui) -> Result<()> {
    let Some(state) = state::read(work) else {
        return Err(Error::new(
            ErrorCode::NotFound,
            "nothing to undo: not a working folder of sediment optimize",
        )
        .with_input(files::display(work)));
    };
    let _lock = state::lock(work)?;
    state::recover(&state::outputs(&state), [tree, work], ui);
    let saved = list(tree, work)?;
    let mut made: BTreeSet<PathBuf> = added(tree, work)?;
    // Copies made by an interrupted first build are removed. Copies that the user made later stay.
    if state["request"]["in_place"] == true && state["facts"]["outputs"].is_null() {
        let outputs = links::outputs(&work.join(LINKS_BEFORE), tree, work);
        made.extend(outputs.iter().flat_map(LinkedOutput::paths).map(Path::to_path_buf));
    }
    let is_new = |path: &&PathBuf| !saved.iter().any(|saved| saved.original == **path);
    let is_ours = |path: &&PathBuf| tree::is_inside(path, tree) && files::elf_type(path).is_some();
    let removed =
        made.iter().filter(|path| is_new(path) && is_ours(path) && fs::remove_file(path).is_ok()).count();
    // All files that can be put back are put back; then the first error is reported.
    let results: Vec<Result<()>> = saved.iter().map(Saved::put_back).collect();
    results.into_iter().collect::<Result<()>>()?;
    tree::remove(work).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be removed: {error}")).with_input(files::display(work))
    })?;
    let folder = files::display(work.strip_prefix(tree).unwrap_or(work));
    let files = saved.iter().filter(|saved| saved.is_file()).count();
    ui.note(&match files {
        0 if removed == 0 => format!("removed {folder}; nothing else was changed"),
        count => {
            let back = counted(count as u64, "linked file");
            format!("put back {back}, removed {removed} that the build had added, and {folder}")
        }
    });
    Ok(())
}
