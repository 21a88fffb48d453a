// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment package rpm` changes a spec file for the macros in dist/rpm/macros.sediment.

use super::built::BuiltNames;
use super::conditions::counts;
use super::spec::{SECTIONS, Spec, Tag};
use super::{RecipeChange, RecipeOptions, inputs_for, propose, read_recipe};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run as run_command;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit and size limit for the output of rpm: a spec file may run programs while it is parsed.
const TIMEOUT: Duration = Duration::from_secs(60);
const LONGEST_ANSWER: usize = 1 << 20;

/// Change the spec file of an RPM package
#[derive(Debug, Args)]
#[command(
    long_about = "Change the spec file of an RPM package.\n\nAdds the condition `sediment`: rpmbuild --without sediment builds as before. Adds the profile as a source, a build requirement of sediment-rpm-macros, and one line each in %prep and %check. Copies the profile next to the spec file, or into SOURCES next to SPECS."
)]
pub(super) struct Arguments {
    /// Spec file to change
    #[arg(value_name = "FILE")]
    spec: PathBuf,
    #[command(flatten)]
    common: RecipeOptions,
}

pub(super) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let path = &arguments.spec;
    let named = |error: Error| {
        let hint = error
            .hint()
            .unwrap_or("make the change by hand: docs/packaging-rpm.md shows the lines")
            .to_owned();
        error.with_input(files::display(path)).with_hint(hint)
    };
    let before = read_recipe(path)?;
    let additions = inputs_for(&sources_of(path), &arguments.common, built(&before), ui)?;
    let names: Vec<String> = additions.iter().map(|addition| files::base_name(&addition.path)).collect();
    // Without a threshold the check only warns, so that an outdated profile does not break the build.
    let threshold = arguments.common.min_coverage;
    let by_rpm = || built_as_noarch(path);
    let changed = change(&before, &names, threshold, &by_rpm).map_err(named)?;
    for note in &changed.notes {
        ui.note(&format!("{}: {note}", files::display(path)));
    }
    let change = RecipeChange { path: path.clone(), before: Some(before), after: changed.text };
    propose(&[change], &additions, &arguments.common, ui)
}

/// Returns the outputs of a spec file, from the names of its packages and its lists of files. A macro may expand to any
/// text.
fn built(spec: &str) -> BuiltNames {
    let mut built = BuiltNames::default();
    let value = |tag: &str| {
        let line = spec
            .lines()
            .find(|line| line.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))?;
        Some(line[tag.len()..].trim().to_owned())
    };
    let name = value("Name:").unwrap_or_default();
    let known = |text: &str| text.replace("%{name}", &name).replace("%name", &name);
    built.add_package(&name);
    built.add_words(&known(spec));
    let mut in_files = false;
    for line in spec.lines().map(str::trim) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("%package") => {
                let words: Vec<&str> = words.collect();
                match words[..] {
                    ["-n", package, ..] => built.add_package(&known(package)),
                    [part, ..] => built.add_package(&format!("{name}-{}", known(part))),
                    [] => {}
                }
            }
            Some("%files") => in_files = true,
            Some(first) if SECTIONS.iter().any(|section| first.strip_prefix('%') == Some(section)) => {
                in_files = false
            }
            Some(first) if in_files && !first.starts_with('#') => {
                let last = line.split_whitespace().next_back().unwrap_or_default();
                built.add_installed(&without_macros(&known(last)));
            }
            _ => {}
        }
    }
    built
}

/// Replaces each macro in a text by a wildcard.
fn without_macros(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = match part.strip_prefix('{') {
            Some(named) => named.split_once('}').map_or("", |(_, rest)| rest),
            None => part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        };
        plain += "*";
        plain += rest;
    }
    plain
}

/// Returns the folder of a spec file's sources: SOURCES next to SPECS, as in rpmbuild's layout, otherwise the folder of
/// the spec file.
fn sources_of(spec: &Path) -> PathBuf {
    let folder = spec.parent().unwrap_or(Path::new(""));
    let whole = std::path::absolute(spec).unwrap_or_else(|_| spec.to_path_buf());
    let in_specs = whole.parent().is_some_and(|folder| folder.ends_with("SPECS"));
    let sources = folder.join("../SOURCES");
    if in_specs && sources.is_dir() { sources } else { folder.to_path_buf() }
}

