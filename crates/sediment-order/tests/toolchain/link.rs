// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that pass orders to real linkers, in every way in which programs are linked, and check the linked files.
//!
//! The program has functions of every group that compilers and linkers know (hot, cold, start-up, exit, split), half of
//! them listed in the order; local functions with the same name in two files; and a check of its own unwind tables.

use super::hostile_link;
use libtest_mimic::Trial;
use sediment_core::binary::objects::InputObjects;
use sediment_core::binary::{Binary, BinaryFunction, NoFiles};
use sediment_core::callgraph::{CallGraph, GroupKind, Order};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::{ErrorCode, Skipped};
use sediment_order::link::{self, OrderedName};
use sediment_order::order::BuiltGraph;
use sediment_order::verify::{Reason, verify};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Need, case, linker_folder};

pub(crate) fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let mut cases = Vec::new();
    for how in HOWS {
        let mut needs = vec![gcc, Need::Program("addr2line")];
        needs.extend(how.folder.map(Need::LinkerFolder));
        for mode in MODES {
            let name = format!("link::{}::{}", how.name, mode.name);
            cases.push(case(&name, &needs, || listed_in_order_and_the_rest_as_it_was(how, mode)));
        }
        let name = format!("link::{}::an_empty_order_changes_nothing", how.name);
        cases.push(case(&name, &needs, || an_empty_order_changes_nothing(how)));
        let name = format!("link::{}::hostile_names", how.name);
        cases.push(case(&name, &needs, || hostile_link::order_means_what_it_says(how)));
    }
    cases.push(case("link::verify_says_what_is_wrong", &[gcc], verify_says_what_is_wrong));
    cases.push(case(
        "link::originals_last_line_breaks_the_groups",
        &[gcc, Need::LinkerFolder("gnu-ld-2.44")],
        || {
            originals_last_line_breaks_the_groups();
        },
    ));
    cases.push(case(
        "link::lto_needs_function_sections_at_the_link",
        &[gcc],
        lto_needs_function_sections_at_the_link,
    ));
    cases.push(case("link::a_constructor_is_found_by_its_other_name", &[Need::Program("g++")], || {
        a_constructor_is_found_by_its_other_name();
    }));
    cases.extend(hostile_link::cases());
    cases
}

/// A linker, and the dialect of the order that it gets.
pub(crate) struct How {
    pub(crate) name: &'static str,
    pub(crate) dialect: &'static str,
    /// The linker's folder for gcc's -B; None for the system's own.
    pub(crate) folder: Option<&'static str>,
    /// True if its default layout has GNU ld's groups.
    groups: bool,
}

pub(crate) const HOWS: &[How] = &[
    How { name: "system_ld_script", dialect: "gnu-ld-script", folder: None, groups: true },
    How { name: "gnu_ld_2_44", dialect: "gnu-ld", folder: Some("gnu-ld-2.44"), groups: true },
    How { name: "gnu_ld_2_44_script", dialect: "gnu-ld-script", folder: Some("gnu-ld-2.44"), groups: true },
    How { name: "lld", dialect: "lld", folder: Some("lld"), groups: false },
];

impl How {
    /// Returns gcc's arguments that choose this linker.
    pub(crate) fn driver(&self) -> Vec<String> {
        self.folder.map(|name| format!("-B{}", linker_folder(name).unwrap().display())).into_iter().collect()
    }

    /// Returns gcc's arguments that pass an order, from the table of dialects.
    pub(crate) fn order(&self, file: &Path) -> Vec<String> {
        let arguments = link::linker(self.dialect).unwrap().arguments;
        arguments.split(' ').map(|argument| argument.replace("FILE", file.to_str().unwrap())).collect()
    }
}

/// A way to link.
struct LinkMode {
    name: &'static str,
    arguments: &'static [&'static str],
    shared: bool,
}

const MODES: &[LinkMode] = &[
    LinkMode { name: "pie", arguments: &["-pie"], shared: false },
    LinkMode { name: "no_pie", arguments: &["-no-pie"], shared: false },
    LinkMode { name: "shared", arguments: &["-shared", "-Wl,-soname,libprogram.so.1"], shared: true },
    LinkMode { name: "static", arguments: &["-static"], shared: false },
    LinkMode { name: "gc_sections", arguments: &["-pie", "-Wl,--gc-sections"], shared: false },
];

