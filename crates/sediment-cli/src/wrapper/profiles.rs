// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the folder of profiles, and finds the profile of each link.
//!
//! `NAME.prof` is the profile of the program or library NAME, as `sediment split` writes it; `*.gv` has one per
//! cluster. If several files have a profile of one program, a `.prof` takes precedence over a `.gv`, then the first by
//! name; the others are reported. The file `map` names profiles that no rule finds.

use crate::files;
use crate::ui::Ui;
use sediment_core::binary::code::BuildCode;
use sediment_core::binary::objects::{Finder, InputObjects};
use sediment_core::matching::identity::{self, MatchRule};
use sediment_core::matching::renamed::{self, Renaming};
use sediment_core::profile::{FunctionKey, Profile, text};
use sediment_core::{Error, ErrorCode, Result, Skipped};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The profiles of a folder.
pub(crate) struct Profiles {
    folder: PathBuf,
    /// Every file that should hold profiles, by name.
    files: Vec<PathBuf>,
    /// By label, the file that is used.
    labels: BTreeMap<String, ProfilePlace>,
    map: Vec<(String, String)>,
}

/// The location of a label's profile.
#[derive(Clone)]
struct ProfilePlace {
    path: PathBuf,
    /// Further files with a profile of this label, which are not used.
    also_in: Vec<PathBuf>,
    /// The profile, if it was already read to find its clusters.
    profile: Option<SharedProfile>,
}

/// A profile, and the items skipped in it. These are only logged: `import` has reported them, and a build has many
/// links.
type SharedProfile = Rc<(Profile, Skipped)>;

/// Limit for the size of a profile, of all files for several programs together, and of the map, because each link reads
/// them.
const LONGEST_PROFILE: u64 = 256 << 20;
const LONGEST_PROFILES: u64 = 1 << 30;
const LONGEST_MAP: u64 = 16 << 20;

fn read(path: &Path, most: u64) -> Result<(SharedProfile, u64)> {
    let named = |error: Error| error.with_input(files::display(path));
    let bytes = files::read_at_most(path, most)?;
    text::parse(&bytes).map(|read| (Rc::new(read), bytes.len() as u64)).map_err(named)
}

/// The profile of a link.
pub(crate) struct Chosen {
    pub(crate) origin: Origin,
    profile: SharedProfile,
}

/// File of the profile of a link, and the rule that found it.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    /// The cluster; None: the functions without one.
    pub(crate) label: Option<String>,
    pub(crate) rule: MatchRule,
    /// Further files with a profile of the same program, which are not used.
    pub(crate) also_in: Vec<PathBuf>,
}

/// Reason why a link gets no order, and its profile.
pub(crate) struct NotOrdered {
    pub(crate) why: Error,
    pub(crate) origin: Option<Origin>,
}

impl From<Error> for NotOrdered {
    fn from(why: Error) -> Self {
        Self { why, origin: None }
    }
}

impl Chosen {
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile.0
    }

    /// The cluster; None: the functions without one.
    pub(crate) fn label(&self) -> Option<&str> {
        self.origin.label.as_deref()
    }

    /// True if the inputs show that one of its functions is linked.
    fn has_function_in(&self, objects: &InputObjects) -> bool {
        let profile = self.profile();
        let functions = profile.functions().into_iter().map(|function| profile.key(function));
        let own: Vec<&FunctionKey> = functions.filter(|key| key.dso.as_deref() == self.label()).collect();
        let finder = Finder::new(&objects.functions, own.iter().map(|key| key.name.as_str()));
        !objects.complete() || own.iter().any(|key| !finder.find(&key.name, key.file.as_deref()).is_empty())
    }

    /// Renames functions to their names in the link.
    pub(crate) fn follow_renamed(&mut self, objects: &InputObjects) -> Vec<Renaming> {
        let Some(code) = BuildCode::of_objects(objects) else { return Vec::new() };
        let mut renamings = renamed::renamings(self.profile(), self.label(), &code);
        if !renamings.is_empty() {
            let profile = &mut Rc::make_mut(&mut self.profile).0;
            renamings.retain(|renaming| profile.rename(renaming.function, &renaming.new));
        }
        renamings
    }

    /// Entries skipped when it was read.
    pub(crate) fn skipped(&self) -> &Skipped {
        &self.profile.1
    }
}

