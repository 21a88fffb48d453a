// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with real programs compiled with `-pg`, and with the real uftrace: the known calls of these programs are
//! counted exactly, and a gmon.out is refused with any program but its own.

use libtest_mimic::Trial;
use sediment_core::binary::Files;
use sediment_core::profile::Profile;
use sediment_read::read::{self, ReadSettings, Recording, Step};
use sediment_read::resolve::resolve_with;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let gcc = [Need::Program("gcc")];
    let uftrace = [Need::Program("gcc"), Need::Program("uftrace")];
    let mut cases = Vec::new();
    for (name, options) in [
        ("pie", &["-pie", "-fPIE"][..]),
        ("no_pie", &["-no-pie", "-fno-pie"]),
        ("fentry", &["-mfentry"]),
        ("unoptimised", &["-O0"]),
    ] {
        cases.push(case(&format!("instrumented::gmon_{name}"), &gcc, move || gmon(options)));
    }
    cases.push(case("instrumented::gmon_of_another_program", &gcc, another_program));
    cases.push(case("instrumented::gprof_text", &[Need::Program("gprof"), gcc[0]], gprof_text));
    for options in [&["-pg"][..], &["-finstrument-functions"], &["-pg", "-mfentry"]] {
        let name = options.concat().replace('-', "_");
        cases.push(case(&format!("instrumented::uftrace{name}"), &uftrace, move || uftrace_forms(options)));
    }
    cases
}

const PROGRAM: &str = r#"
__attribute__((noinline, noclone)) static int leaf(int x) { __asm__ volatile(""); return x * 3 + 1; }
__attribute__((noinline, noclone)) int recurse(int n) { __asm__ volatile(""); return n <= 0 ? 0 : 1 + recurse(n - 1); }
int odd(int n);
__attribute__((noinline, noclone)) int even(int n) { __asm__ volatile(""); return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline, noclone)) int odd(int n) { __asm__ volatile(""); return n == 0 ? 0 : even(n - 1); }
__attribute__((noinline, noclone)) int caller(int n) { int s = 0; for (int i = 0; i < n; i++) s += leaf(i); return s; }
__attribute__((noinline, noclone)) long work(long n) { long s = 0; for (long i = 0; i < n; i++) { s += i * s ^ n; __asm__ volatile("" : : "r"(s)); } return s; }
int main(int c, char **v) { return 42 == caller(1000) + recurse(20) + even(10) + odd(7) + work(c > 1 ? 60000000 : 3); }
"#;

const CALLS: [(&str, &str, u128); 9] = [
    ("caller", "leaf", 1000),
    ("even", "odd", 8),
    ("main", "caller", 1),
    ("main", "even", 1),
    ("main", "odd", 1),
    ("main", "recurse", 1),
    ("main", "work", 1),
    ("odd", "even", 9),
    ("recurse", "recurse", 20),
];

const TRACED: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline, noclone)) static int leaf(int x) { __asm__ volatile(""); return x * 3 + 1; }
__attribute__((noinline, noclone)) int recurse(int n) { __asm__ volatile(""); return n <= 0 ? 0 : 1 + recurse(n - 1); }
__attribute__((noinline, noclone)) int caller(int n) { int s = 0; for (int i = 0; i < n; i++) s += leaf(i); return s; }
__attribute__((noinline, noclone)) static void *work(void *p) { (void)p; return (void *)(long)caller(2); }
int main(void) {
  int s = caller(3) + recurse(2);
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_join(thread, 0);
  char *copy = strdup("text");
  free(copy);
  return s == 42;
}
"#;

fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn compile(compiler: &str, source: &str, folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let file = folder.join(format!("{name}.{}", if compiler == "g++" { "cc" } else { "c" }));
    std::fs::write(&file, source).unwrap();
    let program = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-fno-optimize-sibling-calls", "-pthread"]).args(options);
    successful(command.arg(&file).arg("-o").arg(&program));
    program
}

fn run(program: &Path, arguments: &[&str]) {
    // The exit status does not matter.
    Command::new(program).args(arguments).current_dir(program.parent().unwrap()).output().unwrap();
}

struct InstrumentedPrograms(Vec<PathBuf>);

impl Files for InstrumentedPrograms {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        self.0.iter().find(|program| program.ends_with(path)).map(|program| std::fs::read(program).unwrap())
    }
}

fn settings(program: &Path) -> ReadSettings {
    ReadSettings { program: Some(program.to_str().unwrap().to_owned()), ..ReadSettings::default() }
}

fn read_of(bytes: &[u8], program: &Path) -> Recording {
    read::read(&bytes, &settings(program)).unwrap_or_else(|error| panic!("{error}"))
}

fn profile_of(recording: &Recording, program: &Path) -> sediment_core::Result<Profile> {
    let files = InstrumentedPrograms(vec![program.to_path_buf()]);
    resolve_with(recording, &files, sediment_read::resolve::ResolveSettings::default())
        .map(|resolved| resolved.profile)
}

/// Returns the counted calls between functions of the program.
fn calls(profile: &Profile) -> BTreeMap<(String, String), u128> {
    let in_program = |index| {
        let key = profile.key(index);
        matches!(key.dso.as_deref(), Some("program" | "traced")).then(|| key.name.clone())
    };
    let edges = profile.edges().into_iter();
    edges.filter_map(|(a, b, facts)| Some(((in_program(a)?, in_program(b)?), facts.count?))).collect()
}

