// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests how often verdicts and the gate are wrong on simulated experiments. This is a small version of
//! `proofs/scripts/eval-errors`, with wider bounds because it runs fewer experiments. Also tests the stopping rule,
//! step by step.

use super::simulated;

use super::simulated::SimulatedWorld;
use sediment_eval::gate::{Gate, gate};
use sediment_eval::verdict::Verdict;
use sediment_eval::{Analysis, NextStep, StoppingBudget, analyse, plan_next};

const EXPERIMENTS: u64 = 150;

/// Returns the whole numbers of a sentence.
fn integers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| word.parse().ok()).collect()
}

fn series(world: SimulatedWorld, experiments: u64) -> Vec<Analysis> {
    let budget = StoppingBudget::default();
    (0..experiments).map(|seed| analyse(&simulated::run(world, &budget, 0.01, seed)).unwrap()).collect()
}

fn count(analyses: &[Analysis], verdict: Verdict) -> usize {
    analyses.iter().filter(|analysis| analysis.workloads[0].verdicts[0].verdict == verdict).count()
}

#[test]
fn identical_builds_are_rarely_told_apart_and_never_fail_the_gate() {
    let analyses = series(SimulatedWorld::UNSTEADY, EXPERIMENTS);
    let mistaken = count(&analyses, Verdict::Faster) + count(&analyses, Verdict::Slower);
    assert!(mistaken <= 9, "{mistaken} of {EXPERIMENTS}");
    assert!(analyses.iter().all(|analysis| gate(analysis) != Gate::Regression));
    let covered = analyses.iter().filter(|analysis| {
        let interval = analysis.workloads[0].headline_comparison(1).unwrap().effect.unwrap().interval;
        interval.lower <= 0.0 && interval.upper >= 0.0
    });
    // 95 % of 150, within three standard deviations.
    let covered = covered.count();
    assert!((135..=150).contains(&covered), "{covered}");
}

#[test]
fn one_per_cent_is_found_and_three_fail_the_gate() {
    let slower = count(
        &series(SimulatedWorld { slower_by: 0.01, ..SimulatedWorld::UNSTEADY }, EXPERIMENTS),
        Verdict::Slower,
    );
    assert!(slower >= 130, "{slower} of {EXPERIMENTS}");
    let much = series(SimulatedWorld { slower_by: 0.03, ..SimulatedWorld::UNSTEADY }, 20);
    assert!(much.iter().all(|analysis| gate(analysis) == Gate::Regression));
    let faster = series(SimulatedWorld { slower_by: -0.03, ..SimulatedWorld::UNSTEADY }, 20);
    assert!(faster.iter().all(|analysis| gate(analysis) == Gate::Pass));
}

#[test]
fn the_luck_of_links_is_no_difference_between_builds() {
    let lucky = SimulatedWorld { link: 0.008, replicas: 3, ..SimulatedWorld::UNSTEADY };
    let analyses = series(lucky, EXPERIMENTS);
    let mistaken = count(&analyses, Verdict::Faster) + count(&analyses, Verdict::Slower);
    assert!(mistaken <= 9, "{mistaken} of {EXPERIMENTS}");
    let split = analyses.iter().map(|analysis| analysis.workloads[0].components.unwrap().between_links);
    let mean = split.sum::<f64>() / EXPERIMENTS as f64;
    assert!((0.006..0.010).contains(&mean), "{mean}");
    assert!(!analyses[0].warnings.iter().any(|warning| warning.contains("single layout")));
    let one_link =
        analyse(&simulated::run(SimulatedWorld::UNSTEADY, &StoppingBudget::default(), 0.01, 1)).unwrap();
    assert_eq!(one_link.warnings.len(), 1);
    assert!(one_link.warnings[0].contains("single layout"), "{:?}", one_link.warnings);
}

#[test]
fn experiments_end_on_precision_or_budget() {
    let calm =
        SimulatedWorld { run: 0.001, first_slot: 0.0, drift_per_hour: 0.0, ..SimulatedWorld::UNSTEADY };
    let budget = StoppingBudget::default();
    let experiment = simulated::run(calm, &budget, 0.01, 3);
    let blocks = experiment.observations.iter().filter_map(|run| run.block).max().unwrap() + 1;
    assert_eq!(blocks, 20, "precise already by its pilot, but no shorter");
    let NextStep::Precise { half_width } = plan_next(&experiment, &budget).unwrap() else {
        panic!("not precise")
    };
    assert!(half_width < budget.precision);

    let noisy = SimulatedWorld { run: 0.05, ..SimulatedWorld::UNSTEADY };
    let experiment = simulated::run(noisy, &budget, 0.01, 3);
    let blocks = experiment.observations.iter().filter_map(|run| run.block).max().unwrap() + 1;
    assert_eq!(blocks, budget.most_blocks);
    let NextStep::Spent { half_width, advice } = plan_next(&experiment, &budget).unwrap() else {
        panic!("not spent")
    };
    assert!(half_width.unwrap() > budget.precision);
    assert!(integers(&advice)[0] > u64::from(budget.most_blocks), "{advice}");

    let lucky = SimulatedWorld { link: 0.02, replicas: 3, ..calm };
    let experiment = simulated::run(lucky, &budget, 0.01, 3);
    let blocks = experiment.observations.iter().filter_map(|run| run.block).max().unwrap() + 1;
    assert_eq!(blocks, 20, "no sooner, and no further");
    let NextStep::Futile { why, .. } = plan_next(&experiment, &budget).unwrap() else {
        panic!("blocks help")
    };
    let links = integers(&why);
    assert!(links.len() == 1 && links[0] > 3, "{why}");
    let advice = analyse(&experiment).unwrap().workloads[0].recommendation.clone();
    assert_eq!(integers(&advice), links, "the same number in the recommendation: {advice}");
}

