// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record` on programs that are difficult to trace: their output and exit codes stay the same, nothing is
//! left in them, and executed functions are in the profile.
//!
//! Tests marked [repeated] in the list run once, or SEDIMENT_REPEATS times.

mod answers;
mod architectures;
mod bursts;
mod call_sites;
#[allow(dead_code)] // a part is for other tests
use crate::compilers;
mod forms;
mod harm;
mod means;
mod packages;
mod programs;
mod refusals;
mod served;
mod starts;
mod stripped;
mod traced;

use crate::running::{code, err};
use forms::BuildForm;
use libtest_mimic::Trial;
use programs::FUNCTIONS;
use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

/// Factor by which this machine is slower than usual ones: SEDIMENT_SLOWER, for emulated processors.
fn slower() -> u64 {
    number_of("SEDIMENT_SLOWER").unwrap_or(1)
}

/// Time after which an expected event counts as missing.
fn patience() -> Duration {
    Duration::from_secs(60 * slower())
}

/// Time of a recording.
fn seconds(usual: f64) -> String {
    (usual * slower() as f64).to_string()
}

/// Number of rounds of a program that is recorded for long.
fn rounds(usual: u64) -> String {
    (usual / slower()).to_string()
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

pub(crate) fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    let strips = [Need::Program("cc"), Need::Program("strip")];
    let cases = vec![
        case("first_uses_stand_in_their_order", &compiler, first_uses_stand_in_their_order),
        repeated("libraries_loaded_late_are_recorded", &compiler, libraries_loaded_late_are_recorded),
        repeated("a_server_is_recorded_under_load", &compiler, || {
            a_server_is_recorded_under_load(BuildForm::Whole)
        }),
        repeated("a_stripped_server_is_recorded_under_load", &strips, || {
            a_server_is_recorded_under_load(BuildForm::Stripped)
        }),
        repeated(
            "a_program_that_runs_on_is_left_as_it_was",
            &compiler,
            a_program_that_runs_on_is_left_as_it_was,
        ),
        case(
            "the_interrupt_key_keeps_what_was_recorded",
            &compiler,
            the_interrupt_key_keeps_what_was_recorded,
        ),
        case(
            "a_compiler_is_recorded_through_its_driver",
            &compiler,
            a_compiler_is_recorded_through_its_driver,
        ),
        case("a_recording_may_end_at_the_first_output", &compiler, a_recording_may_end_at_the_first_output),
        case("static_programs_are_recorded", &compiler, static_programs_are_recorded),
        case("excluded_files_are_not_changed", &compiler, excluded_files_are_not_changed),
        repeated(
            "processes_below_a_process_are_recorded_too",
            &compiler,
            processes_below_a_process_are_recorded_too,
        ),
    ];
    let parts = [
        answers::cases(),
        architectures::cases(),
        bursts::cases(),
        call_sites::cases(),
        starts::cases(),
        forms::cases(),
        harm::cases(),
        means::cases(),
        packages::cases(),
        refusals::cases(),
        stripped::cases(),
        served::cases(),
        traced::cases(),
    ];

    cases.into_iter().chain(parts.into_iter().flatten()).collect()
}

thread_local! {
    /// Two flags of this thread's case: it is a repeated one, and it has read the number of repetitions.
    static REPEATED: Cell<(bool, bool)> = const { Cell::new((false, false)) };
}

/// Repetitions of a [`repeated`] case.
fn repeats() -> usize {
    let (is_repeated, _) = REPEATED.get();
    assert!(is_repeated, "the list of cases does not call this one repeated");
    REPEATED.set((true, true));
    number_of("SEDIMENT_REPEATS").unwrap_or(1) as usize
}

/// A case that runs SEDIMENT_REPEATS times, and is listed as repeated.
fn repeated(name: &str, needs: &[Need], run: impl FnOnce() + Send + 'static) -> Trial {
    let asks = move || {
        REPEATED.set((true, false));
        run();
        let (_, has_asked) = REPEATED.replace((false, false));
        assert!(has_asked, "it ran once");
    };
    case(name, needs, asks).with_kind("repeated")
}

