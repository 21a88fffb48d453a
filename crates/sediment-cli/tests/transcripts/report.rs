// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment report`: drawings of a real program's layout, of an order, and of the program linked with that order.

use crate::running::{done, err, sediment};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Two hundred functions, a profile of their calls, and the program; `None` without a compiler.
fn program(folder: &Path) -> Option<()> {
    let mut code = String::from("#include <stdio.h>\nvolatile int sink;\n");
    let mut profile = String::from(
        "digraph Callgraph {\n  graph [sediment=2, unit=calls, total=100000];\n  subgraph cluster0 {\n    graph [label=\"prog\"];\n    \"main\";\n",
    );
    let mut calls = String::new();
    for function in 0..200 {
        writeln!(code, "__attribute__((noinline)) int f{function}(int x) {{ for (int i = 0; i < x; i++) sink += i * {function}; return sink; }}").unwrap();
        if function % 20 == 0 {
            writeln!(profile, "    \"f{function}\" [first={function}];").unwrap();
            writeln!(calls, "  \"main\" -> \"f{function}\" [label=0.1, count=10000];").unwrap();
        }
    }
    code += "int main(void) { int sum = 0;\n";
    for function in 0..200 {
        writeln!(code, "sum += f{function}({function});").unwrap();
    }
    code += "printf(\"%d\\n\", sum); return 0; }\n";
    std::fs::write(folder.join("prog.c"), code).unwrap();
    std::fs::write(folder.join("p.gv"), format!("{profile}  }}\n{calls}}}\n")).unwrap();
    let linked = Command::new("cc")
        .args(["-O1", "-ffunction-sections", "-Wl,--build-id", "prog.c", "-o", "prog"])
        .current_dir(folder)
        .status();
    linked.is_ok_and(|status| status.success()).then_some(())
}

/// Lines of a page that contain one of these words.
fn lines_with<'a>(page: &'a str, words: &[&str]) -> Vec<&'a str> {
    page.lines().filter(|line| words.iter().any(|word| line.contains(word))).collect()
}

/// Copies a report to the file in SEDIMENT_KEEP_REPORT: `scripts/prove report` opens it in browsers.
fn keep(page: &Path) {
    if let Some(kept) = std::env::var_os("SEDIMENT_KEEP_REPORT") {
        std::fs::copy(page, kept).unwrap();
    }
}

#[test]
fn before_and_after_of_a_real_program() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let report = |more: &[&str]| {
        let arguments = [&["report", "p.gv", "--binary", "prog", "-o", "layout.html"], more].concat();
        done(&sediment(folder.path(), &arguments));
        std::fs::read_to_string(folder.path().join("layout.html")).unwrap()
    };
    let page = report(&[]);
    keep(&folder.path().join("layout.html"));
    let dated = |seconds: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
        command.args(["report", "p.gv", "--binary", "prog", "-o", "-"]).env("SOURCE_DATE_EPOCH", seconds);
        command.current_dir(folder.path()).output().unwrap()
    };
    for (seconds, day) in [("1000000000", "2001-09-09"), ("253402300799", "9999-12-31")] {
        assert!(String::from_utf8(dated(seconds).stdout).unwrap().contains(day), "{seconds}");
    }
    for seconds in ["253402300800", "18446744073709551615", "-1", "today"] {
        assert_eq!(dated(seconds).status.code(), Some(2), "{seconds}");
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    // Shapes that are drawn twice, the pages and their functions: for the link without an order, and with an order.
    let titles = |page: &str, word: &str| {
        lines_with(page, &["<h3>"]).iter().filter(|title| title.contains(word)).count()
    };
    assert_eq!([titles(&page, "before: "), titles(&page, "after: predicted ")], [2, 2]);
    // Every called function is drawn with its size, heat and group, and is in the table.
    for function in (0..200).step_by(20) {
        assert!(page.contains(&format!(">f{function}, ")), "f{function}");
        assert!(page.contains(&format!("<bdi>f{function}</bdi>")), "f{function}");
    }
    done(&sediment(
        folder.path(),
        &["order", "p.gv", "--binary", "prog", "--linker", "gnu-ld-script", "-o", "order.ld"],
    ));
    assert_eq!(titles(&report(&["--order", "order.ld"]), " order.ld<"), 2);
    let linked = Command::new("cc")
        .args(["-O1", "-ffunction-sections", "prog.c", "-o", "ordered", "-Wl,-T,order.ld"])
        .current_dir(folder.path())
        .status();
    if linked.is_ok_and(|status| status.success()) {
        let linked = report(&["--after", "ordered"]);
        assert_eq!([titles(&linked, "after: as linked "), titles(&linked, "predicted")], [2, 0]);
        let verified = report(&["--after", "ordered", "--order", "order.ld"]);
        assert!(verified.contains("<dt>verify</dt><dd><bdi>100.00"), "verify's share");
        let several = report(&["--binary", "ordered"]);
        assert_eq!(several.matches("<section class=\"program\"").count(), 2);
        assert!(several.contains("href=\"#program-1\""));
    }
}

