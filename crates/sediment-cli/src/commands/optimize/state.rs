// SPDX-License-Identifier: MIT OR Apache-2.0
//! The working folder, and the list of its finished steps, so that an interrupted run continues.

use super::entries::{self, IGNORED, LOCK, ORIGINALS, SAVED, SOURCES, STATE};
use super::links::{self, LinkedOutput};
use super::recordings;
use super::sources::{self, SourceChange};
use super::stand_ins;
use super::tree::{self, FileStamps};
use crate::files;
use crate::ui::Ui;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result, escape};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Version of the working folder.
const VERSION: u64 = 1;
/// Key of a state whose build cannot be reused.
const UNUSABLE: &str = "unusable";
/// Longest wait for the lock.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A working folder, locked for this process.
pub(super) struct WorkFolder {
    folder: PathBuf,
    request: Value,
    steps: Vec<String>,
    /// Facts of finished steps, for the summary.
    facts: Value,
    /// True if the next run cannot use the build.
    is_unusable: bool,
    _lock: Flock<fs::File>,
}

impl WorkFolder {
    /// Opens the working folder for a request. If the previous request differs or a source changed, its outdated
    /// results are removed. If a killed run left programs of the tree under other names, these are restored.
    pub(super) fn open(
        folder: &Path,
        tree: &Path,
        files: &FileStamps,
        request: Value,
        ui: &Ui,
    ) -> Result<Self> {
        // If a run ended before its first step, it leaves only these files.
        let is_empty = |name: &OsStr| name == LOCK || name == IGNORED;
        let is_used = fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| !is_empty(&entry.file_name())));
        if is_used && read(folder).is_none() {
            return Err(Error::new(ErrorCode::Usage, "not a working folder of sediment optimize")
                .with_input(files::display(folder))
                .with_hint("name a new or empty folder: --work DIR"));
        }
        let writable = "name a folder that can be written: --work DIR";
        let folder = files::folder(folder).map_err(|error| error.with_hint(writable))?;
        let lock = lock(&folder)?;
        let before = read(&folder);
        let mut state =
            Self { folder, request, steps: Vec::new(), facts: json!({}), is_unusable: false, _lock: lock };
        let before = before.filter(|before| !words(&before["steps"]).is_empty());
        let outputs = before.as_ref().map(outputs).unwrap_or_default();
        recover(&outputs, [tree, &state.folder], ui);
        match before {
            Some(before)
                if is_done(&before) && !measures_alone(&changed(&before["request"], &state.request)) =>
            {
                ui.note("beginning again: the last run was finished, and its results are replaced (another --work DIR keeps them)");
                state.begin(tree, files, &outputs)?;
            }
            Some(before) if before[UNUSABLE] == true => {
                ui.note("beginning again with the first build: the last run could not use the programs that it linked");
                state.begin(tree, files, &outputs)?;
            }
            Some(before) => match state.still_valid(&before) {
                Some(steps) => {
                    state.steps = steps;
                    state.facts = before["facts"].clone();
                    state.go_on(tree, files, &outputs, &before["request"], ui)?;
                }
                None => {
                    let changed = changed(&before["request"], &state.request);
                    let changed: Vec<String> =
                        changed.into_iter().map(|part| state.change_in_words(part, tree, files)).collect();
                    ui.note(&format!(
                        "beginning again with the first build; changed: {}",
                        changed.join(", ")
                    ));
                    state.begin(tree, files, &outputs)?;
                }
            },
            None => state.clear(files)?,
        }
        Ok(state)
    }

    /// Returns the steps of a run that remain valid for another request; None if it has to begin with the first build.
    /// Other training commands are recorded with the same build, until it is linked in order.
    fn still_valid(&self, before: &Value) -> Option<Vec<String>> {
        let steps = words(&before["steps"]);
        let request = &before["request"];
        let changed = changed(request, &self.request);
        let is_one_of = |parts: &[&str]| changed.iter().all(|part| parts.contains(part));
        if is_one_of(&[]) {
            return Some(steps);
        }
        if is_one_of(&OF_MEASUREMENT) {
            // Measurements of other levels stay valid.
            let is_kept =
                |step: &String| step != LAST && (is_one_of(&[LEVELS]) || !step.starts_with(entries::MEASURE));
            return Some(steps.into_iter().filter(is_kept).collect());
        }
        if !is_one_of(&[TRAIN, STARTUP, MEASURE, MEASURE_FOR]) || self.path(entries::BEFORE).exists() {
            return None;
        }
        let (known, wanted) = (recordings::trainings(request), recordings::trainings(&self.request));
        let same = known.iter().zip(&wanted).take_while(|(known, wanted)| known == wanted).count();
        let outdated: Vec<String> = (same..known.len()).map(recordings::step).collect();
        Some(steps.into_iter().filter(|step| !outdated.contains(step)).collect())
    }

    /// Continues after the last step, or begins again if a source of a build in place has changed since.
    fn go_on(
        &mut self,
        tree: &Path,
        files: &FileStamps,
        outputs: &[LinkedOutput],
        before: &Value,
        ui: &Ui,
    ) -> Result<()> {
        // The first build with `--in-place` writes the list of source files.
        let is_listed = self.request["in_place"] == true && self.has_done("build");
        let list = self.path(SOURCES);
        let change =
            if is_listed { sources::change(&list, files, sources::is_source) } else { SourceChange::Nothing };
        let changed = match change {
            SourceChange::Nothing => None,
            SourceChange::Files { first, count } => {
                Some(format!("changed since the build: {}", SourceChange::in_words(&first, count, tree)))
            }
            SourceChange::Unknown => {
                Some(format!("the list of source files is damaged or missing: {}", files::display(&list)))
            }
        };
        if let Some(changed) = changed {
            ui.note(&format!("beginning again: {changed}"));
            return self.begin(tree, files, outputs);
        }
        if let Some(last) = self.steps.last() {
            let changed = self::changed(before, &self.request).join(", ");
            let because = if changed.is_empty() { changed } else { format!("; changed: {changed}") };
            ui.note(&format!("continuing after: {last}{because}"));
        }
        self.save()
    }

    /// Begins with the first build. With a build in place, the outputs that an earlier build linked are removed,
    /// because the build would not link existing files again.
    fn begin(&mut self, tree: &Path, files: &FileStamps, outputs: &[LinkedOutput]) -> Result<()> {
        if self.request["in_place"] == true {
            let is_ours = |path: &Path| {
                tree::is_inside(path, tree) && (files::elf_type(path).is_some() || !path.exists())
            };
            links::remove(outputs.iter().filter(|output| output.paths().all(is_ours)))?;
        }
        self.clear(files)
    }

    /// Describes a changed part of the request; for the tree, with the first changed file.
    fn change_in_words(&self, part: &str, tree: &Path, files: &FileStamps) -> String {
        if part == THE_TREE {
            if let SourceChange::Files { first, count } =
                sources::change(&self.path(ORIGINALS), files, |_| true)
            {
                return format!("{part} ({})", SourceChange::in_words(&first, count, tree));
            }
        }
        part.to_owned()
    }

    /// Makes the next run begin again. It still knows the outputs, which a build in place would consider up to date.
    pub(super) fn give_up(&mut self) -> Result<()> {
        self.is_unusable = true;
        self.save()
    }

    fn clear(&mut self, files: &FileStamps) -> Result<()> {
        self.steps.clear();
        self.facts = json!({});
        remove_all_but_state(&self.folder)?;
        if self.request["in_place"] != true {
            sources::save(files, &self.path(ORIGINALS))?;
        }
        files::write_owned(&self.folder.join(IGNORED), b"*\n")?;
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

    /// True if a step is finished.
    pub(super) fn has_done(&self, step: &str) -> bool {
        self.steps.iter().any(|done| done == step)
    }

    /// Records that a step is finished, with a fact about it.
    pub(super) fn done(&mut self, step: &str, fact: Value) -> Result<()> {
        self.steps.push(step.to_owned());
        self.facts[step] = fact;
        self.save()
    }

    /// Fact of a finished step.
    pub(super) fn fact(&self, step: &str) -> &Value {
        &self.facts[step]
    }

    /// The outputs of the first build.
    pub(super) fn outputs(&self) -> Vec<LinkedOutput> {
        outputs_in(&self.facts)
    }

    fn save(&self) -> Result<()> {
        let state = json!({
            tree::KEY: VERSION,
            "request": self.request,
            "steps": self.steps,
            "facts": self.facts,
            UNUSABLE: self.is_unusable,
        });
        files::write_owned(&self.folder.join(STATE), state.to_string().as_bytes())
    }
}

