// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the real linker, asks it for its abilities, and runs it.

use super::caller::{WrapperCaller, folders, variable};
use crate::exit::ExitCode;
use crate::files;
use crate::ui::Ui;
use nix::unistd::{AccessFlags, access};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link;
use sediment_order::wrapper::command_line::LinkLine;
use sediment_order::wrapper::plan;
use std::ffi::{CString, OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

/// The name that GCC's collect2 looks for before all others, whichever linker was chosen. `gcc -print-prog-name=ld` does not return it, so
/// no configure script stores the path of the wrapper.
pub(crate) const REAL_LD: &str = "real-ld";

/// Paths of a program of this name on PATH.
fn on_path(name: &OsStr) -> Vec<PathBuf> {
    folders(&variable("PATH").unwrap_or_default()).into_iter().map(|folder| folder.join(name)).collect()
}

/// Identity of a file under any name.
fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn is_executable(path: &Path, found: &Metadata) -> bool {
    const BY_ALL: u32 = 0o111;
    found.is_file() && (found.mode() & BY_ALL == BY_ALL || access(path, AccessFlags::X_OK).is_ok())
}

/// Finds the first program that is not this one. If this program is itself among the paths, programs after it come
/// first, so that several copies call each other in turn and never in a loop.
fn search(ways: impl Iterator<Item = PathBuf>, called: &OsStr, on_the_way: bool) -> Option<PathBuf> {
    let itself = std::fs::metadata("/proc/self/exe").or_else(|_| std::fs::metadata(called));
    let own = itself.ok().as_ref().map(identity);
    let mut behind = !on_the_way;
    let mut before: Vec<((u64, u64), PathBuf)> = Vec::new();
    for path in ways {
        let Ok(found) = std::fs::metadata(&path) else { continue };
        let known = identity(&found);
        if Some(known) == own {
            behind = true;
        } else if before.iter().any(|(before, _)| *before == known) || !is_executable(&path, &found) {
            // It is not executable, or is the same file as a path before this program.
        } else if behind {
            return Some(path);
        } else {
            before.push((known, path));
        }
    }
    let mut before = before.into_iter().map(|(_, path)| path);
    if on_the_way && behind { before.find(|path| !is_wrapper(path)) } else { before.next() }
}

/// True if a program is a copy of this one, of any release. A text in it shows this.
fn is_wrapper(path: &Path) -> bool {
    const LARGEST: u64 = 1 << 30;
    let text = b"SEDIMENT_LD is not a linker, or is sediment itself";
    files::read_at_most(path, LARGEST).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text))
}

/// Returns the name of the linker that GCC would have called: the one of its last `-fuse-ld`, which GCC passes on to
/// the programs that it calls.
fn chosen_by_gcc() -> String {
    const OPTION: &str = "'-fuse-ld=";
    let options = std::env::var("COLLECT_GCC_OPTIONS").unwrap_or_default();
    let chosen = options.rsplit_once(OPTION).and_then(|(_, rest)| rest.split('\'').next());
    match chosen {
        Some(chosen) if !chosen.is_empty() && !chosen.contains('/') => format!("ld.{chosen}"),
        _ => "ld".to_owned(),
    }
}

/// A linker, and the name by which it is called, which it uses in its messages.
#[derive(Debug)]
pub(super) struct RealLinker {
    path: PathBuf,
    called: OsString,
}

impl RealLinker {
    /// Finds the linker that would have run without sediment: the one that `SEDIMENT_LD` names, or the next linker of
    /// this name on the search path of the calling compiler, or on PATH if no compiler called. `called`: the name by
    /// which this process was called; `emulation`: the linker emulation of the target.
    pub(super) fn find(name: &str, called: &OsStr, emulation: &dyn Fn() -> Option<String>) -> Result<Self> {
        let meant = if name == REAL_LD { chosen_by_gcc() } else { name.to_owned() };
        if let Some(given) = variable("SEDIMENT_LD") {
            let named = Path::new(&given).components().count() > 1;
            let ways = if named { vec![PathBuf::from(&given)] } else { on_path(&given) };
            let by_name = !called.as_bytes().contains(&b'/');
            let found = search(ways.into_iter(), called, !named && by_name);
            return found.map(|path| Self { path, called: given.clone() }).ok_or_else(|| {
                Error::new(ErrorCode::NotFound, "SEDIMENT_LD is not a linker, or is sediment itself")
                    .with_input(files::display(Path::new(&given)))
            });
        }
        // If this program is called by that name, the search continues after it.
        let names = if name == REAL_LD { vec![REAL_LD, &meant] } else { vec![meant.as_str()] };
        Self::on_the_way(&names, called, emulation).ok_or_else(|| {
            Error::new(ErrorCode::NotFound, format!("linker {meant} not found"))
                .with_hint("install it, or set SEDIMENT_LD to a linker")
        })
    }

    /// Finds another linker, for the target machine of the link.
    pub(super) fn other(name: &str, called: &OsStr, line: &LinkLine) -> Option<Self> {
        Self::on_the_way(&[name], called, &|| line.emulation.clone())
    }

