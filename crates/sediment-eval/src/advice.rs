// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the results of a workload in words: warnings for the reader, and one recommendation.

use super::comparison::{Comparison, Design, EffectScale, percent};
use super::data::{Direction, Experiment, MetricKind};
use super::findings::{LayoutNoise, WorkloadAnalysis};
use super::needed::{in_per_cent, needed};
use super::samples;
use super::statistics::{Effect, Interval, drift, power};
use super::verdict::{Verdict, short_p};
use sediment_measure::{judge, pace};
use std::time::Duration;

/// Relative spread above which pyperf's `check` calls a benchmark unstable.
const UNSTABLE: f64 = 0.10;
/// A run shorter than this, in seconds, mostly measures its own start.
const TOO_SHORT: f64 = 0.001;
/// p-value below which drift and slots are mentioned.
const NOTABLE: f64 = 0.01;

/// Returns everything about a workload that a reader must know, each as a sentence without a full stop.
pub(super) fn warnings(whole: &Experiment, workload: usize, found: &WorkloadAnalysis) -> Vec<String> {
    let mut said = Vec::new();
    let Some(at) = found.headline else { return said };
    let metric = &whole.metrics[at];
    if metric.kind == MetricKind::Simulated {
        said.push(format!(
            "{} is simulated, not measured: the simulator does not model everything",
            metric.name
        ));
    }
    if whole.workloads[workload].work.is_some()
        && metric.name == whole.primary
        && metric.direction == Direction::LowerIsBetter
    {
        said.push(format!("some runs have no work counter, so {} is not per unit of work", metric.name));
    }
    for (variant, group) in found.metrics[at].groups.iter().enumerate() {
        let Some(group) = group else { continue };
        let name = &whole.variants[variant].name;
        // If there is only one build, its variation by layout is what the user wants to know, so it gets no warning.
        let is_alone = found.verdicts.is_empty();
        let spread =
            group.moments.coefficient_of_variation().filter(|spread| !is_alone && *spread > UNSTABLE);
        if let Some(spread) = spread {
            said.push(format!(
                "{name} varies by {:.0} % from run to run (coefficient of variation)",
                spread * 100.0
            ));
        }
        if let Some(far) = group.order.map(|order| order.far).filter(|far| !is_alone && *far > 0) {
            let outliers = if far == 1 { "outlier" } else { "outliers" };
            said.push(format!(
                "{name} has {far} {outliers} in {} values (Tukey's fences); no value was excluded",
                group.moments.count
            ));
        }
        if metric.name == "elapsed" && metric.unit == "s" && group.moments.mean < TOO_SHORT {
            said.push(format!(
                "a run of {name} takes less than a millisecond: the measurement is mostly start-up"
            ));
        }
    }
    said.extend(missing_values(whole, workload, &metric.name));
    let looks: Vec<f64> = whole.observations.iter().filter_map(|run| run.circumstances.pace).collect();
    let change = pace::change(&looks);
    if metric.kind == MetricKind::Measured && change > pace::UNSTEADY {
        said.push(pace::in_words(change));
    }
    said.extend(instability(found));
    for comparison in found.metrics[at].comparisons.iter().flatten() {
        said.extend(disagreement(whole, comparison));
        said.extend(dependence(whole, comparison));
    }
    said
}

/// Lists the builds with measured runs that lack the headline.
fn missing_values(whole: &Experiment, workload: usize, metric: &str) -> Vec<String> {
    let counts = samples::coverage(whole, workload, metric);
    let lacking = counts.iter().enumerate().filter(|(_, (read, all))| *read > 0 && read < all);
    lacking
        .map(|(variant, (read, all))| {
            format!("{read} of {all} runs of {} have {metric}", whole.variants[variant].name)
        })
        .collect()
}

