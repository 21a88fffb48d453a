// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions of strangers: their weight is always limited, and they never prevent a merge.

mod support;

use sediment_core::profile::text;
use sediment_core::random::Generator;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use support::{LAYOUT, fleet, merge_alike, merge_of, run};

/// Calls of a profile of the package `web`. The profile's total is the sum of its calls.
fn of_calls(calls: &[(String, String, u64)], graph: &str) -> String {
    let total: u64 = calls.iter().map(|(_, _, count)| count).sum();
    let mut text = format!(
        "digraph {{ graph [sediment=2, unit=calls, total={total}, arch=\"x86_64\", source=\"perf\"{graph}];\n"
    );
    text.push_str("subgraph cluster0 { graph [label=\"web\", build_id=\"aa\", package=\"web-1-1\"];\n");
    for (caller, callee, _) in calls {
        let _ = writeln!(text, "\"{caller}\"; \"{callee}\";");
    }
    text.push_str("}\n");
    for (caller, callee, count) in calls {
        let _ = writeln!(text, "\"{caller}\" -> \"{callee}\" [count={count}];");
    }
    text + "}\n"
}

fn honest(number: u64) -> String {
    let mut random = Generator::new(number);
    let calls: Vec<_> = (0..40)
        .map(|at| (format!("f{at}"), format!("f{}", at + 1), 100_000 - 1000 * at + random.below(900) as u64))
        .collect();
    of_calls(&calls, "")
}

/// Profiles that pass the checks of a submission.
fn attack(random: &mut Generator) -> String {
    let edges = 1 + random.below(200);
    let largest = 10u64.pow(1 + random.below(12) as u32);
    let aimed = random.below(2) == 0;
    let calls: Vec<_> = (0..edges)
        .map(|at| {
            let name = if aimed { "f" } else { "evil" };
            let to = random.below(40);
            (format!("{name}{at}"), format!("{name}{to}"), 1 + random.below(largest as usize) as u64)
        })
        .collect();
    let inputs = 1 + random.below(1_000_000_000);
    of_calls(&calls, &format!(", inputs={inputs}"))
}

fn put(folder: &Path, submitter: &str, name: &str, profile: &str) {
    let inside = folder.join(submitter).join("server/2026-10-01");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join(name), profile).unwrap();
}

fn ingest(dataset: &str, folder: &Path) {
    run(&["ingest", dataset, folder.to_str().unwrap(), "--layout", LAYOUT]);
}

/// Share of each call in all calls.
fn edges(profile: &str) -> BTreeMap<(String, String), f64> {
    let (profile, _) = text::parse(profile.as_bytes()).unwrap();
    let name = |function| profile.key(function).name.clone();
    let shares = profile.edges().into_iter().map(|(caller, callee, facts)| {
        ((name(caller), name(callee)), facts.count.unwrap_or(0) as f64 / profile.total as f64)
    });
    shares.collect()
}

#[test]
fn some_submitters_of_many_move_no_call_by_more_than_their_part() {
    const HONEST: u64 = 18;
    let folder = tempfile::tempdir().unwrap();
    let honest_dataset = folder.path().join("honest").display().to_string();
    for number in 0..HONEST {
        put(&folder.path().join("profiles"), &format!("s{number}"), "0.gv", &honest(number));
    }
    ingest(&honest_dataset, &folder.path().join("profiles"));
    let before = edges(&merge_alike(&honest_dataset, folder.path(), &[]));
    for seed in 0..4u64 {
        let forgers = 1 + seed;
        let mut random = Generator::new(900 + seed);
        let place = folder.path().join(format!("attack{seed}"));
        let dataset = folder.path().join(format!("attacked{seed}")).display().to_string();
        for forger in 0..forgers {
            for sent in 0..1 + random.below(5) {
                put(&place, &format!("forger{forger}"), &format!("{sent}.gv"), &attack(&mut random));
            }
        }
        ingest(&dataset, &folder.path().join("profiles"));
        ingest(&dataset, &place);
        let after = edges(&merge_alike(&dataset, folder.path(), &[]));
        let most = forgers as f64 / (HONEST + forgers) as f64;
        let none = 0.0;
        for call in before.keys().chain(after.keys()) {
            let moved = (after.get(call).unwrap_or(&none) - before.get(call).unwrap_or(&none)).abs();
            assert!(moved <= most + 1e-9, "{call:?} moved by {moved}, more than {most}");
        }
        let sum: f64 = after.values().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        // Caps and weights are applied in addition.
        let ruled = edges(&merge_alike(&dataset, folder.path(), &["--weigh-host-class", "server=0.5"]));
        assert!(ruled.iter().all(|(call, share)| (share - after[call]).abs() < 1e-9));
        let marked = run(&["outliers", &dataset, "--most", "100"]);
        let marked: Vec<bool> = marked.lines().skip(1).map(|line| line.ends_with("outlier")).collect();
        assert_eq!(marked.iter().filter(|is| **is).count() as u64, forgers, "{marked:?}");
    }
}

