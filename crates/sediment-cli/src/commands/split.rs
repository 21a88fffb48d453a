// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment split`: a profile into one file for each program and library.

use crate::files;
use crate::inputs::read_profile;
use crate::ui::Ui;
use clap::Args;
use sediment::plural::counted;
use sediment::profile::{Profile, split, text};
use sediment::{Error, ErrorCode, Result, escape};
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
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    write_parts(&profile, &files::folder(&arguments.output)?, ui)
}

/// Writes the part of each DSO that has functions to a file of its name.
pub(super) fn write_parts(profile: &Profile, folder: &Path, ui: &Ui) -> Result<()> {
    let mut written = 0;
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
        files::write(&folder.join(format!("{name}.prof")), text::print(&part).as_bytes(), ui)?;
        written += 1;
    }
    if written == 0 {
        return Err(Error::new(
            ErrorCode::EmptyProfile,
            "the profile has no program or library to write a file for",
        ));
    }
    ui.note(&format!("wrote {} to {}", counted(written, "file"), files::display(folder)));
    Ok(())
}
