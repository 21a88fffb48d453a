// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of ordering files, written and read back. `toolchain/link.rs` tests them with real linkers.
//!
//! A case is a folder of tests/golden/link. `functions.txt` lists the functions in the requested order, one per line:
//! name and, after tabs, weight and file if known. `binary.txt`, if it exists, lists the functions of the binary. A
//! folder with an `order.txt` is only read.

use proptest::prelude::*;
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::callgraph::{CallGraph, GroupKind, Order};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::{ErrorCode, ErrorLocation, Skipped};
use sediment_order::link::{self, LINKERS, Placement};
use sediment_order::order::{self, BuiltGraph, Selection};
use std::fmt::Write as _;
use std::path::Path;

struct AskedFunction {
    name: String,
    weight: u64,
    file: Option<String>,
}

fn functions(text: &str) -> Vec<AskedFunction> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut columns = line.split('\t');
            AskedFunction {
                name: columns.next().unwrap().to_owned(),
                weight: columns.next().map_or(1, |weight| weight.parse().unwrap()),
                file: columns.next().map(str::to_owned),
            }
        })
        .collect()
}

/// Each line is a function: its names, separated by blanks and, for a local function, a tab and its source file.
fn binary(symbols: &str) -> Binary {
    let function = |name: &str, file: Option<&str>, place: u64| BinaryFunction {
        name: name.to_owned(),
        address: 0x1000 + 16 * place,
        size: 16,
        section: ".text".to_owned(),
        file: file.map(str::to_owned),
        local: file.is_some(),
        ifunc: false,
        untyped: false,
    };
    let functions = symbols
        .lines()
        .zip(0..)
        .flat_map(|(line, place)| {
            let (names, file) =
                line.split_once('\t').map_or((line, None), |(names, file)| (names, Some(file)));
            names.split(' ').map(move |name| function(name, file, place))
        })
        .collect();
    Binary { functions, ..Binary::default() }
}

fn place(asked: &[AskedFunction], binary: Option<&Binary>) -> (Vec<Placement>, Skipped) {
    let keys = asked
        .iter()
        .map(|function| FunctionKey { dso: None, name: function.name.clone(), file: function.file.clone() })
        .collect();
    let weights = asked.iter().map(|function| function.weight).collect();
    let graph = CallGraph::new(vec![16; asked.len()], weights, Vec::new()).unwrap();
    let order = Order::of(GroupKind::Hot, graph.ids().collect());
    let built = BuiltGraph {
        graph,
        table: FunctionTable { keys, ..Default::default() },
        skipped: Skipped::default(),
        is_in_input_order: false,
    };
    link::placements(&order, &built, binary, true)
}

fn skip_report(skipped: &Skipped) -> String {
    skipped.iter().fold(String::new(), |mut text, (reason, entry)| {
        let example = entry.example.as_deref().unwrap_or_default().escape_debug();
        let _ = writeln!(text, "{reason}: {} (weight {}), such as {example}", entry.items, entry.weight);
        text
    })
}

