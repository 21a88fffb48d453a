// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an experiment as tables for other programs: every comparison, and every sample.

use crate::comparison::EffectScale;
use crate::{Analysis, Experiment, MetricKind, Phase};
use sediment_core::escape;
use std::fmt::Write as _;

const SUMMARY: &str = "workload,build,metric,unit,kind,headline,verdict,runs,mean,deviation,minimum,median,maximum,\
                       scale,change,lower,upper,t,freedom,p,adjusted_p,signed_rank_p,welch_t,welch_freedom,welch_p";
const SAMPLES: &str = "workload,build,replica,block,slot,at,phase,work,metric,value";

/// Name of a kind of metric in files.
pub(super) fn kind_word(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Measured => "measured",
        MetricKind::Simulated => "simulated",
        MetricKind::Derived => "derived",
    }
}

/// Writes every metric of every build. On the scale `ratio` a change is the ratio minus one, otherwise a difference in
/// the metric's unit.
pub(super) fn summary(analysis: &Analysis) -> String {
    let mut text = format!("{SUMMARY}\n");
    let number = |x: Option<f64>| x.filter(|x| x.is_finite()).map(|x| format!("{x}")).unwrap_or_default();
    for workload in &analysis.workloads {
        for (at, metric) in analysis.metrics.iter().enumerate() {
            let found = &workload.metrics[at];
            for (variant, group) in found.groups.iter().enumerate() {
                let Some(group) = group else { continue };
                let comparison = found.comparisons[variant].as_ref();
                let headline = workload.headline == Some(at);
                let build = workload.verdicts.iter().find(|j| headline && j.variant == variant);
                let effect = comparison.and_then(|c| c.effect);
                let welch = comparison.and_then(|c| c.welch);
                let shown = |x: Option<f64>| {
                    number(x.map(|x| if found.scale == EffectScale::Logarithm { x.exp_m1() } else { x }))
                };
                let fields = [
                    escape::csv(&workload.name),
                    escape::csv(&analysis.variants[variant].name),
                    escape::csv(&metric.name),
                    escape::csv(&metric.unit),
                    kind_word(metric.kind).to_owned(),
                    headline.to_string(),
                    build.map(|j| j.verdict.word()).unwrap_or_default().to_owned(),
                    number(Some(group.moments.count)),
                    number(Some(group.moments.mean)),
                    number(group.moments.deviation()),
                    number(group.order.map(|order| order.minimum)),
                    number(group.order.map(|order| order.median)),
                    number(group.order.map(|order| order.maximum)),
                    if found.scale == EffectScale::Logarithm { "ratio" } else { "difference" }.to_owned(),
                    shown(comparison.map(|c| c.estimate)),
                    shown(effect.map(|e| e.interval.lower)),
                    shown(effect.map(|e| e.interval.upper)),
                    number(effect.map(|e| e.t)),
                    number(effect.map(|e| e.freedom)),
                    number(effect.map(|e| e.p)),
                    number(comparison.and_then(|c| c.adjusted_p)),
                    number(comparison.and_then(|c| c.signed_rank).map(|ranks| ranks.p)),
                    number(welch.map(|e| e.t)),
                    number(welch.map(|e| e.freedom)),
                    number(welch.map(|e| e.p)),
                ];
                let _ = writeln!(text, "{}", fields.join(","));
            }
        }
    }
    text
}

/// Writes every value of every run, warm-ups too, one on each line.
pub(super) fn samples(experiment: &Experiment) -> String {
    let mut text = format!("{SAMPLES}\n");
    for run in &experiment.observations {
        let head = [
            experiment.workloads.get(run.workload).map(|w| escape::csv(&w.name)).unwrap_or_default(),
            experiment.variants.get(run.variant).map(|v| escape::csv(&v.name)).unwrap_or_default(),
            run.replica.to_string(),
            run.block.map(|block| block.to_string()).unwrap_or_default(),
            run.slot.to_string(),
            run.at.to_string(),
            if run.phase == Phase::Measured { "measured" } else { "warm-up" }.to_owned(),
            run.work.map(|work| work.to_string()).unwrap_or_default(),
        ]
        .join(",");
        for (metric, value) in &run.values {
            let _ = writeln!(text, "{head},{},{value}", escape::csv(metric));
        }
    }
    text
}