#[test]
fn forged_claims_are_refused_at_the_door() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset").display().to_string();
    let honest = honest(1);
    for (name, text, reason) in [
        ("total", honest.replacen("total=", "total=1, seed=", 1), "add up to more than total says"),
        (
            "inputs",
            honest.replacen("source=", "inputs=999999999999999999, source=", 1),
            "at most 1000000000 recordings",
        ),
        ("package", honest.replace("web-1-1", &format!("{}-1", "x".repeat(300))), "longer than 120 bytes"),
    ] {
        let file = folder.path().join(format!("{name}.gv"));
        std::fs::write(&file, text).unwrap();
        let output = fleet(&["ingest", &dataset, file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{name}: {said}");
    }
}

/// A package whose name would make a long file name. Every name has its maximum length.
#[test]
fn long_names_are_in_no_name_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset").display().to_string();
    let name = "\u{e9}".repeat(59);
    put(folder.path(), "s", "0.gv", &honest(1).replace("web-1-1", &format!("{name}-1")));
    ingest(&dataset, folder.path());
    assert!(run(&["coverage", &dataset]).contains(&name));
    let merged = merge_of(&dataset, folder.path(), &["--package", &name]);
    assert!(merged.contains("\"f0\""), "{merged}");
}

#[test]
fn what_does_not_fit_is_set_aside_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset").display().to_string();
    let nameless = |build: &str, address: &str| {
        format!(
            "digraph {{ graph [sediment=3, unit=calls, total=9, arch=\"x86_64\"]; subgraph cluster0 {{ graph [label=\"web\", build_id=\"{build}\", \
             unresolved=1, package=\"web-1-1\"]; \"named\"; \"{address}\"; }} \"named\" -> \"{address}\" [count=5]; \"named\" -> \"named\" [count=4]; }}"
        )
    };
    let blocks = |unit: &str, count: u64| {
        format!(
            "digraph {{ graph [sediment=3, unit=calls, total=5, arch=\"x86_64\", blocks_unit={unit}, blocks_total={count}]; subgraph cluster0 {{ \
             graph [label=\"web\", build_id=\"aa\", package=\"web-1-1\"]; \"named\" [blocks=\"8f3a90c1:1={count}\"]; }} \"named\" -> \"named\" [count=5]; }}"
        )
    };
    for (submitter, text) in [
        ("a", nameless("aa", "0x1000")),
        ("b", nameless("aa", "0x1000")),
        ("c", nameless("bb", "0x2000")),
        ("d", blocks("executions", 7)),
        ("e", blocks("executions", 8)),
        ("f", blocks("samples", 9)),
    ] {
        put(&folder.path().join("profiles"), submitter, "0.gv", &text);
    }
    ingest(&dataset, &folder.path().join("profiles"));
    for options in
        [&[][..], &["--by-recordings"], &["--package", "web"], &["--min-submitters", "1", "--cap", "1"]]
    {
        let output = folder.path().join("merged.gv");
        let said = run(&[&["merge", &dataset, "-o", output.to_str().unwrap()], options].concat());
        assert!(said.contains("set aside counts of blocks of 1 submissions"), "{said}");
        assert!(said.contains("set aside functions without names of 1 submissions"), "{said}");
        let merged = std::fs::read_to_string(&output).unwrap();
        assert!(merged.contains("0x1000") && !merged.contains("0x2000"), "{merged}");
        assert!(merged.contains("build_id=\"aa\"") && merged.contains("blocks="), "{merged}");
        text::parse(merged.as_bytes()).unwrap();
    }
}
