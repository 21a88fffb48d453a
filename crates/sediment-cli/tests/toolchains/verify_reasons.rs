// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the reasons of `verify`: small programs, each linked by real linkers with one known fault, and correct ones,
//! for which it gives no reason.

use crate::running::{code, err, out, sediment};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use support::{Need, case, linker_folder};
use tempfile::TempDir;

/// Number of ordered functions in each of the two files, with others in between.
const LISTED: usize = 8;

/// One of two files of functions; `letter` distinguishes them.
fn source(letter: char) -> String {
    let mut text = String::from(
        "extern volatile int sink;\nvoid abort(void);\n#define FN __attribute__((noinline, noclone))\n",
    );
    for number in 0..LISTED {
        writeln!(
            text,
            "FN int {letter}{number}(int x) {{ sink += {number}; return x * {} + sink; }}",
            number + 3
        )
        .unwrap();
        writeln!(text, "FN int other_{letter}{number}(int x) {{ sink -= {number}; return x - sink; }}")
            .unwrap();
    }
    writeln!(text, "FN __attribute__((hot)) int hot_{letter}(int x) {{ sink += 5; return x + 5; }}").unwrap();
    writeln!(text, "FN __attribute__((cold)) int cold_{letter}(int x) {{ sink += 6; return x - 6; }}")
        .unwrap();
    writeln!(text, "FN __attribute__((section(\"placed_by_hand\"))) int by_hand_{letter}(int x) {{ sink += 7; return x ^ 7; }}").unwrap();
    writeln!(text, "FN int real_{letter}(int x) {{ sink += 8; return x | 8; }}").unwrap();
    writeln!(text, "extern int alias_{letter}(int) __attribute__((alias(\"real_{letter}\")));").unwrap();
    writeln!(text, "FN int split_{letter}(int x) {{ sink++; if (x == 123456) {{ cold_{letter}(sink); abort(); }} return x * 9; }}").unwrap();
    writeln!(text, "FN int unused_{letter}(int x) {{ sink += 10; return x & 10; }}").unwrap();
    writeln!(text, "int all_{letter}(int x) {{").unwrap();
    for number in 0..LISTED {
        writeln!(text, "  x = {letter}{number}(x) + other_{letter}{number}(x);").unwrap();
    }
    writeln!(
        text,
        "  return hot_{letter}(x) + cold_{letter}(x) + by_hand_{letter}(x) + alias_{letter}(x) + split_{letter}(x);\n}}"
    )
    .unwrap();
    text
}

const MAIN: &str = "volatile int sink;\nint all_a(int);\nint all_b(int);\nint main(int n, char **w) { (void)w; return all_a(n) + all_b(n) == 77; }\n";

/// The requested order, in which both files are mixed.
fn asked() -> Vec<String> {
    let of = |number: usize| [format!("b{}", LISTED - 1 - number), format!("a{}", number * 3 % LISTED)];
    (0..LISTED).flat_map(of).collect()
}

/// A folder with the program's sources and its objects with function sections.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.c", source('a')), ("b.c", source('b')), ("main.c", MAIN.to_owned())] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    compile(folder.path(), &["a", "b", "main"], &["-ffunction-sections"]);
    folder
}

fn compile(folder: &Path, files: &[&str], flags: &[&str]) {
    for file in files {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-c", &format!("{file}.c")]).args(flags).current_dir(folder);
        assert!(gcc.status().unwrap().success(), "{file}");
    }
}

/// A linker, and how it gets an order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OrderingLinker {
    GnuLd,
    Gold,
    Lld,
}

