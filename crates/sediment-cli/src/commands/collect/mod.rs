// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment collect` records a profile of an installed package, for its maintainer. Only functions of the package's
//! own files are kept; nothing is sent without `--send`.

mod send;
mod subject;
mod summary;

use super::split;
use crate::exit::ExitCode;
use crate::files::{self, SystemFiles};
use crate::inputs::recordings;
use crate::output::{Digits, Schema, SkippedItems};
use crate::packages::{self, Package};
use crate::recording::{NothingSelected, RecordingOptions, RecordingOutput, RecordingSide, RecordingUse};
use crate::ui::Ui;
use clap::Args;
use sediment_core::binary::{Binary, Files as _};
use sediment_core::plural::counted;
use sediment_core::profile::{Profile, split as parts, text};
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::read::{RecordedDso, Recording};
use sediment_record::RecordingTarget;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Record how you use an installed package, for its maintainers
#[derive(Debug, Args)]
#[command(
    long_about = "Record how you use an installed package, for its maintainers.\n\nThe file lists the executed functions of the package's own programs and libraries, and how often they called each other. It contains no user or host name, no file names, no arguments and no dates. Check it with --show, which prints all of it to standard error.\n\nNothing is sent unless --send asks for it. The last lines of the output show whether the package asks for such files, and where to send them."
)]
pub(crate) struct Arguments {
    /// Package name as in the package manager; each package gets its own file
    #[arg(required_unless_present_any = ["service", "all"], value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["pid", "service", "all"])]
    command: Vec<OsString>,
    /// Record this running process and its children instead; repeatable [default: run COMMAND]
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Record this running systemd service instead; PACKAGE is then optional [default: run COMMAND]
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["command", "pid"])]
    service: Option<String>,
    /// Record all running programs of installed packages and their children, as root; writes a file for each
    /// package, or only for each given PACKAGE. Needs --seconds. Services and logins that start during the recording
    /// are not recorded
    #[arg(long, conflicts_with_all = ["command", "pid", "service", "root"], requires = "seconds")]
    all: bool,
    /// Record only first uses, for a faster start [default: calls and their rates]
    #[arg(long)]
    startup: bool,
    /// File to write, or a folder for several files: one per program and library of one package, or one per
    /// package. FOLDER/ creates the folder [default: PACKAGE.gv]
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Look for packages and their files below this folder [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the file's contents to standard error
    #[arg(long)]
    show: bool,
    /// File to write JSON about the written files to; - writes to standard output, which the recorded program
    /// also uses [default: none]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    send: send::Sending,
    #[command(flatten)]
    options: RecordingOptions,
}

/// Output of `collect --json`: a recording, and the files written from it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CollectOutput {
    schema: Schema<1>,
    recording: RecordingOutput,
    files: Vec<CollectedFile>,
    skipped: Vec<SkippedItems>,
}

