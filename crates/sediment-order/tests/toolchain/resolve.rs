// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with files of real compilers: `Binary` finds the same symbols as `nm`, wherever they are stored; and a
//! recording with branches at the true addresses of a real program and library gives the calls that were made.

use libtest_mimic::Trial;
use sediment_core::binary::{Binary, Files, NoFiles, SymbolSource};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::perf_data_writer::{Branch, CALL, HW_INDEX, PerfData, UNTYPED};
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let tools = [Need::Program("cc"), Need::Program("nm"), Need::Program("objcopy"), Need::Program("xz")];
    vec![
        case("resolve::functions_are_those_of_nm_wherever_they_are_kept", &tools, symbols_everywhere),
        case(
            "resolve::perf_reads_the_generated_recording_as_it_was_meant",
            &[Need::Program("perf")],
            as_perf_reads_it,
        ),
        case("resolve::branches_at_true_addresses_become_the_calls_that_were_made", &tools, true_addresses),
    ]
}

const PROGRAM: &str = r#"
extern int work(int);
int twin_of_second(int);
static __attribute__((noinline)) int twin(int x) { return work(x) + 1; }
__attribute__((noinline)) int plain(int x) { return twin(x) * 3; }
int main(int argc, char **argv) { return plain(argc) + twin_of_second(argc); }
"#;
const SECOND: &str = r#"
static __attribute__((noinline)) int twin(int x) { return x * 7; }
int twin_of_second(int x) { return twin(x) + 2; }
"#;
const LIBRARY: &str = r#"
static __attribute__((noinline)) int inside(int x) { return x ^ 5; }
int work(int x) { return inside(x) + 9; }
"#;

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the program and its library, with symbols.
fn build(folder: &Path) -> (PathBuf, PathBuf) {
    for (name, source) in [("program.c", PROGRAM), ("second.c", SECOND), ("library.c", LIBRARY)] {
        std::fs::write(folder.join(name), source).unwrap();
    }
    let common = ["-O1", "-Wl,--build-id=sha1", "-fno-optimize-sibling-calls"];
    let library =
        [&common[..], &["-shared", "-fPIC", "-Wl,-soname,libwork.so.1", "library.c", "-o", "libwork.so.1.0"]];
    run("cc", &library.concat(), folder);
    let program = [&common[..], &["program.c", "second.c", "./libwork.so.1.0", "-o", "program"]].concat();
    run("cc", &program, folder);
    (folder.join("program"), folder.join("libwork.so.1.0"))
}

/// Returns the functions with a size that `nm` lists: name, address, size.
fn nm(file: &Path, folder: &Path) -> Vec<(String, u64, u64)> {
    let text = run("nm", &["-S", "--defined-only", file.to_str().unwrap()], folder);
    let mut found: Vec<_> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [address, size, "t" | "T" | "w" | "W" | "i", name] => {
                let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
                Some((name.split('@').next().unwrap().to_owned(), number(address), number(size)))
            }
            _ => None,
        })
        .collect();
    found.sort();
    found
}

fn sized(binary: &Binary) -> Vec<(String, u64, u64)> {
    let with_size = binary.functions.iter().filter(|function| function.size > 0);
    let mut found: Vec<_> = with_size.map(|f| (f.name.clone(), f.address, f.size)).collect();
    found.sort();
    found
}

struct DebugFile(Vec<u8>);

impl Files for DebugFile {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, name: &[u8], _: u32) -> Option<Vec<u8>> {
        (name == b"program.debug").then(|| self.0.clone())
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}

