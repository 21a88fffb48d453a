// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions whose blocks are difficult to move, with the flags of packages: split or whole, they behave the same.

use crate::compilers::{COMPILERS, Compiler};
use crate::gcc_plugin::blocks::{COUNTS, MARKS, WORK, ran, record, record_as, runs_in_cold_part};
use crate::running::sediment;
use sediment_core::binary::{Binary, NoFiles};
use std::process::Command;
use tempfile::TempDir;

/// A section of its own, no frame, `asm goto`, a jump table, an unlikely function, one optimised for size.
const FUNCTIONS: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int table[64];
__attribute__((noinline)) static int never(int x) { return x * 31 + table[x & 63]; }
__attribute__((noinline, section(".text.mine"))) int own_section(int i, int u) { int s = i; if (u == 0) for (int j = 0; j < 8; j++) s += never(j + i) ^ never(j * 3); return s; }
__attribute__((naked, noinline)) int bare(int x, int u) { __asm__ goto ("test %%esi, %%esi\n\tjz %l0" : : : "cc" : zero); __asm__("lea 1(%rdi), %eax\n\tret"); zero: __asm__("nop"); __asm__("nop"); __asm__("nop"); __asm__("nop"); __asm__("lea 2(%rdi), %eax\n\tret"); }
__attribute__((noinline)) int with_goto(int x, int u) { __asm__ goto ("test %0, %0\n\tjz %l1" : : "r"(u) : "cc" : zero); return x + 1; zero: __attribute__((cold)); for (int j = 0; j < 8; j++) x += never(j) ^ x; return x; }
__attribute__((noinline)) int table_jump(int x, int u) { switch (x % 12) { case 0: return never(x); case 1: return x * 2; case 2: return u ? x : never(x) + never(x + 1); case 3: return 9; case 4: return x - 3; case 5: return x ^ 77; case 6: x += 5; case 7: x *= 2; break; case 8: if (!u) abort(); return 1; default: return 3; } return x; }
__attribute__((noinline, cold)) int coldfn(int x, int u) { if (!u) return never(x) * never(x + 2); return x + 5; }
__attribute__((noinline, optimize("Os"))) int small(int x, int u) { if (!u) for (int j = 0; j < 8; j++) x += never(x) ^ j; return x; }
extern int util(int, int), util2(int, int);
int main(int c, char **v) { int u = c < 2, s = 0; for (int i = 0; i < 3000; i++) s += own_section(i, u) + bare(i, u) + with_goto(i, u) + table_jump(i, u || i % 12 == 8) + coldfn(i, u) + small(i, u) + util(i, u) + util2(i, u); printf("%d\n", s); return 0; }
"#;
/// Two units with the same name, each with a local function of the same name.
const UTIL: &str = r"static int table[64];
__attribute__((noinline)) static int local(int x, int u) { if (u == ROLE) for (int j = 0; j < 9; j++) x += table[(x * j) & 63] * 3 + x; return x + ROLE; }
int NAME(int x, int u) { return local(x, u) + local(x + 2, u); }
";

/// A local function with a loop, with a branch that a usual run does not take, and another with the same name without
/// such a branch.
const LOCAL_WITH_LOOP: &str = r#"#include <stdio.h>
static int table[64];
__attribute__((noinline)) static int local(int x, int unusual) { int sum = x; for (int j = 0; j < (x & 7); j++) { if (unusual) { sum ^= table[(sum + j) & 63] * 3; table[sum & 63] += j; printf("%d\n", sum); } sum += j ^ x; } return sum; }
int first(int x, int unusual) { return local(x, unusual) + local(x + 3, unusual); }
"#;
const LOCAL_WITH_DIVISION: &str = r"
__attribute__((noinline)) static int local(int x, int unusual) { while (x > 40) x = x / 3 + unusual; return x * 5; }
int second(int x, int unusual) { return local(x, unusual) - local(x + 100, unusual); }
";
const CALLS_BOTH: &str = r#"#include <stdio.h>
int first(int, int), second(int, int);
int main(int count, char **words) { (void) words; int sum = 0; for (int i = 0; i < 3000; i++) sum += first(i, count > 2) + second(i, count > 2); printf("%d\n", sum); return 0; }
"#;

