// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake: [`tokens`] tell who sends, [`log`] keeps what was received before it is acknowledged, [`keeper`] writes the log and makes
//! partitions of it. [`server`] speaks HTTP with [`connections`] that have limits, [`receive`] takes submissions, [`packed`] or
//! [pushed](push) by profilers; [`metrics`] count, [`health`] tells what fails, [`page`] shows packages,
//! [`published`] once enough submitters changed them.

pub mod connections;
pub mod health;
pub mod keeper;
pub mod log;
pub mod metrics;
pub mod packed;
pub mod page;
pub mod published;
pub mod push;
mod receive;
pub mod server;
pub mod tokens;
