// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the costs and calls of a made-up program as callgrind would, in any of its forms.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// A function of the program.
#[derive(Debug, Clone)]
pub struct Function {
    pub object: u32,
    pub file: u32,
    pub name: String,
}

/// One line, or one group of lines that belong together.
#[derive(Debug, Clone, Copy)]
pub enum Line {
    Cost {
        position: u64,
        cost: u64,
    },
    Call {
        position: u64,
        callee: u32,
        count: u64,
    },
    /// Code that was inlined from another file.
    Inlined {
        file: u32,
    },
    Jump {
        position: u64,
        taken: u64,
    },
}

/// Calls and costs of the program.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub functions: Vec<Function>,
    /// Functions with their lines; one may come several times.
    pub blocks: Vec<(u32, Vec<Line>)>,
}

/// Printed form.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    pub compress_names: bool,
    pub compress_positions: bool,
    pub instructions: bool,
    pub lines: bool,
    /// Events beside the first.
    pub further_events: usize,
    pub parts: usize,
    pub carriage_returns: bool,
}

/// Own costs and calls, by the names of functions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub costs: BTreeMap<String, u128>,
    pub calls: BTreeMap<(String, String), u128>,
}

/// A generator of numbers that are the same on every machine.
#[derive(Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

impl Program {
    /// A program of some size.
    pub fn generate(functions: u32, blocks: usize, lines: usize, seed: u64) -> Self {
        let mut numbers = Numbers(seed * 2 + 1);
        let mut program = Self::default();
        for number in 0..functions {
            let (object, file) =
                (numbers.below(4) as u32, numbers.below(u64::from(functions) / 8 + 1) as u32);
            let name = format!("_ZN9component{}function_{number}Ev", number % 7);
            program.functions.push(Function { object, file, name });
        }
        for _ in 0..blocks {
            let function = numbers.below(u64::from(functions)) as u32;
            let mut position = numbers.below(5000) + 1;
            let mut block = Vec::new();
            for _ in 0..lines {
                position = (position + numbers.below(9)).saturating_sub(numbers.below(7)).max(1);
                block.push(match numbers.below(16) {
                    0 => {
                        // Each function calls a few others, wherever they are.
                        let callee = u64::from(function) * 31 + numbers.below(5) * 7919;
                        let callee = (callee % u64::from(functions)) as u32;
                        Line::Call { position, callee, count: numbers.below(10_000) + 1 }
                    }
                    3 => Line::Inlined { file: numbers.below(9) as u32 },
                    4 => Line::Jump { position, taken: numbers.below(100) },
                    _ => Line::Cost { position, cost: numbers.below(1_000_000) + 1 },
                });
            }
            program.blocks.push((function, block));
        }
        program
    }

    fn name(&self, function: u32) -> String {
        let Function { object, file, name } = &self.functions[function as usize];
        format!("{}:{name} ({})", object_path(*object), file_path(*file).rsplit('/').next().unwrap())
    }

    pub fn truth(&self) -> Truth {
        let mut truth = Truth::default();
        for (function, lines) in &self.blocks {
            for line in lines {
                match line {
                    Line::Cost { cost, .. } => {
                        *truth.costs.entry(self.name(*function)).or_default() += u128::from(*cost);
                    }
                    Line::Call { callee, count, .. } => {
                        let pair = (self.name(*function), self.name(*callee));
                        *truth.calls.entry(pair).or_default() += u128::from(*count);
                    }
                    Line::Inlined { .. } | Line::Jump { .. } => {}
                }
            }
        }
        truth
    }

    /// The text of a file.
    pub fn print(&self, form: Form) -> String {
        let mut printer =
            Printer { program: self, form, text: String::new(), known: HashSet::new(), last: (0, 0) };
        printer.header();
        for part in self.blocks.chunks(self.blocks.len().div_ceil(form.parts).max(1)) {
            printer.part(part);
        }
        if form.carriage_returns { printer.text.replace('\n', "\r\n") } else { printer.text }
    }
}

fn object_path(object: u32) -> String {
    format!("/usr/lib/component {object}.so")
}