impl Profiles {
    /// Reads the list of a folder's profiles.
    pub(crate) fn open(folder: &Path, ui: &Ui) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot read the folder of profiles (PROF_DIR): {error}"))
                .with_input(files::display(folder))
        };
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            entries.push(entry.map_err(failed)?.path());
        }
        entries.sort();
        let ending = |path: &Path, ending: &str| path.extension().is_some_and(|found| found == ending);
        let mut labels: BTreeMap<String, ProfilePlace> = BTreeMap::new();
        for path in entries.iter().filter(|path| ending(path, "prof")) {
            labels
                .insert(stem(path), ProfilePlace { path: path.clone(), also_in: Vec::new(), profile: None });
        }
        let mut left = LONGEST_PROFILES;
        for path in entries.iter().filter(|path| ending(path, "gv")) {
            let read = match read(path, LONGEST_PROFILE.min(left)) {
                Ok((read, length)) => {
                    left -= length;
                    read
                }
                Err(error) => {
                    ui.warn(&format!("skipped {}: {error}", files::display(path)));
                    continue;
                }
            };
            for label in labels_of(path, &read.0) {
                let place = || ProfilePlace {
                    path: path.clone(),
                    also_in: Vec::new(),
                    profile: Some(Rc::clone(&read)),
                };
                let held = |place: &mut ProfilePlace| place.also_in.push(path.clone());
                labels.entry(label).and_modify(held).or_insert_with(place);
            }
        }
        let path = folder.join("map");
        let map = match files::read_at_most(&path, LONGEST_MAP) {
            Ok(bytes) => {
                let (map, wrong) = identity::read_map(&String::from_utf8_lossy(&bytes));
                if wrong > 0 {
                    ui.warn(&format!(
                        "{}: {wrong} lines do not name a file and its profile",
                        files::display(&path)
                    ));
                }
                map
            }
            Err(_) if path.symlink_metadata().is_err() => Vec::new(),
            Err(error) => {
                ui.warn(&format!("skipped the map: {error}"));
                Vec::new()
            }
        };
        entries.retain(|path| ending(path, "prof") || ending(path, "gv"));
        Ok(Self { folder: folder.to_path_buf(), files: entries, labels, map })
    }

    /// Finds the profile that belongs to a file; `inputs` reads the linked functions, if names do not decide.
    pub(crate) fn choose(
        &self,
        soname: Option<&str>,
        file_name: &str,
        inputs: &mut dyn FnMut() -> InputObjects,
    ) -> std::result::Result<Option<Chosen>, NotOrdered> {
        if self.labels.is_empty() {
            return Ok(None);
        }
        let labels: Vec<&str> = self.labels.keys().map(String::as_str).collect();
        if let Some(found) = identity::by_name(soname, file_name, &labels) {
            let chosen = self.chosen(&found.label, found.rule);
            // libpython3.so is not a version of libpython3.13.so, but a library of its own, without functions.
            let is_other = |chosen: &Chosen| {
                found.rule == MatchRule::NameWithoutVersion && !chosen.has_function_in(&inputs())
            };
            if !chosen.as_ref().is_ok_and(is_other) {
                return chosen.map(Some);
            }
        }
        if let Some(label) = identity::by_map(soname, file_name, &self.map) {
            let named = label.strip_suffix(".prof").unwrap_or(label);
            return match [label, named].into_iter().find(|label| self.labels.contains_key(*label)) {
                Some(label) => self.chosen(label, MatchRule::Map).map(Some),
                None => Err(Error::new(
                    ErrorCode::NotFound,
                    format!("the map names {label}, which has no profile"),
                )
                .with_input(files::display(&self.folder.join("map")))
                .into()),
            };
        }
        let objects = inputs();
        let defined = objects.names();
        let mut reached = Vec::new();
        for label in &labels {
            // A damaged profile of another program does not concern this link.
            let Ok(chosen) = self.chosen(label, MatchRule::Functions) else { continue };
            let profile = chosen.profile();
            let functions = profile.functions();
            let keys = functions.iter().map(|function| profile.key(*function));
            let names = keys.filter(|key| key.dso.as_deref() == chosen.label()).map(|key| key.name.as_str());
            if identity::defines_enough(names, &defined) {
                reached.push(chosen);
            }
        }
        Ok(identity::only(reached.into_iter()))
    }

    /// Returns every file of the folder that should contain profiles.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns every label for which a file of the folder has a profile.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str)
    }

    /// Returns the labels for which several files have a profile: the used file, and the others.
    pub(crate) fn in_several_files(&self) -> impl Iterator<Item = (&str, &Path, &[PathBuf])> {
        let several = self.labels.iter().filter(|(_, place)| !place.also_in.is_empty());
        several.map(|(label, place)| (label.as_str(), place.path.as_path(), place.also_in.as_slice()))
    }

    /// Returns the files that have a profile of this label; the used one comes first.
    pub(crate) fn files_of(&self, label: &str) -> impl Iterator<Item = &Path> {
        let place = self.labels.get(label);
        place
            .into_iter()
            .flat_map(|place| std::iter::once(&place.path).chain(&place.also_in))
            .map(PathBuf::as_path)
    }

    /// Reads the profile of a label, and finds its cluster in it.
    fn chosen(&self, label: &str, rule: MatchRule) -> std::result::Result<Chosen, NotOrdered> {
        let place = self
            .labels
            .get(label)
            .ok_or_else(|| Error::new(ErrorCode::NotFound, format!("no profile of {label}")))?;
        let mut origin = Origin {
            path: place.path.clone(),
            label: Some(label.to_owned()),
            rule,
            also_in: place.also_in.clone(),
        };
        let profile = match &place.profile {
            Some(profile) => Ok(Rc::clone(profile)),
            None => read(&place.path, LONGEST_PROFILE).map(|(read, _)| read),
        };
        let found = profile.and_then(|profile| {
            let cluster =
                dso_in(&profile.0, label).map_err(|error| error.with_input(files::display(&place.path)))?;
            Ok((profile, cluster))
        });
        match found {
            Ok((profile, cluster)) => {
                origin.label = cluster;
                Ok(Chosen { origin, profile })
            }
            Err(why) => Err(NotOrdered { why, origin: Some(origin) }),
        }
    }
}

