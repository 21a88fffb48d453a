// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the container: files with false statements about themselves, and a comparison with linux-perf-data, another
//! reader.

use super::*;
use linux_perf_data::linux_perf_event_reader as events;
use linux_perf_data::{AttributeDescription, PerfFileReader, PerfFileRecord};
use sediment_core::ErrorLocation;

fn sample(file: &mut PerfData, time: u64) {
    file.sample(10, time, BASE, &[Branch::new(BASE, BASE + 0x10, CALL)]);
}

fn good() -> PerfData {
    let mut file = begin();
    file.build_ids.push((PROGRAM.to_owned(), vec![0x22; 20], true));
    (5..25).for_each(|time| sample(&mut file, time));
    file
}

/// Returns the offset of the table of features.
fn table(bytes: &[u8]) -> usize {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (word(40) + word(48)) as usize
}

#[test]
fn sizes_that_are_made_up_are_refused() {
    let huge = (1u64 << 60).to_le_bytes();
    let with = |at: usize, value: [u8; 8]| {
        let mut bytes = good().finish();
        bytes[at..at + 8].copy_from_slice(&value);
        bytes
    };
    let features = table(&good().finish());
    let attributes = u64::from_le_bytes(good().finish()[24..32].try_into().unwrap()) as usize;
    let mut trace = good();
    trace.raw(71, 0, &[&huge[..], &[0; 32]].concat());
    let mut packed = good();
    packed.raw(83, 0, &huge);
    let cases = [
        ("a feature of 2^60 bytes", with(features + 8, huge)),
        ("a feature at 2^60", with(features, huge)),
        ("records of 2^64 - 1 bytes", with(48, [0xff; 8])),
        ("events of 2^60 bytes each", with(16, huge)),
        ("2^60 bytes of ids", with(attributes + 120, huge)),
        ("a trace of 2^60 bytes", trace.finish()),
        ("compressed records of 2^60 bytes", packed.finish()),
    ];
    for (name, bytes) in cases {
        let error = support::read(&bytes).unwrap_err();
        assert!(error.location().is_some() && error.hint().is_some(), "{name}: {error}");
    }
}

#[test]
fn a_bomb_of_zstd_is_an_error() {
    let mut file = good();
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    for _ in 0..15_000 {
        bomb.extend(&((131_072u32 << 3) | 2).to_le_bytes()[..3]);
        bomb.push(9);
    }
    file.raw(81, 0, &bomb);
    let error = support::read(&file.finish()).unwrap_err();
    assert_eq!(error.location(), Some(ErrorLocation::Offset(0x730)), "{error}");
    assert!(error.to_string().contains("100 times its size and 16 MiB"), "{error}");
}

#[test]
fn truncated_files_are_an_error() {
    let whole = good().finish();
    let refused = (0..whole.len()).filter(|cut| support::read(&whole[..*cut]).is_err()).count();
    assert_eq!(refused, whole.len(), "a file has its features at the end");
    let whole = good().finish_pipe();
    let accepted = (0..whole.len()).filter(|cut| support::read(&whole[..*cut]).is_ok()).count();
    assert!(accepted < 25, "a pipe may end behind any record: {accepted}");
    // perf's messages to the user may end up in the same pipe.
    let said =
        b"[ perf record: Woken up 1 times to write data ]\n[ perf record: Captured and wrote 0.008 MB - ]\n";
    assert_eq!(text(&read(&[&whole[..], said].concat())), text(&read(&whole)));
    assert!(support::read(&[&whole[..], b"\0"].concat()).is_err(), "may be the beginning of a record");
    for junk in [&b"[ other words ]\n"[..], b"Warning:\nProcessed 12 events and lost 1 chunks!\n", &[0; 40]] {
        let with_junk = text(&read(&[&whole[..], junk].concat()));
        let kept: Vec<&str> =
            with_junk.lines().filter(|line| !line.contains("after the last record")).collect();
        assert_eq!(kept, text(&read(&whole)).lines().collect::<Vec<_>>());
    }
    let mut packed = good();
    packed.compress(0, 500, false);
    let whole = packed.finish();
    let mut cut = whole.clone();
    // The last compressed record loses its end, but the header still says that it is whole.
    let records = table(&whole);
    cut[48..56].copy_from_slice(&(u64::from_le_bytes(whole[48..56].try_into().unwrap()) - 508).to_le_bytes());
    cut.drain(records - 508..records);
    assert!(support::read(&cut).is_err());
}

