// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that read, resolve and replay logs of the real valgrind with lackey: the calls of a known program are counted
//! exactly, and its functions have the order in which they ran.

use libtest_mimic::Trial;
use sediment_core::binary::Files;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_read::read::{ReadSettings, Step, replay};
use sediment_read::resolve::{self, resolve_with};
use sediment_read::trace::StepCounter;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Need, case, read};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("valgrind"), Need::Program("cc")];
    vec![
        case("lackey_position_independent", &needs, || known_calls(&["-fpie", "-pie"])),
        case("lackey_at_a_fixed_place", &needs, || known_calls(&["-fno-pie", "-no-pie"])),
        case("lackey_static", &needs, || known_calls(&["-static"])),
        case("lackey_library_loaded_late_twice", &needs, loaded_late),
        case("lackey_forked", &needs, forked),
    ]
}

/// leaf runs 1,000 + 10 times, in two threads.
const PROGRAM: &str = "
#include <pthread.h>
__attribute__((noinline, noclone)) int leaf(int x) { __asm__ volatile(\"\"); return x * 3 + 1; }
__attribute__((noinline, noclone)) int caller(int n) { int s = 0; for (int i = 0; i < n; i++) s += leaf(i); return s; }
__attribute__((noinline, noclone)) int last(int n) { __asm__ volatile(\"\"); return n + 1; }
static void *work(void *p) { (void)p; return (void *)(long)caller(10); }
int main(void) {
  int s = caller(1000);
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_join(thread, 0);
  return last(s) == 42;
}
";

/// Reads the files of this machine.
struct Here;

impl Files for Here {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }
}

fn compile(folder: &Path, source: &str, options: &[&str], name: &str) {
    std::fs::write(folder.join("source.c"), source).unwrap();
    let mut command = Command::new("cc");
    command
        .args(["-g", "-O1", "-fno-optimize-sibling-calls", "source.c", "-o", name, "-pthread"])
        .args(options);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the logs of a run, the longest first.
fn record(folder: &Path) -> Vec<PathBuf> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-superblocks=yes", "--vex-guest-chase=no", "--trace-sched=yes"]);
    command.args(["-v", "-v", "--log-file=lackey.%p.out", "./program"]).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.code() == Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut logs: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "out"))
        .collect();
    logs.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    logs.reverse();
    logs
}

fn profile_of(log: &[u8]) -> Profile {
    let recording = read(log).unwrap();
    // Lackey prints the number of entered blocks itself.
    let text = String::from_utf8_lossy(log);
    let entered: String =
        text.lines().filter_map(|line| line.split_once("SBs entered:")).map(|(_, n)| n).collect();
    let digits: String = entered.chars().filter(char::is_ascii_digit).collect();
    assert!(recording.seen.starts_with(&digits), "{}: {digits}", recording.seen);
    let resolved = resolve_with(&recording, &Here, resolve::ResolveSettings::default()).unwrap();
    let mut profile = resolved.profile;
    let mut sequence = StepCounter::new(&resolved.functions);
    assert!(
        replay(&log, &ReadSettings::default(), &recording, &mut |step: Step| sequence.step(step)).unwrap()
    );
    sequence.put_into(&mut profile, true);
    profile
}

fn function(profile: &Profile, dso: &str, name: &str) -> sediment_core::profile::FunctionIndex {
    let key = FunctionKey { dso: Some(dso.to_owned()), name: name.to_owned(), file: None };
    profile.find(&key).unwrap_or_else(|| panic!("{name} of {dso} did not run"))
}

fn edge(profile: &Profile, from: &str, to: &str) -> (Option<u128>, Option<u128>) {
    let ends = (function(profile, "program", from), function(profile, "program", to));
    profile.edge(ends.0, ends.1).map_or((None, None), |facts| (facts.count, facts.affinity))
}

fn known_calls(options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), PROGRAM, options, "program");
    let logs = record(folder.path());
    let profile = profile_of(&std::fs::read(&logs[0]).unwrap());
    assert_eq!(edge(&profile, "caller", "leaf"), (Some(1_010), Some(1_010)));
    assert_eq!(edge(&profile, "leaf", "caller").1, Some(1_010), "caller goes on after each");
    assert_eq!(edge(&profile, "main", "caller").0, Some(1));
    assert_eq!(edge(&profile, "work", "caller").0, Some(1));
    assert_eq!(edge(&profile, "main", "last").0, Some(1));
    let first = |name: &str| profile.facts(function(&profile, "program", name)).first.unwrap();
    let order = ["main", "caller", "leaf", "work", "last"].map(first);
    assert!(order.is_sorted(), "{order:?}");
}

/// A library is loaded, unloaded and loaded again, at an address where another was before.
fn loaded_late() {
    let folder = tempfile::tempdir().unwrap();
    let library = |name: &str| {
        let source = format!("int state = 1; int {name}(int n) {{ state += n; return state; }}");
        compile(folder.path(), &source, &["-shared", "-fPIC"], &format!("{name}.so"));
    };
    library("one");
    library("two");
    let source = "
#include <dlfcn.h>
static void run(const char *file, const char *name, int times) {
  void *library = dlopen(file, RTLD_NOW);
  int (*function)(int) = (int (*)(int))dlsym(library, name);
  for (int i = 0; i < times; i++) function(i);
  dlclose(library);
}
int main(void) {
  for (int i = 0; i < 3; i++) { run(\"./one.so\", \"one\", 5); run(\"./two.so\", \"two\", 7); }
  return 0;
}
";
    compile(folder.path(), source, &["-fno-inline"], "program");
    let logs = record(folder.path());
    let profile = profile_of(&std::fs::read(&logs[0]).unwrap());
    for (dso, name, times) in [("one.so", "one", 15), ("two.so", "two", 21)] {
        let ends = (function(&profile, "program", "run"), function(&profile, dso, name));
        assert_eq!(profile.edge(ends.0, ends.1).and_then(|facts| facts.count), Some(times), "{name}");
    }
}

/// The child's log does not list mappings, and does not need to, because it follows the log of its parent.
fn forked() {
    let folder = tempfile::tempdir().unwrap();
    let source = "
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline, noclone)) int leaf(int x) { __asm__ volatile(\"\"); return x * 3 + 1; }
__attribute__((noinline, noclone)) int in_child(int n) { int s = 0; for (int i = 0; i < n; i++) s += leaf(i); return s; }
int main(void) {
  pid_t child = fork();
  if (child == 0) _exit(in_child(12) == 0);
  waitpid(child, 0, 0);
  return 0;
}
";
    compile(folder.path(), source, &[], "program");
    let logs = record(folder.path());
    assert_eq!(logs.len(), 2);
    let [parent, child] = [&logs[0], &logs[1]].map(|path| std::fs::read(path).unwrap());
    let error = read(&child).unwrap_err();
    assert!(error.hint().unwrap().contains("cat PARENT CHILD"), "{error:?}");
    let both = [parent, child].concat();
    let recording = read(&both).unwrap();
    let resolved = resolve_with(&recording, &Here, resolve::ResolveSettings::default()).unwrap();
    assert_eq!(edge(&resolved.profile, "in_child", "leaf").0, Some(12));
}
