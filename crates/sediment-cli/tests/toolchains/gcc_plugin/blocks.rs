// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks: from a program whose line table numbers them, through a recording, to a program whose blocks are placed by
//! their executions.

use crate::compilers::{COMPILERS, Compiler, CompilerHost};
use crate::gcc_plugin::odd::has_cold_part;
use crate::gcc_plugin::{has, read};
use crate::running::{done, err, sediment};
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::callgraph::GroupKind;
use sediment_core::profile::FunctionKey;
use sediment_order::report::layout::{self, ProfileByName, ProfiledFunction};
use std::fmt::Write as _;
use std::process::Command;
use tempfile::TempDir;

/// Paths that GCC assumes to be as likely as many others but that the work does not take, and one that it assumes to be
/// rare. Exceptions, computed jumps, a jump out of a function and an endless loop test possible errors in their handling.
pub const WORK: &str = r#"#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
static jmp_buf place;
static int table[64];
__attribute__((noinline)) static int never(int x) { return x * 31 + table[x & 63]; }
__attribute__((noinline)) int work(int i, int unusual)
{
  int sum = i;
  if (__builtin_expect_with_probability(unusual == 0, 0, 0.7)) {
    for (int j = 0; j < 8; j++)
      sum += never(j + i) ^ never(j * 3) ^ never(i ^ j);
    table[sum & 63] = sum;
  }
  if (__builtin_expect(unusual, 0))
    for (int j = 0; j < i % 9; j++)
      sum += j * i;
  switch (i % 7) {
  case 0: sum ^= 5; break;
  case 1: sum += 9; break;
  case 2: sum *= 3; break;
  case 6: return sum - 1;
  }
  return sum;
}
__attribute__((noinline)) int jumps(int x)
{
  static void *const to[] = { &&one, &&two, &&three };
  goto *to[x % 3];
one: x += 1;
two: x += 2;
three: return x;
}
__attribute__((noinline)) int leaves(int x)
{
  if (setjmp(place))
    return x + 1;
  if (x % 50 == 49)
    longjmp(place, 1);
  return x;
}
int main(int count, char **words)
{
  int unusual = count < 2 ? 1 : atoi(words[1]), sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += work(i, unusual) + jumps(i) + leaves(i);
  printf("%d\n", sum);
  return 0;
}
"#;
pub const THROWN: &str = r#"#include <stdexcept>
#include <string>
#include <vector>
template <class T> __attribute__((noinline)) T at(const std::vector<T> &all, unsigned i)
{
  if (i >= all.size())
    throw std::out_of_range("no " + std::to_string(i));
  return all[i];
}
struct Counted { int &sum; Counted(int &sum) : sum(sum) { sum += 3; } ~Counted() { sum += 5; } };
extern "C" int guarded(int i)
{
  static const std::vector<int> all { 1, 2, 3, 4 };
  int sum = 0;
  try { Counted counted(sum); sum += at(all, i); }
  catch (const std::out_of_range &error) { sum += error.what()[3]; }
  return sum;
}
int main(int count, char **) { int sum = 0; for (int i = 0; i < 200; i++) sum += guarded(i % (count > 1 ? 9 : 4)); return sum & 127; }
"#;
const TABLE: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int sums[16];
__attribute__((noinline)) int table(int i, int from)
{
  switch ((i & 3) + from) {
  case 0: sums[0] += i; return 3;
  case 1: sums[1] ^= i; return i * 5;
  case 2: return sums[2]++;
  case 3: return i - sums[1];
  case 4: puts("four"); return sums[4] -= i;
  case 5: puts("five"); abort();
  case 6: return puts("six") + i;
  case 7: for (int j = 0; j < i; j++) sums[j & 15] += puts("seven"); return sums[3];
  case 8: return i ^ sums[8];
  case 9: return sums[9] = i * 7;
  case 11: return sums[i & 15] * 11;
  default: puts("default"); return sums[5];
  }
}
__attribute__((noinline)) int beside(int i, int from)
{
  if (from == 9)
    for (int j = 0; j < 4; j++)
      i += table(j, 9) ^ sums[j];
  return i + 1;
}
int main(int count, char **words)
{
  int from = count > 1 ? atoi(words[1]) : 0, sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += table(i, from) + beside(i, from);
  printf("%d\n", sum);
  return 0;
}
"#;
/// A newer compiler's libraries differ from this system's.
const FLAGS: [&str; 4] = ["-O2", "-g", "-ffunction-sections", "-static"];
pub const MARKS: &str = "-fplugin-arg-sediment-blocks";
pub const COUNTS: &str = "-fplugin-arg-sediment-profile=blocks";