fn symbols_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (program, library) = build(folder);
    let expected = nm(&program, folder);
    let full = Binary::parse(&std::fs::read(&program).unwrap(), &NoFiles).unwrap();
    assert_eq!(sized(&full), expected);
    let same_named_locals: Vec<_> =
        full.functions.iter().filter(|f| f.name == "twin").map(|f| f.file.as_deref()).collect();
    assert_eq!(same_named_locals, [Some("program.c"), Some("second.c")]);
    assert_eq!(full.same_named_locals().into_iter().collect::<Vec<_>>(), ["twin"]);
    let of_library = Binary::parse(&std::fs::read(&library).unwrap(), &NoFiles).unwrap();
    assert_eq!(of_library.soname.as_deref(), Some("libwork.so.1"));

    run("objcopy", &["--only-keep-debug", "program", "program.debug"], folder);
    run("objcopy", &["--strip-all", "--add-gnu-debuglink=program.debug", "program", "linked"], folder);
    let linked = std::fs::read(folder.join("linked")).unwrap();
    let debug_file = std::fs::read(folder.join("program.debug")).unwrap();
    let found = Binary::parse(&linked, &DebugFile(debug_file.clone())).unwrap();
    assert_eq!((found.symbols_from, sized(&found)), (SymbolSource::DebugFile, expected.clone()));
    assert_eq!(found.build_id, full.build_id);
    let damaged = DebugFile([debug_file.clone(), vec![0]].concat());
    assert_eq!(Binary::parse(&linked, &damaged).unwrap().symbols_from, SymbolSource::DynamicSymbols);

    // The debug file is used in place of the program: its sections and addresses are correct.
    let alone = Binary::parse(&debug_file, &NoFiles).unwrap();
    assert_eq!(sized(&alone), expected);
    assert_eq!(alone.code_sections, full.code_sections);

    run("objcopy", &["--strip-debug", "program.debug", "mini"], folder);
    run("xz", &["-k", "mini"], folder);
    run("objcopy", &["--strip-all", "--add-section=.gnu_debugdata=mini.xz", "program", "with_mini"], folder);
    let found = Binary::parse(&std::fs::read(folder.join("with_mini")).unwrap(), &NoFiles).unwrap();
    assert_eq!((found.symbols_from, sized(&found)), (SymbolSource::GnuDebugdata, expected));
}

/// The program and the library, as they were recorded.
struct AsRecorded(BTreeMap<String, PathBuf>);

impl Files for AsRecorded {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        std::fs::read(self.0.get(path)?).ok()
    }
}

