// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of perf.data files: every record that the generator knows is read and, with the ELF file of the program,
//! resolved.

mod container;
mod samples;

use proptest::prelude::*;
use sediment_core::skipped::Reason;
use sediment_read::read::{RecordedAddress, Recording, Spot, TransferKind};
use std::fmt::Write as _;
use support::perf_data_writer::*;

const PROGRAM: &str = "/home/somebody/bin/program";
const BASE: u64 = 0x5555_5555_4000;
const KERNEL: u64 = 0xffff_ffff_8100_0000;

fn read(bytes: &[u8]) -> Recording {
    support::read(bytes).unwrap()
}

fn error(bytes: &[u8]) -> String {
    let error = support::read(bytes).unwrap_err();
    format!("{error}\nhint: {}", error.hint().unwrap_or("none"))
}

/// Begins a recording of one process, with the program mapped at [`BASE`].
fn begin() -> PerfData {
    let mut file = PerfData::new();
    file.comm(10, "program", true, 1);
    file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
    file
}

fn place(recording: &Recording, place: &RecordedAddress) -> String {
    let dso = place.dso.map_or("?", |id| &recording.dsos()[id.0 as usize].path);
    match &place.spot {
        Spot::FileOffset(offset) | Spot::Address(offset) => format!("{dso}+{offset:#x}"),
        Spot::Symbol { name, .. } => format!("{dso}:{}", String::from_utf8_lossy(name)),
    }
}

/// Returns everything in a recording as text.
fn text(recording: &Recording) -> String {
    let mut text = format!(
        "source: {}\narch: {}\ntotal: {}\n",
        recording.source,
        recording.arch.as_deref().unwrap_or("none"),
        recording.total
    );
    for dso in recording.dsos() {
        writeln!(text, "dso: {} {}", dso.path, dso.build_id.as_deref().unwrap_or("none")).unwrap();
    }
    let at = |id: sediment_read::read::AddressId| place(recording, &recording.addresses()[id.0 as usize]);
    for (from, to, kind, count) in recording.transfers() {
        writeln!(text, "{kind:?}: {} -> {} {count}", at(from), at(to)).unwrap();
    }
    for (place, cost) in recording.samples() {
        writeln!(text, "samples: {} {cost}", at(place)).unwrap();
    }
    for (reason, entry) in recording.skipped.iter() {
        writeln!(text, "left out: {} {} {reason}", entry.items, entry.weight).unwrap();
    }
    text
}

fn kept(recording: &Recording) -> u128 {
    recording.transfers().iter().map(|(.., count)| count).sum()
}

#[test]
fn branches_become_passages_between_bytes_of_files() {
    let mut file = begin();
    file.mmap(10, (0x7000_0000, 0x1000, 0), "[vdso]", 3);
    file.lost(5, 4);
    let at = |offset: u64| BASE + offset;
    file.sample(
        10,
        5,
        at(0x30),
        &[
            Branch::new(at(0x10), at(0x100), UNTYPED),
            Branch::new(at(0x10), at(0x100), UNTYPED),
            Branch::new(at(0x20), at(0x200), CALL),
            Branch::new(at(0x21), at(0x200), INDIRECT_CALL),
            Branch::new(at(0x22), at(0x20), CONDITIONAL),
            Branch::new(at(0x23), at(0x20), JUMP),
            Branch::new(at(0x24), at(0x20), INDIRECT_JUMP),
            Branch::new(at(0x25), at(0x20), RETURN),
            Branch::new(at(0x26), KERNEL, SYSTEM_CALL),
            Branch::new(at(0x27), KERNEL, UNTYPED),
            Branch::new(KERNEL, at(0x28), UNTYPED),
            Branch::new(at(0x29), 0x7000_0010, CALL),
            Branch::new(0x1234, at(0x29), CALL),
            Branch::new(0, at(0x29), CALL),
            Branch { wrong_path: true, ..Branch::new(at(0x30), at(0x40), CALL) },
            Branch { aborted: true, ..Branch::new(at(0x30), at(0x40), UNTYPED) },
        ],
    );
    support::golden("read/perf-data/every-kind-of-branch.txt", &text(&read(&file.finish())));
}

