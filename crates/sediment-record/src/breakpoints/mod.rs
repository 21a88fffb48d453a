// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorder by breakpoints: one at every function's first byte, by ptrace. It needs no hardware counter, no recompiling and no root.
//!
//! The program, its descendants and every library that they load are armed. The first hit of a function gives its rank of first
//! use, and by its return address who called it; then the breakpoint is gone, and the function runs as it did before. Asked for
//! [`Rates`], it arms some of the functions again in short windows, which estimates how often they are called, for a share of the
//! program's time that is given beforehand.
//!
//! - what is asked of the system: `kernel` and `waiting`, on the room `tracing`
//! - what is mapped and armed: `modules` are files, `image` one of them at one place, `space` an address space, `budget` its cost
//! - who is traced: `tasks` has the states of threads, `tracer` follows them, `start` starts and attaches
//! - what was seen: `rates` opens windows, of which `sequences` and `walks` are some, `log` keeps what was met, `block_log` blocks,
//!   `step_times` what tells how often the program calls
//! - `trampolines`: first uses that the program notes by itself, without stops; `detours` has where their jumps can stand
//! - `pairing`: recorder and program on one processor, while stops come one after the other
//! - inside functions: `blocks` reads a compiler's map, `unmapped` does without one, `coverage` limits what finding the executed blocks costs
//!
//! docs/recording.md says what a user should know.

mod block_log;
mod blocks;
mod budget;
mod calls;
mod changes;
mod coverage;
mod detours;
mod heard;
mod image;
mod kernel;
mod log;
mod modules;
mod needed;
mod pairing;
mod rates;
mod sequences;
mod signals;
mod space;
mod start;
mod step_times;
mod tasks;
mod tracer;
mod trampolines;
mod unmapped;
mod waiting;
mod walks;

pub use rates::Rates;

use super::Recorder;

/// Its row in the table.
pub(crate) const RECORDER: Recorder = Recorder {
    name: "breakpoints",
    summary: "first uses in order, callers, and estimated call rates, by breakpoints at functions",
    lacks: "own cost; call rates are estimates",
    traces: true,
    counts_all: false,
    tells_addresses: false,
    available: start::available,
    suits: start::suits,
    serves_best: crate::always,
    record: start::record,
};
