// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment package rpm`: the change to a spec file, for the macros of dist/rpm/macros.sediment.

use super::spec::{Spec, Tag};
use super::{Change, Common, profile_for, propose, read_recipe};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment::{Error, Result};
use std::path::{Path, PathBuf};

/// Change the spec file of an RPM package
#[derive(Debug, Args)]
#[command(
    long_about = "Change the spec file of an RPM package so that it is built in the order of a profile.\n\n\
Adds the condition `sediment` (rpmbuild --without sediment builds as before), the profile as a source, the build requirement of \
sediment-rpm-macros, a line in %prep and one in %check. The profile is copied beside the spec file."
)]
pub(super) struct Arguments {
    /// The spec file
    #[arg(value_name = "SPEC")]
    spec: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let path = &arguments.spec;
    let named = |error: Error| {
        let hint = error
            .hint()
            .unwrap_or("write the change by hand: docs/packaging-rpm.md shows its lines")
            .to_owned();
        error.with_input(files::display(path)).with_hint(hint)
    };
    let before = read_recipe(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let profile = profile_for(folder, &arguments.common.profile, ui)?;
    let file = files::base_name(&profile.path);
    let changed = change(&before, &file, arguments.common.min_coverage).map_err(named)?;
    for note in &changed.notes {
        ui.note(&format!("{}: {note}", files::display(path)));
    }
    let change = Change { path: path.clone(), before: Some(before), after: changed.text };
    propose(&[change], &[profile], arguments.common.apply, ui)
}

/// A changed spec, and what its maintainer should know.
#[derive(Debug)]
struct Changed {
    text: String,
    notes: Vec<String>,
}

/// Adds the lines to a spec; one that has them already stays as it is.
fn change(text: &str, profile: &str, floor: u8) -> Result<Changed> {
    if ["%sediment_prep", "%{sediment_prep", "sediment-rpm-macros"].iter().any(|word| text.contains(word)) {
        let mut notes = vec!["the macros of sediment are in use already: the spec stays as it is".to_owned()];
        if !text.contains(profile) {
            notes.push(format!(
                "{profile} does not stand in it: name it as a source and in %sediment_prep, or give the profile the name of the one \
                 that does"
            ));
        }
        return Ok(Changed { text: text.to_owned(), notes });
    }
    let spec = Spec::read(text)?;
    let parts = Parts::of(&spec)?;
    let mut notes = Vec::new();
    // Lines to put in, by the number of the line that they go in front of.
    let mut added: Vec<(usize, String)> = Vec::new();

    added.push(condition(&spec));
    let source = parts.last_source;
    let name = format!("Source{}:", parts.next_source);
    added.push((spec.behind(source.line), format!("{}{profile}\n", padded(&name, source.column))));
    let (line, column) = match parts.last_build_requirement {
        Some(tag) => (spec.behind(tag.line), tag.column),
        None => (spec.behind(source.line), source.column),
    };
    let requirement = padded("BuildRequires:", column) + "sediment-rpm-macros";
    added.push((line, format!("%{{?with_sediment:{requirement}}}\n")));
    added.push((
        spec.end_of_text(parts.prep),
        format!("%{{?with_sediment:%sediment_prep %{{SOURCE{}}}}}\n", parts.next_source),
    ));
    let check = format!("%{{?with_sediment:%sediment_check -m {floor}}}\n");
    match spec.section("check")? {
        Some(section) => {
            if spec.depth(section.first) > 0 {
                notes.push("%check stands under a condition, and so does what is added to it".to_owned());
            }
            added.push((section.first + 1, check));
        }
        None => added.push((spec.behind_section(parts.install), format!("%check\n{check}\n"))),
    }
    let early = spec.lines[..parts.prep.first].iter().position(|line| {
        ["optflags", "build_cflags", "build_cxxflags", "build_fflags"]
            .iter()
            .any(|flags| line.contains(flags))
    });
    if let Some(line) = early {
        notes.push(format!(
            "line {} uses the compiler's flags in front of %prep, where those for an order are not among them yet",
            line + 1
        ));
    }
    Ok(Changed { text: with_lines(&spec.lines, added), notes })
}

/// What a spec must have to be changed.
struct Parts<'a> {
    last_source: Tag<'a>,
    next_source: u32,
    last_build_requirement: Option<Tag<'a>>,
    prep: super::spec::Section<'a>,
    install: super::spec::Section<'a>,
}

