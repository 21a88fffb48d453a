// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of profiles of LLVM's tools (BOLT, AutoFDO, temporal traces): goldens, generated profiles compared with their
//! sources, and damage.

use proptest::prelude::*;
use sediment_core::binary::NoFiles;
use sediment_core::profile;
use sediment_core::skipped::{NoCall, Reason};
use sediment_read::read::{self, AddressId, ReadSettings, Spot, Step, TransferKind};
use sediment_read::resolve::resolve;
use std::collections::BTreeMap;
use support::bolt_text::{Event, Program};
use support::read;
use support::reading;
use support::reading::{addresses, calls, costs};
use support::sample_profile_text::Body;

const FORMATS: [&str; 4] = ["bolt", "bolt-aggregated", "sample-profile", "temporal-profile"];

#[test]
fn goldens() {
    FORMATS.into_iter().for_each(reading::goldens);
}

#[test]
fn fdata_reads_as_the_branches_it_was_printed_from() {
    let program = Program::generate(40, 2000);
    let recording = read(program.fdata().as_bytes()).unwrap();
    assert_eq!(calls(&recording), program.calls());
    assert_eq!(recording.total, program.total());
    assert_eq!(
        recording.source.to_string(),
        "BOLT branches without time order or own cost or shared libraries"
    );
    let seen = |why| recording.skipped.items(why) > 0;
    assert!(
        seen(Reason::NoCall(NoCall::Inside))
            && seen(Reason::NoCall(NoCall::IntoTheMiddle))
            && seen(Reason::BoltOutside)
    );
}

#[test]
fn the_program_that_was_recorded_can_be_named() {
    let settings = ReadSettings { program: Some("/usr/bin/prog".into()), ..ReadSettings::default() };
    for (format, text) in [
        ("bolt", "1 main 1 1 f 0 0 2\n"),
        ("bolt-aggregated", "B 4010 5000 2 0\n"),
        ("sample-profile", "main:1:1\n 1: 1 f:2\n"),
        ("temporal-profile", ":temporal_prof_traces\n1\n1\n1\nmain,f,\n"),
    ] {
        let bytes = text.as_bytes();
        assert_eq!(read::find(&bytes, &settings).unwrap().name, format);
        let recording = read::read(&bytes, &settings).unwrap();
        assert!(addresses(&recording).iter().all(|place| place.starts_with("/usr/bin/prog")), "{format}");
        let mut runs = 0;
        read::replay(&bytes, &settings, &recording, &mut |step: Step| {
            runs += u32::from(matches!(step, Step::Run { .. }))
        })
        .unwrap();
        assert_eq!(runs, if format == "temporal-profile" { 2 } else { 0 });
    }
}

#[test]
fn pre_aggregated_branches_read_as_the_addresses_they_were_printed_from() {
    let program = Program::generate(40, 2000);
    for traces in [false, true] {
        let recording = read(program.aggregated(traces).as_bytes()).unwrap();
        let mut truth: BTreeMap<(u64, u64), u128> = BTreeMap::new();
        let mut total = 0;
        for event in &program.events {
            let at = |index: usize, offset: u64| program.functions[index].address + offset;
            let (pair, count) = match *event {
                Event::Call { from, to, count } => ((at(from, 0x1f), at(to, 0)), count),
                Event::Return { from, to, count } if !traces => ((at(from, 0x3a), at(to, 0x24)), count),
                Event::Return { .. } => continue,
                Event::Loop { within, count } => ((at(within, 0x30), at(within, 8)), count),
                Event::Leave { count, .. } => {
                    total += u128::from(count);
                    continue;
                }
            };
            *truth.entry(pair).or_default() += u128::from(count);
        }
        let address = |id: AddressId| match recording.addresses()[id.0 as usize].spot {
            Spot::Address(address) => address,
            _ => panic!("an address"),
        };
        let mut found = BTreeMap::new();
        for (from, to, kind, count) in recording.transfers() {
            assert_eq!(kind, TransferKind::Branch, "resolve tells calls from returns and jumps");
            found.insert((address(from), address(to)), count);
        }
        assert_eq!(found, truth);
        assert_eq!(recording.total, total + truth.values().sum::<u128>());
        let returns =
            program.events.iter().filter(|event| matches!(event, Event::Return { .. })).count() as u64;
        assert_eq!(recording.skipped.items(Reason::NoCall(NoCall::Return)), if traces { returns } else { 0 });
    }
}

fn bodies() -> Vec<Body> {
    let mut state = 5u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..60).map(|number| Body::generate(number, 60, 4, &mut next)).collect()
}

#[test]
fn sample_profiles_read_as_the_bodies_they_were_printed_from() {
    let bodies = bodies();
    let (mut known, mut known_costs) = (BTreeMap::new(), BTreeMap::new());
    for body in &bodies {
        body.add_calls(&body.name, &mut known);
        *known_costs.entry(format!("-:{}", body.name)).or_default() += u128::from(body.total());
    }
    for text in [
        bodies.iter().map(Body::nested).collect::<String>(),
        bodies.iter().map(Body::by_context).collect::<String>(),
    ] {
        let recording = read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(calls(&recording), known);
        assert_eq!(costs(&recording), known_costs);
        assert_eq!(recording.total, known.values().sum::<u128>());
    }
}

