// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared parts of the tests: cases that need a tool or recorded data, goldens, and the project's folders.
//!
//! A case whose tool is missing is reported as ignored with its reason, never as passed; `SEDIMENT_REQUIRE_ALL=1` makes it fail, unless
//! the tool is one that takes long to build and `SEDIMENT_ALL=0` is set, as `scripts/test` does without `--all`.
//! A case over recorded data that is not part of the project (`../shared/data`) is ignored wherever the data is absent:
//! each has a counterpart on generated data that always runs.

#![allow(clippy::new_without_default, clippy::len_without_is_empty)] // no interface for others

pub mod bolt_text;
pub mod callgrind_text;
pub mod damage;
pub mod describe;
pub mod elf_writer;
pub mod graphs;
pub mod hostile;
pub mod json;
pub mod lackey_log;
pub mod lld;
pub mod mutate;
pub mod perf_data_writer;
pub mod perf_report_text;
pub mod perf_script_text;
pub mod plugin;
pub mod pprof_writer;
pub mod random_counts;
pub mod reading;
pub mod run_text;
pub mod sample_profile_text;
pub mod temporal_traces;

use libtest_mimic::{Failed, Trial};
use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder for downloaded toolchains; ignored by git, shared between checkouts by `SEDIMENT_CACHE`.
pub fn cache() -> PathBuf {
    std::env::var_os("SEDIMENT_CACHE").map_or_else(|| root().join(".cache"), PathBuf::from)
}

