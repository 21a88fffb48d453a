// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts, watches and ends programs, each in bounded time.
//!
//! | module | content |
//! |---|---|
//! | [`command`] | runs one program to its end, keeps a bounded part of its output, and reports what it cost |
//! | [`background`] | programs that run beside others, such as servers |
//! | [`left_behind`] | ends processes that a program left running |
//! | [`ptrace`] | waits for traced threads |
//! | [`inherited`] | signals that this process inherited |
//!
//! Recorders and meters stand on this crate. It knows no profile and no layout.

// A panic would leave programs behind, so each that remains is argued where it stands.
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

/// Hint for getting valgrind, which meters and a recorder use.
pub const VALGRIND_HINT: &str =
    "install valgrind; the package has this name on Debian, Ubuntu, Fedora, openSUSE, Arch and Alpine";

/// A program failed, or could not be started.
fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ProgramFailed, message)
}
