// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment package deb` changes a Debian source package: it adds a build dependency on the debhelper sequence, and
//! the profile in debian/sediment-profiles.

use super::built::BuiltNames;
use super::{Addition, RecipeChange, RecipeOptions, inputs_for, is_profile, propose, read_recipe};
use crate::files;
use crate::ui::Ui;
use crate::wrapper::{Profiles, counts_before, labels_of};
use clap::Args;
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folder for profiles of the sequence, below debian/.
const FOLDER: &str = "sediment-profiles";
const SEQUENCE: &str = "dh-sequence-sediment";
/// Fields with build dependencies.
const LISTS: [&str; 3] = ["Build-Depends", "Build-Depends-Arch", "Build-Depends-Indep"];
/// Lowest compatibility level of debhelper that was tested: from this level on, dh sets compiler flags.
const COMPAT: u32 = 9;
/// Compatibility level that a hint recommends.
const USUAL_COMPAT: u32 = 13;

/// Change a Debian source package
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Unpacked source package: the folder that contains debian/
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    common: RecipeOptions,
}

pub(super) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let debian = arguments.folder.join("debian");
    let control = debian.join("control");
    if !control.is_file() {
        return Err(Error::new(ErrorCode::NotFound, "no debian/control")
            .with_input(files::display(&arguments.folder))
            .with_hint("give the folder of an unpacked source package, as from `apt-get source`"));
    }
    if debian.join("control.in").exists() {
        return Err(refused(&control, "generated from control.in", "make the change in that file by hand"));
    }
    let rules = debian.join("rules");
    let before = read_recipe(&control)?;
    let rules_before = read_recipe(&rules)?;
    must_use_sequences(&rules, &rules_before)?;
    must_not_be_of_go(&rules, &rules_before, &before)?;
    let named = |error: Error| error.with_input(files::display(&control));
    let source = SourceParagraph::read(&before).map_err(named)?;
    source.must_be_understood(&debian)?;
    let after = source.with_sequence().map_err(named)?;
    let mut changes = vec![RecipeChange { path: control.clone(), after, before: Some(before.clone()) }];
    if let Some(percent) = arguments.common.min_coverage {
        let after = with_threshold(&rules, &rules_before, percent)?;
        changes.push(RecipeChange { path: rules, after, before: Some(rules_before) });
    }
    changes.extend(with_entry(&debian.join("changelog"), ui)?);
    let additions = inputs_for(&debian.join(FOLDER), &arguments.common, built(&debian, &before), ui)?;
    tell_of_others(&debian.join(FOLDER), &additions, ui)?;
    if arguments.common.apply {
        files::folder(&debian.join(FOLDER))?;
    }
    propose(&changes, &additions, &arguments.common, ui)
}

/// Returns the outputs of a source package, from its control file, its lists of files to install, its map and its built
/// tree.
fn built(debian: &Path, control: &str) -> BuiltNames {
    let mut built = BuiltNames::default();
    for line in control.lines() {
        let field = line.split_once(':').map(|(field, value)| (field.to_ascii_lowercase(), value.trim()));
        if let Some(("package" | "source", name)) =
            field.as_ref().map(|(field, name)| (field.as_str(), *name))
        {
            built.add_package(name);
        }
    }
    let mut lists: Vec<PathBuf> =
        std::fs::read_dir(debian).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    lists.retain(|path| {
        let name = files::base_name(path);
        name == "install" || name.ends_with(".install")
    });
    for list in lists.iter().filter_map(|path| read_recipe(path).ok()) {
        let words = list.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        words.for_each(|word| built.add_installed(word));
    }
    built.add_tree(debian.parent().unwrap_or(debian));
    built
}

/// Go's linker cannot read an ordering file.
fn must_not_be_of_go(path: &Path, rules: &str, control: &str) -> Result<()> {
    let by_rules = makefiles(path, rules).iter().any(|text| {
        code(text).any(|line| line.contains("--buildsystem=golang") || line.contains("--buildsystem golang"))
    });
    let by_control =
        control.lines().any(|line| !line.starts_with('#') && line.contains("dh-sequence-golang"));
    match by_rules || by_control {
        true => Err(refused(
            path,
            "Go builds it, and its linker reads no ordering file",
            "`sediment export --format go-pgo` gives Go's compiler a profile",
        )),
        false => Ok(()),
    }
}

