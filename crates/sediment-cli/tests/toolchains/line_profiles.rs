// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles by source line: how clang, rustc and Go use the output of `sediment export`.

use crate::running::{code, done, err, sediment};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;
use support::{Need, case, root};
use tempfile::TempDir;

pub(crate) fn cases() -> Vec<Trial> {
    let clang = [Need::Program("clang-19"), Need::Program("valgrind"), Need::Program("cc")];
    let rust = [Need::Program("rustc"), Need::Program("valgrind")];
    vec![
        case("clang_reads_executions_by_line", &clang, clang_reads_executions_by_line),
        case(
            "counters_of_clang_come_back_from_text",
            &[Need::Program("clang-19"), Need::Program("llvm-profdata-19")],
            counters_of_clang_come_back_from_text,
        ),
        case(
            "recordings_count_executed_lines",
            &[Need::Program("gcc"), Need::Program("valgrind")],
            recordings_count_executed_lines,
        ),
        case("an_order_becomes_times_of_first_calls", &[], an_order_becomes_times_of_first_calls),
        case("rustc_reads_executions_by_line", &rust, rustc_reads_executions_by_line),
        case(
            "go_takes_the_calls_of_its_own_profile",
            &[Need::Program("go")],
            go_takes_the_calls_of_its_own_profile,
        ),
        case(
            "a_program_without_lines_is_refused",
            &[Need::Program("gcc"), Need::Program("valgrind")],
            a_program_without_lines_is_refused,
        ),
    ]
}

/// A unit in which one path is executed in ten calls, with an inlined function in it.
const WORK: &str = "#include <stdio.h>
static int table[64];
static inline __attribute__((always_inline)) int inner(int x)
{
  int sum = 0;
  for (int j = 0; j < 4; j++)
    sum += table[(x + j) & 63]++;
  return sum;
}
__attribute__((noinline)) int work(int i)
{
  int sum = i;
  if (i % 10 == 0)
    sum += inner(i);
  else
    table[i & 63] ^= 5;
  return sum;
}
int main(void)
{
  unsigned sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += work(i);
  printf(\"%u\\n\", sum);
  return 0;
}
";

fn run(folder: &Path, words: &[&str]) -> std::process::Output {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", err(&output));
    output
}

fn record(folder: &Path) {
    record_by_callgrind(folder);
    let words = ["export", "recorded", "--binary", "program", "--format", "llvm-sample", "-o", "samples"];
    done(&sediment(folder, &words));
}

fn record_by_callgrind(folder: &Path) {
    let words = [
        "valgrind",
        "--tool=callgrind",
        "--demangle=no",
        "--dump-instr=yes",
        "--callgrind-out-file=recorded",
        "./program",
    ];
    run(folder, &words);
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

/// Returns the lines of a function, beginning with its head.
fn body<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("{name}:")));
    let mut body: Vec<&str> = lines.clone().take(1).collect();
    body.extend(lines.skip(1).take_while(|line| line.starts_with(' ')));
    body
}

fn clang_reads_executions_by_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    let flags = [
        "clang-19",
        "-O2",
        "-g",
        "-fdebug-info-for-profiling",
        "-fno-vectorize",
        "-fno-unroll-loops",
        "work.c",
    ];
    run(folder.path(), &[&flags[..], &["-o", "program"]].concat());
    record(folder.path());
    let text = read(&folder, "samples");
    let work = body(&text, "work");
    assert!(work[0].ends_with(":2000"), "called 2000 times: {text}");
    assert!(work.iter().any(|line| line.starts_with(" 4: inner:")), "{text}");
    let inlined = work.iter().filter(|line| line.starts_with("  ")).copied().collect::<Vec<_>>();
    assert!(inlined.iter().any(|line| line.ends_with(": 800")), "4 rounds of 200 calls: {text}");
    // Only of the given program.
    assert!(!text.contains("_dl_"), "{text}");
    assert!(work.iter().any(|line| line.starts_with(" 6") && line.ends_with(": 1800")), "{text}");
    // The same recording gives the same bytes; used twice, it gives twice the counts.
    let twice = ["export", "recorded", "recorded", "--binary", "program", "--format", "llvm-sample"];
    let twice = sediment(folder.path(), &twice);
    assert!(String::from_utf8(twice.stdout).unwrap().contains(":4000\n"));
    // The compiler accepts it, even if it may split functions with it.
    let with = ["-fprofile-sample-use=samples", "-fsplit-machine-functions", "-o", "optimised"];
    let used = run(folder.path(), &[&flags[..], &with].concat());
    assert!(!err(&used).contains("error"), "{}", err(&used));
    let remarks = ["-fprofile-sample-use=samples", "-Rpass-analysis=sample-profile", "-S", "-o", "asm"];
    let said = run(folder.path(), &[&flags[..], &remarks].concat());
    assert!(err(&said).contains("Applied 1800 samples"), "{}", err(&said));
    let printed = |program: &str| run(folder.path(), &[program]).stdout;
    assert_eq!(printed("./optimised"), printed("./program"));
}

