// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions with other names in another build, and local functions with the same name, with and without the wrapper;
//! and debuggers and packagers' tools with ordered programs.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::process::Command;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    vec![
        case("renamed_functions_are_followed", &[gcc], renamed),
        case("renamed_functions_are_followed_by_a_linked_file", &[gcc], || renamed_by_binary("gcc")),
        case(
            "renamed_functions_are_followed_by_a_linked_file_of_aarch64",
            &[Need::Program("aarch64-linux-gnu-gcc")],
            || renamed_by_binary("aarch64-linux-gnu-gcc"),
        ),
        case("an_order_by_a_linked_file_follows_clones_and_separates_same_named_locals", &[gcc], by_binary),
        case("debuggers_find_their_way", &[gcc, Need::Program("gdb"), Need::Program("objcopy")], debuggers),
        case("rust_programs_are_ordered", &[gcc, Need::Program("rustc")], rust),
        case("lld_makes_an_order_of_a_call_graph", &[gcc, Need::LinkerFolder("lld")], call_graph),
    ]
}

fn compile(build: &BuildFolder) {
    let status = Command::new("gcc")
        .current_dir(build.0.path())
        .args(["-O2", "-w", "-g", "-ffunction-sections", "-c", "a.c", "b.c", "main.c"])
        .status();
    assert!(status.unwrap().success());
}

fn renamed() {
    let build = BuildFolder::new();
    // In the profiled version, all_a was called everything_a, and b07 had a name without any similarity.
    let text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
    let text = text.replace("\"all_a\"", "\"everything_a\"").replace("\"b07\"", "\"strange\"");
    let text = text.replace("\"everything_a\" -> \"all_a\"", "\"main\" -> \"everything_a\"");
    std::fs::write(build.path("profiles/prog.prof"), text).unwrap();
    let output = build.link_prog();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let last = build.last();
    assert_eq!(last["renamed"], serde_json::json!([["everything_a", "all_a"]]), "{last}");
    let coverage = last["coverage_percent"].as_f64().unwrap();
    assert!((80.0..95.0).contains(&coverage), "{coverage}");
    let order = std::fs::read_to_string(last["order"].as_str().unwrap()).unwrap();
    assert!(order.contains("*(.text.all_a)") && !order.contains("b07"), "{order}");
    let verified = sediment(&build, &["verify", "--log", "log"]);
    let text = String::from_utf8_lossy(&verified.stdout);
    assert!(text.contains("; 1 renamed\n"), "{text}");
}

/// The same with the code of a linked file, with and without debug information; reported to `order` and to `verify`.
fn renamed_by_binary(compiler: &str) {
    let build = BuildFolder::new();
    let text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
    let text = text.replace("\"all_a\"", "\"everything_a\"").replace("\"b07\"", "\"strange\"");
    let text = text.replace("\"everything_a\" -> \"everything_a\"", "\"main\" -> \"everything_a\"");
    std::fs::write(build.path("prog.gv"), text).unwrap();
    let compile = |more: &[&str], output: &str| {
        let compiled = Command::new(compiler)
            .current_dir(build.0.path())
            .args(["-O2", "-w", "-ffunction-sections", "-fuse-ld=bfd", "a.c", "b.c", "main.c", "-o", output])
            .args(more)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", said(&compiled));
    };
    let followed = ": everything_a is all_a\n";
    for (debug, name) in [(&["-g"][..], "with"), (&[], "without")] {
        compile(debug, name);
        let arguments =
            ["order", "-v", "prog.gv", "--binary", name, "--linker", "gnu-ld-script", "-o", "order"];
        let ordered = sediment(&build, &arguments);
        assert!(ordered.status.success() && said(&ordered).contains(followed), "{}", said(&ordered));
        let order = std::fs::read_to_string(build.path("order")).unwrap();
        assert!(order.contains("*(.text.all_a)") && !order.contains("b07"), "{order}");
        compile(&[debug, &["-Wl,-T,order"]].concat(), "prog");
        let verified =
            sediment(&build, &["verify", "prog", "--order", "order", "--profile", "prog.gv", "--json"]);
        assert!(said(&verified).contains(followed), "{}", said(&verified));
        let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
        let missing: Vec<&str> = report["misplaced"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|function| function["weight"] != "0")
            .map(|function| function["name"].as_str().unwrap())
            .collect();
        // Functions with the same name are placed together here, so one of the two may be out of order.
        let missing: Vec<&str> = missing.into_iter().filter(|name| *name != "twin").collect();
        assert_eq!(missing, ["strange"], "{report}");
    }
    // A stripped file has no functions that could match.
    compile(&["-s"], "stripped");
    let arguments = ["order", "prog.gv", "--binary", "stripped", "--linker", "gnu-ld-script", "-o", "order"];
    assert!(!said(&sediment(&build, &arguments)).contains("followed"));
}

