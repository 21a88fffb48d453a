// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates how much two links of the same code differ because of its addresses.
//!
//! ```text
//! model     ln(value) = layout + block + run; layouts and runs are normal
//! floor     exp(z √2 σ) − 1, with σ the deviation between layouts and z = 1.96 for 95 %
//! interval  of σ² = (MS layouts − MS runs) / blocks, after Tukey and Williams
//! ```
//!
//! The difference of two layouts has the variance 2σ², so 95 % of all differences are within z √2 σ on both sides: the
//! reproducibility limit of ISO 5725-6, with a layout in the place of a laboratory. Runs are not part of it, because
//! more runs make their share small.
//!
//! The interval is that of J. Tukey ("Components in regression", Biometrics, 1951) and J. Williams ("A confidence
//! interval for variance components", Biometrika, 1962). It contains the truth about as often as promised, or more
//! often (T. Boardman, "Confidence intervals for variance components: a comparative Monte Carlo study", Biometrics,
//! 1974).

use super::Interval;
use super::components::Components;
use super::distribution::{fisher_quantile, normal_quantile};

/// Degrees of freedom at which F equals chi-square over its own degrees.
const MANY: f64 = 1e9;

/// Returns the floor, as a share: a smaller difference of two links is not evidence. 0.02 is 2 %.
///
/// `confidence` is both the share of differences within the floor, and the confidence of its interval.
#[must_use]
pub fn layout_noise(split: &Components, blocks: usize, confidence: f64) -> Interval {
    let outside = (1.0 - confidence) / 2.0;
    let reach = normal_quantile(outside) * std::f64::consts::SQRT_2;
    let floor = |variance: f64| (reach * variance.max(0.0).sqrt()).exp_m1();
    let (layouts, runs) = (split.link_freedom, split.run_freedom);
    let run_square = split.within_links.powi(2);
    // `upper` is the chance of a larger F.
    let bound = |upper: f64| {
        let f = fisher_quantile(upper, layouts, runs);
        let chi_square = fisher_quantile(upper, layouts, MANY);
        (split.link_square - f * run_square) / (blocks as f64 * chi_square)
    };
    Interval {
        estimate: floor(split.between_links.powi(2)),
        lower: floor(bound(outside)),
        upper: floor(bound(1.0 - outside)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::components::components;
    use super::*;
    use sediment_core::random::Generator;

    const LAYOUTS: usize = 10;
    const BLOCKS: usize = 10;

    /// Makes logarithms by layout and block, with these deviations of layouts, runs and blocks.
    fn made([layouts, runs, blocks]: [f64; 3], seed: u64) -> Vec<Vec<f64>> {
        let mut draws = Generator::new(seed);
        let of_blocks: Vec<f64> = (0..BLOCKS).map(|_| blocks * draws.normal()).collect();
        (0..LAYOUTS)
            .map(|_| {
                let place = layouts * draws.normal();
                of_blocks.iter().map(|block| place + block + runs * draws.normal()).collect()
            })
            .collect()
    }

    fn noise(deviations: [f64; 3], seed: u64) -> Interval {
        layout_noise(&components(&[made(deviations, seed)]).unwrap(), BLOCKS, 0.95)
    }

    #[test]
    fn the_interval_holds_what_was_planted() {
        for deviations in [[0.01, 0.01, 0.05], [0.01, 0.001, 0.0], [0.003, 0.02, 0.0], [0.0, 0.01, 0.01]] {
            let planted = (1.959964 * 2.0_f64.sqrt() * deviations[0]).exp_m1();
            let found: Vec<Interval> = (0..400).map(|seed| noise(deviations, seed)).collect();
            let holding =
                found.iter().filter(|noise| noise.lower <= planted && planted <= noise.upper).count();
            assert!(holding >= 372, "{deviations:?}: {holding} of 400");
            assert!(found.iter().all(|noise| noise.lower <= noise.estimate && noise.estimate <= noise.upper));
        }
    }

    #[test]
    fn the_floor_is_the_bound_of_most_differences() {
        let mut draws = Generator::new(3);
        let Interval { estimate, .. } = noise([0.01, 0.0, 0.0], 3);
        let deviation = estimate.ln_1p() / 1.959964 / 2.0_f64.sqrt();
        let within = |_: &usize| {
            let difference = deviation * (draws.normal() - draws.normal());
            difference.abs() <= estimate.ln_1p()
        };
        let share = (0..20_000).filter(within).count() as f64 / 20_000.0;
        assert!((share - 0.95).abs() < 0.005, "{share}");
    }

    #[test]
    fn values_without_luck_have_no_floor() {
        let same = components(&[vec![vec![1.0, 2.0]; 3]]).unwrap();
        assert_eq!(layout_noise(&same, 2, 0.95), Interval { estimate: 0.0, lower: 0.0, upper: 0.0 });
    }
}
