// SPDX-License-Identifier: MIT OR Apache-2.0
//! sediment reorders the functions of native programs at link time from profiles of real use.
//!
//! The library is one straight line of values; each arrow is one function, and the program puts files on either side:
//!
//! ```text
//! record ─► Recording ─► resolve ─► Profile ─► merge ─► Profile ─► order ─► Order ─► link ─► verify
//! ```
//!
//! Nothing here prints, exits, reads the environment or opens a path; only [`record`] starts processes,
//! in a folder that they are handed.

// Profiles come from strangers: a panic on data is a defect, so each that remains is argued where it stands.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod advise;
pub mod affinity;
mod ascending;
pub mod binary;
pub mod blocks;
pub mod callgraph;
mod counts;
pub mod error;
pub mod escape;
mod isa;
pub mod link;
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

pub use error::{Error, ErrorKind, Location, Result};
pub use skipped::Skipped;