/// Numbered functions in each of the two files.
const NUMBERED: usize = 18;

/// Returns the source of one of the two files; `letter` distinguishes their functions.
fn source(letter: char) -> String {
    let other = if letter == 'a' { 'b' } else { 'a' };
    let mut text = String::from(
        "#include <stdio.h>\n#include <stdlib.h>\n\
         extern int enclosed(void *function);\n\
         #define FN __attribute__((noinline, noclone))\n\
         static FN int twin(int x) { return x * 31 + enclosed((void *)twin); }\n",
    );
    for n in 0..NUMBERED {
        let _ = writeln!(
            text,
            "FN int {letter}{n:02}(int x) {{ return x * {} + enclosed((void *){letter}{n:02}); }}",
            2 * n + 3
        );
    }
    let _ = writeln!(
        text,
        "FN __attribute__((cold)) int cold_{letter}(int x) {{ return x - 77 + enclosed((void *)cold_{letter}); }}\n\
         FN __attribute__((hot)) int hot_{letter}(int x) {{ return x + 5 + enclosed((void *)hot_{letter}); }}\n\
         FN int split_{letter}(int x) {{\n\
         \x20 if (x == 123456789) {{ x = cold_{letter}(x); puts(\"never\"); exit(cold_{letter}(x)); }}\n\
         \x20 return x * 7 + enclosed((void *)split_{letter});\n}}\n\
         static int ready;\n\
         __attribute__((constructor)) FN void start_{letter}(void) {{ ready = 1; }}\n\
         __attribute__((destructor)) FN void end_{letter}(void) {{ if (ready != 2) abort(); puts(\"end {letter}\"); }}\n\
         FN int unused_{letter}(int x) {{ return x * 1001; }}\n\
         int all_{letter}(int x) {{\n  if (ready != 1) abort();\n  ready = 2;"
    );
    for n in 0..NUMBERED {
        let _ = writeln!(text, "  x = {letter}{n:02}(x) % 99991;");
    }
    let _ = writeln!(
        text,
        "  x = twin(x) + cold_{letter}(x) + hot_{letter}(x) + split_{letter}(x % 9973);\n  return x % 99991;\n}}\n/* {other} */"
    );
    text
}

const PROGRAM: &str = r#"
#include <stdio.h>
extern void *_Unwind_FindEnclosingFunction(void *);
extern int all_a(int), all_b(int);
static int asked, right;
/* Whether the unwind tables place the caller in the function it says it is. */
__attribute__((noinline, noclone)) int enclosed(void *function) {
  asked++;
  right += _Unwind_FindEnclosingFunction(__builtin_return_address(0)) == function;
  return 1;
}
__attribute__((noinline, noclone)) int program(void) {
  int sum = all_b(all_a(1));
  printf("%d, unwind tables right for %d of %d\n", sum, right, asked);
  return right == asked ? 0 : 1;
}
"#;

const MAIN: &str = "extern int program(void);\nint main(void) { return program(); }\n";

/// Returns the folder with the objects, compiled once for all cases: `a.o b.o program.o main.o` with function sections,
/// and `plain/` without.
fn objects() -> &'static Path {
    static OBJECTS: OnceLock<tempfile::TempDir> = OnceLock::new();
    OBJECTS
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("plain")).unwrap();
            let sources =
                [("a", source('a')), ("b", source('b')), ("program", PROGRAM.into()), ("main", MAIN.into())];
            for (name, text) in &sources {
                std::fs::write(folder.path().join(format!("{name}.c")), text).unwrap();
            }
            let names = sources.iter().map(|(name, _)| format!("{name}.c"));
            for (place, sections) in [(".", "-ffunction-sections"), ("plain", "-fno-function-sections")] {
                // -fPIC works for every mode.
                let mut compile = Command::new("gcc");
                compile.args(["-c", "-O2", "-g", "-fPIC", sections]);
                compile.args(names.clone().map(|name| folder.path().join(name)));
                run(compile.current_dir(folder.path().join(place)));
            }
            folder
        })
        .path()
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn link_program(how: &How, mode: &LinkMode, objects: &Path, output: &Path, further: &[String]) {
    let mut gcc = Command::new("gcc");
    gcc.args(how.driver())
        .args(mode.arguments)
        .args(["-Wl,--build-id=sha1", "-Wl,--fatal-warnings"])
        .args(further);
    let names: &[&str] = if mode.shared { &["program", "a", "b"] } else { &["main", "program", "a", "b"] };
    gcc.args(names.iter().map(|name| objects.join(format!("{name}.o"))));
    run(gcc.arg("-o").arg(output));
}

