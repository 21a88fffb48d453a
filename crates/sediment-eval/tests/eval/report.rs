// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reports in every form: of an invented experiment (goldens in `tests/golden/compare/report`), and of one
//! with hostile names.

use sediment_core::random::Generator;
use sediment_eval::gate::{Gate, gate};
use sediment_eval::report::{
    STYLES, Style, brief, csv, html, json, markdown, samples_csv, style, terminal, tlb_misses,
};
use sediment_eval::verdict::Verdict;
use sediment_eval::{
    Analysis, Circumstances, Direction, Experiment, Factor, Metric, MetricKind, Observation, Phase, Probe,
    Variant, Workload, analyse,
};
use std::collections::BTreeMap;
use support::golden;

const BLOCKS: u32 = 12;

fn metric(name: &str, unit: &str, kind: MetricKind) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), direction: Direction::LowerIsBetter, kind }
}

fn builds() -> Vec<Variant> {
    let build = |name: &str, lto: &str, order: &str, replicas, probe| Variant {
        name: name.to_owned(),
        factors: [("lto", lto), ("order", order)]
            .map(|(name, level)| Factor { name: name.to_owned(), level: level.to_owned() })
            .into(),
        replicas,
        probe,
    };
    vec![
        build("base", "off", "off", 2, None),
        build("lto", "on", "off", 2, None),
        build("ordered", "off", "on", 2, None),
        build("lto and ordered", "on", "on", 2, None),
        build("base again", "off", "off", 1, Some(Probe::SameFile)),
        build("base relinked", "off", "off", 1, Some(Probe::Relinked)),
    ]
}

fn metrics() -> Vec<Metric> {
    vec![
        metric("cycles", "count", MetricKind::Measured),
        metric("instructions", "count", MetricKind::Measured),
        metric("iTLB-load-misses", "count", MetricKind::Measured),
        metric("major-faults", "count", MetricKind::Measured),
        metric("task-clock", "s", MetricKind::Measured),
        metric("elapsed", "s", MetricKind::Measured),
        metric("max-rss", "bytes", MetricKind::Measured),
        metric("iTLB misses (simulated by cachegrind)", "count", MetricKind::Simulated),
    ]
}

/// Makes an experiment: four builds by two factors, with two links each, an A/A and an A/A′ pair. Ordering helps by 4
/// %, LTO by 1 %, and both together by a little less than their sum.
fn experiment() -> Experiment {
    let variants = builds();
    let mut numbers = Generator::new(42);
    let effects = [0.0, -0.01, -0.04, -0.045, 0.0, 0.0];
    let misses = [1.0, 0.98, 0.70, 0.69, 1.0, 1.01];
    let mut runs: Vec<(usize, u32)> = Vec::new();
    for (variant, build) in variants.iter().enumerate() {
        runs.extend((0..build.replicas).map(|replica| (variant, replica)));
    }
    let luck: Vec<f64> = (0..12).map(|_| 0.002 * numbers.normal()).collect();
    let mut observations = Vec::new();
    for block in 0..=BLOCKS {
        numbers.shuffle(&mut runs);
        let shared = 0.01 * numbers.normal();
        for (slot, (variant, replica)) in runs.iter().copied().enumerate() {
            let link = if variant == 4 { luck[0] } else { luck[variant * 2 + replica as usize] };
            let log = shared + effects[variant] + link + 0.006 * numbers.normal();
            let cycles = (3.3e11 * log.exp()).round();
            let values = [
                ("cycles", cycles),
                ("instructions", (1.55e11 * (0.3 * shared + 0.001 * numbers.normal()).exp()).round()),
                ("iTLB-load-misses", (3.6e8 * misses[variant] * (0.01 * numbers.normal()).exp()).round()),
                ("major-faults", if numbers.below(6) == 0 { 1.0 } else { 0.0 }),
                ("task-clock", (cycles / 2.5e9 * 1e6).round() / 1e6),
                ("elapsed", 60.0),
                ("max-rss", 1.5e8),
                (
                    "iTLB misses (simulated by cachegrind)",
                    (1.1e6 * misses[variant]).round() + f64::from(replica),
                ),
            ];
            observations.push(Observation {
                workload: 0,
                variant,
                replica,
                block: (block > 0).then(|| block - 1).or(Some(0)),
                slot: slot as u32,
                at: observations.len() as f64 * 61.0,
                phase: if block == 0 { Phase::WarmUp } else { Phase::Measured },
                work: Some(20_000.0 + (100.0 * numbers.normal()).round()),
                values: values.map(|(name, value)| (name.to_owned(), value)).into(),
                circumstances: Circumstances::default(),
            });
        }
    }
    Experiment {
        variants,
        baseline: 0,
        workloads: vec![Workload { name: "pgbench".to_owned(), work: Some("transaction".to_owned()) }],
        metrics: metrics(),
        primary: "cycles".to_owned(),
        margin: 0.01,
        confidence: 0.95,
        precision: 0.005,
        observations,
        summaries: Vec::new(),
        absent: BTreeMap::from([("LLC-load-misses".to_owned(), "this machine has no such event".to_owned())]),
        facts: vec![("processor".to_owned(), "made up".to_owned()), ("kernel".to_owned(), "6.1".to_owned())],
        seed: 42,
    }
}

