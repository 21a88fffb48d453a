// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment split`: a profile into one file for each program and library.

use crate::files;
use crate::inputs::{read_profile, tell_nameless};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::plural::counted;
use sediment_core::profile::{Profile, VARIANTS, split, text};
use sediment_core::{Error, ErrorCode, Result, escape};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Split a profile into one .prof per program and library
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Profile to read; - reads standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Folder for the files, named after the programs and libraries; created if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Graphs and variants of counters to keep of each function: the heaviest
    #[arg(long, value_name = "COUNT", default_value_t = VARIANTS, value_parser = values::number_of_variants)]
    variants: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let mut profile = read_profile(&arguments.profile, ui)?;
    tell_nameless(&profile, &arguments.profile, "keeps", ui);
    profile.keep_heaviest_variants(arguments.variants);
    let folder = files::folder(&arguments.output)?;
    let written = write_parts(&profile, &folder, ui)?;
    if arguments.json {
        let files: Vec<Value> = written.iter().map(Part::json).collect();
        return ui.json(&json!({ "schema": 1, "files": files, "skipped": ui.skipped_items() }));
    }
    ui.note(&format!("wrote {} to {}", counted(written.len(), "file"), files::display(&folder)));
    Ok(())
}

/// A written part of a profile.
pub(super) struct Part {
    file: PathBuf,
    label: String,
    functions: usize,
    edges: usize,
    calls: u128,
}

impl Part {
    fn json(&self) -> Value {
        json!({
            "output": self.file.to_string_lossy(),
            "dso": self.label,
            "functions": self.functions,
            "edges": self.edges,
            "calls": self.calls.to_string(),
        })
    }
}

/// Writes the part of each DSO that has functions to a file of its name.
pub(super) fn write_parts(profile: &Profile, folder: &Path, ui: &Ui) -> Result<Vec<Part>> {
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
        written.push(Part {
            file,
            label: label.clone(),
            functions: part.function_count(),
            edges: part.edge_count(),
            calls: part.total,
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
