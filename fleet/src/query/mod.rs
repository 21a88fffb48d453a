// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: [`engine`] runs them, [`sql`] has their text, [`merge`] makes a profile of sums, [`policy`] says what counts, [`views`] are
//! coverage, drift and outliers.

pub mod aside;
pub mod engine;
pub mod factors;
pub mod merge;
pub mod policy;
pub mod sql;
pub mod views;
