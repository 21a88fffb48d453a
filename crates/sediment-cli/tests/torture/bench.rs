// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environment of the runs: programs that are compiled once, a folder for each run, and commands that are watched until
//! everything they started has ended.

use super::fault::{Fault, FaultKind};
use super::parameters::Parameters;
use super::processes::{self, Process};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A program of `torture/programs`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Its name, with which its processes are found.
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// Libraries that it is linked with or loads.
    pub(crate) libraries: &'static [TortureLibrary],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TortureLibrary {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) flags: &'static [&'static str],
}

/// Time limit of any step: far longer than necessary, and longer still if many processes share the processors.
pub(crate) fn step_limit() -> Duration {
    const MOST: f64 = 6.0;
    let seconds = std::env::var("SEDIMENT_PATIENCE").ok().and_then(|text| text.parse().ok());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|average| average.parse().ok()).unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Duration::from_secs(seconds.unwrap_or(60)).mul_f64((load / processors as f64).clamp(1.0, MOST))
}

type Compiled = Arc<OnceLock<PathBuf>>;

pub(crate) struct Bench {
    folder: TempDir,
    compiled: Mutex<BTreeMap<String, Compiled>>,
    /// The program under test, at a path where every user may run it.
    pub(crate) sediment: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().canonicalize().unwrap();
        let sediment = path.join("sediment");
        std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &sediment).unwrap();
        std::fs::create_dir(path.join("programs")).unwrap();
        Self { folder, compiled: Mutex::default(), sediment }
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("programs")
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let place = self.compiled.lock().unwrap().entry(name.to_owned()).or_default().clone();
        place
            .get_or_init(|| {
                let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/programs");
                let program = self.programs().join(name);
                let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
                let mut compile = Command::new(compiler);
                compile
                    .args(["-O1", "-g", "-w", "-pthread", "-o"])
                    .arg(&program)
                    .arg(sources.join(source))
                    .args(flags);
                let done = compile.current_dir(self.programs()).output().unwrap();
                assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
                program
            })
            .clone()
    }

    /// The folder of a program that is built there by a line for the shell, from a file of `torture/programs/strange`.
    pub(crate) fn built_by(&self, line: &str, file: &str) -> PathBuf {
        let place = self.compiled.lock().unwrap().entry(line.to_owned()).or_default().clone();
        place
            .get_or_init(|| {
                let source =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/programs/strange").join(file);
                let folder = self.programs().join(format!("{file}.built"));
                std::fs::create_dir(&folder).unwrap();
                std::fs::copy(source, folder.join(file)).unwrap();
                let done = Command::new("sh").args(["-c", line]).current_dir(&folder).output().unwrap();
                assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
                folder
            })
            .clone()
    }

    /// A program that helps the runs, such as `warden`.
    pub(crate) fn tool(&self, name: &str) -> PathBuf {
        self.compile(name, &format!("{name}.c"), &[])
    }

    /// A library that is preloaded.
    pub(crate) fn library(&self, name: &str) -> PathBuf {
        self.compile(&format!("{name}.so"), &format!("{name}.c"), &["-shared", "-fPIC"])
    }

    /// Makes a new folder for a run, which everybody may write to.
    pub(crate) fn room(&self) -> Room<'_> {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Room { bench: self, path: folder.path().canonicalize().unwrap(), stripped: false, _folder: folder }
    }

    /// As [`Self::room`], for programs in their drawn form.
    pub(crate) fn room_of(&self, parameters: &Parameters) -> Room<'_> {
        Room { stripped: parameters.stripped == 1, ..self.room() }
    }

    /// A copy of a compiled program or library without symbols, which `strip` removes.
    fn without_symbols(&self, whole: &Path) -> PathBuf {
        let name = whole.file_name().unwrap().to_str().unwrap();
        let place = self.compiled.lock().unwrap().entry(format!("{name} stripped")).or_default().clone();
        place
            .get_or_init(|| {
                let folder = self.programs().join("stripped");
                std::fs::create_dir_all(&folder).unwrap();
                let program = folder.join(name);
                let done = Command::new("strip").arg("-o").arg(&program).arg(whole).status();
                assert!(done.is_ok_and(|done| done.success()), "strip {name}");
                program
            })
            .clone()
    }
}

