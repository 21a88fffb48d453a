// SPDX-License-Identifier: MIT OR Apache-2.0
//! A percentile bootstrap over links and blocks (B. Efron, 1979). The levels are drawn as in T. Kalibera and R. Jones,
//! "Rigorous benchmarking in reasonable time", ISMM 2013: first the builds, then the runs.
//!
//! Each resample draws links of both builds with replacement, and blocks with replacement. A block is drawn for all
//! links at once, because its runs were made together and share the machine's disturbances. With the usual three or
//! four links there is little to draw from, and the interval is too short. So it is shown together with the t interval,
//! and never decides.

use super::Interval;
use sediment_core::random::Generator;

/// Number of resamples.
pub(crate) const RESAMPLES: usize = 2000;

/// Returns the difference of the means of `first` and `second`, each by link and block (all links over the same blocks,
/// in the same order); `None` if one is empty or lengths differ.
#[must_use]
pub fn hierarchical(first: &[Vec<f64>], second: &[Vec<f64>], confidence: f64, seed: u64) -> Option<Interval> {
    let blocks = first.first()?.len();
    let even = first.iter().chain(second).all(|link| link.len() == blocks);
    if second.is_empty() || blocks == 0 || !even {
        return None;
    }
    let mut numbers = Generator::new(seed);
    let mean = |links: &[Vec<f64>], drawn_links: &[usize], drawn_blocks: &[usize]| {
        let sum: f64 =
            drawn_links.iter().map(|link| drawn_blocks.iter().map(|at| links[*link][*at]).sum::<f64>()).sum();
        sum / (drawn_links.len() * drawn_blocks.len()) as f64
    };
    let all = |count: usize| (0..count).collect::<Vec<_>>();
    let estimate =
        mean(first, &all(first.len()), &all(blocks)) - mean(second, &all(second.len()), &all(blocks));
    let mut draws: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut draw = |count: usize| (0..count).map(|_| numbers.below(count)).collect::<Vec<_>>();
            let (chosen, first_links, second_links) = (draw(blocks), draw(first.len()), draw(second.len()));
            mean(first, &first_links, &chosen) - mean(second, &second_links, &chosen)
        })
        .collect();
    draws.sort_by(f64::total_cmp);
    let outside = ((1.0 - confidence) / 2.0 * RESAMPLES as f64) as usize;
    Some(Interval { estimate, lower: draws[outside], upper: draws[RESAMPLES - 1 - outside] })
}
