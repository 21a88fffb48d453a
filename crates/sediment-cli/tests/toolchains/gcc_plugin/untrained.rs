// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that the training did not execute and that other work may execute.

use super::blocks::{self, COUNTS, ran};
use super::counters::{COUNTERS, USE};
use super::split::train;
use crate::compilers::Compiler;
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

/// An interpreter. Each of its cases has a number of its own.
const INTERPRETER: &str = r#"#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned interpret(const unsigned char *code, unsigned sum)
{
  for (;; code++)
    switch (*code) {
    case '0': return sum;
    case '1': sum += 3; break;
    case '2': sum ^= sum << 5; break;
    case '3': sum = sum * 0x1234567 + (sum >> 3) + code[1]; break;
    case '4': sum = (sum ^ 0x2345671) - (sum >> 7) * code[1]; break;
    case '5': sum = (sum & 0x3456712) / 3 + (sum << 2); break;
    default: printf("bad: %u\n", sum ^ 0x4567123); puts("the end"); abort();
    }
}
int main(int count, char **words)
{
  unsigned sum = 0;
  for (int i = 0; i < 300; i++)
    sum = interpret((const unsigned char *) (count > 1 ? words[1] : "1221120"), sum);
  printf("%u\n", sum);
  return 0;
}
"#;

/// The sections of an object that contain the numbers in their code.
fn sections(folder: &TempDir, object: &str) -> BTreeMap<&'static str, Vec<String>> {
    let output = Command::new("objdump").arg("-d").arg(folder.path().join(object)).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut section = "";
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        section = line.strip_prefix("Disassembly of section ").unwrap_or(section);
        for number in ["0x1234567", "0x2345671", "0x3456712", "0x4567123"] {
            if line.contains(number) {
                found.entry(number).or_default().push(section.trim_end_matches(':').to_owned());
            }
        }
    }
    found
}

/// Promise to users: cases of a switch that only other work executes stay with the executed ones, and an error path leaves them.
pub fn cases_of_other_work_stay(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("work.c"), INTERPRETER).unwrap();
    let plugin = gcc.plugin();
    let flags = ["-O2", "-ffunction-sections", &plugin, "-c", "work.c", "-o", "used.o"];
    blocks::recorded(gcc, &folder, "work.c");
    train(gcc, &folder, gcc.c, "work.c", &[]);
    for with in [&[COUNTS][..], &[&[COUNTERS], &USE[..]].concat()] {
        gcc.run(folder.path(), gcc.c, &[&flags[..], with].concat());
        let found = sections(&folder, "used.o");
        for number in ["0x1234567", "0x2345671", "0x3456712"] {
            assert!(found[number].iter().all(|section| !section.contains("unlikely")), "{with:?} {found:?}");
        }
        let error = &found["0x4567123"];
        assert!(error.iter().all(|section| section == ".text.unlikely.interpret"), "{with:?} {found:?}");
        gcc.run(folder.path(), gcc.c, &["-O2", "-static", "work.c", "-o", "plain"]);
        gcc.run(folder.path(), gcc.c, &["-static", "used.o", "-o", "used"]);
        for arguments in [&[][..], &["345543210"], &["6"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{arguments:?}");
        }
    }
}
