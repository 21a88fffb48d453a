// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real linker: where it is, what it can do, and how it is run.

use crate::ui::Ui;
use sediment::link::command_line::LinkLine;
use sediment::link::{self, plan};
use sediment::{Error, Result};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Output};

/// Names the wrappers that a link went through, so that two of them do not call each other for ever.
const PASSED: &str = "SEDIMENT_LD_PASSED";

/// The name that GCC's collect2 looks for before all others, whichever linker was chosen. A configure script that asks GCC for `ld` is
/// not told of it, so that no file of a package gets to know the wrapper.
const REAL_LD: &str = "real-ld";

/// The linker that GCC would have called: the one of its last `-fuse-ld`, which it names to programs that it calls.
fn chosen_by_gcc() -> String {
    const OPTION: &str = "'-fuse-ld=";
    let options = std::env::var("COLLECT_GCC_OPTIONS").unwrap_or_default();
    let chosen = options.rsplit_once(OPTION).and_then(|(_, rest)| rest.split('\'').next());
    match chosen {
        Some(chosen) if !chosen.is_empty() && !chosen.contains('/') => format!("ld.{chosen}"),
        _ => "ld".to_owned(),
    }
}

#[derive(Debug)]
pub(super) struct Linker {
    path: PathBuf,
}

impl Linker {
    /// Finds the linker that the compiler would have called: the one that `SEDIMENT_LD` names; the next of this name on the way
    /// that GCC looks for its programs (COMPILER_PATH), or beside a compiler that does not tell its way, such as clang; the one for
    /// the machine that is linked for; the next on PATH.
    pub(super) fn find(name: &str, line: &LinkLine) -> Result<Self> {
        Self::found(name, line, std::env::var_os("SEDIMENT_LD").filter(|value| !value.is_empty()))
    }

    fn found(name: &str, line: &LinkLine, given: Option<OsString>) -> Result<Self> {
        let meant = if name == REAL_LD { chosen_by_gcc() } else { name.to_owned() };
        let name = meant.as_str();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let passed = variable(PASSED).unwrap_or_default();
        let mut ours: Vec<PathBuf> = std::env::split_paths(&passed).collect();
        ours.extend(std::env::current_exe().and_then(|path| path.canonicalize()));
        let real = |path: &Path| {
            let found = path.canonicalize().ok().filter(|found| found.is_file())?;
            (!ours.contains(&found)).then(|| path.to_path_buf())
        };
        let folders = |variable: Option<OsString>| -> Vec<PathBuf> {
            std::env::split_paths(&variable.unwrap_or_default()).collect()
        };
        let on_path = folders(variable("PATH"));
        let among =
            |folders: &[PathBuf], name: &str| folders.iter().find_map(|folder| real(&folder.join(name)));
        if let Some(given) = given {
            let given = PathBuf::from(given);
            let found = if given.components().count() > 1 {
                real(&given)
            } else {
                among(&on_path, &given.to_string_lossy())
            };
            return found.map(|path| Self { path }).ok_or_else(|| {
                Error::failed("SEDIMENT_LD names no linker, or sediment itself")
                    .with_input(given.display().to_string())
            });
        }
        let compiler_path = variable("COMPILER_PATH");
        let beside = || {
            // The compiler's own folder, as clang keeps its linker there.
            let compiler =
                std::fs::read_link(format!("/proc/{}/exe", std::os::unix::process::parent_id())).ok()?;
            real(&compiler.parent()?.join(name))
        };
        let mut tries: Vec<Option<PathBuf>> = Vec::new();
        tries.push(compiler_path.and_then(|path| among(&folders(Some(path)), name)));
        // clang takes COMPILER_PATH as it takes -B, and does not pass on its own way.
        tries.push(beside());
        let (machine, targets) = line.emulation.as_deref().and_then(plan::targets).unwrap_or(("", &[]));
        let here = std::env::consts::ARCH;
        let native = machine.is_empty() || machine == here || (machine == "i686" && here == "x86_64");
        let of_target = || {
            targets.iter().find_map(|target| {
                let own = PathBuf::from(format!("/usr/{target}/bin"));
                among(&on_path, &format!("{target}-{name}")).or_else(|| among(&[own], name))
            })
        };
        if native {
            tries.push(among(&on_path, name));
            tries.push(of_target());
        } else {
            tries.push(of_target());
            tries.push(among(&on_path, name));
        }
        // lld by the name that distributions give to a release of it.
        tries.push((10..=40).rev().find_map(|release| among(&on_path, &format!("{name}-{release}"))));
        tries.into_iter().flatten().next().map(|path| Self { path }).ok_or_else(|| {
            Error::failed(format!("no linker of the name {name} was found"))
                .with_hint("install it, or name one with SEDIMENT_LD")
        })
    }