fn expected(list: &[(&str, &str, u128)]) -> BTreeMap<(String, String), u128> {
    list.iter().map(|(a, b, count)| (((*a).to_owned(), (*b).to_owned()), *count)).collect()
}

fn samples(profile: &Profile) -> BTreeMap<String, u128> {
    let all = profile.functions().into_iter();
    all.filter_map(|f| Some((profile.key(f).name.clone(), profile.facts(f).samples?))).collect()
}

fn gmon(options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", PROGRAM, folder.path(), "program", &[&["-pg"], options].concat());
    run(&program, &["long"]);
    let recording = read_of(&std::fs::read(folder.path().join("gmon.out")).unwrap(), &program);
    let profile = profile_of(&recording, &program).unwrap();
    assert_eq!(calls(&profile), expected(&CALLS), "{options:?}");
    let samples = samples(&profile);
    let hottest = samples.iter().max_by_key(|(_, cost)| **cost).unwrap();
    assert_eq!(hottest.0, "work", "{samples:?}");
    assert!(profile.functions().into_iter().all(|f| profile.facts(f).size.is_some_and(|size| size > 0)));
}

fn another_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", PROGRAM, folder.path(), "program", &["-pg"]);
    run(&program, &[]);
    let file = std::fs::read(folder.path().join("gmon.out")).unwrap();
    let rebuilt = PROGRAM.replace("x * 3 + 1", "x * 3 + x / 7 + 1");
    for (name, source, options) in
        [("other", TRACED, &["-pg"][..]), ("rebuilt", &rebuilt, &["-pg"]), ("without", PROGRAM, &["-O2"])]
    {
        let other = compile("gcc", source, folder.path(), name, options);
        let error = profile_of(&read_of(&file, &other), &other).unwrap_err();
        assert_eq!(error.code(), sediment_core::ErrorCode::WrongBinary, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.hint().unwrap().contains("--binary"), "{error}");
    }
}

fn gprof_text() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", PROGRAM, folder.path(), "program", &["-pg", "-g"]);
    run(&program, &["long"]);
    for options in [&[][..], &["-b"], &["-b", "-q"], &["-b", "-p"], &["-T"], &["-b", "-l"]] {
        let mut gprof = Command::new("gprof");
        gprof.args(options).arg(&program).current_dir(folder.path()).env("LC_ALL", "C");
        let error = read::read(&successful(&mut gprof).stdout, &settings(&program)).unwrap_err();
        assert!(error.hint().unwrap().contains("gmon.out"), "{options:?}: {error:?}");
    }
}

fn uftrace_forms(options: &[&str]) {
    const CALLS: [(&str, &str, u128); 5] = [
        ("caller", "leaf", 5),
        ("main", "caller", 1),
        ("main", "recurse", 1),
        ("recurse", "recurse", 2),
        ("work", "caller", 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", TRACED, folder.path(), "traced", options);
    let mut record = Command::new("uftrace");
    // uftrace exits with the program's status.
    record.args(["record", "-d", "data"]).arg(&program).current_dir(folder.path());
    successful(&mut record);
    let mut command = Command::new("uftrace");
    command.args(["dump", "--demangle=no", "-d", "data"]).current_dir(folder.path());
    let text = successful(&mut command).stdout;
    let recording = read_of(&text, &program);
    let profile = profile_of(&recording, &program).unwrap();
    assert_eq!(calls(&profile), expected(&CALLS));
    let imported = profile.functions().into_iter().map(|f| profile.key(f)).find(|key| key.name == "strdup");
    assert!(imported.is_some_and(|key| key.dso.as_deref() != Some("traced")), "{imported:?}");
    let mut order = Vec::new();
    read::replay(&text.as_slice(), &settings(&program), &recording, &mut |step: Step| {
        if let Step::Run { thread, place } = step {
            order.push((thread, recording.addresses()[place.0 as usize].spot.clone()));
        }
    })
    .unwrap();
    let names: Vec<String> = order
        .iter()
        .map(|(_, spot)| match spot {
            read::Spot::Symbol { name, .. } => String::from_utf8(name.clone()).unwrap(),
            _ => panic!("uftrace prints names"),
        })
        .collect();
    let begun = names.iter().position(|name| name == "main").unwrap();
    assert_eq!(&names[begun..begun + 5], ["main", "caller", "leaf", "caller", "leaf"]);
    let mut threads: Vec<u64> = order.iter().map(|(thread, _)| *thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 2);
    for form in [
        &["report"][..],
        &["graph"],
        &["replay"],
        &["replay", "-f", "none"],
        &["dump", "--chrome"],
        &["dump", "--graphviz"],
    ] {
        let mut command = Command::new("uftrace");
        let text = successful(command.args(form).args(["-d", "data"]).current_dir(folder.path())).stdout;
        let error = read::read(&text, &settings(&program)).unwrap_err();
        assert!(error.to_string().contains(form[0]), "{error}");
        assert!(error.hint().unwrap().contains("uftrace dump --demangle=no"), "{error:?}");
    }
}