#[test]
fn fields_before_the_branch_stack_are_walked_in_the_kernels_order() {
    let plain = IP | TID | TIME | PERIOD | BRANCH_STACK;
    let all = plain | ADDR | READ | CALLCHAIN | ID | CPU | STREAM_ID | RAW | IDENTIFIER;
    let read_formats = [0, 1, 2, 3, 4, 8, 16, 4 | 8, 4 | 16, 1 | 2 | 4 | 8 | 16];
    let branch_formats = [ANY, ANY | HW_INDEX, ANY | COUNTERS, ANY | HW_INDEX | COUNTERS];
    let optional = [ADDR, READ, CALLCHAIN, ID, CPU, STREAM_ID, RAW, IDENTIFIER, ADDR | READ | RAW, all];
    let mut expected = None;
    for big_endian in [false, true] {
        for sample_type in optional.map(|more| plain | more) {
            for (read_format, branch_sample_type) in
                read_formats.iter().flat_map(|read| branch_formats.iter().map(move |branch| (*read, *branch)))
            {
                let mut file = PerfData::new();
                file.big_endian = big_endian;
                file.events[0].sample_type = sample_type;
                file.events[0].read_format = read_format;
                file.events[0].branch_sample_type = branch_sample_type;
                file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
                let branches = [
                    Branch::new(BASE + 8, BASE + 0x40, CALL),
                    Branch::new(BASE + 0x44, BASE + 0x80, UNTYPED),
                ];
                file.sample(10, 5, BASE + 0x90, &branches);
                file.sample(10, 6, BASE + 0x90, &[]);
                let text = text(&read(&file.finish()));
                let expected = expected.get_or_insert_with(|| text.clone());
                assert_eq!(
                    expected, &text,
                    "{big_endian} {sample_type:#x} {read_format} {branch_sample_type:#x}"
                );
            }
        }
    }
}

#[test]
fn a_processor_that_was_told_to_record_calls_recorded_calls() {
    let mut file = begin();
    file.events[0].branch_sample_type = ANY_CALL | 1;
    file.sample(10, 5, BASE, &[Branch::new(BASE, BASE + 0x10, UNTYPED)]);
    let recording = read(&file.finish());
    assert_eq!(recording.transfers()[0].2, TransferKind::Call);
    assert_eq!(recording.source.to_string(), "perf branch records (branches:u)");
    file.events[0].branch_sample_type = DIRECT_CALL | 1;
    assert_eq!(
        read(&file.finish()).source.to_string(),
        "perf branch records (branches:u) without indirect calls"
    );
}

#[test]
fn addresses_mean_what_was_mapped_when_they_ran() {
    let mut file = begin();
    let branch = [Branch::new(BASE, BASE + 0x10, CALL)];
    // The records are written processor by processor, so the file is not in the order of time.
    file.sample(10, 40, BASE, &branch);
    file.sample(11, 45, BASE, &branch);
    file.sample(10, 80, BASE, &branch);
    file.sample(11, 85, BASE, &branch);
    file.fork(10, 11, 30);
    file.comm(10, "other", true, 60);
    file.mmap2(10, (BASE, 0x1000, 0), "/usr/bin/other", &[], 61);
    file.comm(11, "renamed", false, 62);
    let recording = read(&file.finish());
    let passages: Vec<String> = recording
        .transfers()
        .iter()
        .map(|(from, _, _, count)| {
            format!("{} {count}", place(&recording, &recording.addresses()[from.0 as usize]))
        })
        .collect();
    assert_eq!(passages, [format!("{PROGRAM}+0x1000 3"), "/usr/bin/other+0x0 1".to_owned()]);
}

