// SPDX-License-Identifier: MIT OR Apache-2.0
//! Date of a report.

use sediment_core::{Error, ErrorCode, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current date in UTC, or the date of SOURCE_DATE_EPOCH:
/// <https://reproducible-builds.org/specs/source-date-epoch/>.
pub(super) fn today() -> Result<String> {
    let time = match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => SystemTime::now(),
        Some(given) => given
            .to_str()
            .and_then(|text| text.parse().ok())
            .filter(|seconds| *seconds <= LAST_SECOND)
            .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
            .ok_or_else(|| {
                Error::new(ErrorCode::Usage, "SOURCE_DATE_EPOCH is not a time up to the year 9999")
                    .with_found(given.as_encoded_bytes())
                    .with_hint(
                        "give a number of seconds since 1970; if it is not set, the page has today's date",
                    )
            })?,
    };
    let text = humantime::format_rfc3339_seconds(time).to_string();
    Ok(text.split('T').next().unwrap_or_default().to_owned())
}

/// The last second of the year 9999, in seconds since 1970.
const LAST_SECOND: u64 = 253_402_300_799;
