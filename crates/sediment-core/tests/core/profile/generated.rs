// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random profiles, small and with colliding names.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use sediment_core::profile::blocks::{BlockCounts, GraphCounts};
use sediment_core::profile::counters::{ArcCounters, CounterVariant, VariantCounts};
use sediment_core::profile::quality::RecordingQuality;
use sediment_core::profile::values::Top;
use sediment_core::profile::{
    CallKind, DsoFacts, EdgeFacts, FunctionFacts, FunctionKey, Heat, Millionths, Profile, SHARE_TOTAL,
    WeightUnit,
};
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a profile as lists, which can be assembled in any order.
#[derive(Debug, Clone)]
pub(crate) struct ProfileParts {
    pub source: BTreeSet<String>,
    pub unit: WeightUnit,
    pub total: u128,
    pub arch: BTreeSet<String>,
    pub inputs: Option<u64>,
    pub quality: RecordingQuality,
    pub clusters: BTreeMap<String, DsoFacts>,
    pub functions: Vec<(FunctionKey, FunctionFacts)>,
    /// Caller and callee as indices of `functions`.
    pub edges: Vec<(usize, usize, EdgeFacts)>,
}

impl ProfileParts {
    /// Assembles the profile in an order that depends on `turn`.
    pub(crate) fn profile(&self, turn: usize) -> Profile {
        let mut profile = Profile::default();
        profile.source = self.source.clone();
        profile.unit = self.unit;
        profile.total = self.total;
        profile.arch = self.arch.clone();
        profile.inputs = self.inputs;
        profile.quality = self.quality;
        let turned = |length: usize| -> Vec<usize> {
            let mut order: Vec<usize> = (0..length).collect();
            if length > 0 {
                order.rotate_left(turn % length);
            }
            if turn % 2 == 1 {
                order.reverse();
            }
            order
        };
        for position in turned(self.functions.len()) {
            let (key, facts) = &self.functions[position];
            let function = profile.function(key.clone());
            *profile.facts_mut(function) = facts.clone();
            let blocks = facts.blocks.iter().flat_map(|blocks| blocks.graphs());
            profile.blocks_total += blocks.map(|(_, graph)| graph.sum().unwrap()).sum::<u128>();
            let counters = facts.counters.iter().flat_map(|counters| counters.variants());
            profile.counters_total += counters.map(|(_, counted)| counted.arcs.sum().unwrap()).sum::<u128>();
        }
        for position in turned(self.edges.len()) {
            let (caller, callee, facts) = &self.edges[position];
            let end = |at: usize| &self.functions[at % self.functions.len()].0;
            let (caller, callee) = (profile.find(end(*caller)).unwrap(), profile.find(end(*callee)).unwrap());
            *profile.edge_mut(caller, callee) = *facts;
        }
        for (label, cluster) in &self.clusters {
            *profile.dso_mut(label) = cluster.clone();
        }
        profile
    }
}

/// Makes texts that a profile may contain. There are few, so that they recur; some are spelled like ids and paths of
/// DOT.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["f", "g", "main", "f@a", "f@a:b.c", "f@:b.c", "f@a#2", "g@b"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec![
            "node", "->", "a\\Nb", "\\\\x", "*", "a b", "%(id)", "ünï", "#", "//", "<b>", "1e5", "-1", "&amp;", ".text",
        ]).prop_map(str::to_owned),
        1 => "[ -!#-\\[\\]-~é→]{0,6}[ -!#-\\[\\]-~é→]".prop_map(String::from),
    ]
}

/// Makes names without a path, for DSOs and files.
fn base() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "b.c", "libc.so.6"]).prop_map(str::to_owned),
        1 => text().prop_map(|text| text.replace('/', "_")),
    ]
}

fn entries() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(text().prop_map(|text| text.replace(", ", ",_")), 0..3)
}

fn amount(unit: WeightUnit) -> BoxedStrategy<u128> {
    match unit {
        WeightUnit::Calls => prop_oneof![Just(0), 1..10u128, Just((1 << 78) - 1), 0..1u128 << 70].boxed(),
        WeightUnit::Share => prop_oneof![Just(0), 1..10u128, 0..SHARE_TOTAL].boxed(),
    }
}

fn estimate() -> impl Strategy<Value = Option<Millionths>> {
    option::of(prop_oneof![0..10u128, 0..1u128 << 60].prop_map(Millionths))
}

fn function_facts(unit: WeightUnit) -> impl Strategy<Value = FunctionFacts> {
    let heats = prop::sample::select(vec![Heat::Hot, Heat::Startup, Heat::Exit, Heat::Cold]);
    let numbers = (option::of(0..1000u64), option::of(amount(unit)), option::of(0..50u64), estimate());
    let numbers = (numbers, option::weighted(0.3, blocks()), option::weighted(0.3, counters()));
    (numbers, option::of(heats), option::of(text()), any::<bool>(), any::<bool>()).prop_map(
        |(((size, samples, first, static_calls), blocks, counters), heat, alias, taken, entry)| {
            FunctionFacts {
                blocks: blocks.map(Box::new),
                counters: counters.map(Box::new),
                size,
                samples,
                first,
                static_calls,
                heat,
                alias,
                taken,
                entry,
            }
        },
    )
}

