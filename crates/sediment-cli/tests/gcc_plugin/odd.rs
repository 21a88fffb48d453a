// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that are hard on whoever moves blocks, under the flags of packages: split or left whole, they do the same.

use crate::blocks::{COUNTS, MARKS, ran, record};
use crate::compilers::Compiler;
use std::process::Command;
use tempfile::TempDir;

/// Own section, no frame, `asm goto`, a jump table, an unlikely function, one optimised for size.
const FUNCTIONS: &str = r#"#include <stdio.h>
#include <stdlib.h>
static int table[64];
__attribute__((noinline)) static int never(int x) { return x * 31 + table[x & 63]; }
__attribute__((noinline, section(".text.mine"))) int own_section(int i, int u) { int s = i; if (u == 0) for (int j = 0; j < 8; j++) s += never(j + i) ^ never(j * 3); return s; }
__attribute__((naked, noinline)) int bare(int x) { __asm__("lea 1(%rdi), %eax\n\tret"); }
__attribute__((noinline)) int with_goto(int x, int u) { __asm__ goto ("test %0, %0\n\tjz %l1" : : "r"(u) : "cc" : zero); return x + 1; zero: for (int j = 0; j < 8; j++) x += never(j) ^ x; return x; }
__attribute__((noinline)) int table_jump(int x, int u) { switch (x % 12) { case 0: return never(x); case 1: return x * 2; case 2: return u ? x : never(x) + never(x + 1); case 3: return 9; case 4: return x - 3; case 5: return x ^ 77; case 6: x += 5; case 7: x *= 2; break; case 8: if (!u) abort(); return 1; default: return 3; } return x; }
__attribute__((noinline, cold)) int coldfn(int x, int u) { if (!u) return never(x) * never(x + 2); return x + 5; }
__attribute__((noinline, optimize("Os"))) int small(int x, int u) { if (!u) for (int j = 0; j < 8; j++) x += never(x) ^ j; return x; }
extern int util(int, int), util2(int, int);
int main(int c, char **v) { int u = c < 2, s = 0; for (int i = 0; i < 3000; i++) s += own_section(i, u) + bare(i) + with_goto(i, u) + table_jump(i, u || i % 12 == 8) + coldfn(i, u) + small(i, u) + util(i, u) + util2(i, u); printf("%d\n", s); return 0; }
"#;
/// Two units of one name, each with a local function of one name.
const UTIL: &str = r"static int table[64];
__attribute__((noinline)) static int local(int x, int u) { if (u == ROLE) for (int j = 0; j < 9; j++) x += table[(x * j) & 63] * 3 + x; return x + ROLE; }
int NAME(int x, int u) { return local(x, u) + local(x + 2, u); }
";

/// Notes of a program, which tell how its code is protected, but for the build-id.
fn notes(folder: &TempDir, program: &str) -> Vec<String> {
    let output = Command::new("readelf").current_dir(folder.path()).args(["-nW", program]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let notes: Vec<String> =
        text.lines().filter(|line| !line.contains("Build ID")).map(str::to_owned).collect();
    assert!(notes.len() > 3, "{text}");
    notes
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
        let counts = record(&folder, &[]);
        // Two local functions of one name and of files of one name cannot be told apart.
        assert!(counts.contains("\ntable_jump\t") && !counts.contains("\nlocal\t"), "{counts}");
        build(&[&plugin, COUNTS, MARKS], "used");
        for arguments in [&[][..], &["other"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{flags:?}");
        }
        assert_eq!(notes(&folder, "used"), notes(&folder, "plain"), "{flags:?}");
        // The counts of one set of flags under another, without debug information.
        build(&[&plugin, COUNTS, "-O1", "-g0"], "used");
        assert_eq!(ran(&folder, "used", &["other"]), ran(&folder, "plain", &["other"]), "{flags:?}");
    }
}
