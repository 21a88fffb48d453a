// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of a profile's weight that an order places, for `order` and `predict`.

use crate::exit::{BELOW_THRESHOLD, ExitCode};
use crate::output::Digits;
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::order::PlacedShare;
use serde::Serialize;

/// Weight of a profile that an order places.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlacedOutput {
    /// Weight in functions that the order places.
    placed: Digits,
    /// Weight of the ordered program, or of the whole profile.
    of: Digits,
    percent: f64,
}

impl Default for PlacedOutput {
    fn default() -> Self {
        PlacedShare { placed: 0, of: 0 }.into()
    }
}

impl From<PlacedShare> for PlacedOutput {
    fn from(share: PlacedShare) -> Self {
        Self {
            placed: Digits(share.placed),
            of: Digits(share.of),
            percent: share.parts_per_million() as f64 / 1e4,
        }
    }
}

/// Prints the share if anything is missing.
///
/// # Errors
/// If nothing is placed.
pub(crate) fn say(share: PlacedShare, ui: &Ui) -> Result<()> {
    let parts = share.parts_per_million();
    if share.placed == 0 && share.of > 0 {
        return Err(Error::new(
            ErrorCode::WrongBinary,
            "no function with any weight in this profile has a linkage name",
        )
        .with_hint("name the program, to look up printed names in it: --binary PROGRAM"));
    }
    if share.placed < share.of {
        let line = format!("the order places {} of the profile's weight", percent(parts));
        if parts < 900_000 { ui.warn_always(&line) } else { ui.note(&line) }
    }
    Ok(())
}

/// Returns the exit code for a share; prints an error below the threshold.
pub(crate) fn judge(share: PlacedShare, threshold: u64, ui: &Ui) -> ExitCode {
    let parts = share.parts_per_million();
    if parts >= threshold {
        return ExitCode::SUCCESS;
    }
    let text = format!(
        "the order places only {} of the profile's weight, below the threshold of {}",
        percent(parts),
        percent(threshold)
    );
    ui.error(&Error::new(ErrorCode::BelowThreshold, text).with_hint(
        "is it a profile of this program and version? --min-coverage PERCENT sets another threshold; 0 always passes",
    ));
    ExitCode::from(BELOW_THRESHOLD)
}

/// Formats parts per million as per cent, cut to two decimals so that 99.999 is not shown as 100.
fn percent(parts_per_million: u64) -> String {
    format!("{}.{:02} %", parts_per_million / 10_000, parts_per_million / 100 % 100)
}
