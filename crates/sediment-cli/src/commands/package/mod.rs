// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment package` changes a package's recipe so that its programs are built in the order of a profile. Each kind of
//! recipe has a file and a row in [`RecipeKind`]; `diff` prints the changes.

mod built;
mod conditions;
mod deb;
mod diff;
mod rpm;
mod spec;

use crate::files;
use crate::inputs::{read_profile, tell_nameless};
use crate::output::Schema;
use crate::ui::Ui;
use crate::values::{self, Glob};
use crate::wrapper::settings as package_settings;
use built::BuiltNames;
use clap::{Args, Subcommand};
use sediment_core::matching::identity;
use sediment_core::plural::counted;
use sediment_core::profile::{Profile, VARIANTS, text};
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::order::cut;
use sediment_order::wrapper::settings::{self, PackageSettings};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// File that maps outputs to profiles if their names do not match (docs/linkers.md).
const MAP: &str = "map";

/// Size of a profile in bytes from which it is reduced to the data that its orders need.
const LARGE: usize = 24 << 10;

/// Change a package's recipe to link its programs in the order of a profile
#[derive(Debug, Args)]
#[command(
    long_about = "Change a package's recipe to link its programs in the order of a profile.\n\nPrints the change as a diff; --apply makes it. Refuses recipes that it does not understand, and prints what to write by hand.\n\nKeeps only the programs and libraries of the profile that the package builds. It finds them in the recipe, the built tree and the installed packages."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: RecipeKind,
}

/// The kinds of recipe.
#[derive(Debug, Subcommand)]
enum RecipeKind {
    Deb(deb::Arguments),
    Rpm(rpm::Arguments),
}

/// Options of every kind of recipe.
#[derive(Debug, Args)]
struct RecipeOptions {
    /// Profile of the package's programs, or a folder of .gv and .prof files, to add to the source package; repeatable
    #[arg(long = "profile", value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// Settings of the package (docs/packaging.md); also adds the ordering files that they name [default: sediment.conf in
    /// the folder of profiles]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Keep only the programs and libraries of this name; * and ? are wildcards; repeatable [default: all
    /// that the package builds]
    #[arg(long, value_name = "GLOB", value_parser = values::glob)]
    only: Vec<Glob>,
    /// Make the change
    #[arg(long)]
    apply: bool,
    /// Print JSON, with the diff of each file
    #[arg(long)]
    json: bool,
    /// Smallest share of the weight that the build must place as ordered, in per cent, 0 to 100; the build
    /// fails below it [default: from the settings; without one, the build warns below 50]
    #[arg(long, value_name = "PERCENT", value_parser = values::whole_percent)]
    min_coverage: Option<u8>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    match &arguments.kind {
        RecipeKind::Deb(arguments) => deb::run(arguments, ui),
        RecipeKind::Rpm(arguments) => rpm::run(arguments, ui),
    }
}

/// A file of the recipe before and after the change.
#[derive(Debug)]
struct RecipeChange {
    path: PathBuf,
    /// `None` for a new file.
    before: Option<String>,
    after: String,
}

/// A file for the source package that is too long to be shown.
#[derive(Debug)]
struct Addition {
    path: PathBuf,
    content: Vec<u8>,
    /// Description of the file in a few words.
    what: String,
    /// If the file is derived from a file that it replaces: the path at which that file is kept, and its content.
    kept: Option<(PathBuf, Vec<u8>)>,
}

impl Addition {
    /// Makes an addition of an unchanged file.
    fn of(file: &Path, path: PathBuf, what: &str) -> Result<Self> {
        Ok(Self { path, content: files::read_regular(file)?, what: what.to_owned(), kept: None })
    }
}

impl RecipeChange {
    fn is_one(&self) -> bool {
        self.before.as_ref() != Some(&self.after)
    }

    fn diff(&self) -> String {
        diff::unified(&files::display(&self.path), self.before.as_deref(), &self.after)
    }

    fn output(&self) -> ChangeOutput<'_> {
        ChangeOutput {
            file: self.path.to_string_lossy(),
            new: self.before.is_none(),
            changed: self.is_one(),
            diff: self.diff(),
        }
    }
}

impl Addition {
    fn is_one(&self) -> bool {
        files::read(&self.path).ok().as_ref() != Some(&self.content)
    }

    fn output(&self) -> AdditionOutput<'_> {
        AdditionOutput {
            file: self.path.to_string_lossy(),
            new: !self.path.exists(),
            changed: self.is_one(),
            what: &self.what,
            kept: self.kept.as_ref().map(|(old, _)| old.to_string_lossy()),
        }
    }
}

/// Output of `package --json`: the change of a recipe.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PackageOutput<'a> {
    schema: Schema<1>,
    /// True if files were changed: only with `--apply`.
    applied: bool,
    recipe: Vec<ChangeOutput<'a>>,
    additions: Vec<AdditionOutput<'a>>,
}

/// A file of the recipe.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeOutput<'a> {
    file: Cow<'a, str>,
    new: bool,
    /// False if the file is already as proposed.
    changed: bool,
    /// Unified diff; empty without a change.
    diff: String,
}

