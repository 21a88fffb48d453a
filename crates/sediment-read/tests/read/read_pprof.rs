// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of profiles of pprof: goldens, generated profiles compared with their sources, damaged and hostile input.

use proptest::prelude::*;
use sediment_core::skipped::{Amount, Nowhere, Reason};
use sediment_core::{Error, ErrorCode, ErrorLocation as Where};
use std::collections::{BTreeMap, BTreeSet};
use support::describe;
use support::pprof_writer::{Form, Function, Location, Mapping, Message, Profile, Sample, gzip, of_stacks};
use support::read;
use support::reading;
use support::reading::{addresses, calls, costs};

#[test]
fn goldens() {
    reading::goldens("pprof");
}

#[test]
fn damaged_answers_of_query_apis_are_errors() {
    let nested = format!("{{\"sample\": {}", "[".repeat(100_000));
    for answer in [
        "{\"pprof\": \"*\"}",
        "{\"pprof\": 5}",
        "{\"sampleType\": [{\"type\": \"x\"}]}",
        "{\"sampleType\": [{\"type\": [1]}]}",
        "{\"sample\": [{\"locationId\": [\"1\"",
        "{\"stringTable\": [1]}",
        "{\"sample\": 3}",
        "{\"period\": {}}",
        &nested,
    ] {
        let error = read(answer.as_bytes()).map(|recording| describe::describe(&recording)).unwrap_err();
        assert_eq!((error.code(), error.location()), (ErrorCode::Damaged, Some(Where::Line(1))), "{error}");
    }
}

fn plain(profile: &Profile) -> Vec<u8> {
    profile.encode(Form::default())
}

fn refused(profile: &Profile) -> Error {
    read(&plain(profile)).map(|recording| describe::describe(&recording)).unwrap_err()
}