/// Asks the installed rpm whether this spec file is noarch with default conditions; `None` if rpm gives no answer.
fn built_as_noarch(spec: &Path) -> Option<bool> {
    let whole = std::path::absolute(spec).ok()?;
    let sources = format!("_sourcedir {}", files::display(&sources_of(&whole)));
    let ask = ["--query", "--srpm", "--queryformat", "[%{BUILDARCHS}\\n]", "--define", &sources, "--"];
    let command = Command::new("rpmspec", whole.parent()?, TIMEOUT).with_arguments(ask);
    let command = command.with_arguments([&whole]);
    let ended = run_command(&command, LONGEST_ANSWER).and_then(|ended| ended.successful(&command)).ok()?;
    let answer = String::from_utf8_lossy(&ended.output).into_owned();
    Some(!answer.trim().is_empty() && answer.lines().all(|line| line.trim() == "noarch"))
}

/// A changed spec file, and notes for its maintainer.
#[derive(Debug)]
struct ChangedSpec {
    text: String,
    notes: Vec<String>,
}

/// Adds the lines to a spec file, unless it has them already. For some spec files, only rpm can decide whether they are
/// noarch.
fn change(
    text: &str,
    profiles: &[String],
    threshold: Option<u8>,
    noarch_by_rpm: &dyn Fn() -> Option<bool>,
) -> Result<ChangedSpec> {
    let spec = Spec::read(text)?;
    let macros = ["%sediment_prep", "%{sediment_prep", "sediment-rpm-macros"];
    let uses = |line: &str| macros.iter().any(|word| line.replace("%%", "").contains(word));
    if spec.effective().any(|(_, line)| uses(line)) {
        let mut notes = vec!["not changed: the spec uses sediment's macros already".to_owned()];
        for profile in profiles.iter().filter(|profile| !text.contains(*profile)) {
            notes.push(format!(
                "{profile} is not in the spec: add it as a source and to %sediment_prep, or rename the profile to the existing source"
            ));
        }
        return Ok(ChangedSpec { text: text.to_owned(), notes });
    }
    let mut notes = Vec::new();
    notes.extend(must_have_programs(&spec, noarch_by_rpm)?);
    let parts = SpecParts::of(&spec)?;
    // Lines to insert, with the number of the line before which they are inserted.
    let mut added: Vec<(usize, String)> = Vec::new();

    let source = parts.last_source;
    let mut next = parts.next_source;
    let mut prepared = String::new();
    for profile in profiles {
        let there = parts.sources.iter().find(|(_, tag)| tag.value.rsplit('/').next() == Some(profile));
        if let Some((_, tag)) = there.filter(|(_, tag)| !parts.is_numbered_always(&spec, tag)) {
            return Err(at(
                tag.line,
                "the profile is a source already, but its number depends on conditions",
            ));
        }
        let number = there.map_or(next, |(number, _)| *number);
        if there.is_none() {
            let tag = padded(&format!("Source{number}:"), source);
            added.push((spec.behind(source.line), format!("{tag}{profile}\n")));
            next += 1;
        }
        prepared += &format!(" %{{SOURCE{number}}}");
    }
    let neighbour = parts.last_build_requirement.unwrap_or(source);
    let requirement = padded("BuildRequires:", neighbour) + "sediment-rpm-macros";
    let required = spec.behind(neighbour.line);
    added.push((required, format!("%{{?with_sediment:{requirement}}}\n")));
    added.push(condition(&spec, required)?);
    added.push((spec.end_of_text(parts.prep), format!("%{{?with_sediment:%sediment_prep{prepared}}}\n")));
    let threshold = threshold.map_or_else(String::new, |threshold| format!(" -m {threshold}"));
    let check = format!("%{{?with_sediment:%sediment_check{threshold}}}\n");
    match spec.section("check")? {
        Some(section) => {
            if spec.depth(section.first) > 0 {
                notes.push("%check depends on a condition, so the added lines do, too".to_owned());
            }
            added.push((section.first + 1, check));
        }
        None => added.push((spec.behind_section(parts.install), format!("%check\n{check}\n"))),
    }
    let flags = ["optflags", "build_cflags", "build_cxxflags", "build_fflags"];
    let uses_flags = |line: &str| flags.iter().any(|flags| line.contains(flags));
    let early = spec.effective().take_while(|(line, _)| *line < parts.prep.first);
    let early = early.into_iter().find(|(_, line)| uses_flags(line)).map(|(line, _)| line);
    if let Some(line) = early {
        notes.push(format!(
            "line {} uses the compiler's flags before %prep, where the flags for an order are not set yet",
            line + 1
        ));
    }
    Ok(ChangedSpec { text: with_lines(&spec.lines, added), notes })
}