/// The folder of a run.
pub(crate) struct Room<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) path: PathBuf,
    /// True if its programs have no symbols.
    pub(crate) stripped: bool,
    _folder: TempDir,
}

impl Room<'_> {
    /// Copies a program and its libraries to the folder; returns its path.
    pub(crate) fn place(&self, made: &Made) -> String {
        for library in made.libraries {
            let flags: Vec<&str> =
                ["-shared", "-fPIC"].into_iter().chain(library.flags.iter().copied()).collect();
            self.put(self.bench.compile(library.name, library.source, &flags));
        }
        self.put(self.bench.compile(made.name, made.source, made.flags)).to_str().unwrap().to_owned()
    }

    fn put(&self, compiled: PathBuf) -> PathBuf {
        let there = if self.stripped { self.bench.without_symbols(&compiled) } else { compiled };
        let here = self.path.join(there.file_name().unwrap());
        let _ = std::fs::hard_link(there, &here);
        here
    }

    /// Makes a copy of a program under another name, with these permissions.
    pub(crate) fn copy(&self, made: &Made, name: &str, rights: u32) {
        let copy = self.path.join(name);
        std::fs::copy(self.place(made), &copy).unwrap();
        std::fs::set_permissions(copy, std::fs::Permissions::from_mode(rights)).unwrap();
    }

    /// Starts and watches a command. Its output goes to files with this label.
    pub(crate) fn start(&self, label: &str, words: &[String]) -> WatchedCommand {
        let file = |ending: &str| self.path.join(format!("{label}.{ending}"));
        let stream = |ending: &str| {
            let stream = std::fs::File::create(file(ending)).unwrap();
            std::fs::set_permissions(file(ending), std::fs::Permissions::from_mode(0o666)).unwrap();
            Stdio::from(stream)
        };
        let report = file("report");
        let _ = std::fs::remove_file(&report);
        // Background processes are started with the keys' signals ignored; here these must arrive.
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(self.bench.tool("warden")).arg(&report).args(words);
        command.current_dir(&self.path).stdin(Stdio::null()).stdout(stream("out")).stderr(stream("err"));
        command.env("LC_ALL", "C").env("PYTHONDONTWRITEBYTECODE", "1");
        let warden = command.spawn().unwrap();
        WatchedCommand {
            warden,
            report,
            out: file("out"),
            err: file("err"),
            sediment: self.bench.sediment.clone(),
        }
    }

    /// Checks that the profile exists and can be shown; a sample profile of lines must have a function.
    pub(crate) fn profile(&self) -> Result<(), String> {
        let path = self.path.join("recorded.gv");
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Err("no profile was written".to_owned());
        };
        let mut head = text.lines().next().unwrap_or_default().split(':').skip(1);
        let counts = [head.next(), head.next()].map(|count| count?.parse::<u64>().ok());
        if counts.iter().all(Option::is_some) {
            return Ok(());
        }
        let shown = Command::new(&self.bench.sediment).arg("show").arg(&path).output().unwrap();
        if shown.status.success() && !shown.stdout.is_empty() {
            return Ok(());
        }
        Err(format!("the profile cannot be shown: {}", String::from_utf8_lossy(&shown.stderr)))
    }
}

/// Exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProcessExit {
    Exit(i32),
    Signal(i32),
}

impl ProcessExit {
    /// Exit code as in a shell.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }
}

/// Exits of all processes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandExits {
    pub(crate) command: ProcessExit,
    /// Processes that outlived their parents, by name.
    pub(crate) orphans: Vec<(String, ProcessExit)>,
}

