// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the readers for instrumented programs (gmon.out, uftrace, lists of entries): goldens, known runs
//! in every form, and damage.

use proptest::prelude::*;
use sediment_core::binary::{Binary, Files};
use sediment_core::profile::source::Unknown;
use sediment_core::{ErrorCode, Result};
use sediment_read::read::{self, READERS, ReadSettings, Reader, Recording, Spot, Step};
use sediment_read::resolve::{self, resolve, resolve_with};
use std::collections::BTreeMap;
use support::damage;
use support::describe;
use support::describe::describe;
use support::elf_writer::{Elf, Function};
use support::run_text::{FUNCTION, Gmon, Run, Truth};

const FORMATS: [&str; 3] = ["gmon", "uftrace", "entry-trace"];
const PROGRAM: &str = "/opt/program";

fn with_program() -> ReadSettings {
    ReadSettings { program: Some(PROGRAM.to_owned()), ..ReadSettings::default() }
}

fn read_with(bytes: &[u8], settings: &ReadSettings) -> Result<Recording> {
    read::read(&bytes, settings)
}

/// If the name of the folder begins with `alone-`, the input is read without a program.
#[test]
fn goldens() {
    for format in FORMATS {
        for case in support::golden_cases(&format!("read/{format}")) {
            let name = case.file_name().unwrap().to_string_lossy().into_owned();
            assert!(case.join("how.txt").is_file(), "{name}: how was its input made?");
            let input = std::fs::read(case.join("input")).unwrap();
            let settings = if name.contains("alone") { ReadSettings::default() } else { with_program() };
            let outcome = match read_with(&input, &settings) {
                Ok(recording) => describe(&recording) + &steps_of(&input, &settings, &recording),
                Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
            };
            support::golden(&format!("read/{format}/{name}/expected"), &outcome);
        }
    }
}

fn steps_of(input: &[u8], settings: &ReadSettings, recording: &Recording) -> String {
    let mut text = String::new();
    let known = read::replay(&input, settings, recording, &mut |step: Step| match step {
        Step::Run { thread, place } => {
            text += &format!("  {thread}: {}\n", describe::place(recording, place));
        }
        Step::Gap { thread } => text += &format!("  {thread}: gap\n"),
    })
    .unwrap();
    if known { format!("steps:\n{text}") } else { text }
}

fn run() -> Run {
    Run::generate(40, 3, 6_000, 11)
}

/// Returns the content of a recording, by the numbers of the run's functions.
fn truth_of(recording: &Recording, run: &Run, base: u64) -> Truth {
    let number = |place: read::AddressId| match &recording.addresses()[place.0 as usize].spot {
        Spot::Symbol { name, .. } => run.names.iter().position(|known| known.as_bytes() == name).unwrap(),
        Spot::Address(address) => ((address - base) / FUNCTION) as usize,
        Spot::FileOffset(_) => panic!("none of these formats has offsets"),
    };
    let mut truth = Truth::default();
    for (from, to, _, count) in recording.transfers() {
        *truth.calls.entry((number(from), number(to))).or_default() += count;
    }
    for (place, cost) in recording.samples() {
        *truth.own.entry(number(place)).or_default() += cost;
    }
    truth.starts = recording.total - truth.calls.values().sum::<u128>();
    truth
}

fn ticks(run: &Run) -> BTreeMap<usize, u128> {
    let truth = run.truth();
    let all = (0..run.names.len()).map(|function| (function, u128::from(Run::ticks(&truth, function))));
    all.filter(|(_, ticks)| *ticks > 0).collect()
}

#[test]
fn every_form_of_gmon_reads_as_the_run_that_it_was_written_of() {
    let run = run();
    for (wide, little) in [(true, true), (true, false), (false, true), (false, false)] {
        let base = if wide { 0x1040 } else { 0x0804_9000 };
        let file = run.gmon(Gmon { wide, little, base });
        let recording = read_with(&file, &with_program()).unwrap();
        let expected = Truth { own: ticks(&run), starts: 0, steps: Vec::new(), ..run.truth() };
        assert_eq!(truth_of(&recording, &run, base), expected, "wide {wide}, little {little}");
        assert!(recording.skipped.is_empty());
        assert_eq!(recording.dsos()[0].path, PROGRAM);
        let error = read_with(&file, &ReadSettings::default()).unwrap_err();
        assert!(error.hint().unwrap().contains("--binary"), "{error}");
        for cut in [3, 10, 30, 60, file.len() - 1, file.len() - 7] {
            let outcome = read_with(&file[..cut], &with_program());
            assert!(outcome.is_err(), "cut off at {cut}: {outcome:?}");
        }
    }
}

