// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading text profiles: goldens, generated files compared with their sources, and damage.

mod skipped;

use proptest::prelude::*;
use sediment_core::ErrorLocation;
use sediment_core::skipped::Reason;
use sediment_read::read::{AddressId, READERS, ReadSettings, Recording, Spot};
use std::collections::{BTreeMap, BTreeSet};
use support::callgrind_text;
use support::damage;
use support::describe::{describe, place};
use support::perf_report_text;
use support::perf_report_text::{Call, End, Field, Form, Name, Truth};
use support::read;

/// Returns the text of a reader's result for a file, or of its error.
fn outcome(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(recording) => describe(&recording),
        Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
    }
}

fn goldens(format: &str) {
    let cases = support::golden_cases(&format!("read/{format}"));
    assert!(!cases.is_empty());
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        assert!(case.join("how.txt").is_file(), "{name}: how was its input made?");
        let input = std::fs::read(case.join("input")).unwrap();
        support::golden(&format!("read/{format}/{name}/expected"), &outcome(&input));
    }
}

#[test]
fn perf_report_goldens() {
    goldens("perf-report");
}

#[test]
fn callgrind_goldens() {
    goldens("callgrind");
}

/// Returns calls like those of a real report, and some that no report has had yet.
fn calls() -> Vec<Call> {
    let named = [
        ("postgres", "palloc"),
        ("postgres", "AllocSetAlloc"),
        ("postgres", "strlen@plt"),
        ("postgres", "ReadBuffer_common.lto_priv.0"),
        ("libc.so.6", "__memset_avx2_unaligned@@GLIBC_2.2.5"),
        ("libc.so.6", "palloc"),
        ("a library.so", "std::map<int, std::string>::operator[](int&&)"),
        ("a library.so", "operator new(unsigned long)"),
        ("a library.so", "(anonymous namespace)::f(char const*, ...)"),
        ("a library.so", "two  blanks"),
        ("a library.so", "a) *(.evil"),
        ("a library.so", "%(id)|cut, here"),
        ("a library.so", "[.] name"),
        ("a library.so", "0x12_is_a_name"),
        ("a library.so", "naïve_größe"),
        ("[", "main"),
        ("[unknown]", "loose"),
    ];
    let ends: Vec<End> = named.iter().map(|(object, name)| End::symbol(object, name)).collect();
    let mut calls = Vec::new();
    let mut numbers = callgrind_text::Numbers(7);
    for number in 0..400u64 {
        let mut end = || ends[numbers.below(ends.len() as u64) as usize].clone();
        let (from, to) = (end(), end());
        let command = ["postgres", "*=1 --shar:sq0", "a b  c"][number as usize % 3].to_owned();
        // The rows are heavy and light, so that many are printed as 0.00 %.
        let count = if number % 5 == 0 { numbers.below(2_000_000) + 1 } else { numbers.below(40) + 1 };
        calls.push(Call { command, from, to, count });
    }
    let kernel =
        End { object: "[kernel.kallsyms]".into(), name: Name::Symbol("do_syscall_64".into()), mark: 'k' };
    let lost = End { object: "[unknown]".into(), name: Name::Address(0xffff_ffff_b1e0_0a67), mark: 'H' };
    for (number, end) in [kernel, lost, End::address("postgres", 0x967), End::address("postgres", 0x968)]
        .into_iter()
        .enumerate()
    {
        let known = End::symbol("postgres", &format!("only_beside_unknown_{number}"));
        let call = |from: &End, to: &End| Call {
            command: "postgres".into(),
            from: from.clone(),
            to: to.clone(),
            count: 1000 + number as u64,
        };
        calls.push(call(&known, &end));
        calls.push(call(&end, &known));
        calls.push(call(&end, &end));
    }
    calls.sort_by_key(|call| std::cmp::Reverse(call.count));
    calls
}

fn read_truth(recording: &Recording) -> Truth {
    let mut truth = Truth::default();
    for id in 0..recording.addresses().len() as u32 {
        truth.functions.insert(place(recording, AddressId(id)));
    }
    for (from, to, _, count) in recording.transfers() {
        *truth.calls.entry((place(recording, from), place(recording, to))).or_default() += count;
    }
    truth
}

