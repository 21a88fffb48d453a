// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters from several sources in one build: from recordings and instrumentation, from several trees, from units that
//! are joined at the link, and from two compilers.

use super::blocks::ran;
use super::counters::{COUNTERS, TRAIN, USE, WORK, build_logged};
use super::{done, early, err, read, sediment, split};
use crate::compilers::Compiler;
use crate::running::command;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The usual work, and a function whose beginning GCC splits from the rest, before or after it counts.
fn work() -> String {
    let more = "static int rest(int *sum, int i)\n{\n  if (i % 3)\n    return i;\n  for (int j = 0; j < 9; j++)\n    { sum[0] += j * i; table[sum[0] & 63] ^= j; sum[0] ^= table[j]; puts(\"\"); }\n  return sum[0];\n}\nint main(";
    split::work()
        .replace("int main(", more)
        .replace("leaves(i);", "leaves(i) + rest(&sum, i) - rest(&sum, i + 1);")
}

/// Writes the counters of profiles as `counters`.
fn export(folder: &Path, profiles: &[&str]) -> String {
    done(&sediment(folder, &[&["merge"], profiles, &["-o", "mixed.gv"]].concat()));
    done(&sediment(folder, &["export", "mixed.gv", "--format", "counters", "-o", "counters"]));
    std::fs::read_to_string(folder.join("counters")).unwrap()
}

/// The counters of two profiles in one file, unchanged: shares in a merged profile are rounded, and GCC corrects
/// contradictory counts.
fn joined(folder: &Path, profiles: [&str; 2]) -> String {
    let texts = profiles.map(|profile| {
        done(&sediment(folder, &["export", profile, "--format", "counters", "-o", "counters"]));
        std::fs::read_to_string(folder.join("counters")).unwrap()
    });
    let largest =
        texts.iter().map(|text| text.lines().next().unwrap()).max_by_key(|line| line.len()).unwrap();
    let mut lines: Vec<&str> = texts.iter().flat_map(|text| text.lines().skip(1)).collect();
    lines.sort_unstable();
    let text = format!("{largest}\n{}\n", lines.join("\n"));
    std::fs::write(folder.join("counters"), &text).unwrap();
    text
}

