// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that read the output of the real valgrind and perf: the calls of a known program are counted exactly.

use libtest_mimic::Trial;
use sediment_read::read::{Recording, Spot};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case, read};

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases = Vec::new();
    let modes: [(&str, &[&str]); 9] = [
        ("as_it_comes", &[]),
        ("instructions", &["--dump-instr=yes"]),
        ("instructions_alone_and_jumps", &["--dump-instr=yes", "--dump-line=no", "--collect-jumps=yes"]),
        ("instructions_and_jumps", &["--dump-instr=yes", "--collect-jumps=yes"]),
        ("separate_threads", &["--separate-threads=yes"]),
        ("separate_recursions_and_callers", &["--separate-recs=3", "--separate-callers=2"]),
        ("uncompressed", &["--compress-strings=no", "--compress-pos=no"]),
        ("combined_dumps", &["--combine-dumps=yes", "--dump-every-bb=20000", "--separate-threads=yes"]),
        ("dumps_beside_each_other", &["--dump-every-bb=20000", "--cache-sim=yes"]),
    ];
    let needs = [Need::Program("valgrind"), Need::Program("cc")];
    for (name, options) in modes {
        cases.push(case(&format!("callgrind_{name}"), &needs, move || known_calls(options)));
    }
    cases.push(case(
        "callgrind_of_a_stripped_program",
        &[needs[0], needs[1], Need::Program("strip")],
        stripped,
    ));
    let needs = [Need::Program("perf"), Need::Program("cc"), Need::Program("nm"), Need::Program("readelf")];
    cases.push(case("perf_report_in_every_column_set", &needs, perf_report_columns));
    cases.push(case("perf_report_without_branches", &needs, perf_report_without_branches));
    cases
}

/// Compiles the program in a folder for one case.
fn compile(source: &str, options: &[&str], name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.c"), source).unwrap();
    let mut command = Command::new("cc");
    command.args(options).args(["-g", "-O1", "program.c", "-o", name, "-pthread"]);
    successful(command.current_dir(folder.path()));
    folder
}

fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Number of runs of each function: leaf 1,000 + 10, recurse 1 + 20.
const PROGRAM: &str = "
#include <pthread.h>
__attribute__((noinline, noclone)) static int leaf(int x) { __asm__ volatile(\"\"); return x * 3 + 1; }
__attribute__((noinline, noclone)) int recurse(int n) { __asm__ volatile(\"\"); return n <= 0 ? 0 : 1 + recurse(n - 1); }
__attribute__((noinline, noclone)) int caller(int n) { int s = 0; for (int i = 0; i < n; i++) s += leaf(i); return s; }
static void *work(void *p) { (void)p; return (void *)(long)caller(10); }
int main(void) {
  int s = caller(1000) + recurse(20);
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_join(thread, 0);
  return s == 42;
}
";

/// Weights of calls by caller and callee, and own cost by name, within one program.
#[derive(Debug, Default)]
struct ProgramWeights {
    calls: BTreeMap<(String, String), u128>,
    costs: BTreeMap<String, u128>,
    total: u128,
    objects: Vec<String>,
}

impl ProgramWeights {
    fn add(&mut self, recording: &Recording) {
        let name = |id: sediment_read::read::AddressId| match &recording.addresses()[id.0 as usize].spot {
            Spot::Symbol { name, .. } => String::from_utf8(name.clone()).unwrap(),
            Spot::FileOffset(_) | Spot::Address(_) => panic!("text has no file offsets"),
        };
        for (from, to, _, count) in recording.transfers() {
            *self.calls.entry((name(from), name(to))).or_default() += count;
        }
        for (place, cost) in recording.samples() {
            *self.costs.entry(name(place)).or_default() += cost;
        }
        self.total += recording.total;
        self.objects.extend(recording.dsos().iter().map(|dso| dso.path.clone()));
    }

    fn calls(&self, from: &str, to: &str) -> u128 {
        self.calls.get(&(from.to_owned(), to.to_owned())).copied().unwrap_or(0)
    }
}

/// Reads everything that callgrind leaves in a folder; if it wrote parts, one of the files is empty.
fn profile(folder: &Path, program: &str, options: &[&str]) -> ProgramWeights {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--demangle=no", "--callgrind-out-file=profile"]).args(options);
    let output = command.arg(format!("./{program}")).current_dir(folder).output().unwrap();
    assert!(output.status.code() == Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut known = ProgramWeights::default();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("profile") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        if bytes.is_empty() {
            let hint = read(&bytes).unwrap_err().hint().unwrap_or_default().to_owned();
            assert!(hint.contains("NAME-01") && hint.contains("NAME.1"), "{hint}");
            continue;
        }
        known.add(&read(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        files += 1;
    }
    assert!(files > 0);
    known
}

fn known_calls(options: &[&str]) {
    let folder = compile(PROGRAM, &["-fno-optimize-sibling-calls"], "program");
    let known = profile(folder.path(), "program", options);
    assert_eq!(known.calls("caller", "leaf"), 1_010, "{known:#?}");
    assert_eq!(known.calls("recurse", "recurse"), 20);
    assert_eq!(known.calls("main", "caller"), 1);
    assert_eq!(known.calls("main", "recurse"), 1);
    assert_eq!(known.calls("work", "caller"), 1);
    assert!(known.costs["leaf"] >= 2 * 1_010, "two instructions or more each");
    assert!(known.total >= known.calls.values().sum());
    assert!(known.objects.iter().any(|path| path.ends_with("/program")));
    assert!(known.objects.iter().any(|path| path.contains("libc.so")));
    let raw = |name: &&String| name.contains('\'') || name.starts_with("0x") || *name == "(below main)";
    assert_eq!(known.costs.keys().filter(raw).count(), 0, "only functions are places");
}

/// The program's own functions have no names then, but those of the C library keep theirs.
fn stripped() {
    let folder = compile(PROGRAM, &["-fno-optimize-sibling-calls"], "program");
    successful(Command::new("strip").arg("program").current_dir(folder.path()));
    let known = profile(folder.path(), "program", &[]);
    assert_eq!(known.calls("caller", "leaf"), 0);
    assert!(known.total > 1_010, "what has no name is counted all the same");
    assert!(known.costs.keys().any(|name| name.starts_with("pthread_create")), "{:?}", known.costs.keys());
}

/// The numbers of calls that the perf.data contains. Some names are C++ names, and some are possible in assembler only.
const CALLS: [(&str, &str, u32); 8] = [
    ("main", "palloc", 3_000),
    ("palloc", "AllocSetAlloc.lto_priv.0", 4_000),
    ("main", "_ZN2ns3mapIiSsE3addEii", 900),
    ("_ZN2ns3mapIiSsE3addEii", "_Znwm", 501),
    ("_ZN2ns3mapIiSsE3addEii", "_ZN12_GLOBAL__N_16lookupERKSs", 200),
    ("_Znwm", "palloc", 1),
    ("main", "a_name_as_long_as_those_that_templates_make_of_a_simple_thing", 40_000),
    ("palloc", "palloc", 7),
];

/// Makes a program with these functions, each some bytes long.
fn program_of_calls() -> tempfile::TempDir {
    let mut source = String::new();
    let mut main = String::new();
    let mut names: Vec<&str> = CALLS.iter().map(|call| call.1).collect();
    names.sort_unstable();
    names.dedup();
    for (number, name) in names.into_iter().enumerate() {
        writeln!(
            source,
            "void f{number}(void) __asm__(\"{name}\"); __attribute__((noinline)) void f{number}(void) \
             {{ __asm__ volatile(\".skip 16, 0x90\"); }}"
        )
        .unwrap();
        write!(main, "f{number}(); ").unwrap();
    }
    writeln!(source, "int main(void) {{ {main} return 0; }}").unwrap();
    // The object's name contains a blank.
    compile(&source, &["-no-pie"], "my program")
}

/// Writes a perf.data with the calls of [`CALLS`], as branch records or, if `branches` is false, as plain samples.
fn write_perf_data(folder: &Path, branches: bool) {
    let nm = successful(Command::new("nm").arg("my program").current_dir(folder)).stdout;
    let nm = String::from_utf8(nm).unwrap();
    let address = |name: &str| {
        let line = nm.lines().find(|line| line.split(' ').nth(2) == Some(name)).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let headers = successful(Command::new("readelf").args(["-lW", "my program"]).current_dir(folder)).stdout;
    let headers = String::from_utf8(headers).unwrap();
    let code: Vec<u64> = headers
        .lines()
        .find(|line| line.contains(" R E "))
        .unwrap()
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    let (offset, start, size) = (code[0], code[1], (code[3] + 4095) & !4095);

    const PROCESS: u32 = 100;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let process = [PROCESS.to_le_bytes(), PROCESS.to_le_bytes()].concat();
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((text.len() / 8 + 1) * 8, 0);
        bytes
    };
    let record = |kind: u32, user: bool, body: &[u8]| {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((if user { 2u16 } else { 0 }).to_le_bytes());
        bytes.extend((body.len() as u16 + 8).to_le_bytes());
        bytes.extend(body);
        bytes
    };
    let path = folder.join("my program");
    let mut data = record(3, false, &[process.clone(), text("my command")].concat());
    // Device 8:1, inode 1; mapped private, for reading and executing.
    let mapping = [
        words(&[start, size, offset]),
        vec![8, 0, 0, 0, 1, 0, 0, 0],
        words(&[1, 0]),
        vec![5, 0, 0, 0, 2, 0, 0, 0],
    ];
    data.extend(record(
        10,
        true,
        &[process.clone(), mapping.concat(), text(path.to_str().unwrap())].concat(),
    ));
    for (caller, callee, count) in CALLS {
        let branch = words(&[address(caller) + 2, address(callee), 0]);
        let mut left = count as usize;
        while left > 0 {
            let now = left.min(32);
            let mut body = [words(&[address(caller) + 2]), process.clone()].concat();
            if branches {
                body.extend(words(&[now as u64]));
                body.extend(branch.repeat(now));
            }
            data.extend(record(9, true, &body));
            left -= now;
        }
    }
    // struct perf_event_attr: every branch; user mode only; with commands and mappings; any kind of call.
    let sample_kind = if branches { 0x803 } else { 3 };
    let mut attribute =
        words(&[112 << 32, 4, 1, sample_kind, 0, 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 23]);
    attribute.extend(words(&[0, 0, 0, if branches { 1 | 1 << 4 } else { 0 }, 0, 0, 0, 0]));
    attribute.extend(words(&[0, 0]));
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[104, 128, 104, 128, 104 + 128, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    file.extend(attribute);
    file.extend(data);
    std::fs::write(folder.join("perf.data"), file).unwrap();
}

fn perf_report(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("perf");
    command.args(["report", "--stdio", "-i", "perf.data"]).args(options).current_dir(folder);
    // The user's own settings would change the output.
    command.env("HOME", folder).env("PERF_CONFIG", "/dev/null").env("LC_ALL", "C").output().unwrap()
}

fn perf_report_columns() {
    let folder = program_of_calls();
    write_perf_data(folder.path(), true);
    let total: u128 = CALLS.iter().map(|call| u128::from(call.2)).sum();
    let keys = "--sort=comm,dso_from,symbol_from,dso_to,symbol_to";
    let fields = "--fields=overhead,comm,dso_from,symbol_from,dso_to,symbol_to";
    let last = "--fields=symbol_to,dso_to,symbol_from,dso_from,overhead,sample,period";
    let sets: [&[&str]; 12] = [
        &["-n", "-F", "+period", "--percent-limit", "0", keys],
        &["-n", keys],
        &["-n", keys, "-t", "|", "-w", "0"],
        &["-n", keys, "-t", ","],
        &["-n", keys, "-t", "\t"],
        &["-n", keys, "-v"],
        &[last],
        &[last, "-t", "|"],
        &["-n", keys, "--header"],
        &["-n", "--fields=sample,symbol_from,symbol_to"],
        &[keys],
        &[fields, "-t", ";"],
    ];
    for set in sets {
        let mut options = vec!["-b", "--no-demangle"];
        options.extend(set);
        let output = perf_report(folder.path(), &options);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let recording = read(&output.stdout).unwrap_or_else(|error| panic!("{set:?}: {error}\n{text}"));
        let mut known = ProgramWeights::default();
        known.add(&recording);
        assert_eq!(known.total, total, "{set:?}\n{text}");
        assert_eq!(known.calls.len(), CALLS.len(), "{set:?}\n{text}");
        let counted = set.iter().any(|option| *option == "-n" || option.contains("sample"));
        for (from, to, count) in CALLS {
            // Without counts, the report has only hundredths of a percent.
            let near = if counted { 0 } else { total / 10_000 + 1 };
            let read = known.calls(from, to);
            assert!(read.abs_diff(u128::from(count)) <= near, "{set:?}: {from} -> {to}: {read}\n{text}");
        }
        let object = known.objects.first().map(|path| path.rsplit('/').next().unwrap());
        assert!(
            known.objects.len() <= 1 && object.is_none_or(|name| name == "my program"),
            "{:?}",
            known.objects
        );
    }
}

/// Each form in which perf says that there are no branches leads to a hint with the commands that record them.
fn perf_report_without_branches() {
    let folder = program_of_calls();
    write_perf_data(folder.path(), false);
    let sets: [&[&str]; 4] = [&[], &["-n"], &["-b"], &["--sort=dso_from,symbol_from,dso_to,symbol_to"]];
    for set in sets {
        let output = perf_report(folder.path(), set);
        let both = [output.stderr.as_slice(), &output.stdout].concat();
        for text in [output.stdout.as_slice(), &both] {
            if text.is_empty() {
                continue; // said on standard error alone
            }
            let error = read(text).unwrap_err();
            let hint = error.hint().unwrap_or_default();
            assert!(
                hint.contains("perf record -e branches:u") && hint.contains("perf report -b"),
                "{error:?}"
            );
        }
    }
}
