// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment split`: a profile into one file for each program and library.

use crate::files;
use crate::inputs::read_profile;
use crate::ui::Ui;
use clap::Args;
use sediment::profile::{Profile, split, text};
use sediment::{Error, Result, escape};
use std::path::{Path, PathBuf};

/// Split a profile into one .prof for each program and library
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The profile; - is standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The folder for the files, which are named after the programs and libraries; it is made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
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
            ui.note(&format!("left out: {label} cannot be the name of a file"));
            continue;
        };
        files::write(&folder.join(format!("{name}.prof")), text::print(&part).as_bytes(), ui)?;
        written += 1;
    }
    if written == 0 {
        return Err(Error::failed("there is no program or library in the profile to make a file of"));
    }
    ui.note(&format!("{written} files are in {}", files::display(folder)));
    Ok(())
}