/// Returns the output of the program. A library is linked to a small program first.
fn output_of(mode: &LinkMode, file: &Path) -> String {
    if !mode.shared {
        return run(&mut Command::new(file));
    }
    let user = file.with_extension("user");
    let folder = file.parent().unwrap();
    std::fs::copy(file, folder.join("libprogram.so.1")).unwrap();
    run(Command::new("gcc").arg(objects().join("main.o")).arg(file).arg("-o").arg(&user));
    run(Command::new(&user).env("LD_LIBRARY_PATH", folder))
}

pub(crate) fn binary(file: &Path) -> Binary {
    Binary::parse(&std::fs::read(file).unwrap(), &NoFiles).unwrap()
}

/// Returns the listed functions, in an order that is neither the order of the files nor of the names.
fn listed(mode: &LinkMode) -> Vec<String> {
    let mut names: Vec<String> = (0..NUMBERED)
        .map(|n| format!("{}{:02}", if n % 2 == 0 { 'a' } else { 'b' }, (n * 7 + 5) % NUMBERED))
        .collect();
    for (place, name) in [
        (1, "hot_a"),
        (3, "twin"),
        (5, "cold_a"),
        (7, "start_a"),
        (9, "split_b"),
        (11, "end_b"),
        (13, "program"),
    ] {
        names.insert(place, name.to_owned());
    }
    if !mode.shared {
        names.insert(8, "main".to_owned());
    }
    names
}

pub(crate) fn order_text(dialect: &str, names: &[String], binary: Option<&Binary>) -> (String, Skipped) {
    let keys = names.iter().map(|name| FunctionKey { dso: None, name: name.clone(), file: None }).collect();
    let graph = CallGraph::new(vec![16; names.len()], vec![1; names.len()], Vec::new()).unwrap();
    let order = Order::of(GroupKind::Hot, graph.ids().collect());
    let built = BuiltGraph {
        graph,
        table: FunctionTable { keys, ..Default::default() },
        skipped: Skipped::default(),
        is_in_input_order: false,
    };
    let linker = link::linker(dialect).unwrap();
    let (placements, mut skipped) = link::placements(&order, &built, binary, linker.wants_calls);
    let (text, left_out) = (linker.write)(&placements);
    skipped.append(&left_out);
    (text, skipped)
}

/// Returns the functions that are not listed, by address.
pub(crate) fn others<'a>(binary: &'a Binary, listed: &[String]) -> Vec<&'a str> {
    let listed: BTreeSet<u64> = binary
        .functions
        .iter()
        .filter(|function| listed.contains(&function.name))
        .map(|function| function.address)
        .collect();
    let others = binary.functions.iter().filter(|function| !listed.contains(&function.address));
    others.map(|function| function.name.as_str()).collect()
}

fn addresses<'a>(binary: &'a Binary, name: &'a str) -> impl Iterator<Item = u64> + 'a {
    binary.functions.iter().filter(move |function| function.name == name).map(|function| function.address)
}

fn address(binary: &Binary, name: &str) -> u64 {
    addresses(binary, name).next().unwrap_or_else(|| panic!("{name} is not there"))
}