fn instability(found: &WorkloadAnalysis) -> Vec<String> {
    let mut said = Vec::new();
    let Some(steady) = &found.stability else { return said };
    let scale = found.headline.map(|at| found.metrics[at].scale);
    if scale != Some(EffectScale::Logarithm) {
        return said;
    }
    if steady.drift_p < NOTABLE {
        said.push(format!(
            "the machine drifted by {:+.2} % from the first run to the last (p = {}); comparisons within blocks are not affected",
            percent(steady.drift_per_hour * steady.hours),
            short_p(steady.drift_p)
        ));
    }
    if steady.slot_p < NOTABLE {
        said.push(format!(
            "the position within a block changes values by up to {:.2} % (p = {}); the order is random in each block",
            percent(steady.slot_effect),
            short_p(steady.slot_p)
        ));
    }
    said
}

/// Cases in which the t test and the signed-rank test disagree about the level.
fn disagreement(whole: &Experiment, comparison: &Comparison) -> Option<String> {
    let level = 1.0 - whole.confidence;
    let (t, ranks) = (comparison.these_links.or(comparison.effect)?, comparison.signed_rank?);
    let able = comparison.differences.len() >= power::pairs_needed(level);
    ((t.p < level) != (ranks.p < level) && able && whole.variants[comparison.variant].probe.is_none()).then(
        || {
            format!(
                "{}: the t test (p = {}) and the signed-rank test (p = {}) do not agree",
                whole.variants[comparison.variant].name,
                short_p(t.p),
                short_p(ranks.p)
            )
        },
    )
}

/// Returns the autocorrelation of the differences of neighbouring blocks, if it exceeds the value that one random
/// series in a hundred has.
fn dependence(whole: &Experiment, comparison: &Comparison) -> Option<String> {
    const ONE_IN_A_HUNDRED: f64 = 2.576;
    let differences: Vec<f64> = comparison.differences.iter().map(|(_, difference)| *difference).collect();
    let correlation = drift::neighbours(&differences)?;
    let bound = ONE_IN_A_HUNDRED / (differences.len() as f64).sqrt();
    (correlation.abs() > bound && whole.variants[comparison.variant].probe.is_none()).then(|| {
        format!(
            "{}: differences of neighbouring blocks are correlated ({correlation:+.2}, by chance up to {bound:.2}): the \
             interval may be too narrow or too wide",
            whole.variants[comparison.variant].name
        )
    })
}

/// The recommendation.
pub(super) fn recommendation(whole: &Experiment, found: &WorkloadAnalysis) -> String {
    let Some(at) = found.headline else {
        return format!("No recommendation: {} is missing.", whole.primary);
    };
    let metric = &whole.metrics[at];
    if found.verdicts.is_empty() {
        if let Some(why) = found.unjudged.iter().flatten().next() {
            return format!("Not judged: {why}.");
        }
        return match &found.layout_noise {
            Some(noise) => layout_noise(noise, &metric.name, whole.confidence),
            None => format!("No answer: every link needs values of {} in two blocks.", metric.name),
        };
    }
    let baseline = &whole.variants[whole.baseline].name;
    let name = |variant: usize| whole.variants[variant].name.as_str();
    let gain = |variant: usize| {
        let estimate = found.headline_comparison(variant).map_or(0.0, |comparison| comparison.estimate);
        if metric.direction == Direction::LowerIsBetter { -estimate } else { estimate }
    };
    let mut with: Vec<(usize, Verdict)> = found.verdicts.iter().map(|j| (j.variant, j.verdict)).collect();
    with.sort_by(|a, b| gain(b.0).total_cmp(&gain(a.0)).then(a.0.cmp(&b.0)));
    let simulated = if metric.kind == MetricKind::Simulated { " (simulated)" } else { "" };
    let mut said = Vec::new();
    if let Some((best, verdict)) = with.iter().find(|(_, verdict)| *verdict == Verdict::Faster) {
        let judged = JudgedEffect::of(whole, found, *best);
        said.push(match judged.map(|judged| judged.saving(whole.confidence)) {
            Some(saving) => format!("Keep {}: it {saving} against {baseline}.", name(*best)),
            None => {
                let estimate = found.headline_comparison(*best).map_or(0.0, |comparison| comparison.estimate);
                let faster = in_words(estimate, *verdict);
                format!("Keep {}: {faster} than {baseline} by {}{simulated}.", name(*best), metric.name)
            }
        });
        said.extend(beside_the_best(whole, found, *best, &with));
    } else if !with.is_empty() && with.iter().all(|(_, verdict)| *verdict == Verdict::Slower) {
        said.push(format!("Keep {baseline}: every other build is slower by {}{simulated}.", metric.name));
    } else {
        said.push(format!("Keep {baseline}: no build is shown to be faster by {}{simulated}.", metric.name));
    }
    said.extend(about_the_others(whole, found, &metric.name, &with));
    said.join(" ")
}

