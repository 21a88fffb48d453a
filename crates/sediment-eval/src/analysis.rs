// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes an [`Analysis`] of an [`Experiment`]: describes every metric of every build, compares it with the baseline,
//! gives a verdict on the headline, and collects warnings for the reader.

use super::comparison::{Comparison, EffectScale, Manner, common_blocks, compare, links, scale};
use super::data::{Experiment, Metric, MetricKind, Probe};
use super::derive::{derive, explains_only, per_work};
use super::factors::factor_effects;
use super::findings::{Analysis, LayoutNoise, MetricAnalysis, WorkloadAnalysis};
use super::samples::{self, MetricValues};
use super::statistics::components::components;
use super::statistics::drift::{Stability, TimedValue, stability};
use super::statistics::layout_noise::layout_noise;
use super::statistics::{Interval, multiplicity};
use super::unjudged;
use super::verdict::{BuildVerdict, NoiseFloor, VerdictRule, decide};
use sediment_core::error::{Error, ErrorCode, Result};

/// Analyses an experiment.
///
/// # Errors
/// If there are fewer than two builds and fewer than three links; if the primary metric is neither read, derived nor
/// listed as absent; if an index is out of range, a value is not finite, or a block has two runs of one link.
pub fn analyse(experiment: &Experiment) -> Result<Analysis> {
    samples::check(experiment)?;
    let whole = derive(experiment);
    check_primary(&whole)?;
    let mut analysis = Analysis {
        variants: whole.variants.clone(),
        baseline: whole.baseline,
        metrics: whole.metrics.clone(),
        margin: whole.margin,
        confidence: whole.confidence,
        workloads: Vec::new(),
        warnings: Vec::new(),
    };
    for workload in 0..whole.workloads.len() {
        analysis.workloads.push(analyse_workload(&whole, workload));
    }
    let builds = whole.variants.iter().filter(|variant| variant.probe.is_none());
    if builds.map(|variant| variant.replicas).max().unwrap_or(1) <= 1 {
        analysis.warnings.push("single layout: the difference may be layout luck".to_owned());
    }
    if explains_only(&whole.primary) {
        analysis.warnings.push(format!(
            "{} cannot decide a comparison: it also improves when a build does more for the same work",
            whole.primary
        ));
    }
    Ok(analysis)
}

fn check_primary(whole: &Experiment) -> Result<()> {
    let known = whole.metrics.iter().any(|metric| metric.name == whole.primary);
    if known || whole.absent.contains_key(&whole.primary) {
        return Ok(());
    }
    let names: Vec<&str> = whole.metrics.iter().map(|metric| metric.name.as_str()).collect();
    Err(Error::new(ErrorCode::Usage, format!("the primary metric {} is missing", whole.primary))
        .with_hint(format!("available: {}", names.join(", "))))
}

/// The metric that decides in this workload.
fn headline(whole: &Experiment, workload: usize) -> Option<usize> {
    let read = |name: &str| {
        let at = whole.metrics.iter().position(|metric| metric.name == name)?;
        let groups = samples::groups(whole, workload, name);
        groups.iter().any(|group| *group != MetricValues::Nothing).then_some(at)
    };
    let normalised =
        whole.workloads[workload].work.as_ref().and_then(|work| read(&per_work(&whole.primary, work)));
    normalised.or_else(|| read(&whole.primary))
}

fn analyse_workload(whole: &Experiment, workload: usize) -> WorkloadAnalysis {
    let headline = headline(whole, workload);
    let mut metrics: Vec<MetricAnalysis> = whole
        .metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| analyse_metric(whole, workload, metric, headline == Some(at)))
        .collect();
    adjust(whole, &mut metrics, headline);
    let mut found = WorkloadAnalysis {
        name: whole.workloads[workload].name.clone(),
        headline,
        metrics,
        unjudged: vec![None; whole.variants.len()],
        verdicts: Vec::new(),
        noise_floor: None,
        components: None,
        layout_noise: None,
        stability: None,
        pairs: Vec::new(),
        factors: None,
        warnings: Vec::new(),
        recommendation: String::new(),
    };
    if let Some(at) = headline {
        let groups = samples::groups(whole, workload, &whole.metrics[at].name);
        let scale = found.metrics[at].scale;
        found.noise_floor = noise_floor(whole, &found.metrics[at]);
        let rows = rows(whole, scale, &groups);
        found.components = rows.as_deref().and_then(components);
        let logarithms = rows.as_deref().filter(|_| scale == EffectScale::Logarithm);
        found.unjudged = unjudged::reasons(whole, workload, &whole.metrics[at], logarithms);
        found.layout_noise = rows.zip(found.components).and_then(|(rows, split)| {
            let links: Vec<&Vec<f64>> = rows.iter().flatten().collect();
            let (layouts, blocks) = (links.len(), links.first()?.len());
            let floor = layout_noise(&split, blocks, whole.confidence);
            let is_judged = found.unjudged.iter().all(Option::is_none);
            (scale == EffectScale::Logarithm && is_judged).then_some(LayoutNoise { floor, layouts, blocks })
        });
        found.stability = steady(scale, &groups);
        found.pairs = pairs(whole, scale, &groups);
        found.factors = factor_effects(whole, scale, &groups);
    }
    found.verdicts = verdicts(whole, workload, &found);
    found.warnings = super::advice::warnings(whole, workload, &found);
    found.recommendation = super::advice::recommendation(whole, &found);
    found
}

