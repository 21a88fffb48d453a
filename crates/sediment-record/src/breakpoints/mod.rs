// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorder that uses ptrace and a breakpoint at every function's first byte. It needs no hardware counter, no
//! recompilation and no root.
//!
//! Breakpoints are set in the program, its descendants and every library that they load. The first hit of a function
//! gives its rank of first use, and its return address gives the caller. The breakpoint is then removed, so the
//! function runs as before. With [`Rates`], it sets breakpoints at some functions again in short windows, and so
//! estimates how often they are called, for a given share of the program's time.
//!
//! - requests to the system: `kernel` and `waiting`, based on the room `tracing`
//! - mapped code with breakpoints: `modules` are files, `image` one of them at one address, `space` an address space,
//!   `budget` the memory that breakpoints cost
//! - traced threads: `tasks` has their states, `tracer` follows them, `start` starts and attaches
//! - observations: `rates` opens windows, among them `sequences` and `walks`; `log` keeps the hits, `block_log` the
//!   executed blocks, `step_times` the time between calls
//! - `trampolines`: first uses that the program notes by itself, without stops; `detours` finds the places for their
//!   jumps
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

/// Row of this recorder in the table of recorders.
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
