// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports a compiler's call graphs from a tree of files, as the profile of a linked file.

use crate::files::{self, RecordingSource, SystemFiles};
use crate::ui::Ui;
use sediment_core::binary::{Binary, SymbolSource};
use sediment_core::estimate;
use sediment_core::profile::{EdgeFacts, Profile, text};
use sediment_core::skipped::{Reason, Skipped};
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::read::Input;
use sediment_read::static_graph::{self, UNIT_READERS, UnitGraph};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file of a unit.
#[derive(Debug)]
pub(crate) struct UnitGraphFile {
    path: PathBuf,
    /// True if the user gave it; false if it was found in a folder.
    named: bool,
}

/// Finds the files of units at these paths or below them; `None` if there are none.
///
/// # Errors
/// If some paths have such files and others do not: they cannot be imported together.
pub(crate) fn find(paths: &[PathBuf], ui: &Ui) -> Result<Option<Vec<UnitGraphFile>>> {
    let mut found = Vec::new();
    let mut skipped = Skipped::default();
    let mut other = None;
    for path in paths {
        let before = found.len();
        if path.is_dir() {
            search(path, &mut found, &mut skipped)?;
        } else if path.is_file() && is_unit(path)? {
            found.push(UnitGraphFile { path: path.clone(), named: true });
        }
        if found.len() == before {
            other = other.or(Some(path));
        }
    }
    // Folders may overlap, but the counts of each file must be added only once.
    let mut seen = BTreeSet::new();
    found.retain(|unit: &UnitGraphFile| {
        seen.insert(unit.path.canonicalize().unwrap_or_else(|_| unit.path.clone()))
    });
    match other {
        Some(folder) if found.is_empty() && folder.is_dir() && !is_recording(folder) => {
            ui.skipped("searching", &skipped);
            Err(Error::new(ErrorCode::NotFound,"no recording and no compiler's call graph in this folder")
                .with_input(files::display(folder))
                .with_hint(
                    "compile with sediment's GCC plugin or -fcallgraph-info (docs/static-graphs.md), or put a profiler's files there: docs/formats",
                ))
        }
        _ if found.is_empty() => Ok(None),
        None => {
            ui.skipped("searching", &skipped);
            Ok(Some(found))
        }
        Some(other) => Err(Error::new(
            ErrorCode::Usage,
            "this file is not a compiler's call graph, but other given files are",
        )
        .with_input(files::display(other))
        .with_hint("import call graphs and recordings separately, then merge the profiles")),
    }
}

/// True if a folder is a recording of `perf record --threads`.
pub(crate) fn is_recording(folder: &Path) -> bool {
    folder.join("data").is_file() && folder.join("data.0").is_file()
}

/// Adds the files of units below a folder, sorted by path; does not follow links. Counts files whose names are
/// misleading as skipped.
fn search(folder: &Path, found: &mut Vec<UnitGraphFile>, skipped: &mut Skipped) -> Result<()> {
    for (path, kind) in entries(folder).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot search this folder: {error}"))
            .with_input(files::display(folder))
    })? {
        let ends_as_one =
            path.extension().is_some_and(|end| UNIT_READERS.iter().any(|reader| end == reader.extension));
        if kind.is_dir() {
            search(&path, found, skipped)?;
        } else if kind.is_file() && ends_as_one {
            match is_unit(&path)? {
                true => found.push(UnitGraphFile { path, named: false }),
                false => skipped.add(Reason::NoUnitGraph, 0, files::display(&path)),
            }
        }
    }
    Ok(())
}

/// Returns the entries of a folder, sorted by path.
pub(crate) fn entries(folder: &Path) -> std::io::Result<Vec<(PathBuf, std::fs::FileType)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        entries.push((entry.path(), entry.file_type()?));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(entries)
}

/// Looks only at the first bytes, because a recording may be larger than memory.
fn is_unit(path: &Path) -> Result<bool> {
    let source = RecordingSource::open(path)?;
    let mut head = vec![0; static_graph::HEAD];
    let count = source.read_at(0, &mut head).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(path))
    })?;
    Ok(static_graph::is_unit(&head[..count]))
}

