// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a group of values. Outliers are counted and never removed.

/// Count, mean and variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Number of values.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Their variance, with `count − 1` below; None for a single value.
    pub variance: Option<f64>,
}

impl Moments {
    /// Computes the moments of values; `None` for an empty slice. Computes the mean first and then the squares about
    /// it, so that nothing cancels.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let rough = values.iter().sum::<f64>() / count;
        let mean = rough + values.iter().map(|x| x - rough).sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let variance = (values.len() > 1).then(|| squares / (count - 1.0));
        Some(Self { count, mean, variance })
    }

    /// Computes the moments of the logarithms of values with these moments, to first order: mean ln m, variance the
    /// squared coefficient of variation (the delta method). `None` if the mean is not positive.
    #[must_use]
    pub fn of_logarithms(&self) -> Option<Self> {
        let relative = self.variance.map(|variance| variance / (self.mean * self.mean));
        (self.mean > 0.0).then(|| Self { count: self.count, mean: self.mean.ln(), variance: relative })
    }

    /// Standard deviation.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.variance.map(f64::sqrt)
    }

    /// Coefficient of variation: standard deviation over mean; `None` if the mean is not positive.
    #[must_use]
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        self.deviation().filter(|_| self.mean > 0.0).map(|deviation| deviation / self.mean)
    }

    /// Variance of the mean.
    #[must_use]
    pub fn squared_error(&self) -> Option<f64> {
        self.variance.map(|variance| variance / self.count)
    }
}

/// [`Moments`] and, if the values themselves are known, their order statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Description {
    /// Count, mean, variance.
    pub moments: Moments,
    /// Order statistics; None for a printed summary.
    pub order: Option<OrderStatistics>,
}

/// Extremes, quartiles and the count of far values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderStatistics {
    /// The smallest.
    pub minimum: f64,
    /// A quarter of the values is below (Hyndman and Fan, 1996, definition 7).
    pub lower_quartile: f64,
    /// Half of the values is below.
    pub median: f64,
    /// A quarter of the values is above.
    pub upper_quartile: f64,
    /// The largest.
    pub maximum: f64,
    /// Number of values more than 1.5 interquartile ranges beyond the quartiles (J. Tukey, "Exploratory Data Analysis", 1977).
    pub far: usize,
}

impl Description {
    /// Computes the description of values; `None` for an empty slice.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let moments = Moments::of(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (lower, upper) = (quantile(&sorted, 1, 4), quantile(&sorted, 3, 4));
        let reach = 1.5 * (upper - lower);
        let order = OrderStatistics {
            minimum: sorted[0],
            lower_quartile: lower,
            median: quantile(&sorted, 1, 2),
            upper_quartile: upper,
            maximum: sorted[sorted.len() - 1],
            far: sorted.iter().filter(|x| **x < lower - reach || **x > upper + reach).count(),
        };
        Some(Self { moments, order: Some(order) })
    }
}

/// Returns the quantile part/parts of ascending values, interpolated linearly.
fn quantile(sorted: &[f64], part: usize, parts: usize) -> f64 {
    let place = part * (sorted.len() - 1);
    let (below, share) = (place / parts, (place % parts) as f64 / parts as f64);
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * share
}

/// Returns the median of values; None if there are none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| quantile(&sorted, 1, 2))
}
