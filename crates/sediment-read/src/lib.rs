// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what profilers and compilers recorded, and names its functions.
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
//! Values are those of [`sediment_core`]. Nothing here opens a path: a reader takes an [`Input`](read::Input), such as bytes, and a
//! resolver asks a [`Files`](sediment_core::binary::Files) for the binaries.
//!
//! ```
//! use sediment_core::binary::NoFiles;
//! use sediment_core::profile::FunctionKey;
//! use sediment_read::read::{Settings, find};
//! use sediment_read::resolve::resolve;
//!
//! # fn main() -> sediment_core::Result<()> {
//! // Folded stacks, as flame graphs are made of.
//! let stacks: &[u8] = b"main;parse;next_token 7\nmain;report 2\n";
//! let reader = find(&stacks, &Settings::default())?;
//! assert_eq!(reader.name, "folded");
//! let recording = (reader.read)(&stacks, &Settings::default())?;
//! let (profile, skipped) = resolve(&recording, &NoFiles)?;
//! assert!(profile.find(&FunctionKey::new(None, b"parse", None).unwrap()).is_some());
//! assert!(skipped.is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic on data is a defect, so each that remains is argued where it stands.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod counters;
pub mod read;
pub mod resolve;
pub mod static_graph;
pub mod trace;