fn file_path(file: u32) -> String {
    format!("/usr/src/program/part_{}/file_{file}.cc", file % 3)
}

struct Printer<'a> {
    program: &'a Program,
    form: Form,
    text: String,
    /// Ids that were defined, by space.
    known: HashSet<(u8, u32)>,
    /// The last position: address, line.
    last: (u64, u64),
}

impl Printer<'_> {
    fn header(&mut self) {
        self.text += "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 1\ncmd: ./program\n";
    }

    fn part(&mut self, blocks: &[(u32, Vec<Line>)]) {
        let positions = match (self.form.instructions, self.form.lines) {
            (true, true) => "instr line",
            (true, false) => "instr",
            _ => "line",
        };
        let events = ["Dr", "Dw", "I1mr"][..self.form.further_events].join(" ");
        writeln!(
            self.text,
            "part: 1\n\ndesc: Trigger: Program termination\n\npositions: {positions}\nevents: Ir {events}\n"
        )
        .unwrap();
        self.last = (0, 0);
        let (mut object, mut file) = (u32::MAX, u32::MAX);
        for (function, lines) in blocks {
            let made = &self.program.functions[*function as usize];
            self.text.push('\n');
            if made.object != object {
                object = made.object;
                self.named("ob", 0, object, object_path(object));
            }
            if made.file != file {
                file = made.file;
                self.named("fl", 1, file, file_path(file));
            }
            self.named("fn", 2, *function, made.name.clone());
            for line in lines {
                self.line(line, object, &mut file, made.file);
            }
        }
        self.text += "\ntotals: 1\n\n";
    }

    fn line(&mut self, line: &Line, object: u32, file: &mut u32, own_file: u32) {
        match *line {
            Line::Cost { position, cost } => {
                self.position(position);
                writeln!(self.text, "{cost}{}", " 3".repeat(self.form.further_events)).unwrap();
            }
            Line::Inlined { file: inlined } => {
                // Back to the function's own file where it is there already, as an inlined stretch ends.
                let next = if *file == own_file { inlined } else { own_file };
                self.named(if next == own_file { "fe" } else { "fi" }, 1, next, file_path(next));
                *file = next;
            }
            Line::Jump { position, taken } => {
                write!(self.text, "jcnd={taken}/{} ", taken + 5).unwrap();
                self.position(position);
                self.text.push('\n');
                self.position(position);
                self.text.push('\n');
            }
            Line::Call { position, callee, count } => {
                let called = &self.program.functions[callee as usize];
                if called.object != object {
                    self.named("cob", 0, called.object, object_path(called.object));
                }
                if called.file != *file {
                    self.named(["cfi", "cfl"][callee as usize % 2], 1, called.file, file_path(called.file));
                }
                self.named("cfn", 2, callee, called.name.clone());
                write!(self.text, "calls={count} ").unwrap();
                self.position(position + 40);
                self.text.push('\n');
                self.position(position);
                self.text += "123456789\n";
            }
        }
    }

    fn named(&mut self, word: &str, space: u8, id: u32, name: String) {
        if !self.form.compress_names {
            writeln!(self.text, "{word}={name}").unwrap();
        } else if self.known.insert((space, id)) {
            writeln!(self.text, "{word}=({}) {name}", id + 1).unwrap();
        } else {
            writeln!(self.text, "{word}=({})", id + 1).unwrap();
        }
    }

    /// The positions of a line, with a blank after each.
    fn position(&mut self, line: u64) {
        let address = 0x40_0000 + 4 * line;
        for (wanted, now, before, hexadecimal) in [
            (self.form.instructions, address, self.last.0, true),
            (self.form.lines || !self.form.instructions, line, self.last.1, false),
        ] {
            if !wanted {
                continue;
            }
            if !self.form.compress_positions || before == 0 {
                if hexadecimal { write!(self.text, "{now:#x} ") } else { write!(self.text, "{now} ") }
                    .unwrap();
            } else if now == before {
                self.text += "* ";
            } else if now > before {
                write!(self.text, "+{} ", now - before).unwrap();
            } else {
                write!(self.text, "-{} ", before - now).unwrap();
            }
        }
        self.last = (address, line);
    }
}
