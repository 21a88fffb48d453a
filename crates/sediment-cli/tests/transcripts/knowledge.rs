// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about gaps of a profile, missing symbols and symbols of another build.

use crate::running::{done, err, sediment};
use std::path::Path;

/// A callgrind recording in which an object has this part of the cost of 1000.
fn recording(object: &str, cost: u32) -> String {
    format!(
        "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\nevents: Ir\n\nob=/opt/none/{object}\nfn=eval\n1 {cost}\n\
         cob=/lib/libother.so.1\ncfn=help\ncalls=9 1\n1 {rest}\n\nob=/lib/libother.so.1\nfn=help\n1 {rest}\n\ntotals: 1000\n",
        rest = 1000 - cost
    )
}

/// JSON of `show` for a profile.
fn shown(folder: &Path, profile: &str) -> serde_json::Value {
    serde_json::from_str(&done(&sediment(folder, &["show", profile, "--json"]))).unwrap()
}

#[test]
fn import_and_show_say_what_the_source_did_not_see() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("cg.out"), recording("tool", 900)).unwrap();
    done(&sediment(folder, &["import", "cg.out", "-o", "p.gv"]));
    let json = shown(folder, "p.gv");
    assert_eq!(json["not_known"][0]["codes"], serde_json::json!(["time-order", "sizes"]));

    // A source's own statement survives in the file, and each source of a sum keeps its own.
    let stacks = "digraph Callgraph {\n  graph [sediment=2, source=\"perf call stacks (cycles:u) without call counts or time order\", \
        unit=calls, total=5, inputs=1];\n  subgraph cluster0 {\n    graph [label=\"tool\"];\n    \"a\" [size=4];\n    \"b\";\n  }\n  \
        \"a\" -> \"b\" [label=1.000000, count=5];\n}\n";
    std::fs::write(folder.join("stacks.gv"), stacks).unwrap();
    let json = shown(folder, "stacks.gv");
    assert_eq!(json["not_known"][0]["what"][0], "call counts");
    assert_eq!(json["not_known"][0]["codes"], serde_json::json!(["call-counts", "time-order", "own-cost"]));
    assert_eq!(json["interpreter"], serde_json::Value::Null);
    done(&sediment(folder, &["merge", "p.gv", "stacks.gv", "-o", "sum.gv"]));
    let json = shown(folder, "sum.gv");
    assert_eq!(json["not_known"][0]["source"], "perf call stacks (cycles:u)");
    assert_eq!(json["not_known"][0]["codes"], serde_json::json!(["call-counts", "time-order"]));
    let of_all = serde_json::json!({ "source": null, "codes": ["time-order"], "what": ["time order"] });
    assert_eq!(json["not_known"][1], of_all);
}

#[test]
fn a_profile_that_is_mostly_an_interpreter_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (cost, is_most) in [(760, true), (400, false)] {
        std::fs::write(folder.join("cg.out"), recording("python3.11", cost)).unwrap();
        let imported = sediment(folder, &["import", "cg.out", "-o", "p.gv"]);
        assert_eq!(
            err(&imported).contains("warning: 76 % of the weight is in python3.11: "),
            is_most,
            "{imported:?}"
        );
        let runs = &shown(folder, "p.gv")["interpreter"]["runs"];
        assert_eq!(runs.as_str(), is_most.then_some("Python"));
    }
}
