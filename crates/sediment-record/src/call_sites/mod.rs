// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder by redirected call sites: every call of a program is counted at its call site, by code in the program's
//! own memory. Nothing traps while the program runs.
//!
//! - what changes in a file: `elf` and `frames` read it, `plan` has the sites; `plan_cache` keeps plans in the form of `kept_plan`
//! - `stubs` has the code that counts, `changes` the bytes that lead there, `counters` what it counts in
//! - `x86_64` and `aarch64` choose sites (`find`) and have all machine code; `machine` is the one of this processor. `found` and `placement` are
//!   what they get and make
//! - `shared`: memory that recorder and programs share; `entrance` says how, `injected` runs the code, `room` finds free memory, `places` chooses among it, `rooms`
//!   has the stubs in it, `copies` has code with all changes
//! - `modules` are files, `image` is a program with its memory, `tally` has what was counted
//! - `supervisor` follows the processes, `system_calls` looks at their calls, `attach` takes on those that run, `release` lets them go
//! - `trace` has windows of time in which stubs note calls in their order; `sequence` adds the returns between them
//! - `opened` is the memory of a process; `standstill` stops its threads, `switch` changes their code by `code`; `bursts` says when, `turns` does it
//!
//! docs/recording.md says what a user should know.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "some parts serve x86-64 only"))]

#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "only tests use it"))]
mod aarch64;
mod attach;
mod bursts;
mod changes;
mod code;
mod copied_code;
mod copies;
mod counters;
mod elf;
mod entrance;
mod filtered;
mod found;
mod frames;
mod image;
mod injected;
mod kept_plan;
mod modules;
mod opened;
mod placement;
mod places;
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
mod switch;
mod system_calls;
mod tally;
mod trace;
mod turns;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

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