/// A file for the source package.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AdditionOutput<'a> {
    file: Cow<'a, str>,
    new: bool,
    /// False if the file is already as proposed.
    changed: bool,
    /// Description, as text for people.
    what: &'a str,
    /// File with the whole profile, if this file is a part of it; null otherwise.
    kept: Option<Cow<'a, str>>,
}

/// Prints the changes as a diff or as JSON, and applies them if requested: the additions first, because the recipe
/// refers to them.
fn propose(changes: &[RecipeChange], additions: &[Addition], common: &RecipeOptions, ui: &Ui) -> Result<()> {
    let new: Vec<&Addition> = additions.iter().filter(|addition| addition.is_one()).collect();
    let is_changed = changes.iter().any(RecipeChange::is_one) || !new.is_empty();
    let answer = PackageOutput {
        schema: Schema,
        applied: common.apply && is_changed,
        recipe: changes.iter().map(RecipeChange::output).collect(),
        additions: additions.iter().map(Addition::output).collect(),
    };
    if !common.json {
        ui.result(&changes.iter().map(RecipeChange::diff).collect::<String>())?;
        for addition in &new {
            if let Some((old, _)) = &addition.kept {
                ui.note(&format!("new file: {}: the whole profile", files::display(old)));
            }
            let replaced = if addition.path.exists() { "replaced" } else { "new file" };
            ui.note(&format!("{replaced}: {}: {}", files::display(&addition.path), addition.what));
        }
        if !is_changed {
            ui.note("nothing to change");
        } else if !common.apply {
            ui.note("nothing changed yet: --apply makes this change");
        }
    }
    if common.apply && is_changed {
        for addition in new {
            if let Some((old, whole)) = &addition.kept {
                files::write(old, whole, ui)?;
            }
            files::write(&addition.path, &addition.content, ui)?;
        }
        for change in changes {
            files::write(&change.path, change.after.as_bytes(), ui)?;
        }
    }
    if common.json { ui.json(&answer) } else { Ok(()) }
}

/// Reads a recipe's text.
fn read_recipe(path: &Path) -> Result<String> {
    let bytes = files::read_regular(path)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorCode::Damaged, "not UTF-8 text").with_input(files::display(path)))
}

/// Returns the profiles and settings as files for this folder of a source package; a folder of profiles may contain
/// everything that `PROF_DIR` may. Without new settings, the existing ones of the folder apply.
fn inputs_for(
    folder: &Path,
    common: &RecipeOptions,
    mut built: BuiltNames,
    ui: &Ui,
) -> Result<Vec<Addition>> {
    for folder in common.profiles.iter().map(PathBuf::as_path).chain([folder]) {
        let map = files::read_regular(&folder.join(MAP)).unwrap_or_default();
        built.add_mapped(&identity::read_map(&String::from_utf8_lossy(&map)).0);
    }
    let mut additions: Vec<Addition> = Vec::new();
    let mut has_settings = false;
    for path in common.profiles.iter().chain(&common.settings) {
        let files = if path.is_dir() { in_folder(path)? } else { vec![path.clone()] };
        for file in files {
            let name = files::base_name(&file);
            let is_settings = common.settings.as_ref() == Some(&file);
            let new = if is_settings || path.is_dir() && name == settings::FILE {
                let read = package_settings::read(&file)?;
                let new = settings_for(folder, &file, &read)?;
                has_settings = true;
                new
            } else if path.is_dir() && name == MAP {
                vec![Addition::of(&file, folder.join(MAP), "maps outputs to profiles")?]
            } else {
                vec![profile_for(folder, &file, &common.only, &built, ui)?]
            };
            if new.iter().any(|new| additions.iter().any(|other| other.path == new.path)) {
                return Err(Error::new(ErrorCode::Usage, "two files have this name")
                    .with_input(name)
                    .with_hint("rename one of them, or merge two profiles"));
            }
            additions.extend(new);
        }
    }
    if !has_settings {
        // The existing ones must be valid, too.
        package_settings::of_folder(folder)?;
    }
    Ok(additions)
}

/// Returns a settings file and the older orders that it lists, which are next to it.
fn settings_for(folder: &Path, file: &Path, read: &PackageSettings) -> Result<Vec<Addition>> {
    let beside = file.parent().unwrap_or(Path::new(""));
    package_settings::check_older(beside, read)?;
    let settings = Addition::of(file, folder.join(settings::FILE), "settings of the package");
    let order = |name| Addition::of(&beside.join(name), folder.join(name), "older order to keep");
    std::iter::once(settings).chain(read.keep.iter().map(order)).collect()
}

/// Returns the profiles of a folder, its `map` and its settings, sorted by name.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(folder))
    };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    let is_other = |path: &PathBuf| [MAP, settings::FILE].contains(&files::base_name(path).as_str());
    let is_wanted = |path: &PathBuf| is_profile(path) || is_other(path);
    let mut found: Vec<PathBuf> = entries.iter().map(DirEntry::path).filter(is_wanted).collect();
    found.sort();
    if found.iter().all(is_other) {
        return Err(Error::new(ErrorCode::NotFound, "no NAME.gv or NAME.prof in this folder")
            .with_input(files::display(folder)));
    }
    Ok(found)
}