/// Requirement of a case.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// A program on PATH.
    Program(&'static str),
    /// A program on PATH that few distributions bring, such as another version of a reference that is checked anyway: where it
    /// is missing its cases are ignored, also if all that is needed has to be there.
    FurtherReference(&'static str),
    /// A program on PATH, or in the folder `bin` that `scripts/toolchain` makes.
    CachedProgram(&'static str),
    /// A folder made by `scripts/toolchain`: `gnu-ld-2.44` and `lld` hold a linker, for the compiler's `-B`; `gcc-14` compilers.
    LinkerFolder(&'static str),
    /// A module of Python.
    PythonModule(&'static str),
    /// The headers that plugins of this compiler are built with.
    GccPluginHeaders(&'static str),
    /// To be root.
    Root,
    /// A file of the Debian 13 tree that `scripts/toolchain` makes.
    Debian13(&'static str),
    /// A file of the tree of Debian's newest packages, which it makes only if asked.
    DebianSid(&'static str),
    /// A file of `../shared/data`, which is not part of the project.
    SharedData(&'static str),
}

impl Need {
    fn is_required(self) -> bool {
        match self {
            Need::SharedData(_) | Need::FurtherReference(_) | Need::DebianSid(_) => false,
            // What takes long to make.
            Need::Debian13(_)
            | Need::LinkerFolder("gnu-ld-2.44" | "gcc-14")
            | Need::CachedProgram("mdbook") => {
                std::env::var_os("SEDIMENT_ALL").is_none_or(|value| value != "0")
            }
            _ => true,
        }
    }

    fn missing(self) -> Option<String> {
        match self {
            Need::Program(name) | Need::FurtherReference(name) => {
                program(name).is_none().then(|| format!("{name} is not installed"))
            }
            Need::CachedProgram(name) => (program(name).is_none()
                && !cache().join("bin").join(name).is_file())
            .then(|| format!("{name} is missing: run scripts/toolchain {name}")),
            Need::LinkerFolder(name) => {
                linker_folder(name).is_none().then(|| format!("{name} is missing: run scripts/toolchain"))
            }
            Need::PythonModule(name) => {
                let found =
                    std::process::Command::new("python3").args(["-c", &format!("import {name}")]).output();
                (!found.is_ok_and(|found| found.status.success()))
                    .then(|| format!("Python's {name} is not installed"))
            }
            Need::GccPluginHeaders(compiler) => (!has_gcc_plugin_headers(compiler))
                .then(|| format!("the headers of {compiler}'s plugins are not installed")),
            Need::Root => {
                let user = std::process::Command::new("id").arg("-u").output();
                (!user.is_ok_and(|user| user.stdout == b"0\n")).then(|| "this needs root".to_owned())
            }
            Need::Debian13(path) => (!tree(DEBIAN_13).join(path).exists())
                .then(|| format!("the Debian 13 tree has no {path}: run scripts/toolchain debian13")),
            Need::DebianSid(path) => (!tree(DEBIAN_SID).join(path).exists())
                .then(|| format!("the tree of Debian sid has no {path}: run scripts/toolchain debian-sid")),
            Need::SharedData(name) => {
                (!shared_data(name).is_file()).then(|| "not run: data absent".to_owned())
            }
        }
    }
}

pub const DEBIAN_13: &str = "debian13";
pub const DEBIAN_SID: &str = "debian-sid";

/// A tree of Debian that `scripts/toolchain` makes.
pub fn tree(name: &str) -> PathBuf {
    cache().join(name)
}

/// True if plugins for this compiler can be built.
pub fn has_gcc_plugin_headers(compiler: &str) -> bool {
    let asked = std::process::Command::new(compiler).arg("-print-file-name=plugin").output();
    let folder = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    PathBuf::from(folder.trim()).join("include/gcc-plugin.h").is_file()
}

/// The path of a program on PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The folder with this linker, for the compiler's `-B`, or with this compiler.
pub fn linker_folder(name: &str) -> Option<PathBuf> {
    let folder = cache().join("bin").join(name);
    ["ld", "ld.lld", "gcc"].iter().any(|program| folder.join(program).exists()).then_some(folder)
}

/// A file of the recorded data, in the folder that SEDIMENT_TEST_DATA names or beside the project.
pub fn shared_data(name: &str) -> PathBuf {
    let named = std::env::var_os("SEDIMENT_TEST_DATA").map(PathBuf::from);
    named.unwrap_or_else(|| root().join("../shared/data")).join(name)
}

/// True if a missing tool is a failure.
fn all_is_required() -> bool {
    std::env::var_os("SEDIMENT_REQUIRE_ALL").is_some_and(|value| value == "1")
}

/// Says why a test ends early, for lack of a tool or a right; `SEDIMENT_REQUIRE_ALL=1` makes it fail.
pub fn skip(why: &str) {
    assert!(!all_is_required(), "{why}");
    eprintln!("skipped: {why}");
}

/// Says why a test ends early on this processor, kernel or version of a tool, which is no failure anywhere.
pub fn skip_on_this_machine(why: &str) {
    eprintln!("skipped: {why}");
}

thread_local! {
    /// The suite whose cases are being made.
    static SUITE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Makes the cases of a suite: their names begin with its name and `::`.
pub fn suite(name: &'static str, cases: impl FnOnce() -> Vec<Trial>) -> Vec<Trial> {
    SUITE.set(Some(name));
    let cases = cases();
    SUITE.set(None);
    cases
}

/// Name of a case in the suite that is being made.
fn full_name(name: &str) -> String {
    SUITE.get().map_or_else(|| name.to_owned(), |suite| format!("{suite}::{name}"))
}

/// A case that is reported as ignored, with its reason.
pub fn ignored(name: &str, why: &str) -> Trial {
    let name = full_name(name);
    eprintln!("skipped {name}: {why}");
    Trial::test(name, || Ok(())).with_ignored_flag(true)
}

/// A case that takes long, and shows on another compiler or machine what a shorter one shows: it runs with SEDIMENT_LONG=1, as
/// `scripts/prove long-tests` sets it.
pub fn long(name: &str, needs: &[Need], run: impl FnOnce() + Send + 'static) -> Trial {
    match std::env::var_os("SEDIMENT_LONG") {
        Some(_) => case(name, needs, run),
        None => ignored(name, "takes long: scripts/prove long-tests"),
    }
}

/// Appends what a case took to the file that SEDIMENT_TEST_TIMES names: seconds, and seconds of a processor in this process and in
/// those that it waited for. The latter are the case's own with `--test-threads=1` alone.
fn note_time(name: &str, time: Duration, processor: f64) {
    let Some(path) = std::env::var_os("SEDIMENT_TEST_TIMES") else { return };
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    writeln!(file, "{:.1} {processor:.1} {name}", time.as_secs_f64()).unwrap();
}

/// Seconds of a processor that this process and the ended ones it waited for have used: the times of proc_pid_stat(5), in ticks of
/// 10 ms.
fn processor_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = status.rsplit(") ").next().unwrap();
    let ticks: u64 = after_name.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// A case that runs where all it needs is there; for test programs with `harness = false`.
pub fn case(name: &str, needs: &[Need], run: impl FnOnce() + Send + 'static) -> Trial {
    let mut missing: Vec<(bool, String)> =
        needs.iter().filter_map(|need| need.missing().map(|why| (need.is_required(), why))).collect();
    missing.sort();
    match missing.pop() {
        None => {
            let name = full_name(name);
            Trial::test(name.clone(), move || {
                let (begin, processor) = (Instant::now(), processor_seconds());
                run();
                note_time(&name, begin.elapsed(), processor_seconds() - processor);
                Ok(())
            })
        }
        Some((true, why)) if all_is_required() => {
            Trial::test(full_name(name), move || Err(Failed::from(why)))
        }
        Some((_, why)) => ignored(name, &why),
    }
}

/// Reads a recording of whatever kind it is, without further settings.
pub fn read(bytes: &[u8]) -> sediment_core::Result<sediment_read::read::Recording> {
    sediment_read::read::read(&bytes, &sediment_read::read::ReadSettings::default())
}

/// Compares with a golden file under tests/golden; `SEDIMENT_BLESS=1` rewrites it.
pub fn golden(path: &str, actual: &str) {
    let file = root().join("tests/golden").join(path);
    if std::env::var_os("SEDIMENT_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; write it with SEDIMENT_BLESS=1", file.display()));
    assert!(
        expected == actual,
        "{} differs (SEDIMENT_BLESS=1 rewrites it)\n--- expected\n{expected}\n--- actual\n{actual}",
        file.display()
    );
}

/// Compares the schema of a JSON output with docs/json/NAME.schema.json; `SEDIMENT_BLESS=1` rewrites it.
pub fn documented_schema<T: schemars::JsonSchema>(name: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).unwrap();
    golden(&format!("../../docs/json/{name}.schema.json"), &(text + "\n"));
}

/// The folders below tests/golden/STAGE, sorted: one case each.
pub fn golden_cases(stage: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/golden").join(stage);
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.is_dir())
        .collect();
    cases.sort();
    cases
}