/// A [`repeated`] case that takes long even once: it runs only if repetitions are requested.
fn repeated_alone(name: &str, needs: &[Need], run: impl FnOnce() + Send + 'static) -> Trial {
    match number_of("SEDIMENT_REPEATS") {
        Some(_) => repeated(name, needs, run),
        None => support::ignored(name, "runs with SEDIMENT_REPEATS alone"),
    }
}

struct RecordingFolder(tempfile::TempDir);

impl RecordingFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path().join(format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let program = self.path().join(name);
        let done = Command::new("cc")
            .args(["-O1", "-pthread"])
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(&file)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    }

    fn record(&self, options: &[&str], command: &[&str]) -> Command {
        // Background processes are started with some signals ignored; here these must arrive.
        let mut record = Command::new("env");
        record
            .args(["--default-signal=INT,QUIT,HUP", env!("CARGO_BIN_EXE_sediment"), "record"])
            .args(["-v", "-o", "recorded.gv", "--method", "call-sites"])
            .args(options)
            .current_dir(self.path());
        if !command.is_empty() {
            record.arg("--").args(command);
        }
        record.stdin(Stdio::null());
        record
    }

    fn profile(&self) -> sediment_core::profile::Profile {
        let bytes = std::fs::read(self.path().join("recorded.gv")).unwrap();
        sediment_core::profile::text::parse(&bytes).unwrap().0
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The ranks of first use of the functions of a DSO, by name.
fn firsts(profile: &sediment_core::profile::Profile, dso: &str) -> Vec<(u64, String)> {
    let mut firsts: Vec<(u64, String)> = profile
        .functions()
        .into_iter()
        .filter(|function| profile.key(*function).dso.as_deref() == Some(dso))
        .filter_map(|function| Some((profile.facts(function).first?, profile.key(function).name.clone())))
        .collect();
    firsts.sort();
    firsts
}

/// Calls from one function to another, by name.
fn calls(profile: &sediment_core::profile::Profile, caller: &str, callee: &str) -> u128 {
    let edges = profile.edges();
    let named = |function, name: &str| profile.key(function).name == name;
    let between = edges.iter().filter(|(from, to, _)| named(*from, caller) && named(*to, callee));
    between.map(|(_, _, facts)| facts.count.unwrap_or(0)).sum()
}

/// Functions of the C library's start files, on some architectures.
const RUNTIME: [&str; 5] =
    ["frame_dummy", "register_tm_clones", "deregister_tm_clones", "atexit", "call_weak_fn"];

fn first_uses_stand_in_their_order() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &[]);
    let recorded = shop.record(&["--startup"], &[text(&program)]).output().unwrap();
    assert_eq!(code(&recorded), 7, "{}", err(&recorded));
    let profile = shop.profile();
    let order: Vec<String> = firsts(&profile, "plain").into_iter().map(|(_, name)| name).collect();
    let own: Vec<&str> = order.iter().map(String::as_str).filter(|name| !name.starts_with('_')).collect();
    let functions: Vec<String> = (0..FUNCTIONS).map(|index| format!("f{index}")).collect();
    let mut expected: Vec<&str> = vec!["begin", "main", "work"];
    expected.extend(functions.iter().map(String::as_str));
    expected.push("end");
    let without_runtime: Vec<&str> = own.into_iter().filter(|name| !RUNTIME.contains(name)).collect();
    assert_eq!(without_runtime, expected);
    assert_eq!(calls(&profile, "main", "work"), 1);
    assert_eq!(calls(&profile, "work", "f17"), 1);
    // The dynamic linker ran before the program.
    let rank = |name: &str| {
        let function = profile.functions().into_iter().find(|function| profile.key(*function).name == name);
        profile.facts(function.unwrap_or_else(|| panic!("{name} is missing"))).first.unwrap()
    };
    assert!(rank("setenv") < rank("main"), "called by the constructor");
}