fn analysed() -> (Experiment, Analysis) {
    let experiment = experiment();
    let analysis = analyse(&experiment).unwrap();
    (experiment, analysis)
}

#[test]
fn reports_are_as_blessed() {
    let (experiment, analysis) = analysed();
    golden("compare/report/brief.txt", &brief(&experiment, &analysis));
    golden("compare/report/terminal.txt", &terminal(&experiment, &analysis));
    golden("compare/report/report.md", &markdown(&experiment, &analysis));
    golden("compare/report/summary.csv", &csv(&experiment, &analysis));
    golden("compare/report/report.html", &html(&experiment, &analysis));
    for (name, form) in STYLES {
        golden(&format!("compare/report/style-{name}.txt"), &style(*form, &experiment, &analysis).unwrap());
    }
}

#[test]
fn measured_and_simulated_never_share_a_table() {
    let (experiment, analysis) = analysed();
    let text = terminal(&experiment, &analysis);
    for part in text.split("\n\n").filter(|part| part.contains("(simulated by")) {
        assert!(!part.contains("task-clock") && !part.contains("max-rss"), "{part}");
    }
    for (name, form) in STYLES {
        assert!(!style(*form, &experiment, &analysis).unwrap().contains("simulated"), "{name}");
    }
}

#[test]
fn the_json_holds_every_sample_and_reads_back_in_ascii() {
    let (experiment, analysis) = analysed();
    let text = json(&experiment, &analysis);
    assert!(text.is_ascii());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["format"], "sediment-eval");
    assert_eq!(value["samples"].as_array().unwrap().len(), experiment.observations.len());
    let workload = &value["workloads"][0];
    assert_eq!(workload["headline"], "cycles per transaction");
    assert_eq!(workload["verdicts"].as_array().unwrap().len(), 3);
    let comparison = &workload["metrics"]["cycles per transaction"]["comparisons"][1];
    let expected = analysis.workloads[0].headline_comparison(2).unwrap();
    assert_eq!(comparison["build"], "ordered");
    assert_eq!(comparison["effect"]["p"].as_f64().unwrap(), expected.effect.unwrap().p);
    assert_eq!(workload["factors"]["effects"].as_array().unwrap().len(), 3);
}

#[test]
fn the_csv_has_a_line_for_each_value_and_nothing_is_dropped() {
    let (experiment, analysis) = analysed();
    let samples = samples_csv(&experiment);
    let values: usize = experiment.observations.iter().map(|run| run.values.len()).sum();
    assert_eq!(samples.lines().count(), values + 1);
    assert!(samples.contains(",warm-up,"));
    let summary = csv(&experiment, &analysis);
    let columns = summary.lines().next().unwrap().split(',').count();
    let plain = summary.lines().find(|line| line.contains(",ordered,cycles,")).unwrap();
    assert_eq!(plain.split(',').count(), columns);
}

#[test]
fn warm_ups_change_nothing() {
    let (experiment, analysis) = analysed();
    let mut without = experiment.clone();
    without.observations.retain(|run| run.phase == Phase::Measured);
    assert_eq!(analyse(&without).unwrap(), analysis);
}

