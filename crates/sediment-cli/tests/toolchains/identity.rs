// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifies the file of a recording, with real recordings by `perf record`: with and without build-ids, of files that
//! changed, were replaced or belong to another machine; and with real gmon.out of other architectures.

use crate::running::{code, command, err, out};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;
use support::json::{self, Json};
use support::{Need, case};

const NEEDS: &[Need] = &[Need::Program("cc"), Need::Program("perf"), Need::Program("readelf")];

pub(crate) fn cases() -> Vec<Trial> {
    let cases: &[(&str, fn())] = &[
        ("an_unchanged_file_needs_no_build_id", an_unchanged_file_needs_no_build_id),
        ("a_file_built_again_is_doubted", a_file_built_again_is_doubted),
        ("no_names_of_this_machine_for_another", no_names_of_this_machine_for_another),
        ("files_not_asked_for_are_passed_over", files_not_asked_for_are_passed_over),
        ("a_replaced_program_is_found", a_replaced_program_is_found),
        ("printed_names_are_found_in_the_program", printed_names_are_found_in_the_program),
    ];
    let of_perf = cases.iter().map(|(name, run)| case(name, NEEDS, *run));
    let of_gprof = GMON.iter().map(|(target, compiler, emulator)| {
        let needs = [Need::Program(compiler), Need::Program(emulator)];
        case(&format!("gmon_of_{target}"), &needs, || gmon_of(target, compiler, emulator))
    });
    of_perf.chain(of_gprof).collect()
}

