// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the time order of a run, compared with its definition, and of the trace file: written, read, damaged.

use proptest::prelude::*;
use sediment_core::callgraph::FunctionId;
use sediment_core::functions::FunctionTable;
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use sediment_core::{ErrorCode, ErrorLocation};
use sediment_read::read::{AddressId, Step};
use sediment_read::trace::StepCounter;
use sediment_read::trace::file::{self, TraceRecord, TraceRecords, TraceWriter};
use std::collections::{BTreeMap, BTreeSet};

const FUNCTIONS: u32 = 14;

/// Makes a profile of the functions `f0`, `f1`, …, and the function of each address: two addresses for each function,
/// followed by one without a function.
fn profile() -> (Profile, Vec<Option<FunctionIndex>>) {
    let mut profile = Profile::default();
    let mut addresses = Vec::new();
    for number in 0..FUNCTIONS {
        let key = FunctionKey {
            dso: (number % 3 > 0).then(|| format!("lib{}.so", number % 3)),
            name: format!("f{number}"),
            file: (number == 5).then(|| "five.c".to_owned()),
        };
        let function = profile.function(key);
        addresses.extend([Some(function), Some(function), None]);
    }
    (profile, addresses)
}

fn run(thread: u64, place: u32) -> Step {
    Step::Run { thread, place: AddressId(place) }
}

/// The definition, literally: for each beginning, the last eight distinct functions since the gap, and those of them
/// that ran since the function's own last use.
#[derive(Default)]
struct Definition {
    history: BTreeMap<u64, Vec<u32>>,
    affinity: BTreeMap<(u32, u32), u128>,
    first: Vec<u32>,
}

impl Definition {
    fn step(&mut self, step: Step) {
        let (thread, place) = match step {
            Step::Gap { thread } => {
                self.history.remove(&thread);
                return;
            }
            Step::Run { thread, place } => (thread, place.0),
        };
        if place >= 3 * FUNCTIONS || place % 3 == 2 {
            return;
        }
        let function = place / 3;
        if !self.first.contains(&function) {
            self.first.push(function);
        }
        let history = self.history.entry(thread).or_default();
        if history.last() == Some(&function) {
            return;
        }
        let mut distinct = Vec::new();
        for &earlier in history.iter().rev() {
            if earlier == function || distinct.len() == 8 {
                break;
            }
            if !distinct.contains(&earlier) {
                distinct.push(earlier);
            }
        }
        for earlier in distinct {
            *self.affinity.entry((earlier, function)).or_default() += 1;
        }
        history.push(function);
    }
}