impl OrderingLinker {
    fn needs(self) -> Vec<Need> {
        match self {
            Self::GnuLd => vec![Need::Program("gcc")],
            Self::Gold => vec![Need::Program("gcc"), Need::Program("ld.gold")],
            Self::Lld => vec![Need::Program("gcc"), Need::LinkerFolder("lld")],
        }
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Self::GnuLd => Vec::new(),
            Self::Gold => vec!["-fuse-ld=gold".to_owned()],
            Self::Lld => vec![
                format!("-B{}", linker_folder("lld").unwrap().display()),
                "-fuse-ld=lld".to_owned(),
                "-Wl,--no-warn-symbol-ordering".to_owned(),
            ],
        }
    }

    /// Writes a manual order of these functions, with only their own sections, and returns the argument for it.
    fn order(self, folder: &Path, names: &[String]) -> String {
        let lines: Vec<String> = names.iter().map(|name| format!("*(.text.{name})")).collect();
        self.order_of(folder, &lines, names)
    }

    /// As [`Self::order`], with statements for GNU ld, or symbols for others.
    fn order_of(self, folder: &Path, statements: &[String], names: &[String]) -> String {
        let (text, argument) = match self {
            Self::GnuLd => (
                format!(
                    "SECTIONS {{\n  .text.sediment : {{\n{}\n  }}\n}} INSERT BEFORE .text;\n",
                    statements.join("\n")
                ),
                "-Wl,-T,passed.order",
            ),
            Self::Gold => (
                names.iter().map(|name| format!(".text.{name}\n")).collect(),
                "-Wl,--section-ordering-file,passed.order",
            ),
            Self::Lld => (names.join("\n") + "\n", "-Wl,--symbol-ordering-file,passed.order"),
        };
        std::fs::write(folder.join("passed.order"), text).unwrap();
        argument.to_owned()
    }

    fn link(self, folder: &Path, further: &[String]) {
        let mut gcc = Command::new("gcc");
        gcc.args(["a.o", "b.o", "main.o", "-o", "prog"]).args(self.arguments()).args(further);
        let linked = gcc.current_dir(folder).output().unwrap();
        assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    }
}

/// Returns the exit code and the JSON.
fn answered(folder: &Path, asked: &[String]) -> (i32, Value) {
    std::fs::write(folder.join("asked.order"), asked.join("\n") + "\n").unwrap();
    let output = sediment(folder, &["verify", "prog", "--order", "asked.order", "--json"]);
    let json = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
    (code(&output), json)
}

/// Returns the exit code, and misplaced functions with the codes of their reasons.
fn verified(folder: &Path, asked: &[String]) -> (i32, BTreeMap<String, String>) {
    let (code, json) = answered(folder, asked);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let misplaced = json["misplaced"].as_array().unwrap();
    (code, misplaced.iter().map(|found| (text(&found["name"]), text(&found["reason"]))).collect())
}

/// Checks that exactly these functions are misplaced, all for this reason.
fn expect(folder: &Path, asked: &[String], exit: i32, wanted: &[String], reason: &str) {
    let (code, found) = verified(folder, asked);
    let names: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let all: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(names, all, "{found:?}");
    assert!(found.values().all(|found| found == reason), "expected {reason}: {found:?}");
    assert_eq!(code, exit, "{found:?}");
}

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn not_passed(linker: OrderingLinker) {
    let project = project();
    linker.link(project.path(), &[]);
    expect(project.path(), &asked(), 5, &asked(), "not passed to the linker");
}

/// The few functions that a stripped file exports, in place or not, do not show an order.
fn stripped_to_few_exports(linker: OrderingLinker) {
    let project = project();
    let exported = ["a0", "b3"].map(|name| format!("-Wl,--export-dynamic-symbol={name}"));
    let mut further = vec![linker.order(project.path(), &asked()), "-s".to_owned()];
    further.extend(exported);
    linker.link(project.path(), &further);
    std::fs::write(project.path().join("asked.order"), asked().join("\n") + "\n").unwrap();
    let verify = |more: &[&str]| {
        sediment(project.path(), &[&["verify", "prog", "--order", "asked.order"], more].concat())
    };
    let output = verify(&[]);
    assert!(code(&output) == 5 && err(&output).contains("prog is stripped"), "{}", err(&output));
    assert_eq!(code(&verify(&["--min-coverage", "0"])), 0);
}