fn libraries_loaded_late_are_recorded() {
    let shop = RecordingFolder::new();
    let library = shop.compile("library.so", &programs::library(), &["-shared", "-fPIC"]);
    let program = shop.compile("loads", &programs::loads(), &["-ldl"]);
    let without = Command::new(&program).arg(&library).output().unwrap();
    assert_eq!(code(&without), 6);
    for repeat in 0..repeats() {
        let recorded =
            shop.record(&["--overhead", "40%"], &[text(&program), text(&library)]).output().unwrap();
        assert_eq!(recorded.stdout, without.stdout, "run {repeat}: {}", err(&recorded));
        assert_eq!(code(&recorded), 6, "run {repeat}: {}", err(&recorded));
        let names: Vec<String> =
            firsts(&shop.profile(), "library.so").into_iter().map(|(_, name)| name).collect();
        for name in ["library_begins", "indirect", "library_call", "library_leaf"] {
            assert!(names.iter().any(|found| found == name), "run {repeat}: {name} is not in {names:?}");
        }
    }
}

/// A program that runs during the test, and is ended with it.
struct Running(Child);

impl Running {
    fn end(mut self, signal: &str) -> Output {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.end_of_pipes()
    }

    fn end_of_pipes(&mut self) -> Output {
        let mut output = Output { status: self.0.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
        if let Some(mut stream) = self.0.stdout.take() {
            std::io::Read::read_to_end(&mut stream, &mut output.stdout).unwrap();
        }
        if let Some(mut stream) = self.0.stderr.take() {
            std::io::Read::read_to_end(&mut stream, &mut output.stderr).unwrap();
        }
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number_in(path: &Path) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(number) = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')) {
            return number.trim().parse().unwrap();
        }
        assert!(started.elapsed() < patience(), "{} was not written", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The code in a process's memory equals its files, to the last byte.
fn assert_untouched(process: i32) {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let mut compared = 0;
    for line in maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let file = std::fs::read(words[5]).unwrap();
        let offset = number(words[2]) as usize;
        let length = ((number(end) - number(start)) as usize).min(file.len() - offset);
        let mut code = vec![0; length];
        memory.read_exact_at(&mut code, number(start)).unwrap();
        let differing = code.iter().zip(&file[offset..]).position(|(there, here)| there != here);
        assert_eq!(differing, None, "{} has changed in memory", words[5]);
        compared += length;
    }
    assert!(compared > 100_000, "only {compared} bytes of code");
}

fn a_server_is_recorded_under_load(form: BuildForm) {
    /// An ended process: no process has such a large id.
    const ENDED: &str = "4194304";
    let shop = RecordingFolder::new();
    let server = form.build(&shop, "server", &programs::server());
    let program = &server.program;
    let place = shop.path().join("server.pid");
    for repeat in 0..repeats() {
        let _ = std::fs::remove_file(&place);
        let running = Running(Command::new(program).arg(&place).stdout(Stdio::piped()).spawn().unwrap());
        let process = number_in(&place);
        let id = process.to_string();
        let processes = ["--pid", &id, "--pid", ENDED];
        let seconds = seconds(0.3);
        let how = ["--seconds", &seconds, "--overhead", "40%"];
        let recorded = shop.record(&[&processes[..], &how].concat(), &[]).output().unwrap();
        assert_eq!(code(&recorded), 0, "run {repeat}: {}", err(&recorded));
        assert_untouched(process);
        // It continues to serve.
        std::thread::sleep(Duration::from_millis(20));
        let ended = running.end("-TERM");
        assert_eq!((code(&ended), ended.stdout.as_slice()), (8, &b"served\n"[..]), "run {repeat}");
        let found = firsts(&shop.profile(), "server");
        assert!(found.len() > FUNCTIONS, "run {repeat}: {} functions of the server", found.len());
        server.expect(&shop.profile(), &["f0", "f59", "work"], &format!("run {repeat}"));
    }
}

/// A server whose work is done by running processes, and by some that it starts during the recording.
fn processes_below_a_process_are_recorded_too() {
    let shop = RecordingFolder::new();
    let program = shop.compile("postmaster", &programs::postmaster(), &[]);
    let place = shop.path().join("postmaster.pid");
    for repeat in 0..repeats() {
        let _ = std::fs::remove_file(&place);
        let server = Running(Command::new(&program).arg(&place).stdout(Stdio::piped()).spawn().unwrap());
        let process = number_in(&place);
        let below: Vec<i32> = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))
            .unwrap()
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        // After these two there may be one that ends soon.
        let below = &below[..2];
        let id = process.to_string();
        let seconds = seconds(1.0);
        let recorded =
            shop.record(&["--pid", &id, "--seconds", &seconds, "--overhead", "40%"], &[]).output().unwrap();
        assert_eq!(code(&recorded), 0, "run {repeat}: {}", err(&recorded));
        for process in below.iter().copied().chain([process]) {
            assert_untouched(process);
        }
        let ended = server.end("-TERM");
        assert_eq!((code(&ended), ended.stdout.as_slice()), (8, &b"served\n"[..]), "run {repeat}");
        let found = firsts(&shop.profile(), "postmaster");
        for function in ["f0", "f59", "request", "shortly"] {
            assert!(found.iter().any(|(_, name)| name == function), "run {repeat}: {function} is missing");
        }
    }
}