fn affinity_of(profile: &Profile) -> BTreeMap<(u32, u32), u128> {
    let edges = profile.edges();
    edges
        .into_iter()
        .map(|(a, b, facts)| ((a.index() as u32, b.index() as u32), facts.affinity.unwrap()))
        .collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (0..2u64, 0..3 * FUNCTIONS + 2).prop_map(|(thread, place)| run(thread, place)),
        1 => (0..2u64).prop_map(|thread| Step::Gap { thread }),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn near_and_first_are_what_their_definition_says(steps in steps()) {
        let (mut profile, addresses) = profile();
        let mut definition = Definition::default();
        steps.iter().for_each(|step| definition.step(*step));
        let mut sequence = StepCounter::new(&addresses);
        sequence.steps(&steps);
        sequence.put_into(&mut profile, true);
        prop_assert_eq!(affinity_of(&profile), definition.affinity);
        for function in profile.functions() {
            let rank = definition.first.iter().position(|first| *first as usize == function.index());
            prop_assert_eq!(profile.facts(function).first, rank.map(|rank| rank as u64));
        }
    }

    #[test]
    fn parts_between_gaps_add_up_to_the_whole(parts in prop::collection::vec(steps(), 1..5)) {
        let (mut at_once, addresses) = profile();
        let (mut in_parts, _) = profile();
        let mut whole = StepCounter::new(&addresses);
        let mut first: Option<StepCounter<'_>> = None;
        for part in &parts {
            whole.steps(&[Step::Gap { thread: 0 }, Step::Gap { thread: 1 }]);
            whole.steps(part);
            let mut apart = StepCounter::new(&addresses);
            apart.steps(part);
            match &mut first {
                None => first = Some(apart),
                Some(first) => first.absorb(apart),
            }
        }
        let first = first.unwrap();
        prop_assert_eq!(first.runs(), whole.runs());
        first.put_into(&mut in_parts, true);
        whole.put_into(&mut at_once, true);
        prop_assert_eq!(in_parts, at_once);
    }

    #[test]
    fn a_trace_reads_back_as_it_ran(steps in steps()) {
        let (profile, addresses) = profile();
        let file = written(&profile, &addresses, &[&steps]);
        let (mut thread, mut defined, mut read) = (0, Vec::new(), Vec::new());
        let input = file.as_slice();
        let mut records = TraceRecords::of(&input).unwrap();
        while let Some(record) = records.next().unwrap() {
            match record {
                TraceRecord::Thread(number) => thread = number,
                TraceRecord::Definition(key) => defined.push(key),
                TraceRecord::Gap => read.push((thread, None)),
                TraceRecord::Run(number) => read.push((thread, Some(defined[number as usize].name.clone()))),
            }
        }
        prop_assert_eq!(read, told(&steps));
    }

    #[test]
    fn damage_is_an_error_or_another_trace(steps in steps(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (profile, addresses) = profile();
        let mut file = written(&profile, &addresses, &[&steps]);
        let at = at.index(file.len());
        if cut {
            file.truncate(at);
            prop_assert!(load(&file).is_err(), "a file that is cut off has no end");
        } else {
            file[at] = byte;
            let _ = load(&file);
        }
    }

    #[test]
    fn noise_is_no_trace(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = load(&noise);
        let _ = load(&[b"sediment trace 1\n".as_slice(), &noise].concat());
    }
}

fn load(file: &[u8]) -> sediment_core::Result<(sediment_core::callgraph::Trace, sediment_core::Skipped)> {
    let (profile, _) = profile();
    let keys = profile.functions().into_iter().map(|function| profile.key(function).clone()).collect();
    file::load(&file, &FunctionTable { keys, ..Default::default() })
}

/// Returns the changes of function, with threads numbered by their first run.
fn told(steps: &[Step]) -> Vec<(u64, Option<String>)> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut last: BTreeMap<u64, Option<u32>> = BTreeMap::new();
    let mut told = Vec::new();
    for step in steps {
        let thread = match step {
            Step::Run { thread, place } if place.0 < 3 * FUNCTIONS && place.0 % 3 < 2 => *thread,
            Step::Gap { thread } => *thread,
            Step::Run { .. } => continue,
        };
        if !numbers.contains(&thread) {
            numbers.push(thread);
        }
        let number = numbers.iter().position(|known| *known == thread).unwrap() as u64;
        match step {
            Step::Gap { .. } => {
                if let Some(last) = last.get_mut(&thread) {
                    *last = None;
                }
            }
            Step::Run { place, .. } => {
                let function = place.0 / 3;
                match last.insert(thread, Some(function)) {
                    Some(Some(before)) if before == function => {}
                    Some(None) => told.extend([(number, None), (number, Some(format!("f{function}")))]),
                    _ => told.push((number, Some(format!("f{function}")))),
                }
            }
        }
    }
    told
}

fn written(profile: &Profile, addresses: &[Option<FunctionIndex>], parts: &[&[Step]]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, profile, addresses);
    for part in parts {
        part.iter().for_each(|step| writer.step(*step));
        writer.begin_part();
    }
    writer.finish().unwrap();
    file
}

/// f0 f1 f2 f1: f0 is near f1 and f2; f1 is near f2; when f1 runs again, only f2 has run since.
#[test]
fn only_what_ran_since_its_own_last_use_is_near() {
    let (mut profile, addresses) = profile();
    let mut sequence = StepCounter::new(&addresses);
    sequence.steps(&[run(7, 0), run(7, 3), run(7, 6), run(7, 4), run(7, 5), run(7, 3)]);
    sequence.put_into(&mut profile, false);
    let expected = BTreeMap::from([((0, 1), 1), ((0, 2), 1), ((1, 2), 1), ((2, 1), 1)]);
    assert_eq!(affinity_of(&profile), expected);
    assert!(profile.functions().into_iter().all(|function| profile.facts(function).first.is_none()));
}

