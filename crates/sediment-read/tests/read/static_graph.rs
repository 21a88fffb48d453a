// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of compilers' call graphs: how each kind is read, how units are joined for a linked file, and what is
//! estimated.

use proptest::prelude::*;
use sediment_core::binary::{Binary, BinaryFunction, PltStub};
use sediment_core::estimate::estimate;
use sediment_core::profile::{FunctionKey, Millionths, Profile, text};
use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, ErrorLocation, Skipped};
use sediment_read::static_graph::{UnitGraph, join_units, read_unit};
use std::collections::BTreeSet;

fn function(name: &str, address: u64, file: Option<&str>) -> BinaryFunction {
    BinaryFunction {
        name: name.to_owned(),
        address,
        size: 16,
        section: ".text".to_owned(),
        file: file.map(str::to_owned),
        local: file.is_some(),
        ifunc: false,
        untyped: false,
    }
}

fn linked(functions: Vec<BinaryFunction>) -> Binary {
    Binary { functions, ..Binary::default() }
}

fn unit(name: &str, lines: &str) -> UnitGraph {
    let text = format!(
        "digraph Callgraph {{\n  graph [sediment=2, source=\"gcc call graphs of units\", total=0];\n{lines}}}\n"
    );
    read_unit(name, text.as_bytes(), &mut Skipped::default()).unwrap()
}

fn runs(profile: &Profile, name: &str) -> f64 {
    let functions = profile.functions();
    let function = functions.iter().find(|function| profile.key(**function).name == name).unwrap();
    let Millionths(millionths) = profile.facts(*function).static_calls.unwrap();
    millionths as f64 / 1e6
}

fn calls(profile: &Profile) -> Vec<(String, String)> {
    let spelt = |key: &FunctionKey| match &key.file {
        Some(file) => format!("{}:{file}", key.name),
        None => key.name.clone(),
    };
    profile.edges().iter().map(|(a, b, _)| (spelt(profile.key(*a)), spelt(profile.key(*b)))).collect()
}

fn pair(caller: &str, callee: &str) -> (String, String) {
    (caller.to_owned(), callee.to_owned())
}

#[test]
fn calls_between_units_meet_and_same_named_locals_stay_apart() {
    let units = [
        unit(
            "build/main.c.gv",
            "\"main\" [entry=1];\n\"help\" [file=\"main.c\"];\n\"main\" -> \"help\" [static=1];\n\"main\" -> \"parse\" [static=2];\n",
        ),
        unit(
            "build/parse.c.gv",
            "\"help\" [file=\"parse.c\"];\n\"parse\" -> \"help\" [static=3];\n\"help\" -> \"puts\" [static=1];\n",
        ),
    ];
    let binary = linked(vec![
        function("main", 0x100, None),
        function("help", 0x200, Some("main.c")),
        function("parse", 0x300, None),
        function("help", 0x400, Some("parse.c")),
    ]);
    let mut joined = join_units(&units, &binary, "tool", None).unwrap();
    assert_eq!(joined.units, 2);
    assert_eq!(
        calls(&joined.profile),
        [
            pair("help:parse.c", "puts"),
            pair("main", "help:main.c"),
            pair("main", "parse"),
            pair("parse", "help:parse.c"),
        ]
    );
    estimate(&mut joined.profile);
    assert!((runs(&joined.profile, "puts") - 6.0).abs() < 1e-6);
    let printed = text::print(&joined.profile);
    assert_eq!(text::parse(printed.as_bytes()).unwrap().0, joined.profile);
}