fn true_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (program, library) = build(folder);
    let in_program = nm(&program, folder);
    let in_library = nm(&library, folder);
    // objdump shows where the stub is.
    let listing = run("objdump", &["-d", "program"], folder);
    let stub_line = listing.lines().find(|line| line.ends_with("<work@plt>:")).unwrap();
    let stub = u64::from_str_radix(stub_line.split(' ').next().unwrap(), 16).unwrap();
    let instruction = |function: &str, mnemonic: &str, nth: usize| {
        let body = listing.split(&format!("<{function}>:\n")).nth(1).unwrap().split("\n\n").next().unwrap();
        let line = body.lines().filter(|line| line.contains(mnemonic)).nth(nth).unwrap();
        u64::from_str_radix(line.trim().split(':').next().unwrap(), 16).unwrap()
    };
    let address = |functions: &[(String, u64, u64)], name: &str, nth: usize| {
        functions.iter().filter(|(known, ..)| known == name).nth(nth).unwrap().1
    };

    const BASE: u64 = 0x5555_5555_0000;
    const LIBRARY_BASE: u64 = 0x7f12_3456_0000;
    let at = |address: u64| BASE + address;
    let call = |from: u64, to: u64, kind: u64| Branch::new(at(from), at(to), kind);
    let twin = address(&in_program, "twin", 0);
    for kind in [CALL, UNTYPED] {
        let plain_calls = instruction("plain", "call", 0);
        let branches = [
            call(instruction("main", "call", 0), address(&in_program, "plain", 0), kind),
            call(plain_calls, twin, kind),
            call(instruction("twin", "call", 0), stub, kind),
            Branch::new(at(stub), LIBRARY_BASE + address(&in_library, "work", 0), UNTYPED),
            Branch::new(
                LIBRARY_BASE + address(&in_library, "work", 0) + 4,
                LIBRARY_BASE + address(&in_library, "inside", 0),
                kind,
            ),
            call(instruction("plain", "ret", 0), instruction("main", "call", 0) + 5, UNTYPED),
            call(instruction("twin_of_second", "call", 0), address(&in_program, "twin", 1), kind),
        ];
        let mut file = PerfData::new();
        file.mmap2(1, (BASE, 0x10000, 0), "/opt/program", &[], 1);
        file.mmap2(1, (LIBRARY_BASE, 0x10000, 0), "/opt/libwork.so.1.0", &[], 1);
        file.sample(1, 2, at(twin), &branches);
        let recording = support::read(&file.finish()).unwrap();
        let files = AsRecorded(
            [
                ("/opt/program".to_owned(), program.clone()),
                ("/opt/libwork.so.1.0".to_owned(), library.clone()),
            ]
            .into(),
        );
        let (profile, skipped) = sediment_read::resolve::resolve(&recording, &files).unwrap();
        let show = |function| {
            let key = profile.key(function);
            let file = key.file.as_deref().unwrap_or("");
            format!("{}:{}:{file}", key.dso.as_deref().unwrap_or("?"), key.name)
        };
        let edges: Vec<String> = profile
            .edges()
            .iter()
            .map(|(from, to, facts)| format!("{} -> {} {:?}", show(*from), show(*to), facts.count))
            .collect();
        assert_eq!(
            edges,
            [
                "libwork.so.1:work: -> libwork.so.1:inside: Some(1)",
                "program:main: -> program:plain: Some(1)",
                "program:plain: -> program:twin:program.c Some(1)",
                "program:twin:program.c -> libwork.so.1:work: Some(1)",
                "program:twin_of_second: -> program:twin:second.c Some(1)",
            ],
            "{skipped:?}"
        );
        let no_calls: u128 = skipped.iter().map(|(_, entry)| entry.weight).sum();
        assert_eq!((no_calls, profile.total), (2, 5), "{skipped:?}");
    }
}

/// perf itself checks the generator: it reads from a generated file exactly what was written.
fn as_perf_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = PerfData::new();
    file.events[0].branch_sample_type |= HW_INDEX;
    file.comm(10, "program", true, 1);
    file.mmap2(10, (0x40_0000, 0x2000, 0x1000), "/opt/program", &[0xcd; 20], 2);
    file.fork(10, 11, 3);
    file.sample(
        11,
        4,
        0x40_0020,
        &[Branch::new(0x40_0010, 0x40_0100, CALL), Branch::new(0x40_0104, 0x40_0014, UNTYPED)],
    );
    file.sample(10, 5, 0x40_0021, &[Branch::new(0x40_0030, 0x40_0200, UNTYPED)]);
    std::fs::write(folder.path().join("perf.data"), file.finish()).unwrap();
    let script =
        ["script", "-i", "perf.data", "--show-mmap-events", "-F", "comm,pid,time,period,event,ip,brstack"];
    let text = run("perf", &script, folder.path());
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mapping = lines.iter().find(|line| line.contains("PERF_RECORD_MMAP2")).unwrap();
    assert!(mapping.contains("[0x400000(0x2000) @ 0x1000") && mapping.ends_with("/opt/program"), "{text}");
    let branches = |line: &str| -> Vec<String> {
        let entries = line.split(' ').filter(|word| word.starts_with("0x") && word.contains('/'));
        entries.map(|entry| entry.split('/').take(2).collect::<Vec<_>>().join("/")).collect()
    };
    let samples: Vec<_> =
        lines.iter().map(|line| (line, branches(line))).filter(|(_, found)| !found.is_empty()).collect();
    assert_eq!(samples.len(), 2, "{text}");
    assert_eq!(samples[0].1, ["0x400010/0x400100", "0x400104/0x400014"]);
    assert_eq!(samples[1].1, ["0x400030/0x400200"]);
    assert!(samples[0].0.starts_with("program 11 ") && samples[0].0.contains("1000 branches:u"), "{text}");
}
