// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of perf script and folded stacks as the tools print them, made from known stacks and branches.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A small generator of numbers, the same everywhere.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A function of [`OBJECTS`] number `object`, at an offset in that file.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    pub object: usize,
    pub offset: u64,
}

pub const OBJECTS: [&str; 3] = ["/usr/bin/my prog", "/usr/lib/libx.so.6", "/opt/a (b)/plug in.so"];
/// Every process has each object somewhere else.
const BASE: u64 = 0x5555_5555_0000;
const MAPPED: u64 = 0x10_0000;
const FUNCTION: u64 = 0x80;

/// Functions, stacks of them and branches between them.
#[derive(Debug, Clone)]
pub struct Program {
    pub functions: Vec<Function>,
    /// Process, period, functions from the outermost.
    pub stacks: Vec<(u32, u64, Vec<usize>)>,
    pub branches: Vec<Sample>,
}

/// A sample of branches, newest first.
#[derive(Debug, Clone)]
pub struct Sample {
    pub process: u32,
    pub branches: Vec<Branch>,
}

/// From a byte of a function to a byte of a function.
#[derive(Debug, Clone, Copy)]
pub struct Branch {
    pub from: (usize, u64),
    pub to: (usize, u64),
    pub kind: &'static str,
}

pub const KINDS: [&str; 8] = ["CALL", "IND_CALL", "RET", "COND", "UNCOND", "", "SYSCALL", "CALL"];

fn is_call(kind: &str) -> bool {
    matches!(kind, "CALL" | "IND_CALL")
}

impl Program {
    pub fn generate(functions: usize, samples: usize, seed: u64) -> Self {
        let mut numbers = Numbers(seed * 2 + 1);
        let named = |number: usize| match number % 5 {
            0 => format!("function_{number}"),
            1 => format!("ns::map<int, char>::operator[] (int)_{number}"),
            2 => format!("_ZN2ns3addEii.{number}"),
            3 => format!("operator new_{number}"),
            _ => format!("f{number}.lto_priv.0"),
        };
        let mut offsets = [0x1000u64; OBJECTS.len()];
        let functions: Vec<Function> = (0..functions)
            .map(|number| {
                let object = number % OBJECTS.len();
                let offset = offsets[object];
                offsets[object] += FUNCTION;
                assert!(offset < MAPPED);
                Function { name: named(number), object, offset }
            })
            .collect();
        let count = functions.len() as u64;
        let stacks = (0..samples)
            .map(|_| {
                let depth = 1 + numbers.below(12);
                let process = 100 + numbers.below(3) as u32;
                let period = 1 + numbers.below(2_000_000);
                // Few different ones, so that recursion is common.
                let width = 1 + numbers.below(count);
                (process, period, (0..depth).map(|_| numbers.below(width) as usize).collect())
            })
            .collect();
        let branches = (0..samples)
            .map(|_| Sample {
                process: 100 + numbers.below(3) as u32,
                branches: (0..numbers.below(33))
                    .map(|_| {
                        let kind = KINDS[numbers.below(KINDS.len() as u64) as usize];
                        let from = (numbers.below(count) as usize, 1 + numbers.below(FUNCTION - 1));
                        let into = if is_call(kind) { 0 } else { numbers.below(3) * 8 };
                        Branch { from, to: (numbers.below(count) as usize, into), kind }
                    })
                    .collect(),
            })
            .collect();
        Self { functions, stacks, branches }
    }

    fn address(&self, process: u32, (function, offset): (usize, u64)) -> u64 {
        let function = &self.functions[function];
        base(process, function.object) + function.offset + offset
    }
}

fn base(process: u32, object: usize) -> u64 {
    BASE + u64::from(process - 100) * 0x10_0000_0000 + object as u64 * 0x1000_0000
}

/// Which fields are printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    pub command: bool,
    /// `pid/tid`, else the thread alone.
    pub process: bool,
    pub processor: bool,
    pub time: bool,
    pub period: bool,
    pub event: bool,
    pub offset: bool,
    pub object: bool,
    /// Frames that were inlined stand between the others.
    pub inlined: bool,
    pub carriage_returns: bool,
    /// Form of branches: `brstack`, `brstacksym`, with types.
    pub names: bool,
    pub untyped: bool,
}

fn fields(form: Form, process: u32, number: usize, period: u64) -> String {
    let mut text = String::new();
    if form.command {
        text += ["my prog", "a [b] 1/2", "postgres: io 7"][number % 3];
        text += " ";
    }
    if form.process {
        write!(text, "{process}/{} ", process + 7).unwrap();
    } else if form.command {
        write!(text, "{process} ").unwrap();
    }
    if form.processor {
        text += "[003] ";
    }
    if form.time {
        write!(text, "  {}.{:06}: ", 13_000 + number / 1000, number % 1000).unwrap();
    }
    if form.period {
        write!(text, "{period:>10} ").unwrap();
    }
    if form.event {
        text += "cycles:u: ";
    }
    text
}

fn mappings(form: Form) -> String {
    let mut text = String::new();
    for process in 100..103 {
        for (object, path) in OBJECTS.iter().enumerate() {
            let start = base(process, object) + 0x1000;
            writeln!(
                text,
                "{}PERF_RECORD_MMAP2 {process}/{process}: [{start:#x}({:#x}) @ 0x1000 08:01 {object} 0]: r-xp {path}",
                fields(Form { period: false, event: false, ..form }, process, object, 0),
                MAPPED - 0x1000
            )
            .unwrap();
        }
    }
    text
}

