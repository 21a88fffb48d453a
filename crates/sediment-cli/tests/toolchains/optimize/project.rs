// SPDX-License-Identifier: MIT OR Apache-2.0
//! A project in a folder with a blank in its name, and `sediment optimize` in it.

use crate::projects::ProjectKind;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub struct OptimizedProject(tempfile::TempDir);

/// Stand-in that is found as valgrind if misses need not be simulated, which would take most of a test's time.
const NO_VALGRIND: &str = "bin/valgrind";

impl OptimizedProject {
    pub fn new(files: &[(String, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("my project").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        symlink("/bin/false", folder.path().join(NO_VALGRIND)).unwrap();
        Self(folder)
    }

    /// Enables the simulation of misses.
    pub fn with_valgrind(self) -> Self {
        std::fs::remove_file(self.0.path().join(NO_VALGRIND)).unwrap();
        self
    }

    pub fn of(kind: ProjectKind) -> Self {
        Self::new(&crate::projects::files(kind))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("my project").join(name)
    }

    /// Returns the files of the project with their texts, except the working folder's.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.path("")).unwrap().flatten();
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files
            .map(|entry| {
                (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())
            })
            .collect()
    }

    /// Processes whose current folder is in the project.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.path("").canonicalize().unwrap();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let inside = entries.filter(|entry| {
            let is_inside = |cwd: PathBuf| cwd.starts_with(&folder);
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(is_inside)
        });
        inside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    pub fn shell(&self, line: &str) {
        let done = Command::new("sh").args(["-c", line]).current_dir(self.path("")).output().unwrap();
        assert!(done.status.success(), "{line}: {}", err(&done));
    }

    /// Prepares the command.
    pub fn command(&self, options: &[&str], build: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
        command.arg("optimize").args(options).current_dir(self.path("")).stdin(Stdio::null());
        if !["--undo", "--init", "--measure-for"].iter().any(|option| options.contains(option)) {
            command.args(["--measure-for", "1s"]);
        }
        // Further levels have separate tests.
        if !["--undo", "--init", "--level", "--pgo", "--ship"].iter().any(|option| options.contains(option)) {
            command.args(["--level", "order"]);
        }
        crate::projects::without_settings(&mut command);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.0.path().join("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        if !build.is_empty() {
            command.arg("--").args(build);
        }
        command
    }

    pub fn run(&self, options: &[&str], build: &[&str]) -> Output {
        self.command(options, build).output().unwrap()
    }

    /// Returns the report of a run, which must succeed.
    pub fn optimize(&self, options: &[&str], build: &[&str]) -> serde_json::Value {
        let output = self.run(options, build);
        assert_eq!(code(&output), 0, "{}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Checks that exactly these outputs are ordered, and were measured.
    pub fn is_ordered(&self, report: &serde_json::Value, outputs: &[&str]) {
        assert_eq!(report["schema"], 3);
        let mut names = Vec::new();
        for output in report["outputs"].as_array().unwrap() {
            names.push(output["name"].as_str().unwrap());
            assert!(output["not_ordered"].is_null(), "{report}");
            assert!(output["weight_placed_percent"].as_f64().unwrap() > 99.0, "{report}");
        }
        names.sort_unstable();
        assert_eq!(names, outputs, "{report}");
        let cpu_time = &report["measured"][0]["cpu_time"];
        assert!(cpu_time["before_seconds"].as_f64() > Some(0.0), "{report}");
        assert!(cpu_time["rounds"].is_null() || cpu_time["layouts"].as_u64() > Some(4), "{report}");
    }
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the exit code as in a shell.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap())
}

/// A program of functions that are called often.
pub const RUST: &str = "use std::hint::black_box;
#[inline(never)] fn one(x: u64) -> u64 { black_box(x) * 3 }
#[inline(never)] fn two(x: u64) -> u64 { one(x) + 5 }
#[inline(never)] fn never(x: u64) -> u64 { black_box(x) / 3 }
fn main() {
    let mut sum = 0;
    for x in 0..100_000 { sum += two(x); }
    if sum == 1 { sum += never(sum); }
    println!(\"{sum}\");
}
";