/// One picture of all programs, which uses only features of picture viewers; names are text in it.
#[test]
fn a_picture_of_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let name = "a<b&\"c\u{202e}";
    std::fs::copy(folder.path().join("prog"), folder.path().join(name)).unwrap();
    let drawn =
        ["report", "p.gv", "--binary", "prog", "--binary", name, "-o", "layout.html", "--picture", "p.svg"];
    done(&sediment(folder.path(), &drawn));
    let picture = std::fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    let headlines: Vec<&str> = picture.lines().filter(|line| line.contains("class=\"headline\"")).collect();
    assert!(headlines.len() == 2 && headlines[0].contains(">prog: "), "{headlines:?}");
    assert!(headlines[1].contains(">a&lt;b&amp;") && !headlines[1].contains('\u{202e}'), "{headlines:?}");
    assert_eq!(picture.matches("prefers-color-scheme:dark").count(), 1);
    for unknown in ["var(", "<script", "href", "data-"] {
        assert!(!picture.contains(unknown), "{unknown}: {picture}");
    }
    // One file for both would keep only one of them.
    for same in ["-", "same.html"] {
        let mut both = drawn;
        (both[7], both[9]) = (same, same);
        assert_eq!(sediment(folder.path(), &both).status.code(), Some(2));
    }
    assert!(!folder.path().join("same.html").exists());
}

#[test]
fn undrawable_layouts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    std::fs::write(
        folder.path().join("other.gv"),
        "digraph g { subgraph cluster0 { graph [label=x]; a; b; } a -> b [label=1]; }",
    )
    .unwrap();
    let foreign = sediment(folder.path(), &["report", "other.gv", "--binary", "prog", "-o", "layout.html"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(!folder.path().join("layout.html").exists());
    let unequal =
        ["report", "p.gv", "--binary", "prog", "--after", "prog", "--after", "prog", "-o", "layout.html"];
    let unequal = sediment(folder.path(), &unequal);
    assert_eq!(unequal.status.code(), Some(2));
    assert!(err(&unequal).contains("--after "), "{}", err(&unequal));
    let nowhere = ["report", "p.gv", "--binary", "prog", "-o", "missing/layout.html"];
    assert_eq!(sediment(folder.path(), &nowhere).status.code(), Some(1));
}

/// The program with other forms of its profile: a newer version of the format, and without calls.
#[test]
fn profiles_without_calls_and_of_newer_versions() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let of = |profile: &str| {
        sediment(folder.path(), &["report", profile, "--binary", "prog", "-o", "layout.html"])
    };
    write(
        "newer.gv",
        "digraph g { graph [sediment=99, unit=calls, total=1]; subgraph cluster0 { graph [label=prog]; main; f0; } main -> f0 [count=1]; }",
    );
    let newer = of("newer.gv");
    assert_eq!(newer.status.code(), Some(1));
    assert!(err(&newer).starts_with("sediment: newer.gv:1: ") && err(&newer).contains(" 99,"), "{newer:?}");
    write(
        "silent.gv",
        "digraph g { graph [sediment=2, unit=calls, total=0]; subgraph cluster0 { graph [label=prog]; main; f0; } }",
    );
    done(&of("silent.gv"));
    let page = std::fs::read_to_string(folder.path().join("layout.html")).unwrap();
    let headline = lines_with(&page, &["class=\"headline\""]);
    assert!(headline.len() == 1 && !headline[0].contains('%'), "{headline:?}");
    // A folder with the name of the page.
    std::fs::create_dir(folder.path().join("folder.html")).unwrap();
    let at_a_folder = sediment(folder.path(), &["report", "p.gv", "--binary", "prog", "-o", "folder.html"]);
    assert_eq!(at_a_folder.status.code(), Some(1));
    assert!(err(&at_a_folder).starts_with("sediment: folder.html: "), "{at_a_folder:?}");
}

