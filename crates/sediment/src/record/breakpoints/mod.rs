// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our own recorder: a trap at every function's first byte, by ptrace. It needs no hardware counter, no recompiling and no root.
//!
//! The program, its descendants and every library that they load are armed. The first hit of a function gives its rank of first
//! use, and by its return address who called it; then the trap is gone, and the function runs as it did before. Asked for
//! [`Rates`], it arms some of the functions again in short windows, which estimates how often they are called, for a share of the
//! program's time that is given beforehand.
//!
//! `system` asks the kernel, `machine` and `code` know the processor, `memory`, `mappings`, `modules` and `space` know what is
//! mapped and armed, `tracer` follows the threads, `rates` opens windows, `log` keeps what was seen. docs/recording.md says what
//! a user should know.

mod code;
mod log;
mod machine;
mod mappings;
mod memory;
mod modules;
mod rates;
mod space;
mod start;
mod system;
mod tracer;

pub use rates::Rates;
pub use start::{Target, available, record};

use crate::measure::command::Stop;
use crate::read::{Recording, Step};
use std::collections::BTreeSet;
use std::time::Duration;

/// How to record.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Files that get no traps, by base name or soname: code that looks at its own bytes does not bear them.
    pub exclude: BTreeSet<String>,
    /// How call rates are estimated; None: first uses alone.
    pub rates: Option<Rates>,
    /// When the recording is over, if nothing ends it before.
    pub until: Until,
    /// Ends the recording; what was recorded is kept, and the program runs on.
    pub stop: Stop,
}

/// When a recording is over. It always is when the program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When the program ends.
    #[default]
    Exit,
    /// When it first writes to its standard output or standard error.
    Output,
    /// After this time.
    After(Duration),
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since its beginning.
    pub elapsed: Duration,
    /// Functions that have run.
    pub functions: u64,
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// Functions, calls and ranks of first use.
    pub recording: Recording,
    /// What ran in short times, in terms of the recording's places: parts of the run, a gap before each.
    pub steps: Vec<Step>,
    /// How the program ended that was started; None where it was running already.
    pub outcome: Option<crate::measure::command::Outcome>,
}
