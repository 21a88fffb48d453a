// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the text of perf script and of perf report with stacks, and of folded stacks: goldens, generated files
//! compared with their sources, and damage.

use proptest::prelude::*;
use sediment_core::skipped::Reason;
use sediment_read::read::{self, READERS, ReadSettings, Recording, StackOrder, Step, TransferKind};
use std::collections::BTreeMap;
use support::damage;
use support::describe::{describe, place};
use support::perf_script_text::{
    Form, Program, Truth, print_branches, print_chains, print_folded, truth_of_branches, truth_of_chains,
    truth_of_folded,
};
use support::read;

const FORMATS: [&str; 3] = ["perf-script", "perf-stacks", "folded"];

#[test]
fn goldens() {
    for format in FORMATS {
        for case in support::golden_cases(&format!("read/{format}")) {
            let name = case.file_name().unwrap().to_string_lossy().into_owned();
            assert!(case.join("how.txt").is_file(), "{name}: how was its input made?");
            let input = std::fs::read(case.join("input")).unwrap();
            let outcome = match read(&input) {
                Ok(recording) => describe(&recording),
                Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
            };
            support::golden(&format!("read/{format}/{name}/expected"), &outcome);
        }
    }
}

#[test]
fn each_sample_file_is_taken_for_what_it_is() {
    for format in READERS.iter().map(|reader| reader.name).filter(|name| *name != "perf-data") {
        for case in support::golden_cases(&format!("read/{format}")) {
            let Ok(input) = std::fs::read(case.join("input")) else { continue };
            let name = read::find(&input, &ReadSettings::default()).map(|reader| reader.name);
            // A damaged sample of another reader may fit none.
            let ours = FORMATS.contains(&format);
            if ours && case.to_string_lossy().contains("interpreter-alone") {
                continue;
            }
            assert!(name.as_ref().map_or(!ours, |name| *name == format), "{}: {name:?}", case.display());
        }
    }
}

fn read_truth(recording: &Recording) -> Truth {
    let mut truth = Truth::default();
    for (from, to, _, count) in recording.transfers() {
        *truth.calls.entry((place(recording, from), place(recording, to))).or_default() += count;
    }
    for (id, cost) in recording.samples() {
        *truth.costs.entry(place(recording, id)).or_default() += cost;
    }
    truth
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for bits in 0..1u32 << 9 {
        let bit = |number: u32| bits & 1 << number != 0;
        let form = Form {
            command: bit(0),
            process: bit(1),
            processor: bit(2),
            time: bit(3),
            period: bit(4),
            event: bit(5),
            offset: bit(6),
            object: bit(7),
            inlined: bit(8),
            carriage_returns: bits % 5 == 0,
            ..Form::default()
        };
        // A command without a thread is useless, and perf prints a processor and a period only with the other fields.
        let threaded = form.command || form.process;
        if (form.processor || form.period) && !(threaded && form.time && form.event)
            || form.command && !threaded
        {
            continue;
        }
        if !threaded && (form.time || form.event) {
            continue;
        }
        forms.push(form);
    }
    forms
}

#[test]
fn call_chains_read_as_what_they_were_printed_from() {
    let program = Program::generate(40, 60, 7);
    for form in forms() {
        let text = print_chains(&program, form);
        let recording = read(text.as_bytes()).unwrap_or_else(|error| panic!("{form:?}: {error}\n{text}"));
        let truth = truth_of_chains(&program, form);
        assert_eq!(read_truth(&recording), truth, "{form:?}\n{text}");
        assert_eq!(recording.total, truth.calls.values().sum::<u128>());
        let event = if form.event { " (cycles:u)" } else { "" };
        assert_eq!(
            recording.source.to_string(),
            format!("perf call stacks{event} without call counts or time order")
        );
        let inlined = recording.skipped.items(Reason::InlinedFrame);
        assert_eq!(inlined > 0, form.inlined);
    }
}

#[test]
fn branches_read_as_what_they_were_printed_from() {
    let program = Program::generate(40, 60, 9);
    for form in forms() {
        for (names, untyped) in [(false, false), (false, true), (true, false), (true, true)] {
            // Without a process, the addresses of several processes could not be distinguished.
            if form.inlined || form.offset || form.object || !names && !form.process {
                continue;
            }
            let form = Form { names, untyped, ..form };
            let text = print_branches(&program, form);
            let recording = read(text.as_bytes()).unwrap_or_else(|error| panic!("{form:?}: {error}\n{text}"));
            let truth = truth_of_branches(&program, form);
            assert_eq!(read_truth(&recording).calls, truth, "{form:?}: {:?}", recording.skipped);
            assert_eq!(recording.total, truth.values().sum::<u128>(), "{form:?}");
            let ledger: u64 = recording.skipped.iter().map(|(_, entry)| entry.items).sum();
            let all: usize = program.branches.iter().map(|sample| sample.branches.len()).sum();
            assert_eq!(
                u128::from(ledger) + recording.total,
                all as u128,
                "{form:?}: {:?}",
                recording.skipped
            );
        }
    }
}

