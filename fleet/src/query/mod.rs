// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: [`engine`] runs them, [`sql`] contains their text, and [`merge`] makes a profile from the sums. [`policy`] defines which submissions count.
//! [`views`] contains coverage, drift and outliers.

pub(crate) mod aside;
pub(crate) mod engine;
pub(crate) mod factors;
pub(crate) mod merge;
pub(crate) mod policy;
pub(crate) mod sql;
pub(crate) mod views;
