// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs of commands: reads profiles, binaries and recordings, and prints notes on them. Has the options that several
//! commands share.

pub(crate) mod recordings;
pub(crate) mod renamed;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod weights;

use crate::output::{Digits, Schema, SkippedItems};
use crate::ui::Ui;
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::order::Selection;
use sediment_read::resolve::Resolved;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads a profile, reports the skipped items, and names the file in errors.
pub(crate) fn read_profile(path: &Path, ui: &Ui) -> Result<sediment_core::profile::Profile> {
    parsed(path, &crate::files::read(path)?, ui)
}

fn parsed(path: &Path, bytes: &[u8], ui: &Ui) -> Result<sediment_core::profile::Profile> {
    let name = crate::files::display(path);
    let (profile, skipped) = sediment_core::profile::text::parse(bytes)
        .map_err(|error| no_profile(path, bytes).unwrap_or(error).with_input(name.clone()))?;
    ui.skipped(&name, &skipped);
    Ok(profile)
}

/// Error for another file in place of a profile, with the command that converts it.
fn no_profile(path: &Path, bytes: &[u8]) -> Option<Error> {
    let profile = crate::next_steps::word(&path.with_extension("gv"))?;
    let given = crate::next_steps::word(path)?;
    let program = if given.contains('/') { given.clone() } else { format!("./{given}") };
    let (what, hint) = if bytes.starts_with(b"\x7fELF") {
        (
            "a program or library, not a profile",
            format!(
                "record it (sediment record -o {profile} -- {program}), and give {profile} as the profile and {given} as --binary"
            ),
        )
    } else if bytes.starts_with(b"PERFILE2") {
        ("a recording of perf, not a profile", format!("convert it: sediment import {given} -o {profile}"))
    } else {
        return None;
    };
    Some(Error::new(ErrorCode::UnknownFormat, what).with_hint(hint))
}

/// Returns the profile of one file unchanged, or the weighted sum of several.
pub(crate) fn merged(paths: &[(PathBuf, Weight)], ui: &Ui) -> Result<sediment_core::profile::Profile> {
    let profiles = paths.iter().map(|(path, _)| read_profile(path, ui)).collect::<Result<Vec<_>>>()?;
    match <[sediment_core::profile::Profile; 1]>::try_from(profiles) {
        Ok([profile]) => Ok(profile),
        Err(profiles) => {
            let weights = paths.iter().map(|(_, weight)| *weight);
            merge(&profiles.iter().zip(weights).collect::<Vec<_>>(), false)
        }
    }
}

/// As [`read_profile`], for a profile that may also be rows of a table.
pub(crate) fn read_profile_or_rows(path: &Path, ui: &Ui) -> Result<sediment_core::profile::Profile> {
    let bytes = crate::files::read(path)?;
    if !rows::begins(&bytes) {
        return parsed(path, &bytes, ui);
    }
    rows::parse(&bytes).map_err(|error| error.with_input(crate::files::display(path)))
}

/// Reads an ELF file with its symbols; if it is stripped, from its debug file.
pub(crate) fn read_binary(path: &Path) -> Result<sediment_core::binary::Binary> {
    read_binary_below(None, path)
}

/// As [`read_binary`], for a file below the root of a system, which also has its debug files.
pub(crate) fn read_binary_below(root: Option<&Path>, path: &Path) -> Result<sediment_core::binary::Binary> {
    let root = root.map(Path::to_path_buf);
    let files = crate::files::SystemFiles::new(root, std::slice::from_ref(&path.to_path_buf()))?;
    let bytes = crate::files::read(path)?;
    sediment_core::binary::Binary::parse(&bytes, &files)
        .map_err(|error| error.with_input(crate::files::display(path)))
}

/// Selects functions of a profile: a binary's, a DSO's by its label, or all.
pub(crate) fn selection<'a>(
    binary: Option<&'a sediment_core::binary::Binary>,
    file_name: &'a str,
    dso: Option<&'a str>,
) -> Selection<'a> {
    match (binary, dso) {
        (Some(binary), _) => Selection::Binary { binary, file_name },
        (None, Some(label)) => Selection::Dso(label),
        (None, None) => Selection::Everything,
    }
}