/// Sentences about builds that are not faster.
fn about_the_others(
    whole: &Experiment,
    found: &WorkloadAnalysis,
    metric: &str,
    with: &[(usize, Verdict)],
) -> Vec<String> {
    let name = |variant: usize| whole.variants[variant].name.as_str();
    let mut said = Vec::new();
    let of = |wanted: Verdict| with.iter().filter(move |(_, verdict)| *verdict == wanted).map(|(v, _)| *v);
    let list = |wanted: Verdict| of(wanted).map(name).collect::<Vec<_>>().join(", ");
    let (slower, equivalent) = (list(Verdict::Slower), list(Verdict::Equivalent));
    if saved_thing(metric).is_some() {
        said.extend(of(Verdict::Slower).filter_map(|variant| {
            Some(format!(
                "{} {}.",
                name(variant),
                JudgedEffect::of(whole, found, variant)?.saving(whole.confidence)
            ))
        }));
        let nothing = |variant| {
            Some(format!(
                "{}: {}.",
                name(variant),
                judge::nothing_in_words(JudgedEffect::of(whole, found, variant)?.saved())
            ))
        };
        said.extend(of(Verdict::Equivalent).filter_map(nothing));
    } else {
        if !slower.is_empty() {
            said.push(format!("Slower: {slower}."));
        }
        if !equivalent.is_empty() {
            said.push(format!("No difference beyond {:.1} %: {equivalent}.", whole.margin * 100.0));
        }
    }
    for variant in of(Verdict::Inconclusive) {
        if let Some(why) = &found.unjudged[variant] {
            said.push(format!("Not judged: {}: {why}.", name(variant)));
            continue;
        }
        let more =
            found.headline_comparison(variant).and_then(|comparison| more_runs(whole, found, comparison));
        let refused = found.verdicts.iter().find(|j| j.variant == variant).and_then(|j| j.needed);
        let sentence =
            JudgedEffect::of(whole, found, variant).filter(|_| refused.is_none()).and_then(|judged| {
                let seen = judged.unknown(whole, found.verdicts.len(), more.as_deref())?;
                Some(format!("{}: {seen}.", name(variant)))
            });
        said.push(sentence.unwrap_or_else(|| {
            let needed = refused.map(|needed| format!("; at least {needed} are needed")).unwrap_or_default();
            let more = more.map(|more| format!("; {more}")).unwrap_or_default();
            format!("Cannot tell: {}{needed}{more}.", name(variant))
        }));
    }
    said
}

/// Effect of a build on a metric that `sediment_measure::judge` also handles, for sentences about it.
struct JudgedEffect {
    effect: Effect,
    thing: &'static str,
}

impl JudgedEffect {
    /// The saving of a build on the headline; `None` for other metrics.
    fn of(whole: &Experiment, found: &WorkloadAnalysis, variant: usize) -> Option<Self> {
        let thing = saved_thing(&whole.metrics[found.headline?].name)?;
        Some(Self { effect: found.headline_comparison(variant)?.effect?, thing })
    }

    fn saved(&self) -> Interval {
        judge::saved(self.effect.interval)
    }

    fn saving(&self, confidence: f64) -> String {
        judge::saving_in_words(self.saved(), confidence, self.thing)
    }

    /// Sentence with the smallest change that runs of this many builds could have shown; `None` if runs never vary.
    fn unknown(&self, whole: &Experiment, builds: usize, more: Option<&str>) -> Option<String> {
        let level = (1.0 - whole.confidence) / builds.max(1) as f64;
        let Effect { standard_error, freedom, .. } = self.effect;
        let last = whole.observations.iter().map(|run| run.at).fold(0.0, f64::max);
        let took = Duration::try_from_secs_f64(last).ok()?;
        let detectable = judge::detectable(standard_error, freedom, level);
        (standard_error > 0.0 && freedom > 0.0 && detectable.is_finite())
            .then(|| judge::unknown_in_words(detectable, took, more))
    }
}

