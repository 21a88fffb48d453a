// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads counters of LLVM's instrumentation from any of its files with `llvm-profdata`, because only this program
//! supports the formats of its version.

use crate::files::{self, TemporaryFolder};
use crate::inputs::read_binary;
use crate::ui::Ui;
use crate::unit_graphs::entries;
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::skipped::Skipped;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use sediment_read::counters::llvm::{self, LlvmCounters};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First bytes of a file from a run, for programs of 64 and 32 bits, and of a file for a compiler.
const RAW: [[u8; 8]; 2] = [*b"\x81rforpl\xff", *b"\x81Rforpl\xff"];
const INDEXED: [u8; 8] = *b"\xfflprofi\x81";
/// Extensions of the files that are searched for in folders.
const EXTENSIONS: [&str; 3] = ["profraw", "profdata", "proftext"];
/// Number of bytes that are needed to recognise a file.
const HEAD: u64 = 1024;
/// Versions of LLVM whose program is searched, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 14..=30;
/// Longest text, and longest duration of a conversion.
const LONGEST: usize = 1 << 31;
const LIMIT: Duration = Duration::from_secs(1800);

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProfdataForm {
    Binary,
    Text,
}

/// Files of counters.
pub(crate) struct ProfdataFiles {
    binary: Vec<PathBuf>,
    text: Vec<PathBuf>,
}

fn form(path: &Path) -> Result<Option<ProfdataForm>> {
    let head = files::beginning(path, HEAD)?;
    let is_binary = RAW.iter().chain([&INDEXED]).any(|magic| {
        // From a machine with the other byte order.
        head.starts_with(magic) || head.iter().take(magic.len()).eq(magic.iter().rev())
    });
    Ok(match is_binary {
        true => Some(ProfdataForm::Binary),
        false => llvm::recognises(&head).then_some(ProfdataForm::Text),
    })
}

/// Finds the files of counters at these paths or below them; `None` if there are none.
///
/// # Errors
/// If some paths have such files and others do not.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Option<ProfdataFiles>> {
    let mut found = ProfdataFiles { binary: Vec::new(), text: Vec::new() };
    let mut other = None;
    for path in paths {
        let before = found.binary.len() + found.text.len();
        if path.is_dir() {
            search(path, &mut found)?;
        } else if path.is_file() {
            found.add(path)?;
        }
        if found.binary.len() + found.text.len() == before {
            other = other.or(Some(path));
        }
    }
    match other {
        _ if found.binary.is_empty() && found.text.is_empty() => Ok(None),
        None => Ok(Some(found)),
        Some(other) => {
            Err(Error::new(ErrorCode::Usage, "this file has no counters of LLVM, but other given files do")
                .with_input(files::display(other))
                .with_hint("import counters and recordings separately, then merge the profiles"))
        }
    }
}

/// Adds the files below a folder, sorted by path; does not follow links.
fn search(folder: &Path, found: &mut ProfdataFiles) -> Result<()> {
    let unreadable = |error| {
        Error::new(ErrorCode::Io, format!("cannot search this folder: {error}"))
            .with_input(files::display(folder))
    };
    for (path, kind) in entries(folder).map_err(unreadable)? {
        let is_it = || path.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known));
        if kind.is_dir() {
            search(&path, found)?;
        } else if kind.is_file() && is_it() {
            found.add(&path)?;
        }
    }
    Ok(())
}

impl ProfdataFiles {
    fn add(&mut self, path: &Path) -> Result<()> {
        match form(path)? {
            Some(ProfdataForm::Binary) => self.binary.push(path.to_path_buf()),
            Some(ProfdataForm::Text) => self.text.push(path.to_path_buf()),
            None => {}
        }
        Ok(())
    }
}