/// Warns of demangled names, which no linker can use.
pub(crate) fn say_what_is_demangled<'a>(names: impl Iterator<Item = &'a str>, ui: &Ui) {
    let demangled: Vec<&str> =
        names.filter(|name| sediment_core::binary::names::is_demangled(name)).collect();
    if let Some(example) = demangled.first() {
        ui.warn(&format!(
            "{} demangled names, for example {example}: order and predict need --binary to match them; linkage names are safer: print or record with --no-demangle (perf report and script) or --demangle=no (callgrind, uftrace)",
            demangled.len()
        ));
    }
}

/// Functions and calls of a profile, for one line.
pub(crate) fn summary(profile: &sediment_core::profile::Profile) -> String {
    let functions = counted(grouped(profile.function_count()), "function");
    let firsts =
        profile.functions().into_iter().filter(|function| profile.facts(*function).first.is_some()).count();
    match profile.total {
        0 if profile.counters_total > 0 => format!("counters of {functions}"),
        0 if firsts > 0 => format!("{functions} in the order of first use"),
        0 => functions,
        calls => format!("{functions}, {}", counted(grouped(calls), "call")),
    }
}

/// Output of `import --json` and `merge --json`: a written profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProfileOutput<'a> {
    schema: Schema<1>,
    /// The file.
    output: Cow<'a, str>,
    functions: usize,
    edges: usize,
    calls: Digits,
    /// How much of the recording's weight is in the profile; null without a recording, or if it has no weights.
    imported: Option<ImportedOutput>,
    /// Recorded files that no build-id, time or code identifies: their names may be wrong.
    unproven: Vec<UnprovenOutput>,
    /// Number of recordings.
    inputs: u64,
    /// Recorders, each with the data that it lacks.
    source: &'a BTreeSet<String>,
    /// Labels of programs and libraries.
    dsos: Vec<&'a str>,
    skipped: Vec<SkippedItems>,
}

/// How much of a recording's weight is in a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ImportedOutput {
    /// `calls`, or `own-cost` for a recording without calls.
    unit: &'static str,
    /// Weight in the profile.
    kept: Digits,
    /// Weight of the recording.
    of: Digits,
    percent: f64,
    /// Code of the reason for most of the loss; null without a loss.
    largest_loss: Option<String>,
}

/// A recorded file that may differ from the file on this machine.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnprovenOutput {
    /// Label of the file in the profile.
    dso: String,
    /// Calls from or to it.
    calls: Digits,
    own_cost: Digits,
    /// `changed`, `other-inode` or `no-evidence`.
    doubt: &'static str,
}

impl<'a> ProfileOutput<'a> {
    /// Adds the share of a recording that is in the profile.
    pub(crate) fn with_imported(mut self, resolved: Option<&Resolved>) -> Self {
        let Some(Resolved { imported, unproven, .. }) = resolved else { return self };
        self.imported = (imported.of > 0).then(|| ImportedOutput {
            unit: if imported.is_own_cost { "own-cost" } else { "calls" },
            kept: Digits(imported.kept),
            of: Digits(imported.of),
            percent: imported.percent(),
            largest_loss: imported.losses.first().map(|(reason, _)| reason.code()),
        });
        self.unproven = unproven
            .iter()
            .filter_map(|file| {
                Some(UnprovenOutput {
                    dso: sediment_read::resolve::label(&file.path, None)?,
                    calls: Digits(file.calls),
                    own_cost: Digits(file.cost),
                    doubt: file.doubt.code(),
                })
            })
            .collect();
        self
    }

    pub(crate) fn new(profile: &'a sediment_core::profile::Profile, output: &'a Path, ui: &Ui) -> Self {
        Self {
            schema: Schema,
            output: output.to_string_lossy(),
            functions: profile.function_count(),
            edges: profile.edge_count(),
            calls: Digits(profile.total),
            imported: None,
            unproven: Vec::new(),
            inputs: profile.inputs.unwrap_or(1),
            source: &profile.source,
            dsos: profile.dsos().keys().map(String::as_str).collect(),
            skipped: ui.skipped_items(),
        }
    }
}

/// Refuses `--json` if the result itself goes to standard output.
pub(crate) fn expect_file_for_json(json: bool, output: &Path) -> Result<()> {
    if json && output == Path::new(crate::files::STANDARD_STREAM) {
        return Err(Error::new(ErrorCode::Usage, "--json describes a written file: add --output FILE"));
    }
    Ok(())
}

