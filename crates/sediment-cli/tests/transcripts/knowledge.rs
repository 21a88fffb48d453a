// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about gaps of a profile, missing symbols and symbols of another build.

use crate::running::{err, out, sediment};
use support::said::says;

/// A recording by callgrind in which an object makes up so much of the cost of 1000.
fn recording(object: &str, cost: u32) -> String {
    format!(
        "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\nevents: Ir\n\nob=/opt/none/{object}\nfn=eval\n1 {cost}\n\
         cob=/lib/libother.so.1\ncfn=help\ncalls=9 1\n1 {rest}\n\nob=/lib/libother.so.1\nfn=help\n1 {rest}\n\ntotals: 1000\n",
        rest = 1000 - cost
    )
}

#[test]
fn import_and_show_say_what_the_source_did_not_see() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("cg.out"), recording("tool", 900)).unwrap();
    let done = sediment(folder, &["-v", "import", "cg.out", "-o", "p.gv"]);
    says("knowledge/import_and_show_say_what_the_source_did_not_see", err(&done));
    let shown = sediment(folder, &["show", "p.gv"]);
    says("knowledge/import_and_show_say_what_the_source_did_not_see", out(&shown));

    // What a source says of itself goes through the file, and each source of a sum keeps its own.
    let stacks = "digraph Callgraph {\n  graph [sediment=2, source=\"perf call stacks (cycles:u) without call counts or time order\", \
        unit=calls, total=5, inputs=1];\n  subgraph cluster0 {\n    graph [label=\"tool\"];\n    \"a\" [size=4];\n    \"b\";\n  }\n  \
        \"a\" -> \"b\" [label=1.000000, count=5];\n}\n";
    std::fs::write(folder.join("stacks.gv"), stacks).unwrap();
    let shown = out(&sediment(folder, &["show", "stacks.gv"]));
    says("knowledge/import_and_show_say_what_the_source_did_not_see", &shown);
    let merged = sediment(folder, &["merge", "p.gv", "stacks.gv", "-o", "sum.gv"]);
    assert!(merged.status.success(), "{}", err(&merged));
    let shown = out(&sediment(folder, &["show", "sum.gv"]));
    says("knowledge/import_and_show_say_what_the_source_did_not_see", &shown);
    let json: serde_json::Value =
        serde_json::from_slice(&sediment(folder, &["show", "stacks.gv", "--json"]).stdout).unwrap();
    assert_eq!(json["not_known"][0]["what"][0], "call counts");
    assert_eq!(json["not_known"][0]["codes"], serde_json::json!(["call-counts", "time-order", "own-cost"]));
    assert_eq!(json["interpreter"], serde_json::Value::Null);
}

#[test]
fn a_profile_that_is_mostly_an_interpreter_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("cg.out"), recording("python3.11", 760)).unwrap();
    let done = sediment(folder, &["-v", "import", "cg.out", "-o", "p.gv"]);
    says("knowledge/a_profile_that_is_mostly_an_interpreter_says_so", err(&done));
    let shown = out(&sediment(folder, &["show", "p.gv"]));
    says("knowledge/a_profile_that_is_mostly_an_interpreter_says_so", shown);
    let json: serde_json::Value =
        serde_json::from_slice(&sediment(folder, &["show", "p.gv", "--json"]).stdout).unwrap();
    assert_eq!(json["interpreter"]["runs"], "Python");

    std::fs::write(folder.join("cg.out"), recording("python3.11", 400)).unwrap();
    let done = sediment(folder, &["-v", "import", "cg.out", "-o", "p.gv"]);
    says("knowledge/a_profile_that_is_mostly_an_interpreter_says_so", err(&done));
}