fn no_sections(linker: OrderingLinker) {
    let project = project();
    compile(project.path(), &["a", "b", "main"], &[]);
    linker.link(project.path(), &[linker.order(project.path(), &asked())]);
    let (code, found) = verified(project.path(), &asked());
    assert_eq!(code, 5, "{found:?}");
    assert!(found.len() + 4 > asked().len(), "{found:?}");
    assert!(found.values().all(|reason| reason == "no section of its own"), "{found:?}");
}

fn one_object_without_sections(linker: OrderingLinker) {
    let project = project();
    compile(project.path(), &["b"], &[]);
    linker.link(project.path(), &[linker.order(project.path(), &asked())]);
    let (_, found) = verified(project.path(), &asked());
    assert!(found.len() + 3 > LISTED, "{found:?}");
    for (name, reason) in found {
        assert!(name.starts_with('b') && reason == "no section of its own", "{name}: {reason}");
    }
}

fn an_older_order(linker: OrderingLinker) {
    let project = project();
    let without: Vec<String> = names("a2 b5 a7");
    let older: Vec<String> = asked().into_iter().filter(|name| !without.contains(name)).collect();
    linker.link(project.path(), &[linker.order(project.path(), &older)]);
    expect(project.path(), &asked(), 0, &without, "not passed to the linker");
}

fn cold_parts_between(_: OrderingLinker) {
    let project = project();
    // Functions in between are not in the order.
    let statements: Vec<String> = asked()
        .iter()
        .enumerate()
        .map(|(turn, name)| match turn {
            8 => {
                format!("*(.text.{name})\n*(.text.unlikely.split_a)\n*(.text.a1)\n*(.text.unlikely.split_b)")
            }
            _ => format!("*(.text.{name})"),
        })
        .filter(|statement| statement != "*(.text.a1)")
        .collect();
    let order: Vec<String> = {
        let mut order = asked();
        order.retain(|name| name != "a1");
        let place = asked().iter().take(9).filter(|name| *name != "a1").count();
        order.insert(place, "a1".to_owned());
        order
    };
    OrderingLinker::GnuLd
        .link(project.path(), &[OrderingLinker::GnuLd.order_of(project.path(), &statements, &[])]);
    expect(project.path(), &order, 0, &names("a1"), "parted by a cold part");
}

fn grouped_by_the_linker(linker: OrderingLinker) {
    let project = project();
    let further = names("hot_a cold_b");
    let mut order = asked();
    order.extend(further.clone());
    linker.link(project.path(), &[linker.order(project.path(), &order)]);
    expect(project.path(), &order, 0, &further, "other section group");
}

fn kept_prefix(linker: OrderingLinker) {
    let project = project();
    let mut order = asked();
    order.extend(names("hot_a"));
    let passed = linker.order(project.path(), &order);
    linker.link(project.path(), &[passed, "-Wl,-z,keep-text-section-prefix".to_owned()]);
    expect(project.path(), &order, 0, &names("hot_a"), "other section group");
}

fn other_output_section(linker: OrderingLinker) {
    let project = project();
    let mut order = asked();
    order.extend(names("by_hand_a"));
    linker.link(project.path(), &[linker.order(project.path(), &order)]);
    expect(project.path(), &order, 0, &names("by_hand_a"), "other output section");
}

fn section_of_another_name(linker: OrderingLinker) {
    let project = project();
    let mut order = asked();
    order.extend(names("alias_a"));
    linker.link(project.path(), &[linker.order(project.path(), &order)]);
    expect(project.path(), &order, 0, &names("alias_a"), "section of another name");
}

fn swapped(linker: OrderingLinker) {
    let project = project();
    let mut passed = asked();
    passed.swap(3, 4);
    linker.link(project.path(), &[linker.order(project.path(), &passed)]);
    let (code, found) = verified(project.path(), &asked());
    let [(name, reason)] = &found.into_iter().collect::<Vec<_>>()[..] else { panic!("one is misplaced") };
    assert!(asked()[3..5].contains(name) && reason == "out of order" && code == 0, "{name}: {reason}");
}

