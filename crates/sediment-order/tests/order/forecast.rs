// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of forecasts of what an order changes in a linked program, and of the goal that follows from them for
//! recordings of starts.

use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::order::forecast::{ForecastProgram, OrderGain};
use sediment_order::order::{self, Aim, Older, OrderRequest, Selection, functions_named};

/// Bytes of a function: two fill a page.
const SIZE: u64 = 2048;

/// Makes a program with its functions in this order, `gap` bytes apart.
fn linked(names: &[String], gap: u64) -> Binary {
    let functions = names.iter().zip(0u64..).map(|(name, place)| BinaryFunction {
        name: name.clone(),
        address: 0x1000 + place * (SIZE + gap),
        size: SIZE,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    });
    Binary { functions: functions.collect(), ..Binary::default() }
}

fn names(letter: char, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{letter}{number}")).collect()
}

fn key(name: &str) -> FunctionKey {
    FunctionKey::new(Some(b"prog"), name.as_bytes(), None).unwrap()
}

/// Each `f` calls its `g`. The order of first use is all `f`, then all `g`.
fn profile(count: usize, source: &str) -> Profile {
    let mut profile = Profile::default();
    profile.source.insert(source.to_owned());
    for (letter, turn) in [('f', 0), ('g', 1)] {
        for (name, number) in names(letter, count).iter().zip(0u64..) {
            let function = profile.function(key(name));
            profile.facts_mut(function).first = Some(turn * count as u64 + number);
        }
    }
    for (f, g) in names('f', count).iter().zip(names('g', count)) {
        let [caller, callee] = [f, &g].map(|name| profile.function(key(name)));
        profile.edge_mut(caller, callee).count = Some(1000);
    }
    profile
}

const STARTS: &str = "breakpoints (first uses) without call counts or own cost";

fn served(profile: &Profile, binary: Option<&Binary>) -> Option<Aim> {
    let selection = match binary {
        Some(binary) => Selection::Binary { binary, file_name: "prog" },
        None => Selection::Everything,
    };
    order::compute(profile, &selection, &OrderRequest::default()).unwrap().served
}

#[test]
fn recordings_of_starts_are_ordered_for_the_start() {
    assert_eq!(served(&profile(200, STARTS), None), Some(Aim::Startup));
    assert_eq!(served(&profile(200, "callgrind"), None), Some(Aim::Steady));
    let mut merged = profile(200, STARTS);
    merged.source.insert("callgrind".to_owned());
    assert_eq!(served(&merged, None), Some(Aim::Both));
    // The program is linked with scattered functions, so its start can gain.
    let scattered: Vec<String> = names('g', 200).into_iter().chain(names('f', 200)).collect();
    assert_eq!(served(&profile(200, STARTS), Some(&linked(&scattered, 8192))), Some(Aim::Startup));
}

#[test]
fn an_order_for_the_start_that_is_worse_than_none_is_not_chosen() {
    // Each pair is on a page of its own. In the order of first use, no call would stay on its page.
    let pairs: Vec<String> =
        names('f', 200).into_iter().zip(names('g', 200)).flat_map(|(f, g)| [f, g]).collect();
    let binary = linked(&pairs, 0);
    let mut profile = profile(200, STARTS);
    assert_ne!(served(&profile, Some(&binary)), Some(Aim::Startup));
    // For a merge of starts and other runs, the start alone is never the goal.
    profile.source.insert("callgrind".to_owned());
    assert_ne!(served(&profile, Some(&binary)), Some(Aim::Startup));
    // If the goal is requested, it is used.
    let request = OrderRequest { aim: Some(Aim::Startup), ..OrderRequest::default() };
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    assert_eq!(order::compute(&profile, &selection, &request).unwrap().served, Some(Aim::Startup));
}