/// Replays each branch stack from its oldest entry, with all ends that are calls.
#[test]
fn the_order_of_branches_is_told_again() {
    let program = Program::generate(20, 30, 3);
    for names in [false, true] {
        let form = Form { process: true, time: true, event: true, names, ..Form::default() };
        let text = print_branches(&program, form).into_bytes();
        let recording = read(&text).unwrap();
        let mut steps = Vec::new();
        assert!(
            read::replay(&text, &ReadSettings::default(), &recording, &mut |step: Step| steps.push(step))
                .unwrap()
        );
        let gaps = steps.iter().filter(|step| matches!(step, Step::Gap { .. })).count();
        assert_eq!(gaps, program.branches.len(), "one before each sample");
        // Every call of the recording occurs in the steps, the source before the target.
        let mut told: BTreeMap<(u32, u32), u128> = BTreeMap::new();
        for pair in steps.windows(2) {
            if let [Step::Run { place: from, .. }, Step::Run { place: to, thread }] = pair {
                assert!((107..110).contains(thread));
                *told.entry((from.0, to.0)).or_default() += 1;
            }
        }
        for (from, to, _, count) in recording.transfers() {
            if from != to {
                assert!(told.get(&(from.0, to.0)).is_some_and(|seen| *seen >= count), "{from:?} {to:?}");
            }
        }
    }
}

#[test]
fn folded_stacks_read_as_what_they_were_printed_from() {
    let program = Program::generate(40, 200, 5);
    let truth = truth_of_folded(&program);
    for process in [None, Some("my_prog"), Some("postgres:_io-7/12")] {
        let text = print_folded(&program, process);
        let recording = read(text.as_bytes()).unwrap();
        assert_eq!(read_truth(&recording), truth, "{text}");
        let names = recording.skipped.items(Reason::ProcessName);
        assert_eq!(names, if process.is_some() { 200 } else { 0 });
    }
    // The reversed form is read correctly if the settings say so.
    let reversed: String = print_folded(&program, None)
        .lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            format!("{} {count}\n", stack.split(';').rev().collect::<Vec<_>>().join(";"))
        })
        .collect();
    let settings = ReadSettings { stacks: Some(StackOrder::CalleeFirst), ..ReadSettings::default() };
    assert_eq!(read_truth(&read::read(&reversed.into_bytes(), &settings).unwrap()), truth);
}

#[test]
fn stacks_of_a_report_that_shows_no_direction_need_to_be_told() {
    let case = support::root().join("tests/golden/read/perf-stacks/error-sorted-without-symbols/input");
    let input = std::fs::read(case).unwrap();
    let with = |stacks| read::read(&input, &ReadSettings { stacks: Some(stacks), ..ReadSettings::default() });
    let down = read_truth(&with(StackOrder::CallerFirst).unwrap());
    assert!(down.calls.keys().any(|(from, to)| from == "-:main" && to == "-:hot"), "{down:?}");
    let up = read_truth(&with(StackOrder::CalleeFirst).unwrap());
    assert!(up.calls.keys().any(|(from, to)| from == "-:hot" && to == "-:main"), "{up:?}");
    // If the text itself shows its order, a setting cannot change it.
    let case = support::root().join("tests/golden/read/perf-stacks/folded-caller/input");
    let input = std::fs::read(case).unwrap();
    let settings = ReadSettings { stacks: Some(StackOrder::CalleeFirst), ..ReadSettings::default() };
    assert!(read::read(&input, &settings).unwrap_err().to_string().contains("other end"));
}

#[test]
fn untyped_addresses_are_left_to_the_elf_file() {
    let text = "PERF_RECORD_MMAP2 7/7: [0x400000(0x1000) @ 0 08:01 1 0]: r-xp /p\n 400010 0x400010/0x400100/P/-/-/3 \n";
    let recording = read(text.as_bytes()).unwrap();
    assert!(matches!(recording.transfers()[..], [(_, _, TransferKind::Branch, 1)]));
}

#[test]
fn hostile_input_is_read_in_linear_time() {
    let many = |unit: &str| unit.repeat(200_000);
    let texts = [
        format!("x 1 1.000001: cycles:u:  1 f (/p){}/P/-/-/1/CALL\n", many("a)/")),
        format!("x 1 1.000001: cycles:u:  1 f (/p){}+0x0/b+0x0/P/-/-/1/CALL\n", many(")(")),
        format!("x 1 1.000001: cycles:u: \n{}\n", many("\t  1 f+0x1 (/p)\n")),
        format!("x 1 1.000001: cycles:u:  1 0x1/0x2/P/-/-/1\n{}", many("PERF_RECORD_FORK(2:2):(1:1)\n")),
        format!("{} 1\n", many("a;b;")),
        many("a;b 1\n"),
    ];
    for text in texts {
        for reader in READERS.iter().filter(|reader| FORMATS.contains(&reader.name)) {
            let _ = (reader.recognises)(text.as_bytes());
            let _ = (reader.read)(&text.as_bytes(), &ReadSettings::default());
        }
    }
}

/// Makes a file and a few changes that damage it.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let mut whole: Vec<Vec<u8>> = Vec::new();
    for format in FORMATS {
        for case in support::golden_cases(&format!("read/{format}")) {
            whole.push(std::fs::read(case.join("input")).unwrap());
        }
    }
    damage::damaged(whole, b"(0x/+;[]\n\t -:.)A")
}

fn stays_in_proportion(bytes: &[u8]) {
    for reader in READERS.iter().filter(|reader| FORMATS.contains(&reader.name)) {
        let _ = (reader.recognises)(bytes);
        match (reader.read)(&bytes, &ReadSettings::default()) {
            Ok(recording) => {
                assert!(!recording.addresses().is_empty(), "an empty success");
                assert!(recording.addresses().len() + recording.transfers().len() <= bytes.len());
                if let Some(replay) = reader.replay {
                    let mut count = 0;
                    (replay.steps)(&bytes, &ReadSettings::default(), &recording, &mut |_| count += 1)
                        .unwrap();
                    assert!(count <= bytes.len());
                }
            }
            Err(error) => assert!(error.hint().is_some() || !error.to_string().is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        stays_in_proportion(&bytes);
    }

    #[test]
    fn damaged_files_do_no_harm(bytes in damaged()) {
        stays_in_proportion(&bytes);
    }
}
