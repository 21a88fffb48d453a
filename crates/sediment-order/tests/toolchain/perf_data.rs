// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with the real `perf record` and software events, which every machine has: a recording is read as perf prints
//! it.

use libtest_mimic::Trial;
use sediment_read::read::{ReadSettings, Recording, Spot, read};
use sediment_read::resolve::resolve;
use std::path::Path;
use std::process::Command;
use support::{self, Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("perf"), Need::Program("cc")];
    vec![
        case("perf_data::call_chains_of_real_perf_name_the_callers", &needs, call_chains),
        case("perf_data::compressed_and_piped_recordings_are_read", &needs, compressed_and_piped),
        case("perf_data::copies_of_the_stack_are_left_to_perf", &needs, stack_copies),
    ]
}

/// gcc keeps no frame in a leaf function unless it asks for its address; without a frame its caller would be missing.
const PROGRAM: &str = r#"
void *volatile frame;
__attribute__((noinline)) unsigned spin(unsigned x) { frame = __builtin_frame_address(0); for (unsigned i = 0; i < 40000000; i++) x = x * 33 + i; return x; }
__attribute__((noinline)) unsigned middle(unsigned x) { return spin(x) + 1; }
__attribute__((noinline)) unsigned outer(unsigned x) { return middle(x) + spin(x + 1) + 2; }
int main(int argc, char **argv) { unsigned x = argc; for (int i = 0; i < 5; i++) x += outer(x); return x == 12345; }
"#;

/// Compiles and records the program; returns the recording's bytes, or None if this machine forbids recording.
fn record(folder: &Path, options: &[&str], to_pipe: bool) -> Option<Vec<u8>> {
    let source = folder.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = folder.join("program");
    let flags =
        ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1", "-o"];
    assert!(Command::new("cc").args(flags).arg(&program).arg(&source).status().unwrap().success());
    let file = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.arg("record")
        .args(options)
        .arg("-o")
        .arg(if to_pipe { Path::new("-") } else { &file })
        .arg("--")
        .arg(&program);
    let output = perf.current_dir(folder).output().unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        let allowed = ["Permission", "perf_event_paranoid", "not supported", "Operation not permitted"];
        assert!(allowed.iter().any(|word| why.contains(word)), "{why}");
        support::skip(&format!("perf may not record here: {why}"));
        return None;
    }
    Some(if to_pipe { output.stdout } else { std::fs::read(file).unwrap() })
}

struct ThisMachine;

impl sediment_core::binary::Files for ThisMachine {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        path.starts_with('/').then(|| std::fs::read(path).ok()).flatten()
    }
}

/// Returns the calls of the profile by name, and the names that have own cost.
fn calls(recording: &Recording) -> (Vec<String>, Vec<String>) {
    let (profile, _) = resolve(recording, &ThisMachine).unwrap();
    let name = |function| profile.key(function).name.clone();
    let calls = profile.edges().into_iter().filter(|(.., facts)| facts.count.is_some());
    let mut calls: Vec<String> = calls.map(|(from, to, _)| format!("{} {}", name(from), name(to))).collect();
    calls.sort();
    let functions = profile.functions().into_iter();
    let own = functions.filter(|function| profile.facts(*function).samples.is_some()).map(name).collect();
    (calls, own)
}

fn expect_callers(bytes: &[u8]) {
    let recording = read(&bytes, &ReadSettings::default()).unwrap();
    assert_eq!(
        recording.source.to_string(),
        "perf call stacks (cpu-clock:u) without call counts or time order",
        "{}",
        recording.seen
    );
    let (calls, own) = calls(&recording);
    for call in ["main outer", "outer middle", "outer spin", "middle spin"] {
        assert!(calls.iter().any(|found| found == call), "{call} is not in {calls:?}");
    }
    assert!(own.contains(&"spin".to_owned()), "{own:?}");
    let program = recording.dsos().iter().find(|dso| dso.path.ends_with("/program")).unwrap();
    let offsets = recording.addresses().iter().all(|place| matches!(place.spot, Spot::FileOffset(_)));
    assert!(offsets && !program.path.is_empty());
}

fn call_chains() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-e", "cpu-clock:u,page-faults:u", "-F", "999", "--call-graph", "fp"];
    let Some(bytes) = record(folder.path(), &options, false) else { return };
    expect_callers(&bytes);
    // With registers, as for unwinding, but with chains that need no unwinding.
    let with_registers = ["-e", "cpu-clock:u", "-F", "999", "--call-graph", "fp", "--user-regs=sp"];
    let Some(bytes) = record(folder.path(), &with_registers, false) else { return };
    expect_callers(&bytes);
    let addresses = ["-e", "cpu-clock:u", "-F", "999"];
    let Some(bytes) = record(folder.path(), &addresses, false) else { return };
    let recording = read(&bytes, &ReadSettings::default()).unwrap();
    let (calls, own) = calls(&recording);
    assert!(calls.is_empty() && own.contains(&"spin".to_owned()), "{calls:?} {own:?}");
    assert!(recording.source.to_string().starts_with("perf samples (cpu-clock:u) without callers"));
}

fn compressed_and_piped() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-e", "cpu-clock:u", "-F", "999", "--call-graph", "fp"];
    let compressed = [&options[..], &["-z"]].concat();
    if let Some(bytes) = record(folder.path(), &compressed, false) {
        expect_callers(&bytes);
    }
    if let Some(bytes) = record(folder.path(), &options, true) {
        assert!(bytes.starts_with(b"PERFILE2\x10"));
        expect_callers(&bytes);
    }
}

fn stack_copies() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-e", "cpu-clock:u", "-F", "199", "--call-graph", "dwarf,1024"];
    let Some(bytes) = record(folder.path(), &options, false) else { return };
    let error = support::read(&bytes).unwrap_err();
    assert!(error.hint().unwrap().contains("perf script"), "{error:?}");
}