/// Label of the DSO that may be a stripped one.
const STRIPPED: &str = "b";

/// Makes counts of one or two graphs.
fn blocks() -> impl Strategy<Value = BlockCounts> {
    let graph =
        (0..3u32, vec((1..9u32, 1..1000u128), 0..5), vec(1..9u32, 0..3), vec((1..9u32, any::<u16>()), 0..4));
    vec(graph, 1..3).prop_map(|graphs| {
        let mut blocks = BlockCounts::default();
        for (hash, seen, unknown, signatures) in graphs {
            blocks.add(hash, GraphCounts { seen, unknown, signatures }).unwrap();
        }
        blocks
    })
}

/// Makes counts of arcs of up to two units.
fn counters() -> impl Strategy<Value = ArcCounters> {
    let variant = (base(), 0..2u32, 0..2u32, 0..2u32)
        .prop_map(|(unit, functions, line, graph)| CounterVariant { unit, functions, line, graph });
    vec((variant, vec((prop_oneof![Just(0), 1..1000u128], 0..4u32), 0..5)), 1..3).prop_map(|variants| {
        let mut counters = ArcCounters::default();
        for (variant, runs) in variants {
            let mut counted = VariantCounts::default();
            for (count, number) in runs {
                counted.arcs.extend(count, number).unwrap();
                counted.values.bits.extend(count, number).unwrap();
                let top = Top { total: count, values: [(u64::from(number), count)].into() };
                counted.values.tops.executed.insert(number, top);
                counted.values.tops.statements = 4;
            }
            counters.add(variant, &counted).unwrap();
        }
        counters
    })
}

fn edge_facts(unit: WeightUnit) -> impl Strategy<Value = EdgeFacts> {
    let kinds = prop::sample::select(vec![
        CallKind::Direct,
        CallKind::Indirect,
        CallKind::Thunk,
        CallKind::Uncertain,
    ]);
    (option::of(amount(unit)), option::of(amount(unit)), estimate(), option::of(kinds))
        .prop_map(|(count, affinity, static_calls, kind)| EdgeFacts { count, affinity, static_calls, kind })
}

fn key() -> impl Strategy<Value = FunctionKey> {
    (option::weighted(0.8, base()), text(), option::weighted(0.3, base()))
        .prop_map(|(dso, name, file)| FunctionKey { dso, name, file })
}

/// Makes a profile with this unit.
pub(crate) fn parts_in(unit: WeightUnit) -> impl Strategy<Value = ProfileParts> {
    let cluster = (option::of(prop::sample::select(vec!["00ff", "ab12cd"])), option::of(text())).prop_map(
        |(build_id, package)| DsoFacts { build_id: build_id.map(str::to_owned), package, unresolved: false },
    );
    let edges = vec((any::<usize>(), any::<usize>(), edge_facts(unit)), 0..14);
    let total = match unit {
        WeightUnit::Calls => prop_oneof![1..100u128, Just((1 << 78) - 1), 1..1u128 << 70].boxed(),
        WeightUnit::Share => prop_oneof![Just(SHARE_TOTAL), 1..20 * SHARE_TOTAL].boxed(),
    };
    let share = || option::of((0..=1_000_000u128).prop_map(Millionths));
    let quality = (share(), share()).prop_map(|(covered, uncertain)| RecordingQuality { covered, uncertain });
    let header = (entries(), total, entries(), option::of(0..9u64), quality);
    (header, btree_map(base(), cluster, 0..4), btree_map(key(), function_facts(unit), 0..9), edges).prop_map(
        move |((source, total, arch, inputs, quality), mut clusters, functions, mut edges)| {
            // The DSO of a single build may have functions without names.
            if clusters.contains_key(STRIPPED)
                || functions.keys().any(|key| key.dso.as_deref() == Some(STRIPPED))
            {
                let cluster = clusters.entry(STRIPPED.to_owned()).or_default();
                cluster.build_id = Some("b0".to_owned());
                cluster.unresolved = functions.len() % 2 == 0;
            }
            if functions.is_empty() {
                edges.clear();
            }
            let functions: Vec<_> = functions.into_iter().collect();
            let mut seen = BTreeSet::new();
            edges.retain(|(a, b, _)| seen.insert((a % functions.len(), b % functions.len())));
            // The counted calls are part of the total.
            let most = edges.iter().filter_map(|(_, _, facts)| facts.count).max();
            let total = total.max(most.unwrap_or(0));
            ProfileParts { source, unit, total, arch, inputs, quality, clusters, functions, edges }
        },
    )
}

/// Makes a profile with either unit.
pub(crate) fn parts() -> impl Strategy<Value = ProfileParts> {
    prop_oneof![parts_in(WeightUnit::Calls), parts_in(WeightUnit::Share)]
}