/// The parts of a spec file that are needed for the change.
struct SpecParts<'a> {
    /// Its sources with their numbers.
    sources: Vec<(u32, Tag<'a>)>,
    last_source: Tag<'a>,
    next_source: u32,
    last_build_requirement: Option<Tag<'a>>,
    prep: super::spec::SpecSection<'a>,
    install: super::spec::SpecSection<'a>,
}

impl<'a> SpecParts<'a> {
    fn of(spec: &Spec<'a>) -> Result<Self> {
        let tags =
            |name: &'static str| spec.tags.iter().filter(move |tag| tag.name.eq_ignore_ascii_case(name));
        if let Some(tag) = tags("BuildSystem").next() {
            return Err(at(tag.line, "a BuildSystem writes the sections of this spec"));
        }
        if let Some(section) = spec.section("sourcelist")? {
            return Err(at(section.first, "%sourcelist numbers the sources of this spec"));
        }
        let required = |name: &str| {
            let section = spec
                .section(name)?
                .ok_or_else(|| Error::new(ErrorCode::UnsupportedVariant, format!("no section %{name}")))?;
            if spec.depth(section.first) > 0 {
                return Err(at(section.first, &format!("%{name} depends on a condition")));
            }
            Ok(section)
        };
        let (prep, build, install) = (required("prep")?, required("build")?, required("install")?);
        if !(prep.first < build.first && build.first < install.first) {
            return Err(at(prep.first, "%prep, %build and %install are in another order"));
        }
        let last = spec.lines[spec.end_of_text(prep) - 1];
        if last.trim_end().ends_with('\\') {
            return Err(at(spec.end_of_text(prep) - 1, "the last line of %prep is continued"));
        }
        if let Some(line) = spec.sources_by_macros.first() {
            return Err(at(*line, "a macro adds a source"));
        }
        if let Some(line) = uses_all_sources(spec) {
            return Err(at(line, "the spec uses all sources, and the profile would be one of them"));
        }
        let mut sources: Vec<(u32, Tag<'a>)> = Vec::new();
        let mut next_source = 0;
        for tag in &spec.tags {
            let Some(number) = tag.name.get(..6).filter(|name| name.eq_ignore_ascii_case("Source")) else {
                continue;
            };
            let number = &tag.name[number.len()..];
            // Without a number, it is the one after the last.
            let number = if number.is_empty() { Ok(next_source) } else { number.parse::<u32>() };
            let number = number.map_err(|_| at(tag.line, "a macro numbers a source"))?;
            next_source = next_source.max(number.saturating_add(1));
            sources.push((number, *tag));
        }
        // If a line, even a comment, contains such a number, it would refer to the new source.
        next_source = next_source.max(named_numbers(spec).max().map_or(0, |number| number.saturating_add(1)));
        let (_, last_source) = sources
            .last()
            .copied()
            .ok_or_else(|| Error::new(ErrorCode::UnsupportedVariant, "the spec has no source"))?;
        let last_build_requirement = tags("BuildRequires").next_back().copied();
        Ok(Self { sources, last_source, next_source, last_build_requirement, prep, install })
    }
}

/// Returns the numbers of sources that lines refer to by macros: `%{SOURCE1}` or `%{S:1}`.
fn named_numbers(spec: &Spec<'_>) -> impl Iterator<Item = u32> {
    spec.lines
        .iter()
        .flat_map(|line| ["SOURCE", "S:"].into_iter().flat_map(|word| line.split(word).skip(1)))
        .filter_map(|rest| {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            rest[..digits].parse::<u32>().ok().filter(|_| digits < 7)
        })
}

/// Returns the first line that refers to all sources, through rpm's macro or Lua's table of sources, but not through a
/// macro of the spec file.
fn uses_all_sources(spec: &Spec<'_>) -> Option<usize> {
    let own = |line: &str| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("%define" | "%global"))
            && words.next().is_some_and(|name| name == "sources")
    };
    if spec.lines.iter().any(|line| own(line)) {
        return None;
    }
    let uses = |line: &str| {
        let word = line
            .split("%sources")
            .skip(1)
            .any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        word || ["%{sources}", "%{?sources}", "pairs(sources)"].iter().any(|used| line.contains(used))
    };
    spec.effective().find(|(_, line)| uses(line)).map(|(line, _)| line)
}

