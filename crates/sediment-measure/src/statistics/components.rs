// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates variance components: between links of one build, and between runs of one link.
//!
//! The model is y = build + link of the build + block + run. Blocks are crossed with links, so the effect of a block on
//! all its runs is removed first. Expected mean squares (S. Searle, G. Casella, C. McCulloch, "Variance Components",
//! 1992) give E[MS links] = σ²run + blocks · σ²link, hence the estimates; a negative one is zero.

use super::distribution;

/// The split of the variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Standard deviation between links of one build.
    pub between_links: f64,
    /// Standard deviation between runs of one link, beyond what their block explains.
    pub within_links: f64,
    /// Mean square between links: blocks times the variance of their means.
    pub link_square: f64,
    /// p-value of no difference between links (F test).
    pub p: f64,
    /// Degrees of freedom between links.
    pub link_freedom: f64,
    /// Degrees of freedom within links.
    pub run_freedom: f64,
}

/// Splits the variance of values given by build, link and block. None unless a build has two links, there are two
/// blocks, and every link has a value in every block.
#[must_use]
pub fn components(builds: &[Vec<Vec<f64>>]) -> Option<Components> {
    let links: Vec<&Vec<f64>> = builds.iter().flatten().collect();
    let blocks = links.first()?.len();
    let link_freedom = (links.len() - builds.iter().filter(|build| !build.is_empty()).count()) as f64;
    if link_freedom < 1.0 || blocks < 2 || links.iter().any(|link| link.len() != blocks) {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let link_means: Vec<f64> = links.iter().map(|link| mean(link)).collect();
    let grand = mean(&link_means);
    let mut residual = 0.0;
    for block in 0..blocks {
        let column: Vec<f64> = links.iter().map(|link| link[block]).collect();
        let block_mean = mean(&column);
        residual += column
            .iter()
            .zip(&link_means)
            .map(|(value, link_mean)| (value - link_mean - block_mean + grand).powi(2))
            .sum::<f64>();
    }
    let mut between = 0.0;
    for build in builds.iter().filter(|build| !build.is_empty()) {
        let means: Vec<f64> = build.iter().map(|link| mean(link)).collect();
        let centre = mean(&means);
        between += means.iter().map(|x| (x - centre).powi(2)).sum::<f64>() * blocks as f64;
    }
    let run_freedom = ((links.len() - 1) * (blocks - 1)) as f64;
    let (link_square, run_square) = (between / link_freedom, residual / run_freedom);
    let p = if run_square > 0.0 {
        distribution::fisher_upper(link_square / run_square, link_freedom, run_freedom)
    } else if link_square > 0.0 {
        0.0
    } else {
        1.0
    };
    Some(Components {
        between_links: ((link_square - run_square) / blocks as f64).max(0.0).sqrt(),
        within_links: run_square.sqrt(),
        link_square,
        p,
        link_freedom,
        run_freedom,
    })
}
