// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are difficult to trace, in the forms that are recorded in different ways: as built, stripped, with a
//! map of blocks, and with lines only.

use super::{
    RecordingFolder, code, compilers::COMPILERS, err, firsts, programs, repeated, repeated_alone, repeats,
    text,
};
use libtest_mimic::Trial;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::Profile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::Need;

/// Form in which a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildForm {
    Whole,
    /// Recorded by addresses.
    Stripped,
    /// Recorded block by block.
    Mapped,
}

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    let strips = [Need::Program("cc"), Need::Program("strip")];
    let row = |name, form: BuildForm, program: &'static str, source: fn() -> String, expected| {
        let needs: &[Need] = match form {
            BuildForm::Whole => &compiler,
            BuildForm::Stripped => &strips,
            BuildForm::Mapped => COMPILERS[0].needs,
        };
        // Programs that start others take longest, and are always run in the form `Whole`.
        let case = if form != BuildForm::Whole && program == "spawns" { repeated_alone } else { repeated };
        case(name, needs, move || same_as_without(form, program, &source(), expected))
    };
    let lines = |name, program: &'static str, source: fn() -> String, expected| {
        repeated(name, &compiler, move || lines_are_the_same(program, &source(), expected))
    };
    use BuildForm::{Mapped, Stripped, Whole};
    use programs::{forks, signals, spawns, threads, traps};
    let [of_work, of_spawns, of_signals] =
        [&["f0", "f59"][..], &["f0", "spawn"], &["f0", "note", "on_signal"]];
    vec![
        row("threads_reach_the_same_breakpoint", Whole, "threads", threads, of_work),
        row("forked_processes_share_no_breakpoints", Whole, "forks", forks, of_work),
        row("spawned_programs_are_followed", Whole, "spawns", spawns, of_spawns),
        row("signals_pass", Whole, "signals", signals, of_signals),
        row("stripped_threads_reach_the_same_breakpoint", Stripped, "threads", threads, of_work),
        row("stripped_processes_share_no_breakpoints", Stripped, "forks", forks, of_work),
        row("stripped_programs_spawn_others", Stripped, "spawns", spawns, of_spawns),
        row("signals_pass_in_stripped_programs", Stripped, "signals", signals, of_signals),
        row("threads_reach_the_same_block", Mapped, "threads", threads, of_work),
        row("forked_processes_share_no_breakpoints_of_blocks", Mapped, "forks", forks, of_work),
        row("programs_with_blocks_spawn_others", Mapped, "spawns", spawns, of_spawns),
        row("signals_pass_between_blocks", Mapped, "signals", signals, of_signals),
        row("programs_keep_their_sigtrap", Whole, "traps", traps, of_work),
        row("programs_with_blocks_keep_their_sigtrap", Mapped, "traps", traps, of_work),
        lines("threads_reach_the_same_line", "threads", threads, &["f0", "f59", "work", "main"]),
        lines("forked_processes_share_no_breakpoints_of_lines", "forks", forks, &["f0", "f59", "main"]),
        lines("signals_pass_between_lines", "signals", signals, &["f0", "note", "on_signal", "main"]),
    ]
}

impl BuildForm {
    /// Options of `record` that record as much as possible.
    pub(crate) fn options(self) -> &'static [&'static str] {
        if self == Self::Mapped { &["--blocks", "always"] } else { &[] }
    }

    pub(crate) fn build(self, shop: &RecordingFolder, name: &str, source: &str) -> BuiltForm {
        let plugin;
        let flags: &[&str] = match self {
            Self::Mapped => {
                plugin = COMPILERS[0].plugin();
                &["-g", &plugin, "-fplugin-arg-sediment-blocks"]
            }
            _ => &["-g", "-Wl,--build-id"],
        };
        let whole = shop.compile(name, source, flags);
        let mut program = whole.clone();
        if self == Self::Stripped {
            let folder = shop.path().join("stripped");
            std::fs::create_dir_all(&folder).unwrap();
            program = folder.join(name);
            let done = Command::new("strip").arg("-o").arg(&program).arg(&whole).status().unwrap();
            assert!(done.success());
        }
        BuiltForm { form: self, whole, program }
    }
}

/// A program, and the file that has its symbols.
pub(crate) struct BuiltForm {
    form: BuildForm,
    whole: PathBuf,
    pub(crate) program: PathBuf,
}