impl<'a> Parts<'a> {
    fn of(spec: &Spec<'a>) -> Result<Self> {
        let tags =
            |name: &'static str| spec.tags.iter().filter(move |tag| tag.name.eq_ignore_ascii_case(name));
        if let Some(tag) = tags("BuildSystem").next() {
            return Err(at(tag.line, "a BuildSystem writes the sections of this spec"));
        }
        if let Some(tag) = tags("BuildArch").find(|tag| tag.value == "noarch") {
            return Err(at(tag.line, "the package is noarch: nothing in it has functions to place"));
        }
        if let Some(section) = spec.section("sourcelist")? {
            return Err(at(section.first, "%sourcelist gives the sources their numbers"));
        }
        let required = |name: &str| {
            let section =
                spec.section(name)?.ok_or_else(|| Error::failed(format!("there is no section %{name}")))?;
            if spec.depth(section.first) > 0 {
                return Err(at(section.first, &format!("%{name} stands under a condition")));
            }
            Ok(section)
        };
        let (prep, build, install) = (required("prep")?, required("build")?, required("install")?);
        if !(prep.first < build.first && build.first < install.first) {
            return Err(at(prep.first, "%prep, %build and %install stand in another order"));
        }
        let last = spec.lines[spec.end_of_text(prep) - 1];
        if last.trim_end().ends_with('\\') {
            return Err(at(spec.end_of_text(prep) - 1, "%prep ends in a line that is continued"));
        }
        let mut last_source = None;
        let mut next_source = 0;
        for tag in &spec.tags {
            let Some(number) = tag.name.get(..6).filter(|name| name.eq_ignore_ascii_case("Source")) else {
                continue;
            };
            let number = &tag.name[number.len()..];
            // Without a number it is the one behind the last.
            let number = if number.is_empty() { Ok(next_source) } else { number.parse::<u32>() };
            let number = number.map_err(|_| at(tag.line, "a macro gives a source its number"))?;
            next_source = next_source.max(number.saturating_add(1));
            last_source = Some(*tag);
        }
        let last_source = last_source.ok_or_else(|| Error::failed("there is no source"))?;
        let last_build_requirement = tags("BuildRequires").next_back().copied();
        Ok(Self { last_source, next_source, last_build_requirement, prep, install })
    }
}

fn at(line: usize, what: &str) -> Error {
    Error::at_line(line as u64 + 1, what)
}

/// The condition, behind others of its kind or in front of everything; in the words that the spec has for them.
fn condition(spec: &Spec<'_>) -> (usize, String) {
    let is_condition = |line: &str| line.starts_with("%bcond");
    let first_part = spec.sections.first().map_or(spec.lines.len(), |section| section.first);
    let last = spec.lines[..first_part].iter().rposition(|line| is_condition(line));
    let old = spec.lines[..first_part]
        .iter()
        .filter(|line| is_condition(line))
        .all(|line| line.starts_with("%bcond_with"));
    match last {
        Some(line) if old => (spec.behind(line), "%bcond_without sediment\n".to_owned()),
        Some(line) => (spec.behind(line), "%bcond sediment 1\n".to_owned()),
        None => {
            let says = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
            (spec.lines.iter().position(says).unwrap_or(0), "%bcond sediment 1\n\n".to_owned())
        }
    }
}

/// A tag, with blanks up to the column that the values of its neighbours begin at.
fn padded(name: &str, column: usize) -> String {
    let blanks = column.saturating_sub(name.len()).max(1);
    format!("{name}{}", " ".repeat(blanks))
}

/// The text with further lines, each in front of the line of its number.
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
mod tests {
    use super::*;

    const SPEC: &str = "# A comment\nName:           foo\nVersion:        1\nSource0:        foo.tar.gz\n%if %{with x}\nSource7:        more.conf\n%endif\nBuildRequires:  gcc\nBuildRequires:  make\n\n%description\nName: no tag\n\n%prep\n%autosetup\n\n%build\n%configure\n%make_build\n\n%install\n%make_install\n\n%if %{with x}\n%files x\n%endif\n\n%files\n";

    fn changed(text: &str) -> String {
        change(text, "foo.gv", 90).unwrap().text
    }

    fn refused(text: &str) -> String {
        change(text, "foo.gv", 90).unwrap_err().to_string()
    }

    #[test]
    fn six_lines_are_added_and_none_is_changed() {
        let after = changed(SPEC);
        let new: Vec<&str> =
            after.lines().filter(|line| line.contains("sediment") || line.contains("foo.gv")).collect();
        assert_eq!(
            new,
            [
                "%bcond sediment 1",
                "Source8:        foo.gv",
                "%{?with_sediment:BuildRequires:  sediment-rpm-macros}",
                "%{?with_sediment:%sediment_prep %{SOURCE8}}",
                "%{?with_sediment:%sediment_check -m 90}"
            ]
        );
        let mut rest = after.lines();
        assert!(SPEC.lines().all(|line| rest.any(|other| other == line)), "{after}");
        assert!(after.contains("%autosetup\n%{?with_sediment:%sediment_prep"), "{after}");
        assert!(
            after.contains(
                "%make_install\n\n%check\n%{?with_sediment:%sediment_check -m 90}\n\n%if %{with x}\n%files x"
            ),
            "{after}"
        );
        assert!(after.contains("%endif\nSource8:        foo.gv\nBuildRequires:"), "{after}");
        assert_eq!(changed(&after), after);
    }

