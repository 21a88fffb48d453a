// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order` with a trace, `--explain`, and `sediment predict`.

use crate::running::{done, err, sediment};
use std::fmt::Write;
use std::process::Command;

/// A profile and a trace of a program with four jobs, each with its own functions.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut entries = String::new();
    for round in 0..60 {
        for step in 0..30 {
            writeln!(entries, "job{}_step{step}", round * 7 % 4).unwrap();
        }
    }
    std::fs::write(folder.path().join("entries"), entries).unwrap();
    let imported = ["import", "entries", "--format", "entry-trace", "-o", "p.gv", "--trace", "trace"];
    done(&sediment(folder.path(), &imported));
    folder
}

#[test]
fn an_order_for_a_run_lists_every_function_and_is_the_same_every_time() {
    let folder = recorded();
    let order = ["order", "p.gv", "--trace", "trace", "--linker", "list"];
    let first = sediment(folder.path(), &order);
    assert_eq!(done(&first).lines().count(), 120);
    assert!(err(&first).starts_with("sediment: auto: cdsort "), "{}", err(&first));
    assert_eq!(done(&first), done(&sediment(folder.path(), &order)));
}

#[test]
fn each_of_several_runs_has_its_own_comparison() {
    let folder = recorded();
    let both = ["order", "p.gv", "--trace", "trace", "--trace", "trace", "--linker", "list"];
    let said = err(&sediment(folder.path(), &both));
    assert_eq!(said.matches("-w 1 trace").count(), 2, "{said}");
}

