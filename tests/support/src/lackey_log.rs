// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints a made-up run as lackey would log it, and says what must come out.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use std::collections::BTreeMap;
use std::fmt::Write;

/// A file that is mapped: its path, where its code was linked to lie, and where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    pub path: &'static str,
    pub linked: u64,
    pub loaded: u64,
}

pub const OBJECTS: [Object; 4] = [
    Object { path: "/usr/bin/program", linked: 0x40_1070, loaded: 0x40_1070 },
    Object { path: "/usr/lib/ld.so", linked: 0x1060, loaded: 0x400_1060 },
    Object { path: "/usr/lib/with blanks/libc.so.6", linked: 0x2_6380, loaded: 0x486_c380 },
    Object { path: "/usr/lib/libfar.so", linked: 0x3340, loaded: 0x7f_0000_3340 },
];

/// A block: a file, and how far behind the beginning of its code it lies.
pub type Block = (usize, u64);

/// Next event.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Block(Block),
    Thread(u32),
}

/// Expected result of a reader, by the names that goldens use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub runs: BTreeMap<String, u128>,
    pub passages: BTreeMap<(String, String), u128>,
    pub steps: Vec<(u64, String)>,
}

fn name((object, offset): Block) -> String {
    let object = OBJECTS[object];
    format!("{}@{:#x}", object.path, object.linked + offset)
}

pub fn truth(events: &[Event]) -> Truth {
    let mut truth = Truth::default();
    let mut last: BTreeMap<u32, Block> = BTreeMap::new();
    let mut thread = 1;
    for event in events {
        match *event {
            Event::Thread(number) => thread = number,
            Event::Block(block) => {
                *truth.runs.entry(name(block)).or_default() += 1;
                if let Some(before) = last.insert(thread, block) {
                    *truth.passages.entry((name(before), name(block))).or_default() += 1;
                }
                truth.steps.push((u64::from(thread), name(block)));
            }
        }
    }
    truth
}

/// Form of the log.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The program writes to the same file.
    pub output_between: bool,
    pub carriage_returns: bool,
    pub times: bool,
}

pub fn print(events: &[Event], form: Form) -> String {
    let time = if form.times { "00:00:00:01.224 " } else { "" };
    let mut log = format!("=={time}7== Lackey, an example Valgrind tool\n=={time}7== Command: ./program\n");
    for option in ["Valgrind options:", "   --tool=lackey", "   --vex-guest-chase=no"] {
        writeln!(log, "--{time}7-- {option}").unwrap();
    }
    writeln!(log, "--{time}7-- Arch and hwcaps: AMD64, LittleEndian, amd64-cx16").unwrap();
    for Object { path, linked, loaded } in OBJECTS {
        writeln!(log, "--{time}7-- Reading syms from {path}").unwrap();
        writeln!(log, "--{time}7--    svma 0x{linked:010x}, avma 0x{loaded:010x}").unwrap();
    }
    for (number, event) in events.iter().enumerate() {
        if form.output_between && number % 11 == 0 {
            log += ["hello\n", "no end of the line", "\n", "==x== SB \n"][number / 11 % 4];
        }
        match *event {
            Event::Block((object, offset)) => {
                writeln!(log, "SB {:08x}", OBJECTS[object].loaded + offset).unwrap()
            }
            Event::Thread(number) => {
                if log.ends_with("line") {
                    log.push('\n');
                }
                writeln!(log, "--{time}7--   SCHED[{number}]:  acquired lock (VG_(scheduler):timeslice)")
                    .unwrap();
            }
        }
    }
    if log.ends_with("line") {
        log.push('\n');
    }
    writeln!(log, "=={time}7== Exit code:       0").unwrap();
    if form.carriage_returns { log.replace('\n', "\r\n") } else { log }
}
