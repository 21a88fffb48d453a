// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of profilers and compilers, and names its functions.
//!
//! ```text
//! bytes ─ read::read ─► Recording ─ resolve::resolve ─► Profile
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`read`] | [`READERS`](read::READERS), one for each format, found by content; the [`Recording`](read::Recording) that they give |
//! | [`resolve`] | addresses of a recording to functions, blocks and source lines, by the ELF files that it names |
//! | [`static_graph`] | call graphs that compilers write without a run, joined for a linked file |
//! | [`counters`] | counters of instrumented programs (GCC's and LLVM's), and counts by source line |
//! | [`trace`] | temporal affinity and first uses from a run, and the trace file |
//!
//! It uses the data types of [`sediment_core`]. Nothing here opens a path: a reader takes an [`Input`](read::Input),
//! such as bytes, and a resolver gets the binaries from a [`Files`](sediment_core::binary::Files).
//!
//! ```
//! use sediment_core::binary::NoFiles;
//! use sediment_read::read::{ReadSettings, find};
//! use sediment_read::resolve::resolve;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Written by valgrind 3.19, of a program that calls `leaf` 1,010 times.
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/read/callgrind/default/input");
//! let file = std::fs::read(path)?;
//! let reader = find(&file, &ReadSettings::default())?;
//! assert_eq!(reader.name, "callgrind");
//! let recording = (reader.read)(&file, &ReadSettings::default())?;
//! let (profile, _skipped) = resolve(&recording, &NoFiles)?;
//! let calls = profile.edges().into_iter().filter(|(_, callee, _)| profile.key(*callee).name == "leaf");
//! assert_eq!(calls.map(|(_, _, facts)| facts.count.unwrap_or(0)).sum::<u128>(), 1010);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod counters;
pub mod read;
pub mod resolve;
pub mod static_graph;
pub mod trace;