/// Reads the units, joins the binary's units, and estimates call counts. `map`: the linker's list of its objects.
pub(crate) fn import(found: &[UnitGraphFile], binary: &Path, map: Option<&Path>, ui: &Ui) -> Result<Profile> {
    let mut skipped = Skipped::default();
    let mut units: Vec<UnitGraph> = Vec::with_capacity(found.len());
    for UnitGraphFile { path, named } in found {
        let name = files::display(path);
        let bytes = files::read(path)?;
        let unit = static_graph::read_unit(&name, &bytes, &mut skipped);
        // Build trees also contain broken objects: tests of tools that read objects need them.
        if unit.is_err() && !named && path.extension().is_some_and(|end| end == "o") {
            skipped.add(Reason::UnreadableObject, 0, &name);
            continue;
        }
        // The output of an earlier import.
        let is_profile = || text::parse(&bytes).is_ok_and(|(profile, _)| !profile.dsos().is_empty());
        if unit.is_err() && !named && is_profile() {
            skipped.add(Reason::LinkedProfile, 0, &name);
            continue;
        }
        let unit = unit.map_err(|error| error.with_input(name))?;
        // Objects compiled without a profile have no data.
        if unit.graph.function_count() > 0 {
            units.push(unit);
        }
    }
    if units.is_empty() {
        return Err(Error::new(ErrorCode::EmptyRecording,"no calls in these files").with_hint(
            "compile with sediment's GCC plugin or GCC's -fcallgraph-info; clang's objects have calls if compiled with a profile (docs/static-graphs.md)",
        ));
    }
    ui.skipped("reading", &skipped);
    let system = SystemFiles::new(None, &[binary.to_path_buf()])?;
    let parsed = Binary::parse(&files::read(binary)?, &system)
        .map_err(|error| error.with_input(files::display(binary)))?;
    if parsed.symbols_from == SymbolSource::DynamicSymbols {
        ui.warn(&format!(
            "{} is stripped, so only its exported functions are known: give the unstripped file, or install its debug file",
            files::display(binary)
        ));
    }
    let label = parsed.soname.clone().unwrap_or_else(|| files::base_name(binary));
    let objects = map.map(objects).transpose()?;
    let linked = static_graph::join_units(&units, &parsed, &label, objects.as_ref())?;
    ui.skipped("joining units", &linked.skipped);
    let mut profile = linked.profile;
    let is_any = |has: fn(&EdgeFacts) -> bool| profile.edges().iter().any(|(_, _, facts)| has(facts));
    let is_estimated = is_any(|facts| facts.static_calls.is_some());
    // GCC counts no calls of cold code, even without a run.
    let is_counted = is_any(|facts| facts.count.is_some_and(|count| count > 0));
    if is_estimated {
        estimate::estimate(&mut profile);
    }
    // A graph is not a recording: merged with one, they count as one.
    if !is_counted {
        profile.inputs = Some(0);
    }
    let how = match (is_counted, is_estimated) {
        (true, false) => "call counts are from the profile that the units were compiled with",
        (true, true) => "call counts are from the profile that the units were compiled with, or estimated",
        (false, true) => "call counts are estimated",
        (false, false) => "they have no calls",
    };
    ui.note(&format!("{} of {} units belong to {label}; {how}", linked.units, units.len()));
    Ok(profile)
}

/// Returns the objects in a link map of any linker: words with the extensions of objects and archive members.
fn objects(map: &Path) -> Result<BTreeSet<String>> {
    let text = files::read(map)?;
    let text = String::from_utf8_lossy(&text);
    let words = text.split_ascii_whitespace().map(|word| word.split(":(").next().unwrap_or(word));
    let objects: BTreeSet<String> =
        words.filter(|word| word.ends_with(".o") || word.ends_with(".o)")).map(str::to_owned).collect();
    if objects.is_empty() {
        return Err(Error::new(ErrorCode::UnknownFormat, "not a link map: it contains no object file")
            .with_input(files::display(map))
            .with_hint("linkers write one with -Wl,-Map=FILE"));
    }
    Ok(objects)
}
