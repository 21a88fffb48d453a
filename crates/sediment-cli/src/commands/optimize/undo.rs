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
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

const LIST: &str = "list.json";
/// Largest list that is read.
const LARGEST: u64 = 64 << 20;

/// Saves the programs and libraries of a tree; those saved before stay, as they are from before the first run. Returns their number.
pub(super) fn save(tree: &Path, work: &Path) -> Result<usize> {
    let folder = work.join(SAVED);
    if folder.join(LIST).exists() {
        return Ok(list(tree, work)?.len());
    }
    let folder = files::folder(&folder)?;
    let mut saved = Vec::new();
    for path in tree::linked_files(tree, work) {
        let name = saved.len().to_string();
        files::copy(&path, &folder.join(&name))?;
        let owner = fs::metadata(&path).map(|found| [found.uid(), found.gid()]).unwrap_or_default();
        saved.push(json!({ "path": path.as_os_str().as_encoded_bytes(), "saved": name, "owner": owner }));
    }
    let count = saved.len();
    files::write_owned(&folder.join(LIST), Value::Array(saved).to_string().as_bytes())?;
    Ok(count)
}

/// A file that was saved.
struct Saved {
    original: PathBuf,
    copy: PathBuf,
    owner: [u32; 2],
}

impl Saved {
    /// Puts it back, with its owner. What cannot be given to its owner keeps no right of setuid or setgid.
    fn put_back(&self) -> Result<()> {
        files::copy(&self.copy, &self.original)?;
        let [user, group] = self.owner;
        let given = std::os::unix::fs::chown(&self.original, Some(user), Some(group)).is_ok();
        let mode = fs::metadata(&self.copy).map_or(0o644, |found| found.permissions().mode());
        let mode = if given { mode } else { mode & 0o777 };
        let _ = fs::set_permissions(&self.original, fs::Permissions::from_mode(mode));
        Ok(())
    }
}

/// The files that were saved of a tree; none where none were.
///
/// # Errors
/// Where the list is damaged, or names a file that is not in the tree.
fn list(tree: &Path, work: &Path) -> Result<Vec<Saved>> {
    let folder = work.join(SAVED);
    let path = folder.join(LIST);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = files::read_at_most(&path, LARGEST)?;
    let rows: Option<Vec<Saved>> = serde_json::from_slice::<Vec<Value>>(&bytes)
        .ok()
        .and_then(|rows| rows.iter().map(|row| saved(row, tree, &folder)).collect());
    rows.ok_or_else(|| {
        Error::new(ErrorCode::Damaged, "not the list of files that sediment optimize saved")
            .with_input(files::display(&path))
            .with_hint("nothing was put back; the saved files are beside it")
    })
}

fn saved(row: &Value, tree: &Path, folder: &Path) -> Option<Saved> {
    let bytes = row["path"].as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
    let original = PathBuf::from(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?));
    let name = row["saved"].as_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number = |at: usize| u32::try_from(row["owner"][at].as_u64()?).ok();
    let is_plain = original.components().all(|part| !matches!(part, Component::ParentDir));
    let place = original.parent().and_then(|parent| parent.canonicalize().ok());
    // The folder may be gone, and is not made again.
    let is_inside = original.starts_with(tree) && place.is_none_or(|place| place.starts_with(tree));
    (is_plain && is_inside).then_some(Saved {
        original,
        copy: folder.join(name),
        owner: [number(0)?, number(1)?],
    })
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
    let _lock = state::lock(work)?;
    let saved = list(tree, work)?;
    let mut removed = 0;
    if state["request"]["in_place"] == true {
        let logs = ["links-before", "links-after"];
        for output in logs.iter().flat_map(|log| links::outputs(&work.join(log), tree, work)) {
            for path in output.paths() {
                let is_new = !saved.iter().any(|saved| saved.original == path);
                removed += usize::from(is_new && fs::remove_file(path).is_ok());
            }
        }
    }
    saved.iter().try_for_each(Saved::put_back)?;
    tree::remove(work).map_err(|error| {
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
