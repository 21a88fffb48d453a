// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder by redirected call sites: every call of a program is counted at its call site, by code in the program's
//! own memory. Nothing traps while the program runs.
//!
//! - what changes in a file: `elf` and `frames` read it, `sweep` decodes it, `flags` and `windows` choose, `plan` has the sites;
//!   `plan_cache` keeps plans in the form of `kept_plan`
//! - `stubs` has the code that counts, `changes` the bytes that lead there, `counters` what it counts in
//! - `notice` is the stub of new libraries; `writer` writes machine code
//! - `shared`: memory that recorder and programs share; `entrance` has code that maps it, `injected` runs it, `room` finds the place, `rooms`
//!   has the stubs in it, `copies` has code with all changes
//! - `modules` are files, `image` is a program with its memory, `tally` has what was counted
//! - `supervisor` follows the processes, `attach` takes on those that run, `release` lets them go
//! - `trace` has windows of time in which stubs note calls in their order; `sequence` adds the returns between them
//! - `opened` is the memory of a process; `standstill` stops its threads, `switch` changes their code by `code`; `bursts` says when, `turns` does it
//!
//! docs/recording.md says what a user should know.

mod attach;
mod bursts;
mod changes;
mod code;
mod copies;
mod counters;
mod elf;
mod entrance;
mod flags;
mod frames;
mod image;
mod injected;
mod kept_plan;
mod modules;
mod notice;
mod opened;
mod plan;
mod plan_cache;
mod release;
mod room;
mod rooms;
mod sequence;
mod shared;
mod sites;
mod standstill;
mod start;
mod stubs;
mod supervisor;
mod sweep;
mod switch;
mod tally;
mod trace;
mod turns;
mod windows;
mod writer;

use super::Recorder;
use sediment_core::error::{Error, ErrorCode, Result};

/// Removes the plans in the user's cache, and returns their number and their bytes.
pub(super) fn clear_cache() -> Result<(usize, u64)> {
    plan_cache::clear()
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot clear the cache of plans: {error}")))
}

/// Row of this recorder in the table of recorders.
pub(crate) const RECORDER: Recorder = Recorder {
    name: "call-sites",
    summary: "every call, exactly, by call sites that are redirected through counters",
    lacks: "own cost",
    traces: true,
    counts_all: true,
    tells_addresses: false,
    available: start::available,
    suits: start::suits,
    serves_best: start::serves_best,
    record: start::record,
};