/// Two programs of one source tree, each with a `main.c` that has a local `usage`.
#[test]
fn a_unit_of_another_program_of_the_tree_is_left_out() {
    let units = [
        unit(
            "cat/main.c.gv",
            "\"usage\" [file=\"main.c\"];\n\"main\" -> \"usage\" [static=1];\n\"main\" -> \"cat\" [static=1];\n\"cat\" -> \"read\" [static=1];\n",
        ),
        unit(
            "tac/main.c.gv",
            "\"usage\" [file=\"main.c\"];\n\"turn\" [file=\"main.c\"];\n\"main\" -> \"turn\" [static=1];\n\"turn\" -> \"usage\" [static=9];\n",
        ),
    ];
    let binary = linked(vec![
        function("main", 0x100, None),
        function("usage", 0x200, Some("main.c")),
        function("cat", 0x300, None),
    ]);
    let joined = join_units(&units, &binary, "cat", None).unwrap();
    assert_eq!(calls(&joined.profile), [pair("cat", "read"), pair("main", "cat"), pair("main", "usage")]);
    assert_eq!(joined.skipped.iter().map(|(_, entry)| entry.items).sum::<u64>(), 1);
    // With a link map there is no need to guess.
    let map: BTreeSet<String> = ["tac/main.o".to_owned()].into();
    let binary = linked(vec![
        function("main", 0x100, None),
        function("usage", 0x200, Some("main.c")),
        function("turn", 0x300, Some("main.c")),
    ]);
    let joined = join_units(&units, &binary, "tac", Some(&map)).unwrap();
    assert_eq!(calls(&joined.profile), [pair("main", "turn"), pair("turn", "usage")]);
}

/// A `main` that configure, CMake or Meson compiles belongs to a probe; the `main` of a program does not.
#[test]
fn the_main_of_a_program_is_no_probe_s_and_no_small_program_s() {
    let program = unit(
        "build/main.c.gv",
        "\"main\" -> \"help\" [static=50];\n\"help\" [file=\"main.c\"];\n\"unused\" -> \"help\" [static=1];\n",
    );
    let probe = "\"main\" -> \"puts\" [static=9];\n";
    let binary = linked(vec![function("main", 0x100, None), function("help", 0x200, Some("main.c"))]);
    for name in [
        "conftest.c.gv",
        "graphs/#build#conftest.cpp.gv",
        "graphs/#build#conftest-conftest.c.gv",
        "graphs/#b#CMakeFiles#CMakeScratch#TryCompile-x#CMakeFiles#cmTC_1.dir#src.c.gv",
        "b/meson-private/tmpq/testfile.c.gv",
    ] {
        let units = [unit(name, probe), program.clone()];
        let joined = join_units(&units, &binary, "tool", None).unwrap();
        assert_eq!(calls(&joined.profile), [pair("main", "help")], "{name}");
    }
    // A small program whose functions all exist; and one that calls a function which this file does not import.
    let larger: String = (0..6)
        .map(|n| format!("\"main\" -> \"part{n}\" [static=1];\n\"part{n}\" -> \"help\" [static=1];\n"))
        .collect();
    let mut functions = binary.functions.clone();
    functions.extend((0..6).map(|n| function(&format!("part{n}"), 0x300 + n * 16, None)));
    let binary = Binary {
        plt_stubs: vec![PltStub { address: 0x1000, size: 16, target: "puts".to_owned() }],
        ..linked(functions)
    };
    let mut large = program;
    large.graph = unit(
        "build/main.c.gv",
        &format!("\"help\" [file=\"main.c\"];\n\"unused\" -> \"help\" [static=1];\n{larger}"),
    )
    .graph;
    for other in [probe, "\"main\" -> \"puts\" [static=9];\n\"main\" -> \"gets\" [static=9];\n"] {
        let units = [unit("hello.c.gv", other), large.clone()];
        let joined = join_units(&units, &binary, "tool", None).unwrap();
        assert!(!calls(&joined.profile).contains(&pair("main", "puts")), "{other}");
        assert!(calls(&joined.profile).contains(&pair("main", "part5")), "{other}");
    }
}

