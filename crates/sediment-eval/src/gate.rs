// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate for CI: decides if any build is slower than allowed.

use super::comparison::EffectScale;
use super::data::Direction;
use super::findings::Analysis;
use super::verdict::Verdict;
use serde::Serialize;

/// Answer of a gate in CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// No regression is shown, and one beyond the margin is excluded.
    Pass,
    /// A build is slower: its interval lies beyond the margin and the noise floor. Exit code 3.
    Regression,
    /// No regression is shown, but one beyond the margin is not excluded. Exit code 4 with `--conclusive`,
    /// else 0.
    Inconclusive,
}

/// The gate's answer over all workloads and builds.
#[must_use]
pub fn gate(analysis: &Analysis) -> Gate {
    gate_reasons(analysis).0
}

/// Returns the gate's answer, and a reason for every build that did not pass, each as a sentence without a full stop.
#[must_use]
pub(crate) fn gate_reasons(analysis: &Analysis) -> (Gate, Vec<String>) {
    let (mut regressions, mut open) = (Vec::new(), Vec::new());
    for workload in &analysis.workloads {
        for build in &workload.verdicts {
            let who = format!("{}, {}", workload.name, analysis.variants[build.variant].name);
            let comparison = workload.headline_comparison(build.variant);
            let effect = comparison
                .filter(|found| found.scale == EffectScale::Logarithm)
                .and_then(|found| found.effect);
            let (Some(effect), None) = (effect, build.needed) else {
                open.push(format!("{who}: {}", build.reason));
                continue;
            };
            let direction =
                workload.headline.map_or(Direction::LowerIsBetter, |at| analysis.metrics[at].direction);
            // Losses as positive numbers.
            let (least_loss, most_loss) = match direction {
                Direction::LowerIsBetter => (effect.interval.lower, effect.interval.upper),
                Direction::HigherIsBetter => (-effect.interval.upper, -effect.interval.lower),
            };
            let margin = analysis.margin.ln_1p();
            let noise_floor = workload.noise_floor.as_ref().map_or(0.0, |floor| floor.size);
            if build.verdict == Verdict::Slower && least_loss > margin.max(noise_floor) {
                regressions.push(format!("{who}: {}", build.reason));
            } else if matches!(build.verdict, Verdict::Inconclusive | Verdict::Slower) && most_loss > margin {
                open.push(format!("{who}: {}", build.reason));
            }
        }
    }
    if !regressions.is_empty() {
        (Gate::Regression, regressions)
    } else if !open.is_empty() || analysis.workloads.iter().all(|workload| workload.verdicts.is_empty()) {
        (Gate::Inconclusive, open)
    } else {
        (Gate::Pass, Vec::new())
    }
}
