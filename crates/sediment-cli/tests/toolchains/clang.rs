// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of programs compiled by clang: from its own map of blocks, through a recording, to its list of basic block
//! sections.

use crate::running::{done, err, sediment};
use libtest_mimic::Trial;
use sediment_core::binary::bb_addr_map;
use sediment_order::link;
use std::path::Path;
use std::process::Command;
use support::{Need, case, linker_folder};
use tempfile::TempDir;

const NEEDS: &[Need] = &[
    Need::Program("clang-19"),
    Need::Program("valgrind"),
    Need::Program("nm"),
    Need::Program("objcopy"),
    Need::LinkerFolder("lld"),
];

const RUST: &[Need] = &[Need::Program("rustc"), Need::Program("valgrind"), Need::Program("nm")];

/// Linkers: gcc's arguments, the folder for its -B, and the dialect.
const LINKERS: &[(&[&str], Option<&str>, &str)] = &[
    (&[], None, "gnu-ld-script"),
    (&[], Some("gnu-ld-2.44"), "gnu-ld"),
    (&["-fuse-ld=gold"], None, "gold"),
    (&[], Some("lld"), "lld"),
];

const LINKED: &[Need] = &[
    Need::Program("clang-19"),
    Need::Program("gcc"),
    Need::Program("valgrind"),
    Need::Program("nm"),
    Need::Program("objdump"),
    Need::Program("ld.gold"),
    Need::LinkerFolder("gnu-ld-2.44"),
    Need::LinkerFolder("lld"),
];

