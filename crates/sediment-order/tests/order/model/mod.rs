// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores of an order, by hand.

mod caches;
mod pages;
mod tlb;