/// A text without calls is a profile, too.
#[test]
fn traces_become_a_profile_of_first_uses_and_nearness() {
    let text = ":temporal_prof_traces\n1\n1\n1\nmain,a.c;f,b.c;f,\n";
    let settings = ReadSettings { program: Some("/usr/bin/prog".into()), ..ReadSettings::default() };
    let recording = read::read(&text.as_bytes(), &settings).unwrap();
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    let printed = profile::text::print(&profile);
    assert!(skipped.is_empty(), "{skipped:?}");
    for line in ["\"main\" [first=0];", "first=1", "\"main\" -> \"f@prog:a.c\" [label=0.000000, near=1];"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}

/// Contexts that differ only at their ends take almost no time.
#[test]
fn deep_contexts_are_read_in_one_go() {
    let mut text = String::new();
    let mut context = "main".to_owned();
    for depth in 0..400 {
        text += &format!("[{context}]:7:1\n 1: 7 leaf:7\n");
        if depth > 0 {
            text += " !Attributes: 1\n";
        }
        context += &format!(":1 @ f{depth}");
    }
    let recording = read(text.as_bytes()).unwrap();
    assert_eq!(calls(&recording), BTreeMap::from([(("-:main".into(), "-:leaf".into()), 2800)]));
}

#[test]
fn traces_read_as_the_runs_they_were_printed_from() {
    let runs: [(u64, Vec<String>); 2] = [
        (3, (0..30).map(|number| format!("f{number}")).collect()),
        (1, vec!["f9".into(), "f0".into(), "new".into()]),
    ];
    let mut shown =
        "Instrumentation level: IR  entry_first = 0\nTemporal Profile Traces (samples=2 seen=2):\n"
            .to_owned();
    let mut written = "# IR level\n:ir\n:temporal_prof_traces\n# Num\n2\n# Size\n2\n".to_owned();
    for (number, (weight, names)) in runs.iter().enumerate() {
        shown += &format!("  Temporal Profile Trace {number} (weight={weight} count={}):\n", names.len());
        names.iter().for_each(|name| shown += &format!("    {name}\n"));
        written += &format!("# Weight:\n{weight}\n{},\n", names.join(","));
    }
    let mut affinity: BTreeMap<(String, String), u128> = BTreeMap::new();
    for (weight, names) in &runs {
        for (at, name) in names.iter().enumerate() {
            for before in &names[at.saturating_sub(8)..at] {
                *affinity.entry((format!("-:{before}"), format!("-:{name}"))).or_default() +=
                    u128::from(*weight);
            }
        }
    }
    for text in [shown, written] {
        let recording = read(text.as_bytes()).unwrap();
        assert_eq!(calls(&recording), affinity);
        assert!(recording.transfers().iter().all(|(_, _, kind, _)| *kind == TransferKind::Affinity));
        assert_eq!(recording.total, 0, "nothing is known of calls");
        let first: Vec<u64> = recording.first_uses().iter().map(|(_, rank)| *rank).collect();
        let mut expected: Vec<u64> = (0..30).chain([2]).collect();
        expected[9] = 0;
        assert_eq!(first, expected);
        let mut threads: BTreeMap<u64, Vec<AddressId>> = BTreeMap::new();
        let told = read::replay(&text.as_bytes(), &ReadSettings::default(), &recording, &mut |step: Step| {
            if let Step::Run { thread, place } = step {
                threads.entry(thread).or_default().push(place);
            }
        });
        assert!(told.unwrap());
        let lengths: Vec<usize> = threads.values().map(Vec::len).collect();
        assert_eq!(lengths, [30, 3]);
    }
}

#[test]
fn other_files_are_not_taken_for_these() {
    let texts = [
        "main;f;g 12\nmain;f 3\n",
        "main\nf\ng\n",
        "0x401000\n0x401010\n",
        "src/a.c:12:3\nsrc/b.c:1:1\n",
        "B\nS\nE\n",
        "E cycles\n",
        "1 2 3\n4 5 6\n",
        "Flat profile:\n\nEach sample counts as 0.01 seconds.\n",
    ];
    for text in texts {
        for name in FORMATS {
            let reader = read::READERS.iter().find(|reader| reader.name == name).unwrap();
            assert!(!(reader.recognises)(text.as_bytes()), "{name}: {text}");
        }
    }
}

fn damaged() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    prop::sample::select(FORMATS.to_vec()).prop_flat_map(|format| {
        reading::damaged(reading::inputs(format)).prop_map(move |bytes| (format, bytes))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        for format in FORMATS {
            reading::stays_in_proportion(format, &bytes, 600);
        }
    }

    #[test]
    fn damaged_files_do_no_harm((format, bytes) in damaged()) {
        reading::stays_in_proportion(format, &bytes, 16 * bytes.len());
    }
}
