// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generated programs, compiled by random counts: the short form of `scripts/prove c-torture`.

use super::blocks::{COUNTS, MARKS, ran};
use super::counters::{COUNTERS, TRAIN, USE};
use super::{done, sediment};
use crate::compilers::Compiler;
use sediment_core::random::Generator;
use std::fmt::Write as _;
use std::process::Command;
use support::random_counts;

/// Functions of a program; each may call those before it.
const FUNCTIONS: usize = 7;
/// Depth of statements in statements.
const DEEPEST: usize = 3;

/// Writes C with all kinds of control flow. `fuel` ends loops and calls after a while.
struct Writer {
    numbers: Generator,
    text: String,
    /// Number of the function that is being written, and of labels so far.
    function: usize,
    labels: usize,
}

impl Writer {
    fn program(seed: u64) -> String {
        let text = "#include <stdio.h>\n#include <stdlib.h>\nstatic unsigned t[64], fuel;\n\
                    static __attribute__((noinline, noreturn)) void fail(unsigned x) { printf(\"fail %u\\n\", x); exit(3); }\n";
        let mut writer =
            Self { numbers: Generator::new(seed), text: text.to_owned(), function: 0, labels: 0 };
        for function in 0..FUNCTIONS {
            writer.function = function;
            let kind = [
                "static __attribute__((noinline))",
                "__attribute__((noipa))",
                "static",
                "__attribute__((noinline))",
            ];
            let kind = kind[writer.numbers.below(kind.len())];
            let _ = writeln!(
                writer.text,
                "{kind} unsigned f{function}(unsigned x, unsigned y)\n{{\n  if (!fuel) return x;\n  fuel--;"
            );
            writer.statements(0);
            let _ = writeln!(writer.text, "  return x ^ y;\n}}");
        }
        let last = FUNCTIONS - 1;
        let _ = writeln!(
            writer.text,
            "int main(void)\n{{\n  unsigned sum = 0;\n  for (unsigned i = 0; i < 3000; i++) {{ fuel = 300; sum = sum * 31 + f{last}(i, sum); }}\n  \
             for (int i = 0; i < 64; i++) sum = sum * 33 + t[i];\n  printf(\"%u\\n\", sum);\n  return 0;\n}}"
        );
        writer.text
    }

    /// A condition that is true seldom, often, or never.
    fn condition(&mut self) -> String {
        let (bits, odd) = (self.numbers.below(1 << 10), self.numbers.below(7));
        match self.numbers.below(5) {
            0 => format!("(x & {bits}) == {odd}"),
            1 => format!("x > y * {odd}"),
            2 => format!("__builtin_expect((y ^ {bits}) % 11 == {odd}, 0)"),
            3 => format!("t[x & 63] & {bits}"),
            _ => format!("x == {}u", self.numbers.draw() as u32),
        }
    }

    fn statements(&mut self, depth: usize) {
        for _ in 0..2 + self.numbers.below(3) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: usize) {
        let odd = self.numbers.below(1 << 16) | 1;
        let kind = if depth == DEEPEST { self.numbers.below(5) } else { self.numbers.below(11) };
        let _ = match (kind, self.function) {
            (0, _) => writeln!(self.text, "x = x * {odd} + (y >> 3);"),
            (1, _) => writeln!(self.text, "t[(x + {odd}) & 63] ^= y; y += t[x & 63];"),
            (2, 1..) => {
                let callee = self.numbers.below(self.function);
                writeln!(self.text, "y += f{callee}(x + {odd}, y);")
            }
            (3, _) => {
                let condition = self.condition();
                writeln!(self.text, "if ({condition}) return x + {odd};")
            }
            (4, _) => writeln!(self.text, "if (x == {}u) fail(x);", self.numbers.draw() as u32),
            (5 | 6, _) => {
                let condition = self.condition();
                let _ = writeln!(self.text, "if ({condition}) {{");
                self.statements(depth + 1);
                let _ = writeln!(self.text, "}} else {{");
                self.statements(depth + 1);
                writeln!(self.text, "}}")
            }
            (7, _) => {
                let condition = self.condition();
                let _ = writeln!(self.text, "for (unsigned i = 0; i < (x & 15) && fuel; i++, fuel--) {{");
                self.statements(depth + 1);
                writeln!(self.text, "if ({condition}) break;\n}}")
            }
            (8, _) => {
                let cases = 2 + self.numbers.below(8);
                let _ = writeln!(self.text, "switch ((x + y) % {}) {{", cases + 1);
                for case in 0..cases {
                    let _ = writeln!(self.text, "case {case}:");
                    self.statement(depth + 1);
                    if self.numbers.below(4) > 0 {
                        self.text.push_str("break;\n");
                    }
                }
                writeln!(self.text, "}}")
            }
            (9, _) => {
                self.labels += 3;
                let [a, b, c] = [self.labels, self.labels + 1, self.labels + 2];
                let _ = writeln!(
                    self.text,
                    "{{ static void *const to[] = {{ &&l{a}, &&l{b}, &&l{c} }}; goto *to[x % 3]; }}"
                );
                for label in [a, b, c] {
                    let _ = writeln!(self.text, "l{label}:;");
                    self.statement(depth + 1);
                }
                Ok(())
            }
            _ => writeln!(self.text, "x ^= y << {}; y = y / 3 + x % {odd};", odd % 31),
        };
    }
}

/// Promise to users: whatever counts of blocks and counters say, the program behaves the same.
pub fn random_counts_change_no_program(gcc: &'static Compiler) {
    const PROGRAMS: u64 = 6;
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    let mut cold_parts = 0;
    for seed in 0..PROGRAMS {
        let source = Writer::program(seed);
        std::fs::write(folder.path().join("work.c"), &source).unwrap();
        let level = if seed % 2 == 0 { "-O2" } else { "-O3" };
        let build = |more: &[&str], program: &str| {
            gcc.run(folder.path(), gcc.c, &[&["-w"], more, &[level, "work.c", "-o", program]].concat());
            std::fs::read(folder.path().join(program)).unwrap()
        };
        let put = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let numbered = build(&[&plugin, MARKS], "numbered");
        let expected = ran(&folder, "numbered", &[]);
        assert_eq!(expected.1, Some(0), "{source}");
        let check = |form: &str| {
            assert_eq!(ran(&folder, "used", &[]), expected, "seed {seed} {level}, {form}:\n{source}");
        };
        put("blocks", random_counts::blocks(&numbered, seed).unwrap());
        let used = build(&[&plugin, COUNTS, "-fchecking"], "used");
        check("blocks");
        cold_parts += used.windows(6).filter(|name| name == b".cold\0").count();
        if seed % 4 > 1 {
            continue;
        }
        build(&TRAIN[1..], "train");
        let mut train = Command::new(folder.path().join("train"));
        train.env("GCOV_PREFIX", folder.path().join("elsewhere")).output().unwrap();
        done(&sediment(folder.path(), &["import", ".", "-o", "p.gv"]));
        done(&sediment(folder.path(), &["export", "p.gv", "--format", "counters", "-o", "recorded"]));
        std::fs::remove_dir_all(folder.path().join("elsewhere")).unwrap();
        let recorded = std::fs::read_to_string(folder.path().join("recorded")).unwrap();
        put("counters", random_counts::counters(&recorded, seed));
        build(&[&USE[2..], &[&plugin, COUNTERS, "-fchecking"]].concat(), "used");
        check("counters");
    }
    assert!(cold_parts >= PROGRAMS as usize, "{cold_parts} cold parts");
}
