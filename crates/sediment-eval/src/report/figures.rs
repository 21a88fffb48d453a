// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats numbers for tables.

use crate::comparison::{Comparison, EffectScale, percent};
use crate::statistics::Interval;
use crate::verdict::short_p;

/// Placeholder for a missing figure.
pub(super) const NONE: &str = "–";

/// A value with about five digits; whole thousands get separators.
pub(super) fn value(x: f64) -> String {
    let size = x.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        format!("{x:.4e}")
    } else if size >= 1000.0 {
        thousands(x, if size >= 100_000.0 { 0 } else { 1 })
    } else if size >= 100.0 {
        format!("{x:.2}")
    } else if size >= 1.0 {
        format!("{x:.4}")
    } else if x == 0.0 {
        "0".to_owned()
    } else {
        let leading = (-size.log10()).floor().max(0.0) as usize;
        format!("{x:.0$}", leading + 5)
    }
}

/// A value with a fixed number of decimals and separators between thousands.
pub(super) fn thousands(x: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", x.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if x < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// A difference in the comparison's scale: per cent, or the metric's unit.
pub(super) fn difference(scale: EffectScale, x: f64) -> String {
    match scale {
        EffectScale::Logarithm => {
            // A remainder is never rounded to nothing.
            let text = format!("{:+.2} %", percent(x).max(-99.99));
            if text.ends_with("0.00 %") && text.len() == "+0.00 %".len() { "0.00 %".to_owned() } else { text }
        }
        EffectScale::Plain => {
            let text = value(x);
            if x > 0.0 { format!("+{text}") } else { text }
        }
    }
}

/// `lower to upper`.
pub(super) fn interval(scale: EffectScale, interval: &Interval) -> String {
    format!("{} to {}", difference(scale, interval.lower), difference(scale, interval.upper))
}

/// The interval of a comparison, or a dash.
pub(super) fn interval_of(comparison: &Comparison) -> String {
    comparison.effect.map_or_else(|| NONE.to_owned(), |effect| interval(comparison.scale, &effect.interval))
}

pub(super) fn p_value(p: Option<f64>) -> String {
    p.map_or_else(|| NONE.to_owned(), short_p)
}

pub(super) fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| NONE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_about_five_digits() {
        let shown: Vec<String> =
            [0.0, 0.000_012_345, 0.012_345, 1.5, 432.06, 1366.59, 71_522_202.0, -1234.5, 1e16]
                .map(value)
                .to_vec();
        let expected = [
            "0",
            "1.2345e-5",
            "0.012345",
            "1.5000",
            "432.06",
            "1,366.6",
            "71,522,202",
            "-1,234.5",
            "1.0000e16",
        ];
        assert_eq!(shown, expected);
    }
}