#[test]
fn arcs_alone_have_the_width_that_makes_sense() {
    // 13 arcs of 21 bytes have the same length as 21 arcs of 13.
    let mut file = b"gmon\x01\0\0\0".to_vec();
    file.resize(20, 0);
    for number in 0..13u64 {
        file.push(1);
        file.extend((0x1100 + 16 * number).to_le_bytes());
        file.extend(0x1009u64.to_le_bytes());
        file.extend(2u32.to_le_bytes());
    }
    let recording = read_with(&file, &with_program()).unwrap();
    assert_eq!((recording.total, recording.addresses().len()), (26, 14));
}

/// Returns the steps, by the numbers of the functions.
fn steps(bytes: &[u8], run: &Run, recording: &Recording) -> Vec<(u64, Option<usize>)> {
    let mut found = Vec::new();
    let known = read::replay(&bytes, &with_program(), recording, &mut |step: Step| {
        found.push(match step {
            Step::Run { thread, place } => {
                let Spot::Symbol { name, .. } = &recording.addresses()[place.0 as usize].spot else {
                    panic!()
                };
                (thread, run.names.iter().position(|known| known.as_bytes() == name))
            }
            Step::Gap { thread } => (thread, None),
        });
    });
    assert!(known.unwrap());
    found
}

#[test]
fn a_dump_of_uftrace_reads_as_the_run_that_it_was_printed_of() {
    let run = run();
    let truth = run.truth();
    let text = run.dump();
    let recording = read_with(text.as_bytes(), &with_program()).unwrap();
    let found = truth_of(&recording, &run, 0);
    assert_eq!((&found.calls, found.starts, &found.own), (&truth.calls, truth.starts, &truth.own));
    assert!(!recording.source.unknown.contains(&Unknown::OwnCost), "{}", recording.source);
    assert_eq!(steps(text.as_bytes(), &run, &recording), truth.steps);
}

#[test]
fn a_list_of_entries_keeps_their_order() {
    let run = run();
    let text = run.entries();
    let recording = read_with(text.as_bytes(), &with_program()).unwrap();
    let entered: Vec<usize> =
        run.events.iter().filter(|event| event.enters).map(|event| event.function).collect();
    let mut counts: BTreeMap<usize, u128> = BTreeMap::new();
    entered.iter().for_each(|function| *counts.entry(*function).or_default() += 1);
    assert_eq!(truth_of(&recording, &run, 0), Truth { own: counts, ..Truth::default() });
    let mut expected: Vec<(u64, Option<usize>)> =
        entered.into_iter().map(|function| (0, Some(function))).collect();
    expected.dedup();
    assert_eq!(steps(text.as_bytes(), &run, &recording), expected);
}

struct OneBinary(Elf);

impl Files for OneBinary {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        (path == PROGRAM).then(|| self.0.bytes())
    }
}

/// Makes a program with functions of [`FUNCTION`] bytes, each with a call that ends at the address in the run's
/// gmon.out; returns it with its first address.
fn program(functions: usize) -> (Elf, u64) {
    let mut text = vec![0x90; functions * FUNCTION as usize];
    for function in 0..functions {
        text[function * FUNCTION as usize + 9 - 5] = 0xe8;
    }
    let symbol = |number: usize| Function::global(&format!("f{number}"), number as u64 * FUNCTION, FUNCTION);
    let elf = Elf { text, symbols: Some((0..functions).map(symbol).collect()), ..Elf::default() };
    let base = Binary::parse(&elf.bytes(), &sediment_core::binary::NoFiles).unwrap().functions[0].address;
    (elf, base)
}

