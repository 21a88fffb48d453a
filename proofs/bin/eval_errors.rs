// SPDX-License-Identifier: MIT OR Apache-2.0
//! Error rates of `eval`: simulated experiments with known differences and a fixed seed. Prints Markdown; fails if a claim does not hold.
//! `proofs/scripts/eval-errors` runs this.
#![allow(clippy::print_stdout)] // this program prints a table

#[path = "../../crates/sediment-eval/tests/eval/simulated.rs"]
mod simulated;

use sediment_eval::gate::{Gate, gate};
use sediment_eval::verdict::Verdict;
use sediment_eval::{NextStep, StoppingBudget, analyse, plan_next};
use simulated::SimulatedWorld;
use std::process::ExitCode;

const SEED: u64 = 20_261_122;
const EXPERIMENTS: u64 = 2000;
const MARGIN: f64 = 0.01;

/// Numbers of verdicts in a series of experiments with one kind of simulated machine.
#[derive(Default)]
struct VerdictTally {
    faster: u64,
    slower: u64,
    equivalent: u64,
    inconclusive: u64,
    covered: u64,
    these_covered: u64,
    regressions: u64,
    blocks: u64,
    futile: u64,
}

fn series(world: SimulatedWorld, purpose: u64) -> VerdictTally {
    let budget = StoppingBudget::default();
    let mut tally = VerdictTally::default();
    for number in 0..EXPERIMENTS {
        let experiment = simulated::run(world, &budget, MARGIN, SEED + (purpose << 32) + number);
        let Ok(analysis) = analyse(&experiment) else { continue };
        let workload = &analysis.workloads[0];
        match workload.verdicts[0].verdict {
            Verdict::Faster => tally.faster += 1,
            Verdict::Slower => tally.slower += 1,
            Verdict::Equivalent => tally.equivalent += 1,
            Verdict::Inconclusive => tally.inconclusive += 1,
        }
        let truth = world.slower_by.ln_1p();
        if let Some(comparison) = workload.headline_comparison(1) {
            let holds = |interval: sediment_eval::statistics::Interval| {
                interval.lower <= truth && truth <= interval.upper
            };
            tally.covered += u64::from(comparison.effect.is_some_and(|effect| holds(effect.interval)));
            tally.these_covered +=
                u64::from(comparison.these_links.is_some_and(|effect| holds(effect.interval)));
            tally.blocks += comparison.differences.len() as u64;
        }
        let last = plan_next(&experiment, &budget);
        tally.futile += u64::from(matches!(last, Ok(NextStep::Futile { .. })));
        tally.regressions += u64::from(gate(&analysis) == Gate::Regression);
    }
    tally
}

fn share(count: u64) -> f64 {
    count as f64 / EXPERIMENTS as f64 * 100.0
}