fn collected(linker: OrderingLinker) {
    let project = project();
    let mut order = asked();
    order.extend(names("unused_b"));
    let passed = linker.order(project.path(), &order);
    linker.link(project.path(), &[passed, "-Wl,--gc-sections".to_owned()]);
    expect(project.path(), &order, 0, &names("unused_b"), "not in the binary");
}

fn no_objects_at_hand(linker: OrderingLinker) {
    let project = project();
    linker.link(project.path(), &[]);
    for object in ["a.o", "b.o", "main.o"] {
        std::fs::remove_file(project.path().join(object)).unwrap();
    }
    expect(project.path(), &asked(), 5, &asked(), "among unlisted functions");
}

/// Ways in which [`mutations`] breaks a correct file.
const WAYS: [&str; 10] = [
    "two functions swapped",
    "one function missing",
    "the order reversed",
    "no order",
    "equal functions folded (GNU ld: half of the order)",
    "one object without function sections",
    "one section with another name",
    "the order of another program",
    "another version of a source",
    "stripped",
];

/// Thirty files in thirty orders, each first correct, then broken in one of ten ways: every fault is found, and no
/// correct file is blamed. Identical functions that the linker folded are the documented exception: they are at the
/// address that the order requests for one of them. `SEDIMENT_MUTATIONS=FILE` appends a line for each file to FILE, for
/// `scripts/prove verify`.
fn mutations(linker: OrderingLinker) {
    let sound = project();
    let broken = project();
    let mut state = 7u32;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % limit
    };
    let mut order = asked();
    for file in 0..30 {
        for last in (1..order.len()).rev() {
            order.swap(last, below(last + 1));
        }
        linker.link(sound.path(), &[linker.order(sound.path(), &order)]);
        expect(sound.path(), &order, 0, &[], "");
        let way = file % WAYS.len();
        let answer = broken_in(broken.path(), linker, way, &order);
        let is_folded = way == 4 && linker != OrderingLinker::GnuLd;
        let found = match answer {
            Ok((code, json)) if is_folded => code != 0 || json["order_in_force"] != true,
            Ok((_, json)) => !json["misplaced"].as_array().unwrap().is_empty(),
            Err(code) => code == 1,
        };
        assert!(found != is_folded, "{} is not found: file {file}, {linker:?}", WAYS[way]);
        note_mutation(linker, WAYS[way], if is_folded { "exception" } else { "found" });
    }
}

fn note_mutation(linker: OrderingLinker, way: &str, result: &str) {
    let Some(path) = std::env::var_os("SEDIMENT_MUTATIONS") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, format!("{way}\t{linker:?}\t{result}\n").as_bytes()).unwrap();
}