/// A branch that GCC assumes to be possible, in a function that is called as often as an argument says.
const SELDOM: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int table[64];
__attribute__((noinline)) int seldom(int i, int unusual) { int sum = i; if (__builtin_expect_with_probability(unusual, 0, 0.7)) for (int j = 0; j < 8; j++) { sum ^= table[(sum + j) & 63] * 3; table[sum & 63] += j; } return sum + 1; }
int main(int count, char **words) { int sum = 0; for (int i = 0; i < atoi(words[1]); i++) sum += seldom(i, count > 2); printf("%d\n", sum); return 0; }
"#;
/// Neither `small` nor `large` executes its block without an argument; the block of `small` is one instruction.
const SMALL: &str = r#"#include <stdio.h>
int flag, table[9];
__attribute__((noipa)) int small(int i) { if (i < 0) flag = 1; return i * 3 + flag; }
__attribute__((noipa)) int large(int i) { if (i < 0) for (int j = 0; j < 9; j++) table[j] = i / (j + 3) + table[(j + 4) % 9]; return i * 5 + flag; }
int main(int count, char **words) { int sum = 0; for (int i = 1; i < 3000; i++) sum += small(count > 1 ? -i : i) + large(count > 1 ? -i : i); printf("%d\n", sum + table[3]); return 0; }
"#;
/// A subroutine with a branch that runs if the program has an argument.
const FORTRAN: &str = "subroutine work(i, unusual, total)
  integer, intent(in) :: i
  logical, intent(in) :: unusual
  integer, intent(inout) :: total
  integer :: j
  if (unusual) then
    do j = 1, 8
      total = ieor(total, i * j) + mod(total + j, 7)
      if (mod(total, 9) == 0) print *, total
    end do
  end if
  total = ieor(total, i * 3)
end subroutine
program p
  integer :: i, total
  total = 0
  do i = 1, 2000
    call work(i, command_argument_count() > 0, total)
  end do
  print *, total
end program
";
/// A plugin that, like annobin, adds a note to each unit, and one about each function next to its code.
const NOTES: &str = r#"#include "gcc-plugin.h"
#include "plugin-version.h"
#include "tree.h"
#include "output.h"
#include "function.h"
int plugin_is_GPL_compatible;
static void unit(void *, void *) { fputs("\t.pushsection .gnu.build.attributes,\"\",%note\n\t.balign 4\n\t.asciz \"unit\"\n\t.popsection\n", asm_out_file); }
static void each(void *, void *) { fprintf(asm_out_file, "\t.pushsection .gnu.build.attributes,\"\",%%note\n\t.asciz \"of %s\"\n\t.popsection\n", IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(current_function_decl))); }
int plugin_init(plugin_name_args *own, plugin_gcc_version *)
{
  register_callback(own->base_name, PLUGIN_START_UNIT, unit, nullptr);
  register_callback(own->base_name, PLUGIN_ALL_PASSES_END, each, nullptr);
  return 0;
}
"#;

