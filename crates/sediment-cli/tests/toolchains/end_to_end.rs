// SPDX-License-Identifier: MIT OR Apache-2.0
//! All steps on a real program, once per linker: compile, link, record with callgrind, import, order, relink, verify,
//! and inspect the linked file with `nm`. Each linked program must still run and print the same.

use libtest_mimic::Trial;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Need, case};

/// Linker under test: its compiler flags and its way of printing a map.
#[derive(Clone, Copy)]
struct TestedLinker {
    name: &'static str,
    /// A folder of `scripts/toolchain` for the compiler's `-B`; `None` for the machine's own GNU ld.
    folder: Option<&'static str>,
    /// Further compiler arguments that select it.
    choose: &'static [&'static str],
    dialect: &'static str,
    /// The compiler argument that passes the order in `order.txt`.
    hand_over: &'static str,
}

const LINKERS: &[TestedLinker] = &[
    TestedLinker {
        name: "gnu_ld_by_script",
        folder: None,
        choose: &["-fuse-ld=bfd"],
        dialect: "gnu-ld-script",
        hand_over: "-Wl,-T,order.txt",
    },
    TestedLinker {
        name: "gnu_ld_2_44",
        folder: Some("gnu-ld-2.44"),
        choose: &[],
        dialect: "gnu-ld",
        hand_over: "-Wl,--section-ordering-file,order.txt",
    },
    TestedLinker {
        name: "lld",
        folder: Some("lld"),
        choose: &["-fuse-ld=lld"],
        dialect: "lld",
        hand_over: "-Wl,--symbol-ordering-file=order.txt",
    },
];

/// Functions in the hot path, every tenth of [`FUNCTIONS`].
const HOT: usize = 12;
const FUNCTIONS: usize = 120;

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases: Vec<Trial> = Vec::new();
    for linker in LINKERS {
        let mut needs = vec![Need::Program("cc"), Need::Program("valgrind"), Need::Program("nm")];
        needs.extend(linker.folder.map(Need::LinkerFolder));
        cases.push(case(&format!("the_whole_line_with_{}", linker.name), &needs, move || {
            the_whole_line(*linker)
        }));
    }
    cases.push(case("draw_makes_a_picture", &[Need::Program("dot")], draw_a_picture));
    cases
}

/// A program in which hot functions are ten apart in the source, and are called in another order.
fn source() -> String {
    let mut text = String::from("#include <stdio.h>\nstatic volatile unsigned sink;\n");
    for i in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "__attribute__((noinline, noclone)) unsigned f{i}(unsigned x) {{ for (int i = 0; i < 3; i++) x = x * {} + {i}; sink = x; return x; }}",
            2 * i + 3
        );
    }
    text += "int main(void) {\n  unsigned x = 1;\n  for (int i = 0; i < 1000; i++) {\n";
    for hot in (0..HOT).rev() {
        let _ = writeln!(text, "    x = f{}(x);", hot * 10);
    }
    text += "  }\n  printf(\"%u\\n\", x);\n  return 0;\n}\n";
    text
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().unwrap()
}

fn must(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = run(folder, program, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn sediment(folder: &Path, arguments: &[&str]) -> Output {
    run(folder, env!("CARGO_BIN_EXE_sediment"), arguments)
}

/// The functions f0, f1, … of a linked file by address.
fn placed(folder: &Path, binary: &str) -> Vec<String> {
    must(folder, "nm", &["-n", "--defined-only", binary])
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| name.strip_prefix('f').is_some_and(|rest| rest.parse::<usize>().is_ok()))
        .map(str::to_owned)
        .collect()
}

fn the_whole_line(linker: TestedLinker) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.c"), source()).unwrap();
    must(folder, "cc", &["-O2", "-g", "-ffunction-sections", "-c", "t.c", "-o", "t.o"]);
    let place: Option<PathBuf> = linker.folder.map(|name| support::linker_folder(name).unwrap());
    let search = place.map(|path| format!("-B{}", path.display()));
    let link = |output: &str, more: &[&str]| {
        let mut arguments: Vec<&str> =
            search.as_deref().into_iter().chain(linker.choose.iter().copied()).collect();
        arguments.extend(["t.o", "-o", output]);
        arguments.extend(more);
        must(folder, "cc", &arguments);
    };
    link("before", &[]);
    let said = must(folder, "./before", &[]);
    must(
        folder,
        "valgrind",
        &["--tool=callgrind", "--demangle=no", "--callgrind-out-file=cg.out", "./before"],
    );

    for step in [
        &["import", "cg.out", "--binary", "before", "-o", "p.gv"][..],
        &["order", "p.gv", "--binary", "before", "--linker", linker.dialect, "-o", "order.txt"],
        &["order", "p.gv", "--binary", "before", "--linker", "list", "-o", "order.list"],
    ] {
        let output = sediment(folder, step);
        assert!(output.status.success(), "{step:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    link("after", &[linker.hand_over]);

    assert_eq!(must(folder, "./after", &[]), said, "the relinked program says something else");
    let wanted: Vec<String> = std::fs::read_to_string(folder.join("order.list"))
        .unwrap()
        .lines()
        .filter(|name| name.strip_prefix('f').is_some_and(|rest| rest.parse::<usize>().is_ok()))
        .map(str::to_owned)
        .collect();
    assert_eq!(wanted.len(), HOT, "the functions that ran are ordered, and no others: {wanted:?}");
    let after = placed(folder, "after");
    assert_eq!(after.len(), FUNCTIONS, "no function is lost");
    let first = after.iter().position(|name| *name == wanted[0]).unwrap();
    assert_eq!(after[first..first + HOT], wanted[..], "the ordered functions lie side by side, as asked");
    assert_ne!(placed(folder, "before"), after);

    let verify = |binary: &str, threshold: &str| {
        sediment(
            folder,
            &[
                "verify",
                binary,
                "--order",
                "order.txt",
                "--profile",
                "p.gv",
                "--min-coverage",
                threshold,
                "--json",
            ],
        )
    };
    let good = verify("after", "99");
    assert!(
        good.status.success(),
        "{}{}",
        String::from_utf8_lossy(&good.stdout),
        String::from_utf8_lossy(&good.stderr)
    );
    let report: serde_json::Value = serde_json::from_slice(&good.stdout).unwrap();
    assert!(report["weight_placed_percent"].as_f64().unwrap() >= 99.0, "{report:#}");
    let bad = verify("before", "99");
    assert_eq!(
        bad.status.code(),
        Some(5),
        "a link without the order passes: {}",
        String::from_utf8_lossy(&bad.stdout)
    );
}

fn draw_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("p.gv"),
        "digraph Callgraph { \"main\" -> \"work\" [ label = 0.75 ]; \"work\" -> \"leaf\" [ label = 0.25 ]; }\n",
    )
    .unwrap();
    let drawn = sediment(folder.path(), &["draw", "p.gv", "-o", "p.svg"]);
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let picture = std::fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(picture.contains("<svg") && picture.contains("work"), "{picture}");
}
