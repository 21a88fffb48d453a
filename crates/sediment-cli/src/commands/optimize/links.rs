// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the programs and libraries that a build links, from the wrapper's log; finds the profile of each; and removes
//! files so that the build links them again.

use super::{entries, tree};
use crate::files;
use crate::ui::Ui;
use crate::wrapper::{BEST_AS_LINKED, LINKS};
use sediment_core::matching::identity;
use sediment_core::profile::Profile;
use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A linked file in the tree, and its further names.
#[derive(Debug, Clone)]
pub(super) struct LinkedOutput {
    pub(super) path: PathBuf,
    /// Copies and hard links of it elsewhere in the tree, as made by cargo and `make install`.
    pub(super) copies: Vec<PathBuf>,
    /// Label of its profile.
    pub(super) label: Option<String>,
}

impl LinkedOutput {
    pub(super) fn name(&self) -> String {
        files::base_name(&self.path)
    }

    /// Converts the file and its further names to JSON, for the state of the run.
    pub(super) fn to_json(&self) -> Value {
        self.paths().map(entries::to_json).collect()
    }

    /// Reads an output that [`Self::to_json`] wrote.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut paths = value.as_array()?.iter().filter_map(entries::from_json);
        Some(Self { path: paths.next()?, copies: paths.collect(), label: None })
    }

    /// The name that users know: cargo links `target/release/deps/prog-HASH`, and calls it `target/release/prog`.
    pub(super) fn known_as(&self) -> &Path {
        self.paths()
            .min_by_key(|path| (files::base_name(path).len(), path.as_os_str().len()))
            .unwrap_or(&self.path)
    }

    /// Every name of the file.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.path).chain(&self.copies).map(PathBuf::as_path)
    }
}

/// Lists the outputs in a log that still exist and are in the tree.
pub(super) fn outputs(log: &Path, tree: &Path, work: &Path) -> Vec<LinkedOutput> {
    let mut outputs: BTreeMap<PathBuf, LinkedOutput> = BTreeMap::new();
    for output in read(log).keys() {
        // libtool links a library for installation as NAMET, then renames it.
        let renamed = output.strip_suffix('T').unwrap_or(output);
        let path = [output.as_str(), renamed].map(PathBuf::from).into_iter().find(|path| path.is_file());
        let Some(path) = path.and_then(|path| path.canonicalize().ok()) else { continue };
        if path.starts_with(tree) && files::is_linked(&path) {
            outputs.insert(path.clone(), LinkedOutput { path, copies: Vec::new(), label: None });
        }
    }
    for path in tree::linked_files(tree, work) {
        if outputs.contains_key(&path) {
            continue;
        }
        if let Some(output) = outputs.values_mut().find(|output| is_copy(&output.path, &path, log)) {
            output.copies.push(path);
        }
    }
    outputs.into_values().collect()
}

/// A file in the log's folder whose time is the beginning of the build.
const BEGUN: &str = "begun";

/// Records the beginning of a build. If a build continues, its first beginning counts.
pub(super) fn begin(log: &Path) -> Result<()> {
    let begun = files::folder(log)?.join(BEGUN);
    if begun.exists() { Ok(()) } else { files::write_owned(&begun, b"") }
}

/// True if the build made a file from an output: it is the same file, or has equal content and changed since the build
/// began. A file that existed before the build, such as an expected result in the sources, does not count.
fn is_copy(output: &Path, path: &Path, log: &Path) -> bool {
    let (Ok(output_is), Ok(path_is)) = (fs::metadata(output), fs::metadata(path)) else { return false };
    let file = |found: &fs::Metadata| (found.dev(), found.ino());
    let changed = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
    // Other file systems may have other clocks.
    let begun = fs::metadata(log.join(BEGUN)).ok().filter(|begun| begun.dev() == path_is.dev());
    let is_new = || changed(&path_is) >= changed(begun.as_ref().unwrap_or(&output_is));
    let is_equal = || fs::read(output).is_ok_and(|bytes| fs::read(path).is_ok_and(|other| bytes == other));
    file(&output_is) == file(&path_is) || output_is.len() == path_is.len() && is_new() && is_equal()
}

