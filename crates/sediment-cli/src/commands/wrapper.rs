// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment wrapper` writes a folder in which compilers find this program under the names of linkers.

use crate::counter_fit;
use crate::files;
use crate::inputs::read_profile;
use crate::output::{Schema, SkippedItems};
use crate::ui::Ui;
use crate::wrapper;
use clap::Args;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::{Profile, text};
use sediment_core::skipped::Skipped;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::blocks;
use sediment_read::counters::gcov;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Write a folder in which compilers find sediment as their linker
#[derive(Debug, Args)]
#[command(
    long_about = "Write a folder in which compilers find sediment as their linker.\n\nThe folder has a symbolic link to this program for each linker: GNU ld, gold, lld, mold and wild. Pass it to the compiler by -BDIR or in COMPILER_PATH. The wrapper orders programs and libraries with a profile in PROF_DIR, and changes no other link.\n\nCounters and block counts of --profiles are written into the folder, too. With sediment-gcc-plugin installed, the folder also has scripts that run GCC's own compilers with these counts. Run the command again if the profile changes."
)]
pub(crate) struct Arguments {
    /// Folder to write to; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Profile, or folder of profiles, for all links that use this folder; PROF_DIR overrides it [default: none]
    #[arg(long, value_name = "FILE|DIR")]
    profiles: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `wrapper --json`: a folder of the wrapper.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrapperOutput {
    schema: Schema<1>,
    /// The folder.
    output: String,
    /// Number of symbolic links to sediment.
    links: usize,
    /// Programs and libraries with a profile.
    dsos: Vec<String>,
    /// Files for the compiler: `counters.sediment`, `blocks.sediment`.
    counts: Vec<&'static str>,
    /// Versions of GCC whose compilers use them.
    gcc: Vec<String>,
    skipped: Vec<SkippedItems>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let folder = files::folder(&arguments.folder)?;
    let program = files::own_program()?;
    let links = wrapper::make_links(&folder, &program)?;
    let shown = files::display(&folder);
    // In the form that the user can paste.
    let typed = escape::shell(&folder.to_string_lossy()).unwrap_or_else(|| shown.clone());
    ui.note(&format!("wrote {links} links to {shown}"));
    let (mut labels, mut counts) = (BTreeSet::new(), (Vec::new(), BTreeSet::new()));
    match &arguments.profiles {
        Some(profiles) => {
            let found = add_profiles(&folder, profiles, ui)?;
            labels = found.labels().map(str::to_owned).collect();
            counts = add_counts(&folder, found.files(), ui)?;
            let labels = labels.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            ui.note(&format!("build with -ffunction-sections -B{typed}; profiles of {labels}"));
        }
        None => ui.note(&format!("build with -ffunction-sections -B{typed} and PROF_DIR=DIR")),
    }
    if !arguments.json {
        return Ok(());
    }
    ui.json(&WrapperOutput {
        schema: Schema,
        output: folder.to_string_lossy().into_owned(),
        links,
        dsos: labels.into_iter().collect(),
        counts: counts.0,
        gcc: counts.1.into_iter().collect(),
        skipped: ui.skipped_items(),
    })
}

/// Links the profiles into the folder where the wrapper searches them.
fn add_profiles(folder: &Path, profiles: &Path, ui: &Ui) -> Result<wrapper::Profiles> {
    let absolute = profiles.canonicalize().map_err(|error| {
        Error::new(ErrorCode::NotFound, format!("cannot be found: {error}"))
            .with_input(files::display(profiles))
    })?;
    let own = folder.join(wrapper::PROFILES);
    // If it cannot be read, the earlier profiles stay.
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
    if found.labels().next().is_none() {
        let why = "no profile of a program or library";
        return Err(Error::new(ErrorCode::EmptyProfile, why).with_input(files::display(profiles)));
    }
    Ok(found)
}

/// Folder with the wrapper scripts for GCC's own compilers (`make -C gcc-plugin compilers`), and the variable that
/// overrides it.
const COMPILERS: (&str, &str) = ("/usr/libexec/sediment/compilers", "SEDIMENT_COMPILERS");

/// Part of a profile for the compiler: its file name, its variable, its name for people, and the function that makes
/// its text.
type CompilerInput = (&'static str, &'static str, &'static str, fn(&Profile) -> (String, Skipped));
const KINDS: [CompilerInput; 2] = [
    ("counters.sediment", "SEDIMENT_COUNTERS", "counters", gcov::counters),
    ("blocks.sediment", "SEDIMENT_BLOCKS", "block counts", blocks::counts),
];

/// Writes counters and block counts of the profiles to the folder, with scripts through which GCC's own compilers use
/// them. Returns the files, and the versions of GCC that have scripts.
fn add_counts(folder: &Path, profiles: &[PathBuf], ui: &Ui) -> Result<(Vec<&'static str>, BTreeSet<String>)> {
    let profile = sum_of(profiles)?;
    // The log of an earlier build.
    let _ = std::fs::remove_file(folder.join(counter_fit::LOG));
    let (mut begin, mut used, mut written) = ("#!/bin/sh\n".to_owned(), Vec::new(), Vec::new());
    for (name, variable, of_what, make) in KINDS {
        let path = folder.join(name);
        let (text, skipped) = make(&profile);
        if text.lines().nth(1).is_none() {
            // Files of an earlier profile.
            let _ = std::fs::remove_file(&path);
            continue;
        }
        ui.skipped(of_what, &skipped);
        files::write_owned(&path, text.as_bytes())?;
        // A build can set a file of its own, or none.
        let quoted = quoted(&path)?;
        begin += &format!("test -n \"${{{variable}+set}}\" || export {variable}={quoted}\n");
        // The plugin's log, which the wrapper reports on at a link.
        if variable == "SEDIMENT_COUNTERS" {
            let own = self::quoted(folder)?;
            begin += &format!("test -n \"${{SEDIMENT_LOG+set}}\" || export SEDIMENT_LOG={own}\n");
        }
        used.push(of_what);
        written.push(name);
    }
    if used.is_empty() {
        return Ok((written, BTreeSet::new()));
    }
    let what = used.join(" and ");
    let installed = std::env::var_os(COMPILERS.1).map_or_else(|| PathBuf::from(COMPILERS.0), PathBuf::from);
    let installed = installed.canonicalize().unwrap_or(installed);
    let mut versions = BTreeSet::new();
    for script in scripts_below(&installed) {
        let Ok(within) = script.strip_prefix(&installed) else { continue };
        let own = folder.join(within);
        if let Some(parent) = own.parent() {
            files::folder(parent)?;
        }
        files::write_owned(&own, format!("{begin}exec {} \"$@\"\n", quoted(&script)?).as_bytes())?;
        files::make_executable(&own)?;
        versions.extend(
            within.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()),
        );
    }
    if versions.is_empty() {
        ui.warn(&format!(
            "{what} of the profile are not used, because {} is missing: install sediment-gcc-plugin",
            files::display(&installed)
        ));
    } else {
        let versions = versions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        ui.note(&format!("{what} of the profile for GCC {}", escape::terminal(&versions)));
    }
    Ok((written, versions))
}

/// Returns the sum of the profiles that can be read; the wrapper reports the others.
fn sum_of(paths: &[PathBuf]) -> Result<Profile> {
    let read = |path: &PathBuf| Some(text::parse(&files::read(path).ok()?).ok()?.0);
    match <[Profile; 1]>::try_from(paths.iter().filter_map(read).collect::<Vec<_>>()) {
        Ok([profile]) => Ok(profile),
        Err(profiles) if profiles.is_empty() => Ok(Profile::default()),
        Err(profiles) => {
            merge(&profiles.iter().map(|profile| (profile, Weight::ONE)).collect::<Vec<_>>(), false)
        }
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> Result<String> {
    escape::shell(&path.to_string_lossy()).ok_or_else(|| {
        Error::new(ErrorCode::Usage, "a script cannot name this path").with_input(files::display(path))
    })
}

/// Returns the scripts for each machine and version, sorted by path.
fn scripts_below(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let versions = entries(folder).iter().flat_map(|machine| entries(machine)).collect::<Vec<_>>();
    versions.iter().flat_map(|version| entries(version)).filter(|path| path.is_file()).collect()
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

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<WrapperOutput>("wrapper");
}