/// Changelog line for the change.
const ENTRY: &str = "  * Link programs and libraries in the order of a profile (dh-sequence-sediment).\n";

/// Returns the changelog with the change in the unreleased entry. Without such an entry, prints how to begin one,
/// because the maintainer chooses its version.
fn with_entry(path: &Path, ui: &Ui) -> Result<Option<RecipeChange>> {
    if !path.is_file() {
        return Ok(None);
    }
    let before = read_recipe(path)?;
    let is_open = before.lines().next().is_some_and(|line| line.contains(") UNRELEASED;"));
    let end = before.find("\n -- ").filter(|_| is_open);
    let Some(end) = end else {
        if !before.contains(ENTRY.trim()) {
            ui.note("debian/changelog is unchanged: none of its entries is UNRELEASED; `dch` begins one");
        }
        return Ok(None);
    };
    if before[..end].contains(ENTRY.trim()) {
        return Ok(None);
    }
    let items = before[..end].trim_end().len();
    let after = format!("{}\n{ENTRY}{}", &before[..items], &before[end..]);
    Ok(Some(RecipeChange { path: path.to_path_buf(), after, before: Some(before) }))
}

/// Prints the files of the package that have a profile of the same programs as an added one: only one of each is used.
fn tell_of_others(folder: &Path, added: &[Addition], ui: &Ui) -> Result<()> {
    let there = folder.is_dir().then(|| Profiles::open(folder, ui)).transpose()?;
    let mut seen: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for profile in added.iter().filter(|file| is_profile(&file.path)) {
        let mut others: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
        for label in labels_of(&profile.path, &text::parse(&profile.content)?.0) {
            let kept = there.iter().flat_map(|there| there.files_of(&label));
            let kept = kept.filter(|path| added.iter().all(|file| file.path != *path));
            let before = seen.entry(label.clone()).or_default();
            for other in kept.chain(before.iter().copied()) {
                others.entry(other).or_default().push(label.clone());
            }
            before.push(&profile.path);
        }
        for (other, labels) in others {
            let counts = if counts_before(&profile.path, other) { &profile.path } else { other };
            ui.note(&format!(
                "{} has a profile of {} too; the one in {} is used; remove the other, or merge both: sediment merge --into",
                files::display(other),
                labels.join(", "),
                files::display_name(counts)
            ));
        }
    }
    Ok(())
}

/// Error with a hint for a recipe that is not supported.
fn refused(path: &Path, why: &str, hint: &str) -> Error {
    Error::new(ErrorCode::UnsupportedVariant, format!("not changed: {why}"))
        .with_input(files::display(path))
        .with_hint(hint.to_owned())
}

/// Checks that debian/rules uses dh for the build, directly or through an included file.
fn must_use_sequences(path: &Path, rules: &str) -> Result<()> {
    let texts = makefiles(path, rules);
    for taken in ["COMPILER_PATH", "PROF_DIR"] {
        if texts.iter().any(|text| code(text).any(|line| line.contains(taken))) {
            return Err(refused(
                path,
                &format!("{taken} is set, but the sequence must set it"),
                "remove the assignment",
            ));
        }
    }
    if texts.iter().any(|text| code(text).any(|line| calls_dh(line, &texts))) {
        return Ok(());
    }
    Err(refused(
        path,
        "neither this file nor its includes call dh",
        "a build without debhelper's sequences must call the linker's wrapper itself: docs/linkers.md",
    ))
}

/// Returns debian/rules and the files that it includes, from the package or from other packages, with continued lines
/// joined. A file with a variable in its name cannot be found, unless the variable is make's current folder. The
/// sequence (sediment.pm) uses the same rules.
fn makefiles(path: &Path, rules: &str) -> Vec<String> {
    const MOST: usize = 100;
    let source = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut names: Vec<String> = Vec::new();
    let mut texts = vec![rules.replace("\\\n", " ")];
    let mut next = 0;
    while next < texts.len() {
        let files: Vec<String> = included(&texts[next]).collect();
        next += 1;
        for file in files {
            if names.contains(&file) || names.len() == MOST {
                continue;
            }
            texts.extend(read_recipe(&source.join(&file)).ok().map(|text| text.replace("\\\n", " ")));
            names.push(file);
        }
    }
    texts
}