/// Files about one package, or about several together.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CollectedFile {
    /// The file, or the folder with its parts.
    output: String,
    /// Names and versions of the packages.
    packages: Vec<String>,
    functions: usize,
    edges: usize,
    calls: Digits,
    /// True if the user agreed to send it, and it was sent.
    sent: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let root = arguments.root.as_deref();
    let mut packages =
        arguments.packages.iter().map(|name| Package::find(name, root)).collect::<Result<Vec<_>>>()?;
    if let Some(package) = packages.iter().find(|package| !package.has_code()) {
        return Err(subject::without_code(package, &arguments.command, root));
    }
    arguments.send.check()?;
    arguments.json.as_deref().map_or(Ok(()), files::expect_to_write)?;
    ui.keep_short(2);
    let target = subject::target(arguments, &packages, ui)?;
    let nothing_named = packages.is_empty() && !arguments.all;
    if let (RecordingTarget::Processes(processes), true) = (&target, nothing_named) {
        packages = subject::packages_of(processes)?;
    }
    let several = packages.len() > 1 || arguments.all;
    let output = arguments.output.as_deref();
    let together = expect_output(arguments, &packages, several)?;
    let nothing = |recording: &Recording, files: &SystemFiles| nothing_of(recording, &packages, files);
    let none: Option<NothingSelected<'_>> = (!packages.is_empty()).then_some(&nothing);
    let wanted = if arguments.startup { RecordingUse::FirstUses } else { RecordingUse::Profile };
    let made = match arguments.options.record(&target, wanted, none, ui)? {
        RecordingSide::Recorder(made) => made,
        RecordingSide::Front(code) => return Ok(code),
    };
    // The program ran on this system, even if its package is installed below another root.
    let files = SystemFiles::new(None, &[])?;
    let may_lack = packages.is_empty();
    if may_lack {
        packages =
            executed(&made.recording).iter().filter_map(|name| Package::find(name, None).ok()).collect();
    }
    let (mut written, mut nothing) = (Vec::new(), None);
    let groups: Vec<&[Package]> =
        if together { vec![&packages[..]] } else { packages.iter().map(std::slice::from_ref).collect() };
    for group in groups {
        let Some(package) = group.first() else { continue };
        let kept = match of_packages(&made.recording, &made.resolved.profile, group, &files, ui) {
            Err(error) if may_lack && error.code() != ErrorCode::Io => continue,
            // If one package executed nothing, the recordings of the others are still written.
            Err(error) if several && error.code() != ErrorCode::Io => {
                ui.warn(&error.to_string());
                nothing = Some(error);
                continue;
            }
            kept => kept?,
        };
        summary::tell_contents(&kept, package, &files, ui);
        if arguments.show {
            ui.show(&text::print(&kept));
        }
        let to = write(&kept, package, output, several, ui)?;
        summary::tell_written(&kept, group, &to, arguments.show, ui);
        let mut sent = false;
        if arguments.send.is_meant() {
            sent = arguments.send.send(&kept, package, ui)?;
        } else {
            summary::tell_where_to_send(package, ui);
        }
        written.push(CollectedFile {
            output: to,
            packages: group.iter().map(|package| package.version.clone()).collect(),
            functions: kept.function_count(),
            edges: kept.edge_count(),
            calls: Digits(kept.total),
            sent,
        });
    }
    if !may_lack {
        summary::tell_left_out(&made.recording, &packages, ui);
    }
    if written.is_empty() {
        return Err(nothing.unwrap_or_else(no_package));
    }
    arguments.write_json(made.output(), written, ui)?;
    Ok(made.exit_code())
}

/// Error for a recording in which no package executed anything.
fn no_package() -> Error {
    Error::new(ErrorCode::EmptyRecording, "no program of an installed package executed anything")
        .with_hint("record for longer: --seconds")
}

impl Arguments {
    /// Writes JSON about the files, if requested.
    fn write_json(&self, recording: RecordingOutput, files: Vec<CollectedFile>, ui: &Ui) -> Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let answer = CollectOutput { schema: Schema, recording, files, skipped: ui.skipped_items() };
        files::write(file, Ui::json_text(&answer).as_bytes(), ui)
    }
}

/// Checks that the output can be written, and creates its folder. True for one file of several packages, which counts
/// as one recording in a merge.
fn expect_output(arguments: &Arguments, packages: &[Package], several: bool) -> Result<bool> {
    let output = arguments.output.as_deref();
    // A trailing slash denotes a folder that does not exist yet.
    if let Some(folder) = output.filter(|path| path.as_os_str().as_encoded_bytes().ends_with(b"/")) {
        files::folder(folder)?;
    }
    let together = several && output.is_some_and(|path| !path.is_dir());
    if together && (arguments.all || arguments.send.is_meant()) {
        return Err(Error::new(
            ErrorCode::Usage,
            "with --all or --send, -o must name a folder when there are several packages",
        )
        .with_hint("to create a folder: -o FOLDER/"));
    }
    for package in packages {
        let place = place(package, output, several)?;
        files::expect_to_write(&if place.is_dir() { place.join("part") } else { place })?;
    }
    Ok(together)
}

