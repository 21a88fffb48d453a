// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that stay whole although they have counts, each for another reason, which `verify --blocks` prints.

use crate::compilers::Compiler;
use crate::gcc_plugin::blocks::{COUNTS, MARKS, record};
use crate::running::{done, err, out, sediment};
use std::collections::HashMap;
use std::process::Command;
use tempfile::TempDir;

/// Each function has a branch that is not taken. In the newer version, one of them is missing and one has another
/// graph.
const SOURCE: &str = r#"#include <stdio.h>
static int table[64], flag;
#define MANY for (int j = 0; j < 8; j++) { x ^= table[(x + j) & 63] * 3; table[x & 63] += j; }
__attribute__((noipa)) int relative(int x, int unusual)
{
  static const int to[] = { &&one - &&one, &&two - &&one, &&three - &&one };
  goto *(&&one + to[unusual ? 2 : x & 1]);
one: return x + 1;
two: return x * 2;
three: MANY return x;
}
__attribute__((noipa, section(".text.mine"))) int own_section(int x, int unusual) { if (unusual) MANY return x + 1; }
__attribute__((noipa)) int seldom(int x, int unusual) { if (__builtin_expect_with_probability(unusual, 0, 0.7)) MANY return x + 1; }
__attribute__((noipa)) int tiny(int x) { if (x < 0) flag = 1; return x * 3 + flag; }
__attribute__((noipa)) int large(int x, int unusual) { if (__builtin_expect_with_probability(unusual, 0, 0.7)) MANY return x + 1; }
__attribute__((noipa)) int likely(int x, int unusual) { if (__builtin_expect_with_probability(unusual, 1, 0.7)) MANY return x + 1; }
#ifdef NEWER
#define gone went
__attribute__((noipa)) int changed(int x) { if (x > 100) x -= table[x & 3]; if (x & 1) x *= 3; return x; }
#else
__attribute__((noipa)) int changed(int x) { if (x & 1) x *= 3; return x; }
#endif
__attribute__((noipa)) int gone(int x) { return x + table[x & 3]; }
int main(int count, char **words)
{
  int sum = 0, unusual = count > 1;
  for (int i = 1; i < 3000; i++)
    sum += relative(i, unusual) + own_section(i, unusual) + tiny(i) + large(i, unusual) + likely(i, unusual) + changed(i) + gone(i);
  for (int i = 0; i < 6; i++)
    sum += seldom(i, unusual);
  printf("%d\n", sum);
}
"#;

/// Builds the program with numbered blocks.
fn build(gcc: &Compiler, folder: &TempDir, more: &[&str]) {
    let plugin = gcc.plugin();
    let flags = ["-O2", "-g", "-static", "-ffunction-sections", "whole.c", "-o", "train", &plugin, MARKS];
    gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
}

/// A folder with the source and the profile of the program.
fn recorded(gcc: &Compiler) -> TempDir {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("whole.c"), SOURCE).unwrap();
    build(gcc, &folder, &[]);
    record(&folder, &[]);
    folder
}

/// Promise to packagers: `verify --blocks` prints the reason for each function that was not split.
pub fn verify_tells_why_functions_stay_whole(gcc: &'static Compiler) {
    let folder = recorded(gcc);
    let build = |more: &[&str]| build(gcc, &folder, more);
    let layouts = |more: &[&str]| {
        build(&[&[COUNTS], more].concat());
        let verify = ["verify", "train", "--blocks", "--profile", "p.gv", "--json"];
        let report: serde_json::Value =
            serde_json::from_slice(&sediment(folder.path(), &verify).stdout).unwrap();
        let of = |function: &serde_json::Value| {
            let layout = function["layout"].as_str().unwrap();
            let why = function["why_whole"].as_str();
            let name = function["name"].as_str().unwrap().to_owned();
            (name, why.map_or_else(|| layout.to_owned(), |why| format!("{layout}: {why}")))
        };
        report["functions"].as_array().unwrap().iter().map(of).collect::<HashMap<_, _>>()
    };
    let stay = [
        ("relative", "whole: distances"),
        ("own_section", "whole: kind"),
        ("seldom", "whole: few-executions"),
        ("tiny", "whole: small-parts"),
        ("likely", "whole: likely"),
    ];
    let all = [&stay[..], &[("large", "split"), ("changed", "all-ran"), ("gone", "all-ran")]].concat();
    let found = layouts(&[]);
    for (name, layout) in all {
        assert_eq!(found[name], layout, "{name}");
    }
    let verify = sediment(folder.path(), &["verify", "train", "--blocks", "--profile", "p.gv"]);
    super::has(&done(&verify), &[" 1 functions ", " 3 functions ", " 5 functions "]);
    let found = layouts(&["-fno-reorder-blocks-and-partition"]);
    for (name, layout) in [&stay[..], &[("large", "whole: option")]].concat() {
        assert_eq!(found[name], layout, "{name}");
    }
    let found = layouts(&["-DNEWER"]);
    for (name, layout) in [("large", "split"), ("changed", "other-graph"), ("gone", "not-in-binary")] {
        assert_eq!(found[name], layout, "{name}");
    }
}

