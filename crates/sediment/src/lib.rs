// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders the functions of native programs at link time, from profiles of real use.
//!
//! ```
//! use sediment::link::{linker, placements};
//! use sediment::order::{Request, Selection, compute};
//! use sediment::profile::text;
//!
//! # fn main() -> sediment::Result<()> {
//! let file = br#"digraph { graph [sediment=2, unit=calls, total=12]; main -> report [count=1]; main -> parse [count=11]; }"#;
//! let (profile, _skipped) = text::parse(file)?;
//! let ordering = compute(&profile, &Selection::Everything, &Request::default())?;
//! let list = linker("list").unwrap();
//! let (functions, _skipped) = placements(&ordering.order, &ordering.built, None, list.wants_calls);
//! let (order_file, _skipped) = (list.write)(&functions);
//! assert_eq!(order_file, "main\nparse\nreport\n");
//! # Ok(())
//! # }
//! ```
//!
//! # From a recording to a linked file
//!
//! Each arrow is one function from value to value; the caller opens files:
//!
//! ```text
//! record ─► Recording ─► resolve ─► Profile ─► merge ─► Profile ─► order ─► Order ─► link ─► verify
//! ```
//!
//! Nothing here prints, exits, reads the environment or opens a path. Only [`record`] does: it looks for programs on `PATH` and starts
//! them in a folder that the caller gives.
//!
//! | module | content |
//! |---|---|
//! | [`read`] | readers of profilers' files: perf, valgrind, gprof, uftrace, pprof, OpenTelemetry, BOLT, LLVM and lists |
//! | [`resolve`], [`binary`], [`matching`] | addresses to functions, by ELF symbols and build-ids |
//! | [`line_profile`] | executions and calls by source line, for LLVM and Go |
//! | [`profile`] | the profile: [`profile::text`] is its file, [`profile::merge`] adds profiles up |
//! | [`static_graph`], [`gcov`], [`trace`] | call graphs of compilers, counters of their instrumentation, time order of a run |
//! | [`order`], [`callgraph`], [`model`] | [`order::compute`], the algorithms behind it, scores of an order |
//! | [`link`], [`wrapper`] | ordering files of linkers, decisions of a linker wrapper |
//! | [`mod@verify`], [`report`], [`advise`], [`blocks`] | checks and views of results, advice on inlining, counts of blocks |
//! | [`record`] | recorders: breakpoints, perf, valgrind |
//! | [`error`], [`skipped`], [`escape`], [`demangle`], [`random`] | errors with codes, skipped items with reasons, escaping, names for people, random numbers |
//!
//! # Errors
//!
//! Every fallible function returns [`Error`]. Match on [`Error::code`]: an [`ErrorCode`] and its text are stable, messages are not.
//!
//! # Stability
//!
//! Before 1.0, a minor release may change any interface, and a patch release none. Formats of files, [`ErrorCode::text`], and the
//! codes of [`skipped`] are stable across releases; [`order::versions`] keeps the default order of every release. Messages,
//! hints and the choice of the default order may change in every release.
//!
//! The minimum supported Rust version is 1.85. It is raised in minor releases only, and never beyond Debian stable's. There are
//! no optional features. Supported are Linux hosts; profiles and binaries may be of any architecture.

// Profiles come from strangers: a panic on data is a defect, so each that remains is argued where it stands.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod advise;
mod affinity;
mod ascending;
pub mod binary;
pub mod blocks;
pub mod callgraph;
mod counts;
pub mod demangle;
pub mod error;
pub mod escape;
mod flow;
pub mod gcov;
mod isa;
pub mod line_profile;
pub mod link;
pub mod llvm_counters;
pub mod matching;
pub mod model;
pub mod order;
pub mod plural;
pub mod profile;
pub mod random;
pub mod read;
pub mod record;
pub mod report;
pub mod resolve;
pub mod skipped;
pub mod static_graph;
pub mod trace;
mod unpack;
pub mod verify;
pub mod wrapper;

pub use error::{Error, ErrorCode, ErrorKind, Location, Result};
pub use skipped::Skipped;
