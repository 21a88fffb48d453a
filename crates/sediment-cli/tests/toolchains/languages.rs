// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in languages whose runtime expects code at certain places: an order never breaks a program that worked.

use crate::running::{code, err, out, sediment};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case, linker_folder};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("ocamlopt"), Need::LinkerFolder("lld")];
    let linkers = [Need::Program("cc"), Need::LinkerFolder("lld")];
    vec![
        case("ocaml_stays_in_its_units", &needs, ocaml_stays_in_its_units),
        case("code_that_relies_on_its_place_stays", &linkers, code_that_relies_on_its_place_stays),
        case(
            "verify_names_code_out_of_its_place",
            &[Need::Program("cc")],
            verify_names_code_out_of_its_place,
        ),
        case("the_wrapper_leaves_code_in_place", &[Need::Program("cc")], the_wrapper_leaves_code_in_place),
    ]
}

/// Compiles a program whose code relies on its place: ranges between labels, functions that run on into others, a
/// section with bounds.
fn compile_fixed(folder: &Path, output: &str, arguments: &[String], wrapper: Option<&Path>) -> String {
    let source = support::root().join("proofs/inputs/languages/program.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-fno-toplevel-reorder", "-ffunction-sections", "-o", output]).arg(source);
    compiler.args(arguments).current_dir(folder).env_remove("COMPILER_PATH").env_remove("PROF_DIR");
    if let Some(wrapper) = wrapper {
        compiler.env("COMPILER_PATH", wrapper).env("PROF_DIR", folder.join("profiles"));
        compiler.env("SEDIMENT_LOG", folder.join("log"));
    }
    let linked = compiler.output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    if output.ends_with(".o") { String::new() } else { out(&run(folder, output)) }
}

const FIXED: [&str; 8] = [
    "fast_begin",
    "fast_add",
    "fast_twice",
    "fall_first",
    "fall_second",
    "marked_begin",
    "marked_square",
    "marked_end",
];

/// A profile of all functions of a program, written to `fixed.gv`.
fn profile_all(folder: &Path, program: &str) {
    let bytes = std::fs::read(folder.join(program)).unwrap();
    let binary = sediment_core::binary::Binary::parse(&bytes, &sediment_core::binary::NoFiles).unwrap();
    let names: Vec<&str> = binary.functions.iter().map(|function| function.name.as_str()).collect();
    let nodes: String = names.iter().map(|name| format!("    \"{name}\";\n")).collect();
    let edges: String = names
        .iter()
        .zip(1..)
        .map(|(name, turn)| format!("  \"plain_one\" -> \"{name}\" [count={}];\n", 1000 - turn))
        .collect();
    let profile = format!(
        "digraph Callgraph {{\n  graph [sediment=2, unit=calls, total=100000];\n  subgraph cluster0 {{\n    graph [label=\"fixed\"];\n{nodes}  }}\n{edges}}}\n"
    );
    std::fs::write(folder.join("fixed.gv"), profile).unwrap();
}

fn code_that_relies_on_its_place_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let expected = compile_fixed(folder, "fixed", &[], None);
    profile_all(folder, "fixed");
    let lld = vec!["-fuse-ld=lld".to_owned(), format!("-B{}", linker_folder("lld").unwrap().display())];
    let order = folder.join("fixed.order").display().to_string();
    for (linker, mut arguments) in [("gnu-ld-script", Vec::new()), ("lld", lld)] {
        arguments.push(match linker {
            "lld" => format!("-Wl,--symbol-ordering-file,{order},--no-warn-symbol-ordering"),
            _ => format!("-Wl,-T,{order}"),
        });
        for seed in 1..=5 {
            let seed = seed.to_string();
            let command =
                ["order", "fixed.gv", "--binary", "fixed", "--linker", linker, "--min-coverage", "0"];
            let random = ["--algorithm", "random", "--seed", &seed, "-o", "fixed.order"];
            let made = sediment(folder, &[&command[..], &random[..]].concat());
            assert_eq!(code(&made), 0, "{}", err(&made));
            let text = std::fs::read_to_string(&order).unwrap();
            assert!(text.contains("plain_two"), "{text}");
            assert!(FIXED.iter().all(|name| !text.contains(name)), "{text}");
            assert_eq!(compile_fixed(folder, "ordered", &arguments, None), expected, "{linker}, seed {seed}");
        }
    }
}