/// Promise to packagers: a file of counts that the compiler could not read is found after the link.
pub fn counts_that_were_not_read(gcc: &'static Compiler) {
    let folder = recorded(gcc);
    let build = |more: &[&str]| build(gcc, &folder, more);
    // Of another program, and none.
    std::fs::write(folder.path().join("other"), "sediment-blocks 2\nother\t\t00000001\t1=7\n").unwrap();
    for file in ["other", "missing"] {
        build(&[&format!("-fplugin-arg-sediment-profile={file}")]);
        let verify = sediment(folder.path(), &["verify", "train", "--blocks", "--profile", "p.gv"]);
        assert_eq!(verify.status.code(), Some(5), "{verify:?}");
        super::has(&out(&verify), &["compiled without counts"]);
        super::has(&err(&verify), &["no function was compiled with the counts that the build named"]);
    }
    build(&[COUNTS]);
    done(&sediment(folder.path(), &["verify", "train", "--blocks", "--profile", "p.gv"]));
}

/// Address of a symbol.
fn address(folder: &TempDir, program: &str, symbol: &str) -> u64 {
    let symbols = Command::new("nm").arg(folder.path().join(program)).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|line| line.rsplit(' ').next() == Some(symbol));
    u64::from_str_radix(line.unwrap_or_else(|| panic!("{symbol}: {symbols}")).split(' ').next().unwrap(), 16)
        .unwrap()
}

/// Promise to users: in a program linked with an order, the cold part of a function comes after all ordered functions.
/// `choose`: options that make GCC use a linker; `takes`: the linker's option for an order.
fn a_linked_cold_part_lies_behind(gcc: &'static Compiler, linker: &str, choose: &[&str], takes: &str) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("whole.c"), SOURCE).unwrap();
    let flags = ["-O2", "-g", "-ffunction-sections", "whole.c", "-o", "train", &plugin, MARKS];
    let build = |more: &[&str]| gcc.run(folder.path(), gcc.c, &[&flags, choose, more].concat());
    build(&[]);
    record(&folder, &[]);
    build(&[COUNTS]);
    done(&sediment(
        folder.path(),
        &["order", "p.gv", "--binary", "train", "--linker", linker, "-o", "order"],
    ));
    build(&[COUNTS, &format!("-Wl,{takes}order")]);
    let cold = address(&folder, "train", "large.cold");
    for function in ["main", "relative", "own_section", "seldom", "tiny", "large", "changed", "gone"] {
        // A function with its own section stays where the linker places that section.
        let at = address(&folder, "train", function);
        assert!(at < cold || function == "own_section", "{function}: {at:#x}, cold part: {cold:#x}");
    }
}

pub fn cold_parts_by_a_script(gcc: &'static Compiler) {
    a_linked_cold_part_lies_behind(gcc, "gnu-ld-script", &[], "-T,");
}

pub fn cold_parts_by_gold(gcc: &'static Compiler) {
    a_linked_cold_part_lies_behind(gcc, "gold", &["-fuse-ld=gold"], "--section-ordering-file,");
}

pub fn cold_parts_by_lld(gcc: &'static Compiler) {
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    a_linked_cold_part_lies_behind(gcc, "lld", &[&lld, "-fuse-ld=lld"], "--symbol-ordering-file,");
}

pub fn cold_parts_by_gnu_ld(gcc: &'static Compiler) {
    let folder = format!("-B{}", support::linker_folder("gnu-ld-2.44").unwrap().display());
    a_linked_cold_part_lies_behind(gcc, "gnu-ld", &[&folder], "--section-ordering-file=");
}
