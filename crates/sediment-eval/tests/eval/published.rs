// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with the printed figures of published comparisons of builds. sediment computes the same figures, or the
//! difference has a reason; and it finds effects that the authors overlooked. `proofs/scripts/eval-seeds` prints
//! everything.

use super::seeds::{
    LTO, PERF_STAT, PERF_STAT_DERIVED, POSTGRESQL, WELCH, half_digit, lto, number, perf_stat, postgresql,
    welch,
};
use sediment_eval::comparison::Comparison;
use sediment_eval::gate::{Gate, gate};
use sediment_eval::report::{Style, style};
use sediment_eval::verdict::Verdict;
use sediment_eval::{Analysis, Experiment, SampleSummary, analyse};

fn place(analysis: &Analysis, metric: &str) -> usize {
    analysis.metrics.iter().position(|m| m.name == metric).unwrap_or_else(|| panic!("no metric {metric}"))
}

fn compared(analysis: &Analysis, workload: usize, metric: &str, variant: usize) -> Comparison {
    let at = place(analysis, metric);
    analysis.workloads[workload].metrics[at].comparisons[variant].clone().unwrap()
}

/// Returns the ratio of the means minus one, in per cent.
fn change(analysis: &Analysis, workload: usize, metric: &str, variant: usize) -> f64 {
    let groups = &analysis.workloads[workload].metrics[place(analysis, metric)].groups;
    (groups[variant].unwrap().moments.mean / groups[0].unwrap().moments.mean - 1.0) * 100.0
}

fn styled(form: Style, experiment: &Experiment, analysis: &Analysis) -> String {
    style(form, experiment, analysis).unwrap()
}

#[track_caller]
fn shows(text: &str, what: &str) {
    assert!(text.contains(what), "no {what:?} in\n{text}");
}

#[test]
fn lto_against_base_has_the_p_that_follows_from_its_means() {
    let experiment = lto();
    let analysis = analyse(&experiment).unwrap();
    let student = compared(&analysis, 0, "elapsed", 1).student.unwrap();
    assert_eq!(format!("{:.3}", -student.t), "6.085");
    assert_eq!(student.freedom, 98.0);
    assert_eq!(format!("{:.1e}", student.p), "2.3e-8");
    // The post's worst value of three, 2.9e-8, does not come from another comparison with the base either: their values
    // are far smaller.
    for variant in [2, 3] {
        let p = compared(&analysis, 0, "elapsed", variant).student.unwrap().p;
        assert!(p < 1e-15, "{p:e}");
    }
    let text = styled(Style::MailingList, &experiment, &analysis);
    for (_, mean, sigma, improvement) in LTO {
        shows(&text, &format!("mean {mean}   sigma {sigma}"));
        if let Some(improvement) = improvement {
            shows(&text, &format!("improvement: {improvement}"));
        }
    }
    shows(&text, "6.085  98   2.3e-8");
    assert!(!text.contains("2.9e-8"));
}

#[test]
fn lto_on_top_of_inlining_is_not_shown_to_be_slower() {
    let experiment = lto();
    let analysis = analyse(&experiment).unwrap();
    let pair =
        analysis.workloads[0].pairs.iter().find(|pair| (pair.against, pair.variant) == (2, 3)).unwrap();
    let student = pair.student.unwrap();
    assert_eq!(format!("{:.2} {:.2}", -student.t, student.p), "-0.95 0.34");
    shows(&styled(Style::MailingList, &experiment, &analysis), "-0.951  98     0.34");
    let workload = &analysis.workloads[0];
    assert!(
        workload.verdicts.iter().all(|build| build.verdict == Verdict::Faster),
        "{:?}",
        workload.verdicts
    );
    shows(&workload.recommendation, "inlining: 5.5 %");
    shows(&workload.recommendation, "LTO plus inlining (p = 0.34)");
    assert_eq!(gate(&analysis), Gate::Pass);
}