#[test]
fn a_large_recording_is_the_same_whatever_the_cores_do() {
    let mut file = begin();
    for time in 0..30_000u64 {
        let at = |number: u64| BASE + number * 0x9e37_79b9 % 0x1f00;
        let branches: Vec<Branch> = (0..16).map(|i| Branch::new(at(time * i), at(time + i), CALL)).collect();
        file.sample(10, 10 + time, at(time), &branches);
    }
    let plain = file.finish();
    let expected = text(&read(&plain));
    assert!(expected.contains("total: 480000"));
    assert_eq!(text(&read(&plain)), expected);
    assert_eq!(text(&read(&file.finish_pipe())), expected);
    file.compress(0, 60_000, true);
    assert_eq!(text(&read(&file.finish())), expected);
    // The first of several errors is reported.
    let mut damaged = plain;
    for at in [9_000_000, 2_000_000, 5_000_000] {
        let record = (400..at).step_by(8).rfind(|at| damaged[*at..at + 8] == [9, 0, 0, 0, 2, 0, 0xb0, 1]);
        // The offset of the number of branches in this sample.
        let count = record.unwrap_or_else(|| panic!("no record before {at}")) + 8 + 32;
        damaged[count + 7] = 0x10;
    }
    let first = error(&damaged);
    assert!((0..3).all(|_| error(&damaged) == first), "{first}");
    let offset = first.split("offset 0x").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    assert!(u64::from_str_radix(offset, 16).unwrap() < 2_000_000, "{first}");
}

/// The fields of a sample that both readers have: event, time, process, address, period.
type ComparedSample = (usize, u64, u32, u64, u64);

/// The result of linux-perf-data: the names of the events, the samples, the number of mappings.
fn by_the_other(bytes: &[u8], pipe: bool) -> (Vec<Option<String>>, Vec<ComparedSample>, usize) {
    fn drive<R: std::io::Read>(
        reader: PerfFileReader<R>,
    ) -> (Vec<Option<String>>, Vec<ComparedSample>, usize) {
        let PerfFileReader { mut perf_file, mut record_iter } = reader;
        let names = perf_file.event_attributes().iter().map(AttributeDescription::name);
        let names = names.map(|name| name.map(str::to_owned)).collect();
        let (mut samples, mut mappings) = (Vec::new(), 0);
        while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
            let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
            match record.parse().unwrap() {
                events::EventRecord::Sample(one) => samples.push((
                    attr_index,
                    one.timestamp.unwrap(),
                    one.pid.unwrap() as u32,
                    one.ip.unwrap(),
                    one.period.unwrap(),
                )),
                events::EventRecord::Mmap2(_) | events::EventRecord::Mmap(_) => mappings += 1,
                _ => {}
            }
        }
        (names, samples, mappings)
    }
    if pipe {
        drive(PerfFileReader::parse_pipe(bytes).unwrap())
    } else {
        drive(PerfFileReader::parse_file(std::io::Cursor::new(bytes)).unwrap())
    }
}

/// Both readers find the same events, samples with the same addresses and periods, and the same mappings. The tests
/// below show known errors of the other reader (docs/background/experiments.md), and fail when these are mended.
#[test]
fn another_reader_of_the_container_agrees() {
    for (big_endian, pipe, packed) in [false, true]
        .into_iter()
        .flat_map(|a| [false, true].into_iter().flat_map(move |b| (0..3).map(move |c| (a, b, c))))
    {
        let mut file = PerfData::new();
        file.big_endian = big_endian;
        // The other reader mistakes the data after this record for records.
        file.tracing_data = false;
        file.events[0].sample_type |= IDENTIFIER | CPU;
        let first = file.events[0].clone();
        file.events.push(Event { name: "cycles:u", of: (0, 0), id: 8, ..first });
        file.comm(10, "program", true, 1);
        file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
        file.mmap(10, (BASE * 2, 0x2000, 0), "/usr/lib/other.so", 3);
        file.fork(10, 11, 4);
        let start = file.len();
        for time in 5..50u64 {
            let address = BASE + time * 16;
            file.sample_of(
                time as usize % 2,
                IN_USER,
                10 + time as u32 % 2,
                time,
                address,
                &[Branch::new(address, address + 8, CALL)],
            );
        }
        if packed > 0 {
            file.compress(start, 700, packed == 2);
        }
        let bytes = if pipe { file.finish_pipe() } else { file.finish() };
        let (names, samples, mappings) = by_the_other(&bytes, pipe);
        let ours = read(&bytes);
        assert_eq!(samples.len(), 45);
        assert_eq!(ours.seen, "45 samples, 45 branches");
        assert_eq!(mappings, 2);
        let addresses: Vec<u64> = samples.iter().map(|one| one.3).collect();
        let mut own: Vec<u64> = ours
            .samples()
            .iter()
            .map(|(place, cost)| {
                assert_eq!(*cost, u128::from(samples[0].4));
                match ours.addresses()[place.0 as usize].spot {
                    Spot::FileOffset(offset) => offset - 0x1000 + BASE,
                    _ => 0,
                }
            })
            .collect();
        own.sort_unstable();
        assert_eq!(own, addresses, "which rise with time");
        assert!(samples.iter().all(|one| one.0 == one.1 as usize % 2 && one.2 == 10 + one.1 as u32 % 2));
        if !pipe {
            assert_eq!(names, [Some("branches:u".to_owned()), Some("cycles:u".to_owned())]);
            assert_eq!(ours.source.to_string(), "perf branch records (branches:u+cycles:u)");
        }
    }
}

