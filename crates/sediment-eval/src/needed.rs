// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the number of blocks or links with which the interval of a comparison has a given half-width.

use super::comparison::{Comparison, Design};
use super::statistics::components::Components;
use super::statistics::{distribution, power};

/// Larger numbers are not computed.
const MANY: u32 = 1 << 20;

/// Links are shown to differ if the p-value is below this level.
const LEVEL: f64 = 0.05;

/// Numbers of blocks or links with which the interval of a comparison would have a given half-width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) blocks: NeededBlocks,
    /// Links of each build, with the present blocks; None without replicas, or if no number below [`MANY`] does.
    pub(super) links: Option<u32>,
}

/// Number of blocks in all, up to [`MANY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededBlocks {
    /// Estimated from the variance of runs and links.
    About(u32),
    /// The number if links did not differ. According to the estimate, links differ too much for blocks to help, but it
    /// is not shown that they differ at all.
    AtLeast(u32),
    /// Links are shown to differ, and according to the estimate too much for any number of blocks.
    NoNumber,
    /// The links have no common blocks in which they could be compared.
    Unknown,
}

impl NeededBlocks {
    pub(super) fn count(self) -> Option<u32> {
        match self {
            Self::About(count) | Self::AtLeast(count) => Some(count),
            Self::NoNumber | Self::Unknown => None,
        }
    }

    /// Returns the number in words, if there is one.
    pub(super) fn in_words(self) -> Option<String> {
        let count = self.count()?;
        Some(match self {
            _ if count >= MANY => "more than a million".to_owned(),
            Self::AtLeast(_) => format!("at least {count}"),
            _ => format!("about {count}"),
        })
    }

    /// Returns the total number of blocks after which to ask again. If only a least number is known, this is at least
    /// twice as many blocks.
    pub(super) fn next_look(self, done: u32) -> Option<u32> {
        let twice = if matches!(self, Self::AtLeast(_)) { done.saturating_mul(2) } else { 0 };
        Some(self.count()?.max(twice))
    }
}

/// Formats a share in per cent, without trailing zeros.
pub(super) fn in_per_cent(share: f64) -> String {
    format!("{}", (share * 1e8).round() / 1e6)
}

/// Returns the blocks and links needed for an interval of this half-width; None for runs without blocks. With replicas
/// the variance of all builds of the workload is used, so that the same number of links is advised for all.
pub(super) fn needed(
    split: Option<&Components>,
    comparison: &Comparison,
    precision: f64,
    confidence: f64,
) -> Option<Needed> {
    let effect = comparison.effect?;
    match comparison.design {
        Design::Paired { blocks } => {
            let deviation = effect.standard_error * (blocks as f64).sqrt();
            let blocks = power::count_for_half_width(deviation, precision, confidence);
            Some(Needed { blocks: NeededBlocks::About(blocks.unwrap_or(MANY)), links: None })
        }
        Design::Replicated { blocks: blocks_done, links: (one, other) } => {
            let share = 1.0 / one as f64 + 1.0 / other as f64;
            let (blocks, per_link) = match split {
                Some(split) => {
                    let t = distribution::student_quantile(confidence, effect.freedom);
                    // Half-width² = t² · share · (links² + runs² / blocks).
                    let most = (precision / t).powi(2) / share;
                    let count = |room: f64| {
                        (split.within_links.powi(2) / room).clamp(1.0, f64::from(MANY)).ceil() as u32
                    };
                    let room = most - split.between_links.powi(2);
                    let blocks = if room > 0.0 {
                        NeededBlocks::About(count(room))
                    } else if split.p < LEVEL {
                        NeededBlocks::NoNumber
                    } else {
                        NeededBlocks::AtLeast(count(most))
                    };
                    let per_link =
                        split.between_links.powi(2) + split.within_links.powi(2) / blocks_done as f64;
                    (blocks, per_link.sqrt())
                }
                None => (NeededBlocks::Unknown, effect.standard_error / share.sqrt()),
            };
            let links = power::count_for_half_width(per_link * 2.0_f64.sqrt(), precision, confidence);
            Some(Needed { blocks, links })
        }
        Design::Unpaired { .. } | Design::Summarised { .. } => None,
    }
}