fn listed_in_order_and_the_rest_as_it_was(how: &'static How, mode: &'static LinkMode) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    link_program(how, mode, objects(), &at("stock"), &[]);
    let stock = binary(&at("stock"));
    let names = listed(mode);
    let (text, skipped) = order_text(how.dialect, &names, Some(&stock));
    assert!(skipped.is_empty(), "{skipped:?}");
    std::fs::write(at("order"), &text).unwrap();
    link_program(how, mode, objects(), &at("ordered"), &how.order(&at("order")));
    let ordered = binary(&at("ordered"));

    // The listed functions are in order, as the symbols and `verify` show.
    let mut last = 0;
    for name in &names {
        let here: Vec<u64> = addresses(&ordered, name).collect();
        assert_eq!(here.len(), if name == "twin" { 2 } else { 1 }, "{name}");
        assert!(here.iter().all(|address| *address > last), "{name} is not behind what was asked before it");
        last = here.into_iter().max().unwrap();
    }
    let (_, asked) = link::read(&text).unwrap();
    let report = verify(&ordered, &asked, None, "ordered", &InputObjects::default()).unwrap();
    assert_eq!(
        (report.placed_parts_per_million, report.inversions),
        (1_000_000, 0),
        "{:?}",
        report.misplaced
    );
    assert!(report.in_force);
    let before = verify(&stock, &asked, None, "stock", &InputObjects::default()).unwrap();
    assert!(before.placed_parts_per_million < 500_000, "the stock program is in this order already");

    // The functions that are not listed are placed as without an order.
    assert_eq!(others(&ordered, &names), others(&stock, &names));
    assert_eq!(stock.functions.len(), ordered.functions.len());
    if how.groups {
        groups_are_kept(&ordered, mode);
    }

    // The program still does the same.
    assert_eq!(output_of(mode, &at("ordered")), output_of(mode, &at("stock")));
    assert_eq!(ordered.build_id.as_ref().map(String::len), Some(40));
    assert_eq!(ordered.soname, stock.soname);
    debug_info_resolves(&ordered, &at("ordered"), &names);
}

/// Checks that cold, exit, start-up and hot functions that are not listed still form groups, in this order.
fn groups_are_kept(binary: &Binary, mode: &LinkMode) {
    let mut groups =
        vec![vec!["cold_b", "split_a.cold", "split_b.cold"], vec!["end_a"], vec!["start_b"], vec!["hot_b"]];
    groups.push(vec!["deregister_tm_clones", "all_a", "all_b"]);
    if !mode.shared {
        groups[4].push("_start");
    }
    for pair in groups.windows(2) {
        for (before, behind) in
            pair[0].iter().flat_map(|before| pair[1].iter().map(move |behind| (before, behind)))
        {
            assert!(address(binary, before) < address(binary, behind), "{before} lies behind {behind}");
        }
    }
}

/// Checks that debug information leads from the address of each listed function to this function.
fn debug_info_resolves(binary: &Binary, file: &Path, names: &[String]) {
    let functions: Vec<&BinaryFunction> =
        binary.functions.iter().filter(|function| names.contains(&function.name)).collect();
    let mut addr2line = Command::new("addr2line");
    addr2line.arg("-f").arg("-e").arg(file);
    let found = run(addr2line.args(functions.iter().map(|function| format!("{:#x}", function.address))));
    let found: Vec<&str> = found.lines().step_by(2).collect();
    let expected: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(found, expected);
}

fn an_empty_order_changes_nothing(how: &'static How) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("order"), order_text(how.dialect, &[], None).0).unwrap();
    for mode in MODES.iter().filter(|mode| ["pie", "shared"].contains(&mode.name)) {
        link_program(how, mode, objects(), &at("stock"), &[]);
        link_program(how, mode, objects(), &at("ordered"), &how.order(&at("order")));
        assert!(
            std::fs::read(at("stock")).unwrap() == std::fs::read(at("ordered")).unwrap(),
            "{}",
            mode.name
        );
    }
}

fn asked_for(names: &[String]) -> Vec<OrderedName> {
    names.iter().zip(1..).map(|(name, line)| OrderedName { name: name.clone(), line, file: None }).collect()
}

/// Reads the objects of the program in a folder.
fn read_objects(folder: &Path) -> InputObjects {
    let mut objects = InputObjects::default();
    for name in ["main.o", "program.o", "a.o", "b.o"] {
        objects.add(name, &std::fs::read(folder.join(name)).unwrap(), false);
    }
    objects
}

