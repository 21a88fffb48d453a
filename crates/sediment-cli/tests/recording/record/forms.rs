// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are difficult to trace, as built and stripped.

use super::{RecordingFolder, code, err, firsts, programs, repeated, repeated_alone, repeats, text};
use libtest_mimic::Trial;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::Profile;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::Need;

/// Form in which a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildForm {
    Whole,
    /// Recorded by addresses.
    Stripped,
}

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    let strips = [Need::Program("cc"), Need::Program("strip")];
    let row = |name, form: BuildForm, program: &'static str, source: fn() -> String, expected| {
        let needs: &[Need] = match form {
            BuildForm::Whole => &compiler,
            BuildForm::Stripped => &strips,
        };
        // Programs that start others take longest, and are always run in the form `Whole`.
        let case = if form != BuildForm::Whole && program == "spawns" { repeated_alone } else { repeated };
        case(name, needs, move || same_as_without(form, program, &source(), expected))
    };
    use BuildForm::{Stripped, Whole};
    use programs::{forks, signals, spawns, threads, traps};
    let [of_work, of_spawns, of_signals] =
        [&["f0", "f59"][..], &["f0", "spawn"], &["f0", "note", "on_signal"]];
    vec![
        row("threads_call_the_same_functions", Whole, "threads", threads, of_work),
        row("forked_processes_are_counted", Whole, "forks", forks, of_work),
        row("spawned_programs_are_followed", Whole, "spawns", spawns, of_spawns),
        row("signals_pass", Whole, "signals", signals, of_signals),
        row("stripped_threads_call_the_same_functions", Stripped, "threads", threads, of_work),
        row("stripped_processes_are_counted", Stripped, "forks", forks, of_work),
        row("stripped_programs_spawn_others", Stripped, "spawns", spawns, of_spawns),
        row("signals_pass_in_stripped_programs", Stripped, "signals", signals, of_signals),
        row("programs_keep_their_sigtrap", Whole, "traps", traps, of_work),
    ]
}

impl BuildForm {
    pub(crate) fn build(self, shop: &RecordingFolder, name: &str, source: &str) -> BuiltForm {
        let whole = shop.compile(name, source, &["-g", "-Wl,--build-id"]);
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
        // Bursts of a large share, so that code changes often.
        let recorded = shop.record(&["--overhead", "40%"], &[text(program)]).output().unwrap();
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