const ALL: [Field; 5] =
    [Field::Command, Field::SourceObject, Field::SourceSymbol, Field::TargetObject, Field::TargetSymbol];

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    let with = |first: &[Field], last: &[Field]| Form::new(&[first, &ALL, last].concat());
    for counted in [
        &[Field::Overhead, Field::Samples, Field::Period][..],
        &[Field::Overhead, Field::Samples],
        &[Field::Period],
    ] {
        forms.push(with(counted, &[]));
        forms.push(with(counted, &[Field::Ipc]));
        forms.push(with(counted, &[Field::Cycles]));
        forms.push(Form::new(&[&[Field::Overhead], &ALL[..], counted].concat()));
        forms.push(Form::new(&[counted, &ALL[1..]].concat()));
        forms.push(Form::new(&[counted, &[Field::SourceSymbol, Field::TargetSymbol]].concat()));
        forms.push(Form::new(
            &[
                counted,
                &[
                    Field::TargetSymbol,
                    Field::TargetObject,
                    Field::Command,
                    Field::SourceSymbol,
                    Field::SourceObject,
                ],
            ]
            .concat(),
        ));
    }
    let plain = forms.clone();
    let variants: [fn(&mut Form); 9] = [
        |form| form.separator = Some("|"),
        |form| form.separator = Some(","),
        |form| form.separator = Some("\t"),
        |form| form.separator = Some("::"),
        |form| form.verbose = true,
        |form| form.carriage_returns = true,
        |form| form.trimmed = true,
        |form| form.trees = form.fields[0] == Field::Overhead || form.fields[0] == Field::Period,
        |form| form.event_count = false,
    ];
    for variant in variants {
        for form in &plain {
            let mut form = form.clone();
            variant(&mut form);
            forms.push(form);
        }
    }
    forms
}

/// Makes the same checks on generated reports that tests/shared_data.rs makes on a real one.
#[test]
fn every_form_of_a_perf_report_reads_as_what_it_was_printed_from() {
    let calls = calls();
    let total: u128 = calls.iter().map(|call| u128::from(call.count)).sum();
    for form in forms() {
        let text = perf_report_text::print("branches:u", &calls, &form);
        let recording = read(text.as_bytes()).unwrap_or_else(|error| panic!("{form:?}: {error}\n{text}"));
        assert_eq!(read_truth(&recording), perf_report_text::truth(&calls, &form), "{form:?}\n{text}");
        assert_eq!(recording.total, total, "{form:?}");
        assert_eq!(recording.source.to_string(), "perf branch records (branches:u)");
        let with_objects = form.fields.contains(&Field::SourceObject);
        // The address marked H is outside of all programs, whether or not its object is printed, and so is the kernel's
        // function.
        assert_eq!(recording.skipped.items(Reason::KernelEnd), 6, "{form:?}");
        assert_eq!(recording.skipped.items(Reason::UnresolvedEnd), 6, "{form:?}");
        let addresses = recording.skipped.items(Reason::UnresolvedAddress);
        assert_eq!(addresses, 3, "{form:?} {with_objects}");
        if form.trees {
            assert_eq!(recording.skipped.items(Reason::CallTree), 3 * calls.len() as u64);
        }
    }
}

#[test]
fn rounded_shares_come_back_as_counts_that_make_up_the_total() {
    let calls = calls();
    let total: u64 = calls.iter().map(|call| call.count).sum();
    for variant in [None, Some("|")] {
        let mut form = Form::new(&[&[Field::Overhead], &ALL[..]].concat());
        form.separator = variant;
        let text = perf_report_text::print("branches:u", &calls, &form);
        let recording = read(text.as_bytes()).unwrap();
        let (is, was) = (read_truth(&recording), perf_report_text::truth(&calls, &form));
        assert_eq!(is.functions, was.functions);
        assert_eq!(
            is.calls.keys().collect::<Vec<_>>(),
            was.calls.keys().collect::<Vec<_>>(),
            "zero rows are kept"
        );
        assert_eq!(recording.total, u128::from(total));
        let lost = recording.skipped.weight(|why| !matches!(why, Reason::NoBranch | Reason::InnerBranch));
        let kept: u128 = is.calls.values().sum();
        assert!(kept + lost <= u128::from(total));
        let rows = |pair: &(String, String)| {
            let same = |call: &&Call| {
                let name = |end: &End| match &end.name {
                    Name::Symbol(name) => name.clone(),
                    Name::Address(_) => String::new(),
                };
                pair.0.ends_with(&name(&call.from)) && pair.1.ends_with(&name(&call.to))
            };
            calls.iter().filter(same).count() as u128
        };
        for (pair, count) in &is.calls {
            // For each added row, half of the smallest share that can be printed.
            let near = rows(pair) * (u128::from(total) / 20_000 + 1);
            assert!(count.abs_diff(was.calls[pair]) <= near, "{pair:?}: {count} for {}", was.calls[pair]);
        }
    }
}

