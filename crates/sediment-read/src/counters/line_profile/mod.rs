// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles by source lines, for compilers that find code by its line: [`LineCounts`] for LLVM ([`llvm`]), [`CallSites`] for Go ([`go`]). An order
//! of functions for GCC, in such a file ([`gcc`]).
//!
//! A line is counted from the first line of its function, so that a function may move in its file. Both values add up, and know no file,
//! address or path.

mod call_sites;
pub mod gcc;
pub mod go;
mod lines;
pub mod llvm;

pub use call_sites::{CallSites, CallingLine};
pub use lines::{Body, LineCounts, LinePosition};
