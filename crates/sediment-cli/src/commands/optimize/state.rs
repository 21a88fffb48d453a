// SPDX-License-Identifier: MIT OR Apache-2.0
//! The working folder, and which steps in it are done, so that an interrupted run continues.

use super::tree;
use crate::files;
use crate::ui::Ui;
use nix::fcntl::{Flock, FlockArg};
use sediment::{Error, ErrorCode, Result};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the working folder.
const VERSION: u64 = 1;
const FILE: &str = "state.json";
const LOCK: &str = "lock";
/// Folder of files that a build in place would rewrite.
pub(super) const SAVED: &str = "saved";
/// Largest state that is read.
const LARGEST: u64 = 1 << 20;

/// A working folder, locked for this process.
pub(super) struct State {
    folder: PathBuf,
    request: Value,
    steps: Vec<String>,
    /// Facts of done steps, for the summary.
    facts: Value,
    _lock: Flock<fs::File>,
}

impl State {
    /// Opens the working folder for a request. What another request left in it is removed.
    pub(super) fn open(folder: &Path, request: Value, ui: &Ui) -> Result<Self> {
        // Of a run that ended before its first step.
        let is_empty = |name: &OsStr| name == LOCK || name == ".gitignore";
        let is_used = fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| !is_empty(&entry.file_name())));
        if is_used && read(folder).is_none() {
            return Err(Error::new(ErrorCode::Usage, "not a working folder of sediment optimize")
                .with_input(files::display(folder))
                .with_hint("name a new or empty folder: --work DIR"));
        }
        let folder = files::folder(folder)?;
        let lock = lock(&folder)?;
        let before = read(&folder);
        let mut state = Self { folder, request, steps: Vec::new(), facts: json!({}), _lock: lock };
        match before {
            Some(before) if before["request"] == state.request && !is_done(&before) => {
                state.steps = words(&before["steps"]);
                state.facts = before["facts"].clone();
                if let Some(last) = state.steps.last() {
                    ui.note(&format!("continuing after: {last}"));
                }
            }
            _ => state.clear()?,
        }
        Ok(state)
    }

    fn clear(&mut self) -> Result<()> {
        remove_all_but_state(&self.folder)?;
        files::write_owned(&self.folder.join(".gitignore"), b"*\n")?;
        self.save()
    }

    /// The working folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path in the working folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// True if a step was done before.
    pub(super) fn has_done(&self, step: &str) -> bool {
        self.steps.iter().any(|done| done == step)
    }

    /// Remembers that a step is done, and a fact of it.
    pub(super) fn done(&mut self, step: &str, fact: Value) -> Result<()> {
        self.steps.push(step.to_owned());
        self.facts[step] = fact;
        self.save()
    }

    /// Fact of a done step.
    pub(super) fn fact(&self, step: &str) -> &Value {
        &self.facts[step]
    }

    fn save(&self) -> Result<()> {
        let state = json!({
            "sediment-optimize": VERSION,
            "request": self.request,
            "steps": self.steps,
            "facts": self.facts,
        });
        files::write_owned(&self.folder.join(FILE), state.to_string().as_bytes())
    }
}

/// Last step of a run.
pub(super) const LAST: &str = "summary";

fn is_done(state: &Value) -> bool {
    words(&state["steps"]).iter().any(|step| step == LAST)
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The state that a folder has, if this version reads it.
pub(super) fn read(folder: &Path) -> Option<Value> {
    let bytes = files::read_at_most(&folder.join(FILE), LARGEST).ok()?;
    let state: Value = serde_json::from_slice(&bytes).ok()?;
    (state["sediment-optimize"] == VERSION).then_some(state)
}

/// Locks a working folder, which is refused where another process has it.
pub(super) fn lock(folder: &Path) -> Result<Flock<fs::File>> {
    let path = folder.join(LOCK);
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot lock the working folder: {error}"))
            .with_input(files::display(&path))
    };
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EWOULDBLOCK => {
            Error::new(ErrorCode::Usage, "another sediment optimize works in this folder")
                .with_input(files::display(folder))
                .with_hint("wait for it, or name another folder: --work DIR")
        }
        error => failed(error.into()),
    })
}

/// Empties the folder but for state and lock; what was saved of a tree that was built in place stays.
fn remove_all_but_state(folder: &Path) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot empty the working folder: {error}"))
            .with_input(files::display(folder))
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if [FILE, LOCK, SAVED].iter().any(|kept| entry.file_name() == *kept) {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { tree::remove(&path) } else { fs::remove_file(&path) }.map_err(failed)?;
    }
    Ok(())
}