/// Links the program with an order and one fault; returns the exit code and the JSON of `verify`, or the code of an
/// error.
fn broken_in(
    folder: &Path,
    linker: OrderingLinker,
    way: usize,
    order: &[String],
) -> Result<(i32, Value), i32> {
    let mut passed = order.to_vec();
    let mut wanted = order.to_vec();
    let mut further = Vec::new();
    match way {
        0 => passed.swap(3, 9),
        1 => drop(passed.remove(5)),
        2 => passed.reverse(),
        3 => passed.clear(),
        4 if linker == OrderingLinker::GnuLd => passed.truncate(10),
        // Functions with equal numbers in both files are identical.
        4 => further.push("-Wl,--icf=all".to_owned()),
        5 => compile(folder, &["b"], &[]),
        6 => {
            let section = format!(".text.{}=elsewhere,alloc,code,readonly", order[4]);
            let object = format!("{}.o", &order[4][..1]);
            let mut objcopy = Command::new("objcopy");
            objcopy.args(["--rename-section", &section, &object]).current_dir(folder);
            assert!(objcopy.status().unwrap().success());
        }
        7 => wanted = names("z1 z2 z3 z4"),
        // A function is missing.
        8 => {
            let gone = &order[6];
            let letter = gone.chars().next().unwrap();
            let text = source(letter).replace(&format!("int {gone}("), &format!("int new_{gone}("));
            let text = text.replace(&format!("x = {gone}(x)"), &format!("x = new_{gone}(x)"));
            std::fs::write(folder.join(format!("{letter}.c")), text).unwrap();
            compile(folder, &[&letter.to_string()], &["-ffunction-sections"]);
        }
        _ => further.push("-s".to_owned()),
    }
    if !passed.is_empty() {
        further.push(linker.order(folder, &passed));
    }
    linker.link(folder, &further);
    std::fs::write(folder.join("asked.order"), wanted.join("\n") + "\n").unwrap();
    let output = sediment(folder, &["verify", "prog", "--order", "asked.order", "--json"]);
    for letter in ['a', 'b'] {
        std::fs::write(folder.join(format!("{letter}.c")), source(letter)).unwrap();
    }
    if matches!(way, 5 | 6 | 8) {
        compile(folder, &["a", "b"], &["-ffunction-sections"]);
    }
    let json = serde_json::from_str(&out(&output)).map_err(|_| code(&output))?;
    Ok((code(&output), json))
}

fn sound(linker: OrderingLinker) {
    let project = project();
    let linked = linker.order(project.path(), &asked());
    linker.link(project.path(), &[linked]);
    expect(project.path(), &asked(), 0, &[], "");
    // The objects may be in another folder.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(project.path().join("prog"), elsewhere.path().join("prog")).unwrap();
    expect(elsewhere.path(), &asked(), 0, &[], "");
}

/// With an order computed by `sediment order`, with functions of all groups.
fn sound_as_computed() {
    let project = project();
    OrderingLinker::GnuLd.link(project.path(), &[]);
    let all = [asked(), names("hot_a cold_b split_a split_b main all_a all_b real_a")].concat();
    let edges: String = all
        .iter()
        .zip(1..)
        .map(|(name, turn)| format!("  \"main\" -> \"{name}\" [label=0.1, count={}];\n", turn * 37 % 101 + 1))
        .collect();
    let nodes: String = all.iter().map(|name| format!("    \"{name}\";\n")).collect();
    let profile = format!(
        "digraph Callgraph {{\n  graph [sediment=2, source=\"callgrind\", unit=calls, total=1];\n  subgraph cluster0 {{\n    graph [label=\"prog\"];\n{nodes}  }}\n{edges}}}\n"
    );
    std::fs::write(project.path().join("p.gv"), profile).unwrap();
    let order = ["order", "p.gv", "--binary", "prog", "--linker", "gnu-ld-script", "-o", "passed.order"];
    let made = sediment(project.path(), &order);
    assert!(made.status.success(), "{}", err(&made));
    OrderingLinker::GnuLd.link(project.path(), &["-Wl,-T,passed.order".to_owned()]);
    let checked = ["verify", "prog", "--order", "passed.order", "--profile", "p.gv", "--json"];
    let output = sediment(project.path(), &checked);
    let json: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((code(&output), json["misplaced"].as_array().unwrap().len()), (0, 0), "{json}");
}

/// An order close to the order of the sources: alternately whole sequences of both files.
fn close() -> Vec<String> {
    let of = |letter: char| -> Vec<String> {
        (0..LISTED)
            .flat_map(|number| [format!("{letter}{number}"), format!("other_{letter}{number}")])
            .collect()
    };
    of('a').chunks(4).zip(of('b').chunks(4)).flat_map(|(a, b)| [a, b].concat()).collect()
}