/// Stacks of known functions, some of them deep and recursive, and the expected result.
type Truth = (Vec<(Vec<&'static str>, i64)>, BTreeMap<(String, String), u128>, BTreeMap<String, u128>);

fn known_stacks() -> Truth {
    const NAMES: [&str; 9] = ["main", "a", "b", "c", "_ZN1d3fooEv", "operator new", "größe", "e;f", "g"];
    let mut state = 12345u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let at = |name: &str| format!("/usr/bin/program:{name} (file.c)");
    let (mut stacks, mut calls, mut costs) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for _ in 0..300 {
        let depth = 1 + next(12);
        let stack: Vec<&str> = (0..depth).map(|_| NAMES[next(9) as usize]).collect();
        let value = 1 + next(1000) as i64;
        let pairs: BTreeSet<(&str, &str)> = stack.windows(2).map(|pair| (pair[0], pair[1])).collect();
        for (from, to) in pairs {
            *calls.entry((at(from), at(to))).or_default() += value as u128;
        }
        *costs.entry(at(stack[stack.len() - 1])).or_default() += value as u128;
        stacks.push((stack, value));
    }
    (stacks, calls, costs)
}

#[test]
fn every_form_reads_as_the_stacks_it_was_written_from() {
    let (stacks, known_calls, known_costs) = known_stacks();
    let borrowed: Vec<(&[&str], i64)> = stacks.iter().map(|(stack, value)| (&stack[..], *value)).collect();
    let profile = of_stacks(&borrowed);
    for form in Form::all() {
        let recording = read(&profile.encode(form)).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert_eq!(calls(&recording), known_calls, "{form:?}");
        assert_eq!(costs(&recording), known_costs, "{form:?}");
        assert_eq!(recording.total, known_calls.values().sum::<u128>());
        assert!(recording.skipped.is_empty());
        assert_eq!(
            recording.source.to_string(),
            "pprof call stacks (samples/count) without call counts or time order"
        );
        assert_eq!(recording.dsos()[0].build_id.as_deref(), Some("00c0ffee"));
    }
}

#[test]
fn the_value_that_counts_is_the_one_meant_to_be_looked_at() {
    let mut profile = of_stacks(&[(&["main", "f"], 3)]);
    profile.types = vec![("alloc".into(), "count".into()), ("in,use".into(), "bytes".into())];
    let total = |profile: &Profile| {
        let recording = read(&plain(profile)).unwrap();
        (recording.total, recording.source.event)
    };
    assert_eq!(total(&profile), (30_000_000, "in_use/bytes".into()), "the last, as pprof does");
    profile.default_type = "alloc".into();
    assert_eq!(total(&profile), (3, "alloc/count".into()));
    profile.default_type = String::new();
    profile.types[0].0 = "cpu".into();
    assert_eq!(total(&profile), (3, "cpu/count".into()));
    profile.types[1].0 = "samples".into();
    assert_eq!(total(&profile), (30_000_000, "samples/bytes".into()));
    profile.types.clear();
    profile.samples[0].values.clear();
    assert_eq!(refused(&profile).code(), ErrorCode::Damaged);
}

#[test]
fn inlined_functions_are_no_frames_and_linkage_names_come_first() {
    let mut profile = of_stacks(&[(&["main", "f"], 3)]);
    let inlined = Function { id: 9, name: "inlined".into(), ..Function::default() };
    profile.functions.push(inlined);
    profile.functions[1].system_name = "_Z1fv".into();
    profile.locations[1].lines = vec![9, 9, 2];
    let recording = read(&plain(&profile)).unwrap();
    assert_eq!(addresses(&recording), ["/usr/bin/program:_Z1fv (file.c)", "/usr/bin/program:main (file.c)"]);
}

#[test]
fn addresses_without_names_are_offsets_in_the_file() {
    let mut profile = of_stacks(&[(&["main", "f"], 3)]);
    profile.functions.clear();
    profile.locations.iter_mut().for_each(|location| location.lines.clear());
    profile.mappings[0].file_offset = 0x1000;
    let recording = read(&plain(&profile)).unwrap();
    assert_eq!(addresses(&recording), ["/usr/bin/program+0x1010", "/usr/bin/program+0x1020"]);

    profile.mappings[0].limit = 0x40_0000;
    let error = refused(&profile);
    assert_eq!(error.code(), ErrorCode::Unresolved, "{error}");
    assert!(error.hint().unwrap().contains("go tool pprof -proto"), "{error:?}");
    profile.mappings.clear();
    let error = refused(&profile);
    assert!(error.code() == ErrorCode::Damaged && error.to_string().contains("mapping 1"), "{error}");
    profile.locations.iter_mut().for_each(|location| location.mapping = 0);
    assert_eq!(refused(&profile).code(), ErrorCode::Unresolved);
}

#[test]
fn mappings_of_no_file_are_skipped_with_a_reason() {
    let mut profile = of_stacks(&[(&["main", "f", "there", "g"], 5)]);
    let elsewhere = |path: &str, address: u64| {
        let mut profile = profile.clone();
        let mapping = Mapping { id: 2, limit: u64::MAX, path: path.into(), ..Mapping::default() };
        profile.mappings.push(mapping);
        (profile.locations[2].mapping, profile.locations[2].address) = (2, address);
        let recording = read(&plain(&profile)).unwrap();
        let compiled = recording.skipped.weight(Reason::is_compiled_code);
        let said: Vec<String> = recording
            .skipped
            .iter()
            .map(|(why, entry)| format!("{why}: {} {}", entry.items, entry.weight))
            .collect();
        (said.join("; "), recording.total, compiled)
    };
    for path in ["[vdso]", "[vsyscall]", "[heap]", "//anon", "/memfd:jit (deleted)", "[anon:code]"] {
        let said = "calls in memory outside every mapped file: 2 10";
        assert_eq!(elsewhere(path, 0x7fff_0000), (said.to_owned(), 15, 10), "{path}");
    }
    for (path, address) in
        [("[kernel.kallsyms]", 1), ("[kernel.kallsyms]_text", 1), ("", 0xffff_ffff_8100_0000)]
    {
        assert_eq!(elsewhere(path, address), (String::new(), 5, 0), "{path}: the kernel is cut off");
    }
    assert_eq!(elsewhere("/usr/lib/libc.so.6", 0xffff_ffff_8100_0000).1, 15, "a file is a file");
    profile.functions[2].name = "n".repeat(5000);
    let recording = read(&plain(&profile)).unwrap();
    assert_eq!(recording.skipped.items(Nowhere::UnacceptableLength.of(Amount::Calls)), 2);
}

#[test]
fn samples_that_say_nothing_are_counted() {
    let mut profile = of_stacks(&[(&["main", "f"], 5), (&["main"], 0), (&["main", "f"], -7)]);
    profile.samples.push(Sample { locations: vec![], values: vec![4, 4] });
    let recording = read(&plain(&profile)).unwrap();
    assert_eq!(recording.total, 5);
    for (why, weight) in [(Reason::ZeroSample, 0), (Reason::NegativeSample, 7), (Reason::StacklessSample, 4)]
    {
        let entry = recording.skipped.iter().find(|(reason, _)| *reason == why).unwrap().1;
        assert_eq!((entry.items, entry.weight), (1, weight), "{why}");
    }
}

/// Damage to a profile.
type Break = fn(&mut Profile);

#[test]
fn tables_that_do_not_fit_together_are_named() {
    let whole = of_stacks(&[(&["main", "f"], 5)]);
    let broken = |how: Break| {
        let mut profile = whole.clone();
        how(&mut profile);
        refused(&profile)
    };
    let rows: [(Break, &str); 8] = [
        (|p| p.samples[0].locations[0] = 77, "location 77"),
        (|p| p.locations[1].lines = vec![78], "function 78"),
        (|p| p.locations[1].mapping = 79, "mapping 79"),
        (|p| p.locations[1].id = 1, "locations"),
        (|p| p.functions[1].id = 1, "two of its functions"),
        (|p| p.mappings.push(p.mappings[0].clone()), "mappings"),
        (|p| p.functions[0].id = 0, "one of its functions"),
        (|p| p.samples[0].values = vec![1], "0xe"),
    ];
    for (how, named) in rows {
        let error = broken(how);
        assert!(error.code() == ErrorCode::Damaged && error.to_string().contains(named), "{error}");
    }
    assert_eq!(broken(|p| p.samples.clear()).code(), ErrorCode::EmptyRecording);
    let mut bytes = plain(&whole);
    let mut row = Message::default();
    row.number(1, 99);
    row.number(2, 1);
    bytes.splice(0..0, [&[0x0a, row.0.len() as u8][..], &row.0].concat());
    let error = read(&bytes).unwrap_err();
    assert!(error.to_string().contains("string 99"), "{error}");
}

#[test]
fn fields_are_of_the_kind_that_the_format_gives_them() {
    let whole = plain(&of_stacks(&[(&["main", "f"], 5)]));
    // A string and a sample as fields of fixed width; and a sample type in the form of a text.
    let rows: [(&[u8], u64); 3] = [(b"\x35text", 0xb8), (b"\x1112345678", 0xb8), (b"\x72\x01t", 0xba)];
    let settings = sediment_read::read::ReadSettings { format: Some("pprof".into()), ..Default::default() };
    for (field, offset) in rows {
        let bytes = [&whole, field].concat();
        let error = sediment_read::read::read(&&bytes[..], &settings).unwrap_err();
        assert_eq!(error.location(), Some(Where::Offset(offset)), "{error}");
    }
}

#[test]
fn a_profile_that_is_cut_off_is_refused() {
    let (stacks, ..) = known_stacks();
    let borrowed: Vec<(&[&str], i64)> =
        stacks[..3].iter().map(|(stack, value)| (&stack[..], *value)).collect();
    let packed = of_stacks(&borrowed).encode(Form { gzip: true, ..Form::default() });
    for length in 3..packed.len() {
        let cut = &packed[..length];
        let settings =
            sediment_read::read::ReadSettings { format: Some("pprof".into()), ..Default::default() };
        let error = sediment_read::read::read(&cut, &settings).map(|r| describe::describe(&r)).unwrap_err();
        assert!(!error.to_string().is_empty(), "{length}");
    }
}

#[test]
fn gperftools_own_form_is_refused_with_the_command_that_translates_it() {
    let words = [0u64, 3, 0, 10_000, 0, 1, 2, 0x40_1000, 0x40_2000];
    let wide: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let narrow: Vec<u8> = words.iter().flat_map(|word| (*word as u32).to_be_bytes()).collect();
    for bytes in [wide, narrow] {
        let error = read(&bytes).unwrap_err();
        assert!(error.to_string().contains("gperftools"), "{error}");
        assert!(error.hint().unwrap().contains("go tool pprof -proto"), "{error:?}");
    }
}

#[test]
fn a_bomb_ends_in_an_error() {
    // A field with a number that no profile has, many times.
    let mut piece = Message::default();
    piece.bytes(99, &vec![0; 1 << 20]);
    let mut bomb = plain(&of_stacks(&[(&["main", "f"], 5)]));
    for _ in 0..200 {
        bomb.extend_from_slice(&piece.0);
    }
    let packed = gzip(&bomb);
    assert!(packed.len() < 2 << 20, "{}", packed.len());
    assert_eq!(read(&packed).unwrap_err().code(), ErrorCode::TooLarge);

    // Many rows, each of which takes more memory than its length in the file.
    let mut rows = of_stacks(&[(&["main", "f"], 5)]);
    for id in 100..1_000_000 {
        rows.locations.push(Location { id, ..Location::default() });
    }
    let packed = rows.encode(Form { gzip: true, ..Form::default() });
    assert_eq!(read(&packed).unwrap_err().code(), ErrorCode::TooLarge);

    let mut endless = Message::default();
    endless.bytes(1, b"");
    endless.0.extend_from_slice(&[0x32, 0, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let settings = sediment_read::read::ReadSettings { format: Some("pprof".into()), ..Default::default() };
    let error = sediment_read::read::read(&endless.0, &settings).unwrap_err();
    assert_eq!((error.code(), error.location()), (ErrorCode::Damaged, Some(Where::Offset(0xe))), "{error}");
}

#[test]
fn other_files_are_not_taken_for_profiles() {
    let recognises = sediment_read::read::pprof::READER.recognises;
    assert!(recognises(&plain(&of_stacks(&[(&["main"], 1)]))));
    let text = "# callgrind format\nevents: Ir\nfn=main\n1 1\ntotals: 1\n";
    for other in [
        &b"\n\n\n"[..],
        b"\n\x02ab",
        b"2\x04abcd",
        text.as_bytes(),
        b"\x1f\x8b\x08",
        &gzip(text.as_bytes()),
        b"",
    ] {
        assert!(!recognises(other), "{}", String::from_utf8_lossy(other));
    }
}

fn whole() -> Vec<Vec<u8>> {
    let profile = of_stacks(&[(&["main", "f", "g"], 5), (&["main", "f"], 7), (&["main", "f", "h", "f"], 7)]);
    let mut all = reading::inputs("pprof");
    all.extend(Form::all().into_iter().map(|form| profile.encode(form)));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        reading::stays_in_proportion("pprof", &bytes, 600);
        reading::stays_in_proportion("pprof", &gzip(&bytes), 600);
    }

    #[test]
    fn damaged_profiles_do_no_harm(bytes in reading::damaged(whole())) {
        reading::stays_in_proportion("pprof", &bytes, 20_000);
        reading::stays_in_proportion("pprof", &gzip(&bytes), 20_000);
    }
}
