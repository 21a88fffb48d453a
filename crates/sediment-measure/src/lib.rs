// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what runs of programs cost, with and without hardware counters.
//!
//! A meter runs a [`Command`] once, and returns its [`Reading`]s. A single time proves nothing, so [`pairs`] runs two
//! commands in turn, and returns the ratios.
//!
//! | module | content |
//! |---|---|
//! | [`METERS`] | [`cachegrind`] as an instruction TLB, as a cache, and as a counter of pages; peak memory; time and faults |
//! | [`perf_stat`], [`processor`] | hardware counters through perf, and which events this processor has |
//! | [`pairs`], [`samples`] | runs of two commands in turn, and how their costs spread |
//! | [`judge`], [`statistics`] | whether one build takes less processor time than another, with the luck of layout inside the interval; the tests behind it |
//! | [`padding`] | layouts of one program that differ by padding only: luck of layout, made visible |
//! | [`clock`], [`machine`], [`pace`], [`page_cache`] | time across sittings, the state of the machine, the speed of the processor, files in memory or not |
//!
//! The crate starts processes in a given folder, and does not know layouts. To add a meter, add a file here, a row in
//! [`METERS`], and a section in docs/measuring.md.

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod cachegrind;
pub mod clock;
pub mod judge;
pub mod machine;
pub mod pace;
pub mod padding;
pub mod page_cache;
pub mod pairs;
mod peak_memory;
pub mod perf_stat;
pub mod processor;
mod rusage;
pub mod samples;
pub mod statistics;

use sediment_core::error::Result;
use sediment_process::Command;
use std::path::Path;

/// One way to measure a run.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// The name by which the user chooses it.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Its requirements.
    pub needs: &'static str,
    /// Quantities it reads, in the order of its readings.
    pub quantities: &'static [Quantity],
    /// Succeeds if it works on this machine; otherwise an error of kind [`sediment_core::ErrorKind::Unsupported`] with what to install or allow.
    pub available: fn() -> Result<()>,
    /// Runs the command once, to its end, discards its standard output, and reads all quantities. Files that the meter
    /// itself needs are made in the folder and removed. If the command fails, the error names its exit code.
    pub run: fn(&Command, &Path) -> Result<Vec<Reading>>,
}

/// A quantity that a meter reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Its name, as a table shows it.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Its definition.
    pub summary: &'static str,
    /// True if the same program with the same input gives the same value on every run and machine.
    pub repeatable: bool,
}

/// Unit of a [`Reading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of items.
    Count,
    /// Bytes.
    Bytes,
    /// Millionths of a second.
    Microseconds,
}

/// One reading of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The measured quantity.
    pub quantity: &'static Quantity,
    /// The value, in the quantity's unit.
    pub value: u64,
}

/// All meters, the repeatable ones first.
pub const METERS: &[Meter] = &[
    cachegrind::ITLB_METER,
    cachegrind::L1I_METER,
    cachegrind::PAGES_METER,
    peak_memory::METER,
    rusage::METER,
];

/// The meter of this name.
#[must_use]
pub fn meter(name: &str) -> Option<&'static Meter> {
    METERS.iter().find(|meter| meter.name == name)
}