/// Cross compilers, and emulators that run their programs.
const GMON: &[(&str, &str, &str)] = &[
    ("aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "qemu-aarch64"),
    ("arm-linux-gnueabihf", "arm-linux-gnueabihf-gcc", "qemu-arm"),
    ("riscv64-linux-gnu", "riscv64-linux-gnu-gcc", "qemu-riscv64"),
    ("s390x-linux-gnu", "s390x-linux-gnu-gcc", "qemu-s390x"),
];

/// The counts are exact, and another program or another build is refused.
fn gmon_of(target: &str, compiler: &str, emulator: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = |calls: &str| {
        format!(
            "volatile long sink;
#define N __attribute__((noinline))
N int leaf(int x) {{ {calls} sink += x; return x + 1; }}
N int middle(int x) {{ int sum = 0; for (int i = 0; i < 7; i++) sum += leaf(x + i); return sum; }}
N int other(int x) {{ return leaf(x) * 3; }}
int main(void) {{
  for (int i = 0; i < 50; i++) sink += middle(i);
  for (int i = 0; i < 13; i++) sink += other(i);
  return 0;
}}
"
        )
    };
    std::fs::write(folder.join("p.c"), program("")).unwrap();
    std::fs::write(folder.join("q.c"), program("sink /= 3; sink ^= 5;")).unwrap();
    run(folder, compiler, &["-O1", "-pg", "-o", "prog", "p.c"]);
    run(folder, compiler, &["-O1", "-pg", "-o", "again", "q.c"]);
    run(folder, compiler, &["-O1", "-o", "plain", "p.c"]);
    run(folder, emulator, &["-L", &format!("/usr/{target}"), "./prog"]);
    imported(folder, "gmon.out", &["--binary", "prog"]);
    let text = std::fs::read_to_string(folder.join("p.gv")).unwrap();
    for (caller, callee, count) in
        [("main", "middle", 50), ("main", "other", 13), ("middle", "leaf", 350), ("other", "leaf", 13)]
    {
        let edge = format!("\"{caller}\" -> \"{callee}\" [");
        let line = text.lines().find(|line| line.trim_start().starts_with(&edge));
        assert!(line.is_some_and(|line| line.contains(&format!("count={count}]"))), "{edge}: {text}");
    }
    for other in ["again", "plain"] {
        let refused = import(folder, "gmon.out", &["--binary", other]);
        assert_eq!(code(&refused), 1, "{other}");
        assert!(err(&refused).contains(&format!("not a recording of {other}")), "{}", err(&refused));
    }
}

fn source(first: &str, second: &str) -> String {
    format!(
        "volatile unsigned long s;
#define N __attribute__((noinline))
{first}
{second}
int main(void) {{ for (int r = 0; r < 40; r++) {{ hot(1000000); cool(1000); }} return 0; }}
"
    )
}

const HOT: &str = "N void hot(unsigned long n) { for (unsigned long i = 0; i < n; i++) s += i * 3; }";
const COOL: &str = "N void cool(unsigned long n) { for (unsigned long i = 0; i < n; i++) s |= i * 9; }";

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn compile(folder: &Path, text: &str, name: &str) {
    std::fs::write(folder.join("p.c"), text).unwrap();
    run(folder, "cc", &["-O1", "-fno-omit-frame-pointer", "-o", name, "p.c"]);
}

fn record(folder: &Path, more: &[&str]) {
    let mut arguments = vec!["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o", "p.data"];
    arguments.extend(more);
    arguments.extend(["--", "./prog"]);
    run(folder, "perf", &arguments);
}

/// Stacks without file names, with function names as printed by tools: cut, with suffixes, or of another build's
/// clones. Each is matched to a symbol of the program, in import and in `order`.
fn printed_names_are_found_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = "volatile int s;
#define N __attribute__((noinline))
N int stop(int n) __asm__(\"_ZN1B4stopEi\");
N int run(int n) __asm__(\"_ZN1B3runEi\");
N int once(int n) __asm__(\"_ZN12_GLOBAL__N_14onceEv\");
int stop(int n) { return s += n; }
int once(int n) { return s ^= n; }
int run(int n) { return stop(n) + once(n); }
int main(void) { return run(3) == 1; }
";
    compile(folder, program, "prog");
    std::fs::write(
        folder.join("p.folded"),
        "prog;main;B::run(int);B::stop(int) 100
prog;main;B::run(int);(anonymous namespace)::once() [clone .isra.0] 50
prog;main+0x1f;B::run(int)+0x4 20
prog;main;B::run;B::stop 5
prog;main;puts@plt+0x6 1
",
    )
    .unwrap();
    imported(folder, "p.folded", &["--binary", "prog"]);
    let found = ["_ZN1B4stopEi", "_ZN12_GLOBAL__N_14onceEv", "_ZN1B3runEi"].map(|name| samples(folder, name));
    assert_eq!(found, [105, 50, 20]);
    imported(folder, "p.folded", &[]);
    let arguments = ["order", "p.gv", "--binary", "prog", "--linker", "lld", "--min-coverage", "95"];
    let done = command(folder, &arguments).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
    for name in ["main", "_ZN1B4stopEi", "_ZN12_GLOBAL__N_14onceEv", "_ZN1B3runEi"] {
        assert!(out(&done).lines().any(|line| line == name), "{name}: {}", out(&done));
    }
}

/// Imports with an empty home, so that perf's own copies are not found.
fn import(folder: &Path, file: &str, more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["import", file, "-o", "p.gv", "--json"];
    arguments.extend(more);
    command(folder, &arguments).env("HOME", folder.join("home")).output().unwrap()
}

fn imported(folder: &Path, file: &str, more: &[&str]) -> Json {
    let done = import(folder, file, more);
    assert_eq!(code(&done), 0, "{}", err(&done));
    json::parse(&out(&done))
}

/// Doubts about the files with a label.
fn doubts(profile: &Json, label: &str) -> Vec<String> {
    let of_label = profile.list("unproven").iter().filter(|file| file.text("dso").as_deref() == Some(label));
    of_label.filter_map(|file| file.text("doubt")).collect()
}

fn skipped(profile: &Json, wanted: &str) -> bool {
    profile.list("skipped").iter().any(|item| item.text("code").as_deref() == Some(wanted))
}

fn samples(folder: &Path, function: &str) -> u64 {
    let text = std::fs::read_to_string(folder.join("p.gv")).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("\"{function}\" [")));
    let number = line
        .and_then(|line| line.split_once("samples="))
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    number.map_or(0, |number| number.parse().unwrap())
}

fn an_unchanged_file_needs_no_build_id() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(folder, &source(HOT, COOL), "prog");
    record(folder, &["-B"]);
    let profile = imported(folder, "p.data", &[]);
    assert_eq!(doubts(&profile, "prog"), Vec::<String>::new());
    assert!(samples(folder, "hot") > 100 * samples(folder, "cool").max(1));
}