/// Reads the links in a log by output; only the last link of each.
pub(super) fn read(log: &Path) -> BTreeMap<String, Value> {
    let bytes = fs::read(log.join(LINKS)).unwrap_or_default();
    let lines = String::from_utf8_lossy(&bytes).into_owned();
    let entries = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries.filter_map(|entry| Some((entry["output"].as_str()?.to_owned(), entry))).collect()
}

/// Resolves a path of the log, without links and `..`, if its folder exists.
pub(super) fn resolved(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// The entry of an output.
pub(super) fn of_output<'a>(log: &'a BTreeMap<String, Value>, output: &LinkedOutput) -> Option<&'a Value> {
    let is_its = |path: &str| {
        [path, path.trim_end_matches('T')].iter().any(|path| {
            let path = Path::new(path);
            path == output.path || resolved(path).is_some_and(|path| path == output.path)
        })
    };
    log.iter().find(|(path, _)| is_its(path)).map(|(_, link)| link)
}

/// True if an output was linked without an order because none is better, according to its log entry.
pub(super) fn is_best_as_linked(link: Option<&Value>) -> bool {
    link.is_some_and(|link| link["outcome"] == BEST_AS_LINKED)
}

/// Returns the reason why an output is not in order, according to its log entry; None if it is.
pub(super) fn why_not_ordered(link: Option<&Value>) -> Option<String> {
    match link {
        Some(link) if link["outcome"] == "ordered" => None,
        Some(link) => Some(link["why"].as_str().unwrap_or("unknown").to_owned()),
        None => Some("its second link did not pass through the wrapper".to_owned()),
    }
}

/// True if an output is not in order because none of its profiled functions has a section of its own.
pub(super) fn lacks_sections(link: Option<&Value>) -> bool {
    link.is_some_and(|link| link["code"] == ErrorCode::NoOwnSection.text())
}

/// Warns of an ordered output in which most profiled functions have no section of their own.
pub(super) fn tell_of_few_sections(name: &str, link: Option<&Value>, ui: &Ui) {
    let Some(link) = link else { return };
    let left_out = link["left_out"].as_array().into_iter().flatten();
    let without: u64 = left_out
        .filter(|entry| entry["code"] == Reason::NoOwnSection.code())
        .filter_map(|entry| entry["functions"].as_u64())
        .sum();
    let with = link["functions"].as_u64().unwrap_or(0);
    if without > with {
        let all = with + without;
        ui.warn(&format!(
            "{name}: only {with} of {all} profiled functions have sections of their own and can be ordered: -ffunction-sections is added only where the build calls the compiler by its name, not by its path"
        ));
    }
}

/// Finds the label of each output in a profile, by the name of the file or of one of its copies.
pub(super) fn label(outputs: &mut [LinkedOutput], profile: &Profile) {
    let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    for output in outputs {
        let names: Vec<String> = output.paths().map(files::base_name).collect();
        let found = names.iter().find_map(|name| identity::by_name(None, name, &labels));
        output.label = found.map(|found| found.label);
    }
}

/// Removes outputs, and the files that libtool made from them, so that the build links them again.
pub(super) fn remove<'a>(outputs: impl Iterator<Item = &'a LinkedOutput>) -> Result<()> {
    for output in outputs {
        for path in output.paths() {
            let _ = fs::remove_file(path);
        }
        let Some(folder) = output.path.parent().filter(|folder| folder.ends_with(".libs")) else { continue };
        let Some(above) = folder.parent() else { continue };
        let name = output.name();
        let plain = name.strip_prefix("lt-").unwrap_or(&name);
        let _ = fs::remove_file(above.join(plain));
        for entry in fs::read_dir(above).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_archive = path.extension().is_some_and(|ending| ending == "la");
            let names_it = || fs::read_to_string(&path).is_ok_and(|text| text.contains(plain));
            if is_archive && names_it() {
                let _ = fs::remove_file(&path);
            }
        }
    }
    Ok(())
}