#[test]
fn build_ids_come_with_the_mapping_or_from_the_table() {
    let mut file = PerfData::new();
    file.mmap2(10, (0x1000, 0x1000, 0), "/a", &[0x11; 16], 1);
    file.mmap2(10, (0x2000, 0x1000, 0), "/b", &[], 1);
    file.mmap2(10, (0x3000, 0x1000, 0), "/c", &[], 1);
    file.mmap2(10, (0x4000, 0x1000, 0), "/d", &[], 1);
    file.build_ids = vec![
        ("/a".to_owned(), vec![0x99; 20], false),
        ("/b".to_owned(), vec![0x22; 20], false),
        ("/c".to_owned(), vec![0x33; 8], true),
    ];
    let branches: Vec<Branch> = (1..=4).map(|i| Branch::new(i * 0x1000, i * 0x1000, CALL)).collect();
    file.sample(10, 5, 0x1000, &branches);
    let recording = read(&file.finish());
    let mut ids: Vec<_> =
        recording.dsos().iter().map(|dso| (dso.path.as_str(), dso.build_id.clone())).collect();
    ids.sort();
    let expected = [
        ("/a", Some("11".repeat(16))),
        ("/b", Some("22".repeat(20))),
        ("/c", Some("33".repeat(8))),
        ("/d", None),
    ];
    assert_eq!(ids, expected);
}

#[test]
fn other_events_beside_the_one_with_branches_do_no_harm() {
    let mut file = PerfData::new();
    file.events[0].sample_type |= IDENTIFIER;
    let branches = file.events[0].clone();
    let sample_type = branches.sample_type & !BRANCH_STACK;
    file.events.push(Event { name: "dummy:u", sample_type, id: 8, ..branches });
    file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[], 2);
    file.sample_of(1, 2, 10, 4, BASE, &[]);
    file.sample(10, 5, BASE, &[Branch::new(BASE, BASE + 0x10, CALL)]);
    let recording = read(&file.finish());
    assert_eq!(
        (kept(&recording), recording.source.to_string()),
        (1, "perf branch records (branches:u)".to_owned())
    );
    assert_eq!(recording.skipped.items(Reason::OtherEvent), 1);
}

