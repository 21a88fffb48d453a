// SPDX-License-Identifier: MIT OR Apache-2.0
//! Four published comparisons of builds, imported as printed: each figure next to the published figure, claims that do not follow from the published means,
//! and effects that the authors missed. Prints Markdown; fails if a claim does not hold.
//! `proofs/scripts/eval-seeds` runs this.
#![allow(clippy::print_stdout)] // this program prints tables
#![allow(clippy::unwrap_used)] // a proof that cannot run must fail

#[path = "../../crates/sediment-eval/tests/eval/seeds.rs"]
#[allow(dead_code)] // the tests use the rest
mod seeds;

use sediment_eval::comparison::Comparison;
use sediment_eval::statistics::Effect;
use sediment_eval::{Analysis, analyse};
use seeds::{POSTGRESQL, half_digit, lto, number, perf_stat, postgresql, welch};
use std::process::ExitCode;

fn compared(analysis: &Analysis, workload: usize, metric: &str) -> Comparison {
    let at = analysis.metrics.iter().position(|m| m.name == metric).unwrap();
    analysis.workloads[workload].metrics[at].comparisons[1].clone().unwrap()
}

fn change(analysis: &Analysis, workload: usize, metric: &str, variant: usize) -> f64 {
    let at = analysis.metrics.iter().position(|m| m.name == metric).unwrap();
    let groups = &analysis.workloads[workload].metrics[at].groups;
    (groups[variant].unwrap().moments.mean / groups[0].unwrap().moments.mean - 1.0) * 100.0
}

fn p(p: f64) -> String {
    if p < 0.001 { format!("{p:.1e}") } else { format!("{p:.3}") }
}

fn test(effect: Option<Effect>) -> String {
    effect.map_or_else(|| "–".to_owned(), |e| format!("{:.3} | {:.2} | {}", 0.0 - e.t, e.freedom, p(e.p)))
}