/// Returns the files that a makefile includes, relative to make's folder.
fn included(text: &str) -> impl Iterator<Item = String> {
    let files = code(text).filter_map(|line| {
        let line = line.trim_start_matches(' ').split('#').next()?;
        let (word, files) = line.split_once([' ', '\t'])?;
        matches!(word, "include" | "-include" | "sinclude").then_some(files)
    });
    let own = |file: &str| file.replace("$(CURDIR)/", "").replace("${CURDIR}/", "");
    files.flat_map(str::split_whitespace).map(own)
}

/// Returns the lines of a makefile without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with('#'))
}

/// True if a line of a rule passes its target, or a build step, to dh: `dh $@` with any options.
fn calls_dh(line: &str, texts: &[String]) -> bool {
    const STEPS: [&str; 4] = ["build", "install", "binary", "clean"];
    let recipe = match line.strip_prefix('\t') {
        Some(recipe) => recipe,
        // The recipe may follow the target on the same line, unless the line is an assignment.
        None => match line.split_once(':').map(|(target, rest)| (target, rest.split_once(';'))) {
            Some((target, Some((needs, recipe)))) if !target.contains('=') && !needs.contains('=') => recipe,
            _ => return false,
        },
    };
    let recipe = recipe.trim_start_matches(['@', '+', '-', ' ', '\t']).replace([';', '&', '|'], " ");
    let mut words = recipe.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    if matches!(words.clone().next(), Some("echo" | "printf" | "#")) {
        return false;
    }
    let step = |word: &str| STEPS.contains(&word.trim_end_matches("-arch").trim_end_matches("-indep"));
    words.any(|word| is_dh(word, texts)) && words.any(|word| word.contains('$') || step(word))
}

/// True if a word of a recipe is dh, as a name, a path or a variable of the makefiles.
fn is_dh(word: &str, texts: &[String]) -> bool {
    let plain = |word: &str| word == "dh" || (word.starts_with('/') && word.ends_with("/dh"));
    let variable = word.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
    let variable = variable.or_else(|| word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')));
    let Some(variable) = variable else { return plain(word) };
    let assigned = |line: &str| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim_end_matches([' ', '\t', ':', '?']).split_whitespace().last()?;
        (name == variable).then(|| value.split_whitespace().any(plain))
    };
    let mut values =
        texts.iter().flat_map(|text| code(text)).filter(|line| !line.starts_with('\t')).filter_map(assigned);
    values.next() == Some(true) && values.all(|is_dh| is_dh)
}

/// Returns debian/rules with a threshold for the check.
fn with_threshold(path: &Path, rules: &str, percent: u8) -> Result<String> {
    let line = format!("\tdh_sediment_check --min-coverage={percent}\n");
    if code(rules).any(|line| line.contains("dh_sediment_check")) {
        if rules.contains(&line) {
            return Ok(rules.to_owned());
        }
        return Err(refused(
            path,
            "the file overrides dh_sediment_check already",
            "set --min-coverage there by hand",
        ));
    }
    let end = if rules.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{rules}{end}\noverride_dh_sediment_check:\n{line}"))
}

/// Source paragraph of debian/control.
struct SourceParagraph<'a> {
    text: &'a str,
    name: &'a str,
    /// Range of Build-Depends' value in the text.
    depends: std::ops::Range<usize>,
    /// The other fields with build dependencies, Build-Depends-Arch and -Indep, with their values.
    others: Vec<(&'a str, std::ops::Range<usize>)>,
    /// True if a package is built for specific architectures.
    for_architectures: bool,
    /// True if a package is the same for all architectures.
    for_all: bool,
}