fn a_program_that_runs_on_is_left_as_it_was() {
    let shop = RecordingFolder::new();
    let program = shop.compile("server", &programs::server(), &[]);
    let place = shop.path().join("server.pid");
    for repeat in 0..repeats() {
        for (end, how) in [
            ("0.2", &["--overhead", "40%"][..]),
            ("interrupt", &["--overhead", "40%"]),
            ("interrupt", &["--startup"]),
        ] {
            let _ = std::fs::remove_file(&place);
            let _ = std::fs::remove_file(shop.path().join("recorded.gv"));
            let seconds: &[&str] = if end == "interrupt" { &[] } else { &["--seconds", end] };
            let options = [how, seconds].concat();
            let mut record = shop.record(&options, &[text(&program), text(&place)]);
            let recorder = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let process = number_in(&place);
            std::thread::sleep(Duration::from_millis(100));
            let recorder = Running(recorder);
            if end == "interrupt" {
                let id = recorder.0.id().to_string();
                assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            }
            let started = Instant::now();
            while traced(process) {
                assert!(started.elapsed() < patience(), "run {repeat}: still traced");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_untouched(process);
            assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
            let ended = wait(recorder);
            assert_eq!(
                (code(&ended), ended.stdout.as_slice()),
                (8, &b"served\n"[..]),
                "run {repeat}: {}",
                err(&ended)
            );
            // On a busy machine little may have run in so short a time; the server had begun to serve when it was
            // interrupted.
            let least = if end == "interrupt" { FUNCTIONS + 1 } else { 0 };
            assert!(firsts(&shop.profile(), "server").len() >= least, "run {repeat}");
        }
    }
}

fn wait(mut running: Running) -> Output {
    let started = Instant::now();
    while running.0.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < patience(), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.end_of_pipes()
}

fn traced(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    !status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|by| by.trim() == "0"))
}

