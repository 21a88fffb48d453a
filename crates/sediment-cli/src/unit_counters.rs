// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports counters of GCC's instrumentation from a tree of `.gcda` and `.gcno` files.

use crate::files::{self, RecordingSource};
use crate::inputs::read_binary;
use crate::ui::Ui;
use crate::unit_graphs::entries;
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::skipped::{Reason, Skipped};
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::counters::gcov::{self, Units};
use sediment_read::read::Input;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of units.
pub(crate) struct CounterFiles {
    paths: Vec<PathBuf>,
    /// Files given by the user: damaged other files are skipped.
    named: BTreeSet<PathBuf>,
}

impl CounterFiles {
    /// True if one of the files has names of functions.
    pub(crate) fn has_names(&self) -> bool {
        self.paths.iter().any(|path| path.extension().is_some_and(|end| end == gcov::NOTES))
    }
}

/// Finds the files of units at these paths or below them; `None` if there are none. Each is read once, even if folders
/// overlap.
///
/// # Errors
/// If some paths have such files and others do not.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Option<CounterFiles>> {
    let mut found = CounterFiles { paths: Vec::new(), named: BTreeSet::new() };
    let mut other = None;
    for path in paths {
        let before = found.paths.len();
        if path.is_dir() {
            search(path, &mut found.paths)?;
        } else if path.is_file() && is_file_of_unit(path)? {
            found.paths.push(path.clone());
            found.named.insert(path.clone());
        }
        if found.paths.len() == before {
            other = other.or(Some(path));
        }
    }
    let mut seen = BTreeSet::new();
    found.paths.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    match other {
        _ if found.paths.is_empty() => Ok(None),
        None => Ok(Some(found)),
        Some(other) => {
            Err(Error::new(ErrorCode::Usage, "this file is not .gcda or .gcno, but other given files are")
                .with_input(files::display(other))
                .with_hint("import counters and recordings separately, then merge the profiles"))
        }
    }
}

/// Adds the files of units below a folder, sorted by path; does not follow links.
fn search(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |error| {
        Error::new(ErrorCode::Io, format!("cannot search this folder: {error}"))
            .with_input(files::display(folder))
    };
    for (path, kind) in entries(folder).map_err(unreadable)? {
        if kind.is_dir() {
            search(&path, found)?;
        } else if kind.is_file()
            && path.extension().and_then(|end| end.to_str()).is_some_and(gcov::is_extension)
            && is_file_of_unit(&path)?
        {
            found.push(path);
        }
    }
    Ok(())
}

/// True for a file of a unit, by its first bytes.
fn is_file_of_unit(path: &Path) -> Result<bool> {
    let mut head = [0; gcov::HEAD];
    let count = RecordingSource::open(path)?.read_at(0, &mut head).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(path))
    })?;
    Ok(gcov::recognises(&head[..count]))
}

/// Reads the files and joins them. Functions that only one of the binaries has belong to it.
pub(crate) fn import(found: &CounterFiles, binaries: &[PathBuf], ui: &Ui) -> Result<Profile> {
    let mut units = Units::default();
    let mut skipped = Skipped::default();
    for path in &found.paths {
        let name = files::display(path);
        match units.read(&name, &files::read(path)?, &mut skipped) {
            // A killed program leaves one incomplete file; the tree has all others.
            Err(error) if error.code() == ErrorCode::Damaged && !found.named.contains(path) => {
                skipped.add(Reason::DamagedCounters, 0, &name);
            }
            read => read.map_err(|error| error.with_input(name))?,
        }
    }
    let parsed = |path: &PathBuf| {
        let binary = read_binary(path)?;
        Ok((binary.soname.clone().unwrap_or_else(|| files::base_name(path)), binary))
    };
    let binaries = binaries.iter().map(parsed).collect::<Result<Vec<_>>>()?;
    let profile = units.profile(&binaries, &mut skipped);
    ui.skipped("reading", &skipped);
    ui.detail(&format!("read {} of counters", counted(units.counted(), "file")));
    profile
}
