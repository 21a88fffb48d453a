// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles by source line, for compilers that find code by its line: [`LineCounts`] for LLVM ([`llvm`]), [`CallSites`]
//! for Go ([`go`]), and an order of functions for GCC in such a file ([`gcc`]).
//!
//! Lines are relative to the first line of their function, so that a function may move in its file. Counts can be
//! added; they contain no files, addresses or paths.

mod call_sites;
pub mod gcc;
pub mod go;
mod lines;
pub mod llvm;

pub use call_sites::{CallSites, CallingLine};
pub use lines::{Body, LineCounts, LinePosition};