/// Tests that `verify` finds each fault, on files linked by the system's linker.
fn verify_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (how, mode) = (&HOWS[0], &MODES[0]);
    let names = listed(mode);
    let write_order = |names: &[String], binary: Option<&Binary>| -> PathBuf {
        std::fs::write(at("order"), order_text(how.dialect, names, binary).0).unwrap();
        at("order")
    };

    // No function has a section of its own, so nothing can be placed.
    let order = write_order(&names, None);
    link_program(how, mode, &objects().join("plain"), &at("plain"), &how.order(&order));
    let plain = verify(
        &binary(&at("plain")),
        &asked_for(&names),
        None,
        "plain",
        &read_objects(&objects().join("plain")),
    )
    .unwrap();
    assert!(!plain.in_force, "{plain:?}");
    assert!(plain.misplaced.iter().any(|function| matches!(function.reason, Reason::NoOwnSection(_))));

    // One object has no function sections: this affects its functions, and no others.
    let mixed = tempfile::tempdir().unwrap();
    for name in ["main", "program", "a", "b"] {
        let from = if name == "b" { objects().join("plain") } else { objects().to_path_buf() };
        std::fs::copy(from.join(format!("{name}.o")), mixed.path().join(format!("{name}.o"))).unwrap();
    }
    link_program(how, mode, mixed.path(), &at("mixed"), &how.order(&order));
    let mixed = verify(&binary(&at("mixed")), &asked_for(&names), None, "mixed", &read_objects(mixed.path()))
        .unwrap();
    assert!(mixed.in_force);
    let without: Vec<&str> = mixed
        .misplaced
        .iter()
        .filter(|function| matches!(function.reason, Reason::NoOwnSection(_)))
        .map(|function| function.name.as_str())
        .collect();
    assert!(without.iter().all(|name| name.starts_with('b') || name.ends_with("_b")), "{without:?}");
    assert!(without.len() > NUMBERED / 2 - 2, "{without:?}");

    // An order without the sections of the groups, as upstream wrote it, leaves these functions in their groups.
    let statements: String = names.iter().map(|name| format!("*(.text.{name})\n")).collect();
    std::fs::write(
        at("order"),
        format!("SECTIONS {{ .text.order : {{ {statements} }} }} INSERT BEFORE .text;"),
    )
    .unwrap();
    link_program(how, mode, objects(), &at("original"), &how.order(&at("order")));
    let (_, asked) = link::read(&std::fs::read_to_string(at("order")).unwrap()).unwrap();
    let original =
        verify(&binary(&at("original")), &asked, None, "original", &InputObjects::default()).unwrap();
    let mut in_groups: Vec<&str> = original
        .misplaced
        .iter()
        .filter(|function| matches!(function.reason, Reason::OtherGroup(_)))
        .map(|function| function.name.as_str())
        .collect();
    in_groups.sort_unstable();
    assert_eq!(in_groups, ["cold_a", "end_b", "hot_a", "main", "start_a"], "{:?}", original.misplaced);

    // Garbage collection, stripping, and a profile of another program.
    let unused = [names.clone(), vec!["unused_a".to_owned()]].concat();
    let order = write_order(&unused, None);
    link_program(how, &MODES[4], objects(), &at("collected"), &how.order(&order));
    let collected =
        verify(&binary(&at("collected")), &asked_for(&unused), None, "collected", &InputObjects::default())
            .unwrap();
    let absent = collected.misplaced.iter().find(|function| function.name == "unused_a").unwrap();
    assert_eq!(absent.reason, Reason::NotInBinary);

    run(Command::new("strip").arg(at("collected")));
    let stripped =
        verify(&binary(&at("collected")), &asked_for(&names), None, "collected", &InputObjects::default())
            .unwrap_err();
    assert_eq!(stripped.code(), ErrorCode::Stripped, "{stripped}");

    let mut other = Profile::default();
    other.function(FunctionKey::new(Some(b"postgres"), b"palloc", None).unwrap());
    let foreign =
        verify(&binary(&at("mixed")), &asked_for(&names), Some(&other), "mixed", &InputObjects::default())
            .unwrap_err();
    assert!(foreign.hint().unwrap().contains("postgres"), "{foreign:?}");
}