/// A walk through so many functions that almost all pairs are distinct; between its steps, two functions keep calling
/// each other.
#[test]
fn of_too_many_pairs_the_rarest_are_left_out_and_counted() {
    const WANDERED: u32 = 4_000;
    let mut profile = Profile::default();
    let key = |number: u32| FunctionKey { dso: None, name: format!("f{number}"), file: None };
    let addresses: Vec<_> = (0..WANDERED).map(|number| Some(profile.function(key(number)))).collect();
    let mut sequence = StepCounter::new(&addresses);
    let mut random = 1u64;
    let (mut told, mut often) = (0u128, 0u128);
    for round in 0..60_000u32 {
        sequence.step(Step::Gap { thread: 1 });
        for place in [0, 1] {
            sequence.step(run(1, place));
        }
        often += 1;
        sequence.step(Step::Gap { thread: 1 });
        let walk: BTreeSet<u32> = (0..4)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(round) | 1);
                (random >> 40) as u32 % WANDERED
            })
            .collect();
        told += (walk.len() * (walk.len() - 1) / 2) as u128;
        walk.into_iter().for_each(|place| sequence.step(run(1, place)));
    }
    let skipped = sequence.put_into(&mut profile, true);
    let affinity: Vec<u128> =
        profile.edges().into_iter().filter_map(|(_, _, facts)| facts.affinity).collect();
    assert!(affinity.len() <= 1 << 18 && affinity.contains(&often), "{} pairs", affinity.len());
    let left_out: Vec<_> = skipped.iter().map(|(_, entry)| (entry.items, entry.weight)).collect();
    let kept: u128 = affinity.iter().sum();
    assert!(
        matches!(left_out[..], [(items, weight)] if items > 0 && weight + kept == told + often),
        "{left_out:?}"
    );
    // No omitted pair came as often as a kept one.
    let (items, weight) = left_out[0];
    let least = affinity.iter().min().unwrap();
    assert!(u128::from(items) * least > weight, "{items} pairs, {weight}, at least {least}");
}

/// Counts of several inputs add up, and the lowest rank wins.
#[test]
fn counts_of_several_traces_add_up() {
    let (mut profile, addresses) = profile();
    for order in [[0, 3, 6], [3, 0, 6]] {
        let mut sequence = StepCounter::new(&addresses);
        sequence.steps(&order.map(|place| run(1, place)));
        sequence.put_into(&mut profile, true);
    }
    let ranks: Vec<Option<u64>> =
        addresses.iter().step_by(3).take(4).map(|f| profile.facts(f.unwrap()).first).collect();
    assert_eq!(ranks, [Some(0), Some(0), Some(2), None]);
    assert_eq!(affinity_of(&profile)[&(0, 2)], 2);
}

/// A trace of the functions of one DSO, with breaks where threads change and after gaps; omitted steps are counted.
#[test]
fn a_trace_of_some_of_the_functions() {
    let (profile, addresses) = profile();
    let one = [run(1, 3), run(1, 0), run(1, 3), run(2, 12), Step::Gap { thread: 2 }, run(2, 12), run(2, 3)];
    let file = written(&profile, &addresses, &[&one, &[run(1, 3)]]);
    let keys: Vec<FunctionKey> =
        [1usize, 4].iter().map(|number| profile.key(addresses[3 * number].unwrap()).clone()).collect();
    let (trace, skipped) =
        file::load(&file.as_slice(), &FunctionTable { keys, ..Default::default() }).unwrap();
    // f1 (f0) f1 | f4 gap f4 f1 | f1
    assert_eq!(trace.functions, [0, 1, 1, 0, 0].map(FunctionId));
    assert_eq!(trace.breaks, [1, 2, 4]);
    assert_eq!(skipped.iter().map(|(_, entry)| entry.items).sum::<u64>(), 1);
    let names: BTreeSet<Option<&str>> = skipped.iter().map(|(_, entry)| entry.example.as_deref()).collect();
    assert_eq!(names, BTreeSet::from([Some("f0")]));
}

#[test]
fn wrong_traces_are_refused() {
    let (profile, addresses) = profile();
    let good = written(&profile, &addresses, &[&[run(1, 0), run(1, 3)]]);
    let damaged = |change: fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        load(&file).unwrap_err()
    };
    type TraceDamage = fn(&mut Vec<u8>);
    assert_eq!(damaged(|file| file[0] = b'S').code(), ErrorCode::UnknownFormat);
    assert_eq!(damaged(|file| file[15] = b'7').code(), ErrorCode::NewerVersion);
    let cases: [(TraceDamage, u64, &str); 5] = [
        (|file| drop(file.split_off(file.len() - 2)), 0x25, ""),
        (|file| file.push(0), 0x25, "1 byte"),
        (|file| file[17] = 9, 0x11, "function 5"),
        (|file| file.splice(17.., [3, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).for_each(drop), 0x13, "4294967295"),
        (|file| file.splice(17.., [0xff; 11]).for_each(drop), 0x11, "64 bits"),
    ];
    for (change, offset, named) in cases {
        let error = damaged(change);
        assert_eq!(error.location(), Some(ErrorLocation::Offset(offset)), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    assert!(load(b"").unwrap_err().hint().is_some());
}

/// Writes fail as if the disk were full.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("no space left"))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failure_to_write_is_reported_at_the_end() {
    let (profile, addresses) = profile();
    let mut writer = TraceWriter::new(Full, &profile, &addresses);
    for number in 0..100_000 {
        writer.step(run(1, number % 2 * 3));
    }
    assert_eq!(writer.finish().unwrap_err().to_string(), "no space left");
}
