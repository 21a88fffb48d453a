// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generator of the demo's program: C source from a seed, with the same bytes for the same seed.
//!
//! The program serves requests of six kinds. Each kind has a call tree of 250 functions with unconditional and conditional
//! calls; the leaves call 100 shared helpers. These 1,600 functions are the hot path. 200 functions run once at the start,
//! and 2,200 never: errors, options, rare cases. A shuffle spreads the hot functions over all object files, as in a real
//! program.
//!
//! Its result has no use. Its code costs what real code costs (memory, arithmetic, branches, a short loop here and there).
//! Every step depends on the one before, so no compiler removes it. It ends in a checksum that every order of the functions
//! must print.

use sediment_core::random::Generator;
use std::fmt::Write;

/// Number of functions of the program, without `main`.
pub(crate) const FUNCTIONS: usize = FILES * FUNCTIONS_PER_FILE;
/// Number of source files, without that of `main`.
pub(crate) const FILES: usize = MODULES.len();
/// Number of functions that serve requests.
pub(crate) const HOT_FUNCTIONS: usize = KINDS * TREE + HELPERS;

const FUNCTIONS_PER_FILE: usize = 100;
const KINDS: usize = 6;
const TREE: usize = 250;
const HELPERS: usize = 100;
const STARTUP_FUNCTIONS: usize = 200;
const MOST_CALLS: usize = 4;

const MODULES: [&str; 40] = [
    "account", "address", "archive", "basket", "billing", "branch", "cache", "catalog", "channel", "claim",
    "config", "courier", "credit", "customer", "depot", "device", "discount", "event", "export", "filter",
    "gateway", "invoice", "journal", "ledger", "locale", "market", "message", "offer", "payment", "policy",
    "price", "queue", "receipt", "report", "route", "session", "stock", "supplier", "tariff", "voucher",
];

const VERBS: [&str; 16] = [
    "accept", "apply", "assign", "check", "collect", "convert", "count", "fetch", "find", "merge", "pack",
    "price", "scan", "select", "store", "update",
];

/// A source file of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Its name, without a folder.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
}

/// The program of this seed: `program.h`, `main.c` and one file for each module.
pub(crate) fn program(seed: u64) -> Vec<SourceFile> {
    let mut random = Generator::new(seed);
    let names = strewn_names(&mut random);
    let functions = functions(&mut random);
    let mut files = vec![header(&names), main_file(&names)];
    for (module, name) in MODULES.iter().enumerate() {
        let mut text = String::from("#include \"program.h\"\n");
        // The shuffle of the names decides which function lies where; inside a file they stand by number.
        let mut here: Vec<usize> =
            (0..FUNCTIONS).filter(|function| names[*function].module == module).collect();
        here.sort_by_key(|function| names[*function].number);
        for function in here {
            text += &definition(function, &functions[function], &names, &mut random);
        }
        files.push(SourceFile { name: format!("{name}.c"), text });
    }
    files
}

/// File and name of a function.
struct Name {
    module: usize,
    number: usize,
    symbol: String,
}

fn strewn_names(random: &mut Generator) -> Vec<Name> {
    let mut positions: Vec<usize> = (0..FUNCTIONS).collect();
    for last in (1..positions.len()).rev() {
        positions.swap(last, random.below(last + 1));
    }
    let name = |place: usize, verb: usize| {
        let (module, number) = (place / FUNCTIONS_PER_FILE, place % FUNCTIONS_PER_FILE);
        Name { module, number, symbol: format!("{}_{}_{number:02}", MODULES[module], VERBS[verb]) }
    };
    positions.into_iter().map(|position| name(position, random.below(VERBS.len()))).collect()
}

/// Callees of a function. Functions are numbered: the trees of the kinds, root first, then helpers, then those of the start,
/// then the rest.
struct Function {
    calls: Vec<Call>,
    /// A function for a case that does not occur.
    rare: Option<usize>,
}

