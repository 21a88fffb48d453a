// SPDX-License-Identifier: MIT OR Apache-2.0
//! What else a profile says about a program, beside an order for its functions: which calls are worth inlining by hand.

pub mod compiler_notes;
pub mod experiment;
pub mod inline;