/// A command that is watched until everything it started has ended; dropping this ends it.
pub(crate) struct WatchedCommand {
    warden: Child,
    report: PathBuf,
    out: PathBuf,
    err: PathBuf,
    sediment: PathBuf,
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

impl WatchedCommand {
    pub(crate) fn out(&self) -> String {
        read(&self.out)
    }

    /// Last lines of its standard error.
    pub(crate) fn err(&self) -> String {
        let said = read(&self.err);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(6)..].join(" / ")
    }

    /// The process of the command.
    pub(crate) fn command(&self) -> Result<i32, Fault> {
        let id = || read(&self.report).lines().next()?.strip_prefix("pid ")?.parse().ok();
        self.until("was not started", id)
    }

    /// Running processes.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let all = processes::below(self.warden.id() as i32);
        all.into_iter().filter(|process| !process.has_ended()).collect()
    }

    /// Running processes that do not belong to a recorder.
    pub(crate) fn programs(&self) -> Vec<Process> {
        let mut all = self.processes();
        all.retain(|process| !processes::runs(process.id, &self.sediment));
        all
    }

    /// The first process with this name.
    pub(crate) fn program(&self, name: &str) -> Result<i32, Fault> {
        let name: String = name.chars().take(15).collect();
        self.until(&format!("{name} does not run"), || {
            self.programs().iter().find(|process| process.name == name).map(|process| process.id)
        })
    }

    /// Waits for the result of `look`; a fault if there is none in time.
    pub(crate) fn until<T>(&self, missing: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, Fault> {
        let started = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if started.elapsed() > step_limit() {
                return Err(self.hung(missing));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Waits until the command has printed this.
    pub(crate) fn printed(&self, text: &str) -> Result<(), Fault> {
        self.until(&format!("{text:?} was not printed"), || {
            let ended = !Path::new(&format!("/proc/{}", self.command().ok()?)).exists();
            (self.out().contains(text) || ended).then_some(())
        })
    }

    pub(crate) fn hung(&self, what: &str) -> Fault {
        let lines: Vec<String> = self.processes().iter().map(Process::describe).collect();
        Fault::new(FaultKind::Hung, format!("{what}; {}; said: {}", lines.join("; "), self.err()))
    }

    /// Waits until no process is left.
    pub(crate) fn wait(&mut self) -> Result<CommandExits, Fault> {
        let started = Instant::now();
        let mut over: Option<Instant> = None;
        while self.warden.try_wait().unwrap().is_none() {
            if started.elapsed() > step_limit() {
                return Err(self.hung("does not end"));
            }
            // When the command has ended, no part of the recorder may remain.
            if over.is_none() && read(&self.report).lines().any(|line| line.contains(" command ")) {
                over = Some(Instant::now());
            }
            if over.is_some_and(|over| over.elapsed() > step_limit() / 6) {
                let stays =
                    self.processes().into_iter().find(|process| processes::runs(process.id, &self.sediment));
                if let Some(process) = stays {
                    return Err(self.hung(&format!("the recorder left {} running", process.id)));
                }
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        let text = read(&self.report);
        let mut report = CommandExits { command: ProcessExit::Exit(-1), orphans: Vec::new() };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, role, how, number] = words[..] else { panic!("{line}") };
            let number = number.parse().unwrap();
            let ended = if how == "exit" { ProcessExit::Exit(number) } else { ProcessExit::Signal(number) };
            match role {
                "command" => report.command = ended,
                _ => report.orphans.push((name.to_owned(), ended)),
            }
        }
        report.orphans.sort();
        Ok(report)
    }
}

impl Drop for WatchedCommand {
    fn drop(&mut self) {
        if self.warden.try_wait().unwrap().is_none() {
            processes::end_below(self.warden.id() as i32);
            let _ = self.warden.kill();
            let _ = self.warden.wait();
        }
    }
}
