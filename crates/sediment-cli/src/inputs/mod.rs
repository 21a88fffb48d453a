// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs of commands: reads profiles, binaries and recordings and says what is to be known of them; options that several commands share.

pub(crate) mod recordings;
pub(crate) mod renamed;
pub(crate) mod settings;
pub(crate) mod weights;

use crate::ui::Ui;
use sediment::Result;
use sediment::order::Selection;
use std::path::Path;

/// Reads a profile, says what was left out of it, and names it in errors.
pub(crate) fn read_profile(path: &Path, ui: &Ui) -> Result<sediment::profile::Profile> {
    let name = crate::files::display(path);
    let bytes = crate::files::read(path)?;
    let (profile, skipped) =
        sediment::profile::text::parse(&bytes).map_err(|error| error.with_input(name.clone()))?;
    ui.skipped(&name, &skipped);
    Ok(profile)
}

/// Reads an ELF file with its symbols, from its debug file where it is stripped.
pub(crate) fn read_binary(path: &Path) -> Result<sediment::binary::Binary> {
    read_binary_below(None, path)
}

/// The same, of a file below the root of a system, whose debug files lie there, too.
pub(crate) fn read_binary_below(root: Option<&Path>, path: &Path) -> Result<sediment::binary::Binary> {
    let root = root.map(Path::to_path_buf);
    let files = crate::files::SystemFiles::new(root, std::slice::from_ref(&path.to_path_buf()))?;
    let bytes = crate::files::read(path)?;
    sediment::binary::Binary::parse(&bytes, &files)
        .map_err(|error| error.with_input(crate::files::display(path)))
}

/// Which functions of a profile are meant: those of a binary that is at hand, of a DSO by its label, or all.
pub(crate) fn selection<'a>(
    binary: Option<&'a sediment::binary::Binary>,
    file_name: &'a str,
    dso: Option<&'a str>,
) -> Selection<'a> {
    match (binary, dso) {
        (Some(binary), _) => Selection::Binary { binary, file_name },
        (None, Some(label)) => Selection::Dso(label),
        (None, None) => Selection::Everything,
    }
}

/// Says when functions have names that only people use: no linker will find them.
pub(crate) fn say_what_is_demangled<'a>(names: impl Iterator<Item = &'a str>, ui: &Ui) {
    let demangled: Vec<&str> = names.filter(|name| sediment::binary::names::is_demangled(name)).collect();
    if let Some(example) = demangled.first() {
        ui.note(&format!(
            "{} functions have demangled names, such as {example}: no linker knows a function by them; \
             print or record again with --no-demangle (perf report and script, gprof), --demangle=no (callgrind, uftrace)",
            demangled.len()
        ));
    }
}

/// Gaps in what a profile tells, and the interpreter that it is mostly of; a line each.
pub(crate) fn what_it_cannot_tell(profile: &sediment::profile::Profile) -> Vec<String> {
    use sediment::profile::knowledge::{interpreter, not_known};
    let several = profile.source.len() > 1;
    let from = |source: Option<String>| match source {
        Some(source) if several => source,
        None if several => "any source".to_owned(),
        _ => "this source".to_owned(),
    };
    let mut lines: Vec<String> = not_known(profile)
        .into_iter()
        .map(|entry| {
            let what: Vec<String> = entry.what.iter().map(ToString::to_string).collect();
            format!("not known from {}: {}", from(entry.source), what.join("; "))
        })
        .collect();
    if let Some(found) = interpreter(profile) {
        // Only for the eye: the quotient of two floats is near enough.
        let share = 100.0 * found.weight.0 as f64 / found.weight.1 as f64;
        let (label, runs) = (&found.label, found.runs);
        lines.push(format!(
            "{share:.0}% of what ran is {label}: you are ordering {label}, not the {runs} program that it ran"
        ));
    }
    lines
}

/// Says which DSOs of a profile look like one library under two names; they are never joined unasked.
pub(crate) fn warn_of_similar_labels(profile: &sediment::profile::Profile, ui: &Ui) {
    for (one, other) in sediment::profile::similar_labels::similar_labels(profile) {
        ui.note(&format!("{one} and {other} look like one library; they are kept apart"));
    }
}