impl BuiltForm {
    /// Checks that functions of the program have run, by a profile.
    pub(crate) fn expect(&self, profile: &Profile, expected: &[&str], when: &str) {
        let name = self.program.file_name().unwrap().to_str().unwrap();
        let found = firsts(profile, name);
        let bytes = std::fs::read(&self.whole).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        for function in expected {
            let known = match self.form {
                BuildForm::Stripped => {
                    let symbol = binary.functions.iter().find(|symbol| symbol.name == *function);
                    format!("{:#x}", symbol.unwrap_or_else(|| panic!("no {function}")).address)
                }
                _ => (*function).to_owned(),
            };
            assert!(
                found.iter().any(|(_, name)| *name == known),
                "{when}: {function} is missing in {found:?}"
            );
        }
        let of_program = profile.functions().into_iter().filter(|function| {
            profile.key(*function).dso.as_deref() == Some(name) && profile.facts(*function).blocks.is_some()
        });
        let with_blocks = of_program.count();
        assert_eq!(
            with_blocks >= expected.len(),
            self.form == BuildForm::Mapped,
            "{when}: {with_blocks} with blocks"
        );
    }
}

/// Runs a program with and without the recorder, which must make no visible difference, and expects its functions in
/// the profile.
fn same_as_without(form: BuildForm, name: &str, source: &str, expected: &[&str]) {
    let shop = RecordingFolder::new();
    let built = form.build(&shop, name, source);
    let program = &built.program;
    let without = alone(&shop, program);
    for repeat in 0..repeats() {
        // A large share, so that many functions are armed repeatedly.
        let seed = repeat.to_string();
        let options = [&["--overhead", "40%", "--seed", &seed], form.options()].concat();
        let recorded = shop.record(&options, &[text(program)]).output().unwrap();
        let when = format!("run {repeat}: {}", err(&recorded));
        same(&recorded, &without, &when);
        built.expect(&shop.profile(), expected, &when);
    }
}

fn alone(shop: &RecordingFolder, program: &Path) -> Output {
    let without = Command::new(program).current_dir(shop.path()).stdin(Stdio::null()).output().unwrap();
    assert!(!without.stdout.is_empty(), "{without:?}");
    without
}

fn same(recorded: &Output, without: &Output, when: &str) {
    assert_eq!(code(recorded), code(without), "{when}");
    let [recorded, without] = [recorded, without].map(|output| String::from_utf8_lossy(&output.stdout));
    assert_eq!(recorded, without, "{when}");
}

/// Runs a program with and without the recorder of executed lines, and expects the same executed lines of each function
/// each time.
fn lines_are_the_same(name: &str, source: &str, expected: &[&str]) {
    let shop = RecordingFolder::new();
    let program = shop.compile(name, source, &["-g"]);
    let without = alone(&shop, &program);
    let mut first = None;
    for repeat in 0..repeats() {
        let seed = repeat.to_string();
        let options = ["--overhead", "40%", "--seed", &seed, "--blocks", "always", "--only", name];
        let options = [&options[..], &["--format", "llvm-sample"]].concat();
        let recorded = shop.record(&options, &[text(&program)]).output().unwrap();
        let when = format!("run {repeat}: {}", err(&recorded));
        same(&recorded, &without, &when);
        let samples = std::fs::read_to_string(shop.path().join("recorded.gv")).unwrap();
        let lines = executed_lines(&samples);
        for function in expected {
            assert!(lines.get(*function).is_some_and(|lines| !lines.is_empty()), "no {function}: {when}");
        }
        let before = first.get_or_insert_with(|| lines.clone());
        assert_eq!(*before, lines, "{when}");
    }
}

/// Positions of the executed lines of each function, from a text for LLVM.
fn executed_lines(samples: &str) -> BTreeMap<String, Vec<String>> {
    let (mut functions, mut name) = (BTreeMap::<String, Vec<String>>::new(), String::new());
    for line in samples.lines() {
        let (position, _) = line.split_once(':').unwrap_or_else(|| panic!("{line}"));
        if line.starts_with(' ') {
            if !line.ends_with(": 0") {
                functions.entry(name.clone()).or_default().push(position.to_owned());
            }
        } else {
            position.clone_into(&mut name);
        }
    }
    functions
}