/// Functions with C++ names; four thousand of them are called, with thirty thousand calls.
#[test]
fn a_report_of_42_000_functions_has_at_most_10_mb() {
    const FUNCTIONS: usize = 42_000;
    let folder = tempfile::tempdir().unwrap();
    let name = |at: usize| {
        let (class, method) = (format!("Component{}", at / 12), format!("handle_request_{at}"));
        format!(
            "_ZN6server7storage{}{class}{}{method}ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            class.len(),
            method.len()
        )
    };
    let functions = (0..FUNCTIONS).map(|at| (name(at), 40 + at * 7919 % 400));
    if !assembled(folder.path(), "prog", functions) {
        return support::skip("cc is missing");
    }
    let mut profile = String::from(
        "digraph g { graph [sediment=2, unit=calls, total=30000000]; subgraph cluster0 { graph [label=prog];\n",
    );
    for at in (0..FUNCTIONS).step_by(10) {
        writeln!(profile, "\"{}\" [first={at}];", name(at)).unwrap();
    }
    profile += "}\n";
    for call in 0..30_000 {
        let (from, to) = (call % 4200 * 10, call * 31 % 4200 * 10);
        writeln!(profile, "\"{}\" -> \"{}\" [count={}];", name(from), name(to), 1 + 100_000 / (1 + call))
            .unwrap();
    }
    std::fs::write(folder.path().join("p.gv"), profile + "}\n").unwrap();
    done(&sediment(folder.path(), &["report", "p.gv", "--binary", "prog", "-o", "layout.html"]));
    let size = std::fs::metadata(folder.path().join("layout.html")).unwrap().len();
    assert!((1_000_000..=10_000_000).contains(&size), "{size} bytes");
    keep(&folder.path().join("layout.html"));
}

/// Links a program with functions of these names and sizes, and `main`; false without a compiler. Nothing of it is run.
fn assembled(folder: &Path, program: &str, functions: impl Iterator<Item = (String, usize)>) -> bool {
    let mut code = String::from(".section .note.GNU-stack,\"\"\n");
    for (name, size) in functions.chain([("main".to_owned(), 40)]) {
        writeln!(code, ".section .text.{name},\"ax\"\n.globl {name}\n.type {name},%function\n{name}: .skip {size}\n.size {name},.-{name}").unwrap();
    }
    let source = format!("{program}.s");
    std::fs::write(folder.join(&source), code).unwrap();
    let linked = Command::new("cc").args([&source, "-o", program]).current_dir(folder).status();
    linked.is_ok_and(|status| status.success())
}

