// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of profiles of OpenTelemetry: goldens made with its own definitions and compared with the same recordings as
//! pprof; each field number that changed; damaged and hostile input.

use object::{Object, ObjectSegment, ObjectSymbol};
use proptest::prelude::*;
use sediment_core::binary::Files;
use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, ErrorLocation};
use sediment_order::link::{linker, placements};
use sediment_order::order::{self, OrderRequest, Selection};
use sediment_read::read::{ReadSettings, Recording};
use sediment_read::resolve::resolve;
use support::pprof_writer;
use support::pprof_writer::{Message, gzip};
use support::read;
use support::reading;
use support::reading::{addresses, calls, costs};

#[test]
fn goldens() {
    reading::goldens("otlp");
}

fn golden(path: &str) -> Recording {
    let path = support::root().join("tests/golden/read").join(path).join("input");
    read(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_version_and_encoding_says_what_pprof_says() {
    let pprof = golden("pprof/go-processor-time");
    for case in ["go-1.9", "go-1.11", "go-json"] {
        let otlp = golden(&format!("otlp/{case}"));
        assert_eq!((calls(&otlp), costs(&otlp)), (calls(&pprof), costs(&pprof)), "{case}");
        assert_eq!(otlp.total, pprof.total, "{case}");
        assert_eq!(otlp.dsos(), pprof.dsos(), "{case}");
    }
    let (several, lines) = (golden("otlp/several-messages"), golden("otlp/lines-of-json"));
    assert_eq!((calls(&several), costs(&several)), (calls(&lines), costs(&lines)));
}

/// The fields of a profile's message. A test can change each level of it.
#[derive(Clone)]
struct Otlp {
    samples: Vec<Message>,
    profile: Message,
    sample_type: Message,
    dictionary: Message,
}

fn of(build: impl FnOnce(&mut Message)) -> Message {
    let mut message = Message::default();
    build(&mut message);
    message
}

impl Otlp {
    /// A profile in which `main` calls `f`; its attributes are none and `thread.name`.
    fn new() -> Self {
        let row = |field, values: &[u64]| {
            of(|row| {
                let inner = of(|inner| (1..).zip(values).for_each(|(at, value)| inner.number(at, *value)));
                row.bytes(field, &inner.0);
            })
        };
        let location = |function| {
            of(|row| {
                let line = of(|line| line.number(1, function));
                row.bytes(2, &of(|location| location.bytes(3, &line.0)).0);
            })
        };
        let mut dictionary = vec![row(1, &[]), row(2, &[]), location(1), location(2)];
        dictionary.extend([row(3, &[]), row(3, &[1]), row(3, &[2])]);
        dictionary.extend([row(6, &[]), row(6, &[5]), row(7, &[])]);
        dictionary.push(of(|row| row.bytes(7, &of(|stack| stack.numbers(1, [2, 1].into_iter(), false)).0)));
        for text in ["", "main", "f", "samples", "count", "thread.name"] {
            dictionary.push(of(|row| row.bytes(5, text.as_bytes())));
        }
        let dictionary: Vec<u8> = dictionary.into_iter().flat_map(|row| row.0).collect();
        let sample_type = of(|types| {
            types.number(1, 3);
            types.number(2, 4);
        });
        Self {
            samples: Vec::new(),
            profile: Message::default(),
            sample_type,
            dictionary: Message(dictionary),
        }
    }

    /// Adds samples of stack 1, with fields added by `build`.
    fn with(mut self, build: impl FnOnce(&mut Message)) -> Self {
        let mut sample = of(|sample| sample.number(1, 1));
        build(&mut sample);
        self.samples.push(sample);
        self
    }

    fn encode(&self) -> Vec<u8> {
        let profile = of(|profile| {
            profile.bytes(1, &self.sample_type.0);
            self.samples.iter().for_each(|sample| profile.bytes(2, &sample.0));
            profile.0.extend_from_slice(&self.profile.0);
        });
        let scope = of(|scope| scope.bytes(2, &profile.0));
        let resource = of(|resource| resource.bytes(2, &scope.0));
        let data = of(|data| {
            data.bytes(1, &resource.0);
            data.bytes(2, &self.dictionary.0);
        });
        data.0
    }

    fn read(&self) -> sediment_core::Result<Recording> {
        read(&self.encode())
    }
}

/// Writes packed integers.
fn list(message: &mut Message, field: u64, values: &[u64]) {
    message.numbers(field, values.iter().copied(), false);
}

/// Writes this number of timestamps.
fn times(message: &mut Message, count: usize) {
    message.bytes(5, &vec![7; 8 * count]);
}

#[test]
fn every_number_that_changed_is_read_in_both_versions() {
    let total = |otlp: &Otlp| otlp.read().map(|recording| recording.total);
    let newer = |build: fn(&mut Message)| total(&Otlp::new().with(build)).unwrap();
    // values 4, attribute_indices 2, link_index 3.
    assert_eq!(newer(|s| list(s, 4, &[5, 6])), 11);
    assert_eq!(newer(|s| (list(s, 2, &[1]), list(s, 4, &[5])).1), 5);
    assert_eq!(newer(|s| (s.number(3, 9), list(s, 4, &[5])).1), 5);
    // values 2, attribute_indices 3, link_index 4.
    assert_eq!(newer(|s| list(s, 2, &[5, 6])), 11);
    assert_eq!(newer(|s| (list(s, 2, &[5]), list(s, 3, &[1])).1), 5);
    assert_eq!(newer(|s| (list(s, 2, &[5]), s.number(4, 9)).1), 5);
    // Timestamps alone count 1 each. One of two samples is enough to show the layout of both.
    assert_eq!(newer(|s| times(s, 3)), 3);
    assert_eq!(newer(|s| (list(s, 2, &[1]), times(s, 3)).1), 3);
    assert_eq!(newer(|s| (list(s, 2, &[40, 2]), times(s, 2)).1), 42, "no attribute 40: values of 1.9");
    assert_eq!(newer(|s| (list(s, 2, &[1]), times(s, 1)).1), 1, "either, so an attribute");
    let both = Otlp::new().with(|s| (list(s, 2, &[1]), times(s, 1)).1).with(|s| s.number(4, 9));
    assert!(total(&both).is_err(), "a link alone, so without values");
    let both = Otlp::new().with(|s| (list(s, 2, &[1]), times(s, 1)).1).with(|s| list(s, 2, &[8]));
    assert_eq!(total(&both).unwrap(), 9);
}

/// A change to a message that makes it wrong.
type OtlpFault = fn(&mut Otlp);

#[test]
fn shapes_of_no_version_are_refused_with_the_versions_that_are_read() {
    let valid = || Otlp::new().with(|sample| list(sample, 4, &[5]));
    assert!(valid().read().is_ok());
    let rows: [(u64, &str, OtlpFault); 16] = [
        // Samples of both versions, in two samples and in one.
        (0x15, "", |p| p.samples.push(of(|s| (s.number(1, 1), list(s, 3, &[1])).1))),
        (0xe, "", |p| list(&mut p.samples[0], 3, &[1])),
        // Samples of the older layout, and samples of an unknown newer one.
        (0xe, "", |p| p.samples[0].number(2, 3)),
        (0xe, "", |p| p.samples[0].number(6, 3)),
        (0xe, "", |p| p.samples[0] = of(|s| s.number(1, 1))),
        (0xe, "1 value and 3 timestamps", |p| times(&mut p.samples[0], 3)),
        // 1.8: the temporality of a type, comments, and the fields after them.
        (0xc, "ValueType", |p| p.sample_type.number(3, 1)),
        (0x13, "profile_id", |p| list(&mut p.profile, 7, &[1, 2])),
        (0x13, "dropped_attributes_count", |p| p.profile.bytes(8, &[1; 16])),
        (0x13, "original_payload_format", |p| p.profile.number(9, 1)),
        (0x13, "field 12", |p| list(&mut p.profile, 12, &[1])),
        // 1.7: the locations of a profile, its times, and the units of attributes.
        (0x13, "time_unix_nano", |p| list(&mut p.profile, 3, &[1, 2])),
        (0x13, "period", |p| p.profile.bytes(6, b"\x08\x01")),
        (0x67, "location_indices", |p| p.dictionary.bytes(7, b"\x08\x01\x10\x02")),
        (0x67, "key_strindex", |p| p.dictionary.bytes(6, b"\x0a\x03key")),
        // Tables whose first entry is not empty.
        (0, "", |p| p.dictionary = of(|d| d.bytes(5, b"main"))),
    ];
    for (row, (offset, named, change)) in rows.into_iter().enumerate() {
        let mut profile = valid();
        change(&mut profile);
        let error = profile.read().unwrap_err();
        assert_eq!(error.code(), ErrorCode::UnsupportedVariant, "{row}: {error}");
        assert_eq!(error.location(), Some(ErrorLocation::Offset(offset)), "{row}: {error}");
        assert!(error.to_string().contains(named), "{row}: {error}");
        assert!(error.hint().unwrap().contains("1.9 to 1.11"), "{row}: {error:?}");
    }
}

#[test]
fn indices_outside_their_tables_are_named() {
    let valid = || Otlp::new().with(|sample| list(sample, 4, &[5]));
    let rows: [(&str, OtlpFault); 6] = [
        ("stack 77", |p| p.samples[0].number(1, 77)),
        ("stack -1", |p| p.samples[0].number(1, u64::MAX)),
        ("string 78", |p| p.sample_type.number(1, 78)),
        ("location 79", |p| p.dictionary.bytes(7, &of(|stack| list(stack, 1, &[1, 79])).0)),
        ("mapping 80", |p| p.dictionary.bytes(2, &of(|location| location.number(1, 80)).0)),
        ("attribute 81", |p| {
            p.dictionary.bytes(1, b"");
            p.dictionary.bytes(1, &of(|mapping| list(mapping, 5, &[81])).0);
        }),
    ];
    for (named, change) in rows {
        let mut profile = valid();
        change(&mut profile);
        // The new stack is used, or a stack with the new location.
        profile.dictionary.bytes(7, &of(|stack| list(stack, 1, &[3])).0);
        profile = profile.with(|sample| (sample.number(1, 2), list(sample, 4, &[1])).1);
        let error = profile.read().unwrap_err();
        assert!(error.code() == ErrorCode::Damaged && error.to_string().contains(named), "{error}");
    }
}

#[test]
fn samples_that_say_nothing_are_counted() {
    let profile = Otlp::new()
        .with(|s| list(s, 4, &[5]))
        .with(|s| list(s, 4, &[3, -3i64 as u64]))
        .with(|s| list(s, 4, &[-7i64 as u64]))
        .with(|s| (s.number(1, 0), list(s, 4, &[2])).1);
    let mut stackless = profile.clone();
    stackless.samples[3] = of(|s| list(s, 4, &[2]));
    let recording = stackless.read().unwrap();
    assert_eq!(recording.total, 5);
    for (why, weight) in [(Reason::ZeroSample, 0), (Reason::NegativeSample, 7), (Reason::StacklessSample, 2)]
    {
        let entry = recording.skipped.iter().find(|(reason, _)| *reason == why).unwrap().1;
        assert_eq!((entry.items, entry.weight), (1, weight), "{why}");
    }
}

/// A message in JSON, with its samples and further fields of the profile as texts.
fn json(samples: &str, further: &str) -> String {
    format!(
        r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{"samples":[{samples}],{further}"sampleType":{{"typeStrindex":3,"unitStrindex":4}}}}]}}]}}],
        "dictionary":{{"mappingTable":[{{}}],"locationTable":[{{}},{{"lines":[{{"functionIndex":1}}]}},{{"lines":[{{"functionIndex":2}}]}}],
        "functionTable":[{{}},{{"nameStrindex":1}},{{"nameStrindex":2}}],"stackTable":[{{}},{{"locationIndices":[2,1]}}],
        "stringTable":["","main","f\u00fc","samples","count"]}}}}"#
    )
}