/// The other reader confuses grouped and single counter values, so the chain after them is wrong.
#[test]
fn the_other_reader_swaps_the_forms_of_counter_values() {
    let outcome = |read_format: u64| {
        let mut file = begin();
        file.events[0].sample_type = IP | TID | TIME | PERIOD | READ | CALLCHAIN;
        file.events[0].read_format = read_format;
        file.chain = Some(vec![CONTEXT_USER, BASE + 0x30, BASE + 0x20]);
        file.sample(10, 5, BASE + 0x30, &[]);
        let bytes = file.finish();
        let ours = read(&bytes).total;
        let PerfFileReader { mut perf_file, mut record_iter } =
            PerfFileReader::parse_file(std::io::Cursor::new(&bytes)).unwrap();
        let mut chain = None;
        while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
            if let PerfFileRecord::EventRecord { record, .. } = record {
                if let Ok(events::EventRecord::Sample(sample)) = record.parse() {
                    chain = sample
                        .callchain
                        .map(|chain| (0..chain.len()).filter_map(|i| chain.get(i)).collect::<Vec<_>>());
                }
            }
        }
        (ours, chain == Some(vec![CONTEXT_USER, BASE + 0x30, BASE + 0x20]))
    };
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    assert_eq!(
        outcome(ID),
        (1000, false),
        "linux-perf-event-reader reads single values: mend docs/background/experiments.md"
    );
    assert_eq!(
        outcome(ID | GROUP),
        (1000, false),
        "linux-perf-event-reader reads groups: mend docs/background/experiments.md"
    );
}

/// The fuzzer starts from these seeds, one small file of each kind. SEDIMENT_BLESS=1 writes them.
#[test]
fn the_seeds_of_the_fuzzer_are_what_the_writer_makes() {
    let chains = |big_endian: bool| {
        let mut file = good().without_records();
        file.big_endian = big_endian;
        file.events[0].sample_type = IP | TID | TIME | PERIOD | READ | CALLCHAIN | RAW | IDENTIFIER;
        file.events[0].read_format = 1 | 2 | 4 | 8 | 16;
        file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
        file.fork(10, 11, 3);
        file.chain = Some(vec![CONTEXT_KERNEL, KERNEL, CONTEXT_USER, BASE + 0x30, BASE + 0x20]);
        (4..8).for_each(|time| file.sample(10 + time as u32 % 2, time, BASE + 0x30, &[]));
        file
    };
    let mut packed = good();
    packed.compress(0, 700, true);
    let mut packed_before = good();
    packed_before.compress(begin().len(), 300, false);
    let mut stacks = good().without_records();
    stacks.events[0].branch_sample_type = ANY_CALL | CALL_STACK | HW_INDEX | COUNTERS;
    stacks.mmap(10, (BASE, 0x2000, 0x1000), PROGRAM, 2);
    sample(&mut stacks, 5);
    let seeds = [
        ("branches", good().finish()),
        ("branches-of-a-pipe", good().finish_pipe()),
        ("branches-as-stack", stacks.finish()),
        ("chains", chains(false).finish()),
        ("chains-big-endian", chains(true).finish()),
        ("compressed2-of-a-pipe", packed.finish_pipe()),
        ("compressed", packed_before.finish()),
    ];
    let folder = support::root().join("fuzz/corpus/perf-data");
    for (name, bytes) in seeds {
        assert!(bytes.len() < 4096 && support::read(&bytes).is_ok(), "{name}");
        if std::env::var_os("SEDIMENT_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), &bytes).unwrap();
        }
        assert!(std::fs::read(folder.join(name)).unwrap() == bytes, "{name}: SEDIMENT_BLESS=1 writes it");
    }
}
