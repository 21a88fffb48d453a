// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that programs which fit the caches keep their input order from engine 3 on, and that all others have the order
//! of engine 2.

use sediment_core::binary::objects::{InputObjects, ObjectFunction, ObjectPath};
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::callgraph::{FunctionId, GroupKind};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::order::algorithms::{INPUT, algorithm};
use sediment_order::order::versions::{Engine, engine};
use sediment_order::order::{self, Aim, OrderMethod, OrderRequest, Ordering, Selection};

const COUNT: u64 = 60;

/// Returns the functions in the order of their addresses. Their names sort differently.
fn names() -> Vec<String> {
    (0..COUNT).map(|place| format!("f{}", place * 37 % COUNT)).collect()
}

/// Each function calls the one half a program further on.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let functions: Vec<_> = names()
        .iter()
        .map(|name| profile.function(FunctionKey::new(Some(b"prog"), name.as_bytes(), None).unwrap()))
        .collect();
    let half = functions.len() / 2;
    for (caller, callee) in functions.iter().zip(&functions[half..]) {
        profile.edge_mut(*caller, *callee).count = Some(1000);
    }
    profile.source.insert("callgrind".to_owned());
    profile
}

fn binary(size: u64) -> Binary {
    let functions = names().into_iter().zip(0u64..).map(|(name, place)| BinaryFunction {
        name,
        address: 0x1000 + place * (size + 64),
        size,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    });
    Binary { functions: functions.collect(), ..Binary::default() }
}

fn objects(size: u64) -> InputObjects {
    let functions = names().into_iter().zip(0usize..).map(|(name, place)| ObjectFunction {
        section: format!(".text.{name}"),
        name,
        size,
        local: false,
        file: None,
        path: 0,
        place: (place, 0),
    });
    let mut objects = InputObjects::default();
    objects.paths.push(ObjectPath::File("prog.o".to_owned()));
    objects.functions.extend(functions);
    objects
}

fn compute(
    profile: &Profile,
    selection: &Selection<'_>,
    engine: &'static Engine,
    aim: Option<Aim>,
) -> Ordering {
    let request = OrderRequest { method: OrderMethod::Engine(engine), aim, ..OrderRequest::default() };
    order::compute(profile, selection, &request).unwrap()
}

fn ids(ordering: &Ordering) -> Vec<FunctionId> {
    ordering.order.functions().collect()
}

#[test]
fn a_program_that_fits_keeps_its_input_order() {
    let (profile, binary, objects) = (profile(), binary(512), objects(512));
    let latest = engine(3).unwrap();
    for selection in [
        Selection::Binary { binary: &binary, file_name: "prog" },
        Selection::Objects { objects: &objects, label: Some("prog") },
    ] {
        let made = compute(&profile, &selection, latest, None);
        assert!(made.keeps_input_order && made.outcome.start == INPUT);
        assert_eq!(ids(&made), made.built.graph.ids().collect::<Vec<_>>());
        let placed: Vec<&str> =
            made.order.functions().map(|id| made.built.table.keys[id.index()].name.as_str()).collect();
        assert_eq!(placed, names());
        assert_eq!(made.order.groups.iter().map(|group| group.kind).collect::<Vec<_>>(), [GroupKind::Hot]);
    }
}

#[test]
fn a_program_that_does_not_fit_has_the_order_of_the_former_engine() {
    let profile = profile();
    // 30 hot functions of 2 KiB.
    let (binary, objects) = (binary(2048), objects(2048));
    for selection in [
        Selection::Binary { binary: &binary, file_name: "prog" },
        Selection::Objects { objects: &objects, label: Some("prog") },
    ] {
        let [before, now] = [2, 3].map(|number| compute(&profile, &selection, engine(number).unwrap(), None));
        assert!(!now.keeps_input_order);
        assert_eq!(ids(&before), ids(&now));
        assert_ne!(ids(&now), now.built.graph.ids().collect::<Vec<_>>());
    }
}

#[test]
fn former_engines_know_no_caches() {
    let (profile, binary) = (profile(), binary(512));
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    for number in [1, 2] {
        let made = compute(&profile, &selection, engine(number).unwrap(), None);
        let cdsort = OrderMethod::Algorithm(
            algorithm("cdsort").unwrap(),
            order::algorithms::AlgorithmOptions::default(),
        );
        let request = OrderRequest { method: cdsort, ..OrderRequest::default() };
        assert_eq!(ids(&made), ids(&order::compute(&profile, &selection, &request).unwrap()));
    }
}

#[test]
fn without_a_known_input_order_it_is_the_former_order() {
    let profile = profile();
    let mut lto = objects(512);
    lto.unknown = 1;
    for selection in [
        Selection::Everything,
        Selection::Dso("prog"),
        Selection::Objects { objects: &lto, label: Some("prog") },
    ] {
        let [before, now] = [2, 3].map(|number| compute(&profile, &selection, engine(number).unwrap(), None));
        assert!(!now.keeps_input_order);
        assert_eq!(ids(&before), ids(&now));
    }
}

#[test]
fn an_order_for_the_start_stays_by_first_use() {
    let (mut profile, binary) = (profile(), binary(512));
    for (rank, name) in (0u64..).zip(names().iter().rev()) {
        let function = profile.function(FunctionKey::new(Some(b"prog"), name.as_bytes(), None).unwrap());
        profile.facts_mut(function).first = Some(rank);
    }
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    let made = compute(&profile, &selection, engine(3).unwrap(), Some(Aim::Startup));
    assert!(!made.keeps_input_order);
    assert_eq!(ids(&made), (0..COUNT as u32).rev().map(FunctionId).collect::<Vec<_>>());
    let both = compute(&profile, &selection, engine(3).unwrap(), Some(Aim::Both));
    assert!(both.keeps_input_order);
    assert!(ids(&both).windows(2).any(|pair| pair[0] > pair[1]), "the rest by first use");
}