/// Prints the gaps of a profile, and warns of an interpreter that makes up most of it.
pub(crate) fn tell_gaps(profile: &sediment_core::profile::Profile, ui: &Ui) {
    for line in gaps_of_profile(profile) {
        ui.detail(&line);
    }
    if let Some(warning) = interpreted(profile) {
        ui.warn(&warning);
    }
}

/// Warns if the recordings of a profile are too inaccurate for an order.
pub(crate) fn warn_of_quality(profile: &sediment_core::profile::Profile, ui: &Ui) {
    profile.quality.doubts().iter().for_each(|doubt| ui.warn(doubt));
}

/// Prints how a command treats functions with an address in place of a name, and the command that names them. If their
/// share of the weight is small, the message is a detail.
pub(crate) fn tell_nameless(
    profile: &sediment_core::profile::Profile,
    path: &Path,
    treatment: &str,
    ui: &Ui,
) {
    let functions = profile.functions();
    let nameless = functions.iter().filter(|function| profile.is_nameless(**function)).count();
    if nameless == 0 {
        return;
    }
    let path = crate::next_steps::word(path).unwrap_or_else(|| "PROFILE".to_owned());
    let (have, them) = if nameless == 1 {
        ("has an address in place of a name", "it")
    } else {
        ("have addresses in place of names", "them")
    };
    let text = format!(
        "{} in stripped files {have}; {treatment}; to name {them}: sediment resolve {path} --debug ELF|DIR|debuginfod",
        counted(nameless, "function")
    );
    let sums = |of: fn(&sediment_core::profile::FunctionFacts) -> Option<u128>| {
        functions.iter().fold([0u128; 2], |[part, all], function| {
            let weight = of(profile.facts(*function)).unwrap_or(0);
            let part = if profile.is_nameless(*function) { part.saturating_add(weight) } else { part };
            [part, all.saturating_add(weight)]
        })
    };
    let [part, all] = match sums(|facts| facts.samples) {
        [_, 0] => profile.edges().iter().fold([0u128; 2], |[part, all], (_, callee, facts)| {
            let calls = facts.count.unwrap_or(0);
            let part = if profile.is_nameless(*callee) { part.saturating_add(calls) } else { part };
            [part, all.saturating_add(calls)]
        }),
        samples => samples,
    };
    if all > 0 && recordings::percent(part, all) < recordings::NOTEWORTHY {
        ui.detail(&text);
    } else {
        ui.note(&text);
    }
}

/// Lines on gaps of a profile.
pub(crate) fn gaps_of_profile(profile: &sediment_core::profile::Profile) -> Vec<String> {
    use sediment_core::profile::knowledge::not_known;
    let several = profile.source.len() > 1;
    let from = |source: Option<String>| match source {
        Some(source) if several => source,
        None if several => "any source".to_owned(),
        _ => "this source".to_owned(),
    };
    let gaps = not_known(profile).into_iter().map(|entry| {
        let what: Vec<String> = entry.what.iter().map(ToString::to_string).collect();
        format!("unknown from {}: {}", from(entry.source), what.join("; "))
    });
    gaps.collect()
}

/// Returns a warning of an interpreter that makes up most of a profile.
pub(crate) fn interpreted(profile: &sediment_core::profile::Profile) -> Option<String> {
    let found = sediment_core::profile::knowledge::interpreter(profile)?;
    // For display only: the quotient of two floats is exact enough.
    let share = 100.0 * found.weight.0 as f64 / found.weight.1 as f64;
    let (label, runs) = (&found.label, found.runs);
    Some(format!(
        "{share:.0} % of the weight is in {label}: the order is for {label} itself; the {runs} program that it runs has no functions to order"
    ))
}

/// Warns of DSOs that may be one library under two labels; they are never merged.
pub(crate) fn warn_of_similar_labels(profile: &sediment_core::profile::Profile, ui: &Ui) {
    for (one, other) in sediment_core::profile::similar_labels::similar_labels(profile) {
        ui.warn(&format!("{one} and {other} may be the same library; they are kept separate"));
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<ProfileOutput<'_>>("profile");
}