/// Cases of a switch, half of which run, after a jump through a table; a loop; a condition on one line; split-off code.
const CASES: &str = include_str!("programs/cases.c");

/// `record` counts the same lines as a recording by callgrind that is exported.
fn recordings_count_executed_lines() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cases.c"), CASES).unwrap();
    for flags in [&["-O2"][..], &["-O1", "-fno-jump-tables"]] {
        run(folder.path(), &[&["gcc", "-g", "cases.c", "-o", "program"], flags].concat());
        for argument in [&[][..], &["more"]] {
            let valgrind = ["valgrind", "--tool=callgrind", "--demangle=no", "--dump-instr=yes"];
            let words = ["--callgrind-out-file=recorded", "./program"];
            run(folder.path(), &[&valgrind[..], &words, argument].concat());
            let export =
                ["export", "recorded", "--binary", "program", "--format", "llvm-sample", "-o", "exact"];
            done(&sediment(folder.path(), &export));
            let record = ["record", "--format", "llvm-sample"];
            let words = ["--only", "program", "--", "./program"];
            let recorded = sediment(folder.path(), &[&record[..], &words, argument].concat());
            std::fs::rename(folder.path().join("sediment.prof"), folder.path().join("found")).unwrap();
            let plain = run(folder.path(), &[&["./program"], argument].concat());
            assert_eq!(recorded.stdout, plain.stdout, "{}", err(&recorded));
            done(&recorded);
            let lines = |file: &str, name: &str| {
                let text = read(&folder, file);
                let body = body(&text, name);
                assert!(body.len() > 1, "{name} in {file}: {text}");
                let executed = body[1..].iter().filter(|line| !line.ends_with(": 0"));
                executed.filter_map(|line| line.split(':').next()).map(str::to_owned).collect::<Vec<_>>()
            };
            for name in ["choose", "search", "increase", "main"] {
                assert_eq!(lines("found", name), lines("exact", name), "{name} {flags:?} {argument:?}");
            }
            assert!(!read(&folder, "found").contains("fail:"), "it did not run");
            assert!(!read(&folder, "found").contains("_dl_"), "of the program that was named alone");
        }
    }
}

fn an_order_becomes_times_of_first_calls() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.order"), "work\nmain\nwork.cold\n").unwrap();
    let words = ["export", "one.order", "--format", "gcc-order", "-o", "times"];
    done(&sediment(folder.path(), &words));
    let times = std::fs::read(folder.path().join("times")).unwrap();
    assert_eq!(times[..8], [0x61, 0x64, 0x63, 0x67, 3, 0, 0, 0]);
    let two = sediment(folder.path(), &["export", "one.order", "one.order", "--format", "gcc-order"]);
    assert_eq!(code(&two), 2, "{}", err(&two));
    std::fs::write(folder.path().join("none"), "two words are no order\n").unwrap();
    let refused = sediment(folder.path(), &["export", "none", "--format", "gcc-order"]);
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(refused.stdout.is_empty());
}

/// From `.profraw` through the text of a profile to `.profdata`, which clang accepts in a build elsewhere, with any
/// kind of instrumentation. Checks callees of indirect calls and sizes of copies, as LLVM prints them from a file of
/// counters.
fn values(folder: &Path, file: &str) -> Vec<String> {
    let words = ["llvm-profdata-19", "show", "--all-functions", "--ic-targets", "--memop-sizes", file];
    let shown = String::from_utf8(run(folder, &words).stdout).unwrap();
    let shown = shown.lines().map(str::trim).filter(|line| line.starts_with('['));
    let mut values: Vec<String> = shown.map(|line| line.replace("src/work.c", "work.c")).collect();
    values.sort();
    values
}