#[test]
fn links_that_hardly_differ_do_not_end_an_experiment() {
    let vague = SimulatedWorld {
        run: 0.1,
        link: 0.0001,
        first_slot: 0.0,
        drift_per_hour: 0.0,
        ..SimulatedWorld::UNSTEADY
    };
    let vague = SimulatedWorld { replicas: 3, ..vague };
    let budget = StoppingBudget::default();
    let mut said = Vec::new();
    for seed in 0..20 {
        let experiment = simulated::run(vague, &budget, 0.01, seed);
        match plan_next(&experiment, &budget).unwrap() {
            NextStep::Spent { advice, .. } => said.push(advice),
            // One of twenty shows a difference between links by chance.
            NextStep::Futile { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(said.len() >= 17, "{}", said.len());
    for advice in &said {
        let needed = integers(advice);
        assert!(needed.len() == 2 && needed[0] > 1000 && needed[1] > 50, "blocks, or links: {advice}");
    }
    assert!(said.iter().any(|advice| advice.contains(" at least ")), "{said:?}");
}

#[test]
fn the_pilot_comes_first_and_a_senseless_budget_is_refused() {
    let mut experiment = simulated::run(
        SimulatedWorld::UNSTEADY,
        &StoppingBudget { most_blocks: 3, ..StoppingBudget::default() },
        0.01,
        1,
    );
    let budget = StoppingBudget::default();
    assert_eq!(plan_next(&experiment, &budget), Ok(NextStep::MoreBlocks { blocks: 4, half_width: None }));
    experiment.observations.clear();
    assert_eq!(plan_next(&experiment, &budget), Ok(NextStep::MoreBlocks { blocks: 7, half_width: None }));
    assert!(plan_next(&experiment, &StoppingBudget { precision: 0.0, ..budget }).is_err());
    assert!(plan_next(&experiment, &StoppingBudget { most_blocks: 0, ..budget }).is_err());
}

#[test]
fn too_few_blocks_are_refused_with_the_number_that_is_needed() {
    let world = SimulatedWorld { slower_by: 0.5, ..SimulatedWorld::UNSTEADY };
    let experiment =
        simulated::run(world, &StoppingBudget { most_blocks: 5, ..StoppingBudget::default() }, 0.01, 1);
    let analysis = analyse(&experiment).unwrap();
    let build = &analysis.workloads[0].verdicts[0];
    assert_eq!((build.verdict, build.needed), (Verdict::Inconclusive, Some(6)));
    assert_eq!(gate(&analysis), Gate::Inconclusive);
}

#[test]
fn a_difference_within_the_noise_floor_is_none() {
    // Without noise of runs, every difference is certain. The baseline linked again shows the effect of luck alone.
    let world = SimulatedWorld {
        slower_by: 0.002,
        run: 0.0001,
        first_slot: 0.0,
        link: 0.02,
        ..SimulatedWorld::UNSTEADY
    };
    let experiment = simulated::run(world, &StoppingBudget::default(), 0.001, 5);
    let analysis = analyse(&experiment).unwrap();
    let workload = &analysis.workloads[0];
    let floor = workload.noise_floor.as_ref().unwrap();
    let estimate = workload.headline_comparison(1).unwrap().estimate;
    let expected =
        if estimate.abs() <= floor.size { Verdict::Inconclusive } else { workload.verdicts[0].verdict };
    assert!(floor.size > 0.005, "{floor:?}");
    assert_eq!(workload.verdicts[0].verdict, expected);
    // The A/A pair uses the same file, so it stays at zero.
    let same = floor.probes.iter().find(|(variant, _)| *variant == 2).unwrap();
    assert!(same.1.estimate.abs() < 0.001);
}

#[test]
fn wrong_experiments_are_refused_with_a_reason() {
    let good = simulated::run(
        SimulatedWorld::UNSTEADY,
        &StoppingBudget { most_blocks: 3, ..StoppingBudget::default() },
        0.01,
        1,
    );
    let error = |change: &dyn Fn(&mut sediment_eval::Experiment)| {
        let mut bad = good.clone();
        change(&mut bad);
        analyse(&bad).unwrap_err().to_string()
    };
    for (said, named) in [
        (error(&|e| e.primary = "cycles".to_owned()), "cycles"),
        (error(&|e| e.variants.truncate(1)), "two builds"),
        (error(&|e| _ = e.observations[2].values.insert("elapsed".to_owned(), f64::NAN)), "run 3 "),
        (error(&|e| e.observations.push(e.observations[0].clone())), "run 13 "),
        (error(&|e| e.observations[0].variant = 9), "run 1 "),
        (error(&|e| e.confidence = 1.5), "1.5"),
        (error(&|e| e.margin = 0.0), "margin of 0"),
    ] {
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn runs_without_blocks_are_compared_by_welch_or_over_their_links() {
    let world = SimulatedWorld { slower_by: 0.05, run: 0.002, replicas: 1, ..SimulatedWorld::UNSTEADY };
    let unpaired = |world: SimulatedWorld| {
        let mut experiment =
            simulated::run(world, &StoppingBudget { most_blocks: 12, ..StoppingBudget::default() }, 0.01, 2);
        for run in &mut experiment.observations {
            run.block = None;
        }
        analyse(&experiment).unwrap()
    };
    let analysis = unpaired(world);
    let found = analysis.workloads[0].headline_comparison(1).unwrap().clone();
    assert!(found.effect.unwrap().freedom > 10.0 && found.signed_rank.is_none());
    assert_eq!(analysis.workloads[0].verdicts[0].verdict, Verdict::Slower);
    let analysis = unpaired(SimulatedWorld { link: 0.03, replicas: 3, ..world });
    assert_eq!(analysis.workloads[0].headline_comparison(1).unwrap().effect.unwrap().freedom, 4.0);
}

#[test]
fn a_loss_that_may_exceed_the_margin_is_no_pass() {
    // The build is certainly slower, but the interval includes the margin.
    let experiment = simulated::run(
        SimulatedWorld { slower_by: 0.01, ..SimulatedWorld::UNSTEADY },
        &StoppingBudget::default(),
        0.01,
        4,
    );
    let mut analysis = analyse(&experiment).unwrap();
    let interval = analysis.workloads[0].headline_comparison(1).unwrap().effect.unwrap().interval;
    assert!(interval.lower > 0.0 && interval.lower < 0.01 && interval.upper > 0.01, "{interval:?}");
    assert_eq!(analysis.workloads[0].verdicts[0].verdict, Verdict::Slower);
    assert_eq!(gate(&analysis), Gate::Inconclusive);
    analysis.workloads[0].verdicts[0].verdict = Verdict::Equivalent;
    assert_eq!(gate(&analysis), Gate::Pass);
}

#[test]
fn runs_without_the_headline_metric_have_no_verdict() {
    let mut experiment = simulated::run(
        SimulatedWorld { slower_by: 0.05, ..SimulatedWorld::UNSTEADY },
        &StoppingBudget::default(),
        0.01,
        4,
    );
    let blocks = experiment.observations.iter().filter_map(|run| run.block).max().unwrap() + 1;
    let lacking = blocks / 5;
    for run in experiment.observations.iter_mut().filter(|run| run.variant == 1 && run.block < Some(lacking))
    {
        run.values.clear();
    }
    let analysis = analyse(&experiment).unwrap();
    let workload = &analysis.workloads[0];
    assert_eq!(workload.verdicts[0].verdict, Verdict::Inconclusive);
    let numbers = format!("{} of {blocks} runs", blocks - lacking);
    for said in [&workload.verdicts[0].reason, &workload.warnings.join("\n")] {
        assert!(said.contains(&numbers), "{said}");
    }
}

#[test]
fn a_simulated_headline_needs_no_six_blocks() {
    let mut experiment = simulated::run(
        SimulatedWorld { replicas: 2, ..SimulatedWorld::UNSTEADY },
        &StoppingBudget::default(),
        0.01,
        4,
    );
    let simulated =
        |variant: usize, replica: u32| if variant == 1 { 90_000.0 } else { 100_000.0 } + f64::from(replica);
    for run in &mut experiment.observations {
        let value = simulated(run.variant, run.replica);
        run.values = if run.block < Some(2) { [("I1 misses".to_owned(), value)].into() } else { [].into() };
    }
    experiment.metrics[0].name = "I1 misses".to_owned();
    experiment.metrics[0].unit = "count".to_owned();
    experiment.metrics[0].kind = sediment_eval::MetricKind::Simulated;
    experiment.primary = "I1 misses".to_owned();
    let analysis = analyse(&experiment).unwrap();
    let workload = &analysis.workloads[0];
    assert_eq!(workload.verdicts[0].verdict, Verdict::Faster, "{:?}", workload.verdicts);
    assert!(workload.recommendation.contains("new: 10.0 %"), "{}", workload.recommendation);
    assert!(workload.warnings.iter().any(|warning| warning.contains("4 of 80 runs of new")));
    assert!(workload.warnings[0].contains("simulated"), "{:?}", workload.warnings);
}