/// Objects whose functions are in the order of the sources; `local`: they are static.
fn project_as_written(local: bool) -> TempDir {
    let project = project();
    for letter in ['a', 'b'] {
        let mut text = source(letter);
        if local {
            text = text.replace(&format!("FN int {letter}"), &format!("static FN int {letter}"));
            text = text.replace("FN int other_", "static FN int other_");
        }
        std::fs::write(project.path().join(format!("{letter}.c")), text).unwrap();
    }
    compile(project.path(), &["a", "b"], &["-ffunction-sections", "-fno-toplevel-reorder"]);
    project
}

/// The order is not in force although half of the functions are placed as ordered.
fn expect_luck(folder: &Path, reason: &str) {
    let (code, json) = answered(folder, &close());
    assert!(json["weight_placed_percent"].as_f64().unwrap() >= 50.0, "{json}");
    assert_eq!((code, &json["order_in_force"]), (5, &Value::Bool(false)), "{json}");
    let misplaced = json["misplaced"].as_array().unwrap();
    assert!(!misplaced.is_empty() && misplaced.iter().all(|found| found["reason"] == reason), "{json}");
}

fn close_not_passed(linker: OrderingLinker) {
    let project = project_as_written(false);
    linker.link(project.path(), &[]);
    expect_luck(project.path(), "not passed to the linker");
    // libtool keeps two objects for each source.
    std::fs::create_dir(project.path().join(".libs")).unwrap();
    for object in ["a.o", "b.o"] {
        std::fs::copy(project.path().join(object), project.path().join(".libs").join(object)).unwrap();
    }
    expect_luck(project.path(), "not passed to the linker");
}

fn close_no_objects_at_hand(linker: OrderingLinker) {
    let project = project_as_written(true);
    linker.link(project.path(), &[]);
    for object in ["a.o", "b.o", "main.o"] {
        std::fs::remove_file(project.path().join(object)).unwrap();
    }
    expect_luck(project.path(), "among unlisted functions");
}

fn close_no_sections(linker: OrderingLinker) {
    let project = project_as_written(false);
    compile(project.path(), &["a", "b", "main"], &["-fno-toplevel-reorder"]);
    linker.link(project.path(), &[linker.order(project.path(), &close())]);
    expect_luck(project.path(), "no section of its own");
}

fn sound_close(linker: OrderingLinker) {
    for local in [false, true] {
        let project = project_as_written(local);
        linker.link(project.path(), &[linker.order(project.path(), &close())]);
        expect(project.path(), &close(), 0, &[], "");
        // One missing section is the reason for one function, with and without objects.
        let older: Vec<String> = close().into_iter().filter(|name| name != "b3").collect();
        linker.link(project.path(), &[linker.order(project.path(), &older)]);
        expect(project.path(), &close(), 0, &names("b3"), "not passed to the linker");
        for object in ["a.o", "b.o", "main.o"] {
            std::fs::remove_file(project.path().join(object)).unwrap();
        }
        expect(project.path(), &close(), 0, &names("b3"), "among unlisted functions");
    }
}

/// Every link follows an order that equals the sources' order.
fn sound_as_written(linker: OrderingLinker) {
    let project = project_as_written(false);
    let mut order = close();
    order.sort_by_key(|name| (name.trim_start_matches("other_").to_owned(), name.starts_with("other_")));
    linker.link(project.path(), &[]);
    expect(project.path(), &order, 0, &[], "");
}

/// Only a part of the order can be followed, because the other part has no sections.
fn half_close(linker: OrderingLinker) {
    let project = project_as_written(false);
    compile(project.path(), &["b"], &["-fno-toplevel-reorder"]);
    let mut order = close();
    order.retain(|name| name.contains('a') || name.ends_with(['0', '1', '2']));
    linker.link(project.path(), &[linker.order(project.path(), &order)]);
    let (_, json) = answered(project.path(), &order);
    assert_eq!(json["order_in_force"], Value::Bool(true), "{json}");
    for found in json["misplaced"].as_array().unwrap() {
        assert!(found["name"].as_str().unwrap().contains('b'), "{json}");
        assert_eq!(found["reason"], "no section of its own", "{json}");
    }
}