const TRAIN: &str = "--train";
const STARTUP: &str = "--startup";
const MEASURE: &str = "--measure";
const MEASURE_FOR: &str = "--measure-for";
const LEVELS: &str = "levels";
const THE_TREE: &str = "the tree";
/// Entries of the request that change only the measurement.
const OF_MEASUREMENT: [&str; 3] = [MEASURE, MEASURE_FOR, LEVELS];

/// Last step of a run.
pub(super) const LAST: &str = "summary";

/// Names of the parts of a request that differ.
fn changed(before: &Value, now: &Value) -> Vec<&'static str> {
    const PARTS: [(&str, &str); 10] = [
        ("stamp", THE_TREE),
        ("build", "the build command"),
        ("train", TRAIN),
        ("startup", STARTUP),
        ("measure", MEASURE),
        ("measure_for", MEASURE_FOR),
        ("in_place", "--in-place"),
        ("environment", "a variable for the build"),
        ("levels", LEVELS),
        ("words", "words for the compiler"),
    ];
    let differs = |part: &&(&str, &str)| before[part.0] != now[part.0];
    PARTS.iter().filter(differs).map(|part| part.1).collect()
}

/// True if the changes affect only the measurement.
fn measures_alone(changed: &[&str]) -> bool {
    !changed.is_empty() && changed.iter().all(|part| OF_MEASUREMENT.contains(part))
}