/// Packages of the recorded files, by name.
fn executed(recording: &Recording) -> BTreeSet<String> {
    let paths = recording.dsos().iter().map(|dso| Path::new(&dso.path));
    paths.filter_map(|path| packages::owner(path, None)).map(|owner| owner.name).collect()
}

/// Returns the part of a profile that belongs to these packages; each file has its package's name and version.
pub(crate) fn of_packages(
    recording: &Recording,
    profile: &Profile,
    packages: &[Package],
    files: &SystemFiles,
    ui: &Ui,
) -> Result<Profile> {
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut versions: BTreeMap<String, &str> = BTreeMap::new();
    for dso in recording.dsos() {
        let Some(label) = recordings::label(dso, files) else { continue };
        match packages.iter().find(|package| package.has(&dso.path)) {
            Some(package) => {
                versions.insert(label.clone(), &package.version);
                own.insert(label)
            }
            None => others.insert(label),
        };
    }
    for label in own.intersection(&others) {
        ui.warn(&format!(
            "skipped {label}: another file of this name, outside the package, was executed too"
        ));
    }
    let labels: BTreeSet<&str> = own.difference(&others).map(String::as_str).collect();
    let mut kept = parts::only(profile, &labels);
    if kept.function_count() == 0 {
        return Err(nothing_of(recording, packages, files));
    }
    for label in labels {
        if kept.dsos().contains_key(label) {
            kept.dso_mut(label).package = versions.get(label).map(|version| (*version).to_owned());
        }
    }
    Ok(kept)
}

/// Error for packages that executed nothing.
fn nothing_of(recording: &Recording, packages: &[Package], files: &SystemFiles) -> Error {
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let what = format!("no function of {} was recorded", names.join(", "));
    let is_own = |dso: &&RecordedDso| packages.iter().any(|package| package.has(&dso.path));
    let own: Vec<&RecordedDso> = recording.dsos().iter().filter(is_own).collect();
    if own.iter().any(|dso| has_no_names(dso, files)) {
        return Error::new(
            ErrorCode::Stripped,
            format!("{what}: its programs are stripped, and have no build-id"),
        )
        .with_hint("install the debug symbols named above, and record the same program again");
    }
    let error = Error::new(ErrorCode::EmptyRecording, what);
    if !own.is_empty() {
        return error.with_hint("its files were loaded, but no function that can be recorded was called");
    }
    let loaded: Vec<String> = executed(recording).into_iter().collect();
    error.with_hint(if loaded.is_empty() {
        "is this the right package? `dpkg -S FILE` or `rpm -qf FILE` names the package of a file".to_owned()
    } else {
        format!("files of these packages were loaded: {}", loaded.join(", "))
    })
}

/// True if a file has neither function names nor a build-id with which addresses could be named.
fn has_no_names(dso: &RecordedDso, files: &SystemFiles) -> bool {
    let bytes = files.binary(&dso.path, None);
    let binary =
        bytes.as_deref().and_then(|bytes| Binary::parse(bytes, &sediment_core::binary::NoFiles).ok());
    binary.is_some_and(|binary| binary.build_id.is_none() && binary.functions.is_empty())
}

/// Writes a package's profile to a file or a folder, and prints the path.
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

/// Path of the file for a package's profile, or of the folder for its parts.
fn place(package: &Package, output: Option<&Path>, several: bool) -> Result<PathBuf> {
    let name = || {
        sediment_core::escape::file_name(&package.name.replace(':', "-"))
            .ok_or_else(|| Error::new(ErrorCode::Usage, format!("{} cannot be a file name", package.name)))
            .map(|name| format!("{name}.gv"))
    };
    match output {
        None => Ok(PathBuf::from(name()?)),
        Some(folder) if folder.is_dir() && several => Ok(folder.join(name()?)),
        Some(place) => Ok(place.to_path_buf()),
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<CollectOutput>("collect");
}