#[test]
fn a_trace_is_for_the_engine_and_of_the_program() {
    let folder = recorded();
    let classic = ["order", "p.gv", "--trace", "trace", "--linker", "list", "--algorithm", "c3"];
    let refused = sediment(folder.path(), &classic);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    std::fs::write(folder.path().join("others"), "alpha\nbeta\n").unwrap();
    let imported = ["import", "others", "--format", "entry-trace", "-o", "other.gv", "--trace", "other"];
    done(&sediment(folder.path(), &imported));
    let foreign = sediment(folder.path(), &["order", "p.gv", "--trace", "other", "--linker", "list"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(err(&foreign).starts_with("sediment: other: "), "{}", err(&foreign));
}

#[test]
fn callers_beyond_the_heaviest_are_summed_up() {
    let folder = recorded();
    let explained = ["order", "p.gv", "--linker", "list", "--explain", "job1_step3"];
    let said = err(&sediment(folder.path(), &explained));
    assert_eq!(said.matches(" 4 more, 60 times\n").count(), 2, "{said}");
}

#[test]
fn orders_for_starts_go_by_first_uses() {
    let folder = recorded();
    let order = |arguments: &[&str]| {
        let all = [&["order", "--linker", "list"], arguments].concat();
        sediment(folder.path(), &all)
    };
    let first: Vec<String> =
        done(&order(&["p.gv", "--algorithm", "first-use"])).lines().map(str::to_owned).collect();
    // Rounds run jobs 0, 3, 2 and 1, each with its steps in order.
    assert_eq!(
        [&first[0], &first[1], &first[30], &first[119]],
        ["job0_step0", "job0_step1", "job3_step0", "job1_step29"]
    );
    for name in ["first-use", "balanced-partitioning"] {
        let by_profile = done(&order(&["p.gv", "--algorithm", name]));
        assert_eq!(by_profile.lines().count(), 120, "{name}");
        let by_run = done(&order(&["p.gv", "--algorithm", name, "--trace", "trace"]));
        assert_eq!(by_run, by_profile, "{name}: the run's first uses are the profile's");
    }
    // One more start, which uses only one job.
    std::fs::write(folder.path().join("few"), "job1_step3\njob1_step2\n").unwrap();
    done(&sediment(folder.path(), &["import", "few", "--format", "entry-trace", "-o", "few.gv"]));
    let two = done(&order(&["p.gv", "--algorithm", "first-use", "--start", "few.gv"]));
    assert_eq!(two.lines().take(2).collect::<Vec<_>>(), ["job0_step0", "job1_step3"]);
    let refused = order(&["p.gv", "--start", "few.gv"]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
}

#[test]
fn an_order_for_starts_needs_a_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.gv"), "digraph { a -> b [label=0.5]; }").unwrap();
    let order = ["order", "p.gv", "--linker", "list", "--algorithm", "balanced-partitioning"];
    let failed = sediment(folder.path(), &order);
    assert_eq!(failed.status.code(), Some(1));
    assert!(err(&failed).contains("record --startup"), "{}", err(&failed));
    let predicted = done(&sediment(folder.path(), &["predict", "p.gv", "--full"]));
    assert!(!predicted.contains("first-use"), "{predicted}");
}

#[test]
fn functions_of_equal_bytes_are_put_together() {
    let folder = tempfile::tempdir().unwrap();
    // Two kinds of functions, alternately; only their bytes distinguish them.
    let mut source = String::from("volatile int sink;\n");
    for id in 0..24 {
        let body = if id % 2 == 0 {
            "sink = sink * 77 + 12345; sink ^= 54321;"
        } else {
            "sink = 7 / (sink | 1); sink -= 9999;"
        };
        writeln!(source, "void f{id}(void) {{ {body} }}").unwrap();
    }
    source.push_str("int main(void) { return 0; }\n");
    std::fs::write(folder.path().join("program.c"), source).unwrap();
    let compiled =
        Command::new("cc").args(["-O1", "program.c", "-o", "program"]).current_dir(folder.path()).status();
    assert!(compiled.unwrap().success());
    let nodes: String = (0..24).map(|id| format!("f{id}; ")).collect();
    let profile = format!(
        "digraph {{ subgraph cluster0 {{ graph [label=\"program\"]; {nodes} }} f0 -> f1 [label=0.5]; }}"
    );
    std::fs::write(folder.path().join("p.gv"), profile).unwrap();
    let order = [
        "order",
        "p.gv",
        "--linker",
        "list",
        "--binary",
        "program",
        "--algorithm",
        "balanced-partitioning",
        "--compress",
    ];
    let listed = done(&sediment(folder.path(), &order));
    let kinds: Vec<u32> =
        listed.lines().map(|name| name.strip_prefix('f').unwrap().parse::<u32>().unwrap() % 2).collect();
    assert_eq!(kinds.len(), 24);
    // f0 and f1 ran: they come before the others.
    assert!(kinds[2..].windows(2).filter(|pair| pair[0] != pair[1]).count() <= 3, "{listed}");
}

#[test]
fn settings_of_cdsort() {
    let folder = recorded();
    let order = |setting: &str| {
        sediment(
            folder.path(),
            &["order", "p.gv", "--linker", "list", "--algorithm", "cdsort", "--cdsort", setting],
        )
    };
    let usual =
        done(&sediment(folder.path(), &["order", "p.gv", "--linker", "list", "--algorithm", "cdsort"]));
    assert_eq!(done(&order("longest-chain=128")), usual);
    assert_ne!(done(&order("longest-chain=2")), usual);
    for wrong in ["longest-chain", "longest-chain=0", "distance-power=0.3", "frequency-scale=-1", "width=3"] {
        assert_eq!(order(wrong).status.code(), Some(2), "{wrong}");
    }
    let of_another =
        ["order", "p.gv", "--linker", "list", "--algorithm", "c3", "--cdsort", "longest-chain=9"];
    assert_eq!(sediment(folder.path(), &of_another).status.code(), Some(2));
}

#[test]
fn a_full_prediction_has_every_score() {
    let folder = recorded();
    for extra in [&["--trace", "trace"][..], &[]] {
        let arguments = [&["predict", "p.gv", "--full", "--core", "zen3", "--no-engine"], extra].concat();
        let full = done(&sediment(folder.path(), &arguments));
        // Fetched lines of code, counted over the trace; calls alone do not show them.
        let is_traced = |line: &str| line.starts_with("cdsort ") && line.ends_with(" 240");
        assert_eq!(full.lines().any(is_traced), !extra.is_empty(), "{full}");
        assert_eq!(full.lines().filter(|line| line.starts_with("first-use ")).count(), 5, "{full}");
    }
    let unknown = sediment(folder.path(), &["predict", "p.gv", "--full", "--core", "8086"]);
    assert_eq!(unknown.status.code(), Some(2));
    let json = done(&sediment(folder.path(), &["predict", "p.gv", "--json", "--no-engine"]));
    for key in ["nearness", "page_bytes", "page_walks", "l1i_misses", "faults_with_fault_around", "area"] {
        assert!(json.contains(&format!("\"{key}\"")), "{key}: {json}");
    }
}

#[test]
fn a_prediction_ranks_every_order_and_says_when_nothing_is_to_gain() {
    let folder = recorded();
    let counted = done(&sediment(folder.path(), &["predict", "p.gv", "--trace", "trace"]));
    for name in ["auto", "cdsort", "c3", "pettis-hansen", "original", "input", "random 1"] {
        assert!(counted.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {counted}");
    }
    let first_touches = " at 64 entries: 100.0 % ";
    assert!(counted.contains(first_touches), "{counted}");
    let estimated = done(&sediment(folder.path(), &["predict", "p.gv"]));
    assert!(estimated.contains("\nauto ") && !estimated.contains(first_touches), "{estimated}");
    let without = done(&sediment(folder.path(), &["predict", "p.gv", "--skip-auto"]));
    assert!(without.contains("\ncdsort ") && !without.contains("\nauto "), "{without}");
    let json = done(&sediment(folder.path(), &["predict", "p.gv", "--json"]));
    assert!(json.contains("\"order\"") && json.contains("\"itlb_misses\""), "{json}");
}

/// Compiles `program` with 800 functions of a kilobyte each, `f0` to `f799`, and a main that calls none.
fn compile_functions_of_a_kilobyte(folder: &std::path::Path) {
    let mut source = String::from("volatile int sink;\n");
    for id in 0..800 {
        writeln!(source, "void f{id}(void) {{ sink = {id}; __asm__ volatile (\".skip 1000, 0x90\"); }}")
            .unwrap();
    }
    source.push_str("int main(void) { return 0; }\n");
    std::fs::write(folder.join("program.c"), source).unwrap();
    let compiled =
        Command::new("cc").args(["-O1", "program.c", "-o", "program"]).current_dir(folder).status();
    assert!(compiled.unwrap().success());
}

#[test]
fn recordings_are_left_out_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    compile_functions_of_a_kilobyte(folder.path());
    // Two recordings with different functions: the order from one is worse for the other.
    let nodes: String = (0..800).map(|id| format!("f{id}; ")).collect();
    for (name, rest) in [("one.gv", 0), ("other.gv", 4)] {
        let calls = (0..800).filter(|id| id % 8 == rest);
        let calls: String = calls.map(|id| format!("main -> f{id} [label=0.01, count=1000];\n")).collect();
        let profile =
            format!("digraph {{ subgraph cluster0 {{ graph [label=\"program\"]; main; {nodes} }} {calls} }}");
        std::fs::write(folder.path().join(name), profile).unwrap();
    }
    let gain = |profiles: &[&str]| {
        let options = ["--binary", "program", "--linker", "list", "-o", "some.order", "--json"];
        let json = done(&sediment(folder.path(), &[&["order"], profiles, &options].concat()));
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["gain"].clone()
    };
    assert!(gain(&["one.gv"])["left_out_change_percent"].is_null());
    let percent = |gain: &serde_json::Value, key: &str| gain[key].as_f64().unwrap();
    let [recorded, left_out] = ["itlb_misses_change_percent", "left_out_change_percent"];
    let same = gain(&["one.gv", "one.gv"]);
    assert!((percent(&same, recorded) - percent(&same, left_out)).abs() < 3.0, "{same}");
    let other = gain(&["one.gv", "other.gv"]);
    assert!(percent(&other, recorded) < percent(&other, left_out) - 10.0, "{other}");
}

#[test]
fn a_program_is_predicted_as_it_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    compile_functions_of_a_kilobyte(folder.path());
    // Every fourth function is profiled.
    let (mut nodes, mut edges, mut order) = (String::new(), String::new(), String::new());
    for id in (0..800).step_by(4) {
        write!(nodes, "f{id}; ").unwrap();
        writeln!(edges, "main -> f{id} [label=0.005, count=1000];").unwrap();
        writeln!(order, "f{id}").unwrap();
    }
    let profile =
        format!("digraph {{ subgraph cluster0 {{ graph [label=\"program\"]; main; {nodes} }} {edges} }}");
    std::fs::write(folder.path().join("p.gv"), profile).unwrap();
    std::fs::write(folder.path().join("my.order"), order).unwrap();
    let arguments = ["predict", "p.gv", "--binary", "program", "--order", "my.order"];
    let text = done(&sediment(folder.path(), &arguments));
    assert!(text.lines().any(|line| line.starts_with("my.order ")), "{text}");
    let json = done(&sediment(folder.path(), &[&arguments[..], &["--json"]].concat()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (now, after) = (&json["gain"]["now"], &json["gain"]["after"]);
    let pages = |outlook: &serde_json::Value| outlook["hot_pages"].as_u64().unwrap();
    assert_eq!(json["schema"], 1);
    assert!(pages(now) > 190 && pages(after) < 60, "{json}");
    assert_eq!(json["gain"]["nothing_to_gain"], false);
    let rows = json["orders"].as_array().unwrap();
    for name in ["auto", "my.order", "input"] {
        assert!(rows.iter().any(|row| row["order"] == name), "{name}: {json}");
    }
    // Samples without callers give no misses, and so no verdict.
    let sampled = "digraph { graph [source=\"perf samples\"]; subgraph cluster0 { graph [label=\"program\"]; main [samples=100]; } }";
    std::fs::write(folder.path().join("samples.gv"), sampled).unwrap();
    let said = sediment(
        folder.path(),
        &["order", "samples.gv", "--binary", "program", "--linker", "list", "-o", "samples.order"],
    );
    assert_eq!(said.status.code(), Some(0));
    assert!(err(&said).contains("no forecast") && !err(&said).contains("hot code"), "{}", err(&said));
    let text = done(&sediment(folder.path(), &["predict", "samples.gv", "--binary", "program"]));
    assert!(text.starts_with("no forecast") && !text.contains("hot code"), "{text}");
    // A file with the name of an algorithm is a file.
    std::fs::copy(folder.path().join("my.order"), folder.path().join("input")).unwrap();
    let named = ["predict", "p.gv", "--binary", "program", "--order", "input", "--json"];
    let named: serde_json::Value = serde_json::from_str(&done(&sediment(folder.path(), &named))).unwrap();
    let score = |json: &serde_json::Value, name: &str| {
        let rows = json["orders"].as_array().unwrap();
        rows.iter().find(|row| row["order"] == name).unwrap()["itlb_misses"].clone()
    };
    assert_eq!(score(&named, "input"), score(&json, "my.order"), "the file's row comes first");
    assert_ne!(score(&json, "input"), score(&json, "my.order"));
    // `order` prints the same about its own order.
    let ordered = sediment(folder.path(), &["order", "p.gv", "--binary", "program", "--linker", "list"]);
    assert!(ordered.status.success() && err(&ordered).contains("hot code (99 % "), "{}", err(&ordered));
    std::fs::write(folder.path().join("other.order"), "g1\ng2\n").unwrap();
    let foreign =
        sediment(folder.path(), &["predict", "p.gv", "--binary", "program", "--order", "other.order"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(err(&foreign).contains("sediment: other.order: "), "{}", err(&foreign));
}

/// For functions with cold parts, only the executed parts count, which is less code than the whole functions.
#[test]
fn a_split_program_is_predicted_by_its_hot_parts() {
    let folder = tempfile::tempdir().unwrap();
    let (mut source, mut edges) =
        (String::from("void fail(int) __attribute__((cold, noinline));\n"), String::new());
    for id in 0..200 {
        let calls: String = (0..60).map(|number| format!("fail({number} + x); ")).collect();
        writeln!(
            source,
            "__attribute__((noinline)) int f{id}(int x) {{ if (x == {id}) {{ {calls} }} return x + 1; }}"
        )
        .unwrap();
        writeln!(edges, "main -> f{id} [label=0.005, count=1000];").unwrap();
    }
    let called: String = (0..200).map(|id| format!("x += f{id}(x); ")).collect();
    writeln!(source, "void fail(int x) {{ __asm__ volatile(\"\" :: \"r\"(x)); }}").unwrap();
    writeln!(source, "int main(int x, char **words) {{ {called} return x; }}").unwrap();
    std::fs::write(folder.path().join("program.c"), source).unwrap();
    let profile = format!(
        "digraph {{ graph [sediment=2, unit=calls, total=200000]; subgraph cluster0 {{ graph [label=\"program\"]; main; }} {edges} }}"
    );
    let profile = profile.replace(
        "main; }",
        &format!("main; {} }}", (0..200).map(|id| format!("f{id}; ")).collect::<String>()),
    );
    std::fs::write(folder.path().join("p.gv"), profile).unwrap();
    let predicted = |flag: &str| {
        let compiled = Command::new("cc")
            .args(["-O2", "-ffunction-sections", flag, "program.c", "-o", "program"])
            .current_dir(folder.path())
            .status();
        assert!(compiled.unwrap().success());
        let symbols = Command::new("nm").arg("program").current_dir(folder.path()).output().unwrap();
        let parts = String::from_utf8(symbols.stdout).unwrap().matches(".cold\n").count();
        let json = done(&sediment(folder.path(), &["predict", "p.gv", "--binary", "program", "--json"]));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let pages = |outlook: &str| json["gain"][outlook]["hot_pages"].as_u64().unwrap();
        (parts, pages("now"), pages("after"))
    };
    let (parts, now, after) = predicted("-fno-reorder-blocks-and-partition");
    assert!(parts == 0 && now > 20 && after > 20, "{parts} {now} {after}");
    let (parts, now, after) = predicted("-freorder-blocks-and-partition");
    assert!(parts == 200 && now < 5 && after < 5, "{parts} {now} {after}");
}