#[test]
fn the_four_builds_of_the_post_are_a_factorial_with_an_interaction() {
    let analysis = analyse(&lto()).unwrap();
    let effects = analysis.workloads[0].factors.clone().unwrap().unwrap();
    let shown: Vec<String> = effects
        .iter()
        .map(|e| {
            format!("{} {:+.1} % p={:.0e}", e.name, e.effect.interval.estimate.exp_m1() * 100.0, e.effect.p)
        })
        .collect();
    // LTO alone gives −2.9 %, inlining alone −5.5 %; together they gain 3.5 % less than the product of both.
    assert_eq!(shown[0], "inlining: on instead of off -3.8 % p=2e-21");
    assert_eq!(shown[1], "lto: on instead of off -1.2 % p=1e-3");
    assert!(shown[2].starts_with("inlining on × lto on +3.5 %"), "{}", shown[2]);
    assert!(effects[2].effect.p < 1e-5);
}

#[test]
fn o2_and_os_come_out_as_perf_stat_printed_them_counter_by_counter() {
    let experiment = perf_stat();
    let analysis = analyse(&experiment).unwrap();
    let text = styled(Style::PerfStat, &experiment, &analysis);
    let blocks: Vec<&str> = text.split(" Performance counter stats for ").skip(1).collect();
    assert_eq!(blocks.len(), 6);
    for (workload, (_, counters)) in PERF_STAT.iter().enumerate() {
        for (name, old, old_error, new, new_error) in *counters {
            for (variant, value, error) in [(0, old, old_error), (1, new, new_error)] {
                let block = blocks[workload * 2 + variant];
                let line = block
                    .lines()
                    .find(|line| {
                        line.contains(&name.to_lowercase())
                            || (*name == "elapsed" && line.contains("seconds time"))
                    })
                    .unwrap_or_else(|| panic!("no {name} in {block}"));
                shows(line, value);
                // If the count is zero, there is no share.
                if let Some(error) = error.filter(|_| number(value) != 0.0) {
                    shows(line, &format!("+-  {error}%"));
                }
            }
        }
    }
    for (workload, variant, figures) in PERF_STAT_DERIVED {
        for figure in *figures {
            shows(blocks[workload * 2 + variant], figure);
        }
    }
}

#[test]
fn os_is_not_shown_to_be_better_than_o2_by_three_runs_or_by_more_instructions() {
    let analysis = analyse(&perf_stat()).unwrap();
    // "Os improves netperf by 4.8 %" is the ratio of its rounded IPCs; the cycles of the same ten seconds did not
    // change.
    let netperf = |metric: &str| change(&analysis, 0, metric, 1);
    assert_eq!(
        format!(
            "{:.1} {:.1} {:.2}",
            netperf("instructions per cycle"),
            netperf("instructions"),
            netperf("cycles")
        ),
        "5.5 5.3 -0.18"
    );
    let cycles = compared(&analysis, 0, "cycles", 1).welch.unwrap();
    assert!(cycles.p > 0.5, "{cycles:?}");
    // On Nehalem the IPC fell by 4 %, with 4.4 % fewer instructions in as many cycles. This is the opposite, and no
    // verdict either.
    assert_eq!(
        format!(
            "{:.1} {:.1} {:.2}",
            change(&analysis, 2, "instructions per cycle", 1),
            change(&analysis, 2, "instructions", 1),
            change(&analysis, 2, "cycles", 1)
        ),
        "-4.4 -4.4 -0.09"
    );
    // The figures that did change by far are branch misses on Nehalem and stalls on the newer machine.
    assert!(compared(&analysis, 2, "branch-misses", 1).welch.unwrap().p < 0.001);
    assert!(compared(&analysis, 0, "stalled-cycles-frontend", 1).welch.unwrap().p < 0.01);
    for workload in &analysis.workloads {
        let build = &workload.verdicts[0];
        assert_eq!(build.verdict, Verdict::Inconclusive);
        assert_eq!(build.needed, Some(4));
    }
    // If a count is zero in both builds, it has a difference but no ratio.
    assert_eq!(compared(&analysis, 0, "cpu-migrations", 1).change(), None);
}

