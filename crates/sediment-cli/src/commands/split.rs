// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment split` splits a profile into one file for each program and library.

use crate::files;
use crate::inputs::{read_profile, tell_nameless};
use crate::output::{Digits, Schema, SkippedItems};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::plural::counted;
use sediment_core::profile::{Profile, VARIANTS, split, text};
use sediment_core::{Error, ErrorCode, Result, escape};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Split a profile into one .prof per program and library
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Profile to read; - reads standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Folder to write to, with a file named after each program and library; created if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Number of control-flow graphs and counter variants to keep for each function, heaviest first
    #[arg(long, value_name = "COUNT", default_value_t = VARIANTS, value_parser = values::number_of_variants)]
    variants: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let mut profile = read_profile(&arguments.profile, ui)?;
    tell_nameless(&profile, &arguments.profile, "the parts keep these addresses", ui);
    profile.keep_heaviest_variants(arguments.variants);
    let folder = files::folder(&arguments.output)?;
    let written = write_parts(&profile, &folder, ui)?;
    if arguments.json {
        return ui.json(&SplitOutput { schema: Schema, files: written, skipped: ui.skipped_items() });
    }
    ui.note(&format!("wrote {} to {}", counted(written.len(), "file"), files::display(&folder)));
    Ok(())
}

/// Output of `split --json`: the written profiles.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SplitOutput {
    schema: Schema<1>,
    files: Vec<SplitPart>,
    skipped: Vec<SkippedItems>,
}

/// A written part of a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SplitPart {
    /// The file.
    output: String,
    /// Label of the program or library.
    dso: String,
    functions: usize,
    edges: usize,
    calls: Digits,
}

/// Writes each DSO's part with functions to a file with its name.
pub(super) fn write_parts(profile: &Profile, folder: &Path, ui: &Ui) -> Result<Vec<SplitPart>> {
    let mut written = Vec::new();
    for label in profile.dsos().keys() {
        let part = split::split(profile, label);
        let own =
            part.functions().into_iter().any(|function| part.key(function).dso.as_deref() == Some(label));
        if !own {
            continue;
        }
        let Some(name) = escape::file_name(label) else {
            ui.warn(&format!("skipped {label}: it cannot be a file name"));
            continue;
        };
        let file = folder.join(format!("{name}.prof"));
        files::write(&file, text::print(&part).as_bytes(), ui)?;
        written.push(SplitPart {
            output: file.to_string_lossy().into_owned(),
            dso: label.clone(),
            functions: part.function_count(),
            edges: part.edge_count(),
            calls: Digits(part.total),
        });
    }
    if written.is_empty() {
        return Err(Error::new(
            ErrorCode::EmptyProfile,
            "the profile has no program or library to write a file for",
        ));
    }
    Ok(written)
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<SplitOutput>("split");
}