    /// Finds a linker. The compiler's folders are searched for all of these names, PATH only for the last one.
    fn on_the_way(names: &[&str], called: &OsStr, emulation: &dyn Fn() -> Option<String>) -> Option<Self> {
        let caller = WrapperCaller::find();
        let folders = caller.folders();
        let first = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let name = *names.last()?;
        // A cross compiler looks for the linker of its target machine; other callers look for the plain name.
        let then = std::iter::once(()).flat_map(|()| {
            let emulation = emulation();
            let targets = emulation.as_deref().and_then(plan::targets);
            let (machine, targets) = targets.unwrap_or(("", &[]));
            let here = std::env::consts::ARCH;
            let native = machine.is_empty() || machine == here || (machine == "i686" && here == "x86_64");
            let of_target = targets.iter().flat_map(|target| {
                let mut ways = on_path(OsStr::new(&format!("{target}-{name}")));
                ways.push(PathBuf::from(format!("/usr/{target}/bin/{name}")));
                ways
            });
            let mut ways: Vec<PathBuf> = of_target.collect();
            let at = if native || caller == WrapperCaller::Other { 0 } else { ways.len() };
            ways.splice(at..at, on_path(OsStr::new(name)));
            ways
        });
        // A caller that is not a compiler used the path of this program, or found it first on PATH.
        let on_the_way = caller != WrapperCaller::Other || !called.as_bytes().contains(&b'/');
        let found = search(first.chain(then), called, on_the_way).or_else(|| {
            // Distributions append the release to the name of lld.
            let releases =
                (10..=40).rev().flat_map(|release| on_path(OsStr::new(&format!("{name}-{release}"))));
            search(releases, called, false)
        })?;
        let plain = caller == WrapperCaller::Other && found.file_name() == Some(OsStr::new(name));
        let called = if plain { OsString::from(name) } else { found.clone().into_os_string() };
        Some(Self { path: found, called })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.called);
        command
    }

    /// Replaces this process by the linker. Everything else of the process stays, including signal dispositions, which
    /// `Command::exec` would reset.
    pub(super) fn take_over(&self, arguments: &[OsString]) -> Result<ExitCode> {
        let word = |word: &OsStr| {
            CString::new(word.as_bytes())
                .map_err(|_| Error::new(ErrorCode::InvalidArgument, "the command line has a NUL byte"))
        };
        let path = word(self.path.as_os_str())?;
        let mut words = vec![word(&self.called)?];
        for argument in arguments {
            words.push(word(argument)?);
        }
        let Err(error) = nix::unistd::execvp(&path, &words);
        Err(self.cannot_start(&error.into()))
    }

    /// Runs the linker to its end with the streams of this process.
    pub(super) fn run_in_place(&self, arguments: &[OsString]) -> Result<ExitStatus> {
        self.command().args(arguments).status().map_err(|error| self.cannot_start(&error))
    }

    fn cannot_start(&self, error: &std::io::Error) -> Error {
        Error::new(ErrorCode::ProgramFailed, format!("cannot start: {error}"))
            .with_input(files::display(&self.path))
    }

    /// Runs the linker to its end, and keeps its messages. `with_sections`: link-time optimisation gives functions
    /// sections of their own.
    pub(super) fn run(&self, arguments: &[OsString], with_sections: bool) -> Result<LinkerRun> {
        const OPTIONS: &str = "COLLECT_GCC_OPTIONS";
        let mut command = self.command();
        let options = std::env::var_os(OPTIONS).filter(|_| with_sections);
        if let Some(options) = options.as_deref().and_then(plan::with_function_sections) {
            command.env(OPTIONS, options);
        }
        self.output(command.args(arguments)).map(LinkerRun)
    }

    fn output(&self, command: &mut Command) -> Result<Output> {
        command.stdin(std::process::Stdio::inherit()).output().map_err(|error| self.cannot_start(&error))
    }

    /// Returns the linker's answer to an option such as --version.
    fn ask(&self, question: &str) -> String {
        let answer = self.output(self.command().arg(question).env("LC_ALL", "C"));
        answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default()
    }

    /// Returns the linker's own name and version.
    pub(super) fn version(&self) -> String {
        self.ask("--version").lines().next().unwrap_or_default().to_owned()
    }

    /// True for lld, by the name of its file.
    pub(super) fn is_lld(&self) -> bool {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        [&self.path, &path].iter().any(|path| files::base_name(path).contains("lld"))
    }

    /// The ordering dialect that it reads, or the reason why it reads none.
    pub(super) fn dialect(&self) -> std::result::Result<&'static link::Linker, String> {
        let version = self.version();
        let help = if version.starts_with("GNU ld") { self.ask("--help") } else { String::new() };
        plan::dialect(&version, &help)
    }
}

/// A linker that was run.
#[derive(Debug)]
pub(super) struct LinkerRun(Output);

impl LinkerRun {
    pub(super) fn successful(&self) -> bool {
        self.0.status.success()
    }

    /// Prints the linker's output.
    pub(super) fn pass_on(&self, ui: &Ui) -> Result<()> {
        ui.raw_error(&self.0.stderr);
        ui.raw_result(&self.0.stdout)
    }

    /// Returns the first line of the linker's errors.
    pub(super) fn first_words(&self) -> String {
        let said = String::from_utf8_lossy(&self.0.stderr);
        said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned()
    }

    /// Its exit code, in the form that shells use.
    pub(super) fn exit_code(&self) -> ExitCode {
        exit_code(self.0.status)
    }
}

/// Exit code of a program, in the form that shells use.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
