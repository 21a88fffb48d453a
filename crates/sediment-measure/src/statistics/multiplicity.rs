// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adjusts p-values of several simultaneous questions.

/// Holm's adjustment, which limits the chance of even one false claim ("A simple sequentially rejective multiple test
/// procedure", 1979).
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        least = least.max(p[*index] * (p.len() - rank) as f64).min(1.0);
        adjusted[*index] = least;
    }
    adjusted
}

/// The adjustment of Benjamini and Hochberg, which limits the expected share of false claims ("Controlling the false
/// discovery rate", 1995).
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let mut adjusted = vec![0.0; p.len()];
    let mut most = 1.0_f64;
    for (rank, index) in order.iter().enumerate().rev() {
        most = most.min(p[*index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[*index] = most;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]).then(a.cmp(b)));
    order
}