#[test]
fn simulated_misses_of_the_tlb_are_told_from_counted_ones() {
    let (mut experiment, analysis) = analysed();
    let counted = tlb_misses(&analysis).unwrap();
    assert!(!counted.is_simulated && counted.ratio < 1.0, "{counted:?}");
    let metric = experiment.metrics.iter().position(|metric| metric.name == "iTLB-load-misses").unwrap();
    experiment.metrics[metric].kind = MetricKind::Simulated;
    let simulated = tlb_misses(&analyse(&experiment).unwrap()).unwrap();
    assert!(simulated.is_simulated, "{simulated:?}");
    assert!((simulated.ratio - counted.ratio).abs() < 1e-9, "{simulated:?} {counted:?}");
}

#[test]
fn missing_inputs_of_a_style_are_named() {
    let (mut experiment, _) = analysed();
    experiment.observations.retain(|run| run.variant != 3);
    experiment.variants.remove(3);
    for run in &mut experiment.observations {
        run.variant -= usize::from(run.variant > 3);
    }
    let analysis = analyse(&experiment).unwrap();
    let error = style(Style::GuestHost, &experiment, &analysis).unwrap_err();
    assert!(error.to_string().contains("guest-host") && error.to_string().ends_with(" 3"), "{error}");
    let why = analysis.workloads[0].factors.clone().unwrap().unwrap_err();
    assert!(why.contains("lto=on, order=on") && terminal(&experiment, &analysis).contains(&why), "{why}");
}

#[test]
fn a_metric_that_was_not_read_leaves_no_verdict_and_says_why() {
    let (mut experiment, _) = analysed();
    for run in &mut experiment.observations {
        run.values.remove("cycles");
    }
    experiment.metrics.remove(0);
    experiment.absent.insert("cycles".to_owned(), "a guest without a PMU".to_owned());
    let analysis = analyse(&experiment).unwrap();
    assert!(analysis.workloads[0].verdicts.iter().all(|build| build.verdict == Verdict::Inconclusive));
    assert_eq!(gate(&analysis), Gate::Inconclusive);
    // For each build; in the full report also in the gate's result for each build, and once in the table of missing
    // measurements.
    for (text, times) in [(brief(&experiment, &analysis), 3), (terminal(&experiment, &analysis), 7)] {
        assert_eq!(text.matches("a guest without a PMU").count(), times, "{text}");
    }
    assert!(html(&experiment, &analysis).contains("Not measured"));
}

/// Names that would have an effect in some language if they were not escaped.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "a|b](http://example.invalid)`c`",
    "=cmd(\"x\")",
    "\u{1b}[31mred\u{202e}",
    "\" onload=\"x\n# heading",
    "</svg><img src=x>",
];

#[test]
fn hostile_names_stay_text_in_every_form() {
    let (mut experiment, _) = analysed();
    for (variant, name) in experiment.variants.iter_mut().zip(HOSTILE) {
        variant.name = (*name).to_owned();
        variant.factors[1].level.push_str("</td><b>");
    }
    experiment.workloads[0].name = HOSTILE[0].to_owned();
    experiment.facts.push((HOSTILE[3].to_owned(), HOSTILE[5].to_owned()));
    experiment.absent.insert(HOSTILE[1].to_owned(), HOSTILE[0].to_owned());
    for metric in &mut experiment.metrics {
        if metric.name == "max-rss" {
            metric.unit = HOSTILE[0].to_owned();
        }
    }
    let analysis = analyse(&experiment).unwrap();
    let page = html(&experiment, &analysis);
    for word in ["<script", "<img", "<b>", "onload=\"", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(word), "{word:?} in the page");
    }
    assert_eq!(page.matches("</svg>").count(), page.matches("<svg ").count());
    let mut texts = vec![terminal(&experiment, &analysis)];
    texts.extend(STYLES.iter().map(|(_, form)| style(*form, &experiment, &analysis).unwrap()));
    for text in &texts {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("# heading")), "{text}");
    }
    let text = markdown(&experiment, &analysis);
    let acting = text.replace("\\\\", "").replace("\\<", "").replace("\\]", "");
    assert!(!acting.contains('<') && !acting.contains("]("), "{text}");
    let table = csv(&experiment, &analysis) + &samples_csv(&experiment);
    assert!(!table.contains(",=cmd") && table.contains("\"'=cmd"), "a formula");
    assert!(json(&experiment, &analysis).is_ascii());
}