#[test]
fn files_that_lack_the_functions_are_refused_or_told_of() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return support::skip("cc is missing");
    }
    let at = |name: &str| folder.path().join(name);
    let compiled = |source: &str, program: &str| {
        let mut command = Command::new("cc");
        command.args(["-O1", "-ffunction-sections", source, "-o", program]).current_dir(folder.path());
        assert!(command.status().unwrap().success(), "{program}");
    };
    let code = std::fs::read_to_string(at("prog.c")).unwrap();
    std::fs::write(at("fewer.c"), code.replace("f180(", "g180(")).unwrap();
    compiled("fewer.c", "fewer");
    let other = "int own(void) { return 0; }\nint main(void) { return own(); }\n";
    std::fs::write(at("other.c"), other).unwrap();
    compiled("other.c", "other");
    if !Command::new("strip")
        .args(["-o", "stripped", "prog"])
        .current_dir(folder.path())
        .status()
        .is_ok_and(|status| status.success())
    {
        return support::skip("strip is missing");
    }
    let report = |profile: &str, after: &str| {
        sediment(folder.path(), &["report", profile, "--binary", "prog", "--after", after, "-o", "page.html"])
    };
    for (after, present) in [("stripped", 0), ("other", 1)] {
        let refused = report("p.gv", after);
        assert_eq!(refused.status.code(), Some(1), "{after}");
        let told = format!("sediment: {after}: only {present} of 11 profiled functions of prog ");
        assert!(err(&refused).starts_with(&told), "{}", err(&refused));
        assert_eq!(err(&refused).contains("stripped to"), after == "stripped", "{}", err(&refused));
        assert!(!at("page.html").exists(), "{after}");
    }
    let page = || std::fs::read_to_string(at("page.html")).unwrap();
    done(&report("p.gv", "fewer"));
    for share in [">11 of 11 ", ">10 of 11 ", " 90.00 % "] {
        assert!(page().contains(share), "{share}");
    }
    assert!(!page().contains("another build"));
    // A profile of another version, with functions that this one does not have.
    let newer = std::fs::read_to_string(at("p.gv")).unwrap();
    let newer = newer
        .replace(
            "[label=\"prog\"]",
            "[label=\"prog\", build_id=\"00112233445566778899aabbccddeeff00112233\"]",
        )
        .replace("\"main\";", "\"main\"; \"gone1\"; \"gone2\";")
        .replacen(
            "  \"main\" -> ",
            "  \"main\" -> \"gone1\" [count=25000];\n  \"main\" -> \"gone2\" [count=25000];\n  \"main\" -> ",
            1,
        )
        .replace("total=100000", "total=150000");
    std::fs::write(at("newer.gv"), newer).unwrap();
    let done_newer = report("newer.gv", "prog");
    done(&done_newer);
    for share in [">11 of 13 ", " 66.66 % ", "another build, 00112233"] {
        assert!(page().contains(share), "{share}");
    }
    assert!(err(&done_newer).contains("sediment: prog: profiled functions: 11 of 13 "), "{done_newer:?}");
}

#[test]
fn verdicts_tell_better_from_worse_and_from_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let of = |at: usize| (format!("f{at}"), 300);
    let is_hot = |at: &usize| at % 10 == 0;
    let packed = (0..4000).filter(is_hot).chain((0..4000).filter(|at| !is_hot(at)));
    if !assembled(folder.path(), "spread", (0..4000).map(of)) {
        return support::skip("cc is missing");
    }
    assert!(assembled(folder.path(), "packed", packed.map(of)));
    let mut profile = String::from(
        "digraph g { graph [sediment=2, unit=calls, total=400000000]; subgraph cluster0 { graph [label=spread]; main;",
    );
    let mut calls = String::new();
    for at in (0..4000).filter(is_hot) {
        write!(profile, " f{at};").unwrap();
        writeln!(calls, "main -> f{at} [count=1000000];").unwrap();
    }
    std::fs::write(folder.path().join("p.gv"), format!("{profile} }}\n{calls}}}\n")).unwrap();
    std::fs::write(
        folder.path().join("one.gv"),
        "digraph g { graph [sediment=2, unit=calls, total=5]; subgraph cluster0 { graph [label=spread]; main; } \"_start\" -> main [count=5]; }",
    )
    .unwrap();
    let report = |profile: &str, more: &[&str]| {
        let arguments = [&["report", profile, "-o", "page.html"], more].concat();
        done(&sediment(folder.path(), &arguments));
        let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
        lines_with(&page, &["\"headline\"", "\"verdict\""]).join("\n")
    };
    for (profile, before, after, verdict, has_forecast) in [
        ("p.gv", "spread", Some("packed"), ">Ordered: ", true),
        ("p.gv", "packed", Some("spread"), ">Worse ", false),
        (
            "p.gv",
            "packed",
            Some("packed"),
            ">Nothing to gain in iTLB misses: the hot code already fits into the TLB.",
            false,
        ),
        (
            "p.gv",
            "spread",
            Some("spread"),
            ">Nothing to gain in iTLB misses: the order saves hardly any.",
            true,
        ),
        (
            "one.gv",
            "spread",
            None,
            ">Nothing to gain in iTLB misses: the hot code already fits into one page.",
            false,
        ),
    ] {
        let after = after.map_or(Vec::new(), |after| vec!["--after", after]);
        let said = report(profile, &[&["--binary", before], &after[..]].concat());
        assert!(said.contains(verdict), "{before} {after:?}: {said}");
        assert_eq!(
            said.contains("iTLB misses ") && said.contains("% predicted"),
            has_forecast,
            "{before} {after:?}: {said}"
        );
    }
    let given = report("p.gv", &["--binary", "spread", "--verdict", "measured: <fewer>"]);
    assert!(given.contains("class=\"verdict\">measured: &lt;fewer&gt;</p>"), "{given}");
}

