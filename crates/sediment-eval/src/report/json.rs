// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment as JSON: everything that was concluded, and every sample it was concluded from.

use super::csv::kind_word;
use crate::comparison::Comparison;
use crate::findings::{MetricAnalysis, WorkloadAnalysis};
use crate::gate::{Gate, gate_reasons};
use crate::statistics::Description;
use crate::{Analysis, Experiment};
use serde_json::{Map, Value, json};

/// Raised when a reader of an older one could misread the new.
const VERSION: u32 = 1;

pub(super) fn json(experiment: &Experiment, analysis: &Analysis) -> Value {
    let (answer, reasons) = gate_reasons(analysis);
    let word = match answer {
        Gate::Pass => "pass",
        Gate::Regression => "regression",
        Gate::Inconclusive => "inconclusive",
    };
    json!({
        "schema": VERSION,
        "format": "sediment-eval",
        "version": VERSION,
        "facts": experiment.facts,
        "seed": experiment.seed.to_string(),
        "margin": analysis.margin,
        "confidence": analysis.confidence,
        "primary": experiment.primary,
        "baseline": analysis.variants[analysis.baseline].name,
        "absent": experiment.absent,
        "warnings": analysis.warnings,
        "gate": { "answer": word, "reasons": reasons },
        "builds": builds(analysis),
        "metrics": metrics(analysis),
        "workloads": analysis.workloads.iter().map(|w| workload(analysis, w)).collect::<Vec<_>>(),
        "samples": samples(experiment),
    })
}

fn builds(analysis: &Analysis) -> Value {
    let each = analysis.variants.iter().map(|build| {
        let factors: Map<String, Value> =
            build.factors.iter().map(|factor| (factor.name.clone(), json!(factor.level))).collect();
        json!({ "name": build.name, "replicas": build.replicas, "probe": build.probe, "factors": factors })
    });
    each.collect()
}

fn metrics(analysis: &Analysis) -> Value {
    let each = analysis.metrics.iter().map(|metric| {
        json!({ "name": metric.name, "unit": metric.unit, "better": metric.direction, "kind": kind_word(metric.kind) })
    });
    each.collect()
}

fn workload(analysis: &Analysis, found: &WorkloadAnalysis) -> Value {
    let name = |variant: usize| analysis.variants[variant].name.as_str();
    let verdicts = found.verdicts.iter().map(|build| {
        json!({
            "build": name(build.variant),
            "verdict": build.verdict.word(),
            "reason": build.reason,
            "needed": build.needed,
        })
    });
    let noise_floor = found.noise_floor.as_ref().map(|floor| {
        let probes =
            floor.probes.iter().map(|(variant, shown)| json!({ "build": name(*variant), "interval": shown }));
        json!({ "size": floor.size, "probes": probes.collect::<Vec<_>>() })
    });
    let components = found.components.map(|split| {
        json!({
            "between_links": split.between_links,
            "within_links": split.within_links,
            "p": split.p,
            "freedom": [split.link_freedom, split.run_freedom],
        })
    });
    let factors = found.factors.as_ref().map(|factors| match factors {
        Err(why) => json!({ "refused": why }),
        Ok(effects) => json!({ "effects": effects }),
    });
    let read =
        analysis.metrics.iter().zip(&found.metrics).filter(|(_, m)| m.groups.iter().any(Option::is_some));
    let values = read.map(|(described, m)| (described.name.clone(), metric(analysis, m)));
    json!({
        "name": found.name,
        "headline": found.headline.map(|at| analysis.metrics[at].name.as_str()),
        "recommendation": found.recommendation,
        "warnings": found.warnings,
        "verdicts": verdicts.collect::<Vec<_>>(),
        "noise_floor": noise_floor,
        "variance_components": components,
        "steadiness": found.stability,
        "factors": factors,
        "pairs": found.pairs.iter().map(|pair| comparison(analysis, pair)).collect::<Vec<_>>(),
        "metrics": values.collect::<Map<String, Value>>(),
    })
}

fn metric(analysis: &Analysis, found: &MetricAnalysis) -> Value {
    let groups =
        found.groups.iter().zip(&analysis.variants).filter_map(|(group, build)| {
            group.as_ref().map(|group| (build.name.clone(), description(group)))
        });
    let comparisons = found.comparisons.iter().flatten().map(|found| comparison(analysis, found));
    json!({
        "groups": groups.collect::<Map<String, Value>>(),
        "comparisons": comparisons.collect::<Vec<_>>(),
    })
}

fn description(group: &Description) -> Value {
    let moments = &group.moments;
    json!({
        "count": moments.count,
        "mean": moments.mean,
        "deviation": moments.deviation(),
        "cv": moments.coefficient_of_variation(),
        "minimum": group.order.map(|o| o.minimum),
        "lower_quartile": group.order.map(|o| o.lower_quartile),
        "median": group.order.map(|o| o.median),
        "upper_quartile": group.order.map(|o| o.upper_quartile),
        "maximum": group.order.map(|o| o.maximum),
        "far": group.order.map(|o| o.far),
    })
}

/// Effects on the scale `log-ratio` are natural logarithms. An infinite t, of runs that never vary, is null.
fn comparison(analysis: &Analysis, found: &Comparison) -> Value {
    json!({
        "build": analysis.variants[found.variant].name,
        "against": analysis.variants[found.against].name,
        "design": found.design,
        "scale": found.scale,
        "estimate": found.estimate,
        "change_percent": found.change(),
        "effect": found.effect,
        "adjusted_p": found.adjusted_p,
        "these_links": found.these_links,
        "bootstrap": found.bootstrap,
        "signed_rank": found.signed_rank,
        "student": found.student,
        "welch": found.welch,
        "mann_whitney": found.mann_whitney,
        "equal_cv": found.spread,
        "equivalence_p": found.equivalence_p,
        "differences": found.differences,
    })
}

fn samples(experiment: &Experiment) -> Value {
    let each = experiment.observations.iter().map(|run| {
        json!({
            "workload": experiment.workloads.get(run.workload).map(|w| w.name.as_str()),
            "build": experiment.variants.get(run.variant).map(|v| v.name.as_str()),
            "replica": run.replica,
            "block": run.block,
            "slot": run.slot,
            "at": run.at,
            "phase": run.phase,
            "work": run.work,
            "values": run.values,
        })
    });
    each.collect()
}