#[test]
fn an_object_that_was_cut_to_its_column_is_the_longer_one_it_begins() {
    let long = "libevent-2.1.so.7.0.1";
    let calls = [
        Call {
            command: "x".into(),
            from: End::symbol("postgres", "f"),
            to: End::symbol(long, "g"),
            count: 5,
        },
        Call {
            command: "x".into(),
            from: End::symbol(long, "g"),
            to: End::symbol("postgres", "f"),
            count: 3,
        },
    ];
    let mut form = Form::new(&[&[Field::Period], &ALL[..]].concat());
    form.widths = vec![0, 0, 20];
    let text = perf_report_text::print("branches:u", &calls, &form);
    assert!(text.contains("libevent-2.1.so.7.0.  [.] g"), "{text}");
    let recording = read(text.as_bytes()).unwrap();
    assert_eq!(read_truth(&recording), perf_report_text::truth(&calls, &form));
    assert_eq!(recording.dsos().len(), 2);
}

#[test]
fn columns_that_were_made_narrow_are_still_told_apart() {
    let call = |from, to| Call { command: "command".into(), from, to, count: 5 };
    let calls = [
        call(End::symbol("short", "abcdef"), End::address("short", 0x967)),
        call(End::symbol("a_longer_object", "whole"), End::symbol("short", "cut_off_here")),
    ];
    let mut form = Form::new(&[&[Field::Overhead, Field::Period], &ALL[..]].concat());
    // Even then addresses are printed in full, and move the rest of their rows to the right.
    form.widths = vec![0, 0, 3, 8, 11, 8, 10];
    let text = perf_report_text::print("branches:u", &calls, &form);
    let recording = read(text.as_bytes()).unwrap();
    // A name that fills a column narrower than its heading was cut off, so it names nothing.
    let known = BTreeSet::from(["short:abcdef".to_owned(), "-:whole".to_owned()]);
    assert_eq!(read_truth(&recording).functions, known, "{text}");
    assert_eq!(recording.skipped.items(Reason::CutEnd), 1);

    form.widths = vec![0, 0, 3, 8, 8, 8, 10];
    let text = perf_report_text::print("branches:u", &calls, &form);
    let error = read(text.as_bytes()).unwrap_err();
    assert_eq!(error.location(), Some(ErrorLocation::Line(6)), "{error}");
    assert!(error.to_string().contains("Source S"), "{error}");
}

#[test]
fn the_same_event_adds_up_and_another_is_counted() {
    let calls = calls();
    let form = Form::new(&[&[Field::Period], &ALL[..]].concat());
    let of = |event: &str| perf_report_text::print(event, &calls, &form);
    let once = read(of("branches:u").as_bytes()).unwrap();
    let twice = read((of("branches:u") + &of("cycles:u") + &of("branches:u")).as_bytes()).unwrap();
    assert_eq!(twice.total, 2 * once.total);
    let doubled: BTreeMap<_, _> =
        read_truth(&once).calls.into_iter().map(|(pair, count)| (pair, 2 * count)).collect();
    assert_eq!(read_truth(&twice).calls, doubled);
    assert_eq!(twice.skipped.items(Reason::LaterEventRow), calls.len() as u64);
}

fn callgrind_forms() -> Vec<callgrind_text::Form> {
    let mut forms = Vec::new();
    for bits in 0..64u32 {
        let bit = |number: u32| bits & (1 << number) != 0;
        forms.push(callgrind_text::Form {
            compress_names: bit(0),
            compress_positions: bit(1),
            instructions: bit(2),
            lines: bit(3),
            further_events: if bit(4) { 3 } else { 0 },
            parts: if bit(5) { 3 } else { 1 },
            carriage_returns: bits % 5 == 0,
        });
    }
    forms
}

