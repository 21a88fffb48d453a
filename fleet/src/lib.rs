// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `sediment-fleet`: profiles of many machines and versions in a dataset of Parquet files, queries over it, and an intake.
//!
//! `submission` reads received profiles. `dataset` stores them as rows that can be summed. `query` lets an engine sum rows, and the library makes a
//! profile from the sums. `intake` receives submissions over HTTP, and `cluster` runs queries on other machines. sediment's library computes the
//! shares of each profile as exact integers, so engines only filter, cap and add integers.

#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod dataset;
mod day;
mod errors;
mod intake;
mod query;
mod secret;
mod submission;

pub use commands::main;
pub use dataset::Dataset;
pub use dataset::contents::Contents;
pub use dataset::writer::Writer;
pub use day::Day;
pub use intake::log::segments;
pub use secret::Keys;
pub use submission::{Named, Origin, Submission};