/// True if a file has the name of a profile.
fn is_profile(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "gv" || ending == "prof")
}

/// Returns the first of NAME.old, NAME.old2 and so on that already has this content, or that does not exist.
fn place_for_old(path: &Path, content: &[u8]) -> PathBuf {
    let mut number = 1;
    loop {
        let mut place = path.as_os_str().to_owned();
        place.push(if number == 1 { ".old".to_owned() } else { format!(".old{number}") });
        let place = PathBuf::from(place);
        let is_free = std::fs::symlink_metadata(&place).is_err();
        if is_free || files::read_regular(&place).is_ok_and(|found| found == content) {
            return place;
        }
        number += 1;
    }
}

/// Returns a profile as a file for a source package; its programs are listed in the description.
fn profile_for(
    folder: &Path,
    profile: &Path,
    only: &[Glob],
    built: &BuiltNames,
    ui: &Ui,
) -> Result<Addition> {
    let mut read = read_profile(profile, ui)?;
    let part = built.part_of(&read, only).map_err(|error| error.with_input(files::display(profile)))?;
    if only.is_empty() && built.is_doubtful(&read) {
        let labels: Vec<&str> = read.dsos().keys().map(String::as_str).collect();
        ui.warn(&format!(
            "{}: nothing shows that the package builds {}; is it the profile of another package?",
            files::display(profile),
            labels.join(", ")
        ));
    }
    let mut content = None;
    if let Some((part, rest)) = part {
        ui.note(&format!(
            "{}: dropped {} that the package does not build: {}",
            files::display(profile),
            counted(rest.len(), "other file"),
            rest.join(", ")
        ));
        read = part;
        content = Some(text::print(&read).into_bytes());
    }
    tell_nameless(&read, profile, "the package gets named functions only", ui);
    if let Some(named) = sediment_core::profile::split::named(&read) {
        content = Some(text::print(&named).into_bytes());
        read = named;
    }
    if read.keep_heaviest_variants(VARIANTS) {
        content = Some(text::print(&read).into_bytes());
    }
    let place = folder.join(files::base_name(profile)).canonicalize();
    let is_the_same = place.is_ok_and(|place| profile.canonicalize().is_ok_and(|own| own == place));
    // The package's existing file was reduced when it was added.
    if !is_the_same {
        if let Some(part) = without_idle_edges(&read, profile, ui)? {
            content = Some(text::print(&part).into_bytes());
            read = part;
        }
    }
    let functions = read.functions();
    if functions.is_empty() {
        return Err(Error::new(ErrorCode::EmptyProfile, "the profile has no functions")
            .with_input(files::display(profile)));
    }
    let mut labels: Vec<&str> =
        functions.iter().filter_map(|function| read.key(*function).dso.as_deref()).collect();
    labels.sort_unstable();
    labels.dedup();
    let of = if labels.is_empty() { String::new() } else { format!(" of {}", labels.join(", ")) };
    let name = packaged_name(profile)?;
    let (path, whole) = (folder.join(name), files::read(profile)?);
    let is_part = content.as_ref().is_some_and(|part| *part != whole);
    let kept = (is_the_same && is_part).then(|| (place_for_old(&path, &whole), whole.clone()));
    Ok(Addition {
        path,
        content: content.unwrap_or(whole),
        kept,
        what: format!("profile, {}{of}", counted(functions.len(), "function")),
    })
}

/// Returns the name of a profile's file, which must be safe in recipes.
fn packaged_name(profile: &Path) -> Result<String> {
    let name = files::base_name(profile);
    let safe = escape::file_name(&name).filter(|safe| {
        *safe == name
            && (safe.ends_with(".gv") || safe.ends_with(".prof"))
            && !safe.contains(char::is_whitespace)
    });
    safe.ok_or_else(|| {
        Error::new(
            ErrorCode::Usage,
            "not a profile name: use NAME.gv or NAME.prof with ASCII letters, digits and _ . + -",
        )
        .with_input(name)
        .with_hint("rename the file")
    })
}

/// Returns the profile without the edges that its orders do not need, if it is large.
fn without_idle_edges(read: &Profile, path: &Path, ui: &Ui) -> Result<Option<Profile>> {
    let before = text::print(read).len();
    if before <= LARGE {
        return Ok(None);
    }
    let Some(cut) = cut::cut(read)? else { return Ok(None) };
    let [before, after] = [before, text::print(&cut.profile).len()].map(|bytes| bytes.div_ceil(1 << 10));
    ui.note(&format!(
        "{}: left out {} of {} that do not change the order: {after} KiB instead of {before}",
        files::display(path),
        cut.before - cut.after,
        counted(cut.before, "edge"),
    ));
    Ok(Some(cut.profile))
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<PackageOutput<'_>>("package");
}