/// Checks what each dialect writes, and that each reads back its own output.
fn check_written(case: &str, placements: &[Placement], mut skipped: Skipped) {
    for linker in LINKERS {
        let (text, left_out) = (linker.write)(placements);
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        support::golden(&format!("link/{case}/expected.{}", linker.name), &text);
        skipped.append(&left_out);
        if linker.name == "lld-call-graph" {
            assert_eq!(link::read(&text).unwrap_err().code(), ErrorCode::UnsupportedVariant, "{case}");
            continue;
        }

        let read: Vec<String> = (linker.read)(&text).unwrap().into_iter().map(|name| name.name).collect();
        let mut functions: Vec<&str> = Vec::new();
        for name in &read {
            let asked = placements.iter().any(|placement| placement.name == *name);
            if asked && !functions.contains(&name.as_str()) {
                functions.push(name);
            }
        }
        // If a dialect does not distinguish files, a name is at the position of the heaviest function with this name.
        let by_file = linker.name.starts_with("gnu-ld");
        let mut expected: Vec<&str> = Vec::new();
        for placement in placements {
            let (_, refused) = (linker.write)(std::slice::from_ref(placement));
            let heavier = placements
                .iter()
                .any(|other| other.name == placement.name && other.weight > placement.weight);
            let stands_here = by_file || !heavier;
            if refused.is_empty() && stands_here && !expected.contains(&placement.name.as_str()) {
                expected.push(&placement.name);
            }
        }
        assert_eq!(functions, expected, "{case}: {} does not read back what it wrote", linker.name);
        if !read.is_empty() {
            let (recognised, names) = link::read(&text).unwrap();
            assert!(
                names.iter().map(|name| &name.name).eq(&read),
                "{case}: {} reads it otherwise",
                recognised.name
            );
        }
    }
    support::golden(&format!("link/{case}/expected.losses"), &skip_report(&skipped));
}