/// Two programs of one source tree, by link-time optimisation. A link map lists objects, and these graphs do not belong
/// to objects.
#[test]
fn the_graph_of_another_whole_program_is_left_out() {
    let whole = |name: &str, lines: &str| UnitGraph { whole_program: true, ..unit(name, lines) };
    let units = [
        whole(
            "cat.wpa.gv",
            "\"main\" -> \"cat\" [static=1];\n\"cat\" [file=\"cat.c\"];\n\"cat\" -> \"shared\" [static=2];\n",
        ),
        whole(
            "tac.wpa.gv",
            "\"main\" -> \"shared\" [static=90];\n\"tac\" [file=\"tac.c\"];\n\"main\" -> \"tac\" [static=1];\n",
        ),
    ];
    let binary = linked(vec![
        function("main", 0x100, None),
        function("cat", 0x200, Some("cat.c")),
        function("shared", 0x300, None),
    ]);
    let map: BTreeSet<String> = ["/tmp/cc1.ltrans0.ltrans.o".to_owned(), "src/cat-main.o".to_owned()].into();
    for objects in [None, Some(&map)] {
        let joined = join_units(&units, &binary, "cat", objects).unwrap();
        assert_eq!(calls(&joined.profile), [pair("cat", "shared"), pair("main", "cat")]);
    }
}

/// A module has no soname, but its exported functions are roots all the same.
#[test]
fn exports_of_a_module_are_its_roots() {
    let units = [unit("m.c.gv", "\"PyInit_m\" -> \"inner\" [static=3];\n\"inner\" [file=\"m.c\"];\n")];
    let module = vec![function("PyInit_m", 0x100, None), function("inner", 0x200, Some("m.c"))];
    for (more, expected) in [(None, 3.0), (Some("_start"), 0.0)] {
        let mut functions = module.clone();
        functions.extend(more.map(|name| function(name, 0x300, None)));
        let mut joined = join_units(&units, &linked(functions), "m.so", None).unwrap();
        estimate(&mut joined.profile);
        assert!((runs(&joined.profile, "inner") - expected).abs() < 1e-6, "{more:?}");
    }
}

/// One program has two files of one name, each with a local function of the same name.
#[test]
fn units_of_one_name_in_one_program_both_stay() {
    let units = [
        unit(
            "x/u.c.gv",
            "\"init\" [file=\"u.c\"];\n\"left\" -> \"init\" [static=1];\n\"far\" -> \"left\" [static=1];\n",
        ),
        unit("y/u.c.gv", "\"init\" [file=\"u.c\"];\n\"right\" -> \"init\" [static=1];\n"),
    ];
    let mut functions: Vec<BinaryFunction> =
        (0..).zip(["left", "right", "far"]).map(|(at, name)| function(name, 0x100 + at * 16, None)).collect();
    functions.push(function("init", 0x200, Some("u.c")));
    let alone = join_units(&units, &linked(functions.clone()), "tool", None).unwrap();
    // Only one of the files has the function.
    assert_eq!(calls(&alone.profile), [pair("far", "left"), pair("left", "init")]);
    functions.push(function("init", 0x300, Some("u.c")));
    let both = join_units(&units, &linked(functions), "tool", None).unwrap();
    assert_eq!(both.units, 2);
    assert!(calls(&both.profile).contains(&pair("right", "init:u.c")));
}

/// Modules of one source tree export a function of the same name each. A unit whose fallback function is replaced by
/// another unit's is not complete.
#[test]
fn a_global_function_is_of_one_unit() {
    let units = [
        unit(
            "in.c.gv",
            "\"load\" -> \"in\" [static=1];\n\"in\" [file=\"in.c\"];\n\"in\" -> \"puts\" [static=1];\n",
        ),
        unit(
            "out.c.gv",
            "\"load\" -> \"chdir\" [static=1];\n\"out\" [file=\"out.c\"];\n\"out\" -> \"puts\" [static=1];\n",
        ),
        unit(
            "common.c.gv",
            "\"load\" -> \"abort\" [static=1];\n\"gone\" -> \"in\" [static=1];\n\"gone2\" -> \"in\" [static=1];\n\"help\" -> \"write\" [static=1];\n",
        ),
    ];
    let binary = linked(vec![
        function("load", 0x100, None),
        function("in", 0x200, Some("in.c")),
        function("help", 0x300, None),
    ]);
    let joined = join_units(&units, &binary, "in.so", None).unwrap();
    assert_eq!(calls(&joined.profile), [pair("help", "write"), pair("in", "puts"), pair("load", "in")]);
    assert_eq!(joined.units, 2);
}