/// The key also reaches the program, because both are in the same group; here it ends the program.
fn the_interrupt_key_keeps_what_was_recorded() {
    let shop = RecordingFolder::new();
    let program = shop.compile("server", &programs::server(), &[]);
    let place = shop.path().join("server.pid");
    let mut record = shop.record(&[], &[text(&program), text(&place)]);
    let recorder = Running(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let process = number_in(&place);
    for id in [recorder.0.id().to_string(), process.to_string()] {
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }
    let ended = wait(recorder);
    assert_eq!(code(&ended), 130, "{}", err(&ended));
    assert!(firsts(&shop.profile(), "server").len() > FUNCTIONS);
}

fn a_compiler_is_recorded_through_its_driver() {
    let shop = RecordingFolder::new();
    std::fs::write(shop.path().join("input.c"), programs::plain()).unwrap();
    let compile = ["cc", "-O2", "-c", "input.c", "-o"];
    let without =
        Command::new("cc").args(&compile[1..]).arg("without.o").current_dir(shop.path()).status().unwrap();
    assert!(without.success());
    let mut command = compile.to_vec();
    command.push("recorded.o");
    let recorded = shop.record(&[], &command).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    let object = |name: &str| std::fs::read(shop.path().join(name)).unwrap();
    assert!(object("without.o") == object("recorded.o"), "the object files differ");
    let clusters: Vec<String> = shop.profile().dsos().keys().cloned().collect();
    let compiler = |name: &String| name == "cc1" || name.starts_with("clang");
    assert!(clusters.iter().any(compiler), "the compiler is not in {clusters:?}");
    assert!(
        clusters.iter().any(|name| name == "as" || name.ends_with("-as") || name.starts_with("clang")),
        "{clusters:?}"
    );
}

fn a_recording_may_end_at_the_first_output() {
    let source = "#include <stdio.h>\n\
        __attribute__((noinline)) void before(void) { __asm__ volatile(\"\"); }\n\
        __attribute__((noinline)) void after(void) { __asm__ volatile(\"\"); }\n\
        int main(void) { before(); puts(\"ready\"); fflush(stdout); after(); puts(\"done\"); return 0; }\n";
    let shop = RecordingFolder::new();
    let program = shop.compile("ready", source, &[]);
    let recorded = shop.record(&["--startup", "--until", "OUTPUT"], &[text(&program)]).output().unwrap();
    assert_eq!(recorded.stdout, b"ready\ndone\n", "{}", err(&recorded));
    let names: Vec<String> = firsts(&shop.profile(), "ready").into_iter().map(|(_, name)| name).collect();
    assert!(names.iter().any(|name| name == "before"), "{names:?}");
    assert!(!names.iter().any(|name| name == "after"), "{names:?}");
}

fn static_programs_are_recorded() {
    for (name, flags) in [("static", &["-static"][..]), ("static-pie", &["-static-pie", "-fPIE"])] {
        let shop = RecordingFolder::new();
        let program = shop.compile(name, &programs::plain(), flags);
        let recorded = shop.record(&[], &[text(&program)]).output().unwrap();
        assert_eq!(code(&recorded), 7, "{name}: {}", err(&recorded));
        let found = firsts(&shop.profile(), name);
        assert!(found.iter().any(|(_, function)| function == "f59"), "{name}: {found:?}");
    }
}

fn excluded_files_are_not_changed() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
        __attribute__((noinline)) int called(void) { __asm__ volatile(\"\"); return 2; }\n\
        __attribute__((noinline)) int checked(void) { return called() + 1; }\n\
        int main(int count, char **words) { volatile unsigned char *code = (unsigned char *)checked; unsigned sum = 0;\n\
            for (int i = 0; i < 12; i++) sum = sum * 31 + code[i];\n\
            printf(\"%u\\n\", sum + checked()); fflush(stdout);\n\
            if (count > 2 && sum + 3 != strtoul(words[1], 0, 10)) { if (*words[2] == 'a') abort(); return 9; }\n\
            return 0; }\n";
    let shop = RecordingFolder::new();
    let program = shop.compile("checksum", source, &[]);
    let without = Command::new(&program).output().unwrap();
    let recorded = shop.record(&["--exclude", "checksum"], &[text(&program)]).output().unwrap();
    assert_eq!(recorded.stdout, without.stdout, "{}", err(&recorded));
    let recorded = shop.record(&["--startup"], &[text(&program)]).output().unwrap();
    assert_ne!(recorded.stdout, without.stdout, "the change shows where the program looks at its own code");
    // If the program aborts, the user gets a hint; if it exits, it may have its own reasons.
    let expected = String::from_utf8(without.stdout).unwrap();
    let refuses = |how: &str| {
        let program = [text(&program), expected.trim(), how];
        shop.record(&["--startup"], &program).output().unwrap()
    };
    let [aborted, exited] = ["abort", "exit"].map(refuses);
    assert_eq!((code(&aborted), code(&exited)), (134, 9), "{}", err(&aborted));
    assert!(err(&aborted).contains("--exclude"), "{}", err(&aborted));
    assert!(!err(&exited).contains("--exclude"), "{}", err(&exited));
}
