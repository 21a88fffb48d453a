// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that Graphviz draws our profiles, and reads DOT as we do.

use libtest_mimic::Trial;
use sediment_core::profile::text::{parse, print};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use support::json::{Json, parse as parse_json};
use support::{Need, case, golden_cases, root};

const DOT: &[Need] = &[Need::Program("dot")];

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases = vec![case("profile::dot_draws_every_profile_we_print", DOT, drawn)];
    for sample in ["every-dot-construct", "strict"] {
        cases.push(case(&format!("profile::dot_reads_as_we_do::{sample}"), DOT, move || read_alike(sample)));
    }
    cases
}

/// Returns the output of `dot` for a file in a format.
fn dot(file: &Path, format: &str) -> String {
    let output = Command::new("dot").arg(format!("-T{format}")).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Error"), "{}: {errors}", file.display());
    String::from_utf8(output.stdout).unwrap()
}

fn drawn() {
    let folder = tempfile::tempdir().unwrap();
    for case in golden_cases("profile") {
        for entry in std::fs::read_dir(&case).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let Ok((profile, _)) = parse(&std::fs::read(&path).unwrap()) else { continue };
            if !name.ends_with(".gv") {
                continue;
            }
            let file = folder.path().join(&name);
            std::fs::write(&file, print(&profile)).unwrap();
            let svg = dot(&file, "svg");
            let drawn = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
            assert_eq!(drawn("node"), profile.function_count(), "{}", path.display());
            assert_eq!(drawn("edge"), profile.edge_count(), "{}", path.display());
            assert!(!svg.contains("<a "), "{}: a link in the drawing", path.display());
        }
    }
}

/// Checks that both read the same nodes, edges and clusters of the sample, with the same attributes.
fn read_alike(sample: &str) {
    let file = root().join("tests/golden/profile").join(sample).join("profile.input.gv");
    let (profile, _) = parse(&std::fs::read(&file).unwrap()).unwrap();
    let graph = parse_json(&dot(&file, "json0"));
    let objects = graph.list("objects");
    let name = |number: f64| objects[number as usize].text("name").unwrap();
    // Names that a profile cannot contain are left out of it.
    let kept = |name: &str| !name.contains('"');
    let number = |text: &str| text.parse::<u128>().unwrap();

    let mut clusters: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let depth = |object: &Json| object.list("subgraphs").len();
    for cluster in objects.iter().filter(|object| object.text("name").unwrap().starts_with("cluster")) {
        let Some(label) = cluster.text("label").filter(|label| !label.is_empty()) else { continue };
        for node in cluster.list("nodes") {
            // An inner cluster contains fewer subgraphs, and the function belongs to the innermost one.
            let found = (depth(cluster), label.replace("\\\\", "\\"));
            let known = clusters.entry(name(node.number())).or_insert_with(|| found.clone());
            if found.0 < known.0 {
                *known = found;
            }
        }
    }
    let theirs: BTreeSet<_> = objects
        .iter()
        .filter(|object| object.text("pos").is_some())
        .map(|node| {
            let name = node.text("name").unwrap();
            let dso = clusters.get(&name).map(|(_, label)| label.clone());
            let value = |attribute: &str| node.text(attribute).filter(|text| !text.is_empty());
            (dso, name, value("size").map(|text| number(&text)), value("first").map(|text| number(&text)))
        })
        .filter(|(_, name, ..)| kept(name))
        .collect();
    let ours: BTreeSet<_> = profile
        .functions()
        .into_iter()
        .map(|function| {
            let (key, facts) = (profile.key(function).clone(), profile.facts(function));
            (key.dso, key.name, facts.size.map(u128::from), facts.first.map(u128::from))
        })
        .collect();
    assert_eq!(ours, theirs);

    let mut theirs: Vec<_> = graph
        .list("edges")
        .iter()
        .map(|edge| {
            let value = |attribute: &str| {
                edge.text(attribute).filter(|text| !text.is_empty()).map(|text| number(&text))
            };
            let end = |which: &str| name(edge.get(which).unwrap().number());
            (end("tail"), end("head"), value("count"), value("near"))
        })
        .collect();
    theirs.sort();
    let mut ours: Vec<_> = profile
        .edges()
        .into_iter()
        .map(|(caller, callee, facts)| {
            let name = |function| profile.key(function).name.clone();
            (name(caller), name(callee), facts.count, facts.affinity)
        })
        .collect();
    ours.sort();
    assert_eq!(ours, theirs);
}
