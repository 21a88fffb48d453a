// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes: 0 done, 1 failed, 130 interrupted, 2 usage, 3 regression, 4 inconclusive, 5 below a threshold of the caller, 6
//! not possible on this machine.

use sediment_core::ErrorKind;
use sediment_process::command::Outcome;

/// Exit code of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitCode(u8);

impl ExitCode {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const FAILURE: Self = Self(1);
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}

impl From<ExitCode> for i32 {
    fn from(code: ExitCode) -> Self {
        code.0.into()
    }
}

/// An experiment shows a regression.
pub(crate) const REGRESSION: u8 = 3;

/// An experiment is inconclusive, and the caller required a conclusion.
pub(crate) const INCONCLUSIVE: u8 = 4;

/// A command succeeded, but its result is below a threshold: the caller's, or the default of `verify`.
pub(crate) const BELOW_THRESHOLD: u8 = 5;

/// The interrupt key ended it; shells use 128 plus the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns the exit code for a failure.
pub(crate) fn code(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::Usage => 2,
        ErrorKind::BelowThreshold => BELOW_THRESHOLD,
        ErrorKind::Unsupported => 6,
        ErrorKind::Interrupted => INTERRUPTED,
        _ => 1,
    })
}

/// Returns the exit code of a program that was run for the user, as in a shell.
pub(crate) fn as_the_program(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Exited(code) => ExitCode::from(code as u8),
        Outcome::Signalled(signal) => ExitCode::from(128u8.wrapping_add(signal as u8)),
        Outcome::OutOfTime | Outcome::Stopped => ExitCode::FAILURE,
    }
}
