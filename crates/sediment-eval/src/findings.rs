// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Analysis`]: the findings of an experiment, workload by workload.

use super::comparison::{Comparison, EffectScale};
use super::data::{Metric, Variant};
use super::factors::FactorEffect;
use super::statistics::components::Components;
use super::statistics::drift::Stability;
use super::statistics::{Description, Interval};
use super::verdict::{BuildVerdict, NoiseFloor};

/// All findings of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The builds, as in the experiment.
    pub variants: Vec<Variant>,
    /// Index of the baseline.
    pub baseline: usize,
    /// The measured metrics, then the derived ones.
    pub metrics: Vec<Metric>,
    /// Relative difference below which builds count as equivalent.
    pub margin: f64,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Workload by workload, in the order of the experiment.
    pub workloads: Vec<WorkloadAnalysis>,
    /// Warnings to be read before the figures, each a sentence without a full stop.
    pub warnings: Vec<String>,
}

/// One workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadAnalysis {
    /// Its name.
    pub name: String,
    /// Index of the metric that decides: the primary one, per unit of work if this is counted. `None` if it is absent.
    pub headline: Option<usize>,
    /// Every metric, in the order of [`Analysis::metrics`].
    pub metrics: Vec<MetricAnalysis>,
    /// For each build, why its values are not judged; `None` if they are.
    pub unjudged: Vec<Option<String>>,
    /// A verdict for every build except the baseline and the probes.
    pub verdicts: Vec<BuildVerdict>,
    /// Difference between equal builds on the headline; None without probes.
    pub noise_floor: Option<NoiseFloor>,
    /// The split of the headline's variance between links and runs; None unless there are layout replicas.
    pub components: Option<Components>,
    /// Difference between two links of the same code by layout, as a share; None without components, or if values have
    /// no ratios.
    pub layout_noise: Option<LayoutNoise>,
    /// Stability of the machine, by the headline.
    pub stability: Option<Stability>,
    /// All pairs of builds without the baseline, compared on the headline; p-values are adjusted over these pairs,
    /// after Holm.
    pub pairs: Vec<Comparison>,
    /// Effects of the factors on the headline, or the reason why there are none; None without factors.
    pub factors: Option<std::result::Result<Vec<FactorEffect>, String>>,
    /// Warnings, each a sentence without a full stop.
    pub warnings: Vec<String>,
    /// Recommendation, as one or more sentences.
    pub recommendation: String,
}

/// Difference between two links of the same code on the headline because of the addresses of their code, and the data
/// for this estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutNoise {
    /// The floor as a share. With a confidence of 95 %, 95 % of the differences between two links are smaller.
    pub floor: Interval,
    /// Number of links.
    pub layouts: usize,
    /// Number of blocks that all links have.
    pub blocks: usize,
}

/// One metric in one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricAnalysis {
    /// Scale of its comparisons.
    pub scale: EffectScale,
    /// Its values by build; `None` if it was not read.
    pub groups: Vec<Option<Description>>,
    /// Its comparison with the baseline by build; None for the baseline, and if one of the two lacks the metric.
    pub comparisons: Vec<Option<Comparison>>,
}

impl WorkloadAnalysis {
    /// Comparison of a build with the baseline on the headline.
    #[must_use]
    pub fn headline_comparison(&self, variant: usize) -> Option<&Comparison> {
        self.metrics.get(self.headline?)?.comparisons.get(variant)?.as_ref()
    }
}
