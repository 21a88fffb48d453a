// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorder by redirected call sites: every call of a program is counted where it is made, by code in the program's own memory. Nothing
//! traps while the program runs.
//!
//! - what changes in a file: `frames` reads its unwind tables, `plan` finds the sites, `stubs` has the code that counts
//! - `shared`: memory that recorder and programs share; `entrance` maps it into a program that begins
//! - `modules` are files, `image` is a program with its memory, `supervisor` follows the processes, `tally` has what was counted
//!
//! docs/recording.md says what a user should know.

mod elf;
#[cfg(target_arch = "x86_64")]
mod entrance;
mod flags;
mod frames;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod modules;
mod plan;
mod shared;
mod sites;
#[cfg(target_arch = "x86_64")]
mod start;
mod stubs;
#[cfg(target_arch = "x86_64")]
mod supervisor;
mod sweep;
#[cfg(target_arch = "x86_64")]
mod tally;
mod windows;

use super::Recorder;

/// Its row in the table.
pub const RECORDER: Recorder = Recorder {
    name: "call-sites",
    summary: "every call, exactly, by call sites that lead through counters",
    lacks: "own cost",
    traces: true,
    tells_addresses: false,
    available: start::available,
    suits: start::suits,
    record: start::record,
};