struct Call {
    callee: usize,
    /// The call is made when one of these bits is set in the data; 0: always.
    when: u32,
}

fn functions(random: &mut Generator) -> Vec<Function> {
    let mut functions: Vec<Function> =
        (0..FUNCTIONS).map(|_| Function { calls: Vec::new(), rare: None }).collect();
    let first_helper = KINDS * TREE;
    let first_rare = HOT_FUNCTIONS + STARTUP_FUNCTIONS;
    for root in (0..KINDS).map(|kind| kind * TREE) {
        for function in root + 1..root + TREE {
            let caller = loop {
                let candidate = root + random.below(function - root);
                if functions[candidate].calls.len() < MOST_CALLS {
                    break candidate;
                }
            };
            let when = [0, 0, 0, 0, 1, 3][random.below(6)] << random.below(8);
            functions[caller].calls.push(Call { callee: function, when });
        }
    }
    for leaf in functions[..first_helper].iter_mut().filter(|function| function.calls.is_empty()) {
        leaf.calls.push(Call { callee: first_helper + random.below(HELPERS), when: 0 });
    }
    for (number, function) in functions.iter_mut().enumerate() {
        // Rare functions call only later ones, and so end.
        let from = first_rare.max(number + 1);
        if from < FUNCTIONS {
            function.rare = Some(from + random.below(FUNCTIONS - from));
        }
    }
    functions
}

fn header(names: &[Name]) -> SourceFile {
    let mut text = String::from(
        "#ifndef PROGRAM_H\n#define PROGRAM_H\n#include <stdint.h>\n\n\
         struct state {\n  uint32_t cell[256];\n  uint32_t fault; /* never above 0, as only the outside world knows */\n};\n\n",
    );
    for name in names {
        let _ = writeln!(text, "uint32_t {}(struct state *s, uint32_t x);", name.symbol);
    }
    text += "\n#endif\n";
    SourceFile { name: "program.h".to_owned(), text }
}

fn main_file(names: &[Name]) -> SourceFile {
    let mut text = String::from(
        "/* Serves argv[1] requests drawn with seed argv[2] and prints a checksum. */\n\
         #include \"program.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n\
         typedef uint32_t handler(struct state *, uint32_t);\n",
    );
    let list = |text: &mut String, title: &str, range: std::ops::Range<usize>, step: usize| {
        let _ = writeln!(text, "static handler *const {title}[] = {{");
        for function in range.step_by(step) {
            let _ = writeln!(text, "  {},", names[function].symbol);
        }
        *text += "};\n";
    };
    list(&mut text, "handlers", 0..KINDS * TREE, TREE);
    list(&mut text, "starters", HOT_FUNCTIONS..HOT_FUNCTIONS + STARTUP_FUNCTIONS, 1);
    text += "\nstatic uint32_t next(uint64_t *seed)\n{\n  \
             uint64_t z = *seed += 0x9e3779b97f4a7c15u;\n  \
             z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;\n  \
             z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;\n  \
             return (uint32_t)((z ^ (z >> 31)) >> 16);\n}\n\n\
             int main(int count, char **words)\n{\n  \
             static struct state s;\n  \
             long requests = count > 1 ? atol(words[1]) : 1000;\n  \
             uint64_t seed = count > 2 ? strtoull(words[2], 0, 10) : 1;\n  \
             uint32_t x = 1, kind = 0;\n  \
             for (unsigned i = 0; i < 256; i++) s.cell[i] = i * 2654435761u;\n  \
             for (unsigned i = 0; i < sizeof starters / sizeof *starters; i++) x = starters[i](&s, x);\n  \
             for (long i = 0; i < requests; i++) {\n    \
             uint32_t draw = next(&seed);\n    \
             /* Requests of a kind come in runs of four on average. */\n    \
             if ((draw & 3) == 0) kind = (draw >> 8) % (sizeof handlers / sizeof *handlers);\n    \
             x = handlers[kind](&s, x ^ draw);\n  \
             }\n  \
             printf(\"%08x\\n\", (unsigned)x);\n  \
             return 0;\n}\n";
    SourceFile { name: "main.c".to_owned(), text }
}

