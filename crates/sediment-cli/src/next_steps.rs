// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggests the next command after a recording, an order and a check.

use crate::files;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use sediment_core::binary::{code_sections, is_program};
use sediment_core::escape;
use sediment_core::profile::{FunctionIndex, Profile};
use sediment_order::link::Linker;
use sediment_read::read::Recording;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders of a distribution: developers rarely order the programs there.
const OF_SYSTEM: &[&str] = &["/usr/bin/", "/usr/sbin/", "/usr/lib", "/bin/", "/sbin/", "/lib"];

/// Returns the command that orders the heaviest program of a profile: a given file, the recorded file, or its label.
pub(crate) fn after_profile(
    given: &[PathBuf],
    profile: &Profile,
    output: &Path,
    recording: Option<&Recording>,
) -> Option<String> {
    let (label, path) = heaviest(profile, given, recording)?;
    if is_runtime(&label) {
        // Hardly anybody links these files.
        let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
        let others = escape::terminal(&labels.join(", "));
        return Some(format!("sediment order {} --dso NAME -o FILE, with NAME of: {others}", word(output)?));
    }
    let own = |function: &FunctionIndex| profile.key(*function).dso.as_deref() == Some(&*label);
    let functions: Vec<FunctionIndex> = profile.functions().into_iter().filter(own).collect();
    let nameless = functions.iter().filter(|function| profile.is_nameless(**function)).count();
    if 2 * nameless > functions.len() {
        let label = escape::terminal(&label);
        return Some(format!(
            "{label} is stripped: sediment resolve {} --debug ELF|DIR|debuginfod",
            word(output)?
        ));
    }
    let program = match path.filter(|path| path.is_file()) {
        Some(path) => format!("--binary {}", word(&from_here(&path))?),
        None => format!("--dso {}", word(Path::new(&label))?),
    };
    let order = output.with_extension("order");
    let [profile, order] = [word(output)?, word(&order)?];
    Some(format!("sediment order {profile} {program} --linker auto -o {order}"))
}

/// Returns the link argument for an ordering file, and the command that verifies the linked program.
pub(crate) fn after_order(
    linker: &Linker,
    order: &Path,
    profiles: &[PathBuf],
    program: Option<&Path>,
) -> Option<String> {
    let check = match program {
        Some(program) => word(program)?,
        None => "PROGRAM".to_owned(),
    };
    // Several profiles are several workloads, but `verify` takes weights from one.
    let profile = match profiles {
        [profile] => format!(" --profile {}", word(profile)?),
        _ => String::new(),
    };
    // Linkers may run in other folders.
    let anywhere = if order.is_absolute() { "" } else { "\"$PWD\"/" };
    let order = word(order)?;
    let check = format!("sediment verify {check} --order {order}{profile}");
    // Plain lists have a remark in place of arguments.
    if !linker.arguments.starts_with('-') {
        return Some(check);
    }
    let arguments = linker.arguments.replace("FILE", &format!("{anywhere}{order}"));
    Some(format!("link with {arguments}, then: {check}"))
}

/// Returns the command that measures a linked program, or a program that loads a linked library.
pub(crate) fn after_verify(program: &Path) -> Option<String> {
    let bytes = files::read(program).ok()?;
    // A separate debug file does not run.
    code_sections(&bytes)?;
    if !is_program(&bytes) {
        let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = word(folder.unwrap_or(Path::new(".")))?;
        let run = |folder: &str| format!("env LD_LIBRARY_PATH={folder} PROGRAM ARGUMENT...");
        return Some(format!("sediment eval quick -- {} -- {}", run("FOLDER-BEFORE"), run(&folder)));
    }
    // A bare name would be searched on PATH.
    let here = if program.components().count() == 1 { "./" } else { "" };
    let program = word(&Path::new(here).join(program))?;
    Some(format!("sediment eval quick -- BEFORE ARGUMENT... -- {program} ARGUMENT..."))
}