impl<'a> SourceParagraph<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let (mut name, mut at) = (None, 0);
        let mut lists: Vec<(&'a str, std::ops::Range<usize>)> = Vec::new();
        let mut in_source = true;
        let mut in_list = false;
        let (mut for_architectures, mut for_all) = (false, false);
        for line in text.split_inclusive('\n') {
            let (start, end) = (at, at + line.len());
            at = end;
            if line.starts_with('#') {
                continue;
            }
            if line.trim().is_empty() {
                in_source &= name.is_none();
                in_list = false;
                continue;
            }
            if line.starts_with([' ', '\t']) {
                if let Some((_, list)) = lists.last_mut().filter(|_| in_list) {
                    list.end = end;
                }
                continue;
            }
            let Some((field, value)) = line.split_once(':') else {
                return Err(Error::new(ErrorCode::Damaged, "not a line of a control file")
                    .with_found(line.as_bytes()));
            };
            let list = LISTS.into_iter().find(|list| in_source && field.eq_ignore_ascii_case(list));
            in_list = list.is_some();
            if let Some(list) = list {
                if lists.iter().any(|(known, _)| *known == list) {
                    return Err(Error::new(ErrorCode::Damaged, format!("{list} appears twice")));
                }
                lists.push((list, start + field.len() + 1..end));
            } else if field.eq_ignore_ascii_case("Source") && in_source {
                name = Some(value.trim());
            } else if field.eq_ignore_ascii_case("Architecture") {
                for_architectures |= value.trim() != "all";
                for_all |= value.trim() == "all";
            }
        }
        let depends = lists.iter().position(|(field, _)| *field == LISTS[0]);
        let depends = depends.map(|index| lists.remove(index).1);
        let name = name.filter(|name| {
            let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
            !name.is_empty() && name.bytes().all(known)
        });
        Ok(Self {
            text,
            name: name.ok_or_else(|| {
                Error::new(
                    ErrorCode::UnsupportedVariant,
                    "not changed: the first paragraph is not a source package",
                )
            })?,
            depends: depends.ok_or_else(|| {
                Error::new(ErrorCode::UnsupportedVariant, "not changed: no Build-Depends")
                    .with_hint(format!("debhelper-compat (= {USUAL_COMPAT}) must be in that field"))
            })?,
            others: lists,
            for_architectures,
            for_all,
        })
    }

    fn must_be_understood(&self, debian: &Path) -> Result<()> {
        let control = debian.join("control");
        if !self.for_architectures {
            return Err(refused(
                &control,
                "all packages are architecture-independent",
                "an architecture-independent package has no programs to order",
            ));
        }
        let level_of = |item: &Dependency<'_>| {
            let level = item.text.strip_prefix("debhelper-compat")?.trim_start().strip_prefix('(')?;
            level.trim_start().strip_prefix('=')?.split(')').next()?.trim().parse::<u32>().ok()
        };
        let by_dependency = self.items(&self.depends).iter().find_map(level_of);
        let elsewhere =
            self.others.iter().find(|(_, list)| self.items(list).iter().any(|item| level_of(item).is_some()));
        if let Some((field, _)) = elsewhere {
            return Err(refused(
                &control,
                &format!("debhelper-compat is in {field}, but debhelper reads it from Build-Depends only"),
                "move it to Build-Depends",
            ));
        }
        let by_file = || read_recipe(&debian.join("compat")).ok()?.trim().parse::<u32>().ok();
        match by_dependency.or_else(by_file) {
            Some(level) if level >= COMPAT => Ok(()),
            Some(level) => Err(refused(
                &control,
                &format!("its debhelper level is {level}; the sequence is tested with {COMPAT} and later"),
                "raise the level, or add the sequence to Build-Depends by hand",
            )),
            None => Err(refused(
                &control,
                "its debhelper level is unknown",
                "the package must build-depend on debhelper-compat (= 13)",
            )),
        }
    }

    /// Returns the dependencies of a list with their positions in the text, without comments.
    fn items(&self, list: &std::ops::Range<usize>) -> Vec<Dependency<'a>> {
        let mut items = Vec::new();
        let mut start = None::<usize>;
        let mut end = 0;
        let mut at = list.start;
        for line in self.text[list.clone()].split_inclusive('\n') {
            if line.starts_with('#') {
                at += line.len();
                continue;
            }
            for (index, character) in line.char_indices() {
                if character == ',' {
                    if let Some(start) = start.take() {
                        items.push(Dependency { text: &self.text[start..end], start, end });
                    }
                } else if !character.is_whitespace() {
                    start.get_or_insert(at + index);
                    end = at + index + character.len_utf8();
                }
            }
            at += line.len();
        }
        if let Some(start) = start {
            items.push(Dependency { text: &self.text[start..end], start, end });
        }
        items
    }

    /// Returns the text with the sequence in Build-Depends-Arch, because packages for all architectures are built
    /// without it.
    fn with_sequence_for_architectures(&self) -> String {
        let wanted = format!("{SEQUENCE} <!pkg.{}.nosediment>", self.name);
        let list = self.others.iter().find(|(field, _)| *field == LISTS[1]).map(|(_, list)| list);
        let items = list.map(|list| self.items(list)).unwrap_or_default();
        match &items[..] {
            [] => {
                let (head, tail) = self.text.split_at(self.depends.end);
                let end = if head.ends_with('\n') { "" } else { "\n" };
                format!("{head}{end}{}: {wanted}\n{tail}", LISTS[1])
            }
            [.., last] => {
                let between = match &items[..] {
                    [.., before, last] => self.text[before.end..last.start].to_owned(),
                    _ => ", ".to_owned(),
                };
                let between = if between.contains('#') { ",\n ".to_owned() } else { between };
                let (head, tail) = self.text.split_at(last.end);
                format!("{head}{between}{wanted}{tail}")
            }
        }
    }

    /// Returns the text with the sequence after debhelper, in the style of the list, or in Build-Depends-Arch if some
    /// packages are for all architectures.
    fn with_sequence(&self) -> Result<String> {
        let items = self.items(&self.depends);
        let is = |item: &Dependency<'_>, name: &str| {
            let rest = item.text.strip_prefix(name);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "-+.".contains(c)))
        };
        if items.iter().any(|item| is(item, SEQUENCE)) {
            return Ok(self.text.to_owned());
        }
        // debhelper loads a sequence once: from Build-Depends-Arch for linked packages, from -Indep for the rest.
        for (field, list) in &self.others {
            match self.items(list).iter().any(|item| is(item, SEQUENCE)) {
                true if *field == LISTS[1] => return Ok(self.text.to_owned()),
                true => {
                    return Err(Error::new(
                        ErrorCode::UnsupportedVariant,
                        format!("not changed: {SEQUENCE} is in {field}, where it does not apply to programs"),
                    )
                    .with_hint("move it to Build-Depends"));
                }
                false => {}
            }
        }
        let index =
            items.iter().position(|item| is(item, "debhelper-compat") || item.text.starts_with("debhelper"));
        let index = index.ok_or_else(|| {
            Error::new(ErrorCode::UnsupportedVariant, "not changed: debhelper is not in Build-Depends")
                .with_hint(format!("write `{SEQUENCE} <!pkg.{}.nosediment>` next to it by hand", self.name))
        })?;
        if self.for_all {
            return Ok(self.with_sequence_for_architectures());
        }
        let own = &items[index];
        let between = |a: &Dependency<'_>, b: &Dependency<'_>| self.text[a.end..b.start].to_owned();
        let plain = |text: &String| !text.contains('#');
        let after = items.get(index + 1).map(|next| between(own, next)).filter(plain);
        let before = index.checked_sub(1).map(|before| between(&items[before], own)).filter(plain);
        let separator = after.or(before).unwrap_or_else(|| {
            // A dependency alone on its line stays alone.
            let line = self.text[..own.start].rfind('\n').map_or(0, |end| end + 1);
            let indent = &self.text[line..own.start];
            if indent.trim().is_empty() { format!(",\n{indent}") } else { ", ".to_owned() }
        });
        let (head, tail) = self.text.split_at(own.end);
        Ok(format!("{head}{separator}{SEQUENCE} <!pkg.{}.nosediment>{tail}", self.name))
    }
}

/// A dependency in a list.
struct Dependency<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

#[cfg(test)]
#[path = "../../../tests/unit/deb.rs"]
mod tests;