fn file(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

#[test]
fn every_case_is_written_in_every_dialect() {
    for folder in support::golden_cases("link") {
        let case = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(text) = file(&folder, "functions.txt") {
            let binary = file(&folder, "binary.txt").map(|symbols| binary(&symbols));
            let (placements, skipped) = place(&functions(&text), binary.as_ref());
            check_written(&case, &placements, skipped);
        }
    }
}

#[test]
fn hostile_names_are_written_exactly_or_left_out() {
    let asked: Vec<AskedFunction> = support::hostile::names()
        .into_iter()
        .filter(|(_, name)| name.len() < 1000) // the long one is only long
        .map(|(_, name)| AskedFunction { name, weight: 1, file: None })
        .collect();
    let (placements, skipped) = place(&asked, None);
    check_written("hostile-names", &placements, skipped);
}

/// `exit.part.0` is not a function `part.0` in GNU ld's group `exit`.
#[test]
fn functions_named_like_a_group_are_read_back() {
    let (placements, _) =
        place(&[AskedFunction { name: "exit.part.0".to_owned(), weight: 1, file: None }], None);
    for linker in [&link::gnu_ld::LINKER, &link::gnu_ld_script::LINKER] {
        let (text, _) = (linker.write)(&placements);
        let read: Vec<String> = (linker.read)(&text).unwrap().into_iter().map(|name| name.name).collect();
        assert!(read[0] == "exit.part.0" && !read.iter().any(|name| name == "part.0"), "{read:?}");
    }
}

/// Link-time optimisation makes clones: a wildcard places those that the profile does not tell apart.
#[test]
fn clones_of_one_function_are_placed_with_it_unless_the_profile_has_several() {
    let asked: Vec<AskedFunction> = ["one", "two", "two.constprop.0"]
        .iter()
        .map(|name| AskedFunction { name: (*name).to_owned(), weight: 1, file: None })
        .collect();
    let (mut placements, _) = place(&asked, None);
    link::add_sections_of_clones(&mut placements);
    let has_wildcard: Vec<bool> = placements
        .iter()
        .map(|placement| placement.sections.iter().any(|section| section.ends_with('*')))
        .collect();
    assert_eq!(has_wildcard, [true, false, false], "{placements:?}");
}

#[test]
fn orders_of_others_are_read() {
    for folder in support::golden_cases("link") {
        let case = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(text) = file(&folder, "order.txt") else { continue };
        let actual = match link::read(&text) {
            Ok((linker, names)) => {
                names.iter().fold(format!("read as {}\n", linker.name), |mut text, name| {
                    let _ = writeln!(text, "{:>3} {}", name.line, name.name);
                    text
                })
            }
            Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
        };
        support::golden(&format!("link/{case}/expected.names"), &actual);
    }
}

#[test]
fn nothing_that_is_no_order_is_read_as_one() {
    for (text, code) in [
        ("", ErrorCode::UnknownFormat),
        ("\n\n", ErrorCode::UnknownFormat),
        ("# only a comment\n", ErrorCode::EmptyInput),
        (".text : {\n  *(.text.*)\n}\n", ErrorCode::EmptyInput),
        (
            "digraph Callgraph {\n  graph [sediment=2];\n  \"a\" -> \"b\" [label=1.0];\n}\n",
            ErrorCode::UnknownFormat,
        ),
        ("\u{7f}ELF\u{2}\u{1}\u{1}\0\0", ErrorCode::UnknownFormat),
    ] {
        assert_eq!(link::read(text).expect_err(text).code(), code, "{text:?}");
    }
    for (text, line, found) in [
        (".text : {\n  *(.text.a)\n", 2, ""),
        (".text : {\n  *(.text.a)\n}}\n", 3, "`}`"),
        (".text : {\n  *(\".text.a)\n}\n", 2, "\".text.a)"),
        (".text : {\n  /* *(.text.a)\n}\n", 2, "/* *(.text.a)"),
        (".text : {\n  *(.text.a})\n}\n", 2, "`}`"),
        (".text : {\n  *(.text.a\u{1b}[2J)\n}\n", 2, "[2J)"),
    ] {
        let error = link::read(text).expect_err(text);
        assert_eq!(error.location(), Some(ErrorLocation::Line(line)), "{text:?}: {error}");
        assert!(error.to_string().contains(found), "{text:?}: {error}");
    }
}

#[test]
fn our_orders_without_a_function_are_told_from_files_of_others() {
    let [none, one] = [Vec::new(), place(&functions("f\n"), None).0];
    for linker in LINKERS {
        // A list has no line of sediment's own, and a call graph lists calls.
        let is_known = !["list", "lld-call-graph"].contains(&linker.name);
        assert_eq!(link::lists_no_function(&(linker.write)(&none).0), is_known, "{}", linker.name);
        assert!(!link::lists_no_function(&(linker.write)(&one).0), "{}", linker.name);
    }
    for other in ["", "# a comment\n", ".text : {\n}\n"] {
        assert!(!link::lists_no_function(other), "{other:?}");
    }
}

#[test]
fn deep_nesting_is_read_without_recursion() {
    let text = format!(".text : {{ {} *(.text.a) {} }}", "KEEP(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(link::read(&text).unwrap().1[0].name, "a");
}

/// Makes names of the characters that have a meaning for some reader.
fn any_name() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            4 => proptest::char::range('a', 'e'),
            4 => proptest::sample::select(".*?[]()\\\"{};:,#@ /=!-$%'`".chars().collect::<Vec<char>>()),
            1 => any::<char>(),
        ],
        0..10,
    )
    .prop_map(|characters| characters.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_reads_back(names in proptest::collection::vec(any_name(), 0..8)) {
        let placements: Vec<Placement> = names
            .iter()
            .map(|name| Placement {
                name: name.clone(),
                sections: vec![format!(".text.{name}"), format!(".text.hot.{name}")],
                cold_sections: vec![format!(".text.unlikely.{name}")],
                cold_name: None,
                files: Vec::new(),
                weight: 0,
                is_rest: false,
                calls: Vec::new(),
            })
            .collect();
        for linker in LINKERS.iter().filter(|linker| linker.name != "lld-call-graph") {
            let (text, skipped) = (linker.write)(&placements);
            let read: Vec<String> = (linker.read)(&text).unwrap().into_iter().map(|name| name.name).collect();
            let left_out: u64 = skipped.iter().map(|(_, entry)| entry.items).sum();
            prop_assert!(left_out as usize <= names.len());
            // A version after the name is not part of it, and a name that looks like a section group may be taken for
            // one.
            let plain = |name: &&String| !name.contains('@') && !name.starts_with('.');
            for name in names.iter().filter(plain) {
                let alone = std::slice::from_ref(placements.iter().find(|p| p.name == *name).unwrap());
                prop_assert_eq!((linker.write)(alone).1.is_empty(), read.contains(name), "{}: {:?}", linker.name, name);
            }
        }
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "(?s).{0,200}", pieces in proptest::collection::vec(any_name(), 0..20)) {
        for text in [text, pieces.concat(), format!(".text : {{ {} }}", pieces.join(" ")), format!("SECTIONS {{ {}", pieces.concat())] {
            let _ = link::read(&text);
            for linker in LINKERS {
                let _ = (linker.read)(&text);
            }
        }
    }
}

