// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting, watching and ending programs: [`command`] runs one in bounded time and keeps a bounded part of what it prints, and what it
//! cost; [`background`] has programs that run beside others; [`left_behind`] ends what programs leave running; [`ptrace`] waits for traced threads; [`inherited`] says what this process was started with.

// A panic would leave programs behind, so each that remains is argued where it stands.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

pub mod background;
pub mod command;
mod error;
pub mod inherited;
pub mod left_behind;
pub mod ptrace;

pub use command::{Command, Input, Stop};
pub use error::{Error, ErrorKind, Result};

/// Hint for getting valgrind, which meters and a recorder use.
pub const VALGRIND_HINT: &str =
    "install valgrind; the package has this name on Debian, Ubuntu, Fedora, openSUSE, Arch and Alpine";