    /// Another linker, for the machine that is linked for.
    pub(super) fn other(name: &str, line: &LinkLine) -> Option<Self> {
        Self::found(name, line, None).ok()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let mut passed: Vec<PathBuf> =
            std::env::var_os(PASSED).iter().flat_map(std::env::split_paths).collect();
        passed.extend(std::env::current_exe().and_then(|path| path.canonicalize()));
        if let Ok(passed) = std::env::join_paths(passed) {
            command.env(PASSED, passed);
        }
        command
    }

    /// Hands this process over to it.
    pub(super) fn take_over(&self, arguments: &[OsString]) -> Result<ExitCode> {
        Err(self.cannot_start(&self.command().args(arguments).exec()))
    }

    /// Runs it to its end with the streams of this process.
    pub(super) fn run_in_place(&self, arguments: &[OsString]) -> Result<ExitStatus> {
        self.command().args(arguments).status().map_err(|error| self.cannot_start(&error))
    }

    fn cannot_start(&self, error: &std::io::Error) -> Error {
        Error::failed(format!("cannot be started: {error}")).with_input(self.path.display().to_string())
    }

    /// Runs it to its end, and keeps what it says. `with_sections`: link-time optimisation is told to give functions sections.
    pub(super) fn run(&self, arguments: &[OsString], with_sections: bool) -> Result<Ended> {
        const OPTIONS: &str = "COLLECT_GCC_OPTIONS";
        let mut command = self.command();
        let options = std::env::var_os(OPTIONS).filter(|_| with_sections);
        if let Some(options) = options.as_deref().and_then(plan::with_function_sections) {
            command.env(OPTIONS, options);
        }
        self.output(command.args(arguments)).map(Ended)
    }

    fn output(&self, command: &mut Command) -> Result<Output> {
        command.stdin(std::process::Stdio::inherit()).output().map_err(|error| self.cannot_start(&error))
    }

    /// What it answers to a question about itself.
    fn ask(&self, question: &str) -> String {
        let answer = self.output(self.command().arg(question).env("LC_ALL", "C"));
        answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default()
    }

    /// What it calls itself.
    pub(super) fn version(&self) -> String {
        self.ask("--version").lines().next().unwrap_or_default().to_owned()
    }

    /// The dialect in which it takes an order, as it says itself; or why it takes none.
    pub(super) fn dialect(&self) -> std::result::Result<&'static link::Linker, String> {
        let version = self.version();
        let help = if version.starts_with("GNU ld") { self.ask("--help") } else { String::new() };
        plan::dialect(&version, &help)
    }
}

/// A linker that was run.
#[derive(Debug)]
pub(super) struct Ended(Output);

impl Ended {
    pub(super) fn successful(&self) -> bool {
        self.0.status.success()
    }

    /// Prints what it printed.
    pub(super) fn pass_on(&self, ui: &Ui) -> Result<()> {
        ui.raw_error(&self.0.stderr);
        ui.raw_result(&self.0.stdout)
    }

    /// The first line of what it complained of.
    pub(super) fn first_words(&self) -> String {
        let said = String::from_utf8_lossy(&self.0.stderr);
        said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned()
    }

    /// Its exit code, as a shell gives it.
    pub(super) fn exit_code(&self) -> ExitCode {
        exit_code(self.0.status)
    }
}

/// How a program ended, as a shell gives it.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
