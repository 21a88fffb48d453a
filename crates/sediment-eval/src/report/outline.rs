// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of an experiment's report, in order: verdicts first, then their evidence. Measured and simulated metrics never
//! share a table.

use super::document::{ReportPart, ReportTable};
use super::figures::{NONE, difference, interval, interval_of, or_none, p_value, value};
use crate::analysis::probe_name;
use crate::comparison::{Comparison, Design, EffectScale, percent};
use crate::findings::WorkloadAnalysis;
use crate::gate::{Gate, gate_reasons};
use crate::statistics::Effect;
use crate::verdict::Verdict;
use crate::{Analysis, Experiment, MetricKind};
use sediment_core::plural::counted;

pub(super) fn outline(experiment: &Experiment, analysis: &Analysis) -> Vec<ReportPart> {
    let builds: Vec<&str> =
        analysis.variants.iter().filter(|v| v.probe.is_none()).map(|v| v.name.as_str()).collect();
    let mut parts = vec![ReportPart::Heading(1, format!("Comparison of {}", builds.join(", ")))];
    if !analysis.warnings.is_empty() {
        parts.push(ReportPart::List(
            analysis.warnings.iter().map(|warning| format!("Warning: {warning}.")).collect(),
        ));
    }
    for (index, workload) in analysis.workloads.iter().enumerate() {
        parts.extend(one_workload(analysis, index, workload));
    }
    let (answer, reasons) = gate_reasons(analysis);
    let word = match answer {
        Gate::Pass => "pass",
        Gate::Regression => "regression",
        Gate::Inconclusive => "inconclusive",
    };
    parts.push(ReportPart::Heading(2, "Gate".to_owned()));
    parts.push(ReportPart::Paragraph(format!("{word}.")));
    if !reasons.is_empty() {
        parts.push(ReportPart::List(reasons));
    }
    if !experiment.absent.is_empty() {
        parts.push(ReportPart::Heading(2, "Not measured".to_owned()));
        let mut table = ReportTable::new(&["metric", "why"]);
        for (metric, why) in &experiment.absent {
            table.row([metric.clone(), why.clone()]);
        }
        parts.push(ReportPart::Table(table));
    }
    parts.push(ReportPart::Heading(2, "Made with".to_owned()));
    let mut table = ReportTable::new(&["fact", "value"]);
    for (name, value) in &experiment.facts {
        table.row([name.clone(), value.clone()]);
    }
    table.row(["seed".to_owned(), experiment.seed.to_string()]);
    table.row(["margin".to_owned(), format!("{} %", analysis.margin * 100.0)]);
    table.row(["confidence".to_owned(), format!("{} %", analysis.confidence * 100.0)]);
    parts.push(ReportPart::Table(table));
    parts
}

/// Number of warnings in the short report; the long one has all.
const WARNINGS: usize = 2;

/// The verdicts, without their evidence.
pub(super) fn brief(experiment: &Experiment, analysis: &Analysis) -> Vec<ReportPart> {
    let mut parts = Vec::new();
    let several = analysis.workloads.len() > 1;
    let mut warnings: Vec<&String> = analysis.warnings.iter().collect();
    for workload in &analysis.workloads {
        if several {
            parts.push(ReportPart::Heading(2, format!("Workload {}", workload.name)));
        }
        parts.push(ReportPart::Paragraph(workload.recommendation.clone()));
        let links = components(workload).filter(|_| workload.verdicts.is_empty());
        parts.push(ReportPart::Table(links.unwrap_or_else(|| short_verdicts(analysis, workload))));
        for build in workload.verdicts.iter().filter(|build| is_reversed(analysis, workload, build.variant)) {
            parts.push(ReportPart::Paragraph(format!(
                "{}: this is the change in a typical block; the means show the opposite, because of a few slow runs.",
                analysis.variants[build.variant].name
            )));
        }
        let open = workload.verdicts.iter().filter(|build| build.verdict == Verdict::Inconclusive);
        parts.extend(open.map(|build| ReportPart::Paragraph(reason(analysis, build))));
        warnings.extend(&workload.warnings);
    }
    parts.extend(
        warnings.iter().take(WARNINGS).map(|warning| ReportPart::Paragraph(format!("Warning: {warning}."))),
    );
    let mut more = Vec::new();
    if warnings.len() > WARNINGS {
        more.push(counted(warnings.len() - WARNINGS, "more warning"));
    }
    if !experiment.absent.is_empty() {
        more.push(format!("{} not measured", counted(experiment.absent.len(), "metric")));
    }
    more.push("tables, tests and all metrics: --verbose".to_owned());
    parts.push(ReportPart::Paragraph(format!("({})", more.join("; "))));
    parts
}