/// True for the C library's files, the compiler's support library (libgcc_s), and the kernel's own mappings.
fn is_runtime(label: &str) -> bool {
    const LIBRARIES: [&str; 12] =
        ["c", "m", "pthread", "dl", "rt", "util", "resolv", "mvec", "anl", "nsl", "gcc_s", "thread_db"];
    let library = label.strip_prefix("lib").and_then(|rest| rest.split(['.', '-']).next());
    ["ld-", "linux-vdso", "[vdso]"].iter().any(|begin| label.starts_with(begin))
        || library.is_some_and(|name| LIBRARIES.contains(&name))
}

/// Returns the label of the DSO with the largest weight, and its path if the recording has it; files of the system come
/// last.
fn heaviest(
    profile: &Profile,
    given: &[PathBuf],
    recording: Option<&Recording>,
) -> Option<(String, Option<PathBuf>)> {
    let mut weights: BTreeMap<&str, u128> = BTreeMap::new();
    let mut add = |function, weight: u128| {
        if let Some(label) = profile.key(function).dso.as_deref() {
            let sum = weights.entry(label).or_default();
            *sum = sum.saturating_add(weight);
        }
    };
    for (caller, callee, facts) in profile.edges() {
        add(caller, facts.count.unwrap_or(0));
        add(callee, facts.count.unwrap_or(0));
    }
    for function in profile.functions() {
        let facts = profile.facts(function);
        add(function, facts.samples.unwrap_or(0).saturating_add(u128::from(facts.first.is_some())));
    }
    let path_of = |label: &str| {
        let dsos = recording.map_or(&[][..], Recording::dsos).iter();
        let recorded = dsos.map(|dso| PathBuf::from(&dso.path));
        given.iter().cloned().chain(recorded).find(|path| files::base_name(path) == label)
    };
    let candidates = weights.into_iter().map(|(label, weight)| (label, path_of(label), weight));
    let is_own = |path: &Option<PathBuf>| {
        let path = path.as_ref().map(|path| path.to_string_lossy());
        path.is_some_and(|path| !OF_SYSTEM.iter().any(|folder| path.starts_with(folder)))
    };
    // Among equal ones, the first by name.
    let best =
        candidates.rev().max_by_key(|(label, path, weight)| (is_own(path), !is_runtime(label), *weight))?;
    Some((best.0.to_owned(), best.1))
}

/// Returns a path as typed in this folder.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf))
        .unwrap_or_else(|| path.to_path_buf())
}

/// Returns a path as a word for a shell.
pub(crate) fn word(path: &Path) -> Option<String> {
    escape::shell(path.to_str()?)
}

/// Commands that take a command line after `--`.
const WITH_COMMAND: &[&str] = &["record", "optimize", "collect"];

/// Removed commands, and their replacements.
const REMOVED: &[(&str, &str)] =
    &[("demo", "sediment optimize --train './program INPUT' -- make (in a checkout: scripts/demo)")];

/// Returns the intended command line if the parser stopped at one without `--` before its command, or at a removed
/// command; `None` for other errors.
pub(crate) fn corrected(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    if let Some(ContextValue::String(command)) = error.get(ContextKind::InvalidSubcommand) {
        let is_it = |(name, _): &&(&str, &str)| name == command;
        return REMOVED.iter().find(is_it).map(|(_, instead)| (*instead).to_owned());
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    let command = words.iter().position(|word| WITH_COMMAND.contains(word))?;
    let at = command + 1 + words[command + 1..].iter().position(|word| word == unknown)?;
    if error.kind() != ErrorKind::UnknownArgument || unknown.starts_with('-') || words.contains(&"--") {
        return None;
    }
    let mut meant = vec!["sediment".to_owned()];
    for (index, word) in words.iter().enumerate() {
        meant.extend((index == at).then(|| "--".to_owned()));
        meant.push(escape::shell(word)?);
    }
    Some(meant.join(" "))
}