#[test]
fn no_order_is_made_if_all_are_worse_for_the_start() {
    let all: Vec<String> = names('f', 200).into_iter().chain(names('g', 200)).collect();
    let mut binary = linked(&all, 0);
    // In the file the functions are on four pages. No order could pack functions of this size so densely.
    for (function, place) in binary.functions.iter_mut().zip(0u64..) {
        function.address = 0x1000 + 32 * place;
    }
    let profile = profile(200, STARTS);
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    for more in [None, Some("callgrind")] {
        let mut profile = profile.clone();
        profile.source.extend(more.map(str::to_owned));
        let made = order::compute(&profile, &selection, &OrderRequest::default()).unwrap();
        assert_eq!((made.is_best_as_linked, made.served, made.order.functions().count()), (true, None, 0));
    }
    // A requested goal or an older order takes precedence over the linked file.
    let asked = OrderRequest { aim: Some(Aim::Both), ..OrderRequest::default() };
    let older = Older { file: "older".to_owned(), names: all, threshold: 0.02 };
    let kept = OrderRequest { older: Some(&older), ..OrderRequest::default() };
    for (request, aim) in [(asked, Aim::Both), (kept, Aim::Steady)] {
        let made = order::compute(&profile, &selection, &request).unwrap();
        assert_eq!((made.is_best_as_linked, made.served), (false, Some(aim)));
        assert_eq!(made.order.functions().count(), 400);
    }
}

#[test]
fn the_functions_in_between_count() {
    // Packed, the two hundred functions fill a hundred pages; in the file each is on a page of its own.
    let profile = profile(100, "callgrind");
    let all: Vec<String> = names('f', 100).into_iter().chain(names('g', 100)).collect();
    let binary = linked(&all, 3 * SIZE);
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    let built = order::build(&profile, &selection).unwrap();
    let program = ForecastProgram::new(&profile, &built, &[]).unwrap();
    let order: Vec<FunctionId> = built.graph.ids().collect();
    let gain = program.gain(&order).unwrap();
    assert_eq!((gain.before.pages, gain.after.pages), (200, 100));
    assert!(gain.ratio() < 0.9 && !gain.is_nothing() && !gain.is_worse(), "{gain:?}");
    // With before and after exchanged, the layout is worse.
    let worse = OrderGain { before: gain.after, after: gain.before };
    assert!(worse.is_worse(), "{worse:?}");
    // The functions are already packed, so there is nothing to gain.
    let packed = linked(&all, 0);
    let selection = Selection::Binary { binary: &packed, file_name: "prog" };
    let built = order::build(&profile, &selection).unwrap();
    let gain = ForecastProgram::new(&profile, &built, &[]).unwrap().gain(&order).unwrap();
    assert!(gain.is_nothing() && (gain.ratio() - 1.0).abs() < 1e-9, "{gain:?}");
    // A graph without a binary does not show how the program is linked.
    let built = order::build(&profile, &Selection::Everything).unwrap();
    assert!(ForecastProgram::new(&profile, &built, &[]).unwrap().gain(&order).is_none());
}

#[test]
fn code_at_the_top_of_memory_is_forecast_as_any() {
    let profile = profile(100, "callgrind");
    let all: Vec<String> = names('f', 100).into_iter().chain(names('g', 100)).collect();
    let gain = |offset: u64| {
        let mut binary = linked(&all, 3 * SIZE);
        for function in &mut binary.functions {
            function.address += offset;
        }
        let built =
            order::build(&profile, &Selection::Binary { binary: &binary, file_name: "prog" }).unwrap();
        let order: Vec<FunctionId> = built.graph.ids().collect();
        ForecastProgram::new(&profile, &built, &[]).unwrap().gain(&order).unwrap()
    };
    // This is the address of the Linux kernel.
    assert_eq!(gain(0xffff_ffff_8100_0000), gain(0));
    assert_eq!(gain(0).before.pages, 200);
}

#[test]
fn a_trace_is_counted() {
    let profile = profile(100, "callgrind");
    let all: Vec<String> = names('f', 100).into_iter().chain(names('g', 100)).collect();
    let binary = linked(&all, 3 * SIZE);
    let built = order::build(&profile, &Selection::Binary { binary: &binary, file_name: "prog" }).unwrap();
    let trace =
        Trace { functions: (0..1000).map(|turn| FunctionId(turn % 200)).collect(), breaks: Vec::new() };
    let traces = [&trace];
    let program = ForecastProgram::new(&profile, &built, &traces).unwrap();
    let order: Vec<FunctionId> = built.graph.ids().collect();
    let gain = program.gain(&order).unwrap();
    // The run goes round over 200 pages, or over 100 with two functions each: every change of page misses.
    assert_eq!(gain.before.misses[1], 1000.0);
    assert_eq!(gain.after.misses[1], 500.0);
}

