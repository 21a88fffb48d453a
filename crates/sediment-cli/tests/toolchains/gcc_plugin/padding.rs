// SPDX-License-Identifier: MIT OR Apache-2.0
//! Padding of functions with counts: at the begin of functions and of blocks.

use super::blocks::{self, COUNTS};
use super::counters::{COUNTERS, USE};
use super::split::train;
use crate::compilers::Compiler;

const WORK: &str = r#"#include <stdio.h>
static volatile int some, three = 3;
__attribute__((noinline, noclone)) int often(const int *at, int n)
{
  int sum = 0;
  for (int i = 0; i < n; i++)
    sum = sum * 3 ^ at[i] ^ some;
  return sum;
}
__attribute__((noinline, noclone)) int rarely(const int *at, int n)
{
  int sum = 1;
  for (int i = 0; i < n; i++)
    sum = sum * 5 ^ at[i] ^ some;
  return sum;
}
int main(void)
{
  static int all[5000];
  int sum = 0;
  for (int i = 0; i < 250000; i++)
    sum += often(all + i % 100, three);
  for (int i = 0; i < 2; i++)
    sum += rarely(all, 5000);
  printf("%d\n", sum);
  return 0;
}
"#;

/// Alignments in the assembly of a function, in bytes: before it, and before its blocks.
fn alignments(assembly: &str, function: &str) -> (u32, Vec<u32>) {
    let bytes = |line: &str| {
        let power = line.trim().strip_prefix(".p2align ")?.split(',').next()?;
        Some(1 << power.parse::<u32>().unwrap())
    };
    let (front, rest) = assembly.split_once(&format!("\n{function}:\n")).unwrap();
    let (body, _) = rest.split_once(&format!("\t.size\t{function}, ")).unwrap();
    let before = front.lines().rev().take_while(|line| !line.contains(".section")).find_map(bytes);
    (before.unwrap_or(1), body.lines().filter_map(bytes).collect())
}

/// Promise to users: what is called often begins at a cache line, and only a loop of many iterations has padding before it.
pub fn padding_pays(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), WORK).unwrap();
    blocks::recorded(gcc, &folder, "work.c");
    train(gcc, &folder, gcc.c, "work.c", &[]);
    let plugin = gcc.plugin();
    let compiled = |more: &[&str]| {
        let flags = ["-O2", "-fno-peel-loops", "-ffunction-sections", "-S", "work.c", "-o", "work.s"];
        gcc.run(folder.path(), gcc.c, &[&flags[..], more].concat());
        std::fs::read_to_string(folder.path().join("work.s")).unwrap()
    };
    let plain = compiled(&[]);
    let (begin, of_blocks) = alignments(&plain, "often");
    assert!(begin == 16 && !of_blocks.is_empty(), "{plain}");
    for with in [&[&plugin, COUNTS][..], &[&[&plugin[..], COUNTERS], &USE[..]].concat()] {
        let counted = compiled(with);
        assert_eq!(alignments(&counted, "often"), (64, vec![]), "{with:?} {counted}");
        let (begin, of_blocks) = alignments(&counted, "rarely");
        assert!(begin == 16 && !of_blocks.is_empty(), "{with:?} {counted}");
        // Who asks for an alignment gets it.
        let asked = compiled(&[with, &["-falign-functions=32"]].concat());
        assert_eq!(alignments(&asked, "often").0, 32, "{with:?} {asked}");
    }
}
