// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of orders in groups, and of the engines: the order of a released engine must never change.

mod groups;
mod keeping;

use proptest::prelude::*;
use sediment_core::callgraph::FunctionId;
use sediment_order::order::versions::{ENGINES, LATEST};
use sediment_order::order::{AIMS, GroupingInput, arrange, keep};
use std::collections::BTreeSet;
use std::fmt::Write;
use support::graphs;
use support::graphs::Shape;

/// Checks the order of each engine for one invented program. If this fails for the latest engine, orders have changed.
/// Bless it if no release has this engine yet; otherwise put the change into a new engine and mention it in
/// CHANGELOG.md.
#[test]
fn engines_give_the_orders_of_their_release() {
    let graph = graphs::graph(Shape::Program, 300, 1500, 5);
    for engine in ENGINES {
        let mut text = String::new();
        for function in engine.sequence(&graph, &[]).order {
            writeln!(text, "{}", function.0).unwrap();
        }
        support::golden(&format!("arrange/engine-{}.txt", engine.number), &text);
    }
}

#[test]
fn engines_are_numbered_and_the_changelog_knows_the_latest() {
    assert!(ENGINES.iter().zip(1..).all(|(engine, number)| engine.number == number));
    let changelog = std::fs::read_to_string(support::root().join("CHANGELOG.md")).unwrap();
    assert!(
        changelog.contains(&format!("engine {}", LATEST.number)),
        "CHANGELOG.md: a line for engine {}",
        LATEST.number
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_aim_places_every_function_once(seed in 0u64..1000, known in proptest::collection::vec(proptest::option::of(0u64..50), 0..60)) {
        let graph = graphs::graph(Shape::Program, 40, 120, seed);
        let sequence: Vec<FunctionId> = graph.ids().collect();
        for (aim, _, _) in AIMS {
            let order = arrange(&GroupingInput { graph: &graph, first: &known }, &sequence, *aim);
            let placed: Vec<FunctionId> = order.functions().collect();
            prop_assert_eq!(placed.len(), graph.len());
            prop_assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), graph.len());
        }
    }

    #[test]
    fn an_older_order_loses_nobody(seed in 0u64..1000, old in proptest::collection::vec(0u32..80, 0..80), threshold in 0.0f64..0.2) {
        let graph = graphs::graph(Shape::Program, 60, 200, seed);
        let new = LATEST.sequence(&graph, &[]).order;
        let old: Vec<FunctionId> = old.into_iter().map(FunctionId).collect();
        let misses = |order: &[FunctionId]| sediment_order::order::predicted_misses(&graph, &[], order);
        let kept = keep::keep(&graph, &old, &new, threshold, &misses);
        prop_assert_eq!(kept.order.len(), graph.len());
        prop_assert_eq!(kept.order.iter().collect::<BTreeSet<_>>().len(), graph.len());
        prop_assert!(kept.cost <= kept.cost_of_old);
        // Functions that do not move keep their sequence.
        let stays: Vec<FunctionId> = kept.order.iter().copied().filter(|f| !kept.moved[f.index()] && !kept.added[f.index()]).collect();
        let mut rest = old.iter().filter(|f| f.index() < graph.len());
        prop_assert!(stays.iter().all(|function| rest.any(|other| other == function)));
    }
}