fn by_binary() {
    let build = BuildFolder::new();
    compile(&build);
    let link = |order: &[&str], output: &str| {
        let linked = Command::new("gcc")
            .current_dir(build.0.path())
            .args(["-fuse-ld=bfd", "a.o", "b.o", "main.o", "-o", output])
            .args(order)
            .output()
            .unwrap();
        assert!(linked.status.success(), "{}", said(&linked));
    };
    link(&[], "stock");
    let text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
    std::fs::write(build.path("prog.gv"), text.replace("\"a07\"", "\"a07.constprop.3\"")).unwrap();
    let arguments = ["order", "prog.gv", "--binary", "stock", "--linker", "gnu-ld-script", "-o", "order"];
    let ordered = sediment(&build, &arguments);
    assert!(ordered.status.success(), "{}", said(&ordered));
    let order = std::fs::read_to_string(build.path("order")).unwrap();
    assert!(order.contains("*(.text.a07)") && !order.contains("constprop"), "{order}");
    assert!(order.contains("\"[a].o\"(.text.twin)") && order.contains("\"[b].o\"(.text.twin)"), "{order}");
    link(&["-Wl,-T,order"], "prog");
    let verified =
        sediment(&build, &["verify", "prog", "--order", "order", "--profile", "prog.gv", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert!(report["weight_placed_percent"].as_f64().unwrap() >= 99.0, "{report}");
}

fn debuggers() {
    let build = BuildFolder::new();
    compile(&build);
    let linked = build.compiler("gcc").args(["-g", "a.o", "b.o", "main.o", "-o", "prog"]).output().unwrap();
    assert!(linked.status.success(), "{}", said(&linked));
    assert_eq!(build.last()["outcome"], "ordered");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).current_dir(build.0.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output)
    };
    // As in packages with separate debug information.
    std::fs::copy(build.path("prog"), build.path("stripped")).unwrap();
    run("objcopy", &["--only-keep-debug", "prog", "stripped.debug"]);
    run("strip", &["--strip-all", "stripped"]);
    run("objcopy", &["--add-gnu-debuglink=stripped.debug", "stripped"]);
    let source = crate::build::source('b');
    let line = source.lines().position(|line| line.starts_with("FN int all_b")).unwrap() + 2;
    for program in ["prog", "stripped"] {
        let by_name = [
            "-nx",
            "-batch",
            "-ex",
            "handle SIGCONT nostop",
            "-ex",
            "break b07",
            "-ex",
            "run",
            "-ex",
            "bt",
            program,
        ];
        let said = run("gdb", &by_name);
        let frames = ["#0  b07", "#1  0x", "in all_b", "in main"];
        assert!(frames.iter().all(|frame| said.contains(frame)), "{program}: {said}");
        let place = format!("break b.c:{line}");
        let by_line = [
            "-nx",
            "-batch",
            "-ex",
            "handle SIGCONT nostop",
            "-ex",
            &place,
            "-ex",
            "run",
            "-ex",
            "bt 1",
            program,
        ];
        let said = run("gdb", &by_line);
        assert!(said.contains("all_b") && said.contains(&format!("b.c:{line}")), "{program}: {said}");
    }
}

fn call_graph() {
    let build = BuildFolder::new();
    compile(&build);
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    let link = |more: &[&str], output: &str| {
        let linked = Command::new("gcc")
            .current_dir(build.0.path())
            .args([&lld, "-fuse-ld=lld", "a.o", "b.o", "main.o", "-o", output])
            .args(more)
            .output()
            .unwrap();
        assert!(linked.status.success() && linked.stderr.is_empty(), "{}", said(&linked));
        build.runs(output);
        std::fs::read(build.path(output)).unwrap()
    };
    let stock = link(&[], "stock");
    let arguments =
        ["order", "profiles/prog.prof", "--binary", "stock", "--linker", "lld-call-graph", "-o", "graph"];
    let written = sediment(&build, &arguments);
    assert!(written.status.success(), "{}", said(&written));
    let graph = std::fs::read_to_string(build.path("graph")).unwrap();
    assert!(graph.lines().any(|line| line == "all_b b07 201"), "{graph}");
    let given = ["-Wl,--call-graph-ordering-file,graph", "-Wl,--no-warn-symbol-ordering"];
    assert!(link(&given, "by_graph") != stock, "lld did not take the calls into account");
}

/// Names of the profile's functions in Rust, except local ones.
fn rust() {
    let build = BuildFolder::new();
    let mut text = "use std::hint::black_box;\n".to_owned();
    let mut calls = [String::new(), String::new()];
    for (name, _, _) in crate::build::hot() {
        if name.len() == 3 {
            let body = format!(
                "fn {name}(x: i32) -> i32 {{ black_box(x) * {} + 1 }}",
                name.bytes().map(i32::from).sum::<i32>()
            );
            text += &format!("#[unsafe(no_mangle)]\n#[inline(never)]\nextern \"C\" {body}\n");
            calls[usize::from(name.starts_with('b'))] += &format!(" + {name}(x)");
        }
    }
    for (letter, calls) in ["a", "b"].iter().zip(calls) {
        let body = format!("fn all_{letter}(x: i32) -> i32 {{ x{calls} }}");
        text += &format!("#[unsafe(no_mangle)]\n#[inline(never)]\nextern \"C\" {body}\n");
    }
    text += "fn main() { black_box(all_b(all_a(1) & 255)); }\n";
    std::fs::write(build.path("prog.rs"), text).unwrap();
    let compile = |more: &[&str]| {
        let folder = format!("-Clink-arg=-B{}", build.path("wrapper").display());
        Command::new("rustc")
            .current_dir(build.0.path())
            .env("PROF_DIR", build.path("profiles"))
            .env("SEDIMENT_LOG", build.path("log"))
            .args(["-O", "--edition", "2024", "prog.rs", &folder])
            .args(more)
            .output()
            .unwrap()
    };
    // rustc uses its own linker on some machines, unless an option says otherwise; older versions do not, and do not
    // support the option.
    let own = compile(&["-Clinker-features=-lld"]);
    let output = if own.status.success() { own } else { compile(&[]) };
    assert!(output.status.success(), "{}", said(&output));
    build.runs("prog");
    let last = build.last();
    assert_eq!(last["outcome"], "ordered", "{last}");
    // All functions that it has; the profile has two more local ones.
    assert!(build.placed() >= 85.0, "{} %, {last}", build.placed());
}
