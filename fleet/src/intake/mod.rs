// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake. [`tokens`] identify submitters. [`log`] stores received submissions before they are acknowledged; [`keeper`] writes the log and makes
//! partitions from it. [`server`] is the HTTP server, with limits for [`connections`]. [`receive`] accepts submissions, which may be [`packed`], or
//! [pushed](push) by profilers, also over [`grpc`]. [`metrics`] count, and [`health`] reports faults. [`page`] makes pages of packages, and [`published`] stores them until
//! enough submitters have changed a package.

pub(crate) mod connections;
mod grpc;
pub(crate) mod health;
pub(crate) mod keeper;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod packed;
pub(crate) mod page;
pub(crate) mod published;
pub(crate) mod push;
mod receive;
pub(crate) mod server;
pub(crate) mod tokens;

/// Size in bytes from which a submission is large.
const LARGE: usize = 1 << 20;
/// Large submissions are parsed and added one at a time, because each takes many times its size in memory.
static LARGE_ONES: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
