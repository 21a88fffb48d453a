// SPDX-License-Identifier: MIT OR Apache-2.0
//! A made-up program's branches, as BOLT's two texts tell them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A function, with its address and its name as BOLT writes it, before blanks are escaped.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    /// Name in the recording: name and, in parentheses, file.
    pub known_as: String,
    pub address: u64,
}

/// Event between two functions, by index.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Call {
        from: usize,
        to: usize,
        count: u64,
    },
    Return {
        from: usize,
        to: usize,
        count: u64,
    },
    Loop {
        within: usize,
        count: u64,
    },
    /// A call of something outside.
    Leave {
        from: usize,
        count: u64,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Program {
    pub functions: Vec<Function>,
    pub events: Vec<Event>,
}

impl Program {
    pub fn generate(count: usize, events: usize) -> Self {
        let mut state = 99u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let functions = (0..count)
            .map(|number| {
                let (name, known_as) = match number % 4 {
                    0 => (format!("f{number}"), format!("f{number}")),
                    1 => (format!("local{number}/src/a.c/1"), format!("local{number} (src/a.c)")),
                    2 => (format!("plain{number}/3"), format!("plain{number}")),
                    _ => (format!("op {number}\\"), format!("op {number}\\")),
                };
                Function { name, known_as, address: 0x40_1000 + 0x100 * number as u64 }
            })
            .collect();
        let mut all = Vec::new();
        while all.len() < events {
            let (from, to, count) = (next(count), next(count), 1 + next(1000) as u64);
            if from == to {
                continue;
            }
            all.push(match next(6) {
                0 => Event::Return { from, to, count },
                1 => Event::Loop { within: from, count },
                2 => Event::Leave { from, count },
                _ => Event::Call { from, to, count },
            });
        }
        Self { functions, events: all }
    }

    /// Calls between functions, as [`crate::reading::calls`] gives them for a program of no name.
    pub fn calls(&self) -> BTreeMap<(String, String), u128> {
        let mut calls = BTreeMap::new();
        for event in &self.events {
            if let Event::Call { from, to, count } = *event {
                let name = |index: usize| format!("-:{}", self.functions[index].known_as);
                *calls.entry((name(from), name(to))).or_default() += u128::from(count);
            }
        }
        calls
    }

    /// Number of calls, those outside included.
    pub fn total(&self) -> u128 {
        let weight = |event: &Event| match *event {
            Event::Call { count, .. } | Event::Leave { count, .. } => u128::from(count),
            _ => 0,
        };
        self.events.iter().map(weight).sum()
    }

    pub fn fdata(&self) -> String {
        let mut text = String::new();
        let name = |index: usize| self.functions[index].name.replace('\\', "\\\\").replace(' ', "\\ ");
        for event in &self.events {
            match *event {
                Event::Call { from, to, count } => {
                    writeln!(text, "1 {} 1f 1 {} 0 0 {count}", name(from), name(to))
                }
                Event::Return { from, to, count } => {
                    writeln!(text, "1 {} 3a 1 {} 24 1 {count}", name(from), name(to))
                }
                Event::Loop { within, count } => {
                    writeln!(text, "1 {} 30 1 {} 8 0 {count}", name(within), name(within))
                }
                Event::Leave { from, count } => writeln!(text, "1 {} 30 0 [unknown] 0 0 {count}", name(from)),
            }
            .unwrap();
        }
        text
    }

    /// `traces`: in the newer lines, that tell what ran behind a branch.
    pub fn aggregated(&self, traces: bool) -> String {
        let mut text = String::new();
        for event in &self.events {
            let at = |index: usize, offset: u64| self.functions[index].address + offset;
            let (from, to, count, returns) = match *event {
                Event::Call { from, to, count } => (at(from, 0x1f), format!("{:x}", at(to, 0)), count, false),
                Event::Return { from, to, count } => {
                    (at(from, 0x3a), format!("{:x}", at(to, 0x24)), count, true)
                }
                Event::Loop { within, count } => {
                    (at(within, 0x30), format!("{:x}", at(within, 8)), count, false)
                }
                Event::Leave { from, count } => (at(from, 0x30), "X:7f00".into(), count, false),
            };
            if traces {
                let letter = if returns { 'R' } else { 'T' };
                writeln!(text, "{letter} {from:x} {to} {:x} {count}", from + 4).unwrap();
            } else {
                writeln!(text, "B {from:x} {to} {count} 0\nF {from:x} {from:x} {count}").unwrap();
            }
        }
        text
    }
}