fn analyse_metric(whole: &Experiment, workload: usize, metric: &Metric, is_headline: bool) -> MetricAnalysis {
    let groups = samples::groups(whole, workload, &metric.name);
    let scale = scale(&groups);
    let base = &groups[whole.baseline];
    let comparisons = whole
        .variants
        .iter()
        .enumerate()
        .map(|(variant, build)| {
            if variant == whole.baseline {
                return None;
            }
            // A probe has a single link, which is compared with the baseline's first link.
            let only_link = build.probe.map(|_| 0);
            let manner = Manner { experiment: whole, scale, only_link, bootstrap: is_headline };
            compare(manner, variant, &groups[variant], whole.baseline, base)
        })
        .collect();
    MetricAnalysis { scale, groups: groups.iter().map(MetricValues::description).collect(), comparisons }
}

/// Adjusts p-values: Holm over the builds for the headline; Benjamini and Hochberg over builds and all other metrics,
/// separately for measured and simulated ones.
fn adjust(whole: &Experiment, metrics: &mut [MetricAnalysis], headline: Option<usize>) {
    let is_build = |variant: usize| whole.variants[variant].probe.is_none();
    let simulated = |at: usize| whole.metrics[at].kind == MetricKind::Simulated;
    let mut families: [Vec<(usize, usize)>; 3] = Default::default();
    for (at, metric) in metrics.iter().enumerate() {
        for (variant, comparison) in metric.comparisons.iter().enumerate() {
            let tested = comparison.as_ref().is_some_and(|found| found.effect.is_some());
            if tested && is_build(variant) {
                let family = if headline == Some(at) { 0 } else { 1 + usize::from(simulated(at)) };
                families[family].push((at, variant));
            }
        }
    }
    for (number, family) in families.iter().enumerate() {
        let p: Vec<f64> = family
            .iter()
            .filter_map(|(at, variant)| metrics[*at].comparisons[*variant].as_ref().and_then(Comparison::p))
            .collect();
        let adjusted =
            if number == 0 { multiplicity::holm(&p) } else { multiplicity::benjamini_hochberg(&p) };
        for ((at, variant), p) in family.iter().zip(adjusted) {
            if let Some(comparison) = &mut metrics[*at].comparisons[*variant] {
                comparison.adjusted_p = Some(p);
            }
        }
    }
}

fn noise_floor(whole: &Experiment, headline: &MetricAnalysis) -> Option<NoiseFloor> {
    if headline.scale != EffectScale::Logarithm {
        return None;
    }
    let probes: Vec<(usize, Interval)> = headline
        .comparisons
        .iter()
        .flatten()
        .filter(|comparison| whole.variants[comparison.variant].probe.is_some())
        .filter_map(|comparison| Some((comparison.variant, comparison.effect?.interval)))
        .collect();
    let size = probes.iter().map(|(_, interval)| interval.estimate.abs()).reduce(f64::max)?;
    Some(NoiseFloor { size, probes })
}

