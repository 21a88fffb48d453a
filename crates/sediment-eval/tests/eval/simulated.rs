// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments on a simulated machine with drift, slot effects and link luck, whose true values are known.

use sediment_core::random::Generator;
use sediment_eval::{
    Circumstances, Direction, Experiment, Metric, MetricKind, NextStep, Observation, Phase, Probe,
    StoppingBudget, Variant, Workload, plan_next,
};
use std::collections::BTreeMap;

/// The machine and the builds. Deviations and effects are relative: 0.01 is 1 %.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedWorld {
    /// True slow-down of the second build.
    pub slower_by: f64,
    /// Deviation from run to run.
    pub run: f64,
    /// Deviation from link to link of one build.
    pub link: f64,
    /// Links of each build.
    pub replicas: u32,
    /// True if an A/A and an A/A′ pair are included.
    pub probes: bool,
    /// Slow-down by the hour.
    pub drift_per_hour: f64,
    /// Slow-down of the first position in a block.
    pub first_slot: f64,
    /// Deviation from block to block.
    pub block: f64,
    /// One run in this many takes a twentieth longer; 0 for none.
    pub interrupted_one_in: usize,
}

impl SimulatedWorld {
    /// A difficult machine: runs vary by 1 %, it slows down by 5 % per hour, the first run of a block costs 1 % more,
    /// and blocks differ by 1 %.
    pub const UNSTEADY: SimulatedWorld = SimulatedWorld {
        slower_by: 0.0,
        run: 0.01,
        link: 0.0,
        replicas: 1,
        probes: true,
        drift_per_hour: 0.05,
        first_slot: 0.01,
        block: 0.01,
        interrupted_one_in: 0,
    };
}

const SECONDS_A_RUN: f64 = 10.0;

/// Runs an experiment until the stopping rule ends it.
pub fn run(world: SimulatedWorld, budget: &StoppingBudget, margin: f64, seed: u64) -> Experiment {
    let mut numbers = Generator::new(seed);
    let mut experiment = start(world, margin, seed);
    let luck: Vec<Vec<f64>> = experiment
        .variants
        .iter()
        .map(|build| (0..build.replicas).map(|_| world.link * numbers.normal()).collect())
        .collect();
    let mut block = 0;
    while let NextStep::MoreBlocks { blocks, .. } = plan_next(&experiment, budget).unwrap() {
        for _ in 0..blocks {
            add_block(&mut experiment, world, &luck, block, &mut numbers);
            block += 1;
        }
    }
    experiment
}

fn start(world: SimulatedWorld, margin: f64, seed: u64) -> Experiment {
    let build =
        |name: &str, replicas, probe| Variant { name: name.to_owned(), factors: Vec::new(), replicas, probe };
    let mut variants = vec![build("old", world.replicas, None), build("new", world.replicas, None)];
    if world.probes {
        variants.push(build("A/A", 1, Some(Probe::SameFile)));
        variants.push(build("A/A′", 1, Some(Probe::Relinked)));
    }
    let metric = Metric {
        name: "elapsed".to_owned(),
        unit: "s".to_owned(),
        direction: Direction::LowerIsBetter,
        kind: MetricKind::Measured,
    };
    Experiment {
        variants,
        baseline: 0,
        workloads: vec![Workload { name: "simulated".to_owned(), work: None }],
        metrics: vec![metric],
        primary: "elapsed".to_owned(),
        margin,
        confidence: 0.95,
        precision: 0.005,
        observations: Vec::new(),
        summaries: Vec::new(),
        absent: BTreeMap::new(),
        facts: Vec::new(),
        seed,
    }
}

fn add_block(
    experiment: &mut Experiment,
    world: SimulatedWorld,
    luck: &[Vec<f64>],
    block: u32,
    numbers: &mut Generator,
) {
    let mut order: Vec<(usize, u32)> = Vec::new();
    for (variant, build) in experiment.variants.iter().enumerate() {
        order.extend((0..build.replicas).map(|replica| (variant, replica)));
    }
    numbers.shuffle(&mut order);
    let shared = world.block * numbers.normal();
    for (slot, (variant, replica)) in order.into_iter().enumerate() {
        let at = experiment.observations.len() as f64 * SECONDS_A_RUN;
        let build = if variant == 1 { world.slower_by.ln_1p() } else { 0.0 };
        // The A/A pair uses the same file, so it has the luck of the baseline's first link.
        let link = if experiment.variants[variant].probe == Some(Probe::SameFile) {
            luck[0][0]
        } else {
            luck[variant][replica as usize]
        };
        let place = if slot == 0 { world.first_slot } else { 0.0 };
        let interrupted = world.interrupted_one_in > 0 && numbers.below(world.interrupted_one_in) == 0;
        let logarithm = build
            + link
            + place
            + shared
            + world.drift_per_hour * at / 3600.0
            + world.run * numbers.normal()
            + if interrupted { 0.05 } else { 0.0 };
        experiment.observations.push(Observation {
            workload: 0,
            variant,
            replica,
            block: Some(block),
            slot: slot as u32,
            at,
            phase: Phase::Measured,
            work: None,
            values: BTreeMap::from([("elapsed".to_owned(), 10.0 * logarithm.exp())]),
            circumstances: Circumstances::default(),
        });
    }
}