/// The hot function `split` is in `.text.split`; the sections of cold parts have the same prefix.
const SPLIT: &str = "#include <stdio.h>
#include <stdlib.h>
#define FN __attribute__((noinline))
int never(int i);
FN int first(int i) { if (i < 0) { puts(\"first\"); exit(never(i)); } return i * 3 + 1; }
FN int spare(int i) { return i * 5; }
LOCAL FN int split(int i, int step) { if (i < 0) { puts(\"split\"); exit(never(i)); } return first(i + step) ^ 5; }
FN int never(int i) { return spare(i) - 9; }
FN int last(int i) { if (i < 0) { puts(\"last\"); exit(never(i)); } return split(i, 3) + split(i + 1, 3) + first(i); }
int main(void)
{
  int sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += last(i);
  printf(\"%d\\n\", sum);
  return 0;
}
";

const MAIN_RS: &str = "#[inline(never)]
fn work(i: u32, unusual: bool) -> u32 {
    let mut sum = i;
    if unusual {
        for j in 0..8 {
            sum = sum.rotate_left(j) ^ std::hint::black_box(i * j);
        }
        println!(\"unusual {sum}\");
    }
    sum + 1
}
fn main() {
    let unusual = std::env::args().count() > 1;
    println!(\"{}\", (0..2000).fold(0u32, |sum, i| sum.wrapping_add(work(i, unusual))));
}
";

/// Half of `work` never runs without an argument; each unit has a local function `twin`.
const WORK: &str = "#include <stdio.h>
#include <stdlib.h>
static int table[64];
static __attribute__((noinline)) int twin(int i) { return i & 8 ? table[i & 63] : i + 1; }
__attribute__((noinline)) int work(int i, int unusual)
{
  int sum = twin(i);
  if (unusual == 0) {
    for (int j = 0; j < 8; j++)
      sum += table[(j + i) & 63] ^ j * 3;
    table[sum & 63] = puts(\"unusual\");
  }
  if (i % 3 == 0)
    sum ^= 5;
  else if (i < 0)
    abort();
  return sum;
}
int other(int);
int main(int count, char **words)
{
  int unusual = count < 2 ? 1 : atoi(words[1]), sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += work(i, unusual) + other(i);
  printf(\"%d\\n\", sum);
  return 0;
}
";
const OTHER: &str = "static __attribute__((noinline)) int twin(int i) { return i & 4 ? i * 3 : i + 2; }
int other(int i) { return twin(i) + twin(i + 1); }
";
const FLAGS: &[&str] = &["-O2", "-gdwarf-4", "-ffunction-sections", "-fuse-ld=lld", "work.c", "other.c"];

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case("blocks_that_did_not_run_are_split_off", NEEDS, blocks_that_did_not_run_are_split_off),
        case("damaged_maps_are_errors", NEEDS, damaged_maps_are_errors),
        case("rust_programs_are_split_too", RUST, rust_programs_are_split_too),
        case(
            "maps_of_newer_versions_are_read",
            &[Need::Program("as"), Need::Program("objcopy")],
            maps_of_newer_versions_are_read,
        ),
        case("a_function_called_split_is_no_cold_part", LINKED, a_function_called_split_is_no_cold_part),
        case("lists_work_with_thin_lto", NEEDS, lists_work_with_thin_lto),
        case("profiles_without_exact_counts_make_no_list", NEEDS, profiles_without_exact_counts_make_no_list),
    ]
}

fn build(folder: &Path, more: &[&str]) {
    let linker = format!("-B{}", linker_folder("lld").unwrap().display());
    let output =
        Command::new("clang-19").current_dir(folder).args(FLAGS).arg(linker).args(more).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
}

/// Makes a folder with the program `train`, which has a map of blocks, and its profile `p.gv`.
fn trained() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    std::fs::write(folder.path().join("other.c"), OTHER).unwrap();
    build(folder.path(), &["-fbasic-block-address-map", "-o", "train"]);
    callgrind(folder.path(), "train");
    done(&sediment(
        folder.path(),
        &["-v", "import", "--blocks", "recorded", "--binary", "train", "-o", "p.gv"],
    ));
    folder
}

fn callgrind(folder: &Path, program: &str) {
    let valgrind = Command::new("valgrind")
        .current_dir(folder)
        .args(["--tool=callgrind", "--demangle=no", "--dump-instr=yes", "--compress-pos=no"])
        .args(["--callgrind-out-file=recorded", &format!("./{program}")])
        .output();
    assert!(valgrind.unwrap().status.success());
}

/// lld compiles, from the options that it gets itself.
fn lists_work_with_thin_lto() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    std::fs::write(path.join("work.c"), WORK).unwrap();
    std::fs::write(path.join("other.c"), OTHER).unwrap();
    build(path, &["-flto=thin", "-Wl,--lto-basic-block-address-map", "-o", "train"]);
    callgrind(path, "train");
    done(&sediment(path, &["import", "--blocks", "recorded", "--binary", "train", "-o", "p.gv"]));
    done(&sediment(path, &["export", "p.gv", "--format", "bb-sections", "-o", "list"]));
    build(path, &["-flto=thin", "-Wl,--lto-basic-block-sections=list", "-o", "used"]);
    let ran = |program: &str| Command::new(path.join(program)).output().unwrap();
    assert_eq!(ran("used").stdout, ran("train").stdout);
    let symbols = Command::new("nm").current_dir(path).arg("used").output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    assert!(symbols.lines().any(|line| line.ends_with(".cold")), "{symbols}");
}

fn blocks_that_did_not_run_are_split_off() {
    let folder = trained();
    let path = folder.path();
    let said = sediment(path, &["-v", "export", "p.gv", "--format", "bb-sections", "-o", "list"]);
    assert!(err(&said).contains("skipped 1: ") && err(&said).contains("twin"), "{}", err(&said));
    let list = std::fs::read_to_string(path.join("list")).unwrap();
    assert!(list.starts_with("v1\nf main\nc 0 ") && list.contains("\nf work\nc 0 "), "{list}");
    assert!(!list.contains("twin"), "{list}");
    build(path, &["-o", "plain"]);
    build(path, &["-fbasic-block-sections=list=list", "-fbasic-block-address-map", "-o", "used"]);
    for arguments in [&[][..], &["0"], &["7"]] {
        let ran = |program: &str| Command::new(path.join(program)).args(arguments).output().unwrap();
        assert_eq!(ran("used").stdout, ran("plain").stdout, "{arguments:?}");
    }
    // The cold part has no recorded executions.
    let symbols = Command::new("nm").current_dir(path).args(["-S", "used"]).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line =
        symbols.lines().find(|line| line.ends_with(" work.cold")).unwrap_or_else(|| panic!("{symbols}"));
    let number = |field: usize| u64::from_str_radix(line.split(' ').nth(field).unwrap(), 16).unwrap();
    let part = number(0)..number(0) + number(1);
    callgrind(path, "used");
    let recorded = std::fs::read_to_string(path.join("recorded")).unwrap();
    let address = |line: &str| u64::from_str_radix(line.strip_prefix("0x")?.split(' ').next()?, 16).ok();
    assert!(!recorded.lines().filter_map(address).any(|at| part.contains(&at)));
    // The counts have another numbering, because another layout has another hash.
    done(&sediment(path, &["verify", "train", "--blocks", "--profile", "p.gv"]));
    // Its map is found in the debug file.
    let objcopy = |arguments: &[&str]| {
        assert!(Command::new("objcopy").current_dir(path).args(arguments).status().unwrap().success());
    };
    objcopy(&["--only-keep-debug", "train", "train.debug"]);
    objcopy(&["--strip-debug", "-R", ".llvm_bb_addr_map", "--add-gnu-debuglink=train.debug", "train"]);
    callgrind(path, "train");
    done(&sediment(path, &["-v", "import", "--blocks", "recorded", "--binary", "train", "-o", "again.gv"]));
    let counts = |file: &str, function: &str| {
        let text = std::fs::read_to_string(path.join(file)).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("\"{function}\" ["))).unwrap().to_owned();
        line.split_once("blocks=").map(|(_, blocks)| blocks.to_owned())
    };
    for function in ["work", "main", "other"] {
        assert!(counts("p.gv", function).is_some());
        assert_eq!(counts("again.gv", function), counts("p.gv", function));
    }
    // Without the symbols of files, the two cannot be distinguished.
    assert_eq!(counts("again.gv", "twin"), None);
}

/// With a stable rustc, whose LLVM has the same options.
fn rust_programs_are_split_too() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    std::fs::write(path.join("main.rs"), MAIN_RS).unwrap();
    let compile = |llvm: &str, program: &str| {
        let flags =
            ["-O", "-Ccodegen-units=1", "-Cdebuginfo=1", "-Cdwarf-version=4", "main.rs", "-o", program];
        let output =
            Command::new("rustc").current_dir(path).args(flags).arg(format!("-Cllvm-args={llvm}")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", err(&output));
    };
    compile("-basic-block-address-map", "train");
    callgrind(path, "train");
    done(&sediment(path, &["-v", "import", "--blocks", "recorded", "--binary", "train", "-o", "p.gv"]));
    done(&sediment(path, &["export", "p.gv", "--format", "bb-sections", "-o", "list"]));
    compile("-basic-block-sections=list", "used");
    for arguments in [&[][..], &["unusual"]] {
        let ran = |program: &str| Command::new(path.join(program)).args(arguments).output().unwrap();
        assert_eq!(ran("used").stdout, ran("train").stdout, "{arguments:?}");
    }
    let symbols = Command::new("nm").current_dir(path).arg("used").output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    assert!(symbols.lines().any(|line| line.contains("4work") && line.ends_with(".cold")), "{symbols}");
}

/// An ELF file that contains only a map.
fn with_map(map: &[u8]) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("map"), map).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).current_dir(folder.path()).args(arguments).status().unwrap().success());
    };
    run("as", &["-o", "empty.o", "/dev/null"]);
    run("objcopy", &["--add-section=.llvm_bb_addr_map=map", "empty.o", "with-map.o"]);
    std::fs::read(folder.path().join("with-map.o")).unwrap()
}

/// The format of LLVM 22: two bytes of features, blocks with the ends of their calls, and hashes.
fn maps_of_newer_versions_are_read() {
    let map = |version: u8, features: &[u8], hash: &[u8]| {
        let address = 0x14110u64.to_le_bytes();
        // A block with one call, and a block without calls 2 bytes after it.
        let blocks = [&[0, 0, 1, 0x1a, 0x18, 0][..], hash, &[12, 2, 0, 3, 8], hash].concat();
        [&[version], features, &address[..], &[2], &blocks].concat()
    };
    let hash = [7; 8];
    for map in [map(3, &[32], &[]), map(4, &[96], &hash), map(5, &[32, 0], &[]), map(5, &[96, 0], &hash)] {
        let functions = bb_addr_map::read(&with_map(&map)).unwrap().unwrap();
        let blocks: Vec<_> = functions[0]
            .iter()
            .map(|block| (block.id, block.address, block.size, block.properties))
            .collect();
        assert_eq!(blocks, [(0, 0x14110, 0x32, 0), (12, 0x14144, 3, 8)], "{map:?}");
        for length in 1..map.len() {
            assert!(bb_addr_map::read(&with_map(&map[..length])).is_err(), "{length}");
        }
    }
    for unknown in [map(6, &[32, 0], &[]), map(5, &[32, 1], &[]), map(5, &[48, 0], &[])] {
        assert!(bb_addr_map::read(&with_map(&unknown)).is_err(), "{unknown:?}");
    }
}

fn damaged_maps_are_errors() {
    let folder = trained();
    let bytes = std::fs::read(folder.path().join("train")).unwrap();
    let functions = bb_addr_map::read(&bytes).unwrap().unwrap();
    let total: usize = functions.iter().map(Vec::len).sum();
    assert!(functions.iter().all(|blocks| blocks[0].id == 0) && total > 10, "{functions:?}");
    let dumped = Command::new("objcopy")
        .current_dir(folder.path())
        .args([
            "-O",
            "binary",
            "--only-section=.llvm_bb_addr_map",
            "--set-section-flags=.llvm_bb_addr_map=alloc",
        ])
        .args(["train", "map"])
        .status();
    assert!(dumped.unwrap().success());
    let map = std::fs::read(folder.path().join("map")).unwrap();
    let at = bytes.windows(map.len()).position(|window| window == map).unwrap();
    let mut changed = bytes.clone();
    changed[at] = 9;
    let error = bb_addr_map::read(&changed).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    // Block numbers far beyond the section, and any other byte.
    for place in 0..map.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at + place] = value;
            if let Ok(Some(functions)) = bb_addr_map::read(&changed) {
                assert!(functions.iter().map(Vec::len).sum::<usize>() <= map.len());
            }
        }
    }
}

