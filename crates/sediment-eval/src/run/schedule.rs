// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the schedule of links: the order within a block and its environment padding, from the seed and the block's
//! number.

use crate::plan::{Plan, WorkloadKind};
use sediment_core::random::Generator;

/// A planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRun {
    /// Index of the workload.
    pub workload: usize,
    /// Index of the variant.
    pub variant: usize,
    /// Number of the variant's link.
    pub replica: u32,
    /// The block; None for a warm-up.
    pub block: Option<u32>,
    /// Position within the block.
    pub slot: u32,
    /// Bytes of environment padding, the same for the whole block.
    pub padding: u64,
}

/// Purposes of random streams: even numbers for order, odd numbers for padding.
fn purpose(block: u32, padding: bool) -> u64 {
    2 * u64::from(block) + u64::from(padding)
}

fn links(plan: &Plan) -> Vec<(usize, u32)> {
    let of = |(index, replicas): (usize, u32)| (0..replicas).map(move |replica| (index, replica));
    plan.variants.iter().map(|variant| variant.replicas).enumerate().flat_map(of).collect()
}

fn workloads(plan: &Plan) -> impl Iterator<Item = usize> + '_ {
    let runs = |(_, workload): &(usize, &crate::plan::PlannedWorkload)| {
        !matches!(workload.kind, WorkloadKind::Import(_))
    };
    plan.workloads.iter().enumerate().filter(runs).map(|(index, _)| index)
}

/// Returns the runs of a block: workload after workload, and in each every link once in random order.
#[must_use]
pub fn block(plan: &Plan, seed: u64, number: u32) -> Vec<PlannedRun> {
    let mut order = Generator::stream(seed, purpose(number, false));
    let padding = Generator::stream(seed, purpose(number, true)).below(plan.run.padding as usize + 1) as u64;
    let mut runs = Vec::new();
    for workload in workloads(plan) {
        let mut links = links(plan);
        order.shuffle(&mut links);
        runs.extend(links.into_iter().zip(0..).map(|((variant, replica), slot)| PlannedRun {
            workload,
            variant,
            replica,
            block: Some(number),
            slot,
            padding,
        }));
    }
    runs
}

/// The uncounted runs before the first block, without padding.
#[must_use]
pub fn warm_ups(plan: &Plan) -> Vec<PlannedRun> {
    let mut runs = Vec::new();
    for _ in 0..plan.run.warm_ups {
        for workload in workloads(plan) {
            runs.extend(links(plan).into_iter().zip(0..).map(|((variant, replica), slot)| PlannedRun {
                workload,
                variant,
                replica,
                block: None,
                slot,
                padding: 0,
            }));
        }
    }
    runs
}

/// Number of runs in a block.
#[must_use]
pub(crate) fn runs_per_block(plan: &Plan) -> usize {
    links(plan).len() * workloads(plan).count()
}
