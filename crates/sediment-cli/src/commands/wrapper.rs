// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment wrapper`: a folder in which compilers find this program under the names of linkers.

use crate::files;
use crate::inputs::read_profile;
use crate::ui::Ui;
use crate::wrapper;
use clap::Args;
use sediment::{Error, ErrorCode, Result, escape};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Write a folder in which compilers find sediment as their linker
#[derive(Debug, Args)]
#[command(
    long_about = "Write a folder in which compilers find sediment as their linker.\n\nThe folder has a symbolic link to this program for each linker: GNU ld, gold, lld, mold and wild. Pass it to the compiler by -BDIR or in COMPILER_PATH. The wrapper orders what PROF_DIR has a profile of, and changes no other link."
)]
pub(crate) struct Arguments {
    /// Folder to write to; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Profile, or folder of profiles, for all links by this folder; PROF_DIR counts before it [default: none]
    #[arg(long, value_name = "FILE|DIR")]
    profiles: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let folder = files::folder(&arguments.folder)?;
    let program = files::own_program()?;
    let count = wrapper::make_links(&folder, &program)?;
    let shown = files::display(&folder);
    // To be pasted.
    let typed = escape::shell(&folder.to_string_lossy()).unwrap_or_else(|| shown.clone());
    ui.note(&format!("wrote {count} links to {shown}"));
    match &arguments.profiles {
        Some(profiles) => {
            let labels = add_profiles(&folder, profiles, ui)?;
            ui.note(&format!("build with -ffunction-sections -B{typed}; profiles of {labels}"));
        }
        None => ui.note(&format!("build with -ffunction-sections -B{typed} and PROF_DIR=DIR")),
    }
    Ok(())
}

/// Links the profiles into the folder, where the wrapper looks for them; what they are of.
fn add_profiles(folder: &Path, profiles: &Path, ui: &Ui) -> Result<String> {
    let absolute = profiles.canonicalize().map_err(|error| {
        Error::new(ErrorCode::NotFound, format!("cannot be found: {error}"))
            .with_input(files::display(profiles))
    })?;
    let own = folder.join(wrapper::PROFILES);
    // What cannot be read leaves the earlier ones.
    if !absolute.is_dir() {
        read_profile(&absolute, ui)?;
    }
    clear(&own)?;
    if absolute.is_dir() {
        files::symbolic_link(&absolute, &own)?;
    } else {
        let name = files::base_name(&absolute);
        let named = if name.ends_with(".prof") || name.ends_with(".gv") { name } else { name + ".gv" };
        files::symbolic_link(&absolute, &files::folder(&own)?.join(named))?;
    }
    let found = wrapper::Profiles::open(&own, ui)?;
    let labels: BTreeSet<&str> = found.labels().collect();
    match labels.len() {
        0 => Err(Error::new(ErrorCode::EmptyProfile, "no profile of any program")
            .with_input(files::display(profiles))),
        _ => Ok(labels.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Removes the profiles of an earlier call: a link to a folder, or a folder of links.
fn clear(own: &Path) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot be removed: {error}")).with_input(files::display(own))
    };
    if own.is_symlink() {
        return std::fs::remove_file(own).map_err(failed);
    }
    for entry in std::fs::read_dir(own).into_iter().flatten() {
        let path = entry.map_err(failed)?.path();
        if !path.is_symlink() {
            return Err(Error::new(ErrorCode::Usage, "a file of this name is there, not a symbolic link")
                .with_input(files::display(&path))
                .with_hint("name a new or empty folder"));
        }
        std::fs::remove_file(&path).map_err(failed)?;
    }
    match std::fs::remove_dir(own) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}
