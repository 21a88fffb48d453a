// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes in per cent, for people.

/// Formats a ratio as a signed change. A remainder is never rounded to nothing: -99.98 % is not shown as -100 %.
pub(crate) fn in_percent(ratio: f64, decimals: usize) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let near = ratio > 0.0 && percent < -99.0;
    let decimals = if near { decimals.max(1) } else { decimals };
    let step = 0.1f64.powi(decimals as i32);
    let percent = if near { percent.max(step - 100.0) } else { percent };
    if percent.abs() < step / 2.0 && decimals == 0 {
        return "0 %".to_owned();
    }
    format!("{percent:+.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::in_percent;

    #[test]
    fn little_is_not_nothing() {
        assert_eq!(
            [0.002, 0.0002, 0.0, 1e-9].map(|ratio| in_percent(ratio, 0)),
            ["-99.8 %", "-99.9 %", "-100 %", "-99.9 %"]
        );
        assert_eq!(
            [0.002, 0.0002, 0.0, 0.5].map(|ratio| in_percent(ratio, 1)),
            ["-99.8 %", "-99.9 %", "-100.0 %", "-50.0 %"]
        );
        assert_eq!(
            [0.998, 1.0, 1.5, 0.02].map(|ratio| in_percent(ratio, 0)),
            ["0 %", "0 %", "+50 %", "-98 %"]
        );
    }
}