/// Shows why our orders do not end with `*(.text.*)`: this line breaks up the groups.
fn originals_last_line_breaks_the_groups() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("order"), ".text : {\n  *(.text.a05)\n  *(.text.*)\n}\n").unwrap();
    link_program(&HOWS[1], &MODES[0], objects(), &at("linked"), &HOWS[1].order(&at("order")));
    let linked = binary(&at("linked"));
    assert!(address(&linked, "all_a") < address(&linked, "cold_b"), "cold code lies before all other code");
    assert!(address(&linked, "cold_a") < address(&linked, "all_b"), "and no longer with that of other files");
}

/// GCC's link-time optimisation forgets -ffunction-sections unless it is also passed to the link.
fn lto_needs_function_sections_at_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let sources = ["main", "program", "a", "b"].map(|name| objects().join(format!("{name}.c")));
    let names: Vec<String> = listed(&MODES[0]).into_iter().filter(|name| name != "twin").collect();
    std::fs::write(at("order"), order_text(HOWS[0].dialect, &names, None).0).unwrap();
    let mut compile = Command::new("gcc");
    run(compile.args(["-c", "-O2", "-flto", "-ffunction-sections"]).args(sources).current_dir(folder.path()));
    let in_force = |further: &[&str]| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-flto"]).args(further).args(HOWS[0].order(&at("order")));
        run(gcc.args(["main.o", "program.o", "a.o", "b.o", "-o", "linked"]).current_dir(folder.path()));
        run(&mut Command::new(at("linked")));
        verify(&binary(&at("linked")), &asked_for(&names), None, "linked", &InputObjects::default()).unwrap()
    };
    assert!(!in_force(&[]).in_force);
    let with = in_force(&["-ffunction-sections"]);
    // Missing functions were inlined or renamed by the optimisation. A cold function stays after the others.
    assert!(with.in_force && with.placed + 1 >= with.found, "{:?}", with.misplaced);
}

/// The section of a C++ constructor has the name for base classes, a profile has the one for whole objects.
fn a_constructor_is_found_by_its_other_name() {
    const SOURCE: &str = "
        struct Shape { Shape(int n); int n; };
        struct Other { Other(int n); int n; };
        __attribute__((noinline)) Shape::Shape(int n) : n(n * 3) {}
        __attribute__((noinline)) Other::Other(int n) : n(n * 5) {}
        __attribute__((noinline)) int one(int n) { return n * 7; }
        __attribute__((noinline)) int two(int n) { return n * 11; }
        __attribute__((noinline)) int three(int n) { return n * 13; }
        __attribute__((noinline)) int four(int n) { return n * 17; }
        int main(int n, char **) {
            return one(n) + Shape(n).n + two(n) + Other(n).n + three(n) + four(n) == 56 ? 0 : 1;
        }";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("shape.cc"), SOURCE).unwrap();
    run(Command::new("g++")
        .args(["-c", "-O1", "-ffunction-sections", "shape.cc"])
        .current_dir(folder.path()));
    let link = |output: &str, order: &[String]| {
        run(Command::new("g++").arg(at("shape.o")).args(order).arg("-o").arg(at(output)));
        run(&mut Command::new(at(output)));
        binary(&at(output))
    };
    let names: Vec<String> =
        ["_Z4fouri", "_ZN5OtherC1Ei", "_Z5threei", "_ZN5ShapeC1Ei", "_Z3twoi", "_Z3onei"]
            .map(str::to_owned)
            .to_vec();
    let stock = link("stock", &[]);
    for (known, placed) in [(Some(&stock), 6), (None, 4)] {
        std::fs::write(at("order"), order_text(HOWS[0].dialect, &names, known).0).unwrap();
        let ordered = link("ordered", &HOWS[0].order(&at("order")));
        let report = verify(&ordered, &asked_for(&names), None, "ordered", &InputObjects::default()).unwrap();
        assert_eq!(report.placed, placed, "{:?}", report.misplaced);
        let reasons: Vec<&Reason> = report.misplaced.iter().map(|function| &function.reason).collect();
        let other_name = |name: &str| Reason::NamedAfter(vec![name.to_owned()]);
        if known.is_none() {
            assert_eq!(reasons, [&other_name("_ZN5OtherC2Ei"), &other_name("_ZN5ShapeC2Ei")]);
        }
    }
}
