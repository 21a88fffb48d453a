// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading logs of lackey as recordings and steps: goldens, generated logs compared with their sources,
//! damage.

use proptest::prelude::*;
use sediment_read::read::{self, ReadSettings, Recording, Step, TransferKind};
use std::fmt::Write;
use support::describe::{describe, place};
use support::lackey_log;
use support::lackey_log::{Event, Form, OBJECTS, Truth};
use support::read;

/// Returns the steps of a run. For comparisons, the threads of a process are numbered from 1.
fn steps_of(bytes: &[u8], recording: &Recording) -> Vec<(u64, String)> {
    let mut steps = Vec::new();
    let told = read::replay(&bytes, &ReadSettings::default(), recording, &mut |step: Step| match step {
        Step::Run { thread, place: id } => steps.push((thread & 0xffff_ffff, place(recording, id))),
        Step::Gap { .. } => panic!("a log has no gaps"),
    });
    assert!(told.unwrap());
    steps
}

#[test]
fn goldens() {
    for case in support::golden_cases("read/lackey") {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        assert!(case.join("how.txt").is_file(), "{name}: how was its input made?");
        let input = std::fs::read(case.join("input")).unwrap();
        let found = read::find(&input, &ReadSettings::default()).unwrap();
        assert_eq!(found.name, "lackey", "{name}");
        let outcome = match read(&input) {
            Ok(recording) => {
                let mut text = describe(&recording);
                text += "steps:\n";
                for (thread, place) in steps_of(&input, &recording) {
                    writeln!(text, "  {thread} {place}").unwrap();
                }
                text
            }
            Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
        };
        support::golden(&format!("read/lackey/{name}/expected"), &outcome);
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => (0..OBJECTS.len(), 0..12u64).prop_map(|(object, block)| Event::Block((object, 16 * block))),
        1 => (1..4u32).prop_map(Event::Thread),
    ];
    prop::collection::vec(event, 1..600)
}

fn forms() -> impl Strategy<Value = Form> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(output_between, carriage_returns, times)| Form {
        output_between,
        carriage_returns,
        times,
    })
}

fn truth_of(bytes: &[u8], recording: &Recording) -> Truth {
    let mut truth = Truth { steps: steps_of(bytes, recording), ..Truth::default() };
    for (id, runs) in recording.samples() {
        truth.runs.insert(place(recording, id), runs);
    }
    for (from, to, kind, count) in recording.transfers() {
        assert_eq!(kind, TransferKind::Branch);
        truth.passages.insert((place(recording, from), place(recording, to)), count);
    }
    truth
}

proptest! {
    #[test]
    fn executed_functions_are_read_back(events in events(), form in forms()) {
        let expected = lackey_log::truth(&events);
        let log = lackey_log::print(&events, form);
        match read(log.as_bytes()) {
            Ok(recording) => {
                prop_assert_eq!(recording.total, expected.passages.values().sum::<u128>());
                prop_assert_eq!(recording.arch.as_deref(), Some("x86_64"));
                prop_assert!(recording.skipped.is_empty());
                prop_assert_eq!(truth_of(log.as_bytes(), &recording), expected);
            }
            Err(error) => {
                prop_assert!(expected.runs.is_empty(), "{}", error);
            }
        }
    }

    #[test]
    fn damage_never_panics(events in events(), at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..9), cut in any::<bool>()) {
        let mut log = lackey_log::print(&events, PLAIN).into_bytes();
        let at = at.index(log.len());
        if cut {
            log.truncate(at);
        } else {
            let end = (at + with.len()).min(log.len());
            log.splice(at..end, with);
        }
        if let Ok(recording) = read(&log) {
            steps_of(&log, &recording);
        }
    }
}

const PLAIN: Form = Form { output_between: false, carriage_returns: false, times: false };

/// A run cannot have so many different blocks: the memory for a file must stay in proportion to its size.
#[test]
fn a_file_of_blocks_that_never_repeat_is_no_run() {
    let mut log = lackey_log::print(&[], PLAIN);
    for number in 0..150_000 {
        writeln!(log, "SB {:08x}", 0x40_1070 + number).unwrap();
    }
    let error = read(log.as_bytes()).unwrap_err();
    assert_eq!(error.location(), Some(sediment_core::ErrorLocation::Line(114_301)), "{error}");
}

/// The log is longer than any piece that is read at once, and has lines across the pieces.
#[test]
fn a_long_log_is_read_in_pieces() {
    let blocks: Vec<Event> = (0..200_000u64)
        .map(|number| Event::Block(((number % 4) as usize, number * number % 1009 * 4)))
        .collect();
    let log = lackey_log::print(&blocks, Form { times: true, ..PLAIN });
    assert!(log.len() > 2_000_000);
    let recording = read(log.as_bytes()).unwrap();
    assert_eq!(truth_of(log.as_bytes(), &recording), lackey_log::truth(&blocks));
}
