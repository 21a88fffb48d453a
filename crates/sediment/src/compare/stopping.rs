// SPDX-License-Identifier: MIT OR Apache-2.0
//! When an experiment has run long enough: on precision or on budget, never on a p-value.
use super::Experiment;
use crate::error::Result;

/// What an experiment may cost and how sharp it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Blocks of the pilot, from which the spread is learnt; 7 unless told otherwise.
    pub pilot: u32,
    /// Most blocks to run.
    pub most_blocks: u32,
    /// Half-width of the primary metric's interval to reach, relative: 0.005 is half a per cent.
    pub precision: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { pilot: 7, most_blocks: 40, precision: 0.005 }
    }
}

/// What the runner does next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Run so many more blocks, then ask again.
    MoreBlocks {
        /// How many.
        blocks: u32,
        /// Half-width so far, the widest of all builds and workloads; None during the pilot.
        half_width: Option<f64>,
    },
    /// Sharp enough.
    Precise {
        /// Half-width reached.
        half_width: f64,
    },
    /// The budget is used up, or more blocks could not help.
    Spent {
        /// Half-width reached, where there is one.
        half_width: Option<f64>,
        /// What would help, in words: `about 25 more blocks`, `more layout replicas, not more blocks`.
        advice: String,
    },
}

/// What the runner does after the blocks recorded so far.
///
/// # Errors
/// As [`super::analyse`].
pub fn plan_next(_experiment: &Experiment, budget: &Budget) -> Result<NextStep> {
    Ok(NextStep::MoreBlocks { blocks: budget.pilot, half_width: None })
}