fn worlds() -> [(&'static str, SimulatedWorld); 10] {
    let unsteady = SimulatedWorld::UNSTEADY;
    let lucky = SimulatedWorld { link: 0.008, replicas: 3, ..unsteady };
    [
        ("no difference", unsteady),
        ("no difference, no probes", SimulatedWorld { probes: false, ..unsteady }),
        ("no difference, interruptions", SimulatedWorld { interrupted_one_in: 50, ..unsteady }),
        ("no difference, runs vary by 0.6 %", SimulatedWorld { run: 0.006, ..unsteady }),
        ("1 % slower", SimulatedWorld { slower_by: 0.01, ..unsteady }),
        ("1 % faster", SimulatedWorld { slower_by: -0.01, ..unsteady }),
        ("3 % slower", SimulatedWorld { slower_by: 0.03, ..unsteady }),
        ("no difference, 3 links", lucky),
        ("no difference, 3 identical links", SimulatedWorld { link: 0.0, ..lucky }),
        ("no difference, 1 link, lucky ones", SimulatedWorld { replicas: 1, probes: false, ..lucky }),
    ]
}

fn main() -> ExitCode {
    let worlds = worlds();
    let budget = StoppingBudget::default();
    println!(
        "{EXPERIMENTS} experiments each, seed {SEED}: two builds, with an A/A and an A/A′ pair unless it says otherwise, in randomised"
    );
    println!(
        "blocks. Runs vary by 1 % (coefficient of variation), blocks by 1 %. The machine slows down by 5 % an hour, and the first"
    );
    println!(
        "place of a block costs 1 %. \"Interruptions\" make one run in 50 take 5 % longer; \"links\" differ by 0.8 %."
    );
    println!(
        "Default budget: pilot of {} blocks, at most {}, until the 95 % interval is within ±{:.1} %; margin {:.0} %.\n",
        budget.pilot,
        budget.most_blocks,
        budget.precision * 100.0,
        MARGIN * 100.0
    );
    println!(
        "| truth | blocks | faster | slower | equivalent | inconclusive | interval covers | gate fails |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let tallies: Vec<VerdictTally> =
        worlds.iter().enumerate().map(|(purpose, (_, world))| series(*world, purpose as u64)).collect();
    for ((name, _), tally) in worlds.iter().zip(&tallies) {
        println!(
            "| {name} | {:.1} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
            tally.blocks as f64 / EXPERIMENTS as f64,
            share(tally.faster),
            share(tally.slower),
            share(tally.equivalent),
            share(tally.inconclusive),
            share(tally.covered),
            share(tally.regressions)
        );
    }
    let [same, bare, interrupted, calm, slower, faster, much, links, identical, one_link] = &tallies[..]
    else {
        return ExitCode::FAILURE;
    };
    println!(
        "\nWith 3 links, the interval over blocks, which speaks of these files alone, covers no difference between builds in {:.1} %.",
        share(links.these_covered)
    );
    println!(
        "\"More blocks cannot help\" is said of identical links in {:.1} % of experiments, and of links that differ by 0.8 % in {:.1} %.",
        share(identical.futile),
        share(links.futile)
    );
    let false_share = |tally: &VerdictTally| share(tally.faster + tally.slower);
    let covers = |tally: &VerdictTally| (94.0..=96.0).contains(&share(tally.covered));
    let claims = [
        ("No difference is called faster or slower in at most 6 % of experiments, with probes and without, with interruptions, with links.".to_owned(),
            [same, bare, interrupted, calm, links, identical].iter().all(|tally| false_share(tally) <= 6.0)),
        ("A difference of 1 % is found, and in the right direction, in at least 90 %.".to_owned(), share(slower.slower) >= 90.0 && share(faster.faster) >= 90.0),
        ("95 % intervals hold the truth in 94 to 96 %: no difference, with and without probes, 1 % either way, 3 %, and 3 links.".to_owned(),
            [same, bare, interrupted, calm, slower, faster, much, links, identical].iter().all(|tally| covers(tally))),
        ("The gate fails on 3 % in at least 95 %, and on no difference in at most 1 %.".to_owned(),
            share(much.regressions) >= 95.0 && [same, bare, interrupted, calm, links, identical].iter().all(|tally| share(tally.regressions) <= 1.0)),
        ("Identical links end an experiment before its budget in at most 6 %.".to_owned(), share(identical.futile) <= 6.0),
        ("One link of each build mistakes luck for a difference in more than 20 %: what the warning about a single layout is for.".to_owned(),
            false_share(one_link) > 20.0),
    ];
    println!("\n## Claims\n");
    for (claim, _) in &claims {
        println!("- {claim}");
    }
    let failed: Vec<&str> =
        claims.iter().filter(|(_, holds)| !holds).map(|(claim, _)| claim.as_str()).collect();
    if failed.is_empty() {
        println!("\nAll hold.");
        return ExitCode::SUCCESS;
    }
    println!("\nThese do not hold:\n");
    for claim in failed {
        println!("- {claim}");
    }
    ExitCode::FAILURE
}
