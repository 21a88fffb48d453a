// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Day`]: a calendar day, the resolution of time in a dataset.

use sediment_core::{Error, ErrorCode, Result};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS: u64 = 86_400;

/// Days since 1 January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

impl Day {
    /// Today by the machine's clock, in UTC.
    #[must_use]
    pub fn today() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self((since.as_secs() / SECONDS) as i32)
    }

    /// Parses `YYYY-MM-DD`.
    ///
    /// # Errors
    /// Fails with [`ErrorCode::Usage`] if the text is not a day from 1970 to 9999.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |part: &str, digits: usize| {
            let fits = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            fits.then(|| part.parse::<i32>().ok()).flatten()
        };
        let mut parts = text.splitn(3, '-');
        let mut next = |digits| parts.next().and_then(|part| number(part, digits));
        let read = (next(4), next(2), next(2));
        let (Some(year), Some(month @ 1..=12), Some(day @ 1..=31)) = read else { return Err(no_day(text)) };
        let found = Self(days(year, month, day));
        // A day that does not exist in the month has a different text when it is written.
        if year < 1970 || found.to_string() != text { Err(no_day(text)) } else { Ok(found) }
    }

    /// Rejects a day after tomorrow, because then a clock is wrong.
    ///
    /// # Errors
    /// Fails with [`ErrorCode::Damaged`] if the day is more than one day after `today`.
    pub fn not_in_future(self, today: Self) -> Result<Self> {
        if self.0 <= today.0 + 1 {
            return Ok(self);
        }
        let message = format!("the day {self} is in the future; today is {today}");
        Err(Error::new(ErrorCode::Damaged, message)
            .with_hint("set the clock of the machine that sent the day"))
    }
}

fn no_day(text: &str) -> Error {
    Error::new(ErrorCode::Usage, "not a day")
        .with_found(text.as_bytes())
        .with_hint("a day is YYYY-MM-DD, from 1970 on")
}

/// Days from 1 January 1970. Years begin in March here, so that the leap day is the last day.
fn days(year: i32, month: i32, day: i32) -> i32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0 + 719_468;
        let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        write!(f, "{:04}-{month:02}-{day:02}", era * 400 + year_of_era + carry)
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
            assert_eq!(Day::parse(text).unwrap(), Day(number));
            assert_eq!(Day(number).to_string(), text);
        }
        for text in ["2026-02-29", "2026-13-01", "2026-1-01", "1969-12-31", "2026-11-25T", "", "+026-11-25"] {
            assert!(Day::parse(text).is_err(), "{text}");
        }
        assert!((0..50_000).all(|day| Day::parse(&Day(day).to_string()).unwrap() == Day(day)));
    }

    #[test]
    fn clocks_in_the_future_are_refused() {
        assert!(Day(11).not_in_future(Day(10)).is_ok());
        assert!(Day(12).not_in_future(Day(10)).is_err());
    }
}