/// Reads the files. Functions that only one of the binaries has belong to it.
pub(crate) fn import(
    found: &ProfdataFiles,
    binaries: &[PathBuf],
    tool: Option<&Path>,
    ui: &Ui,
) -> Result<Profile> {
    let (mut counters, mut skipped) = (LlvmCounters::default(), Skipped::default());
    if !found.binary.is_empty() {
        let shown = files::display(&found.binary[0]);
        let text = converted(&found.binary, &["--text", "-o", "-"], tool)
            .map_err(|error| error.with_input(shown.clone()))?;
        counters.read(&text, &mut skipped).map_err(|error| error.with_input(shown))?;
    }
    for path in &found.text {
        let read = counters.read(&files::read(path)?, &mut skipped);
        read.map_err(|error| error.with_input(files::display(path)))?;
    }
    let parsed = |path: &PathBuf| {
        let binary = read_binary(path)?;
        Ok((binary.soname.clone().unwrap_or_else(|| files::base_name(path)), binary))
    };
    let binaries = binaries.iter().map(parsed).collect::<Result<Vec<_>>>()?;
    ui.skipped("reading", &skipped);
    ui.detail(&format!("read {} of counters", counted(found.binary.len() + found.text.len(), "file")));
    counters.profile(&binaries)
}

/// Converts a text of counters to a file for a compiler.
pub(crate) fn indexed(text: &str, tool: Option<&Path>) -> Result<Vec<u8>> {
    let folder = TemporaryFolder::new()?;
    let input = folder.write("counters.proftext", text.as_bytes())?;
    let output = folder.path().join("counters.profdata");
    converted(&[input], &["-o".as_ref(), output.as_os_str()], tool)?;
    files::read(&output)
}

/// Returns the standard output of the first `llvm-profdata merge` that accepts the files.
fn converted<S: AsRef<OsStr>>(inputs: &[PathBuf], options: &[S], tool: Option<&Path>) -> Result<Vec<u8>> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut refused: Option<Error> = None;
    for tool in tools(tool) {
        let words = options.iter().map(|word| word.as_ref().to_owned());
        let command = Command::new(&tool, &here, LIMIT)
            .with_arguments([OsString::from("merge")])
            .with_arguments(words)
            .with_arguments(inputs.iter().map(absolute));
        match run(&command, LONGEST)?.successful(&command) {
            Ok(ended) if ended.output_dropped == 0 => return Ok(ended.output),
            Ok(_) => return Err(Error::new(ErrorCode::TooLarge, "more than 2 GiB of counters as text")),
            // The error of the newest program counts.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        Error::new(ErrorCode::NotFound, "llvm-profdata was not found").with_hint(
            "install llvm-profdata of the compiler's LLVM version (llvm-19; for rustc: rustup component add llvm-tools), or name it: --llvm-profdata PROGRAM",
        )
    }))
}

/// Returns a path that no program mistakes for an option.
fn absolute(path: &PathBuf) -> OsString {
    std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string()
}

/// Returns the programs to try: the given one; otherwise those on PATH, and rustc's.
fn tools(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_path_buf()];
    }
    let numbered = VERSIONS.rev().map(|version| format!("llvm-profdata-{version}"));
    let names = std::iter::once("llvm-profdata".to_owned()).chain(numbered);
    let mut tools: Vec<PathBuf> =
        names.filter_map(|name| files::on_path(name.as_ref()).into_iter().next()).collect();
    let mut known = std::collections::BTreeSet::new();
    tools.extend(of_rustc());
    tools.retain(|tool| known.insert(tool.canonicalize().unwrap_or_else(|_| tool.clone())));
    tools
}

/// Returns rustc's own program, if that component is installed.
fn of_rustc() -> Option<PathBuf> {
    let rustc = files::on_path("rustc".as_ref()).into_iter().next()?;
    let command =
        Command::new(rustc, "/", Duration::from_secs(20)).with_arguments(["--print", "target-libdir"]);
    let folder = run(&command, 1 << 16).ok()?.successful(&command).ok()?.output;
    let folder = PathBuf::from(OsString::from_vec(folder.trim_ascii_end().to_vec()));
    Some(folder.parent()?.join("bin/llvm-profdata")).filter(|tool| tool.is_file())
}
