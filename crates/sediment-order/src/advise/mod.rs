// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice beyond an order: which calls are worth inlining by hand.

pub mod compiler_notes;
pub mod experiment;
pub mod inline;
