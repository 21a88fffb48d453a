// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake: [`tokens`] tell who sends, [`log`] keeps what was received before it is acknowledged, [`keeper`] writes the log and makes
//! partitions of it, [`server`] speaks HTTP, [`metrics`] count, [`page`] shows packages.

pub mod keeper;
pub mod log;
pub mod metrics;
pub mod page;
pub mod server;
pub mod tokens;