fn a_file_built_again_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(folder, &source(HOT, COOL), "prog");
    record(folder, &["-B"]);
    compile(folder, &source(COOL, HOT), "prog");
    let done = import(folder, "p.data", &[]);
    // Its code either matches by chance or does not match at all.
    if code(&done) == 0 {
        assert_eq!(doubts(&json::parse(&out(&done)), "prog"), ["changed"]);
    } else {
        assert_eq!(code(&done), 1, "{}", err(&done));
    }
    // A file that shrank does not have the recorded code.
    std::fs::write(folder.join("p.c"), "int main(void) { return 0; }\n").unwrap();
    run(folder, "cc", &["-O1", "-o", "prog", "p.c"]);
    assert_eq!(code(&import(folder, "p.data", &[])), 1);
}

/// The same recording, as if from a machine with another name.
fn of_another_machine(folder: &Path) {
    let bytes = std::fs::read(folder.join("p.data")).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    std::fs::write(folder.join("other.data"), replaced(bytes, host.trim_end().as_bytes())).unwrap();
}

/// Returns the bytes with each bit of a word flipped, at its position, except bits that would make another control
/// character.
fn replaced(mut bytes: Vec<u8>, word: &[u8]) -> Vec<u8> {
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(word.len()).position(|part| part == word) {
        for byte in &mut bytes[at + found..][..word.len()] {
            *byte ^= 1;
        }
        at += found + word.len();
    }
    bytes
}

fn no_names_of_this_machine_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(folder, &source(HOT, COOL), "prog");
    record(folder, &["-B"]);
    of_another_machine(folder);
    let done = import(folder, "other.data", &[]);
    assert_eq!(code(&done), 1, "{}", out(&done));
    // A file given by the user may belong to another machine.
    let profile = imported(folder, "other.data", &["--binary", "prog"]);
    assert_eq!(doubts(&profile, "prog"), ["no-evidence"]);
    assert!(samples(folder, "hot") > 0);
}

/// The recording, as if it were of other builds of the C library and the dynamic linker.
fn files_not_asked_for_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(folder, &source(HOT, COOL), "prog");
    record(folder, &[]);
    let mut bytes = std::fs::read(folder.join("p.data")).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libraries: std::collections::BTreeSet<&str> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.contains(".so"))
        .collect();
    for library in libraries {
        if let Some(id) = sediment_core::binary::build_id(&std::fs::read(library).unwrap()) {
            let id: Vec<u8> =
                (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
            bytes = replaced(bytes, &id);
        }
    }
    std::fs::write(folder.join("other.data"), bytes).unwrap();
    std::fs::create_dir(folder.join("server")).unwrap();
    std::fs::rename(folder.join("prog"), folder.join("server/prog")).unwrap();
    let profile = imported(folder, "other.data", &["--binary", "server/prog"]);
    assert_eq!(doubts(&profile, "prog"), Vec::<String>::new(), "its build-id is the recorded one");
    assert!(samples(folder, "hot") > 0);
    let others = profile.list("dsos").len();
    assert!(others == 1 || skipped(&profile, "unasked-file"), "the C library is not the recorded one");
}

fn a_replaced_program_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let endless = source(HOT, COOL).replace("r < 40", "1");
    compile(folder, &endless, "prog");
    let mut program = Command::new("./prog").current_dir(folder).spawn().unwrap();
    std::fs::rename(folder.join("prog"), folder.join("kept")).unwrap();
    std::fs::copy(folder.join("kept"), folder.join("copy")).unwrap();
    std::fs::remove_file(folder.join("kept")).unwrap();
    let process = program.id().to_string();
    let recorded = Command::new("perf")
        .args([
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-F",
            "2000",
            "-o",
            "p.data",
            "-p",
            &process,
            "--",
            "sleep",
            "0.4",
        ])
        .current_dir(folder)
        .output();
    let running = import(folder, "p.data", &[]);
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(recorded.unwrap().status.success());
    // perf finds no file from which to read a build-id, or finds it through /proc; with a build-id, the running program
    // is found.
    assert!(matches!(code(&running), 0 | 1), "{}", err(&running));
    std::fs::rename(folder.join("copy"), folder.join("kept")).unwrap();
    let profile = imported(folder, "p.data", &["--binary", "kept"]);
    assert!(samples(folder, "hot") > 0);
    assert!(!profile.list("dsos").is_empty());
}
