// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: [`engine`] runs them, [`sql`] contains their text, and [`merge`] makes a profile from the sums. [`policy`] defines which submissions count.
//! [`views`] contains coverage, drift and outliers.

pub mod aside;
pub mod engine;
pub mod factors;
pub mod merge;
pub mod policy;
pub mod sql;
pub mod views;