#[test]
fn unreadable_files_are_refused_with_offset_and_hint() {
    let sample = |file: &mut PerfData| file.sample(10, 5, BASE, &[Branch::new(BASE, BASE + 0x10, CALL)]);
    let mut good = begin();
    sample(&mut good);
    let good_bytes = good.finish();
    let mut cases: Vec<(&str, Vec<u8>)> = Vec::new();

    let mut file = PerfData::new();
    file.events[0].sample_type = TIME | PERIOD;
    file.sample(10, 5, BASE, &[]);
    cases.push(("nothing of use", file.finish()));
    let mut file = begin();
    file.sample(10, 5, BASE, &[]);
    cases.push(("empty branch stacks", file.finish()));
    cases.push(("no samples", begin().finish()));
    let mut file = begin();
    file.in_folder = true;
    cases.push(("no samples, as they stand in files beside it", file.finish()));
    let mut file = begin();
    file.raw(81, 0, &[0; 64]);
    cases.push(("compressed, but not by zstd", file.finish()));
    cases.push(("from a pipe, with nothing in it", [&b"PERFILE2"[..], &16u64.to_le_bytes()].concat()));
    cases.push(("from a pipe, and zeros", [&b"PERFILE2"[..], &16u64.to_le_bytes(), &[0; 80]].concat()));
    let mut bytes = good_bytes.clone();
    bytes[48..56].fill(0);
    cases.push(("interrupted", bytes));
    let mut bytes = good_bytes.clone();
    bytes[32..40].fill(0);
    cases.push(("no event was found", bytes));
    cases.push(("cut in the header", good_bytes[..60].to_vec()));
    cases.push(("cut in the records", good_bytes[..300].to_vec()));
    cases.push(("cut in the features", good_bytes[..good_bytes.len() - 1].to_vec()));
    let mut file = begin();
    file.bytes(&[9, 0, 0, 0, 0, 0, 4, 0]);
    cases.push(("a record shorter than its head", file.finish()));
    let mut file = begin();
    file.bytes(&[9, 0, 0, 0, 0, 0, 0xf0, 0xff]);
    cases.push(("a record beyond the end", file.finish()));
    let mut file = begin();
    let mut body = vec![0u8; 32];
    body.extend((u64::MAX / 2).to_le_bytes());
    file.raw(9, 2, &body);
    cases.push(("more branches than bytes", file.finish()));

    let mut report = String::new();
    for (name, bytes) in cases {
        writeln!(report, "## {name}\n{}\n", error(&bytes)).unwrap();
    }
    support::golden("read/perf-data/errors.txt", &report);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Damaged files are read or refused, without a panic, and everything that is read is accounted for.
    #[test]
    fn damage_is_survived(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        cut_it in prop::bool::weighted(0.2),
    ) {
        let mut file = begin();
        file.fork(10, 11, 3);
        file.build_ids.push((PROGRAM.to_owned(), vec![0x22; 20], true));
        for time in 4..8 {
            file.sample(10 + time as u32 % 2, time, BASE, &[Branch::new(BASE, BASE + 0x10, CALL), Branch::new(BASE + 4, KERNEL, UNTYPED)]);
        }
        let mut bytes = file.finish();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut_it {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(recording) = support::read(&bytes) {
            prop_assert!(kept(&recording) <= recording.total);
        }
    }
}

mod resolved {
    use super::*;
    use sediment_core::binary::Files;
    use sediment_core::profile::{FunctionKey, Profile};
    use sediment_read::resolve::resolve;
    use std::collections::BTreeMap;
    use support::elf_writer::{Elf, Function};

    /// The binaries of a test, by the path that was recorded.
    pub(crate) struct Binaries(pub(crate) BTreeMap<String, Vec<u8>>);

    impl Files for Binaries {
        fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
            None
        }
        fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
            self.0.get(path).cloned()
        }
    }

    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libwork-1.2.so";
    const LIBRARY_BASE: u64 = 0x7f00_0000_0000;

    /// Makes functions of 32 bytes, each with calls in the middle and a return at the end.
    fn program() -> Elf {
        let mut text = vec![0x90; 6 * 32];
        for function in text.chunks_mut(32) {
            function[16] = 0xe8;
            function[31] = 0xc3;
        }
        // The last function ends with a return with a prefix, which begins one byte earlier.
        text[6 * 32 - 2] = 0xf3;
        Elf {
            kind: 2,
            text,
            symbols: Some(vec![
                Function::local("helper", 0, 32, "first.c"),
                Function::local("helper", 32, 32, "second.c"),
                Function::local("alone", 64, 32, "second.c"),
                Function::global("main", 96, 32),
                Function::global("loop@@VERSION_1", 128, 32),
                Function::global("last", 160, 32),
            ]),
            imports: vec!["work".to_owned(), "nowhere".to_owned()],
            build_id: vec![0xaa; 20],
            ..Elf::default()
        }
    }

    fn library() -> Elf {
        Elf {
            symbols: Some(vec![Function::global("work", 0, 48), Function::local("inside", 48, 16, "work.c")]),
            soname: Some("libwork.so.1".to_owned()),
            build_id: vec![0xbb; 20],
            ..Elf::default()
        }
    }

    fn key(dso: Option<&str>, name: &str, file: Option<&str>) -> FunctionKey {
        FunctionKey { dso: dso.map(str::to_owned), name: name.to_owned(), file: file.map(str::to_owned) }
    }

    fn edges(profile: &Profile) -> BTreeMap<(FunctionKey, FunctionKey), u128> {
        let edges = profile.edges().into_iter();
        edges
            .map(|(from, to, facts)| {
                ((profile.key(from).clone(), profile.key(to).clone()), facts.count.unwrap_or(0))
            })
            .collect()
    }

    /// An event of the program: a branch, with what the test knows about it.
    #[derive(Debug, Clone, Copy)]
    enum ProgramEvent {
        /// From a function of the program to another.
        Call(usize, usize),
        /// The return of such a call, to the instruction after it.
        Return(usize, usize),
        /// Within a function, to its first byte or to another one.
        Jump(usize, u64),
        /// Into the library through the stub.
        CallThroughStub(usize),
        /// Within the library.
        CallInLibrary,
    }

    const FUNCTIONS: [(&str, Option<&str>); 6] = [
        ("helper", Some("first.c")),
        ("helper", Some("second.c")),
        ("alone", None),
        ("main", None),
        ("loop", None),
        ("last", None),
    ];

    fn step() -> impl Strategy<Value = ProgramEvent> {
        prop_oneof![
            (0usize..6, 0usize..6).prop_map(|(from, to)| ProgramEvent::Call(from, to)),
            (0usize..6, 0usize..6).prop_map(|(from, to)| ProgramEvent::Return(from, to)),
            (0usize..6, 0u64..30).prop_map(|(function, to)| ProgramEvent::Jump(function, to)),
            (0usize..6).prop_map(ProgramEvent::CallThroughStub),
            Just(ProgramEvent::CallInLibrary),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// The profile has exactly the calls that were made, whether the processor marks calls or not.
        #[test]
        fn the_calls_that_were_made_are_the_profile(
            steps in proptest::collection::vec(step(), 1..60),
            typed in any::<bool>(),
        ) {
            let (elf, lib) = (program(), library());
            let offset = |function: usize, byte: u64| elf.file_offset(function as u64 * 32 + byte);
            let at = |offset: u64| BASE + offset - 0x1000;
            let in_library = |byte: u64| LIBRARY_BASE + lib.file_offset(byte);
            let kind = |kind: u64| if typed { kind } else { UNTYPED };
            let mut truth: BTreeMap<(FunctionKey, FunctionKey), u128> = BTreeMap::new();
            let program_key = |function: usize| key(Some("program"), FUNCTIONS[function].0, FUNCTIONS[function].1);
            let work = key(Some("libwork.so.1"), "work", None);
            let mut add = |from: FunctionKey, to: FunctionKey| *truth.entry((from, to)).or_default() += 1;
            let mut branches = Vec::new();
            for step in &steps {
                match *step {
                    ProgramEvent::Call(from, to) => {
                        branches.push(Branch::new(at(offset(from, 16)), at(offset(to, 0)), kind(CALL)));
                        // Without types of branches, a jump to a function's own first byte looks like a recursive call.
                        if typed || from != to {
                            add(program_key(from), program_key(to));
                        }
                    }
                    ProgramEvent::Return(from, to) => {
                        let last = if from == 5 { 30 } else { 31 };
                        branches.push(Branch::new(at(offset(from, last)), at(offset(to, 21)), kind(RETURN)));
                    }
                    ProgramEvent::Jump(function, to) => {
                        branches.push(Branch::new(at(offset(function, 30 - to)), at(offset(function, to)), kind(CONDITIONAL)));
                    }
                    ProgramEvent::CallThroughStub(from) => {
                        branches.push(Branch::new(at(offset(from, 16)), at(elf.stub_offset(0)), kind(CALL)));
                        branches.push(Branch::new(at(elf.stub_offset(0)), in_library(0), kind(INDIRECT_JUMP)));
                        add(program_key(from), work.clone());
                    }
                    ProgramEvent::CallInLibrary => {
                        branches.push(Branch::new(in_library(8), in_library(48), kind(CALL)));
                        add(work.clone(), key(Some("libwork.so.1"), "inside", None));
                    }
                }
            }
            let mut file = PerfData::new();
            file.mmap2(10, (BASE, 0x1000, 0x1000), PROGRAM, &[0xaa; 20], 1);
            file.mmap2(10, (LIBRARY_BASE, 0x4000, 0), LIBRARY, &[], 1);
            for (time, chunk) in branches.chunks(16).enumerate() {
                file.sample(10, 10 + time as u64, at(offset(3, 4)), chunk);
            }
            let recording = read(&file.finish());
            let files = Binaries([(PROGRAM.to_owned(), elf.bytes()), (LIBRARY.to_owned(), lib.bytes())].into());
            let (profile, skipped) = resolve(&recording, &files).unwrap();
            prop_assert_eq!(edges(&profile), truth.clone());
            // Nothing is lost silently: calls, skipped items and branches that are not calls add up to the total.
            let calls: u128 = truth.values().sum();
            let no_calls: u128 = skipped.iter().map(|(_, entry)| entry.weight).sum();
            let left_out: u64 = recording.skipped.iter().map(|(_, entry)| entry.items).sum();
            prop_assert_eq!(calls + no_calls + u128::from(left_out), branches.len() as u128);
            prop_assert_eq!(profile.total, calls);
            let main = profile.find(&program_key(3)).unwrap();
            prop_assert_eq!(profile.facts(main).size, Some(32));
            prop_assert!(profile.facts(main).samples.is_some());
            prop_assert_eq!(profile.arch.first().map(String::as_str), Some("x86_64"));
            prop_assert_eq!(profile.dsos()["program"].build_id.clone(), Some("aa".repeat(20)));
        }
    }
}
