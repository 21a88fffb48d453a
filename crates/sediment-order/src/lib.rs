// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders the functions of native programs at link time, from profiles of real use, and checks the linker's result.
//!
//! ```text
//! Profile ─ order::compute ─► Order ─ link ─► a linker's ordering file ─ linker ─► ELF ─ verify::verify ─► VerifyReport
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`mod@order`] | [`compute`](order::compute): the call graph, the algorithms, groups, older orders, the default of each release |
//! | [`model`] | scores of an order: call distance, hot pages, TLB misses, page faults |
//! | [`link`], [`wrapper`] | [`LINKERS`](link::LINKERS): ordering files for each linker; decisions of a linker wrapper |
//! | [`mod@verify`] | whether a linked file has the order, and why a function is elsewhere |
//! | [`blocks`], `advise` | counts of blocks for compilers; calls to inline by hand |
//! | [`report`] | pictures of call graphs and layouts |
//!
//! It uses the data types of [`sediment_core`]. Nothing here prints, starts a process, or opens a path.
//! `examples/library.rs` is a complete program.
//!
//! ```
//! use sediment_core::binary::objects::InputObjects;
//! use sediment_core::binary::{Binary, NoFiles};
//! use sediment_core::profile::text;
//! use sediment_order::link::{self, linker, placements};
//! use sediment_order::order::{OrderRequest, Selection, compute};
//! use sediment_order::verify::verify;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let profile = br#"digraph { graph [sediment=2, unit=calls, total=12]; main -> report [count=1]; main -> parse [count=11]; }"#;
//! let (profile, _skipped) = text::parse(profile)?;
//! let ordering = compute(&profile, &Selection::Everything, &OrderRequest::default())?;
//! let gold = linker("gold").ok_or("no such linker")?;
//! let (functions, _skipped) = placements(&ordering.order, &ordering.built, None, gold.wants_calls);
//! let (order_file, _skipped) = (gold.write)(&functions);
//! assert!(order_file.contains("main") && order_file.contains("parse"));
//!
//! // Of the program that was linked with it: here the one that runs this example, which was not.
//! let binary = Binary::parse(&std::fs::read(std::env::current_exe()?)?, &NoFiles)?;
//! let (_linker, names) = link::read(&order_file)?;
//! let report = verify(&binary, &names, None, "example", &InputObjects::default())?;
//! assert!(report.placed < report.asked);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `dwarf`: `verify::same`, which compares source lines and unwind tables of two builds, and `advise`, which names source lines.

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

#[cfg(feature = "dwarf")]
pub mod advise;
pub mod blocks;
pub mod link;
pub mod model;
pub mod order;
pub mod report;
pub mod verify;
pub mod wrapper;