#[test]
fn a_merged_profile_forecasts_what_its_recordings_do() {
    let all: Vec<String> = names('f', 200).into_iter().chain(names('g', 200)).collect();
    let binary = linked(&all, 3 * SIZE);
    let forecast = |profile: &Profile| {
        let built = order::build(profile, &Selection::Binary { binary: &binary, file_name: "prog" }).unwrap();
        let order: Vec<FunctionId> = built.graph.ids().collect();
        let gain = ForecastProgram::new(profile, &built, &[]).unwrap().gain(&order).unwrap();
        assert!(!gain.is_nothing(), "{gain:?}");
        gain.ratio()
    };
    // Makes a short recording, and one ten times as long.
    let recording = |calls: u128| {
        let mut profile = profile(200, "callgrind");
        for (f, g) in names('f', 200).iter().zip(names('g', 200)) {
            let [caller, callee] = [f, &g].map(|name| profile.function(key(name)));
            profile.edge_mut(caller, callee).count = Some(calls);
        }
        profile.total = 200 * calls;
        profile
    };
    let recordings = [recording(1000), recording(10_000)];
    for weight in ["1", "0.5", "1000"].map(|weight| Weight::parse(weight).unwrap()) {
        let merged = merge(&[(&recordings[0], weight), (&recordings[1], Weight::ONE)], false).unwrap();
        for recording in &recordings {
            let off = forecast(&merged) - forecast(recording);
            assert!(off.abs() < 0.15, "{off}");
        }
    }
}

#[test]
fn samples_without_calls_give_no_verdict() {
    let mut profile = Profile::default();
    profile.source.insert("perf samples (cycles:u) without call counts".to_owned());
    let all: Vec<String> = names('f', 200).into_iter().chain(names('g', 200)).collect();
    for name in &all {
        let function = profile.function(key(name));
        profile.facts_mut(function).samples = Some(100);
    }
    let binary = linked(&all, 3 * SIZE);
    let built = order::build(&profile, &Selection::Binary { binary: &binary, file_name: "prog" }).unwrap();
    let order: Vec<FunctionId> = built.graph.ids().collect();
    let program = ForecastProgram::new(&profile, &built, &[]).unwrap();
    assert!(!program.has_calls() && program.gain(&order).is_none());
}

#[test]
fn a_small_program_has_nothing_to_gain() {
    let profile = profile(4, "callgrind");
    let all: Vec<String> = names('f', 4).into_iter().chain(names('g', 4)).collect();
    let binary = linked(&all, 3 * SIZE);
    let built = order::build(&profile, &Selection::Binary { binary: &binary, file_name: "prog" }).unwrap();
    let order: Vec<FunctionId> = built.graph.ids().collect();
    let gain = ForecastProgram::new(&profile, &built, &[]).unwrap().gain(&order).unwrap();
    assert!(gain.is_nothing() && gain.after.pages < gain.before.pages, "{gain:?}");
}

#[test]
fn functions_of_an_ordering_file() {
    let mut profile = Profile::default();
    for (name, file) in [("twin", Some("a.c")), ("twin", Some("b.c")), ("single", None)] {
        let file = file.map(str::as_bytes);
        profile.function(FunctionKey::new(Some(b"prog"), name.as_bytes(), file).unwrap());
    }
    let built = order::build(&profile, &Selection::Everything).unwrap();
    let listed = |asked: &[(&str, Option<&str>)]| -> Vec<String> {
        let found = functions_named(&built.table, asked.iter().copied());
        let key = |id: FunctionId| built.table.keys[id.index()].clone();
        found
            .into_iter()
            .map(key)
            .map(|key| format!("{} {}", key.name, key.file.unwrap_or_default()))
            .collect()
    };
    assert_eq!(listed(&[("gone", None), ("twin", Some("b.o")), ("single", None)]), ["twin b.c", "single "]);
    assert_eq!(listed(&[("twin", None), ("twin", None)]), ["twin a.c", "twin b.c"]);
}