/// A unit with only a table of functions has no calls and defines no function.
#[test]
fn a_table_of_functions_says_whose_addresses_are_taken() {
    let units = [
        unit("main.c.gv", "\"main\" -> \"run\" [static=1];\n"),
        unit("table.c.gv", "\"one\" [taken=1];\n\"two\" [taken=1];\n"),
        unit("other.c.gv", "\"elsewhere\" [taken=1];\n"),
    ];
    let names = ["main", "run", "one", "two"];
    let binary = linked((0..).zip(names).map(|(at, name)| function(name, 0x100 * at, None)).collect());
    let joined = join_units(&units, &binary, "tool", None).unwrap();
    assert_eq!(joined.units, 2);
    let taken = |profile: &Profile| {
        let functions = profile.functions().into_iter().filter(|function| profile.facts(*function).taken);
        functions.map(|function| profile.key(function).name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(taken(&joined.profile), ["one", "two"]);
}

#[test]
fn functions_of_several_units_count_once() {
    let emitted = "\"_Z1fv\" -> \"_Z1gv\" [static=2.5];\n\"_Z1gv\" -> \"main\" [static=0];\n";
    let mut units = vec![unit("a.cc.gv", emitted), unit("b.cc.gv", emitted)];
    let binary = linked(vec![
        function("_Z1fv", 0x100, None),
        function("_Z1gv", 0x200, None),
        function("main", 0x300, None),
    ]);
    let frequency = |units: &[UnitGraph]| {
        let joined = join_units(units, &binary, "p", None).unwrap();
        joined
            .profile
            .edges()
            .iter()
            .find(|edge| joined.profile.key(edge.0).name == "_Z1fv")
            .unwrap()
            .2
            .static_calls
    };
    assert_eq!(frequency(&units), Some(Millionths(2_500_000)));
    let mut whole = unit("p.wpa.gv", "\"_Z1fv\" -> \"_Z1gv\" [static=1];\n");
    whole.whole_program = true;
    units.push(whole);
    assert_eq!(frequency(&units), Some(Millionths(1_000_000)));
}

#[test]
fn units_of_nothing_that_is_linked_are_an_error() {
    let units = [unit("x.c.gv", "\"a\" -> \"b\" [static=1];\n")];
    let error = join_units(&units, &linked(vec![function("main", 1, None)]), "tool", None).unwrap_err();
    assert!(error.code() == ErrorCode::WrongBinary && error.to_string().contains("tool"), "{error}");
}

fn estimated(lines: &str) -> Profile {
    let mut graph = unit("x.c.gv", lines).graph;
    estimate(&mut graph);
    graph
}

#[test]
fn frequencies_multiply_along_calls_and_add_up_where_they_meet() {
    let graph = estimated(
        "\"main\";\n\"start\" [entry=1];\n\"main\" -> \"a\" [static=10];\n\"main\" -> \"b\" [static=0.5];\n\"start\" -> \"b\" [static=2];\n\
         \"a\" -> \"c\" [static=3];\n\"b\" -> \"c\" [static=4];\n\"nobody\" -> \"d\" [static=7];\n",
    );
    for (name, expected) in [("main", 1.0), ("a", 10.0), ("b", 2.5), ("c", 40.0), ("nobody", 0.0), ("d", 0.0)]
    {
        assert!((runs(&graph, name) - expected).abs() < 1e-5, "{name}: {}", runs(&graph, name));
    }
}

/// A function that calls itself half of the time runs twice. One that always calls itself is assumed to end.
#[test]
fn circles_die_out() {
    let half = estimated("\"main\" -> \"f\" [static=1];\n\"f\" -> \"f\" [static=0.5];\n");
    assert!((runs(&half, "f") - 2.0).abs() < 0.01, "{}", runs(&half, "f"));
    let always = estimated(
        "\"main\" -> \"f\" [static=1];\n\"f\" -> \"g\" [static=5];\n\"g\" -> \"f\" [static=5];\n\"g\" -> \"out\" [static=1];\n",
    );
    assert!((runs(&always, "f") - 1.0 / 0.19).abs() < 0.05, "{}", runs(&always, "f"));
    assert!((runs(&always, "out") - 0.9 / 0.19).abs() < 0.05, "{}", runs(&always, "out"));
}

#[test]
fn cold_functions_pass_nothing_on_and_other_names_lead_to_theirs() {
    let graph = estimated(
        "\"fail\" [heat=cold];\n\"main\" -> \"fail\" [static=5];\n\"fail\" -> \"format\" [static=100];\n\
         \"C1\" [alias=\"C2\"];\n\"main\" -> \"C1\" [static=3];\n\"C2\" -> \"init\" [static=2];\n",
    );
    assert_eq!(runs(&graph, "format"), 0.0);
    assert!((runs(&graph, "init") - 6.0).abs() < 1e-5);
}

/// GCC 12's file for a unit with a local function, a call through a pointer, and calls to other units.
const CI: &str = "graph: { title: \"t.c\"
node: { title: \"t.c:leaf\" label: \"leaf\\nt.c:3:41\" }
node: { title: \"other\" label: \"other\\nt.c:1:12\" shape : ellipse }
edge: { sourcename: \"t.c:leaf\" targetname: \"other\" label: \"t.c:3:60\" }
node: { title: \"main\" label: \"main\\nt.c:5:5\" }
edge: { sourcename: \"main\" targetname: \"t.c:leaf\" label: \"t.c:6:3\" }
edge: { sourcename: \"main\" targetname: \"t.c:leaf\" label: \"t.c:7:3\" }
edge: { sourcename: \"main\" targetname: \"__indirect_call\" label: \"t.c:8:3\" }
node: { title: \"__indirect_call\" label: \"Indirect Call Placeholder\" shape : ellipse }
}
";

#[test]
fn callgraph_info_counts_call_sites() {
    let mut skipped = Skipped::default();
    let unit = read_unit("t.ci", CI.as_bytes(), &mut skipped).unwrap();
    assert_eq!(calls(&unit.graph), [pair("leaf:t.c", "other"), pair("main", "leaf:t.c")]);
    let edges = unit.graph.edges();
    assert_eq!(edges[1].2.static_calls, Some(Millionths(2_000_000)));
    assert_eq!(skipped.items(Reason::PointerCall), 1);
    let main = unit.graph.find(&FunctionKey { dso: None, name: "main".to_owned(), file: None }).unwrap();
    assert!(unit.graph.facts(main).entry);
}

#[test]
fn damaged_callgraph_info_is_an_error_with_its_line() {
    let cut = &CI[..CI.len() - 3];
    assert!(read_unit("t.ci", cut.as_bytes(), &mut Skipped::default()).is_err());
    let wrong = CI.replace("sourcename: \"main\"", "sourcename main");
    let error = read_unit("t.ci", wrong.as_bytes(), &mut Skipped::default()).unwrap_err();
    assert_eq!(error.location(), Some(ErrorLocation::Line(6)), "{error}");
    let nothing = read_unit("x", b"hello", &mut Skipped::default()).unwrap_err();
    assert_eq!(nothing.code(), ErrorCode::UnknownFormat, "{nothing}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_behind_a_known_beginning_are_an_error_or_a_unit(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for beginning in [&b"graph: { title: \"t.c\"\n"[..], b"digraph G { graph [sediment=2, source=\"gcc call graph\"];\n", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0.llvm.call-graph-profile"] {
            let whole = [beginning, &bytes].concat();
            let _ = read_unit("unit", &whole, &mut Skipped::default());
        }
    }

    #[test]
    fn estimates_of_any_graph_are_finite_and_need_no_recursion(
        edges in proptest::collection::vec((0u32..40, 0u32..40, 0u64..10_000_000_000), 0..200)
    ) {
        let mut lines = String::from("\"f0\" [entry=1];\n");
        for (caller, callee, millionths) in edges {
            lines += &format!("\"f{caller}\" -> \"f{callee}\" [static={}.{:06}];\n", millionths / 1_000_000, millionths % 1_000_000);
        }
        let graph = estimated(&lines);
        for function in graph.functions() {
            prop_assert!(graph.facts(function).static_calls.is_some());
        }
    }
}