fn counters_of_clang_come_back_from_text() {
    const WARNINGS: [&str; 3] =
        ["-Werror=profile-instr-out-of-date", "-Werror=profile-instr-unprofiled", "-Werror"];
    let kinds = [
        ("-fprofile-generate", "-fprofile-use=counters.profdata", "llvm-ir+work.c@"),
        ("-fprofile-instr-generate", "-fprofile-instr-use=counters.profdata", "llvm-fe+work.c@"),
    ];
    // An indirect call, and a copy of varying size.
    let work =
        WORK.replace("__attribute__((noinline)) int work", "__attribute__((noinline)) static int work");
    let work =
        work.replace("int main(void)\n{", "int (*volatile chosen)(int) = work;\nint main(void)\n{").replace(
            "sum += work(i);",
            "sum += chosen(i), __builtin_memcpy(table + 32, table, i % 3 * sizeof *table);",
        );
    for (generate, using, unit) in kinds {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(there.path().join("src")).unwrap();
        std::fs::write(there.path().join("src/work.c"), &work).unwrap();
        std::fs::write(here.path().join("work.c"), &work).unwrap();
        run(there.path(), &["clang-19", "-O2", generate, "src/work.c", "-o", "program"]);
        std::fs::create_dir(there.path().join("runs")).unwrap();
        for name in ["runs/one.profraw", "runs/two.profraw"] {
            let mut program = Command::new(there.path().join("program"));
            let program = program.current_dir(there.path()).env("LLVM_PROFILE_FILE", there.path().join(name));
            assert!(program.output().unwrap().status.success());
        }
        let words = ["import", "runs", "--llvm-profdata", "llvm-profdata-19", "-o", "p.gv"];
        done(&sediment(there.path(), &words));
        let profile = read(&there, "p.gv");
        assert!(profile.contains(unit), "{profile}");
        // Two runs: 4000 calls.
        assert!(profile.contains("4000"), "{profile}");
        let export = |format: &str, file: &str| {
            let file = here.path().join(file).display().to_string();
            let words =
                ["export", "p.gv", "--llvm-profdata", "llvm-profdata-19", "--format", format, "-o", &file];
            done(&sediment(there.path(), &words));
        };
        export("profdata", "counters.profdata");
        export("proftext", "counters.proftext");
        // The compiler finds all functions and their graphs; local functions are found by the last part of the path.
        let with = [&["clang-19", "-O2", using][..], &WARNINGS, &["work.c", "-o", "optimised"]].concat();
        run(here.path(), &with);
        run(here.path(), &["clang-19", "-O2", "work.c", "-o", "plain"]);
        let printed = |program: &str| run(here.path(), &[program]).stdout;
        assert_eq!(printed("./optimised"), printed("./plain"));
        let code = |program: &str| run(here.path(), &["objdump", "-d", "-j", ".text", program]).stdout;
        assert!(code("./optimised") != code("./plain"), "counters change nothing");
        if generate == "-fprofile-generate" {
            let merge =
                ["llvm-profdata-19", "merge", "runs/one.profraw", "runs/two.profraw", "-o", "own.profdata"];
            run(there.path(), &merge);
            let own = values(there.path(), "own.profdata");
            assert!(own.iter().any(|line| line.contains("work.c;work")) && own.len() > 2, "{own:?}");
            assert_eq!(values(here.path(), "counters.profdata"), own);
        }
        // LLVM itself can read the text.
        let shown = run(
            here.path(),
            &["llvm-profdata-19", "show", "--all-functions", "--counts", "counters.proftext"],
        );
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("work:") && shown.contains("4000"), "{shown}");
        // A truncated file is an error, and no profile is written.
        let whole = std::fs::read(there.path().join("runs/one.profraw")).unwrap();
        std::fs::write(there.path().join("cut.profraw"), &whole[..whole.len() / 2]).unwrap();
        let cut = sediment(there.path(), &["import", "cut.profraw", "-o", "cut.gv"]);
        assert_eq!(crate::running::code(&cut), 1, "{}", err(&cut));
        assert!(!there.path().join("cut.gv").exists());
    }
}