#[test]
fn every_form_of_callgrind_reads_as_what_it_was_printed_from() {
    let program = callgrind_text::Program::generate(60, 90, 25, 3);
    let truth = program.truth();
    for form in callgrind_forms() {
        let text = program.print(form);
        let recording = read(text.as_bytes()).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        let costs: BTreeMap<String, u128> =
            recording.samples().into_iter().map(|(id, cost)| (place(&recording, id), cost)).collect();
        assert_eq!(costs, truth.costs, "{form:?}");
        assert_eq!(read_truth(&recording).calls, truth.calls, "{form:?}");
        assert_eq!(recording.total, truth.calls.values().sum::<u128>(), "{form:?}");
        assert!(recording.skipped.is_empty());
        assert_eq!(recording.source.to_string(), "valgrind callgrind (Ir)");
    }
}

#[test]
fn nothing_and_noise_are_refused_with_a_reason() {
    for bytes in
        [&b""[..], b" \n\t\r\n", b"\0\x01\x02 callgrind perf \xff\xfe", b"\x7fELF\x02\x01\x01", b"hello\n"]
    {
        let error = read(bytes).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
    }
    assert!(
        read(b"").unwrap_err().hint().unwrap().contains("NAME.1"),
        "callgrind leaves an empty file beside its parts"
    );
}

/// If a callgrind file ends too early, it is refused, with the line.
#[test]
fn a_callgrind_file_that_is_cut_off_is_never_taken_for_a_whole_one() {
    let form = callgrind_forms()[3];
    let text = callgrind_text::Program::generate(5, 6, 8, 1).print(form);
    let whole = text.trim_end().len() - "totals: 1".len();
    for length in 1..whole {
        let error = read(&text.as_bytes()[..length]).map(|recording| describe(&recording)).unwrap_err();
        assert!(error.hint().is_some(), "{length}: {error}");
    }
    assert!(read(&text.as_bytes()[..whole + "totals:".len()]).is_ok());
}

/// A name is defined once and then repeated by its id, so the content of a file can be far larger than the file.
#[test]
fn a_long_name_that_is_repeated_by_its_id_takes_no_memory_each_time() {
    let long = "n".repeat(1_000_000);
    let mut text =
        format!("version: 1\ncreator: callgrind\nevents: Ir\nfl=(1) /src/{long}\nfn=(1) main\n1 1\n");
    text += &format!("cfn=(2) (below main)'{long}\ncalls=1 1\n1 1\n");
    for number in 3..20_000 {
        text +=
            &format!("cfn=({number}) f{number}\ncalls=1 1\n1 1\ncfn=(2)\ncalls=1 1\n1 1\nfn=({number})\n");
    }
    text += "totals: 1\n";
    let recording = read(text.as_bytes()).unwrap();
    assert_eq!(recording.transfers().len(), 19_997);
    for place in recording.addresses() {
        assert!(matches!(&place.spot, Spot::Symbol { file: None, .. }), "no file has so long a name");
    }
}

#[test]
fn a_table_of_countless_columns_is_refused() {
    let header = "# Source Symbol  Target Symbol".to_owned() + &"  a".repeat(100_000);
    let ruler = "# .............  .............".to_owned() + &"  .".repeat(100_000);
    let text = format!("# Samples: 1 of event 'x'\n{header}\n{ruler}\n{}", "  x\n".repeat(100_000));
    let error = read(text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("100002"), "{error}");
}

/// Makes a file and a few changes that damage it.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let mut whole: Vec<Vec<u8>> = Vec::new();
    for format in ["perf-report", "callgrind"] {
        for case in support::golden_cases(&format!("read/{format}")) {
            whole.push(std::fs::read(case.join("input")).unwrap());
        }
    }
    damage::damaged(whole, b"(0129xX%'|\n =.-")
}

fn stays_in_proportion(bytes: &[u8]) {
    for reader in READERS.iter().filter(|reader| reader.name != "perf-data") {
        let _ = (reader.recognises)(bytes);
        match (reader.read)(&bytes, &ReadSettings::default()) {
            Ok(recording) => {
                assert!(
                    !recording.addresses().is_empty() || !recording.skipped.is_empty(),
                    "an empty success"
                );
                assert!(recording.addresses().len() + recording.transfers().len() <= bytes.len());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
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
