// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes: 0 done, 1 failed, 2 usage, 5 below a floor the caller set, 6 this machine cannot do it.
//! (3, regression, and 4, inconclusive, belong to comparisons.)

use sediment::ErrorKind;
use std::process::ExitCode;

/// A command ran, but a floor that the caller set was not reached.
pub(crate) const BELOW_FLOOR: u8 = 5;

/// The exit code for a failure.
pub(crate) fn code(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::Usage => 2,
        ErrorKind::BelowFloor => BELOW_FLOOR,
        ErrorKind::Unsupported => 6,
        _ => 1,
    })
}
