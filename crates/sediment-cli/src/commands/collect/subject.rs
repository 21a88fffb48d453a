// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds programs and processes to record: programs started by shims or scripts, the processes of a service, or all
//! running processes.

use super::Arguments;
use crate::files;
use crate::packages::{self, Package};
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use sediment_record::RecordingTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest output of systemctl about one unit, in bytes.
const LONGEST_ANSWER: usize = 1 << 20;

/// Returns the program or processes to record.
pub(super) fn target(arguments: &Arguments, packages: &[Package], ui: &Ui) -> Result<RecordingTarget> {
    if let Some(unit) = &arguments.service {
        return service(unit).map(RecordingTarget::Processes);
    }
    if arguments.all {
        return running().map(RecordingTarget::Processes);
    }
    if !arguments.pid.is_empty() {
        return Ok(RecordingTarget::Processes(arguments.pid.clone()));
    }
    Ok(RecordingTarget::Program(behind_shim(&arguments.command, packages, ui)))
}

/// Returns the command, in which the package's program replaces a script with the same name that comes earlier in PATH.
fn behind_shim(command: &[OsString], packages: &[Package], ui: &Ui) -> Vec<OsString> {
    let mut command = command.to_vec();
    let Some(word) = command.first_mut() else { return command };
    let found = files::on_path(word);
    let is_own = |path: &&PathBuf| packages.iter().any(|package| package.has(&path.to_string_lossy()));
    let (Some(first), Some(own)) = (found.first(), found.iter().find(is_own)) else { return command };
    if first != own && packages::interpreter(first).is_some() {
        ui.note(&format!(
            "running {}, not the script {} that precedes it on PATH",
            files::display(own),
            files::display(first)
        ));
        *word = own.clone().into_os_string();
    }
    command
}

/// Error for a package without compiled code. It names the package of the interpreter of its scripts, or of the
/// command's interpreter.
pub(super) fn without_code(package: &Package, command: &[OsString], root: Option<&Path>) -> Error {
    let error = Error::new(ErrorCode::NotFound, format!("{} has no compiled code of its own", package.name));
    let of_package = package.scripts().into_iter().map(|(_, interpreter)| interpreter);
    let program = command.first().and_then(|word| files::on_path(word).into_iter().next());
    let of_command = program.as_deref().and_then(packages::interpreter);
    let owned = of_package.chain(of_command).chain(program).find_map(|path| {
        Some((packages::owner(&path, root).filter(|owner| owner.name != package.name)?, path))
    });
    match owned {
        Some((owner, path)) => {
            error.with_hint(format!("collect {}, the package of {}", owner.name, files::display(&path)))
        }
        None => error.with_hint(
            "collect the package of its interpreter instead; to find its name: dpkg -S or rpm -qf with the interpreter's path",
        ),
    }
}

/// Returns the processes of a running service.
fn service(unit: &str) -> Result<Vec<i32>> {
    let command = Command::new("systemctl", "/", TIMEOUT).with_arguments([
        "show",
        "--property=MainPID",
        "--property=ControlGroup",
        "--property=ActiveState",
        "--",
        unit,
    ]);
    let said = run(&command, LONGEST_ANSWER)?.successful(&command)?.output;
    let said = String::from_utf8_lossy(&said).into_owned();
    let value = |key: &str| {
        said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
    };
    let mut processes: BTreeSet<i32> =
        value("MainPID").parse().ok().filter(|id| *id > 0).into_iter().collect();
    let group = value("ControlGroup");
    if group.starts_with('/') && !group.split('/').any(|part| part == "..") {
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"] {
            let list = std::fs::read_to_string(format!("{root}{group}/cgroup.procs")).unwrap_or_default();
            processes.extend(list.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|id| *id > 0));
        }
    }
    if processes.is_empty() {
        let state = value("ActiveState");
        return Err(Error::new(ErrorCode::NotFound, format!("the service {unit} has no running process"))
            .with_found(state.as_bytes())
            .with_hint(format!("start it first: systemctl start {unit}")));
    }
    Ok(processes.into_iter().collect())
}

/// Returns the processes of installed packages, except the ancestors of this process, and the first process of the
/// machine.
fn running() -> Result<Vec<i32>> {
    if std::fs::metadata("/proc/self").map_or(1, |about| about.uid()) != 0 {
        return Err(Error::new(ErrorCode::Unsupported, "--all records the programs of every user")
            .with_hint("run it as root: sudo sediment collect --all"));
    }
    let own = ancestors();
    let mut owned: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(program) = std::fs::read_link(entry.path().join("exe")) else { continue };
        if id > 1 && !own.contains(&id) {
            let is_owned =
                owned.entry(program).or_insert_with_key(|path| packages::owner(path, None).is_some());
            processes.extend(is_owned.then_some(id));
        }
    }
    processes.sort_unstable();
    if processes.is_empty() {
        return Err(Error::new(ErrorCode::NotFound, "no program of an installed package is running"));
    }
    Ok(processes)
}

/// Returns this process and its ancestors: stopping one of these would stop the recording.
fn ancestors() -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(id) = next.filter(|id| *id > 0) {
        if !found.insert(id) {
            break;
        }
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        next = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
    }
    found
}

/// Returns the packages of these processes' programs.
pub(super) fn packages_of(processes: &[i32]) -> Result<Vec<Package>> {
    let programs = processes.iter().filter_map(|id| std::fs::read_link(format!("/proc/{id}/exe")).ok());
    let owners: BTreeSet<_> = programs.filter_map(|program| packages::owner(&program, None)).collect();
    if owners.is_empty() {
        return Err(Error::new(ErrorCode::NotFound, "the processes run no program of an installed package")
            .with_hint("record them by `sediment record --pid`"));
    }
    owners.iter().map(|owner| Package::find(&owner.name, None)).collect()
}