fn is_done(state: &Value) -> bool {
    words(&state["steps"]).iter().any(|step| step == LAST)
}

/// Returns the outputs of the first build from a state.
pub(super) fn outputs(state: &Value) -> Vec<LinkedOutput> {
    outputs_in(&state["facts"])
}

fn outputs_in(facts: &Value) -> Vec<LinkedOutput> {
    let outputs = facts["outputs"].as_array();
    outputs.into_iter().flatten().filter_map(LinkedOutput::from_json).collect()
}

/// Restores programs that a killed run left under other names; looks only in these folders.
pub(super) fn recover(outputs: &[LinkedOutput], folders: [&Path; 2], ui: &Ui) {
    let is_inside = |path: &&Path| {
        let place = path.parent().and_then(|parent| parent.canonicalize().ok());
        place.is_some_and(|place| folders.iter().any(|folder| place.starts_with(folder)))
    };
    let recovered = stand_ins::recover(outputs.iter().flat_map(LinkedOutput::paths).filter(is_inside));
    if recovered > 0 {
        let programs = counted(recovered as u64, "program");
        ui.note(&format!("put back {programs} that a killed run had renamed"));
    }
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads the state of a folder, if this version can.
pub(super) fn read(folder: &Path) -> Option<Value> {
    let bytes = files::read_at_most(&folder.join(STATE), tree::LARGEST_STATE).ok()?;
    let state: Value = serde_json::from_slice(&bytes).ok()?;
    (state[tree::KEY] == VERSION).then_some(state)
}

/// Locks a working folder; fails if another process has locked it. Processes that are started meanwhile hold the lock
/// too, because processes left by a killed run may still build.
pub(super) fn lock(folder: &Path) -> Result<Flock<fs::File>> {
    let path = folder.join(LOCK);
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot lock the working folder: {error}"))
            .with_input(files::display(&path))
    };
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| failed(error.into()))?;
    let begun = Instant::now();
    let mut file = file;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            // A killed recorder ends a little later.
            Err((again, Errno::EWOULDBLOCK)) if begun.elapsed() < TIMEOUT => {
                file = again;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err((_, Errno::EWOULDBLOCK)) => {
                let who = holders(&path).join(", ");
                let what = "another sediment optimize, or a process that a killed one left, uses this folder";
                return Err(Error::new(ErrorCode::Usage, what)
                    .with_input(files::display(folder))
                    .with_hint(format!("wait for it, stop it ({who}), or name another folder: --work DIR")));
            }
            Err((_, error)) => return Err(failed(error.into())),
        }
    }
}

/// Names and ids of the processes that have a file open.
fn holders(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let has_it = |process: &Path| {
        let mut open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|file| file == path))
    };
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        if id != own && id.bytes().all(|byte| byte.is_ascii_digit()) && has_it(&entry.path()) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("{} {id}", escape::terminal(name.trim())));
        }
    }
    found
}

/// Empties the folder except for state and lock; files saved from a tree that was built in place stay.
fn remove_all_but_state(folder: &Path) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot empty the working folder: {error}"))
            .with_input(files::display(folder))
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if [STATE, LOCK, SAVED].iter().any(|kept| entry.file_name() == *kept) {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { tree::remove(&path) } else { fs::remove_file(&path) }.map_err(failed)?;
    }
    Ok(())
}