/// Refuses a package that is noarch with default conditions; prints a note if it can be noarch.
fn must_have_programs(spec: &Spec<'_>, noarch_by_rpm: &dyn Fn() -> Option<bool>) -> Result<Option<String>> {
    let refused = |tag: &Tag<'_>| Err(at(tag.line, "the package is noarch, so it has no functions to order"));
    let tags: Vec<&Tag<'_>> = spec.tags.iter().filter(|tag| is_noarch(tag)).collect();
    let Some(first) = tags.first() else { return Ok(None) };
    let always = |tag: &&&Tag<'_>| spec.depth(tag.line) == 0 && tag.value == "noarch";
    if let Some(tag) = tags.iter().find(always) {
        return refused(tag);
    }
    let by_default = noarch_by_rpm();
    let counted = |tag: &&&Tag<'_>| by_default.unwrap_or_else(|| counts(spec, tag.line) == Some(true));
    if let Some(tag) = tags.iter().find(counted) {
        return refused(tag);
    }
    let resolved = by_default.is_some() || tags.iter().all(|tag| counts(spec, tag.line).is_some());
    let condition = if resolved { "a condition" } else { "a condition that rpmspec cannot resolve here" };
    Ok(Some(format!(
        "line {} makes the package noarch under {condition}; in that case nothing is ordered or checked",
        first.line + 1
    )))
}

/// True if a tag may make the package noarch.
fn is_noarch(tag: &Tag<'_>) -> bool {
    let names = ["BuildArch", "BuildArchitectures"];
    names.iter().any(|name| tag.name.eq_ignore_ascii_case(name)) && tag.value.contains("noarch")
}

impl SpecParts<'_> {
    /// True if a source has its computed number under all conditions.
    fn is_numbered_always(&self, spec: &Spec<'_>, source: &Tag<'_>) -> bool {
        let before = self.sources.iter().map(|(_, tag)| tag.line).take_while(|line| *line < source.line);
        let by_others =
            source.name.eq_ignore_ascii_case("Source") && before.into_iter().any(|line| spec.depth(line) > 0);
        spec.depth(source.line) == 0 && !by_others
    }
}

fn at(line: usize, what: &str) -> Error {
    Error::at_line(line as u64 + 1, what)
}

/// Returns the condition in the style of the spec file, and the line for it: after other build conditions but before
/// its first use, otherwise before everything.
fn condition(spec: &Spec<'_>, first_use: usize) -> Result<(usize, String)> {
    let is_condition = |line: &str| line.starts_with("%bcond");
    let own = |line: &str| {
        let named = is_condition(line) && line.split_whitespace().nth(1) == Some("sediment");
        named || line.contains("with_sediment") || line.contains("with sediment}")
    };
    if let Some((line, _)) = spec.effective().find(|(_, line)| own(line)) {
        return Err(at(line, "the condition sediment exists already"));
    }
    let first_part = spec.sections.first().map_or(spec.lines.len(), |section| section.first);
    let conditions = || (0..first_part).filter(|line| is_condition(spec.lines[*line]));
    let old = conditions().all(|line| spec.lines[line].starts_with("%bcond_with"));
    let last = conditions().rfind(|line| spec.behind(*line) <= first_use);
    let text = if old && conditions().next().is_some() {
        "%bcond_without sediment\n"
    } else {
        "%bcond sediment 1\n"
    };
    Ok(match last {
        Some(line) => (spec.behind(line), text.to_owned()),
        None => {
            let says = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
            (spec.lines.iter().position(says).unwrap_or(0), format!("{text}\n"))
        }
    })
}

/// Formats a tag whose value begins in the same column as its neighbour's.
fn padded(name: &str, neighbour: Tag<'_>) -> String {
    if neighbour.gap.contains('\t') {
        return format!("{name}{}", neighbour.gap);
    }
    let blanks = neighbour.column.saturating_sub(name.len()).max(1);
    format!("{name}{}", " ".repeat(blanks))
}

/// Inserts lines into the text, each before the line with its number.
fn with_lines(lines: &[&str], mut added: Vec<(usize, String)>) -> String {
    added.sort_by_key(|(line, _)| *line);
    let mut text = String::new();
    let mut added = added.into_iter().peekable();
    for index in 0..=lines.len() {
        while let Some((_, new)) = added.next_if(|(line, _)| *line == index) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text += &new;
        }
        text += lines.get(index).copied().unwrap_or_default();
    }
    text
}

#[cfg(test)]
#[path = "../../../tests/unit/rpm.rs"]
mod tests;
