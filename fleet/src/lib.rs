// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of many machines and versions: a dataset of Parquet files, queries over it, and an intake.
//!
//! [`submission`] reads what somebody sent, [`dataset`] keeps it as rows that add up, [`query`] asks an engine for sums and lets
//! the library make a profile of them, [`intake`] receives submissions over HTTP, and `cluster` has other machines run queries. The
//! library of sediment makes the shares of each profile, as exact integers; engines filter, cap and add integers alone.

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
