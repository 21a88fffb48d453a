// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tails of Student's t, Fisher's F and the normal distribution, to about 13 digits, even if they are tiny.
//!
//! They are computed here because p-values far out in the tails are reported: the crate statrs agreed with scipy to
//! only 9 or 10 digits at eleven points.
//!
//! Sources: NIST Digital Library of Mathematical Functions, 5.11.1 (Stirling's series), 8.17.22 (continued fraction of
//! the incomplete beta function), 8.7.1 and 8.9.2 (incomplete gamma function); W. Lentz, "Generating Bessel functions
//! in Mie scattering calculations using continued fractions", 1976, for their evaluation. The beta function of a large
//! argument is computed as a difference of Stirling's series, because a difference of two log-gammas would cancel (A.
//! DiDonato, A. Morris, "Algorithm 708", 1992).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// From here on, Stirling's series with the terms below is exact to double precision.
const LARGE: f64 = 10.0;
/// More terms than a continued fraction needs at 10⁹ degrees of freedom.
const MOST_TERMS: u32 = 200_000;

/// Two-sided p-value of Student's t: the chance of a |t| at least as large.
#[must_use]
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    let square = t * t;
    if square == 0.0 {
        return 1.0;
    }
    // x and 1 − x are both computed from the data, so neither loses digits in a difference.
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + square), square / (freedom + square))
}

/// The chance of a Student's t above `t`.
#[must_use]
pub(crate) fn student_upper(t: f64, freedom: f64) -> f64 {
    let half = student_two_sided(t, freedom) / 2.0;
    if t >= 0.0 { half } else { 1.0 - half }
}

/// Returns the t for which the interval from −t to t contains a share `confidence` of the distribution; 12.7 for 0.95
/// with one degree of freedom.
#[must_use]
pub fn student_quantile(confidence: f64, freedom: f64) -> f64 {
    let outside = 1.0 - confidence;
    if outside >= 1.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 2.0);
    while student_two_sided(high, freedom) > outside && high < 1e150 {
        low = high;
        high *= 2.0;
    }
    let scale = -log_beta(freedom / 2.0, 0.5) - freedom.ln() / 2.0;
    let mut t = (low + high) / 2.0;
    // Newton's method, limited to an interval that contains the root.
    for _ in 0..200 {
        let excess = student_two_sided(t, freedom) - outside;
        if excess > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let density = (scale - (freedom + 1.0) / 2.0 * (t * t / freedom).ln_1p()).exp();
        let newton = t + excess / (2.0 * density);
        let next = if newton > low && newton < high { newton } else { (low + high) / 2.0 };
        if (next - t).abs() <= 4.0 * f64::EPSILON * t {
            return next;
        }
        t = next;
    }
    t
}

/// The chance of an F above `f`.
#[must_use]
pub fn fisher_upper(f: f64, numerator: f64, denominator: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    if f.is_infinite() {
        return 0.0;
    }
    let whole = denominator + numerator * f;
    incomplete_beta(denominator / 2.0, numerator / 2.0, denominator / whole, numerator * f / whole)
}

/// Returns the F above which a value is with chance `upper`.
pub(super) fn fisher_quantile(upper: f64, numerator: f64, denominator: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while fisher_upper(high, numerator, denominator) > upper && high < 1e150 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if fisher_upper(middle, numerator, denominator) > upper { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The chance of a standard normal value above `z`.
#[must_use]
pub fn normal_upper(z: f64) -> f64 {
    let half = error_complement(z.abs() * FRAC_1_SQRT_2) / 2.0;
    if z >= 0.0 { half } else { 1.0 - half }
}

/// Returns the z above which a standard normal value is with chance `upper`, which is at most one half.
#[must_use]
pub fn normal_quantile(upper: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if normal_upper(middle) > upper { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// 2/√π ∫ₓ^∞ exp(−s²) ds for x ≥ 0: the incomplete gamma function at a half.
fn error_complement(x: f64) -> f64 {
    let square = x * x;
    if square == 0.0 {
        return 1.0;
    }
    let front = (-square).exp() * x / PI.sqrt();
    if square < 2.0 {
        // The series of the lower function has only positive terms.
        let (mut term, mut sum, mut over) = (2.0, 2.0, 0.5);
        while term > sum * f64::EPSILON / 4.0 {
            over += 1.0;
            term *= square / over;
            sum += term;
        }
        return 1.0 - front * sum;
    }
    let fraction = lentz(square + 0.5, |n| {
        let n = f64::from(n);
        (-n * (n - 0.5), square + 2.0 * n + 0.5)
    });
    front / fraction
}

/// The regularised incomplete beta function Iₓ(a, b), given x and y = 1 − x.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean of the distribution.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta_below(b, a, y, x);
    }
    incomplete_beta_below(a, b, x, y)
}

fn incomplete_beta_below(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let log = |share: f64, rest: f64| if share > 0.5 { (-rest).ln_1p() } else { share.ln() };
    let front = (a * log(x, y) + b * log(y, x) - log_beta(a, b)).exp() / a;
    let fraction = lentz(1.0, |n| {
        let m = f64::from(n / 2);
        let numerator = if n % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        (numerator, 1.0)
    });
    front / fraction
}

/// start + a₁/(b₁ + a₂/(b₂ + …)), where `term(n)` is (aₙ, bₙ).
fn lentz(start: f64, term: impl Fn(u32) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut value = away(start);
    let (mut c, mut d) = (value, 0.0);
    for n in 1..MOST_TERMS {
        let (a, b) = term(n);
        d = 1.0 / away(b + a * d);
        c = away(b + a / c);
        let step = c * d;
        value *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

/// ln B(a, b).
fn log_beta(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if large < LARGE {
        return log_gamma(small) + log_gamma(large) - log_gamma(small + large);
    }
    // ln Γ(large) − ln Γ(small + large), term by term.
    let falling = small - (large - 0.5) * (small / large).ln_1p() - small * (small + large).ln()
        + stirling_rest(large)
        - stirling_rest(small + large);
    log_gamma(small) + falling
}

/// ln Γ(x) for x > 0.
fn log_gamma(x: f64) -> f64 {
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < LARGE {
        product *= shifted;
        shifted += 1.0;
    }
    (shifted - 0.5) * shifted.ln() - shifted + (2.0 * PI).ln() / 2.0 + stirling_rest(shifted) - product.ln()
}

/// Remainder of Stirling's formula at x ≥ [`LARGE`].
fn stirling_rest(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let terms = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3617.0 / 122_400.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum * square + term) * inverse
}