/// True if the means of a build and the baseline differ in the opposite direction of the change.
fn is_reversed(analysis: &Analysis, workload: &WorkloadAnalysis, variant: usize) -> bool {
    let group = |variant: usize| workload.metrics.get(workload.headline?)?.groups[variant];
    let means = group(analysis.baseline).zip(group(variant));
    let change = workload.headline_comparison(variant).map(|found| found.estimate);
    means
        .zip(change)
        .is_some_and(|((before, after), change)| (after.moments.mean - before.moments.mean) * change < 0.0)
}

/// Each build's verdict, mean and change.
fn short_verdicts(analysis: &Analysis, workload: &WorkloadAnalysis) -> ReportTable {
    let mut table = verdicts(analysis, workload);
    // Position of the adjusted p, which is left out.
    const P: usize = 5;
    table.columns.remove(P);
    table.rows.iter_mut().for_each(|row| drop(row.remove(P)));
    table
}

fn one_workload(analysis: &Analysis, index: usize, workload: &WorkloadAnalysis) -> Vec<ReportPart> {
    let mut parts = vec![ReportPart::Heading(2, format!("Workload {}", workload.name))];
    parts.push(ReportPart::Paragraph(workload.recommendation.clone()));
    parts.push(ReportPart::Table(verdicts(analysis, workload)));
    parts.push(ReportPart::Plots(index));
    parts.push(ReportPart::List(workload.verdicts.iter().map(|j| reason(analysis, j)).collect()));
    if !workload.warnings.is_empty() {
        parts.push(ReportPart::List(
            workload.warnings.iter().map(|warning| format!("Warning: {warning}.")).collect(),
        ));
    }
    let mut titled = |title: &str, table: Option<ReportTable>| {
        if let Some(table) = table.filter(|table| !table.rows.is_empty()) {
            parts.push(ReportPart::Heading(3, title.to_owned()));
            parts.push(ReportPart::Table(table));
        }
    };
    titled("Noise floor: builds of the same code", noise_floor(analysis, workload));
    titled("Variance: between links, and between runs", components(workload));
    titled("Factors", factors(workload));
    titled("Builds compared", pairs(analysis, workload));
    if let Some(Err(why)) = &workload.factors {
        parts.push(ReportPart::Heading(3, "Factors".to_owned()));
        parts.push(ReportPart::Paragraph(format!("Not analysed: {why}.")));
    }
    let mut titled = |title: &str, table: ReportTable| {
        if !table.rows.is_empty() {
            parts.push(ReportPart::Heading(3, title.to_owned()));
            parts.push(ReportPart::Table(table));
        }
    };
    titled("Spread", spread(analysis, workload));
    titled("Tests of the headline", tests(analysis, workload));
    for (variant, build) in analysis.variants.iter().enumerate() {
        // For a probe the noise floor is enough; the machine-readable files have the rest.
        if variant == analysis.baseline || build.probe.is_some() {
            continue;
        }
        let who = format!("{} against {}", build.name, analysis.variants[analysis.baseline].name);
        titled(&format!("Measured: {who}"), metrics(analysis, workload, variant, false));
        titled(&format!("Simulated: {who}"), metrics(analysis, workload, variant, true));
    }
    parts
}

fn headline_name(analysis: &Analysis, workload: &WorkloadAnalysis) -> String {
    workload.headline.map_or_else(
        || "headline".to_owned(),
        |at| {
            let metric = &analysis.metrics[at];
            let kind = if metric.kind == MetricKind::Simulated { ", simulated" } else { "" };
            format!("{} ({}{kind})", metric.name, metric.unit)
        },
    )
}

fn verdicts(analysis: &Analysis, workload: &WorkloadAnalysis) -> ReportTable {
    let headline = headline_name(analysis, workload);
    let confidence = format!("#{:.0} % interval", analysis.confidence * 100.0);
    let mut table = ReportTable::new(&[
        "build",
        "verdict",
        &format!("#{headline}"),
        "#change",
        &confidence,
        "#adjusted p",
        "runs",
    ]);
    let group = |variant: usize| workload.metrics.get(workload.headline?)?.groups[variant];
    let mean = |variant: usize| or_none(group(variant).map(|group| value(group.moments.mean)));
    let baseline = analysis.baseline;
    table.row([
        analysis.variants[baseline].name.clone(),
        "baseline".to_owned(),
        mean(baseline),
        NONE.to_owned(),
        NONE.to_owned(),
        NONE.to_owned(),
        group(baseline).map_or_else(String::new, |group| format!("{}", group.moments.count)),
    ]);
    for build in &workload.verdicts {
        let comparison = workload.headline_comparison(build.variant);
        table.row([
            analysis.variants[build.variant].name.clone(),
            build.verdict.word().to_owned(),
            mean(build.variant),
            or_none(comparison.map(|found| difference(found.scale, found.estimate))),
            or_none(comparison.map(interval_of)),
            p_value(comparison.and_then(|found| found.adjusted_p)),
            or_none(comparison.map(design)),
        ]);
    }
    table
}