fn profiles_without_exact_counts_make_no_list() {
    let folder = TempDir::new().unwrap();
    let export = |text: &str| {
        std::fs::write(folder.path().join("p.gv"), text).unwrap();
        let output = sediment(folder.path(), &["export", "p.gv", "--format", "bb-sections"]);
        assert!(!output.status.success() && output.stdout.is_empty());
        err(&output)
    };
    let profile = |unit: &str, hash: &str| {
        format!(
            "digraph {{\n graph [sediment=3, blocks_unit={unit}];\n \"work\" [blocks=\"{hash}:1=3\"];\n}}\n"
        )
    };
    for (unit, hash, datum) in [("samples", "80000001", "samples"), ("executions", "00000001", "clang")] {
        let said = export(&profile(unit, hash));
        assert!(said.contains(datum), "{said}");
    }
}

/// Returns the standard output of a program, which must succeed.
fn run(path: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// With clang, whose cold parts are `.text.split.f`, and with GCC, which puts its clone of the function in
/// `.text.split.constprop.0`.
fn a_function_called_split_is_no_cold_part() {
    let by_clang: &[&str] = &["clang-19", "-gdwarf-4", "-fbasic-block-address-map", "-DLOCAL="];
    let by_gcc: &[&str] = &["gcc", "-g", "-DLOCAL=static"];
    for (compiler, hot, sections) in [
        (by_clang, "split", [".text.split", ".text.split.first", ".text.split.last"]),
        (by_gcc, "split.constprop.0", [".text.split.constprop.0", ".text.first", ".text.last"]),
    ] {
        let folder = TempDir::new().unwrap();
        let path = folder.path();
        std::fs::write(path.join("split.c"), SPLIT).unwrap();
        let compile = |more: &[&str]| {
            let flags = ["-c", "-O2", "-fPIC", "-ffunction-sections", "split.c", "-o", "split.o"];
            run(path, compiler[0], &[&compiler[1..], &flags, more].concat())
        };
        compile(&[]);
        run(path, "gcc", &["split.o", "-o", "program"]);
        callgrind(path, "program");
        if compiler[0] == "gcc" {
            done(&sediment(path, &["import", "recorded", "--binary", "program", "-o", "p.gv"]));
        } else {
            done(&sediment(path, &["import", "--blocks", "recorded", "--binary", "program", "-o", "p.gv"]));
            // Functions in the list are in `.text.hot.f`.
            let list = done(&sediment(path, &["export", "p.gv", "--format", "bb-sections"]));
            assert!(list.contains("f split\nc 0 2\n"), "{list}");
            std::fs::write(path.join("list"), list.replace("f split\nc 0 2\n", "")).unwrap();
            compile(&["-fbasic-block-sections=list=list"]);
        }
        let headers = run(path, "objdump", &["-h", "split.o"]);
        for section in sections {
            assert!(headers.contains(&format!(" {section} ")), "no {section} in\n{headers}");
        }
        for (arguments, in_folder, dialect) in LINKERS {
            let folder = in_folder.map(|name| format!("-B{}", linker_folder(name).unwrap().display()));
            let linker: Vec<&str> = arguments.iter().copied().chain(folder.as_deref()).collect();
            linked_as_ordered(path, &linker, dialect, hot);
        }
    }
}

/// Links `split.o` with an order from `p.gv`, which has a function `hot`.
fn linked_as_ordered(path: &Path, linker: &[&str], dialect: &str, hot: &str) {
    let link = |order: &[&str]| run(path, "gcc", &[linker, order, &["split.o", "-o", "program"]].concat());
    let order =
        |dialect: &str| done(&sediment(path, &["order", "p.gv", "--binary", "program", "--linker", dialect]));
    link(&[]);
    let listed = order("list");
    let listed: Vec<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(listed.contains(&hot) && listed.len() >= 4, "{listed:?}");
    let text = order(dialect);
    std::fs::write(path.join("order"), &text).unwrap();
    let option = link::linker(dialect).unwrap().arguments.replace("FILE", "order");
    link(&option.split(' ').collect::<Vec<_>>());
    // Next to each other in the requested order; cold parts and functions without calls are elsewhere.
    let symbols = run(path, "nm", &["-n", "program"]);
    let is_ours =
        |name: &&str| listed.contains(name) || name.contains("cold") || ["never", "spare"].contains(name);
    let functions = symbols.lines().filter_map(|line| line.get(17..)?.strip_prefix(['t', 'T']));
    let ours: Vec<&str> = functions.map(str::trim).filter(is_ours).collect();
    let at = ours.iter().position(|name| *name == listed[0]).unwrap();
    assert_eq!(ours.get(at..at + listed.len()), Some(&listed[..]), "{dialect}: {ours:?}");
    let read = link::read(&text).unwrap().1;
    let read: Vec<&str> = read.iter().map(|asked| asked.name.as_str()).collect();
    assert!(read.contains(&hot) && !read.contains(&"constprop.0.cold"), "{dialect}: {read:?}");
    let arguments = ["verify", "program", "--order", "order", "--profile", "p.gv", "--json"];
    let checked = done(&sediment(path, &arguments));
    for part in ["\"misplaced\": []", "\"inversions\": 0", "\"weight_placed_percent\": 100.0"] {
        assert!(checked.contains(part), "{dialect}: {checked}");
    }
}