pub fn sources(gcc: &Compiler) -> TempDir {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    std::fs::write(folder.path().join("thrown.cc"), THROWN).unwrap();
    folder
}

/// Returns an object without its debug information.
fn stripped(gcc: &Compiler, folder: &TempDir, source: &str, more: &[&str]) -> Vec<u8> {
    edited(gcc, folder, source, more, &["--strip-debug"])
}

/// Returns an object changed by objcopy.
pub fn edited(gcc: &Compiler, folder: &TempDir, source: &str, more: &[&str], edit: &[&str]) -> Vec<u8> {
    let compiler = if source.ends_with(".cc") { gcc.cxx } else { gcc.c };
    gcc.run(folder.path(), compiler, &[&FLAGS, more, &["-c", source, "-o", "object.o"]].concat());
    let objcopy = if gcc.name.starts_with("aarch64") { "aarch64-linux-gnu-objcopy" } else { "objcopy" };
    let status = Command::new(objcopy).current_dir(folder.path()).args(edit).arg("object.o").status();
    assert!(status.unwrap().success());
    std::fs::read(folder.path().join("object.o")).unwrap()
}

/// Returns output and exit code of a program.
pub fn ran(folder: &TempDir, program: &str, arguments: &[&str]) -> (Vec<u8>, Option<i32>) {
    let output = Command::new(folder.path().join(program)).args(arguments).output().unwrap();
    (output.stdout, output.status.code())
}

/// Returns the counts of a run of the program, in the plugin's format.
pub fn recorded(gcc: &Compiler, folder: &TempDir, source: &str) -> String {
    recorded_with(gcc, folder, source, &[])
}

/// As [`recorded`], for a run with arguments.
pub fn recorded_with(gcc: &Compiler, folder: &TempDir, source: &str, arguments: &[&str]) -> String {
    let compiler = if source.ends_with(".cc") { gcc.cxx } else { gcc.c };
    gcc.run(folder.path(), compiler, &[&FLAGS[..], &[&gcc.plugin(), MARKS, source, "-o", "train"]].concat());
    record(folder, arguments)
}

/// Records `train` with these arguments; also writes the counts to `blocks`.
pub fn record(folder: &TempDir, arguments: &[&str]) -> String {
    record_as("./train", folder, arguments)
}

/// As [`record`], for a copy of it.
pub fn record_as(program: &str, folder: &TempDir, arguments: &[&str]) -> String {
    let mut valgrind = Command::new("valgrind");
    valgrind.current_dir(folder.path()).args(["--tool=callgrind", "--demangle=no", "--dump-instr=yes"]);
    let valgrind =
        valgrind.args(["--callgrind-out-file=recorded", program]).args(arguments).output().unwrap();
    assert!(valgrind.status.code().is_some(), "{valgrind:?}");
    done(&sediment(folder.path(), &["import", "--blocks", "recorded", "--binary", "train", "-o", "p.gv"]));
    has(&read(folder, "p.gv"), &["sediment=3", "blocks_unit=executions, blocks_total="]);
    done(&sediment(folder.path(), &["export", "p.gv", "-o", "blocks"]));
    read(folder, "blocks")
}