/// Work, with the calls spread over it.
fn definition(number: usize, function: &Function, names: &[Name], random: &mut Generator) -> String {
    let mut text = format!(
        "\n__attribute__((noinline)) uint32_t {}(struct state *s, uint32_t x)\n{{\n",
        names[number].symbol
    );
    if let Some(rare) = function.rare {
        let _ =
            writeln!(text, "  if (s->fault > {}) return {}(s, x);", random.below(1000), names[rare].symbol);
    }
    let parts = function.calls.len() + 1;
    for part in 0..parts {
        for _ in 0..(4 + random.below(9)).div_ceil(parts) {
            text += &statement(random);
        }
        if let Some(Call { callee, when }) = function.calls.get(part) {
            let call = format!("x += {}(s, x);", names[*callee].symbol);
            let _ = match when {
                0 => writeln!(text, "  {call}"),
                bits => writeln!(text, "  if (x & {bits}u) {call}"),
            };
        }
    }
    text + "  return x;\n}\n"
}

/// One step of work on `x` and the cells.
fn statement(random: &mut Generator) -> String {
    let (a, b) = (random.below(256), random.below(256));
    let odd = random.draw() as u32 | 1;
    let shift = 3 + random.below(26);
    match random.below(16) {
        0..3 => format!("  x ^= s->cell[{a}] + {odd}u;\n"),
        3..6 => format!("  x = x * {odd}u + s->cell[{a}];\n"),
        6..8 => format!("  x = (x << {shift}) | (x >> {});\n", 32 - shift),
        8..10 => format!("  s->cell[{a}] += x ^ {odd}u;\n"),
        10..12 => format!("  s->cell[{a}] = s->cell[{b}] - (x >> {shift});\n"),
        12 => format!("  x += s->cell[(x >> {}) & 255];\n", shift.min(24)),
        13..15 => format!("  if (x & {}u) x ^= {odd}u; else s->cell[{b}] ^= x;\n", 1u32 << shift),
        _ => format!("  for (unsigned i = x & 7; i < {}; i++) x = x * 31u + s->cell[i];\n", 8 + b % 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(program(1), program(1));
        assert_ne!(program(1), program(2));
    }

    #[test]
    fn every_function_is_declared_and_defined_once_and_called_by_its_name() {
        let files = program(1);
        assert_eq!(files.len(), FILES + 2);
        let declared: BTreeSet<&str> = files[0]
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("uint32_t ")?.strip_suffix("(struct state *s, uint32_t x);"))
            .collect();
        let defined: Vec<&str> = files[2..]
            .iter()
            .flat_map(|file| file.text.lines())
            .filter_map(|line| {
                line.strip_prefix("__attribute__((noinline)) uint32_t ")?
                    .strip_suffix("(struct state *s, uint32_t x)")
            })
            .collect();
        assert_eq!((declared.len(), defined.len()), (FUNCTIONS, FUNCTIONS));
        assert!(defined.iter().all(|name| declared.contains(name)));
    }

    #[test]
    fn hot_functions_lie_in_every_file() {
        let names = strewn_names(&mut Generator::new(1));
        let files: BTreeSet<usize> = names[..HOT_FUNCTIONS].iter().map(|name| name.module).collect();
        assert_eq!(files.len(), FILES);
    }

    #[test]
    fn calls_end() {
        for (number, function) in functions(&mut Generator::new(1)).iter().enumerate() {
            assert!(function.calls.len() <= MOST_CALLS);
            assert!(function.calls.iter().all(|call| call.callee > number));
            assert!(function.rare.is_none_or(|rare| rare > number));
        }
    }
}