/// Design and size of the data behind a comparison.
pub(super) fn design(comparison: &Comparison) -> String {
    match comparison.design {
        Design::Paired { blocks } => format!("{blocks} blocks"),
        Design::Replicated { blocks, links: (one, other) } => {
            format!("{blocks} blocks, {one} and {other} links")
        }
        Design::Unpaired { runs: (one, other) } => format!("{one} and {other} runs, unpaired"),
        Design::Summarised { runs: (one, other) } => format!("{one} and {other} runs, summaries"),
    }
}

fn reason(analysis: &Analysis, build: &crate::verdict::BuildVerdict) -> String {
    format!("{}: {}, as {}.", analysis.variants[build.variant].name, build.verdict.word(), build.reason)
}

fn noise_floor(analysis: &Analysis, workload: &WorkloadAnalysis) -> Option<ReportTable> {
    let floor = workload.noise_floor.as_ref()?;
    let mut table = ReportTable::new(&["pair", "what", "#change", "#interval"]);
    for (variant, found) in &floor.probes {
        let build = &analysis.variants[*variant];
        table.row([
            build.name.clone(),
            build.probe.map(probe_name).unwrap_or_default().to_owned(),
            difference(EffectScale::Logarithm, found.estimate),
            interval(EffectScale::Logarithm, found),
        ]);
    }
    Some(table)
}

fn components(workload: &WorkloadAnalysis) -> Option<ReportTable> {
    let split = workload.components.as_ref()?;
    let logarithms = workload.headline.is_some_and(|at| workload.metrics[at].scale == EffectScale::Logarithm);
    let size =
        |deviation: f64| if logarithms { format!("{:.2} %", deviation * 100.0) } else { value(deviation) };
    let mut table = ReportTable::new(&["between", "#deviation", "#degrees of freedom", "#p"]);
    table.row([
        "links of one build".to_owned(),
        size(split.between_links),
        format!("{}", split.link_freedom),
        p_value(Some(split.p)),
    ]);
    table.row([
        "runs of one link".to_owned(),
        size(split.within_links),
        format!("{}", split.run_freedom),
        NONE.to_owned(),
    ]);
    Some(table)
}

fn factors(workload: &WorkloadAnalysis) -> Option<ReportTable> {
    let effects = workload.factors.as_ref()?.as_ref().ok()?;
    let mut table = ReportTable::new(&["effect", "kind", "#change", "#interval", "#p"]);
    for found in effects {
        table.row([
            found.name.clone(),
            if found.interaction {
                "interaction: both changes, relative to the product of each alone"
            } else {
                "main effect"
            }
            .to_owned(),
            difference(EffectScale::Logarithm, found.effect.interval.estimate),
            interval(EffectScale::Logarithm, &found.effect.interval),
            p_value(Some(found.effect.p)),
        ]);
    }
    Some(table)
}

fn pairs(analysis: &Analysis, workload: &WorkloadAnalysis) -> Option<ReportTable> {
    let mut table = ReportTable::new(&["build", "against", "#change", "#interval", "#p", "#adjusted p"]);
    for pair in &workload.pairs {
        table.row([
            analysis.variants[pair.variant].name.clone(),
            analysis.variants[pair.against].name.clone(),
            difference(pair.scale, pair.estimate),
            interval_of(pair),
            p_value(pair.p()),
            p_value(pair.adjusted_p),
        ]);
    }
    Some(table)
}

fn spread(analysis: &Analysis, workload: &WorkloadAnalysis) -> ReportTable {
    let mut table = ReportTable::new(&[
        "build",
        "#runs",
        "#deviation",
        "#CV",
        "#least",
        "#median",
        "#greatest",
        "#far",
        "#p of equal CV",
    ]);
    let Some(at) = workload.headline else { return table };
    for (variant, group) in workload.metrics[at].groups.iter().enumerate() {
        let Some(group) = group else { continue };
        let order = |pick: fn(&crate::statistics::moments::OrderStatistics) -> f64| {
            or_none(group.order.as_ref().map(|order| value(pick(order))))
        };
        let moments = &group.moments;
        table.row([
            analysis.variants[variant].name.clone(),
            format!("{}", moments.count),
            or_none(moments.deviation().map(value)),
            or_none(moments.coefficient_of_variation().map(|cv| format!("{:.2} %", cv * 100.0))),
            order(|order| order.minimum),
            order(|order| order.median),
            order(|order| order.maximum),
            or_none(group.order.map(|order| order.far.to_string())),
            p_value(workload.headline_comparison(variant).and_then(|found| found.spread).map(|test| test.p)),
        ]);
    }
    table
}