/// A manual order moves a function out of each range, and a function into which another runs on.
fn verify_names_code_out_of_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile_fixed(folder, "fixed.o", &["-c".to_owned()], None);
    let checked = |moved: &[&str]| {
        let sections: String = moved.iter().map(|name| format!("    *(.text.{name})\n")).collect();
        let order = format!("SECTIONS {{\n  .text.sediment : {{\n{sections}  }}\n}} INSERT BEFORE .text;\n");
        std::fs::write(folder.join("by-hand.order"), order).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-o", "moved", "fixed.o", "-Wl,-T,by-hand.order"]).current_dir(folder);
        assert!(compiler.status().unwrap().success());
        let output = sediment(folder, &["verify", "moved", "--order", "by-hand.order", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        (code(&output), json["outside_range"].to_string(), err(&output))
    };
    let (code, outside, said) = checked(&["plain_two", "plain_one"]);
    assert_eq!((code, outside.as_str()), (0, "[]"), "{said}");
    let (code, outside, said) =
        checked(&["plain_two", "fast_add", "plain_one", "marked_square", "fall_second"]);
    assert_eq!((code, outside.as_str()), (5, r#"["fast_add","marked_square","fall_second"]"#), "{said}");
    for part in ["from fast_begin to fast_end", "from marked_begin to marked_end", "fall_first runs on into"]
    {
        assert!(said.contains(part), "{said}");
    }
}

fn the_wrapper_leaves_code_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let expected = compile_fixed(folder, "fixed", &[], None);
    profile_all(folder, "fixed");
    std::fs::create_dir(folder.join("profiles")).unwrap();
    std::fs::rename(folder.join("fixed.gv"), folder.join("profiles/fixed.gv")).unwrap();
    let made = sediment(folder, &["wrapper", "wrapper"]);
    assert_eq!(code(&made), 0, "{}", err(&made));
    assert_eq!(compile_fixed(folder, "fixed", &[], Some(&folder.join("wrapper"))), expected);
    let log = std::fs::read_to_string(folder.join("log/links.jsonl")).unwrap();
    let link: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(link["outcome"], "ordered", "{log}");
    let order = std::fs::read_to_string(link["order"].as_str().unwrap()).unwrap();
    assert!(order.contains("plain_two"), "{order}");
    assert!(FIXED.iter().all(|name| !order.contains(name)), "{order}");
}

/// A stack overflow in code that the runtime cannot find causes a crash instead of an exception.
const PROGRAM: &str = r#"
let[@inline never] f0 x = x * 3 + 1
let[@inline never] pad1 x = Printf.sprintf "%d" x
let[@inline never] rec deep x = if x < 0 then String.length (pad1 x) else f0 x + deep (x+1)
let () = try ignore (deep 0) with Stack_overflow -> print_endline "caught Stack_overflow"
"#;

fn link(folder: &Path, output: &str, order: Option<&str>) {
    let mut options = format!("-fuse-ld=lld -B{}", linker_folder("lld").unwrap().display());
    if let Some(order) = order {
        options += &format!(
            " -Wl,--symbol-ordering-file,{} -Wl,--no-warn-symbol-ordering",
            folder.join(order).display()
        );
    }
    let mut compiler = Command::new("ocamlopt");
    compiler.args(["-function-sections", "-o", output, "so.ml", "-ccopt", &options]).current_dir(folder);
    let linked = compiler.output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
}

fn run(folder: &Path, program: &str) -> Output {
    Command::new(folder.join(program)).output().unwrap()
}

fn ocaml_stays_in_its_units() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("so.ml"), PROGRAM).unwrap();
    link(folder, "so", None);
    assert_eq!(out(&run(folder, "so")), "caught Stack_overflow\n");
    let bytes = std::fs::read(folder.join("so")).unwrap();
    let binary = sediment_core::binary::Binary::parse(&bytes, &sediment_core::binary::NoFiles).unwrap();
    let is_hot = |name: &str| name.starts_with("camlSo__") || name.starts_with("caml_alloc");
    let hot: Vec<&str> =
        binary.functions.iter().filter(|f| !f.untyped && is_hot(&f.name)).map(|f| f.name.as_str()).collect();
    let nodes: String = hot.iter().map(|name| format!("    \"{name}\";\n")).collect();
    let edges: String = hot
        .iter()
        .zip(1..)
        .map(|(name, turn)| format!("  \"main\" -> \"{name}\" [count={}];\n", 1000 - turn))
        .collect();
    let profile = format!(
        "digraph Callgraph {{\n  graph [sediment=2, unit=calls, total=100000];\n  subgraph cluster0 {{\n    graph [label=\"so\"];\n    \"main\";\n{nodes}  }}\n{edges}}}\n"
    );
    std::fs::write(folder.join("so.gv"), profile).unwrap();
    let ordered =
        sediment(folder, &["order", "so.gv", "--binary", "so", "--linker", "lld", "-o", "so.order"]);
    assert_eq!(code(&ordered), 0, "{}", err(&ordered));
    let order = std::fs::read_to_string(folder.join("so.order")).unwrap();
    assert!(order.contains("caml_alloc") && !order.contains("camlSo__"), "{order}");
    link(folder, "ordered", Some("so.order"));
    assert_eq!(out(&run(folder, "ordered")), "caught Stack_overflow\n");
    let check = |program: &str, order: &str| {
        sediment(folder, &["verify", program, "--order", order, "--profile", "so.gv", "--json"])
    };
    let outside = |output: &Output| {
        let json: serde_json::Value = serde_json::from_str(&out(output)).unwrap();
        json["outside_range"].as_array().unwrap().len()
    };
    let sound = check("ordered", "so.order");
    assert_eq!((code(&sound), outside(&sound)), (0, 0), "{}", err(&sound));
    // A manual order, as made before.
    let by_hand: String =
        hot.iter().filter(|name| !name.ends_with("entry")).map(|name| format!("{name}\n")).collect();
    std::fs::write(folder.join("bad.order"), by_hand).unwrap();
    link(folder, "torn", Some("bad.order"));
    let torn = check("torn", "bad.order");
    assert_eq!(code(&torn), 5, "{}", err(&torn));
    assert!(outside(&torn) > 0);
}
