// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RunLengthCounts`]: a sequence of counts that keeps consecutive equal counts once. In text, `0*12` is twelve equal
//! counts.

use super::arithmetic::integer;
use std::fmt;

/// A count and the number of consecutive repetitions.
type CountRun = (u128, u32);

/// Counts in the compiler's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLengthCounts {
    /// Neighbours have different counts; the numbers are above 0 and their sum is at most 2^32 - 1.
    runs: Vec<CountRun>,
}

impl RunLengthCounts {
    /// Appends counts; `None`, without any change, for more than 2^32 - 1 counts.
    pub fn extend(&mut self, count: u128, number: u32) -> Option<()> {
        self.number().checked_add(number)?;
        match self.runs.last_mut() {
            Some((last, known)) if *last == count => *known += number,
            _ if number > 0 => self.runs.push((count, number)),
            _ => {}
        }
        Some(())
    }

    /// Number of counts.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.runs.iter().map(|(_, number)| number).sum()
    }

    /// Sum of the counts; `None` if it exceeds 128 bits.
    #[must_use]
    pub fn sum(&self) -> Option<u128> {
        let product = |(count, number): &CountRun| count.checked_mul(u128::from(*number));
        self.runs.iter().try_fold(0u128, |sum, run| sum.checked_add(product(run)?))
    }

    /// Returns each count.
    pub fn iter(&self) -> impl Iterator<Item = u128> + '_ {
        self.runs.iter().flat_map(|(count, number)| std::iter::repeat_n(*count, *number as usize))
    }

    /// Joins two sequences count by count with a function; a missing count is 0. `None` if the function returns `None`.
    pub(super) fn joined(&self, other: &Self, join: impl Fn(u128, u128) -> Option<u128>) -> Option<Self> {
        let mut sum = Self::default();
        let (mut own, mut others) = (self.runs.iter().copied(), other.runs.iter().copied());
        let (mut one, mut two) = (own.next(), others.next());
        while let Some(longest) = one.map(|run| run.1).into_iter().chain(two.map(|run| run.1)).min() {
            let count = |run: Option<CountRun>| run.map_or(0, |(count, _)| count);
            sum.extend(join(count(one), count(two))?, longest)?;
            for (run, rest) in [(&mut one, &mut own), (&mut two, &mut others)] {
                *run = match *run {
                    Some((count, number)) if number > longest => Some((count, number - longest)),
                    Some(_) => rest.next(),
                    None => None,
                };
            }
        }
        Some(sum)
    }

    /// The largest count.
    pub(super) fn largest(&self) -> u128 {
        self.runs.iter().map(|(count, _)| *count).max().unwrap_or(0)
    }

    /// True if there are no counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the sequence with each count changed; the first error ends it.
    pub(super) fn scaled<E>(&self, scale: impl Fn(u128) -> Result<u128, E>) -> Result<Self, E> {
        let mut scaled = Self::default();
        for (count, number) in &self.runs {
            // The number of counts stays the same.
            let _ = scaled.extend(scale(*count)?, *number);
        }
        Ok(scaled)
    }

    /// Parses counts separated by blanks; the error describes the fault of the text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let mut runs = Self::default();
        for item in text.split(|byte| *byte == b' ').filter(|item| !item.is_empty()) {
            let times = memchr::memchr(b'*', item);
            let count = integer(&item[..times.unwrap_or(item.len())]).map_err(|fault| fault.message())?;
            let number =
                times.map_or(Ok(1), |at| integer(&item[at + 1..])).map_err(|fault| fault.message())?;
            let added = u32::try_from(number).ok().and_then(|number| runs.extend(count, number));
            added.ok_or("has more than 2^32 - 1 counts")?;
        }
        runs.sum().ok_or("adds up to more than 2^128")?;
        Ok(runs)
    }
}

impl fmt::Display for RunLengthCounts {
    /// Prints the counts, separated by blanks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (count, number)) in self.runs.iter().enumerate() {
            let between = if place > 0 { " " } else { "" };
            match number {
                1 => write!(f, "{between}{count}")?,
                _ => write!(f, "{between}{count}*{number}")?,
            }
        }
        Ok(())
    }
}
