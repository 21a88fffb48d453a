// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Day`]: a calendar day, the resolution of time in a dataset.

use crate::errors::damaged;
use chrono::{NaiveDate, TimeDelta};
use sediment_core::{Error, ErrorCode, Result};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FIRST: NaiveDate = NaiveDate::from_ymd_opt(1970, 1, 1).expect("a date");

/// Time since 1 January 1970 by the machine's clock; an earlier clock counts as 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Days since 1 January 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

impl Day {
    /// Today by the machine's clock, in UTC.
    pub(crate) fn today() -> Self {
        Self((since_1970().as_secs() / 86_400) as i32)
    }

    /// Rejects a day after tomorrow, because then a clock is wrong.
    pub(crate) fn not_in_future(self, today: Self) -> Result<Self> {
        if self.0 <= today.0 + 1 {
            return Ok(self);
        }
        Err(damaged(format!("the day {self} is in the future; today is {today}"))
            .with_hint("set the clock of the machine that sent the day"))
    }
}

impl FromStr for Day {
    type Err = Error;

    /// Parses `YYYY-MM-DD`, from 1970 to 9999.
    fn from_str(text: &str) -> Result<Self> {
        let days = text.parse::<NaiveDate>().ok().map(|date| (date - FIRST).num_days());
        let found = days.and_then(|days| u32::try_from(days).ok()).map(|days| Self(days as i32));
        // The text may have been written in another way, for example with a month of one digit.
        found.filter(|found| found.to_string() == text).ok_or_else(|| {
            Error::new(ErrorCode::Usage, "not a day")
                .with_found(text.as_bytes())
                .with_hint("a day is YYYY-MM-DD, from 1970 on")
        })
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FIRST.checked_add_signed(TimeDelta::days(self.0.into())) {
            Some(date) => date.fmt(f),
            None => write!(f, "day {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_and_written() {
        for (text, number) in
            [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-11-25", 20_782), ("9999-12-31", 2_932_896)]
        {
            assert_eq!(text.parse::<Day>().unwrap(), Day(number));
            assert_eq!(Day(number).to_string(), text);
        }
        for text in ["2026-02-29", "2026-13-01", "2026-1-01", "1969-12-31", "2026-11-25T", "", "+026-11-25"] {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
        assert!(Day(11).not_in_future(Day(10)).is_ok() && Day(12).not_in_future(Day(10)).is_err());
    }
}
