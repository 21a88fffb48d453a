// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spread of the values of several runs.

/// Distribution of values: extremes, quartiles and median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub minimum: f64,
    /// A quarter of the values is below.
    pub lower_quartile: f64,
    /// Half of the values is below.
    pub median: f64,
    /// A quarter of the values is above.
    pub upper_quartile: f64,
    /// The largest.
    pub maximum: f64,
}

impl Spread {
    /// Returns the spread of these values; None if there are none. Quantiles between two values are interpolated
    /// linearly: the q-quantile of n values is at position q (n − 1) of their ascending order, counted from 0 (Hyndman
    /// and Fan, "Sample quantiles in statistical packages", 1996, definition 7).
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let quarter = |quarters: usize| {
            let place = quarters * last;
            let (below, part) = (place / 4, (place % 4) as f64 / 4.0);
            let above = (below + 1).min(last);
            sorted[below] + (sorted[above] - sorted[below]) * part
        };
        Some(Self {
            minimum: sorted[0],
            lower_quartile: quarter(1),
            median: quarter(2),
            upper_quartile: quarter(3),
            maximum: sorted[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn quartiles_are_interpolated() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        let expected =
            Spread { minimum: 1.0, lower_quartile: 1.75, median: 2.5, upper_quartile: 3.25, maximum: 4.0 };
        assert_eq!(spread, expected);
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.minimum, one.median, one.maximum), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(&[]), None);
    }
}