#[test]
fn addresses_become_functions_of_the_recorded_binary_alone() {
    let run = run();
    let (elf, base) = program(run.names.len());
    let recording = read_with(&run.gmon(Gmon { wide: true, little: true, base }), &with_program()).unwrap();
    let (profile, skipped) = resolve(&recording, &OneBinary(elf)).unwrap();
    let truth = run.truth();
    assert_eq!(profile.total, truth.calls.values().sum::<u128>());
    let calls: BTreeMap<(String, String), u128> = profile
        .edges()
        .into_iter()
        .map(|(a, b, facts)| {
            ((profile.key(a).name.clone(), profile.key(b).name.clone()), facts.count.unwrap())
        })
        .collect();
    let expected: BTreeMap<(String, String), u128> =
        truth.calls.iter().map(|((a, b), count)| ((format!("f{a}"), format!("f{b}")), *count)).collect();
    assert_eq!(calls, expected);
    assert!(skipped.is_empty(), "{skipped:?}");

    // Another build has the same functions, four bytes further on.
    let (mut other, _) = program(run.names.len());
    other.text.rotate_right(4);
    let error = resolve(&recording, &OneBinary(other)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WrongBinary, "{error}");
    assert!(error.to_string().contains("25 of the 25") && error.to_string().contains("0x403009"), "{error}");
    assert!(error.hint().unwrap().contains("--binary"), "{error:?}");
    let (mut other, _) = program(run.names.len());
    other.text.rotate_right(4);
    let trusting = resolve::ResolveSettings { ignore_build_id: true, ..Default::default() };
    assert!(resolve_with(&recording, &OneBinary(other), trusting).is_ok(), "who asks for it gets it");
}

/// If calls cannot be seen in the code, the name of the counting function shows that a program was compiled with `-pg`.
#[test]
fn a_program_of_another_machine_names_the_counting_function() {
    const MIPS: u16 = 8;
    let run = run();
    let (elf, base) = program(run.names.len());
    let recording = read_with(&run.gmon(Gmon { wide: true, little: true, base }), &with_program()).unwrap();
    let error = resolve(&recording, &OneBinary(Elf { machine: MIPS, ..elf.clone() })).unwrap_err();
    assert_eq!(error.code(), ErrorCode::WrongBinary, "{error}");
    let mut counting = Elf { machine: MIPS, ..elf };
    counting.symbols.as_mut().unwrap().push(Function::local("__gnu_mcount_nc", 0, 0, "mcount.c"));
    assert!(resolve(&recording, &OneBinary(counting)).is_ok());
}

#[test]
fn imports_resolve_to_the_exporting_library() {
    let text = "main\nwork\nputs\nmain\n";
    let recording = read_with(text.as_bytes(), &with_program()).unwrap();
    let symbols = vec![Function::global("main", 0, 16), Function::global("work", 16, 16)];
    let elf = Elf { symbols: Some(symbols), imports: vec!["puts".to_owned()], ..Elf::default() };
    let (profile, _) = resolve(&recording, &OneBinary(elf)).unwrap();
    let mut found: Vec<(Option<&str>, &str)> = profile
        .functions()
        .into_iter()
        .map(|function| (profile.key(function).dso.as_deref(), profile.key(function).name.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(None, "puts"), (Some("program"), "main"), (Some("program"), "work")]);
}

fn readers() -> impl Iterator<Item = &'static Reader> {
    READERS.iter().filter(|reader| FORMATS.contains(&reader.name))
}

fn does_no_harm(bytes: &[u8]) {
    for reader in readers() {
        let _ = (reader.recognises)(bytes);
        let settings = with_program();
        match (reader.read)(&bytes, &settings) {
            Ok(recording) => {
                assert!(
                    !recording.addresses().is_empty() || !recording.skipped.is_empty(),
                    "an empty success"
                );
                assert!(recording.addresses().len() <= bytes.len());
                if let Some(replay) = reader.replay {
                    let addresses = recording.addresses().len();
                    (replay.steps)(&bytes, &settings, &recording, &mut |step: Step| {
                        if let Step::Run { place, .. } = step {
                            assert!((place.0 as usize) < addresses);
                        }
                    })
                    .unwrap();
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let run = Run::generate(12, 2, 120, 3);
    let gmon = |wide, little| run.gmon(Gmon { wide, little, base: 0x1000 });
    let mut whole = vec![gmon(true, true), gmon(false, false)];
    whole.extend([run.dump(), run.entries()].map(String::into_bytes));
    damage::damaged(whole, b"[](){}\"<>:/.-| \n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_do_no_harm(bytes in damaged()) {
        does_no_harm(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..600), begin in 0..3usize) {
        let beginning: &[u8] = [&b""[..], b"gmon\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"reading 1.dat\n"][begin];
        bytes.splice(0..0, beginning.iter().copied());
        does_no_harm(&bytes);
    }
}