pub fn blocks_with_count_zero_are_split_off(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let counts = recorded(gcc, &folder, "work.c");
    assert!(counts.lines().any(|line| line.starts_with("work\t\t")), "{counts}");
    let build = |more: &[&str], program: &str| {
        gcc.run(folder.path(), gcc.c, &[&FLAGS, more, &["work.c", "-o", program]].concat());
        let symbols = Command::new("nm").arg(folder.path().join(program)).output().unwrap();
        String::from_utf8(symbols.stdout).unwrap()
    };
    let plain = build(&[], "plain");
    assert!(!plain.contains(" work.cold\n"), "{plain}");
    let used = build(&[&gcc.plugin(), COUNTS], "used");
    assert!(used.contains(" work.cold\n") && used.contains(" never\n"), "{used}");
    for arguments in [&[][..], &["0"], &["7"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
    }
    cold_parts_lie_behind_all_functions(&folder);
    cold_parts_are_drawn_without_heat(&folder);
    // Two builds are equal, whatever else is in the folder.
    let object = || stripped(gcc, &folder, "work.c", &[&gcc.plugin(), COUNTS]);
    assert!(object() == object());
    assert!(!folder.path().join("object.c.gv").exists());
}

/// Another version of a function with another graph: blocks that moved are found again and get their counts. A function
/// with only the same name gets none.
pub fn changed_functions_keep_their_counts(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let changed = WORK
        .replace("  int sum = i;\n", "  int sum = i;\n\n  if (i == 1234567)\n    sum = puts(\"new\");\n")
        .replace("case 1: sum += 9; break;", "case 1: if (sum & 1) sum += 9; break;");
    let replaced = {
        let (front, rest) = WORK.split_once("  int sum = i;\n").unwrap();
        let (_, back) = rest.split_once("  return sum;\n").unwrap();
        format!(
            "{front}  for (int j = 0; j < i; j++)\n    if (getenv(\"X\"))\n      i += unusual ? rand() : atoi(\"3\");\n  return i;\n{back}"
        )
    };
    for (source, is_split) in [(changed, true), (replaced, false)] {
        std::fs::write(folder.path().join("work.c"), source).unwrap();
        let build = |more: &[&str], program: &str| {
            gcc.run(folder.path(), gcc.c, &[&FLAGS, more, &["work.c", "-o", program]].concat());
        };
        build(&[], "plain");
        build(&[&gcc.plugin(), COUNTS, MARKS], "used");
        let symbols = Command::new("nm").arg(folder.path().join("used")).output().unwrap();
        let symbols = String::from_utf8(symbols.stdout).unwrap();
        assert_eq!(symbols.contains(" work.cold\n"), is_split, "{symbols}");
        for arguments in [&[][..], &["0"], &["7"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
        }
        if is_split {
            assert!(!runs_in_cold_part(&folder, "used", "work"), "{symbols}");
        }
    }
}

/// Counts from a build by this system's compiler, for another version of GCC, which may have other graphs.
pub fn counts_of_another_compiler(gcc: &'static Compiler) {
    let (folder, system) = (sources(gcc), sources(&COMPILERS[0]));
    for (source, arguments) in [("work.c", "0"), ("thrown.cc", "thrown")] {
        let counts = recorded(&COMPILERS[0], &system, source);
        std::fs::write(folder.path().join("blocks"), counts).unwrap();
        let compiler = if source.ends_with(".cc") { gcc.cxx } else { gcc.c };
        for (more, program) in [(&[][..], "plain"), (&[&gcc.plugin(), COUNTS, "-fchecking"], "used")] {
            gcc.run(folder.path(), compiler, &[&FLAGS[..], more, &[source, "-o", program]].concat());
        }
        for arguments in [&[][..], &[arguments]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{source}");
        }
        if source == "work.c" {
            let has_part = |program| has_cold_part(&folder, program, "work");
            assert!(has_part("used") && !has_part("plain"), "the counts did not apply");
        }
    }
}

/// Counts recorded on this machine, for a program of another architecture. Functions with exceptions or jump tables are
/// not split there.
pub fn counts_serve_cross_builds(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let cross = COMPILERS.iter().find(|compiler| compiler.name == "aarch64-gcc").unwrap();
    let plugin = cross.plugin();
    // A jump table, some of whose targets never run.
    std::fs::write(folder.path().join("table.c"), TABLE).unwrap();
    for (source, arguments) in
        [("work.c", &["0", "7"][..]), ("thrown.cc", &["thrown"]), ("table.c", &["0", "9"])]
    {
        recorded(gcc, &folder, source);
        let compiler = if source.ends_with(".cc") { cross.cxx } else { cross.c };
        let used = [&FLAGS[..], &[&plugin, COUNTS, MARKS, source, "-o", "used"]].concat();
        cross.run(folder.path(), compiler, &used);
        let bytes = std::fs::read(folder.path().join("used")).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        let counted = ["work.cold", "beside.cold"];
        let is_split = binary.functions.iter().any(|function| counted.contains(&function.name.as_str()));
        assert_eq!(is_split, source != "thrown.cc", "{source}");
        for arguments in [&[][..]].into_iter().chain(arguments.chunks(1)) {
            let emulated = Command::new("qemu-aarch64")
                .current_dir(folder.path())
                .arg("./used")
                .args(arguments)
                .output()
                .unwrap();
            let expected = ran(&folder, "train", arguments);
            assert_eq!((emulated.stdout, emulated.status.code()), expected, "{source} {arguments:?}");
        }
    }
    // An option that disables parts is respected.
    let whole =
        [&FLAGS[..], &["-fno-reorder-blocks-and-partition", &plugin, COUNTS, "table.c", "-o", "used"]];
    cross.run(folder.path(), cross.c, &whole.concat());
    let bytes = std::fs::read(folder.path().join("used")).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    assert!(!binary.functions.iter().any(|function| function.name == "beside.cold"));
}

/// True if a recorded run of a program executes code in a function's cold part.
pub fn runs_in_cold_part(folder: &TempDir, program: &str, function: &str) -> bool {
    let symbols = Command::new("nm").arg("-S").arg(folder.path().join(program)).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}.cold"))).unwrap();
    let number = |field: usize| u64::from_str_radix(line.split(' ').nth(field).unwrap(), 16).unwrap();
    let part = number(0)..number(0) + number(1);
    let valgrind = Command::new("valgrind")
        .current_dir(folder.path())
        .args(["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--callgrind-out-file=executed"])
        .arg(format!("./{program}"))
        .output();
    assert!(valgrind.unwrap().status.code().is_some());
    let address = |line: &str| u64::from_str_radix(line.strip_prefix("0x")?.split(' ').next()?, 16).ok();
    read(folder, "executed").lines().filter_map(address).any(|at| part.contains(&at))
}

/// In a report of a split program, only hot parts have heat.
fn cold_parts_are_drawn_without_heat(folder: &TempDir) {
    let bytes = std::fs::read(folder.path().join("used")).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let key = FunctionKey::new(None, b"work", None).unwrap();
    let profiled = ProfiledFunction { weight: 7, group: GroupKind::Hot, first: None };
    let heat = ProfileByName::of([(&key, profiled)].into_iter());
    let layout = layout::linked("used", &binary, &heat);
    let drawn = |name: &str| layout.functions.iter().find(|function| function.name == name).unwrap();
    let (hot, cold) = (drawn("work"), drawn("work.cold"));
    assert_eq!((hot.seen, cold.seen), (Some(profiled), None));
    assert!(!(hot.address..hot.address + hot.size).contains(&cold.address));
}

/// In every dialect that can express it, and in the results of GNU ld and gold.
fn cold_parts_lie_behind_all_functions(folder: &TempDir) {
    for (linker, part) in [
        ("lld", "work.cold"),
        ("gnu-ld-script", "*(.text.unlikely.work)"),
        ("gnu-ld", "*(.text.unlikely.work)"),
        ("gold", ".text.unlikely.work"),
    ] {
        let order = ["order", "p.gv", "--binary", "used", "--linker", linker, "-o", "order"];
        done(&sediment(folder.path(), &order));
        let order = read(folder, "order");
        let lines: Vec<&str> = order.lines().map(str::trim).collect();
        let at =
            |wanted: &str| lines.iter().position(|line| *line == wanted).unwrap_or_else(|| panic!("{order}"));
        let last = lines.iter().rposition(|line| line.contains("main") || line.contains("jumps")).unwrap();
        assert!(at(part) > last, "{order}");
    }
}

/// Counts of a function's blocks in a profile.
pub fn blocks_of(profile: &str, function: &str) -> Vec<(u32, u64)> {
    let line = profile.lines().find(|line| line.trim_start().starts_with(&format!("\"{function}\" [")));
    let (_, blocks) =
        line.and_then(|line| line.split_once("blocks=\"")).unwrap_or_else(|| panic!("{profile}"));
    let (_, blocks) = blocks.split_once('"').unwrap().0.split_once(':').unwrap();
    let known = blocks.split(' ').filter_map(|block| block.split_once('='));
    known.filter_map(|(block, count)| Some((block.parse().ok()?, count.parse().ok()?))).collect()
}

/// Individually counted instructions, valgrind's blocks, and samples of a processor's clock.
pub fn sources_tell_of_the_same_blocks(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let exact = read(&folder, "p.gv");
    let lackey = [
        "--tool=lackey",
        "--trace-superblocks=yes",
        "--vex-guest-chase=no",
        "--vex-iropt-unroll-thresh=0",
        "--trace-sched=yes",
        "-v",
        "-v",
        "--log-file=log",
        "./train",
    ];
    assert!(Command::new("valgrind").current_dir(folder.path()).args(lackey).output().is_ok());
    done(&sediment(folder.path(), &["import", "--blocks", "log", "--binary", "train", "-o", "log.gv"]));
    let by_log = read(&folder, "log.gv");
    for function in ["work", "jumps", "leaves", "main"] {
        let (by_log, exact) = (blocks_of(&by_log, function), blocks_of(&exact, function));
        let is_near = |(a, b): (&(u32, u64), &(u32, u64))| a.0 == b.0 && a.1.abs_diff(b.1) <= b.1 / 20;
        let same = by_log.len() == exact.len() && by_log.iter().zip(&exact).all(is_near);
        assert!(same, "{function}: {by_log:?} {exact:?}");
    }
}

/// A real recording with a processor's clock, compared with exact counts of the same program.
pub fn samples_tell_what_is_hot(gcc: &'static Compiler) {
    let data = support::shared_data("hardware");
    let folder = gcc.folder();
    let (program, plugin) = (data.join("blocks.c").display().to_string(), gcc.plugin());
    let flags =
        [&FLAGS[..3], &["-fno-omit-frame-pointer", &plugin, MARKS, &program, "-o", "blocks"]].concat();
    gcc.run(folder.path(), gcc.c, &flags);
    let imported = |recording: &str| {
        let recording = data.join(recording).display().to_string();
        let arguments =
            ["import", "--blocks", &recording, "--binary", "blocks", "--ignore-build-id", "-o", "p.gv"];
        done(&sediment(folder.path(), &arguments));
        read(&folder, "p.gv")
    };
    let (exact, sampled) = (imported("callgrind.blocks.out"), imported("cycles.perf.data"));
    has(&sampled, &["blocks_unit=samples"]);
    for function in ["sift.constprop.0", "classify"] {
        let (exact, sampled) = (blocks_of(&exact, function), blocks_of(&sampled, function));
        // Every sampled block ran, and blocks without samples are a small part of the executions.
        let share = |of: &dyn Fn(u32) -> bool| -> u64 {
            exact.iter().filter(|(block, _)| of(*block)).map(|(_, count)| *count).sum()
        };
        assert!(sampled.iter().all(|(block, _)| exact.iter().any(|(ran, _)| ran == block)), "{sampled:?}");
        let missed = share(&|block| sampled.iter().all(|(met, _)| *met != block));
        assert!(100 * missed < 5 * share(&|_| true), "{function}: {exact:?} {sampled:?}");
    }
}

pub fn exceptions_pass_through_cold_parts(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let counts = recorded(gcc, &folder, "thrown.cc");
    assert!(counts.lines().any(|line| line.starts_with("guarded\t")), "{counts}");
    let build = |more: &[&str], program: &str| {
        gcc.run(folder.path(), gcc.cxx, &[&FLAGS, more, &["thrown.cc", "-o", program]].concat());
    };
    build(&[], "plain");
    build(&[&gcc.plugin(), COUNTS], "used");
    assert!(has_cold_part(&folder, "used", "guarded"));
    let object = |more: &[&str]| stripped(gcc, &folder, "thrown.cc", more);
    assert!(object(&[&gcc.plugin(), COUNTS]) != object(&[]), "the counts did not apply");
    for arguments in [&[][..], &["thrown"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
    }
}

/// A template in two units, one of which may be compiled without the profile: whichever copy the linker keeps, its
/// parts belong together.
pub fn functions_of_groups_are_split_in_their_group(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let grouped = THROWN.replace("noinline", "noipa").replace("guarded(int i)", "NAME(int i)");
    let (template, rest) = grouped.split_once("int main").unwrap();
    std::fs::write(folder.path().join("one.cc"), template.replace("NAME", "one")).unwrap();
    std::fs::write(folder.path().join("two.cc"), template.replace("NAME", "two")).unwrap();
    let main = format!("extern \"C\" int one(int), two(int); int main{rest}")
        .replace("guarded(", "one(i % 3) + two(");
    std::fs::write(folder.path().join("main.cc"), main).unwrap();
    let (plugin, at) =
        (gcc.plugin(), |more: &[&str]| gcc.run(folder.path(), gcc.cxx, &[&FLAGS, more].concat()));
    at(&[&plugin, MARKS, "one.cc", "two.cc", "main.cc", "-o", "train"]);
    record(&folder, &[]);
    for unit in ["one", "two", "main"] {
        at(&["-c", &format!("{unit}.cc"), "-o", &format!("{unit}-plain.o")]);
        at(&[&plugin, COUNTS, "-c", &format!("{unit}.cc"), "-o", &format!("{unit}.o")]);
    }
    let sections =
        Command::new("readelf").current_dir(folder.path()).args(["-gW", "one.o"]).output().unwrap();
    let sections = String::from_utf8(sections.stdout).unwrap();
    let group = sections.split("COMDAT group").find(|group| group.contains("[_Z2at")).unwrap();
    assert!(group.contains(".text.unlikely._Z2at") && group.contains("   .text._Z2at"), "{sections}");
    at(&["one-plain.o", "two-plain.o", "main-plain.o", "-o", "plain"]);
    for units in
        [["one.o", "two.o"], ["one-plain.o", "two.o"], ["one.o", "two-plain.o"], ["two.o", "one-plain.o"]]
    {
        let linkers: &[&str] = if gcc.runs == CompilerHost::Here { &["bfd", "gold"] } else { &["bfd"] };
        for linker in linkers {
            at(&[&units[..], &["main.o", &format!("-fuse-ld={linker}"), "-o", "used"]].concat());
            for arguments in [&[][..], &["thrown"]] {
                assert_eq!(
                    ran(&folder, "used", arguments),
                    ran(&folder, "plain", arguments),
                    "{units:?} {linker}"
                );
            }
        }
    }
}

pub fn verify_tells_what_was_split(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let (plugin, source) = (
        gcc.plugin(),
        WORK.replace(
            "case 6: return sum - 1;",
            "case 5: if (table[3]) return i; break;\n  case 6: return sum - 1;",
        ),
    );
    std::fs::write(folder.path().join("newer.c"), source).unwrap();
    let verified = |flags: &[&str], source: &str, most: &str| {
        gcc.run(folder.path(), gcc.c, &[&FLAGS, flags, &[source, "-o", "train"]].concat());
        let output = sediment(
            folder.path(),
            &["verify", "train", "--blocks", "--profile", "p.gv", "--max-cold", most, "--json"],
        );
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let functions = report["functions"].as_array().unwrap().clone();
        let work = functions.into_iter().find(|function| function["name"] == "work").unwrap();
        let coverage = report["coverage_per_million"].as_u64().unwrap();
        // All functions have the counted graphs, or no numbers, or one of them has another graph or was not executed by the work that
        // the counts are of.
        let expected = match (flags.contains(&MARKS), source) {
            (false, _) => coverage == 0,
            (true, "work.c") if most == "0" => coverage == 1_000_000,
            (true, _) => coverage > 0 && coverage < 1_000_000,
        };
        assert!(expected, "{source} {flags:?}: {coverage}");
        (
            work["layout"].as_str().unwrap().to_owned(),
            report["cold_parts_per_million"].as_u64(),
            output.status.code(),
        )
    };
    assert_eq!(verified(&[&plugin, MARKS, COUNTS], "work.c", "0"), ("split".to_owned(), Some(0), Some(0)));
    // A report has the same numbers.
    let verified_as =
        sediment(folder.path(), &["verify", "train", "--blocks", "--profile", "p.gv", "--json"]);
    let verified_as: serde_json::Value = serde_json::from_slice(&verified_as.stdout).unwrap();
    let work = verified_as["functions"].as_array().unwrap().iter().find(|row| row["name"] == "work").unwrap();
    done(&sediment(folder.path(), &["report", "p.gv", "--binary", "train", "-o", "page.html"]));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    let table = page.split("<h2>Hot and cold parts").nth(1).unwrap().split("</table>").next().unwrap();
    let row = table.split("<bdi>work</bdi>").nth(1).unwrap().split("</tr>").next().unwrap();
    for part in ["bytes", "cold_bytes"] {
        assert!(
            work[part].as_u64().unwrap() > 0 && row.contains(&format!("{} bytes</td>", work[part])),
            "{row}"
        );
    }
    assert!(row.contains(" %</td>") && row.ends_with("<td>none</td>"), "{row}");
    assert_eq!(verified(&[&plugin, COUNTS], "work.c", "0"), ("unnumbered".to_owned(), None, Some(0)));
    let (layout, _, _) = verified(&[&plugin, MARKS, COUNTS], "newer.c", "100");
    assert_eq!(layout, "split-other-graph");
    // If the program was compiled with counts of other work, the recorded code is cold.
    let counts = read(&folder, "blocks");
    gcc.run(folder.path(), gcc.c, &[&FLAGS[..], &[&plugin, MARKS, "work.c", "-o", "train"]].concat());
    record(&folder, &["0"]);
    std::fs::write(folder.path().join("blocks"), counts).unwrap();
    let (layout, cold, code) = verified(&[&plugin, MARKS, COUNTS], "work.c", "0.1");
    assert!(layout == "split" && cold > Some(1000) && code == Some(5), "{cold:?} {code:?}");
}

/// Contradictory counts, counts of missing blocks, counts of other graphs, and files that are not counts.
pub fn whatever_a_profile_says_the_program_is_the_same(gcc: &'static Compiler) {
    let (folder, plugin) = (sources(gcc), gcc.plugin());
    let counts = recorded(gcc, &folder, "work.c");
    gcc.run(folder.path(), gcc.c, &[&FLAGS[..], &["work.c", "-o", "plain"]].concat());
    let expected = [&[][..], &["0"]].map(|arguments| ran(&folder, "plain", arguments));
    let mut odd = String::from("sediment-blocks 2\n");
    for (line, text) in counts.lines().skip(1).enumerate() {
        let (function, _) = text.rsplit_once('\t').unwrap();
        let _ = write!(odd, "{function}\t");
        for block in 0..60 {
            let count = [0, 1, 7, u64::MAX, 1 << 62, 1000][(block * 7 + line * 5 + block * block) % 6];
            let _ = write!(odd, "{block}={count} ");
        }
        odd += "4294967295=3 9=?\n";
    }
    let garbled = counts.replace("=", "=99999999999999999999999");
    let shuffled: String = counts.lines().rev().map(|line| format!("{line}\n")).collect();
    // Counts of graphs that do not exist, with matching signatures, and signatures of other blocks.
    let of_other_graphs = |change: fn(&str) -> String| -> String {
        let line = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            format!("{}\t{}\t00000001\t{}\n", fields[0], fields[1], change(fields[3]))
        };
        "sediment-blocks 2\n".to_owned() + &counts.lines().skip(1).map(line).collect::<String>()
    };
    let equal_signatures = |blocks: &str| {
        let signed =
            |item: &str| item.split_once('@').map_or(item.to_owned(), |(count, _)| format!("{count}@0000"));
        blocks.split(' ').map(signed).collect::<Vec<_>>().join(" ")
    };
    let many = |_: &str| {
        (2..9000).fold(String::from("1=5"), |all, block| format!("{all} {block}={block}@{:04x}", block % 7))
    };
    let cases = [
        (odd, 0),
        (garbled, 1),
        (shuffled, 1),
        (format!("{}0", counts[..counts.len() / 2].rsplit_once('=').unwrap().0), 1),
        (of_other_graphs(str::to_owned), 0),
        (of_other_graphs(|blocks| blocks.replace('@', "@x")), 1),
        (of_other_graphs(equal_signatures), 0),
        (of_other_graphs(many), 0),
    ];
    for (text, damaged) in &cases {
        std::fs::write(folder.path().join("blocks"), text).unwrap();
        let arguments = [&FLAGS[..], &[&plugin, COUNTS, "work.c", "-o", "used"]].concat();
        let said = gcc.run(folder.path(), gcc.c, &arguments);
        let said = err(&said);
        assert!(!said.contains("internal compiler error"), "{said}");
        assert_eq!(said.matches("note: sediment: ").count(), *damaged, "{text}");
        let found = [&[][..], &["0"]].map(|arguments| ran(&folder, "used", arguments));
        assert_eq!(found, expected, "{text}");
    }
    counts_beyond_64_bits(gcc, &folder, &expected);
    let without = stripped(gcc, &folder, "work.c", &[]);
    // Of a function's other graphs, the four heaviest are compared with it.
    for (unlike, is_used) in [(3, true), (4, false)] {
        let work = counts.lines().find(|line| line.starts_with("work\t")).unwrap();
        let (_, blocks) = work.rsplit_once('\t').unwrap();
        let graphs = "work\t\t00000001\t1=9 2=9@ffff 3=9@fffe 4=9@fffd\n".repeat(unlike);
        let text = format!("sediment-blocks 2\n{graphs}work\t\t00000002\t{blocks}\n");
        std::fs::write(folder.path().join("blocks"), text).unwrap();
        let with = stripped(gcc, &folder, "work.c", &[&plugin, COUNTS]);
        assert_eq!(with != without, is_used, "{unlike} other graphs");
    }
    useless_files_leave_the_object_as_without(gcc, &folder, &counts, &without);
}

/// A profile with counts of 2^77: its file for the compiler has smaller counts, with which functions are split.
fn counts_beyond_64_bits(gcc: &'static Compiler, folder: &TempDir, expected: &[(Vec<u8>, Option<i32>); 2]) {
    let profile = read(folder, "p.gv");
    let large = profile.split_inclusive("blocks=\"").enumerate().map(|(place, text)| {
        let (blocks, rest) = text.split_once('"').filter(|_| place > 0).unwrap_or(("", text));
        let counts = blocks.split(' ').map(|item| {
            let Some((block, count)) = item.split_once('=') else { return item.to_owned() };
            let digits = count.bytes().take_while(u8::is_ascii_digit).count();
            let larger = if digits > 2 { (1u128 << 77).to_string() } else { count[..digits].to_owned() };
            format!("{block}={larger}{}", &count[digits..])
        });
        let counts: Vec<String> = counts.collect();
        if place > 0 { format!("{}\"{rest}", counts.join(" ")) } else { rest.to_owned() }
    });
    let large: String = large.collect();
    assert!(large.contains("=151115727451828646838272"), "{large}");
    std::fs::write(folder.path().join("large.gv"), large).unwrap();
    done(&sediment(folder.path(), &["export", "large.gv", "--format", "blocks", "-o", "blocks"]));
    let plugin = gcc.plugin();
    let arguments = [&FLAGS[..], &[&plugin, COUNTS, "work.c", "-o", "used"]].concat();
    let said = err(&gcc.run(folder.path(), gcc.c, &arguments));
    assert!(!said.contains("sediment: "), "{said}");
    assert!(has_cold_part(folder, "used", "work"));
    let found = [&[][..], &["0"]].map(|arguments| ran(folder, "used", arguments));
    assert_eq!(&found, expected);
}

/// Counts of another program, and a file that is not a file of counts.
fn useless_files_leave_the_object_as_without(
    gcc: &'static Compiler,
    folder: &TempDir,
    counts: &str,
    without: &[u8],
) {
    let plugin = gcc.plugin();
    // The functions of another program are not found.
    let other = recorded(gcc, folder, "thrown.cc").replace("\nmain\t", "\nmain2\t");
    assert!(other.contains("\nguarded\t"), "{other}");
    std::fs::write(folder.path().join("blocks"), other).unwrap();
    assert!(stripped(gcc, folder, "work.c", &[&plugin, COUNTS]) == without);
    // A file that is not a file of counts causes one note, and the object is the same as without it.
    std::fs::write(folder.path().join("blocks"), "digraph { }\n").unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("fifo")).status();
    assert!(made.unwrap().success());
    // A line of 16 GiB of zeros, which take no space.
    let endless = folder.path().join("endless");
    std::fs::write(&endless, "sediment-blocks 2\n").unwrap();
    std::fs::File::options().write(true).open(endless).unwrap().set_len(1 << 34).unwrap();
    for file in ["blocks", "nowhere", "/dev/null", "empty", "folder", "fifo", "endless"] {
        let counts = format!("-fplugin-arg-sediment-profile={file}");
        let arguments = [&FLAGS[..], &[&plugin, &counts, "-c", "work.c", "-o", "object.o"]].concat();
        let said = gcc.run(folder.path(), gcc.c, &arguments);
        let said = err(&said);
        assert_eq!(said.matches("note: sediment: ").count(), 1, "{said}");
        assert!(file == "endless" || said.contains(&format!(" {file}: ")), "{said}");
        assert!(stripped(gcc, folder, "work.c", &[&plugin, &counts]) == without, "{file}");
    }
    // Of two files, the last one is used, and nothing of the other.
    std::fs::write(folder.path().join("blocks"), counts).unwrap();
    let with = stripped(gcc, folder, "work.c", &[&plugin, COUNTS]);
    assert!(with != without);
    let nothing = COUNTS.replace("=blocks", "=empty");
    assert!(stripped(gcc, folder, "work.c", &[&plugin, COUNTS, &nothing]) == without);
    assert!(stripped(gcc, folder, "work.c", &[&plugin, &nothing, COUNTS]) == with);
}