fn verdicts(whole: &Experiment, workload: usize, found: &WorkloadAnalysis) -> Vec<BuildVerdict> {
    let decided: Vec<usize> = (0..whole.variants.len())
        .filter(|variant| *variant != whole.baseline && whole.variants[*variant].probe.is_none())
        .collect();
    let with_p: Vec<(usize, f64)> = decided
        .iter()
        .filter_map(|variant| Some((*variant, found.headline_comparison(*variant)?.equivalence_p?)))
        .collect();
    let equivalent = multiplicity::holm(&with_p.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    let gaps = gaps(whole, workload, found);
    decided
        .iter()
        .map(|variant| {
            let rule = VerdictRule {
                direction: found
                    .headline
                    .map_or(super::Direction::LowerIsBetter, |at| whole.metrics[at].direction),
                margin: whole.margin,
                confidence: whole.confidence,
                noise_floor: found.noise_floor.as_ref(),
                family: decided.len(),
                simulated: found.headline.is_some_and(|at| whole.metrics[at].kind == MetricKind::Simulated),
                unjudged: found.unjudged[*variant].as_deref(),
                gaps: gaps[*variant].as_deref().or(gaps[whole.baseline].as_deref()),
            };
            let place = with_p.iter().position(|(other, _)| other == variant);
            let mut build = decide(rule, found.headline_comparison(*variant), place.map(|at| equivalent[at]));
            if found.headline.is_none() {
                build.reason = match whole.absent.get(&whole.primary) {
                    Some(why) => format!("{} could not be read: {why}", whole.primary),
                    None => format!("{} is missing in this workload", whole.primary),
                };
            }
            BuildVerdict { variant: *variant, ..build }
        })
        .collect()
}

/// By build, the message if more than a tenth of its runs lack the headline.
fn gaps(whole: &Experiment, workload: usize, found: &WorkloadAnalysis) -> Vec<Option<String>> {
    let Some(metric) = found.headline.map(|at| &whole.metrics[at].name) else {
        return vec![None; whole.variants.len()];
    };
    let counts = samples::coverage(whole, workload, metric);
    let each = counts.iter().zip(&whole.variants).map(|((read, all), build)| {
        ((all - read) * 10 > *all).then(|| format!("{read} of {all} runs of {} have {metric}", build.name))
    });
    each.collect()
}

/// Compares all pairs of builds, without the pairs that include the baseline.
fn pairs(whole: &Experiment, scale: EffectScale, groups: &[MetricValues]) -> Vec<Comparison> {
    let builds: Vec<usize> = (0..groups.len())
        .filter(|variant| *variant != whole.baseline && whole.variants[*variant].probe.is_none())
        .collect();
    let manner = Manner { experiment: whole, scale, only_link: None, bootstrap: false };
    let mut found = Vec::new();
    for (place, against) in builds.iter().enumerate() {
        for variant in &builds[place + 1..] {
            found.extend(compare(manner, *variant, &groups[*variant], *against, &groups[*against]));
        }
    }
    let tested: Vec<usize> = (0..found.len()).filter(|at| found[*at].effect.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|at| found[*at].p()).collect();
    for (at, adjusted) in tested.into_iter().zip(multiplicity::holm(&p)) {
        found[at].adjusted_p = Some(adjusted);
    }
    found
}

/// Returns values by build, link and block, over the blocks that all links have.
fn rows(whole: &Experiment, scale: EffectScale, groups: &[MetricValues]) -> Option<Vec<Vec<Vec<f64>>>> {
    let mut builds = Vec::new();
    for (group, variant) in groups.iter().zip(&whole.variants) {
        // Both probes are skipped. (The relinked probe is one more link of the baseline, but not one of its replicas.)
        if let (MetricValues::Samples(samples), None) = (group, variant.probe) {
            builds.push(links(scale, samples)?);
        }
    }
    let blocks = common_blocks(builds.iter().flat_map(|links| links.values()))?;
    let row = |link: &std::collections::BTreeMap<u32, f64>| blocks.iter().map(|block| link[block]).collect();
    Some(builds.iter().map(|links| links.values().map(row).collect()).collect())
}

fn steady(scale: EffectScale, groups: &[MetricValues]) -> Option<Stability> {
    let mut links = std::collections::BTreeMap::new();
    let mut runs: Vec<TimedValue> = Vec::new();
    for (variant, group) in groups.iter().enumerate() {
        let MetricValues::Samples(samples) = group else { continue };
        for sample in samples {
            sample.block?;
            let next = links.len();
            let link = *links.entry((variant, sample.replica)).or_insert(next);
            runs.push(TimedValue { link, slot: sample.slot, at: sample.at, value: scale.of(sample.value) });
        }
    }
    runs.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.slot.cmp(&b.slot)).then(a.link.cmp(&b.link)));
    stability(&runs)
}

/// Name of a probe in sentences.
#[must_use]
pub(crate) fn probe_name(probe: Probe) -> &'static str {
    match probe {
        Probe::SameFile => "A/A, the same file again",
        Probe::Relinked => "A/A′, the baseline linked again",
    }
}
