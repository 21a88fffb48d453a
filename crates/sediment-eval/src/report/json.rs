// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment as JSON: everything that was concluded, and every sample it was concluded from.

use super::csv::kind_word;
use crate::comparison::{Comparison, Design, Scale};
use crate::findings::{MetricAnalysis, WorkloadAnalysis};
use crate::gate::{Gate, gate_reasons};
use crate::statistics::{Description, Effect, Interval};
use crate::{Analysis, Direction, Experiment, Phase, Probe};
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
    let facts: Vec<Value> = experiment.facts.iter().map(|(name, value)| json!([name, value])).collect();
    json!({
        "format": "sediment-eval",
        "version": VERSION,
        "facts": facts,
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
        let probe = build.probe.map(|probe| match probe {
            Probe::SameFile => "same-file",
            Probe::Relinked => "relinked",
        });
        json!({ "name": build.name, "replicas": build.replicas, "probe": probe, "factors": factors })
    });
    each.collect()
}

fn metrics(analysis: &Analysis) -> Value {
    let each = analysis.metrics.iter().map(|metric| {
        let better = match metric.direction {
            Direction::LowerIsBetter => "lower",
            Direction::HigherIsBetter => "higher",
        };
        json!({ "name": metric.name, "unit": metric.unit, "better": better, "kind": kind_word(metric.kind) })
    });
    each.collect()
}

fn workload(analysis: &Analysis, found: &WorkloadAnalysis) -> Value {
    let name = |variant: usize| analysis.variants[variant].name.as_str();
    let judgements = found.judgements.iter().map(|judgement| {
        json!({
            "build": name(judgement.variant),
            "verdict": judgement.verdict.word(),
            "reason": judgement.reason,
            "needed": judgement.needed,
        })
    });
    let floor = found.noise_floor.as_ref().map(|floor| {
        let probes = floor
            .probes
            .iter()
            .map(|(variant, shown)| json!({ "build": name(*variant), "interval": interval(shown) }));
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
    let steadiness = found.steadiness.map(|steady| {
        json!({
            "drift_per_hour": steady.drift_per_hour,
            "drift_p": steady.drift_p,
            "autocorrelation": steady.autocorrelation,
            "autocorrelation_bound": steady.autocorrelation_bound,
            "slot_effect": steady.slot_effect,
            "slot_p": steady.slot_p,
            "jitter": steady.jitter,
        })
    });
    let factors = found.factors.as_ref().map(|factors| match factors {
        Err(why) => json!({ "refused": why }),
        Ok(effects) => {
            let each = effects.iter().map(
                |e| json!({ "name": e.name, "interaction": e.interaction, "effect": effect(&e.effect) }),
            );
            json!({ "effects": each.collect::<Vec<_>>() })
        }
    });
    let read =
        analysis.metrics.iter().zip(&found.metrics).filter(|(_, m)| m.groups.iter().any(Option::is_some));
    let values = read.map(|(described, m)| (described.name.clone(), metric(analysis, m)));
    json!({
        "name": found.name,
        "headline": found.headline.map(|at| analysis.metrics[at].name.as_str()),
        "recommendation": found.recommendation,
        "warnings": found.warnings,
        "verdicts": judgements.collect::<Vec<_>>(),
        "noise_floor": floor,
        "variance_components": components,
        "steadiness": steadiness,
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

/// Effects on the scale `log-ratio` are natural logarithms.
fn comparison(analysis: &Analysis, found: &Comparison) -> Value {
    let design = match found.design {
        Design::Paired { blocks } => json!({ "kind": "paired", "blocks": blocks }),
        Design::Replicated { blocks, links } => {
            json!({ "kind": "replicated", "blocks": blocks, "links": [links.0, links.1] })
        }
        Design::Unpaired { runs } => json!({ "kind": "unpaired", "runs": [runs.0, runs.1] }),
        Design::Summarised { runs } => json!({ "kind": "summarised", "runs": [runs.0, runs.1] }),
    };
    let scale = match found.scale {
        Scale::Logarithm => "log-ratio",
        Scale::Plain => "difference",
    };
    json!({
        "build": analysis.variants[found.variant].name,
        "against": analysis.variants[found.against].name,
        "design": design,
        "scale": scale,
        "estimate": found.estimate,
        "change_percent": found.change(),
        "effect": found.effect.as_ref().map(effect),
        "adjusted_p": found.adjusted_p,
        "these_links": found.these_links.as_ref().map(effect),
        "bootstrap": found.bootstrap.as_ref().map(interval),
        "signed_rank": found.signed_rank.map(|r| json!({
            "interval": interval(&r.interval), "positive_ranks": r.positive_ranks, "p": r.p, "exact": r.exact, "zeros": r.zeros,
        })),
        "student": found.student.as_ref().map(effect),
        "welch": found.welch.as_ref().map(effect),
        "mann_whitney": found.mann_whitney.map(|r| json!({ "u": r.u, "p": r.p, "exact": r.exact })),
        "equal_cv": found.spread.map(|s| json!({ "f": s.f, "freedom": [s.freedom.0, s.freedom.1], "p": s.p })),
        "equivalence_p": found.equivalence_p,
        "differences": found.differences.iter().map(|(block, d)| json!([block, d])).collect::<Vec<_>>(),
    })
}

/// An infinite t, of runs that never vary, is null.
fn effect(effect: &Effect) -> Value {
    json!({
        "estimate": effect.interval.estimate,
        "lower": effect.interval.lower,
        "upper": effect.interval.upper,
        "standard_error": effect.standard_error,
        "freedom": effect.freedom,
        "t": effect.t,
        "p": effect.p,
    })
}

fn interval(interval: &Interval) -> Value {
    json!({ "estimate": interval.estimate, "lower": interval.lower, "upper": interval.upper })
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
            "phase": if run.phase == Phase::Measured { "measured" } else { "warm-up" },
            "work": run.work,
            "values": run.values,
        })
    });
    each.collect()
}