/// Zeros of a recording are not exact. A unit with recorded counters stays whole, next to one with instrumented
/// counters that is split.
pub fn mixed_profiles_split_what_was_instrumented(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let trained = folder.path().join("trained");
    std::fs::create_dir(&trained).unwrap();
    for unit in ["early.c", "own.c", "trained/own.c", "trained/early.c"] {
        std::fs::write(folder.path().join(unit), work()).unwrap();
    }
    early::recorded(gcc, &folder, "early.c", &[]);
    let train = |unit: &str, profile: &str| {
        gcc.run(&trained, gcc.c, &[&TRAIN[..], &["-static", unit, "-o", "train"]].concat());
        let mut train = Command::new(trained.join("train"));
        assert!(train.env("GCOV_PREFIX", trained.join("elsewhere")).output().unwrap().status.success());
        done(&sediment(&trained, &["import", ".", "-o", profile]));
        std::fs::remove_dir_all(trained.join("elsewhere")).unwrap();
    };
    train("own.c", "own.gv");
    train("early.c", "both.gv");
    let plugin = gcc.plugin();
    let is_split = |unit: &str| {
        let flags = ["-w", "-ffunction-sections", &plugin, COUNTERS, "-c", unit, "-o", "used.o"];
        let used = gcc.run(folder.path(), gcc.c, &[&USE[..], &flags].concat());
        assert!(!err(&used).contains("have changed"), "{unit}: {}", err(&used));
        gcc.run(folder.path(), gcc.c, &["-static", "used.o", "-o", "used"]);
        for arguments in [&[][..], &["0"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{unit}");
        }
        split::symbols(&folder, "used.o").iter().any(|(symbol, _)| symbol == "work.cold")
    };
    let mixed = joined(folder.path(), ["early.gv", "trained/own.gv"]);
    assert!(mixed.contains("\tearly+early.c@") && mixed.contains("\town.c@"), "{mixed}");
    assert_eq!(["early.c", "own.c"].map(is_split), [false, true]);
    // If a unit has both, the instrumented counters are used.
    let both = joined(folder.path(), ["early.gv", "trained/both.gv"]);
    assert!(both.contains("\tearly+early.c@") && both.contains("\tearly.c@"), "{both}");
    assert!(is_split("early.c"));
}

/// Threads that count together (`-fprofile-update=atomic`), and processes that each write a tree.
pub fn trees_of_several_runs_add_up(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    let flags = ["-fprofile-update=atomic", "-static", "work.c", "-o", "train"];
    gcc.run(folder.path(), gcc.c, &[&TRAIN[..], &flags].concat());
    let total = |trees: &[&str]| -> u64 {
        for tree in trees {
            let mut train = Command::new(folder.path().join("train"));
            train.env("GCOV_PREFIX", folder.path().join(tree)).env("GCOV_PREFIX_STRIP", "1");
            assert!(train.output().unwrap().status.success());
        }
        done(&sediment(folder.path(), &["import", ".", "-o", "p.gv"]));
        let profile = read(&folder, "p.gv");
        let (_, total) = profile.split_once("counters_total=").unwrap();
        total.split([',', ']']).next().unwrap().parse().unwrap()
    };
    let once = total(&["one"]);
    assert!(once >= 5000, "{once}");
    assert_eq!(total(&["two", "deep/three"]), 3 * once);
}

/// Units use their counters when they are compiled. A link with the plugin's options splits by them.
pub fn counters_with_link_time_optimisation(gcc: &'static Compiler) {
    let folder = gcc.folder();
    for (unit, text) in [("work.c", work()), ("other.c", "int other(int x) { return x + 1; }\n".into())] {
        std::fs::write(folder.path().join(unit), text).unwrap();
    }
    let plugin = gcc.plugin();
    let units = ["-w", "-static", "work.c", "other.c", "-o"];
    gcc.run(folder.path(), gcc.c, &[&["-O2"], &units[..], &["plain"]].concat());
    gcc.run(folder.path(), gcc.c, &[&TRAIN[..], &units, &["train"]].concat());
    let mut train = Command::new(folder.path().join("train"));
    let train = train.env("GCOV_PREFIX", folder.path().join("elsewhere")).output().unwrap();
    assert!(train.status.success());
    done(&sediment(folder.path(), &["import", ".", "-o", "p.gv"]));
    export(folder.path(), &["p.gv"]);
    let with = [&USE[..], &["-w", "-flto", "-ffunction-sections", &plugin, COUNTERS]].concat();
    let link = |flags: &[&str], program: &str| {
        let linked = ["-flto", "-static", "work.o", "other.o", "-o", program];
        gcc.run(folder.path(), gcc.c, &[&["-O2"], flags, &linked].concat());
        for arguments in [&[][..], &["0"], &["7"]] {
            assert_eq!(ran(&folder, program, arguments), ran(&folder, "plain", arguments), "{flags:?}");
        }
        let code =
            Command::new("objdump").args(["-d", "-j", ".text"]).arg(folder.path().join(program)).output();
        let is_split = split::symbols(&folder, program).iter().any(|(symbol, _)| symbol == "work.cold");
        (is_split, code.unwrap().stdout)
    };
    let compile = |source: &str| build_logged(gcc, folder.path(), &[&with[..], &["-c", source]].concat());
    let [(functions, changed)] = compile("work.c")[..] else { panic!("one unit") };
    assert!(functions >= 4 && changed == 0, "{changed} of {functions}");
    gcc.run(folder.path(), gcc.c, &[&with[..], &["-c", "other.c"]].concat());
    let code = link(&[], "used").1;
    assert!(link(&with, "split").0);
    // Without counters the same options give other code.
    let text = read(&folder, "counters");
    std::fs::write(folder.path().join("counters"), &text[..=text.find('\n').unwrap()]).unwrap();
    gcc.run(folder.path(), gcc.c, &[&with[..], &["-c", "work.c"]].concat());
    assert!(code != link(&[], "used").1, "counters change nothing");
}

/// A program with units compiled by GCC and by clang, trained together: one profile has both kinds of counters, and
/// each compiler gets its own.
pub fn units_of_two_compilers(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let gcc_unit =
        WORK.replace("int main", "int clang(int x);\nint main").replace("step(i)", "step(i) + clang(i)");
    let clang_unit = "int clang(int x) { if (x % 1000 == 7) return x * 5; return x ^ 3; }\n";
    for (unit, text) in [("work.c", gcc_unit.as_str()), ("clang.c", clang_unit)] {
        std::fs::write(folder.path().join(unit), text).unwrap();
    }
    let clang = |words: &[&str]| {
        let output = Command::new("clang-19").current_dir(folder.path()).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", err(&output));
    };
    gcc.run(folder.path(), gcc.c, &[&TRAIN[..], &["-c", "work.c"]].concat());
    clang(&["-O2", "-fprofile-generate=runs", "-c", "clang.c"]);
    let libgcov = gcc.run(folder.path(), gcc.c, &["-print-file-name=libgcov.a"]).stdout;
    let libgcov = String::from_utf8(libgcov).unwrap();
    clang(&["-fprofile-generate=runs", "work.o", "clang.o", libgcov.trim(), "-o", "train"]);
    let expected = ran_there(&folder, "train");
    let import = |what: &str, profile: &str| {
        let words = ["import", what, "--llvm-profdata", "llvm-profdata-19", "-o", profile];
        done(&sediment(folder.path(), &words));
    };
    import("runs", "clang.gv");
    std::fs::remove_dir_all(folder.path().join("runs")).unwrap();
    import(".", "gcc.gv");
    let text = export(folder.path(), &["gcc.gv", "clang.gv"]);
    assert!(text.contains("\tstep\t") || text.contains("\nstep\t"), "{text}");
    assert!(!text.contains("llvm-ir"), "{text}");
    let words = [
        "export",
        "mixed.gv",
        "--llvm-profdata",
        "llvm-profdata-19",
        "--format",
        "profdata",
        "-o",
        "clang.profdata",
    ];
    done(&sediment(folder.path(), &words));
    let plugin = gcc.plugin();
    let flags = [&USE[..], &[&plugin, COUNTERS, "-c", "work.c"]].concat();
    let [(functions, changed)] = build_logged(gcc, folder.path(), &flags)[..] else { panic!("one unit") };
    assert!(functions >= 3 && changed == 0, "{changed} of {functions}");
    clang(&[
        "-O2",
        "-fprofile-use=clang.profdata",
        "-Werror=profile-instr-unprofiled",
        "-Werror",
        "-c",
        "clang.c",
    ]);
    clang(&["work.o", "clang.o", "-o", "used"]);
    assert_eq!(ran_there(&folder, "used"), expected);
}

/// A build that uses only the folder of `sediment wrapper` is compiled with the counters of its profile.
pub fn a_folder_of_the_wrapper_has_the_counters(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    gcc.run(folder.path(), gcc.c, &[&TRAIN[..], &["-static", "work.c", "-o", "work"]].concat());
    let mut train = Command::new(folder.path().join("work"));
    let train = train.env("GCOV_PREFIX", folder.path().join("elsewhere")).output().unwrap();
    assert!(train.status.success());
    done(&sediment(folder.path(), &["import", ".", "--binary", "work", "-o", "work.gv"]));
    support::plugin::put_before_compilers(gcc.c, &folder.path().join("scripts"));
    let wrapper = |scripts: &str| {
        let mut wrapper = command(folder.path(), &["wrapper", "DIR", "--profiles", "work.gv"]);
        let output = wrapper.env("SEDIMENT_COMPILERS", folder.path().join(scripts)).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        err(&output)
    };
    let build = |variables: &[(&str, &str)], log: &str| {
        let mut compiler = gcc.command(folder.path(), gcc.c);
        compiler.args(["-O2", "-ffunction-sections", "-static", "-BDIR", "work.c", "-o", "used"]);
        let log = folder.path().join(log);
        let built = compiler.envs(variables.iter().copied()).env("SEDIMENT_LOG", &log).output().unwrap();
        assert!(built.status.success(), "{}", err(&built));
        std::fs::read_to_string(log.join("counters.jsonl")).unwrap_or_default()
    };
    let told = wrapper("nowhere");
    assert!(told.contains("sediment-gcc-plugin"), "{told}");
    assert_eq!(build(&[], "log0"), "");
    let told = wrapper("scripts");
    assert!(!told.contains("sediment-gcc-plugin"), "{told}");
    let logged = build(&[], "log1");
    // A third one has too few executions.
    assert!(logged.contains("\"functions\":2,\"changed\":0"), "{logged}");
    let expected = "6349965\n";
    let output = Command::new(folder.path().join("used")).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    // A build with other settings, and a later profile without counters.
    assert_eq!(build(&[("SEDIMENT_COUNTERS", "")], "log2"), "");
    std::fs::write(
        folder.path().join("work.gv"),
        "digraph { graph [sediment=3, unit=calls, total=1]; \"main\" [dso=work]; }\n",
    )
    .unwrap();
    assert!(!wrapper("scripts").contains("counters"));
    assert_eq!(build(&[], "log3"), "");
}

/// Returns output and exit code of a program run in the folder.
fn ran_there(folder: &TempDir, program: &str) -> (Vec<u8>, Option<i32>) {
    let output = Command::new(folder.path().join(program)).current_dir(folder.path()).output().unwrap();
    (output.stdout, output.status.code())
}