/// Size in bytes of the report on PostgreSQL's server, with 16,000 functions and this profile; `None` without a
/// compiler.
fn size_of_postgresql(folder: &Path) -> Option<u64> {
    const FUNCTIONS: usize = 16_000;
    let text = std::fs::read(folder.join("p.gv")).unwrap();
    let (profile, _) = sediment_core::profile::text::parse(&text).unwrap();
    let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.$".contains(&b));
    let of_crt = ["main", "_start", "_init", "_fini"];
    let names: Vec<String> = profile
        .functions()
        .into_iter()
        .map(|function| profile.key(function))
        .filter(|key| key.dso.as_deref() == Some("postgres") && is_plain(&key.name))
        .map(|key| key.name.clone())
        .filter(|name| !of_crt.contains(&name.as_str()))
        .collect::<std::collections::BTreeSet<String>>()
        .into_iter()
        .collect();
    assert!((1_000..2_000).contains(&names.len()), "{} functions", names.len());
    // Profiled functions are among the others.
    let step = FUNCTIONS / names.len();
    let functions = (0..FUNCTIONS).map(|at| match names.get(at / step).filter(|_| at % step == 0) {
        Some(name) => (name.clone(), 40 + at * 7919 % 900),
        None => (format!("ExecOtherFunctionOfThisName{at}"), 40 + at * 7919 % 900),
    });
    if !assembled(folder, "postgres", functions) {
        return None;
    }
    done(&sediment(folder, &["report", "p.gv", "--binary", "postgres", "-o", "layout.html"]));
    let page = std::fs::read_to_string(folder.join("layout.html")).unwrap();
    assert!(page.matches("<tr data-f=").count() == 40, "the heaviest functions");
    Some(page.len() as u64)
}

/// A profile of PostgreSQL 16 under pgbench.
#[test]
fn a_report_of_postgresql_has_at_most_1_6_mb() {
    let recorded = support::shared_data("postgresql16.perf-report.txt");
    if !recorded.is_file() {
        return support::skip_on_this_machine("data absent");
    }
    let folder = tempfile::tempdir().unwrap();
    done(&sediment(folder.path(), &["import", recorded.to_str().unwrap(), "-o", "p.gv"]));
    let Some(size) = size_of_postgresql(folder.path()) else { return support::skip("cc is missing") };
    assert!((400_000..=1_600_000).contains(&size), "{size} bytes");
}

/// The same with a profile of the same size, with names of the same length.
#[test]
fn a_report_as_large_as_that_of_postgresql_has_at_most_1_6_mb() {
    let folder = tempfile::tempdir().unwrap();
    let name = |at: usize| format!("heap_function_of_this_name_{at}");
    let mut profile = String::from(
        "digraph g { graph [sediment=2, unit=calls, total=34000000]; subgraph cluster0 { graph [label=postgres];\n",
    );
    for at in 0..1338 {
        writeln!(profile, "\"{}\" [first={at}];", name(at)).unwrap();
    }
    profile += "} subgraph cluster1 { graph [label=\"libc.so.6\"];\n";
    for at in 0..350 {
        writeln!(profile, "\"libc_{}\";", name(at)).unwrap();
    }
    profile += "}\n";
    for call in 0..3673 {
        let from = name(call * 31 % 1338);
        let to = if call % 4 == 0 { format!("libc_{}", name(call % 350)) } else { name(call * 17 % 1338) };
        writeln!(profile, "\"{from}\" -> \"{to}\" [count={}];", 1 + 1_000_000 / (1 + call)).unwrap();
    }
    std::fs::write(folder.path().join("p.gv"), profile + "}\n").unwrap();
    let Some(size) = size_of_postgresql(folder.path()) else { return support::skip("cc is missing") };
    assert!((400_000..=1_600_000).contains(&size), "{size} bytes");
}