/// Identical functions in both files become one.
fn sound_folded(linker: OrderingLinker) {
    let project = project_as_written(false);
    let order = linker.order(project.path(), &close());
    linker.link(project.path(), &[order, "-Wl,--icf=all".to_owned()]);
    let (code, json) = answered(project.path(), &close());
    assert_eq!((code, &json["order_in_force"]), (0, &Value::Bool(true)), "{json}");
}

/// `--min-coverage` replaces the default threshold.
fn thresholds() {
    let project = project();
    OrderingLinker::GnuLd.link(project.path(), &[]);
    std::fs::write(project.path().join("asked.order"), asked().join("\n") + "\n").unwrap();
    let exit = |more: &[&str]| {
        code(&sediment(project.path(), &[&["verify", "prog", "--order", "asked.order"], more].concat()))
    };
    assert_eq!((exit(&[]), exit(&["--min-coverage", "0"]), exit(&["--min-coverage", "1"])), (5, 0, 5));
    assert_eq!(exit(&["--objects", "gone"]), 1);
    // Functions that the file does not define do not count against it.
    let order: Vec<String> =
        asked().into_iter().chain((0..40).map(|number| format!("gone{number}"))).collect();
    OrderingLinker::GnuLd.link(project.path(), &[OrderingLinker::GnuLd.order(project.path(), &order)]);
    let (code, _) = verified(project.path(), &order);
    assert_eq!((code, exit(&["--min-coverage", "50"])), (0, 5));
}

pub(crate) fn cases() -> Vec<Trial> {
    type Test = fn(OrderingLinker);
    let faults: &[(&str, Test, &[OrderingLinker])] = &[
        ("not_passed", not_passed, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        ("no_sections", no_sections, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        (
            "one_object_without_sections",
            one_object_without_sections,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        (
            "an_older_order",
            an_older_order,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        ("cold_parts_between", cold_parts_between, &[OrderingLinker::GnuLd]),
        ("grouped_by_the_linker", grouped_by_the_linker, &[OrderingLinker::GnuLd]),
        ("kept_prefix", kept_prefix, &[OrderingLinker::Lld]),
        ("other_output_section", other_output_section, &[OrderingLinker::GnuLd, OrderingLinker::Lld]),
        ("section_of_another_name", section_of_another_name, &[OrderingLinker::GnuLd, OrderingLinker::Gold]),
        ("swapped", swapped, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        ("collected", collected, &[OrderingLinker::GnuLd, OrderingLinker::Lld]),
        ("no_objects_at_hand", no_objects_at_hand, &[OrderingLinker::GnuLd, OrderingLinker::Lld]),
        (
            "stripped_to_few_exports",
            stripped_to_few_exports,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        (
            "close_not_passed",
            close_not_passed,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        (
            "close_no_objects_at_hand",
            close_no_objects_at_hand,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        (
            "close_no_sections",
            close_no_sections,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        ("half_close", half_close, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        ("mutations", mutations, &[OrderingLinker::GnuLd, OrderingLinker::Lld]),
        ("sound", sound, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        ("sound_close", sound_close, &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld]),
        (
            "sound_as_written",
            sound_as_written,
            &[OrderingLinker::GnuLd, OrderingLinker::Gold, OrderingLinker::Lld],
        ),
        ("sound_folded", sound_folded, &[OrderingLinker::Gold, OrderingLinker::Lld]),
    ];
    let mut cases: Vec<Trial> = faults
        .iter()
        .flat_map(|(name, test, linkers)| {
            linkers.iter().map(move |linker| {
                let (test, linker) = (*test, *linker);
                case(&format!("{name}::{linker:?}"), &linker.needs(), move || test(linker))
            })
        })
        .collect();
    cases.push(case("sound::as_computed", &OrderingLinker::GnuLd.needs(), sound_as_computed));
    cases.push(case("thresholds", &OrderingLinker::GnuLd.needs(), thresholds));
    cases
}