fn tests(analysis: &Analysis, workload: &WorkloadAnalysis) -> ReportTable {
    let mut table = ReportTable::new(&["build", "test", "#estimate", "#interval", "#statistic", "#df", "#p"]);
    for (variant, build) in analysis.variants.iter().enumerate() {
        let Some(found) = workload.headline_comparison(variant) else { continue };
        let mut effect = |name: &str, effect: Option<Effect>, scale: EffectScale| {
            if let Some(effect) = effect {
                table.row([
                    build.name.clone(),
                    name.to_owned(),
                    difference(scale, effect.interval.estimate),
                    interval(scale, &effect.interval),
                    format!("t = {:.3}", effect.t),
                    format!("{:.2}", effect.freedom),
                    p_value(Some(effect.p)),
                ]);
            }
        };
        let name = match found.design {
            Design::Paired { .. } => "paired log-ratio",
            Design::Replicated { .. } => "log-ratio over links",
            Design::Unpaired { .. } | Design::Summarised { .. } => "log-ratio, Welch",
        };
        effect(name, found.effect, found.scale);
        effect("log-ratio over blocks: these files", found.these_links, found.scale);
        effect("Student, values", found.student, EffectScale::Plain);
        effect("Welch, values", found.welch, EffectScale::Plain);
        if let Some(ranks) = &found.signed_rank {
            let exact = if ranks.exact { "exact" } else { "normal" };
            table.row([
                build.name.clone(),
                format!("Hodges–Lehmann, signed rank ({exact})"),
                difference(found.scale, ranks.interval.estimate),
                interval(found.scale, &ranks.interval),
                format!("W = {}", ranks.positive_ranks),
                NONE.to_owned(),
                p_value(Some(ranks.p)),
            ]);
        }
        if let Some(ranks) = &found.mann_whitney {
            let exact = if ranks.exact { "exact" } else { "normal" };
            table.row([
                build.name.clone(),
                format!("Mann–Whitney ({exact})"),
                NONE.to_owned(),
                NONE.to_owned(),
                format!("U = {}", ranks.u),
                NONE.to_owned(),
                p_value(Some(ranks.p)),
            ]);
        }
        if let Some(drawn) = &found.bootstrap {
            table.row([
                build.name.clone(),
                "bootstrap over links and blocks".to_owned(),
                difference(found.scale, drawn.estimate),
                interval(found.scale, drawn),
            ]);
        }
        if let Some(p) = found.equivalence_p {
            table.row([
                build.name.clone(),
                format!("equivalence within {:.2} %", percent(analysis.margin.ln_1p())),
                NONE.to_owned(),
                NONE.to_owned(),
                NONE.to_owned(),
                NONE.to_owned(),
                p_value(Some(p)),
            ]);
        }
    }
    table
}

/// Compares a build with the baseline on every metric of one sort, the headline first.
fn metrics(analysis: &Analysis, workload: &WorkloadAnalysis, variant: usize, simulated: bool) -> ReportTable {
    let baseline = &analysis.variants[analysis.baseline].name;
    let mut table = ReportTable::new(&[
        "metric",
        "unit",
        &format!("#{baseline}"),
        &format!("#{}", analysis.variants[variant].name),
        "#change",
        "#interval",
        "#p",
        "#adjusted p",
    ]);
    let mut order: Vec<usize> = (0..analysis.metrics.len()).collect();
    order.sort_by_key(|at| (workload.headline != Some(*at), *at));
    for at in order {
        let metric = &analysis.metrics[at];
        let found = &workload.metrics[at];
        if (metric.kind == MetricKind::Simulated) != simulated {
            continue;
        }
        let Some(comparison) = &found.comparisons[variant] else { continue };
        let mean = |variant: usize| or_none(found.groups[variant].map(|group| value(group.moments.mean)));
        table.row([
            metric.name.clone(),
            metric.unit.clone(),
            mean(analysis.baseline),
            mean(variant),
            difference(comparison.scale, comparison.estimate),
            interval_of(comparison),
            p_value(comparison.p()),
            p_value(comparison.adjusted_p),
        ]);
    }
    table
}