#[test]
fn numbers_and_names_in_json_have_two_forms_each() {
    for samples in [
        r#"{"stackIndex":1,"values":["5"]}"#,
        r#"{"stack_index":"1","values":[2,3],"attribute_indices":[],"linkIndex":null}"#,
        r#"{"stackIndex":1,"timestampsUnixNano":["1","2",3,4,"5"]}"#,
    ] {
        let recording = read(json(samples, r#""profileId":"00","#).as_bytes()).unwrap();
        assert_eq!(recording.total, 5, "{samples}");
        assert_eq!(addresses(&recording), ["-:fü", "-:main"]);
    }
}

#[test]
fn json_that_is_no_profile_is_refused_where_it_is() {
    let valid = r#"{"stackIndex":1,"values":["5"]}"#;
    let cut = &json(valid, "")[..200];
    let (damaged, unknown) = (ErrorCode::Damaged, ErrorCode::UnsupportedVariant);
    for (text, code, location) in [
        (json(r#"{"stackIndex":1,"values":["five"]}"#, ""), unknown, Some(ErrorLocation::Line(1))),
        (json(r#"{"stackIndex":1,"values":5}"#, ""), unknown, Some(ErrorLocation::Line(1))),
        (json(r#"{"stackIndex":1.5,"values":[5]}"#, ""), unknown, Some(ErrorLocation::Line(1))),
        (json(r#"{"stackIndex":1,"value":[5]}"#, ""), unknown, Some(ErrorLocation::Line(1))),
        (json("[]", ""), unknown, Some(ErrorLocation::Line(1))),
        (json(valid, r#""commentStrindices":[1],"#), unknown, Some(ErrorLocation::Line(1))),
        (cut.to_owned(), damaged, Some(ErrorLocation::Line(2))),
        (json("", ""), ErrorCode::EmptyRecording, None),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.location()), (code, location), "{error}");
    }
}

#[test]
fn a_bomb_ends_in_an_error() {
    let forced = |bytes: &[u8]| {
        let settings = ReadSettings { format: Some("otlp".into()), ..ReadSettings::default() };
        let error = sediment_read::read::read(&bytes, &settings).unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooLarge, "{error}");
    };
    let valid = Otlp::new().with(|sample| list(sample, 4, &[5]));
    // One text many times; and empty rows, each of which takes more memory than its length in the file.
    let mut texts = valid.clone();
    (0..100).for_each(|_| texts.dictionary.bytes(5, &vec![b'a'; 1 << 20]));
    forced(&gzip(&texts.encode()));
    let mut rows = valid.clone();
    (0..4_000_000).for_each(|_| rows.dictionary.bytes(2, b""));
    forced(&gzip(&rows.encode()));
    let many = format!("\"mappingTable\":[{}{{}}", "{},".repeat(1_000_000));
    forced(&gzip(json("{}", "").replacen("\"mappingTable\":[{}", &many, 1).as_bytes()));
    // The samples of a long stack are added up before the stack is processed.
    let mut long = Otlp::new();
    long.dictionary.bytes(7, &of(|stack| stack.numbers(1, (0..200_000).map(|at| 1 + at % 2), false)).0);
    for _ in 0..200_000 {
        long.samples.push(of(|sample| (sample.number(1, 2), list(sample, 4, &[1])).1));
    }
    assert_eq!(long.read().unwrap().total, 400_000);
}

#[test]
fn other_files_are_not_taken_for_profiles() {
    let reader = sediment_read::read::READERS.iter().find(|reader| reader.name == "otlp").unwrap();
    let valid = Otlp::new().with(|sample| list(sample, 4, &[5])).encode();
    assert!((reader.recognises)(&valid) && (reader.recognises)(&gzip(&valid)));
    assert!((reader.recognises)(b"{ \"resource_profiles\": []}"));
    let pprof = pprof_writer::of_stacks(&[(&["main", "f"], 5)]).encode(pprof_writer::Form::default());
    for other in [
        &b""[..],
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        b"\n\x02ab",
        b"{\"traceEvents\":[]}",
        b"{}",
        b"\0\0\0\0\0\0\0\0",
        b"\x1f\x8b\x08",
        &pprof,
    ] {
        assert!(!(reader.recognises)(other), "{}", String::from_utf8_lossy(other));
    }
}

/// A library that is found by its build-id.
struct BuildIdLibrary(Vec<u8>);

impl Files for BuildIdLibrary {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>> {
        (path == "library.so" && build_id == Some("00c0ffee00c0ffee")).then(|| self.0.clone())
    }
}

/// The profiler of the collector writes native frames like this: addresses in the file, in a mapping that says so, and
/// the file's base name and build-id.
#[test]
fn frames_without_names_become_an_order_by_build_id() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int leaf(int n) { return n + 1; } int step(int n) { return leaf(n) * 2; }";
    std::fs::write(folder.path().join("library.c"), source).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-O1", "-fPIC", "-shared", "-fno-inline", "-fno-semantic-interposition", "-ffunction-sections"]);
    cc.args(["-Wl,--build-id=0x00c0ffee00c0ffee", "library.c", "-o", "library.so"]);
    if !cc.current_dir(folder.path()).status().is_ok_and(|status| status.success()) {
        return support::skip("cc is missing");
    }
    let bytes = std::fs::read(folder.path().join("library.so")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let address = |name| file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address();
    let (step, leaf) = (address("step"), address("leaf"));
    let holds = |at: u64, size: u64| (at..at + size).contains(&step);
    let text = file.segments().find(|segment| holds(segment.address(), segment.size())).unwrap();
    let (start, offset) = (text.address() & !0xfff, text.file_range().0 & !0xfff);
    let message = format!(
        r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{"sampleType":{{"typeStrindex":1,"unitStrindex":2}},
        "samples":[{{"stackIndex":1,"timestampsUnixNano":["7","8","9"]}}]}}]}}]}}],
        "dictionary":{{"mappingTable":[{{}},{{"memoryStart":"{start}","memoryLimit":"{}","fileOffset":"{offset}","filenameStrindex":3,"attributeIndices":[1,2]}}],
        "locationTable":[{{}},{{"mappingIndex":1,"address":"{}"}},{{"mappingIndex":1,"address":"{}"}}],
        "attributeTable":[{{}},{{"keyStrindex":4,"value":{{"stringValue":"6060"}}}},{{"keyStrindex":5,"value":{{"stringValueStrindex":6}}}}],
        "stackTable":[{{}},{{"locationIndices":[1,2]}}],
        "stringTable":["","samples","count","library.so","process.executable.build_id.htlhash","process.executable.build_id.gnu","00c0ffee00c0ffee"]}}}}"#,
        text.address() + text.size(),
        leaf + 1,
        step + 1,
    );
    let recording = read(message.as_bytes()).unwrap();
    let (profile, _) = resolve(&recording, &BuildIdLibrary(bytes)).unwrap();
    let written = sediment_core::profile::text::print(&profile);
    assert!(written.contains("\"step\" -> \"leaf\" [label=1.000000, count=3]"), "{written}");
    let ordering = order::compute(&profile, &Selection::Everything, &OrderRequest::default()).unwrap();
    let gnu_ld = linker("gnu-ld-script").unwrap();
    let (placed, _) = placements(&ordering.order, &ordering.built, None, gnu_ld.wants_calls);
    let (script, _) = (gnu_ld.write)(&placed);
    assert!(script.contains(".text.step)") && script.contains(".text.leaf)"), "{script}");
}

fn whole() -> Vec<Vec<u8>> {
    let mut all = reading::inputs("otlp");
    all.push(Otlp::new().with(|sample| list(sample, 4, &[5])).encode());
    all.push(json(r#"{"stackIndex":1,"values":["5"]}"#, "").into_bytes());
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        reading::stays_in_proportion("otlp", &bytes, 600);
        reading::stays_in_proportion("otlp", &gzip(&bytes), 600);
    }

    #[test]
    fn damaged_profiles_do_no_harm(bytes in reading::damaged(whole())) {
        reading::stays_in_proportion("otlp", &bytes, 20_000);
        reading::stays_in_proportion("otlp", &gzip(&bytes), 20_000);
    }
}