/// Notes of a program about the protection of its code, without the build-id.
fn notes(folder: &TempDir, program: &str) -> Vec<String> {
    let output = Command::new("readelf").current_dir(folder.path()).args(["-nW", program]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let notes: Vec<String> =
        text.lines().filter(|line| !line.contains("Build ID")).map(str::to_owned).collect();
    assert!(notes.len() > 3, "{text}");
    notes
}

/// True if a program has a cold part of a function.
pub fn has_cold_part(folder: &TempDir, program: &str, function: &str) -> bool {
    let bytes = std::fs::read(folder.path().join(program)).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let cold = format!("{function}.cold");
    binary.functions.iter().any(|function| function.name == cold)
}

/// Clones of a function, which another build numbers differently: counts are used for an equal graph only.
pub fn clones_with_other_numbers(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    let source = SELDOM
        .replace("int seldom(int i, int unusual)", "static int seldom(int i, int unusual, int step)")
        .replace("* 3;", "* step;")
        .replace("seldom(i, count > 2)", "seldom(i, count > 2, 3)");
    std::fs::write(folder.path().join("clone.c"), source).unwrap();
    let build = |more: &[&str], program: &str| {
        let flags = ["-O2", "-g", "-static", "clone.c", "-o", program];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    build(&[&plugin, MARKS], "train");
    let counts = record(&folder, &["2000"]);
    let line = counts.lines().find(|line| line.starts_with("seldom.constprop.0\t")).unwrap();
    let [name, file, hash, blocks]: [&str; 4] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
    let of = |number: u32, kind: &str, hash: &str| {
        counts.replace(line, &format!("seldom.{kind}.{number}\t{file}\t{hash}\t{blocks}"))
    };
    for (text, is_split) in [
        (of(0, "constprop", hash), true),
        (of(7, "constprop", hash), true),
        (of(7, "constprop", "00000001"), false),
        (of(7, "part", hash), false),
    ] {
        std::fs::write(folder.path().join("blocks"), &text).unwrap();
        build(&[&plugin, COUNTS], "used");
        assert_eq!(has_cold_part(&folder, "used", name), is_split, "{text}");
        for arguments in [&["2000"][..], &["2000", "unusual"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
        }
    }
}

pub fn whatever_functions_and_flags(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("odd.c"), FUNCTIONS).unwrap();
    for (name, role) in [("util", "0"), ("util2", "1")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let text = UTIL.replace("NAME", name).replace("ROLE", role);
        std::fs::write(folder.path().join(name).join("util.c"), text).unwrap();
    }
    let flags: &[&[&str]] = &[
        &["-g"],
        &["-g", "-flto"],
        &["-g", "-fcf-protection=full", "-fstack-protector-all", "-fstack-clash-protection"],
        &["-g", "-Os"],
        &["-g", "-gsplit-dwarf"],
        &["-g", "-O3", "-fno-function-sections"],
    ];
    for flags in flags {
        let build = |more: &[&str], program: &str| {
            let sources = ["odd.c", "util/util.c", "util2/util.c", "-o", program];
            gcc.run(
                folder.path(),
                gcc.c,
                &[&["-O2", "-w", "-ffunction-sections"], *flags, more, &sources].concat(),
            );
        };
        build(&[], "plain");
        build(&[&plugin, MARKS], "train");
        // Valgrind 3.19 fails on split debug information.
        let bare = folder.path().join("bare");
        std::fs::create_dir_all(&bare).unwrap();
        let strip = ["--strip-debug", "-o", "bare/train", "train"];
        assert!(Command::new("strip").current_dir(folder.path()).args(strip).status().unwrap().success());
        let counts = record_as("bare/train", &folder, &[]);
        // Two local functions with the same name, in files with the same name, cannot be distinguished.
        assert!(counts.contains("\ntable_jump\t") && !counts.contains("\nlocal\t"), "{counts}");
        build(&[&plugin, COUNTS, MARKS], "used");
        for arguments in [&[][..], &["other"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{flags:?}");
        }
        assert_eq!(notes(&folder, "used"), notes(&folder, "plain"), "{flags:?}");
        // Functions optimised for size stay whole, and so do those with sections of their own.
        let is_split = !flags.contains(&"-Os");
        assert!(!has_cold_part(&folder, "plain", "with_goto"), "{flags:?}");
        assert_eq!(has_cold_part(&folder, "used", "with_goto"), is_split, "{flags:?}");
        for whole in ["own_section", "bare", "coldfn", "small"] {
            assert!(!has_cold_part(&folder, "used", whole), "{whole} {flags:?}");
        }
        // Without debug information the graphs are the same.
        build(&[&plugin, COUNTS, "-g0"], "used");
        assert_eq!(has_cold_part(&folder, "used", "with_goto"), is_split, "-g0 {flags:?}");
        // Counts from one set of flags with another set, without debug information.
        build(&[&plugin, COUNTS, "-O1", "-g0"], "used");
        assert_eq!(ran(&folder, "used", &["other"]), ran(&folder, "plain", &["other"]), "{flags:?}");
    }
}

/// Two calls of a function are weak evidence about a branch; two thousand are enough.
pub fn few_calls_make_nothing_cold(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("seldom.c"), SELDOM).unwrap();
    let build = |more: &[&str], program: &str| {
        gcc.run(
            folder.path(),
            gcc.c,
            &[&["-O2", "-g", "-static"], more, &["seldom.c", "-o", program]].concat(),
        );
        let bytes = std::fs::read(folder.path().join(program)).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        binary.functions.iter().any(|function| function.name == "seldom.cold")
    };
    build(&[&plugin, MARKS], "train");
    for (calls, is_split) in [("2", false), ("2000", true)] {
        assert!(record(&folder, &[calls]).contains("\nseldom\t"));
        assert_eq!(build(&[&plugin, COUNTS], "used"), is_split, "{calls} calls");
        for arguments in [&[calls][..], &[calls, "unusual"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
        }
        build(&[&plugin, COUNTS, MARKS], "train");
        let verified =
            sediment(folder.path(), &["verify", "train", "--blocks", "--profile", "p.gv", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
        let functions = report["functions"].as_array().unwrap();
        let seldom = functions.iter().find(|function| function["name"] == "seldom").unwrap();
        assert_eq!(seldom["layout"], if is_split { "split" } else { "too-few-executions" }, "{report}");
        build(&[&plugin, MARKS], "train");
    }
}

/// A block that is no larger than the jumps to it and back stays in its function.
pub fn small_parts_stay(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("small.c"), SMALL).unwrap();
    let build = |more: &[&str], program: &str| {
        let flags = ["-O2", "-g", "-static", "-ffunction-sections", "small.c", "-o", program];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    build(&[&plugin, MARKS], "train");
    let counts = record(&folder, &[]);
    assert!(counts.contains("\nsmall\t") && counts.contains("large\t"), "{counts}");
    build(&[&plugin, COUNTS], "used");
    let bytes = std::fs::read(folder.path().join("used")).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let has = |name: &str| binary.functions.iter().any(|function| function.name == name);
    assert!(has("large.cold") && !has("small.cold"));
    for arguments in [&[][..], &["other"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
    }
}

/// Local functions with the same name in two units, which link-time optimisation numbers in the order of the units.
pub fn locals_of_one_name_with_lto(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    let unit = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    unit("first.c", LOCAL_WITH_LOOP);
    unit("second.c", LOCAL_WITH_DIVISION);
    unit("main.c", CALLS_BOTH);
    // Number of the function that has a cold part.
    let build = |more: &[&str], sources: [&str; 2], program: &str| {
        let flags = ["-O2", "-g", "-flto", "-ffunction-sections", "-o", program, "main.c"];
        gcc.run(folder.path(), gcc.c, &[&flags, more, &sources].concat());
        let bytes = std::fs::read(folder.path().join(program)).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        let cold = |function: &&sediment_core::binary::BinaryFunction| {
            function.name.ends_with(".cold") && function.name != "main.cold"
        };
        binary.functions.iter().filter(cold).map(|function| function.name.clone()).collect::<Vec<_>>()
    };
    build(&[&plugin, MARKS], ["first.c", "second.c"], "train");
    let counts = record(&folder, &[]);
    assert!(counts.contains("\nlocal.lto_priv.0\t") && counts.contains("\nlocal.lto_priv.1\t"), "{counts}");
    let in_order = build(&[&plugin, COUNTS], ["first.c", "second.c"], "used");
    assert_eq!(in_order.len(), 1, "{in_order:?}");
    let turned = build(&[&plugin, COUNTS], ["second.c", "first.c"], "turned");
    assert_eq!(turned.len(), 1, "{turned:?}");
    assert_ne!(in_order, turned, "the numbers follow the order of the units, the counts do not");
    for arguments in [&[][..], &["1", "2", "3"]] {
        assert_eq!(ran(&folder, "turned", arguments), ran(&folder, "train", arguments), "{arguments:?}");
    }
    for sources in [["first.c", "second.c"], ["second.c", "first.c"]] {
        build(&[&plugin, MARKS, COUNTS], sources, "train");
        let arguments = ["verify", "train", "--blocks", "--profile", "p.gv", "--max-cold", "0", "--json"];
        let output = sediment(folder.path(), &arguments);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut layouts: Vec<&str> = report["functions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|function| function["name"].as_str().unwrap().starts_with("local.lto_priv."))
            .map(|function| function["layout"].as_str().unwrap())
            .collect();
        layouts.sort_unstable();
        assert_eq!(layouts, ["all-ran", "split"], "{sources:?}: {report}");
    }
}

/// Cases of a switch that end in equal calls: the training build has common code for several cases, and none of them is
/// cold.
pub fn merged_ends_stay_hot(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("merged.c"), include_str!("merged.c")).unwrap();
    let build = |more: &[&str]| {
        let flags = ["-O2", "-g", "-static", "-ffunction-sections", "merged.c", "-o"];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    build(&["train", &plugin, MARKS]);
    let counts = record(&folder, &[]);
    let walk = counts.lines().find(|line| line.starts_with("walk\t")).unwrap();
    assert!(walk.contains("=?@"), "no block was merged: {walk}");
    build(&["used", &plugin, COUNTS]);
    assert!(!runs_in_cold_part(&folder, "used", "walk"));
    assert_eq!(ran(&folder, "used", &[]), ran(&folder, "train", &[]));
}

/// Promise to packagers: the scripts that packages find through COMPILER_PATH load the plugin for each language, and at
/// the link.
pub fn scripts_serve_every_language(gcc: &'static Compiler) {
    let folder = gcc.folder();
    for (name, text) in [("work.c", WORK), ("work.cc", WORK), ("p.f90", FORTRAN)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let compilers = folder.path().join("compilers");
    support::plugin::put_before_compilers(gcc.c, &compilers);
    let counts = folder.path().join("blocks").display().to_string();
    for (compiler, source, flag, function) in [
        (gcc.c, "work.c", "-flto", "work"),
        (gcc.cxx, "work.cc", "-static", "_Z4workii"),
        (gcc.cxx, "work.cc", "-flto", "_Z4workii"),
        ("gfortran", "p.f90", "-fno-inline", "work_"),
    ] {
        let build = |variable: (&str, &str), program: &str| {
            let built = Command::new(compiler)
                .current_dir(folder.path())
                .env("COMPILER_PATH", &compilers)
                .env(variable.0, variable.1)
                .args(["-O2", "-g", "-w", "-ffunction-sections", flag, source, "-o", program])
                .status();
            assert!(built.unwrap().success(), "{source} {flag}");
        };
        build(("SEDIMENT_BLOCKS", ""), "plain");
        assert!(!has_cold_part(&folder, "plain", function), "{source} {flag}");
        build(("SEDIMENT_NUMBER_BLOCKS", "1"), "train");
        record(&folder, &[]);
        build(("SEDIMENT_BLOCKS", &counts), "used");
        assert!(has_cold_part(&folder, "used", function), "{source} {flag}");
        for arguments in [&[][..], &["unusual"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{source} {flag}");
        }
    }
}

pub fn fortran_is_split(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("p.f90"), FORTRAN).unwrap();
    let build = |more: &[&str], program: &str| {
        let flags = ["-O2", "-g", "-fno-inline", "-fchecking", "p.f90", "-o", program];
        gcc.run(folder.path(), "gfortran", &[&flags, more].concat());
        let bytes = std::fs::read(folder.path().join(program)).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        binary.functions.iter().any(|function| function.name == "work_.cold")
    };
    assert!(!build(&[], "plain"));
    build(&[&plugin, MARKS], "train");
    assert!(record(&folder, &[]).contains("\nwork_\t"));
    assert!(build(&[&plugin, COUNTS], "used"));
    for arguments in [&[][..], &["unusual"]] {
        assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
    }
}

/// The other plugin's notes are unchanged, and this plugin splits functions as well.
pub fn another_plugin_beside(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("seldom.c"), SELDOM).unwrap();
    std::fs::write(folder.path().join("notes.cc"), NOTES).unwrap();
    let headers = gcc.run(folder.path(), gcc.c, &["-print-file-name=plugin"]);
    let headers = format!("{}/include", String::from_utf8(headers.stdout).unwrap().trim());
    let shared = ["-shared", "-fPIC", "-fno-rtti", "-w", "-isystem", &headers, "notes.cc", "-o", "notes.so"];
    gcc.run(folder.path(), gcc.cxx, &shared);
    let build = |more: &[&str], object: &str| {
        let flags = ["-O2", "-g", "-ffunction-sections", "-fplugin=./notes.so"];
        gcc.run(folder.path(), gcc.c, &[&flags[..], more, &["-c", "seldom.c", "-o", object]].concat());
        let dump = ["-p", ".gnu.build.attributes", object];
        let dump = Command::new("readelf").current_dir(folder.path()).args(dump).output().unwrap();
        String::from_utf8(dump.stdout).unwrap()
    };
    let expected = build(&[], "plain.o");
    assert!(["unit", "of seldom", "of main"].iter().all(|note| expected.contains(note)), "{expected}");
    assert_eq!(build(&[&plugin, MARKS], "train.o"), expected);
    gcc.run(folder.path(), gcc.c, &["train.o", "-o", "train"]);
    record(&folder, &["2000"]);
    for plugins in [[&plugin, "-fplugin=./notes.so"], ["-fplugin=./notes.so", &plugin]] {
        assert_eq!(build(&[&plugins[..], &[COUNTS]].concat(), "used.o"), expected);
        gcc.run(folder.path(), gcc.c, &["used.o", "-o", "used"]);
        for arguments in [&["2000"][..], &["2000", "unusual"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "train", arguments), "{arguments:?}");
        }
        let bytes = std::fs::read(folder.path().join("used")).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        assert!(binary.functions.iter().any(|function| function.name == "seldom.cold"));
    }
}

/// Programs that allow entering functions only at landing pads keep these and their property, even with cold parts.
pub fn landing_pads_stay_in_cross_builds(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let cross = COMPILERS.iter().find(|compiler| compiler.name == "aarch64-gcc").unwrap();
    std::fs::write(folder.path().join("seldom.c"), SELDOM).unwrap();
    gcc.run(folder.path(), gcc.c, &["-O2", "-g", "-static", &gcc.plugin(), MARKS, "seldom.c", "-o", "train"]);
    record(&folder, &["2000"]);
    let flags = ["-O2", "-static", "-mbranch-protection=standard", "-ffunction-sections"];
    let built = |more: &[&str]| {
        cross.run(
            folder.path(),
            cross.c,
            &[&flags[..], more, &["-c", "seldom.c", "-o", "seldom.o"]].concat(),
        );
        cross.run(folder.path(), cross.c, &["-static", "seldom.o", "-o", "used"]);
        notes(&folder, "seldom.o")
    };
    let expected = built(&[]);
    assert!(expected.iter().any(|line| line.contains("BTI")), "{expected:?}");
    assert_eq!(built(&[&cross.plugin(), COUNTS]), expected);
    let bytes = std::fs::read(folder.path().join("used")).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    assert!(binary.functions.iter().any(|function| function.name == "seldom.cold"));
    for arguments in [&["2000"][..], &["2000", "unusual"]] {
        let mut emulated = Command::new("qemu-aarch64");
        emulated.current_dir(folder.path()).args(["-cpu", "max", "./used"]).args(arguments);
        let emulated = emulated.output().unwrap();
        let found = (emulated.stdout, emulated.status.code());
        assert_eq!(found, ran(&folder, "train", arguments), "{arguments:?}");
    }
}