#[test]
fn functions_without_names_are_not_ordered() {
    let text = support::root().join("tests/golden/profile/nameless/profile.gv");
    let (profile, _) = sediment_core::profile::text::parse(&std::fs::read(text).unwrap()).unwrap();
    let built = order::build(&profile, &Selection::Dso("libstripped.so.1")).unwrap();
    let names: Vec<&str> = built.table.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["exported"]);
    assert_eq!(built.skipped.items(sediment_core::skipped::Reason::NamelessFunction), 2);
    // The calls of it by others are still known.
    assert_eq!(built.graph.weights(), [10]);
    let mut nameless = Profile::default();
    *nameless.dso_mut("libstripped.so.1") = profile.dsos()["libstripped.so.1"].clone();
    nameless.function(FunctionKey::new(Some(b"libstripped.so.1"), b"0x4a10", None).unwrap());
    let binary = binary("exported");
    for selection in
        [Selection::Everything, Selection::Binary { binary: &binary, file_name: "libstripped.so.1" }]
    {
        let error = order::build(&nameless, &selection).unwrap_err();
        assert_eq!(error.code(), sediment_core::ErrorCode::Stripped, "{error}");
    }
}

#[test]
fn names_of_one_address_are_ordered_as_one_function() {
    let mut profile = Profile::default();
    let mut key =
        |name: &str| profile.function(FunctionKey::new(Some(b"prog"), name.as_bytes(), None).unwrap());
    let [a, other_a, b, c] = ["A", "Aa", "B", "C"].map(&mut key);
    for (caller, callee, count) in [(a, b, 10), (other_a, c, 30), (b, a, 5), (b, other_a, 7), (a, other_a, 2)]
    {
        profile.edge_mut(caller, callee).count = Some(count);
    }
    profile.facts_mut(a).first = Some(3);
    profile.facts_mut(other_a).first = Some(1);
    let binary = binary("A Aa\nB\nC");
    let selection = Selection::Binary { binary: &binary, file_name: "prog" };
    let built = order::build(&profile, &selection).unwrap();
    let names: Vec<&str> = built.table.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "C"]);
    assert_eq!(built.graph.weights(), [14, 10, 30]);
    let edges: Vec<_> =
        built.graph.edges().iter().map(|edge| (edge.caller.0, edge.callee.0, edge.weight)).collect();
    assert_eq!(edges, [(0, 0, 2), (0, 1, 10), (0, 2, 30), (1, 0, 12)]);
    assert_eq!(order::first_uses(&profile, &built.table), [Some(1), None, None]);
    // It is placed, whichever of its names its section has.
    let order = Order::of(GroupKind::Hot, built.graph.ids().collect());
    let (placed, skipped) = link::placements(&order, &built, Some(&binary), false);
    assert!(skipped.is_empty(), "{skipped:?}");
    let sections = &placed[0].sections;
    assert!(
        [".text.A", ".text.Aa"].iter().all(|name| sections.iter().any(|have| have == name)),
        "{sections:?}"
    );
    // Functions that a linker folded have different names; these are not names of one function.
    let many = "A Aa A3 A4 A5 A6 A7 A8 A9\nB\nC";
    let folded = self::binary(many);
    let built = order::build(&profile, &Selection::Binary { binary: &folded, file_name: "prog" }).unwrap();
    assert_eq!(built.graph.len(), 4);
}
