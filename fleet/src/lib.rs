// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of many machines and versions: a dataset of Parquet files, queries over it, and an intake.
//!
//! [`submission`] reads received profiles. [`dataset`] stores them as rows that can be summed. [`query`] lets an engine sum rows, and the library makes a
//! profile from the sums. [`intake`] receives submissions over HTTP, and `cluster` runs queries on other machines. sediment's library computes the
//! shares of each profile as exact integers, so engines only filter, cap and add integers.

#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

#[cfg(feature = "cluster")]
pub mod cluster;
pub mod dataset;
pub mod day;
pub mod intake;
pub mod query;
pub mod say;
pub mod secret;
pub mod submission;
