// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts, watches and ends programs, each in bounded time.
//!
//! | module | content |
//! |---|---|
//! | [`command`] | runs one program to its end, keeps a bounded part of its output, and reports what it cost |
//! | [`background`] | programs in the background, such as servers |
//! | [`left_behind`] | ends processes that a program left running |
//! | [`ptrace`] | waits for traced threads |
//! | [`inherited`] | signals that this process inherited |
//!
//! The crates that record and measure use this crate. It is independent of profiles and layouts.

// A panic would leave programs running, so every remaining one is justified by a comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod background;
pub mod command;
pub mod inherited;
pub mod left_behind;
pub mod ptrace;

pub use command::{Command, StandardInput, Stop};

use sediment_core::{Error, ErrorCode};

/// Hint on installing valgrind, which a recorder and the measurement use.
pub const VALGRIND_HINT: &str =
    "install valgrind; the package has this name on Debian, Ubuntu, Fedora, openSUSE, Arch and Alpine";

/// Error for a program that failed or could not be started.
fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ProgramFailed, message)
}