/// A list of claims, and whether each holds.
#[derive(Default)]
struct Claims(Vec<(&'static str, bool)>);

impl Claims {
    fn add(&mut self, claim: &'static str, holds: bool) {
        self.0.push((claim, holds));
    }
}

fn main() -> ExitCode {
    let mut claims = Claims::default();
    println!("t is positive where the second build has the smaller mean.");
    lto_and_inlining(&mut claims);
    o2_and_os(&mut claims);
    always_inline(&mut claims);
    reordered(&mut claims);
    println!("\n## Claims\n");
    for (claim, holds) in &claims.0 {
        println!("- {claim}{}", if *holds { "" } else { " **Does not hold.**" });
    }
    if claims.0.iter().all(|(_, holds)| *holds) {
        println!("\nAll hold.");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn lto_and_inlining(claims: &mut Claims) {
    let analysis = analyse(&lto()).unwrap();
    let name = |variant: usize| analysis.variants[variant].name.as_str();
    println!("\n## LTO and inlining by hand, 50 trials each\n");
    println!(
        "| build | against | change | Student t | df | p | adjusted p of log-ratio |\n|---|---|--:|--:|--:|--:|--:|"
    );
    let at = analysis.workloads[0].headline.unwrap();
    let against_base = analysis.workloads[0].metrics[at].comparisons.iter().flatten();
    for found in against_base.chain(&analysis.workloads[0].pairs) {
        println!(
            "| {} | {} | {:+.1} % | {} | {} |",
            name(found.variant),
            name(found.against),
            found.change().unwrap(),
            test(found.student),
            p(found.adjusted_p.unwrap())
        );
    }
    println!(
        "\nAs a factorial, on the logarithmic scale:\n\n| effect | change | 95 % interval | p |\n|---|--:|--:|--:|"
    );
    let effects = analysis.workloads[0].factors.clone().unwrap().unwrap();
    for found in &effects {
        let interval = found.effect.interval;
        println!(
            "| {} | {:+.1} % | {:+.1} % to {:+.1} % | {} |",
            found.name,
            interval.estimate.exp_m1() * 100.0,
            interval.lower.exp_m1() * 100.0,
            interval.upper.exp_m1() * 100.0,
            p(found.effect.p)
        );
    }
    println!("\n{}", analysis.workloads[0].recommendation);
    let first = compared(&analysis, 0, "elapsed").student.unwrap();
    claims.add(
        "LTO against base: t = 6.085, p = 2.3e-8; the 2.9e-8 that the post calls its worst does not follow from its means.",
        format!("{:.3} {:.1e}", -first.t, first.p) == "6.085 2.3e-8",
    );
    let pair =
        analysis.workloads[0].pairs.iter().find(|pair| (pair.against, pair.variant) == (2, 3)).unwrap();
    let student = pair.student.unwrap();
    claims.add(
        "LTO plus inlining against inlining: t = -0.95, p = 0.34: the slow-down that the post explains is not shown.",
        format!("{:.2} {:.2}", -student.t, student.p) == "-0.95 0.34",
    );
    claims.add(
        "The post's four builds are a factorial: together LTO and inlining lack 3.5 % of the product of either alone.",
        format!("{:+.1}", effects[2].effect.interval.estimate.exp_m1() * 100.0) == "+3.5" && effects[2].effect.p < 1e-5,
    );
}

fn o2_and_os(claims: &mut Claims) {
    let analysis = analyse(&perf_stat()).unwrap();
    println!("\n## -O2 and -Os, `perf stat` of 3 runs each\n");
    println!("Deviations are from the printed standard errors. Ratios of means have none.\n");
    println!("| workload | counter | change of Os | Welch t | df | p |\n|---|---|--:|--:|--:|--:|");
    for (index, workload) in analysis.workloads.iter().enumerate() {
        for (metric, found) in analysis.metrics.iter().zip(&workload.metrics) {
            let Some(comparison) = &found.comparisons[1] else { continue };
            let changed = change(&analysis, index, &metric.name, 1);
            let changed = if changed.is_finite() { format!("{changed:+.2} %") } else { "–".to_owned() };
            let welch = comparison.welch.map_or_else(|| "– | – | –".to_owned(), |welch| test(Some(welch)));
            println!("| {} | {} | {changed} | {welch} |", workload.name, metric.name);
        }
    }
    for workload in &analysis.workloads {
        println!(
            "\n{}: {}: {}.",
            workload.name,
            workload.verdicts[0].verdict.word(),
            workload.verdicts[0].reason
        );
    }
    claims.add(
        "netperf's IPC gain comes with 5.3 % more instructions in as many cycles (-0.18 %, p = 0.575), not with more work.",
        format!("{:.1} {:.2} {}", change(&analysis, 0, "instructions", 1), change(&analysis, 0, "cycles", 1), p(compared(&analysis, 0, "cycles").welch.unwrap().p))
            .starts_with("5.3 -0.18 0.575"),
    );
    println!(
        "\nThe post's gains, 4.8 % for netperf and 2.7 % for volano, are ratios of IPCs printed with two digits."
    );
    claims.add(
        "From the counts IPC rises by 5.5 % and 3.4 %, where the post has 4.8 % and 2.7 %.",
        [0, 1].map(|workload| format!("{:.1}", change(&analysis, workload, "instructions per cycle", 1)))
            == ["5.5", "3.4"],
    );
    claims.add(
        "Three runs of each build are refused a verdict: an exact test needs 4.",
        analysis.workloads.iter().all(|workload| workload.verdicts[0].needed == Some(4)),
    );
}

fn always_inline(claims: &mut Claims) {
    let analysis = analyse(&welch()).unwrap();
    println!("\n## always_inline, 5 runs each\n");
    println!(
        "| metric | change | Welch t | df | p | F of CVs | p of equal CVs |\n|---|--:|--:|--:|--:|--:|--:|"
    );
    for metric in ["throughput 1", "throughput 2", "cycles", "cache-misses"] {
        let found = compared(&analysis, 0, metric);
        let welch = found.welch.map_or_else(|| "– | – | –".to_owned(), |welch| test(Some(welch)));
        let spread = found.spread.map_or_else(|| "– | –".to_owned(), |s| format!("{:.2} | {:.2}", s.f, s.p));
        println!("| {metric} | {:+.2} % | {welch} | {spread} |", change(&analysis, 0, metric, 1));
    }
    println!(
        "\nThe index prints t = 2.823, df = 5.76 for cycles and t = 3.177, df = 5.73 for cache misses: from values before rounding."
    );
    let shown = |metric: &str| {
        let welch = compared(&analysis, 0, metric).welch.unwrap();
        format!("{:.2} {:.1}", -welch.t, welch.freedom)
    };
    claims.add("CPU cycles: Welch t = 2.82, df = 5.8.", shown("cycles") == "2.82 5.8");
    claims.add("Cache misses: Welch t = 3.18, df = 5.7.", shown("cache-misses") == "3.18 5.7");
    let spreads = ["cycles", "cache-misses", "throughput 2"]
        .map(|metric| compared(&analysis, 0, metric).spread.unwrap().p);
    claims.add(
        "That inlining makes runs vary less is not shown by 5 runs of each, for any of the three metrics.",
        spreads.iter().all(|p| *p > 0.15),
    );
}

fn reordered(claims: &mut Claims) {
    println!("\n## PostgreSQL reordered, means of 6 runs of 300 s\n");
    println!(
        "| machine | build | cycles | transactions/s | IPC | cycles per transaction |\n|---|---|--:|--:|--:|--:|"
    );
    let mut differ = Vec::new();
    let (mut followed, mut hidden) = (0, false);
    for table in POSTGRESQL {
        let analysis = analyse(&postgresql(table)).unwrap();
        for variant in 1..table.builds.len() {
            let of = |metric: &str| change(&analysis, 0, metric, variant);
            println!(
                "| {} | {} | {:+.1} % | {:+.1} % | {:+.1} % | {:+.1} % |",
                table.name,
                table.builds[variant],
                of("cycles"),
                of("tps"),
                of("instructions per cycle"),
                of("cycles per transaction")
            );
            hidden |= table.name.ends_with("armv7")
                && format!("{:+.1} {:+.1}", of("instructions per cycle"), of("cycles per transaction"))
                    == "+4.8 +4.4";
        }
        for (row, _, printed) in table.rows {
            for (variant, printed) in (1..).zip(*printed).filter(|(_, printed)| !printed.is_empty()) {
                let ours = change(&analysis, 0, row, variant);
                let off = (ours - number(printed.trim_end_matches('%'))).abs();
                if off > table.slack(row, variant) + half_digit(printed) {
                    differ.push(format!("{}, {row}: {printed} is printed, {ours:+.1} % follows", table.name));
                } else {
                    followed += 1;
                }
            }
        }
    }
    println!("\n{followed} printed changes follow from the printed means, within rounding. These do not:\n");
    for line in &differ {
        println!("- {line}");
    }
    claims.add(
        "The armv7 table's IPC gain (4.88 % printed, 4.8 % from its rounded means) hides 4.4 % more cycles per transaction.",
        hidden,
    );
    claims.add("All printed changes but two follow from the printed means.", differ.len() == 2);
}
