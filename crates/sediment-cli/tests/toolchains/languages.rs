// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of languages whose runtime expects code in some place: an order never breaks one that worked.

use crate::running::{code, err, out, sediment};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case, linker_folder};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("ocamlopt"), Need::LinkerFolder("lld")];
    vec![case("ocaml_stays_in_its_units", &needs, ocaml_stays_in_its_units)]
}

/// An overflow of the stack in code that the runtime does not find is a crash instead of an exception.
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
    // An order by hand, as it was made before.
    let by_hand: String =
        hot.iter().filter(|name| !name.ends_with("entry")).map(|name| format!("{name}\n")).collect();
    std::fs::write(folder.join("bad.order"), by_hand).unwrap();
    link(folder, "torn", Some("bad.order"));
    let torn = check("torn", "bad.order");
    assert_eq!(code(&torn), 5, "{}", err(&torn));
    assert!(outside(&torn) > 0);
}