/// Returns the programs and libraries for which a file of the folder has profiles.
pub(crate) fn labels_of(path: &Path, profile: &Profile) -> BTreeSet<String> {
    if is_of_one(path) {
        return BTreeSet::from([stem(path)]);
    }
    let functions = profile.functions().into_iter();
    let held: BTreeSet<String> = functions.filter_map(|function| profile.key(function).dso.clone()).collect();
    if held.is_empty() { BTreeSet::from([stem(path)]) } else { held }
}

/// True if the first of two files takes precedence when both have a profile of the same program.
pub(crate) fn counts_before(path: &Path, other: &Path) -> bool {
    (!is_of_one(path), path) < (!is_of_one(other), other)
}

/// True if a file is the profile of the one program that it is named after.
fn is_of_one(path: &Path) -> bool {
    path.extension().is_some_and(|found| found == "prof")
}

/// Returns the cluster of the profile that belongs to a file name. The first choice is the cluster of that name, then
/// the only cluster with functions, then the cluster whose name differs only by a version. Returns `None` if no
/// function has a cluster.
pub(crate) fn dso_in(profile: &Profile, name: &str) -> Result<Option<String>> {
    let functions = profile.functions();
    let held: BTreeSet<&str> =
        functions.iter().filter_map(|function| profile.key(*function).dso.as_deref()).collect();
    if held.contains(name) {
        return Ok(Some(name.to_owned()));
    }
    let labels: Vec<&str> = held.iter().copied().collect();
    match labels.as_slice() {
        [] if functions.is_empty() => {
            Err(Error::new(ErrorCode::EmptyProfile, "the profile has no functions"))
        }
        [] => Ok(None),
        [label] => Ok(Some((*label).to_owned())),
        _ => match identity::by_name(None, name, &labels) {
            Some(found) => Ok(Some(found.label)),
            None => Err(Error::new(
                ErrorCode::Ambiguous,
                format!("several programs of the profile may be {name}"),
            )
            .with_hint(format!("the profile has functions of: {}", labels.join(", ")))),
        },
    }
}

/// A file's name without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
