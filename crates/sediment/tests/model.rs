// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores of an order, by hand.

#[path = "model/caches.rs"]
mod caches;
#[path = "model/pages.rs"]
mod pages;
#[path = "model/tlb.rs"]
mod tlb;