#[test]
fn welch_of_the_index_follows_from_its_means_and_spreads() {
    let experiment = welch();
    let analysis = analyse(&experiment).unwrap();
    let (cycles, misses) = (compared(&analysis, 0, "cycles", 1), compared(&analysis, 0, "cache-misses", 1));
    let shown = |found: &Comparison| {
        let welch = found.welch.unwrap();
        format!("{:.2} {:.1} {:.3}", -welch.t, welch.freedom, welch.p)
    };
    assert_eq!(shown(&cycles), "2.82 5.8 0.032");
    assert_eq!(shown(&misses), "3.18 5.7 0.020");
    let text = styled(Style::Welch, &experiment, &analysis);
    for (name, .., printed) in WELCH {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        shows(line, printed);
    }
    // Four metrics were tested. The second throughput shows nothing, and a lower spread is not shown for any metric.
    assert_eq!(format!("{:.2}", compared(&analysis, 0, "throughput 2", 1).welch.unwrap().p), "0.71");
    for metric in ["cycles", "cache-misses", "throughput 2"] {
        let p = compared(&analysis, 0, metric, 1).spread.unwrap().p;
        assert!(p > 0.15, "{metric}: {p}");
    }
    assert!(compared(&analysis, 0, "throughput 1", 1).effect.is_none(), "no spread was printed");
}

/// Printed changes that do not follow from the printed means, however these were rounded.
const DO_NOT_FOLLOW: &[(&str, &str, &str)] = &[
    ("Fedora 41, x86_64 guest", "instructions per cycle", "3.3%"), // 3.5 from the means, also from .577 and .597
    ("Fedora 41, Cortex-A57", "instructions per iTLB miss", "11.2%"), // 12.0 from the means, 11.9 from 235 and 263
];

#[test]
fn postgresql_tables_follow_from_their_means_and_hide_what_a_transaction_costs() {
    let mut per_transaction = Vec::new();
    let mut differ = Vec::new();
    for table in POSTGRESQL {
        let experiment = postgresql(table);
        let analysis = analyse(&experiment).unwrap();
        let form = if table.builds.len() == 4 { Style::GuestHost } else { Style::BaselineReordered };
        shows(&styled(form, &experiment, &analysis), "i per iTLB-miss");
        for (row, _, printed) in table.rows {
            for (variant, printed) in (1..).zip(*printed).filter(|(_, printed)| !printed.is_empty()) {
                let ours = change(&analysis, 0, row, variant);
                let theirs = number(printed.trim_end_matches('%'));
                if (ours - theirs).abs() > table.slack(row, variant) + half_digit(printed) {
                    differ.push((table.name, *row, *printed));
                }
            }
        }
        per_transaction
            .push(format!("{:+.1}", change(&analysis, 0, "cycles per transaction", table.builds.len() - 1)));
        assert_eq!(analysis.workloads[0].headline, Some(place(&analysis, "cycles per transaction")));
        let build = &analysis.workloads[0].verdicts[0];
        assert_eq!(build.verdict, Verdict::Inconclusive);
        assert!(
            compared(&analysis, 0, "cycles per transaction", 1).effect.is_none(),
            "no spread was printed"
        );
    }
    assert_eq!(differ, DO_NOT_FOLLOW);
    assert_eq!(per_transaction, ["-3.5", "-4.6", "-5.4", "-4.4", "-6.6", "+4.4"]);
    let guest = analyse(&postgresql(&POSTGRESQL[4])).unwrap();
    assert_eq!(format!("{:+.1}", change(&guest, 0, "cycles per transaction", 1)), "-6.1");
    let armv7 = analyse(&postgresql(&POSTGRESQL[5])).unwrap();
    assert_eq!(
        format!("{:+.1}", change(&armv7, 0, "instructions per cycle", 1)),
        "+4.8",
        "4.88 is printed, from means before rounding"
    );
}

/// The number of runs that an unclear comparison needs follows from its spread: twice the square of 1.96 · 5 % / 0.5 %.
#[test]
fn unclear_comparisons_need_runs_by_their_spread() {
    let mut unclear = lto();
    unclear.variants.truncate(2);
    unclear.summaries.truncate(2);
    for group in &mut unclear.summaries {
        group.summary = SampleSummary { count: 50, mean: 40.0, deviation: Some(2.0) };
    }
    let advice = analyse(&unclear).unwrap().workloads[0].recommendation.clone();
    let runs = advice.split("about ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(runs.is_some_and(|runs| (760..780).contains(&runs)), "{advice}");
}