fn ended(text: String, form: Form) -> String {
    if form.carriage_returns { text.replace('\n', "\r\n") } else { text }
}

/// Call chains.
pub fn print_chains(program: &Program, form: Form) -> String {
    let mut text = String::new();
    for (number, (process, period, stack)) in program.stacks.iter().enumerate() {
        writeln!(text, "{}", fields(form, *process, number, *period)).unwrap();
        for (depth, function) in stack.iter().rev().enumerate() {
            let place = &program.functions[*function];
            let inside = 1 + (number + depth) as u64 % (FUNCTION - 1);
            if form.inlined && (number + depth) % 3 == 0 {
                writeln!(text, "\t{:>16x} squeezed<in> (inlined)", place.offset + inside).unwrap();
            }
            write!(text, "\t{:>16x} {}", place.offset + inside, place.name).unwrap();
            if form.offset {
                write!(text, "+{inside:#x}").unwrap();
            }
            if form.object {
                write!(text, " ({})", OBJECTS[place.object]).unwrap();
            }
            text += "\n";
        }
        text += "\n";
    }
    ended(text, form)
}

/// Branch stacks, below the mappings.
pub fn print_branches(program: &Program, form: Form) -> String {
    let mut text = mappings(form);
    for (number, sample) in program.branches.iter().enumerate() {
        text += &fields(form, sample.process, number, 1000);
        if form.names {
            write!(text, " {:>16x} f+0x1 (/usr/bin/my prog)", 0x1001).unwrap();
        } else {
            write!(text, " {:>16x}", program.address(sample.process, (0, 1))).unwrap();
        }
        for branch in &sample.branches {
            let end = |(function, offset): (usize, u64)| {
                let place = &program.functions[function];
                match form.names {
                    true => format!("{}+{offset:#x}({})", place.name, OBJECTS[place.object]),
                    false => format!("{:#x}", program.address(sample.process, (function, offset))),
                }
            };
            let blank = if form.names { "" } else { " " };
            write!(text, "{blank}{}/{}/P/-/-/{}", end(branch.from), end(branch.to), number % 90).unwrap();
            match form.untyped {
                true => text += " ",
                false => write!(text, "/{} ", branch.kind).unwrap(),
            }
        }
        text += "\n";
    }
    ended(text, form)
}

/// Printed content: passages by the addresses of their ends, own cost by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub calls: BTreeMap<(String, String), u128>,
    pub costs: BTreeMap<String, u128>,
}

fn name(program: &Program, function: usize, object: bool) -> String {
    let place = &program.functions[function];
    format!("{}:{}", if object { OBJECTS[place.object] } else { "-" }, place.name)
}

/// Of call chains: each pair once a stack.
pub fn truth_of_chains(program: &Program, form: Form) -> Truth {
    let mut truth = Truth::default();
    for (_, period, stack) in &program.stacks {
        let weight = if form.period { u128::from(*period) } else { 1 };
        let names: Vec<String> = stack.iter().map(|function| name(program, *function, form.object)).collect();
        let pairs: BTreeSet<(String, String)> =
            names.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        for pair in pairs {
            *truth.calls.entry(pair).or_default() += weight;
        }
        *truth.costs.entry(names[names.len() - 1].clone()).or_default() += weight;
    }
    truth
}

/// Of branches: those of a type that is a call; without types, those to the first byte of another function.
pub fn truth_of_branches(program: &Program, form: Form) -> BTreeMap<(String, String), u128> {
    let mut calls = BTreeMap::new();
    for branch in program.branches.iter().flat_map(|sample| &sample.branches) {
        let untyped = form.untyped || branch.kind.is_empty();
        let another = branch.to.1 == 0 && branch.from.0 != branch.to.0;
        let end = |(function, offset): (usize, u64)| {
            let place = &program.functions[function];
            match form.names {
                true => name(program, function, true),
                false => format!("{}+{:#x}", OBJECTS[place.object], place.offset + offset),
            }
        };
        // Addresses alone do not tell where a function begins: that is decided later, by the ELF file.
        let counts = if untyped { !form.names || another } else { is_call(branch.kind) };
        if counts {
            *calls.entry((end(branch.from), end(branch.to))).or_default() += 1;
        }
    }
    calls
}

/// The same stacks folded, with the name of the process before them where there is one.
pub fn print_folded(program: &Program, process: Option<&str>) -> String {
    let mut text = String::new();
    for (_, period, stack) in &program.stacks {
        if let Some(process) = process {
            write!(text, "{process};").unwrap();
        }
        // A root that begins every process, so that it is known what stands above.
        text += "_start";
        for function in stack {
            write!(text, ";{}", program.functions[*function].name).unwrap();
        }
        writeln!(text, " {period}").unwrap();
    }
    text
}

pub fn truth_of_folded(program: &Program) -> Truth {
    let mut with_root = program.clone();
    with_root.functions.push(Function { name: "_start".to_owned(), object: 0, offset: 0 });
    for (_, _, stack) in &mut with_root.stacks {
        stack.insert(0, program.functions.len());
    }
    truth_of_chains(&with_root, Form { period: true, ..Form::default() })
}