fn rustc_reads_executions_by_line() {
    const MAIN: &str = "#[inline(never)]
pub fn work(i: u32) -> u32 {
    if i % 10 == 0 {
        return std::hint::black_box(i * 7);
    }
    i.rotate_left(3) ^ std::hint::black_box(i)
}
fn main() {
    println!(\"{}\", (0..2000).fold(0u32, |sum, i| sum.wrapping_add(work(i))));
}
";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.rs"), MAIN).unwrap();
    let compile = |more: &[&str]| {
        let mut rustc = Command::new("rustc");
        rustc.args(["-O", "-g", "-Zdebug-info-for-profiling", "main.rs"]).args(more);
        // These options need a nightly compiler.
        rustc.env("RUSTC_BOOTSTRAP", "1").current_dir(folder.path()).output().unwrap()
    };
    let built = compile(&["-o", "program"]);
    assert!(built.status.success(), "{}", err(&built));
    record(folder.path());
    let text = read(&folder, "samples");
    let work = text.lines().find(|line| line.contains("4work") && !line.starts_with(' '));
    assert!(work.is_some_and(|line| line.ends_with(":2000")), "{text}");
    let used = compile(&["-Zprofile-sample-use=samples", "-o", "optimised"]);
    assert!(used.status.success() && err(&used).is_empty(), "{}", err(&used));
    assert_eq!(run(folder.path(), &["./optimised"]).stdout, run(folder.path(), &["./program"]).stdout);
}

/// Calls by line that Go's compiler reads from a profile, sorted.
fn taken(folder: &Path, profile: &str) -> Vec<String> {
    run(folder, &["go", "tool", "preprofile", "-i", profile, "-o", "taken"]);
    let text = std::fs::read_to_string(folder.join("taken")).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let mut calls: Vec<String> = lines.chunks(3).map(|call| call.join(" ")).collect();
    calls.sort();
    assert!(!calls.is_empty());
    calls
}

fn go_takes_the_calls_of_its_own_profile() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("tests/golden/line_profile/go.pprof"), folder.path().join("cpu.pprof"))
        .unwrap();
    let export = |more: &[&str], to: &str| {
        let words = [&["export", "cpu.pprof", "--format", "go-pgo", "-o", to], more].concat();
        done(&sediment(folder.path(), &words));
        std::fs::read(folder.path().join(to)).unwrap()
    };
    let whole = export(&["--keep", "100"], "whole.pgo");
    assert_eq!(taken(folder.path(), "whole.pgo"), taken(folder.path(), "cpu.pprof"));
    assert_eq!(export(&["--keep", "100"], "again.pgo"), whole);
    // The answer of a query API contains the same file.
    let encoded =
        Command::new("base64").args(["-w0", "cpu.pprof"]).current_dir(folder.path()).output().unwrap();
    let encoded = String::from_utf8(encoded.stdout).unwrap();
    std::fs::write(folder.path().join("answer.json"), format!("{{\"pprof\": \"{encoded}\"}}")).unwrap();
    let words = ["export", "answer.json", "--format", "go-pgo", "--keep", "100", "-o", "answer.pgo"];
    done(&sediment(folder.path(), &words));
    assert_eq!(std::fs::read(folder.path().join("answer.pgo")).unwrap(), whole);
    // Its output is itself a profile with lines.
    std::fs::copy(folder.path().join("whole.pgo"), folder.path().join("cpu.pprof")).unwrap();
    assert_eq!(export(&["--keep", "100"], "again.pgo"), whole);
    export(&["--keep", "50"], "half.pgo");
    let half = taken(folder.path(), "half.pgo");
    assert!(half.len() < taken(folder.path(), "whole.pgo").len(), "{half:?}");
    // Two equal profiles give one with the same shares of the weight.
    export(&["cpu.pprof", "--keep", "100"], "both.pgo");
    assert_eq!(taken(folder.path(), "both.pgo").len(), taken(folder.path(), "whole.pgo").len());
    for wrong in ["0", "101", "x"] {
        let words = ["export", "cpu.pprof", "--format", "go-pgo", "--keep", wrong];
        assert_eq!(code(&sediment(folder.path(), &words)), 2);
    }
}

fn a_program_without_lines_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    run(folder.path(), &["gcc", "-O1", "work.c", "-o", "program"]);
    run(
        folder.path(),
        &["valgrind", "--tool=callgrind", "--dump-instr=yes", "--callgrind-out-file=recorded", "./program"],
    );
    for format in ["llvm-sample", "go-pgo"] {
        let refused =
            sediment(folder.path(), &["export", "recorded", "--binary", "program", "--format", format]);
        assert_eq!(code(&refused), 1, "{}", err(&refused));
        assert!(refused.stdout.is_empty());
    }
    let profile = sediment(folder.path(), &["export", "work.c", "--format", "blocks", "--binary", "program"]);
    assert_eq!(code(&profile), 2, "{}", err(&profile));
}
