// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order`: groups for start-up and steady state, several workloads, `--keep`, engines of earlier releases.

use crate::running::{done as out, err, sediment};
use std::fmt::Write;

/// A profile with the functions (name, size, rank of first use) of one program, and its calls.
fn profile(functions: &[(String, u64, Option<u64>)], calls: &[(String, String, u64)]) -> String {
    let total: u64 = calls.iter().map(|(_, _, count)| count).sum();
    let mut text = format!("digraph Callgraph {{\n  graph [sediment=2, unit=calls, total={total}];\n");
    text += "  subgraph cluster0 {\n    graph [label=\"prog\"];\n";
    for (name, size, first) in functions {
        let first = first.map_or_else(String::new, |first| format!(", first={first}"));
        writeln!(text, "    \"{name}\" [size={size}{first}];").unwrap();
    }
    text += "  }\n";
    for (caller, callee, count) in calls {
        writeln!(text, "  \"{caller}\" -> \"{callee}\" [label=0.000000, count={count}];").unwrap();
    }
    text + "}\n"
}

/// Rank of a function of the start.
fn rank(start: u64) -> u64 {
    (59 - start) * 17 % 60
}

/// Twenty jobs of eight functions that call each other all the time; before them, 60 functions ran once each in an
/// order of their own, `start59` first; two never ran.
fn server() -> String {
    let mut functions = vec![("never0".to_owned(), 3000, None), ("never1".to_owned(), 3000, None)];
    let mut calls = Vec::new();
    for start in 0..60u64 {
        functions.push((format!("start{start:02}"), 500, Some(rank(start))));
        if start > 0 {
            calls.push((format!("start{start:02}"), format!("start{:02}", start - 1), 1));
        }
    }
    for job in 0..20u64 {
        for step in 0..8 {
            functions.push((format!("job{job:02}_{step}"), 900, Some(60 + 8 * job + step)));
            let (next, times) = ((step + 1) % 8, 100_000 + 10 * job);
            calls.push((format!("job{job:02}_{step}"), format!("job{job:02}_{next}"), times));
        }
    }
    profile(&functions, &calls)
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn hot_functions_start_up_and_the_never_seen_lie_apart() {
    let folder = folder_with(&[("p.gv", &server())]);
    let made = sediment(folder.path(), &["order", "p.gv", "--linker", "list", "--optimize-for", "both"]);
    let order = out(&made);
    let names: Vec<&str> = order.lines().collect();
    assert_eq!(names.len(), 222);
    assert!(names[..160].iter().all(|name| name.starts_with("job")), "{order}");
    let mut starts: Vec<u64> = (0..60).collect();
    starts.sort_by_key(|start| rank(*start));
    let starts: Vec<String> = starts.iter().map(|start| format!("start{start:02}")).collect();
    assert_eq!(names[160..220], starts, "by first use");
    assert!(names[220..].iter().all(|name| name.starts_with("never")));
    // The result of each choice is printed, and the one that was used.
    let said = err(&made);
    assert_eq!(said.matches("--optimize-for").count(), 3, "{said}");
}

#[test]
fn an_order_for_the_start_alone_begins_with_what_runs_first() {
    let folder = folder_with(&[("p.gv", &server())]);
    let made = sediment(folder.path(), &["order", "p.gv", "--linker", "list", "--optimize-for", "startup"]);
    assert!(out(&made).starts_with("start59\nstart06\n"), "{}", out(&made));
    let pages = |aim: &str| -> u64 {
        let said = err(&made);
        let line =
            said.lines().find(|line| line.contains(&format!("--optimize-for {aim} "))).unwrap().to_owned();
        line.split("pages").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(pages("startup") <= pages("both"), "{}", err(&made));
    let nothing_known = server().replace(", first=", ", samples=");
    std::fs::write(folder.path().join("calls.gv"), nothing_known).unwrap();
    let made = sediment(folder.path(), &["order", "calls.gv", "--linker", "list"]);
    assert!(
        !err(&made).contains("--optimize-for"),
        "no choice where nothing is known of the start: {}",
        err(&made)
    );
    assert!(out(&made).trim_end().ends_with("never0\nnever1"));
}

/// 400 functions, each of which calls the function `apart` positions away: such profiles differ in which functions
/// belong together.
fn paired(apart: u64) -> String {
    let functions: Vec<_> = (0..400u64).map(|f| (format!("f{f:03}"), 1500, None)).collect();
    let calls: Vec<_> =
        (0..400u64).map(|f| (format!("f{f:03}"), format!("f{:03}", (f + apart) % 400), 1000)).collect();
    profile(&functions, &calls)
}

#[test]
fn several_workloads_are_merged_and_each_has_its_own_comparison() {
    let folder = folder_with(&[("a.gv", &paired(1)), ("b.gv", &paired(37))]);
    let both = sediment(folder.path(), &["order", "a.gv", "b.gv", "--linker", "list"]);
    out(&sediment(folder.path(), &["merge", "a.gv", "b.gv", "-o", "m.gv"]));
    assert_eq!(out(&both), out(&sediment(folder.path(), &["order", "m.gv", "--linker", "list"])));
    let changes = |said: &str| -> Vec<f64> {
        let lines = said.lines().filter(|line| line.contains(": -w "));
        lines.map(|line| line.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap()).collect()
    };
    assert_eq!(changes(&err(&both)).len(), 2, "{}", err(&both));
    // A workload with a small weight is underserved, which is reported with the weight that helps it.
    let underserved = ["order", "a.gv", "-w", "0.1", "b.gv", "--linker", "list"];
    let said = err(&sediment(folder.path(), &underserved));
    let fares = changes(&said);
    assert!(fares[0] < 1.0 && fares[1] > 10.0, "{said}");
    assert!(said.contains("With -w "), "{said}");
}

#[test]
fn an_older_order_of_any_linker_stays_where_nothing_is_gained() {
    let folder = folder_with(&[("p.gv", &server()), ("a.gv", &paired(1)), ("b.gv", &paired(37))]);
    for linker in ["gnu-ld", "gnu-ld-script", "lld", "list"] {
        out(&sediment(folder.path(), &["order", "p.gv", "--linker", linker, "-o", "old"]));
        let again =
            sediment(folder.path(), &["order", "p.gv", "--linker", linker, "--keep", "old", "-o", "new"]);
        out(&again);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("old"), read("new"), "{linker}");
        let said = err(&again);
        assert!(
            said.contains("old: moved 0 functions (0 of 180000 bytes,") && said.contains("dropped 0 "),
            "{said}"
        );
    }
    // Reversed within the groups, it is worse, but the difference decides whether anything moves.
    let reversed: String = out(&sediment(folder.path(), &["order", "a.gv", "--linker", "list"]))
        .lines()
        .rev()
        .map(|name| format!("{name}\n"))
        .collect();
    std::fs::write(folder.path().join("reversed"), &reversed).unwrap();
    let kept = |below: &str| {
        let arguments = ["order", "a.gv", "--linker", "list", "--keep", "reversed", "--keep-below", below];
        sediment(folder.path(), &arguments)
    };
    assert_eq!(out(&kept("99")), reversed);
    // Now other pairs belong together: the gain of moving exceeds any threshold.
    let other = ["order", "b.gv", "--linker", "list", "--keep", "reversed"];
    let changed = sediment(folder.path(), &other);
    assert_ne!(out(&changed), reversed);
    assert!(err(&changed).contains(" of 600000 bytes, 95.8 %)"), "{}", err(&changed));
}

#[test]
fn differences_from_the_kept_order_are_reported() {
    let folder = folder_with(&[("p.gv", &server()), ("old", "job01_0\ngone\njob00_0\njob00_1\n")]);
    let arguments = ["order", "p.gv", "--linker", "list", "--keep", "old", "--keep-below", "100"];
    let kept = sediment(folder.path(), &arguments);
    let order = out(&kept);
    let place = |name: &str| order.lines().position(|line| line == name).unwrap();
    assert!(place("job01_0") < place("job00_0") && place("job00_0") < place("job00_1"), "{order}");
    assert_eq!(order.lines().count(), 222);
    let said = err(&kept);
    assert!(said.contains(" added 219 (177300 bytes); dropped 1 "), "{said}");
    std::fs::write(folder.path().join("other"), "alpha\nbeta\n").unwrap();
    let foreign = sediment(folder.path(), &["order", "p.gv", "--linker", "list", "--keep", "other"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(err(&foreign).starts_with("sediment: other: "), "{}", err(&foreign));
    let senseless = ["order", "p.gv", "--linker", "list", "--keep", "old", "--keep-below", "120"];
    assert_eq!(sediment(folder.path(), &senseless).status.code(), Some(2));
}

#[test]
fn the_order_of_an_earlier_release_can_be_had() {
    let near = "  \"job00_0\" -> \"job10_0\" [label=0.000000, near=9000000];\n}\n";
    let knows_pairs = server().trim_end().trim_end_matches('}').to_owned() + near;
    let folder = folder_with(&[("p.gv", &knows_pairs)]);
    let order =
        |more: &[&str]| sediment(folder.path(), &[&["order", "p.gv", "--linker", "list"], more].concat());
    assert_eq!(out(&order(&["--engine", "1"])), out(&order(&["--algorithm", "cdsort"])));
    assert_eq!(out(&order(&["--engine", "3"])), out(&order(&[])), "the present one");
    assert_eq!(
        out(&order(&["--engine", "2"])),
        out(&order(&[])),
        "without a binary, the input order is not known"
    );
    assert_ne!(out(&order(&["--engine", "1"])), out(&order(&[])));
    let unknown = order(&["--engine", "77"]);
    assert_eq!(unknown.status.code(), Some(2));
    for senseless in [["--engine", "1", "--optimize-for", "startup"], ["--engine", "2", "--algorithm", "c3"]]
    {
        assert_eq!(order(&senseless).status.code(), Some(2), "{senseless:?}");
    }
    let help = out(&sediment(folder.path(), &["order", "--help"]));
    assert!(help.contains("Engines:\n"), "{help}");
}

#[test]
fn a_hot_block_is_aligned_where_the_linker_can_be_told() {
    let folder = folder_with(&[("p.gv", &server())]);
    let order = |linker: &str, bytes: &str| {
        sediment(folder.path(), &["order", "p.gv", "--linker", linker, "--align-hot", bytes])
    };
    for linker in ["gnu-ld", "gnu-ld-script"] {
        let made = order(linker, "2M");
        let text = out(&made);
        let (before, behind) = text.split_once(". = ALIGN(0x200000);").unwrap();
        assert!(!before.contains("*(") && behind.trim_start().starts_with("*(.text.job"), "{text}");
        assert!(err(&made).contains("-z,max-page-size=2097152"), "{}", err(&made));
        // It is still an order that can be read.
        std::fs::write(folder.path().join("old"), &text).unwrap();
        let again = ["order", "p.gv", "--linker", linker, "--align-hot", "2M", "--keep", "old"];
        assert_eq!(out(&sediment(folder.path(), &again)), text);
    }
    assert!(!err(&order("gnu-ld", "4K")).contains("max-page-size"));
    for linker in ["lld", "list"] {
        let refused = order(linker, "2M");
        assert_eq!(refused.status.code(), Some(2));
        assert!(err(&refused).contains("gnu-ld-script"), "{}", err(&refused));
    }
    assert_eq!(order("gnu-ld", "3000").status.code(), Some(2));
}

/// Writes to a folder a compiler that prints the linker it calls, and a program that calls another one, like ccache.
fn compilers(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let compiler = "#!/bin/sh\nfor word; do case $word in -fuse-ld=gold) gold=1;; esac; done\n\
                    test \"$gold\" && echo 'GNU gold (GNU Binutils 2.40) 1.16' || echo 'GNU ld (GNU Binutils) 2.40'\n";
    for (name, text) in [("my cc", compiler), ("caches", "#!/bin/sh\nexec \"$@\"\n")] {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The linker is determined from CC and LDFLAGS, split into words like a shell.
#[test]
fn the_compiler_is_asked_for_its_linker() {
    let folder = folder_with(&[("server.gv", &server())]);
    compilers(folder.path());
    let own = folder.path().display();
    let quoted = format!("\"{own}/my cc\"");
    let gold = "--linker gold: GNU gold (GNU Binutils 2.40) 1.16\n";
    let rows = [
        (format!("{own}/caches {quoted}"), "", "--linker gnu-ld-script: GNU ld (GNU Binutils) 2.40\n"),
        (format!("{own}/caches {quoted} -fuse-ld=gold"), "", gold),
        (quoted.clone(), "-Wl,-z,now '-fuse-ld=gold'", gold),
        (quoted.clone(), "-Wl,-z,now '-fuse-ld=gold", gold),
        (format!("{own}/caches no-such-compiler"), "", "/caches no-such-compiler`\n"),
    ];
    for (compiler, flags, told) in rows {
        let arguments = ["order", "server.gv", "--linker", "auto", "-o", "server.order"];
        let mut command = crate::running::command(folder.path(), &arguments);
        let said = err(&command.env("CC", &compiler).env("LDFLAGS", flags).output().unwrap());
        assert!(said.contains(told), "{compiler} {flags}: {said}");
        let is_open = flags.matches('\'').count() == 1;
        assert_eq!(said.contains("warning: LDFLAGS "), is_open, "{flags}: {said}");
    }
}