/// Returns the name for sentences of the resource that a build saves, for metrics that the judge also handles; per unit
/// of work or not.
fn saved_thing(metric: &str) -> Option<&'static str> {
    match metric.split(" per ").next()? {
        "cpu-time" => Some("CPU time"),
        "cycles" => Some("cycles"),
        _ => None,
    }
}

/// A sentence on the difference between links of one build.
fn layout_noise(noise: &LayoutNoise, metric: &str, confidence: f64) -> String {
    let LayoutNoise { floor, layouts, blocks } = noise;
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let confidence = format!("{:.0} %", confidence * 100.0);
    let rest = format!("({layouts} layouts in {blocks} blocks)");
    if floor.lower > 0.0 {
        format!(
            "Two links of the same code differ by up to {} % in {metric}, in {confidence} of all pairs; {confidence} interval {} to {} % {rest}.",
            percent(floor.estimate),
            percent(floor.lower),
            percent(floor.upper)
        )
    } else {
        format!(
            "No difference between layouts is shown in {metric}: two links of the same code differ by less than {} %, in {confidence} of all pairs {rest}.",
            percent(floor.upper)
        )
    }
}

/// A sentence that says if the runner-up differs from the best.
fn beside_the_best(
    whole: &Experiment,
    found: &WorkloadAnalysis,
    best: usize,
    with: &[(usize, Verdict)],
) -> Option<String> {
    let level = 1.0 - whole.confidence;
    let tied: Vec<String> = with
        .iter()
        .filter(|(variant, verdict)| *variant != best && *verdict == Verdict::Faster)
        .filter_map(|(variant, _)| {
            let pair = found.pairs.iter().find(|pair| {
                (pair.variant, pair.against) == (*variant, best)
                    || (pair.variant, pair.against) == (best, *variant)
            })?;
            let p = pair.adjusted_p?;
            (p >= level).then(|| format!("{} (p = {})", whole.variants[*variant].name, short_p(p)))
        })
        .collect();
    (!tied.is_empty()).then(|| format!("It is not shown to be faster than {}.", tied.join(", ")))
}

/// Number of runs with which the interval would have the wanted half-width.
fn more_runs(whole: &Experiment, found: &WorkloadAnalysis, comparison: &Comparison) -> Option<String> {
    let wanted = whole.precision;
    let effect = comparison.effect?;
    if comparison.scale != EffectScale::Logarithm || effect.interval.half_width() <= wanted {
        return None;
    }
    let goal = format!("would give an interval of ±{} %", in_per_cent(wanted));
    let runs_of_each = |one: f64, other: f64| {
        let deviation = effect.standard_error / (1.0 / one + 1.0 / other).sqrt();
        power::count_for_half_width(deviation * 2.0_f64.sqrt(), wanted, whole.confidence)
            .map(|count| format!("about {count} runs of each {goal}"))
    };
    match comparison.design {
        Design::Paired { .. } | Design::Replicated { .. } => {
            let needed = needed(found.components.as_ref(), comparison, wanted, whole.confidence)?;
            match (needed.blocks.in_words(), needed.links) {
                (Some(blocks), None) => Some(format!("{blocks} blocks {goal}")),
                (Some(blocks), Some(links)) => {
                    Some(format!("{blocks} blocks, or about {links} layout replicas of each, {goal}"))
                }
                (None, Some(links)) => Some(format!("about {links} layout replicas of each {goal}")),
                (None, None) => None,
            }
        }
        Design::Unpaired { runs: (one, other) } => runs_of_each(one as f64, other as f64),
        Design::Summarised { runs: (one, other) } => runs_of_each(one as f64, other as f64),
    }
}

/// A change in per cent for sentences, with the direction in words.
fn in_words(log_ratio: f64, verdict: Verdict) -> String {
    format!("{:.1} % {}", percent(log_ratio).abs(), verdict.word())
}
