// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of profiles, and which of them belongs to a link.
//!
//! `NAME.prof` is the profile of the program or library NAME, as `sediment split` writes it; `*.gv` holds as many as it has
//! clusters. Where both have one of a name, the `.prof` counts. The file `map` names what no rule finds.

use crate::files;
use crate::ui::Ui;
use sediment::binary::code::Code;
use sediment::binary::identity::{self, Rule};
use sediment::binary::objects::Objects;
use sediment::binary::renamed::{self, Renaming};
use sediment::profile::{Profile, text};
use sediment::{Error, Losses, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The profiles of a folder.
pub(crate) struct Profiles {
    folder: PathBuf,
    /// By label; the first file in the order of their names.
    labels: BTreeMap<String, Place>,
    map: Vec<(String, String)>,
}

/// Where a label's profile is.
#[derive(Clone)]
struct Place {
    path: PathBuf,
    /// Read already, as its clusters had to be known.
    profile: Option<Read>,
}

/// A profile, and what was left out of it. That is for the log alone: it was said when the profile was made, and a build has many
/// links.
type Read = Rc<(Profile, Losses)>;

fn read(path: &Path) -> Result<Read> {
    let named = |error: Error| error.with_input(files::display(path));
    text::parse(&files::read(path)?).map(Rc::new).map_err(named)
}

/// The profile of a link.
pub(crate) struct Chosen {
    pub(crate) path: PathBuf,
    profile: Read,
    /// The cluster; None: the functions without one.
    pub(crate) label: Option<String>,
    pub(crate) rule: Rule,
}

impl Chosen {
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile.0
    }

    /// Gives functions the names that they have in what is linked.
    pub(crate) fn follow_renamed(&mut self, objects: &Objects) -> Vec<Renaming> {
        let Some(code) = Code::of_objects(objects) else { return Vec::new() };
        let mut renamings = renamed::renamings(self.profile(), self.label.as_deref(), &code);
        if !renamings.is_empty() {
            let profile = &mut Rc::make_mut(&mut self.profile).0;
            renamings.retain(|renaming| profile.rename(renaming.function, &renaming.new));
        }
        renamings
    }

    /// What was left out when it was read.
    pub(crate) fn losses(&self) -> &Losses {
        &self.profile.1
    }
}

impl Profiles {
    /// Looks through a folder.
    pub(crate) fn open(folder: &Path, ui: &Ui) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::failed(format!("the folder of profiles (PROF_DIR) cannot be read: {error}"))
                .with_input(files::display(folder))
        };
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            entries.push(entry.map_err(failed)?.path());
        }
        entries.sort();
        let ending = |path: &Path, ending: &str| path.extension().is_some_and(|found| found == ending);
        let mut labels = BTreeMap::new();
        for path in entries.iter().filter(|path| ending(path, "prof")) {
            let label = stem(path);
            labels.entry(label).or_insert_with(|| Place { path: path.clone(), profile: None });
        }
        for path in entries.iter().filter(|path| ending(path, "gv")) {
            let read = match read(path) {
                Ok(read) => read,
                Err(error) => {
                    ui.note(&format!("left out of the profiles: {error}"));
                    continue;
                }
            };
            let profile = &read.0;
            let mut held: BTreeSet<String> = profile
                .functions()
                .into_iter()
                .filter_map(|function| profile.key(function).dso.clone())
                .collect();
            if held.is_empty() {
                held.insert(stem(path));
            }
            for label in held {
                let place = Place { path: path.clone(), profile: Some(Rc::clone(&read)) };
                labels.entry(label).or_insert(place);
            }
        }
        let path = folder.join("map");
        let map = match std::fs::read(&path) {
            Ok(bytes) => {
                let (map, wrong) = identity::read_map(&String::from_utf8_lossy(&bytes));
                if wrong > 0 {
                    ui.note(&format!(
                        "{}: {wrong} lines do not name a file and its profile",
                        files::display(&path)
                    ));
                }
                map
            }
            Err(_) => Vec::new(),
        };
        Ok(Self { folder: folder.to_path_buf(), labels, map })
    }

    /// The profile that belongs to a file; `inputs` reads what is linked, if names do not tell.
    pub(crate) fn choose(
        &self,
        soname: Option<&str>,
        file_name: &str,
        inputs: &mut dyn FnMut() -> Objects,
    ) -> Result<Option<Chosen>> {
        if self.labels.is_empty() {
            return Ok(None);
        }
        let labels: Vec<&str> = self.labels.keys().map(String::as_str).collect();
        if let Some(found) = identity::by_name(soname, file_name, &labels) {
            return self.chosen(&found.label, found.rule).map(Some);
        }
        if let Some(label) = identity::by_map(soname, file_name, &self.map) {
            let named = label.strip_suffix(".prof").unwrap_or(label);
            return match [label, named].into_iter().find(|label| self.labels.contains_key(*label)) {
                Some(label) => self.chosen(label, Rule::Map).map(Some),
                None => Err(Error::failed(format!("the map names {label}, which there is no profile of"))
                    .with_input(files::display(&self.folder.join("map")))),
            };
        }
        let objects = inputs();
        let defined = objects.names();
        let mut reached = Vec::new();
        for label in &labels {
            // A damaged profile of something else is not this link's concern.
            let Ok(chosen) = self.chosen(label, Rule::Functions) else { continue };
            let profile = chosen.profile();
            let functions = profile.functions();
            let keys = functions.iter().map(|function| profile.key(*function));
            let names = keys.filter(|key| key.dso == chosen.label).map(|key| key.name.as_str());
            if identity::defines_enough(names, &defined) {
                reached.push(chosen);
            }
        }
        Ok(identity::only(reached.into_iter()))
    }

    /// Reads the profile of a label, and finds its cluster in it.
    fn chosen(&self, label: &str, rule: Rule) -> Result<Chosen> {
        let place =
            self.labels.get(label).ok_or_else(|| Error::failed(format!("there is no profile of {label}")))?;
        let profile = match &place.profile {
            Some(profile) => Rc::clone(profile),
            None => read(&place.path)?,
        };
        let cluster =
            cluster_in(&profile.0, label).map_err(|error| error.with_input(files::display(&place.path)))?;
        Ok(Chosen { path: place.path.clone(), profile, label: cluster, rule })
    }
}

/// The cluster of a profile that its file's name means: the one of that name, the one with functions where there is one, the one
/// whose name differs by a version; None where no function has a cluster.
pub(crate) fn cluster_in(profile: &Profile, name: &str) -> Result<Option<String>> {
    let functions = profile.functions();
    let held: BTreeSet<&str> =
        functions.iter().filter_map(|function| profile.key(*function).dso.as_deref()).collect();
    if held.contains(name) {
        return Ok(Some(name.to_owned()));
    }
    let labels: Vec<&str> = held.iter().copied().collect();
    match labels.as_slice() {
        [] if functions.is_empty() => Err(Error::failed("the profile holds no function")),
        [] => Ok(None),
        [label] => Ok(Some((*label).to_owned())),
        _ => match identity::by_name(None, name, &labels) {
            Some(found) => Ok(Some(found.label)),
            None => Err(Error::failed(format!("which of the profile's programs is {name} cannot be told"))
                .with_hint(format!("it holds functions of: {}", labels.join(", ")))),
        },
    }
}

/// A file's name without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
