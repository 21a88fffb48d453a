// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data types of sediment, and the code that every other crate needs to handle them.
//!
//! sediment records which functions of a program run together, and makes the linker place them together. This crate has
//! the data types between the steps; the other crates have the steps:
//!
//! ```text
//! sediment-record ─► Recording ─ sediment-read ─► Profile ─ sediment-order ─► Order ─► linker ─► sediment-order's verify
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`profile`] | [`Profile`](profile::Profile): functions and calls with integer counts; its file, sums, differences, parts |
//! | [`callgraph`], [`functions`] | [`CallGraph`](callgraph::CallGraph), `Order` and `Trace` of dense ids, and the table of what the ids mean |
//! | [`binary`] | [`Binary`](binary::Binary): functions of an ELF file, its build-id, objects of a link, maps of blocks, debug information |
//! | [`matching`] | which part of a profile belongs to a file, and its functions under new names |
//! | [`estimate`], [`flow`] | executions that follow from a compiler's guesses, and counts of edges that follow from counts of blocks |
//! | [`affinity`], [`ascending`] | the window of temporal affinity, and the heaviest ascending subsequence |
//! | [`isa`] | the few instructions that recorders and readers know, by architecture |
//! | [`escape`], [`demangle`], [`page`], [`plural`] | names from strangers in any dialect, names for people, the frame of HTML pages, counts with nouns |
//! | [`error`], [`skipped`] | errors with stable codes, and what a step skipped, with reasons |
//! | [`counts`], [`random`], [`unpack`] | hash tables that count, seeded random numbers, limits on what compressed data unpacks to |
//!
//! Nothing here prints, exits, starts a process, or opens a path: a reader takes bytes, and gets further files from a
//! [`binary::Files`].
//!
//! ```
//! use sediment_core::profile::merge::{Weight, merge};
//! use sediment_core::profile::text;
//!
//! # fn main() -> sediment_core::Result<()> {
//! let monday = br#"digraph { graph [sediment=2, unit=calls, total=4]; main -> parse [count=3]; main -> report [count=1]; }"#;
//! let friday = br#"digraph { graph [sediment=2, unit=calls, total=8]; main -> parse [count=8]; }"#;
//! let ((monday, _), (friday, _)) = (text::parse(monday)?, text::parse(friday)?);
//! let both = merge(&[(&monday, Weight::ONE), (&friday, Weight::ONE)], false)?;
//! assert_eq!(both.function_count(), 3);
//! assert!(text::print(&both).starts_with("digraph"));
//! # Ok(())
//! # }
//! ```
//!
//! This example lists the functions of an ELF file, which is the running program itself:
//!
//! ```
//! use sediment_core::binary::{Binary, NoFiles};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let binary = Binary::parse(&std::fs::read(std::env::current_exe()?)?, &NoFiles)?;
//! let main = binary.functions.iter().find(|function| function.name == "main").ok_or("no main")?;
//! assert!(main.size > 0 && main.section.starts_with(".text"));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `dwarf`: source lines, inlined calls and unwind tables, with gimli and addr2line. Ordering needs none of them.
//!
//! # Errors and stability
//!
//! Every fallible function returns [`Error`]. Match on [`Error::code`]: an [`ErrorCode`] and its text are stable,
//! messages are not. Before 1.0 a minor release may change any interface; a patch release changes none. File formats,
//! [`ErrorCode::text`] and the codes of [`skipped`] are stable across releases. The minimum supported Rust version is
//! 1.85; it is raised in minor releases only, and never beyond Debian stable's. Hosts are Linux; profiles and binaries
//! may be of any architecture.

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod affinity;
pub mod ascending;
pub mod binary;
pub mod callgraph;
pub mod counts;
pub mod demangle;
pub mod error;
pub mod escape;
pub mod estimate;
pub mod flow;
pub mod functions;
pub mod isa;
pub mod matching;
pub mod page;
pub mod plural;
pub mod profile;
pub mod random;
pub mod skipped;
pub mod unpack;

pub use error::{Error, ErrorCode, ErrorKind, ErrorLocation, Result};
pub use skipped::Skipped;