    #[test]
    fn what_is_there_is_kept_to() {
        let spec = SPEC
            .replace("# A comment\n", "%bcond_without docs\n%global x 1\n")
            .replace("%if %{with x}\n%files x", "%check\nmake check\n\n%if %{with x}\n%files x")
            .replace("Source7: ", "Source:  ");
        let after = changed(&spec);
        assert!(after.starts_with("%bcond_without docs\n%bcond_without sediment\n%global x 1\n"), "{after}");
        assert!(after.contains("%check\n%{?with_sediment:%sediment_check -m 90}\nmake check\n"), "{after}");
        assert!(after.contains("Source2:        foo.gv"), "{after}");
        let new = changed(&spec.replace("%bcond_without docs", "%bcond docs 1"));
        assert!(new.starts_with("%bcond docs 1\n%bcond sediment 1\n"), "{new}");
    }

    #[test]
    fn tags_inside_macros_are_none() {
        let spec = SPEC.replace("Name:  ", "%global text() %{expand:\nSource99: not.one\n%if\n}\nName:  ");
        assert!(changed(&spec).contains("Source8:        foo.gv"));
    }

    #[test]
    fn lines_of_a_definition_that_is_continued_are_none_of_the_spec() {
        let definition = "%define pk() \\\nSource50: x \\\nBuildRequires: y \\\n%prep \\\n%{nil}\n";
        let spec = SPEC.replace("BuildRequires:  make\n", &format!("BuildRequires:  make\n{definition}"));
        let after = changed(&spec);
        assert!(after.contains(definition), "{after}");
        assert!(after.contains("Source8:        foo.gv\nBuildRequires:"), "{after}");
    }

    #[test]
    fn the_condition_of_the_next_section_is_not_that_of_prep() {
        let next = "\n%if %{with x}\n%generate_buildrequires\n%endif\n";
        let after = changed(&SPEC.replace("%autosetup\n", &format!("%autosetup\n{next}")));
        let prep = "%autosetup\n%{?with_sediment:%sediment_prep %{SOURCE8}}\n";
        assert!(after.contains(&format!("{prep}{next}")), "{after}");
        let own = "%if %{with x}\ntouch x\n%endif\n";
        let after = changed(&SPEC.replace("%autosetup\n", &format!("%autosetup\n{own}")));
        assert!(after.contains(&format!("{own}%{{?with_sediment:%sediment_prep")), "{after}");
    }

    #[test]
    fn a_profile_that_a_changed_spec_does_not_name_is_noted() {
        let after = changed(SPEC);
        assert_eq!(change(&after, "foo.gv", 90).unwrap().notes.len(), 1);
        assert!(change(&after, "bar.gv", 90).unwrap().notes[1].starts_with("bar.gv does not stand in it"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let refusals = [
            (SPEC.replace("%prep\n", ""), "%prep"),
            (SPEC.replace("%prep\n", "%if 1\n%prep\n").replace("%build", "%endif\n%build"), "condition"),
            (SPEC.replace("%endif\n\n%files\n", "\n%files\n"), "%endif"),
            (SPEC.replace("%description", "%endif\n%description"), "%endif without"),
            (SPEC.replace("Source0:", "BuildSystem: autotools\nSource0:"), "BuildSystem"),
            (SPEC.replace("Source0:", "BuildArch: noarch\nSource0:"), "noarch"),
            (SPEC.replace("Source7:", "Source%{n}:"), "number"),
            (SPEC.replace("Source7:", "Patch1:").replace("Source0:", "Patch0:"), "no source"),
            (SPEC.replace("%autosetup", "%autosetup \\"), "continued"),
            (SPEC.replace("%files x", "%prep\n%files x"), "second section"),
            (SPEC.replace('\n', "\r\n"), "Windows"),
        ];
        for (text, word) in refusals {
            assert!(refused(&text).contains(word), "{word}: {}", refused(&text));
        }
    }

    #[test]
    fn flags_that_are_used_too_early_are_noted() {
        let spec = SPEC.replace("Version:", "%global flags %{optflags} -DX\nVersion:");
        assert!(change(&spec, "foo.gv", 90).unwrap().notes[0].contains("line 3"));
    }
}
