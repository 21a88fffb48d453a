// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment collect`: a profile of an installed package, to be sent to whoever maintains it. Of what was recorded only functions
//! of the package's own files are kept; nothing is sent.

use super::record::target;
use super::split;
use crate::exit;
use crate::exit::ExitCode;
use crate::files::{self, SystemFiles};
use crate::packages::Package;
use crate::recording::{Options, Side};
use crate::ui::Ui;
use clap::Args;
use sediment::binary::{Binary, Files as _};
use sediment::plural::counted;
use sediment::profile::{Profile, split as parts, text};
use sediment::read::Recording;
use sediment::{Error, ErrorCode, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Record how you use an installed package, for its maintainers
#[derive(Debug, Args)]
#[command(
    long_about = "Record how you use an installed package, for its maintainers.\n\nThe file lists the executed functions of the package's own programs and libraries, and how often they called each other. It has no user or host name, no file names, no arguments and no dates. Check it with --show, which prints all of it to standard error.\n\nNothing is sent. The last lines say if the package asks for such files, and where."
)]
pub(crate) struct Arguments {
    /// Package name as in the package manager; each package gets its own file
    #[arg(required = true, value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "pid")]
    command: Vec<OsString>,
    /// Record this running process and its children instead; repeatable [default: run COMMAND]
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// File to write, or a folder with one file per program and library [default: PACKAGE.gv]
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Look for packages and their files below this folder [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the file's contents to standard error
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let packages = arguments
        .packages
        .iter()
        .map(|name| Package::find(name, arguments.root.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    if let Some(package) = packages.iter().find(|package| !package.has_code()) {
        return Err(Error::new(ErrorCode::NotFound, format!("{} has no compiled code to order", package.name))
            .with_hint(
                "collect the package of its interpreter instead; its name: dpkg -S or rpm -qf with the interpreter's path",
            ));
    }
    ui.keep_short(2);
    let several = packages.len() > 1;
    if several && arguments.output.as_ref().is_some_and(|path| !path.is_dir()) {
        return Err(Error::new(ErrorCode::Usage, "-o must name a folder when there are several packages"));
    }
    for package in &packages {
        let place = place(package, arguments.output.as_deref(), several)?;
        files::expect_to_write(&if place.is_dir() { place.join("part") } else { place })?;
    }
    let target = target(&arguments.command, &arguments.pid, false);
    let made = match arguments.options.record(&target, false, ui)? {
        Side::Recorder(made) => made,
        Side::Front(code) => return Ok(code),
    };
    // What was recorded ran here, wherever its package is installed.
    let files = SystemFiles::new(None, &[])?;
    for package in &packages {
        let kept = of_package(&made.recording, &made.resolved.profile, package, &files, ui)?;
        let written = write(&kept, package, arguments.output.as_deref(), several, ui)?;
        if arguments.show {
            ui.show(&text::print(&kept));
        }
        tell_contents(&kept, ui);
        ui.note(&format!(
            "wrote {} of {} to {written}",
            counted(kept.function_count(), "function"),
            package.version
        ));
        if !arguments.show {
            ui.note("to see its contents: --show, or any editor");
        }
        tell_where_to_send(package, ui);
    }
    Ok(made.outcome.map_or(ExitCode::SUCCESS, exit::as_the_program))
}

/// Says in a line for each program or library what the file has of it.
fn tell_contents(profile: &Profile, ui: &Ui) {
    const TOLD: usize = 8;
    let functions = profile.functions();
    let labels = profile.dsos();
    for (label, facts) in labels.iter().take(TOLD) {
        let of_label = functions
            .iter()
            .filter(|function| profile.key(**function).dso.as_deref() == Some(label.as_str()));
        let build = facts.build_id.as_ref().map_or_else(String::new, |id| format!(", build-id {id}"));
        ui.note(&format!("the file has {} of {label}{build}", counted(of_label.count(), "function")));
    }
    if labels.len() > TOLD {
        ui.note(&format!("and functions of {} more", labels.len() - TOLD));
    }
}

/// Says where the package takes profiles, or whom to ask first.
fn tell_where_to_send(package: &Package, ui: &Ui) {
    if let Some(place) = &package.takes_profiles {
        return ui.note(&format!("nothing was sent; {} takes profiles: {place}", package.name));
    }
    ui.note(&format!(
        "nothing was sent; {} does not ask for profiles: use it for your own builds, or ask before you send it",
        package.name
    ));
    for line in &package.contacts {
        ui.note(&format!("  {line}"));
    }
}

/// The part of a profile that is the package's, with its name and version.
pub(crate) fn of_package(
    recording: &Recording,
    profile: &Profile,
    package: &Package,
    files: &SystemFiles,
    ui: &Ui,
) -> Result<Profile> {
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    for dso in recording.dsos() {
        let label = label(&dso.path, dso.build_id.as_deref(), files);
        if package.has(&dso.path) {
            own.insert(label)
        } else {
            others.insert(label)
        };
    }
    for label in own.intersection(&others) {
        ui.warn(&format!(
            "skipped {label}: another file of that name, not from the package, was executed too"
        ));
    }
    let labels: BTreeSet<&str> = own.difference(&others).map(String::as_str).collect();
    let mut kept = parts::only(profile, &labels);
    if kept.function_count() == 0 && !own.is_empty() {
        return Err(Error::new(
            ErrorCode::Stripped,
            format!("recorded no function of {}: its programs are stripped", package.name),
        )
        .with_hint(
            "install the debug symbols named above and record again; the recorded program stays the same",
        ));
    }
    if kept.function_count() == 0 {
        return Err(Error::new(
            ErrorCode::EmptyRecording,
            format!("recorded no function of {}", package.name),
        )
        .with_hint(
            "is this the right package? `dpkg -S FILE` or `rpm -qf FILE` names the package of a file",
        ));
    }
    for label in labels {
        if kept.dsos().contains_key(label) {
            kept.dso_mut(label).package = Some(package.version.clone());
        }
    }
    Ok(kept)
}

/// Label of a recorded file in a profile: its soname, else its base name.
fn label(path: &str, build_id: Option<&str>, files: &SystemFiles) -> String {
    let soname = files
        .binary(path, build_id)
        .and_then(|bytes| Binary::parse(&bytes, &sediment::binary::NoFiles).ok())
        .and_then(|binary| binary.soname);
    files::base_name(Path::new(soname.as_deref().unwrap_or(path)))
}

/// Writes a package's profile to a file, or to a folder; says where.
pub(crate) fn write(
    profile: &Profile,
    package: &Package,
    output: Option<&Path>,
    several: bool,
    ui: &Ui,
) -> Result<String> {
    let place = place(package, output, several)?;
    if place.is_dir() {
        let written = split::write_parts(profile, &place, ui)?;
        ui.note(&format!("wrote {} to {}", counted(written.len(), "file"), files::display(&place)));
    } else {
        files::write(&place, text::print(profile).as_bytes(), ui)?;
    }
    Ok(files::display(&place))
}

/// The file for a package's profile, or the folder for its parts.
fn place(package: &Package, output: Option<&Path>, several: bool) -> Result<PathBuf> {
    let name = || {
        sediment::escape::file_name(&package.name.replace(':', "-"))
            .ok_or_else(|| Error::new(ErrorCode::Usage, format!("{} cannot be a file name", package.name)))
            .map(|name| format!("{name}.gv"))
    };
    match output {
        None => Ok(PathBuf::from(name()?)),
        Some(folder) if folder.is_dir() && several => Ok(folder.join(name()?)),
        Some(place) => Ok(place.to_path_buf()),
    }
}
