// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the scores of an order, against results computed by hand.

mod caches;
mod pages;
mod tlb;
