// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program from a user's point of view: its inputs, its outputs on each stream, and its exit codes.

use crate::running::{code, command, err, out, sediment};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A callgrind recording with four functions in two DSOs.
const CALLGRIND: &str = "# callgrind format
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir

ob=(1) /usr/bin/tool
fl=(1) tool.c
fn=(1) main
1 10
cfn=(2) work
calls=900 10
2 9000
cob=(2) /lib/libdeep.so.1
cfi=(2) deep.c
cfn=(3) deep
calls=40 5
3 400

fn=(2) work
10 1800
cfn=(4) leaf
calls=1800 20
11 5400

fn=(4) leaf
20 5400

ob=(2)
fl=(2)
fn=(3)
5 400

totals: 7610
";

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sediment"))
}

fn with_input(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let path = folder.join("standard-input");
    std::fs::write(&path, input).unwrap();
    let input = std::fs::File::open(path).unwrap();
    command(folder, arguments).stdin(input).output().unwrap()
}

/// A folder with `cg.out`, and `p.gv` imported from it.
fn imported() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cg.out"), CALLGRIND).unwrap();
    let done = sediment(folder.path(), &["import", "cg.out", "-o", "p.gv"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn import_keeps_counts_and_no_path() {
    let folder = imported();
    let text = read(&folder, "p.gv");
    assert!(text.contains("\"main\" -> \"work\" [label=0.328467, count=900]"), "{text}");
    assert!(text.contains("graph [label=\"libdeep.so.1\"]"), "{text}");
    assert!(!text.contains("/usr/bin") && !text.contains("/lib/"), "{text}");
}

#[test]
fn import_of_several_files_adds_their_counts() {
    let folder = imported();
    let done = sediment(folder.path(), &["import", "cg.out", "cg.out"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert!(out(&done).contains("count=1800]"), "{}", out(&done));
}

#[test]
fn show_tells_people_and_programs() {
    let folder = imported();
    let shown = sediment(folder.path(), &["show", "p.gv"]);
    assert!(out(&shown).contains("work [tool] -> leaf [tool]"), "{}", out(&shown));
    let json: serde_json::Value =
        serde_json::from_slice(&sediment(folder.path(), &["show", "p.gv", "--json"]).stdout).unwrap();
    assert_eq!(json["total"], "2740");
    assert_eq!(json["top_calls"][0]["callee"]["name"], "leaf");
}

/// Version 3: counters of a compiler's instrumentation, and functions of stripped files.
#[test]
fn counters_and_functions_without_names_are_shown_merged_and_split() {
    let folder = tempfile::tempdir().unwrap();
    for case in ["counters", "nameless"] {
        let text = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../tests/golden/profile/{case}/profile.gv"));
        std::fs::copy(text, folder.path().join(format!("{case}.gv"))).unwrap();
        let file = format!("{case}.gv");
        let shown = sediment(folder.path(), &["show", &file, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        let numbers = ["blocks", "counters"].map(|what| json[format!("functions_with_{what}")].as_u64());
        let expected = if case == "counters" { [Some(0), Some(4)] } else { [Some(0), Some(0)] };
        assert_eq!(
            (numbers, json["functions_without_names"].as_u64()),
            (expected, Some(2 * u64::from(case == "nameless")))
        );
    }
    let counters = |text: &str| text.matches(" c3a91f02.8f3a90c1:").count();
    let merged = |more: &[&str]| {
        let done = sediment(folder.path(), &[&["merge", "counters.gv"], more].concat());
        assert_eq!(code(&done), 0, "{}", err(&done));
        counters(&out(&done))
    };
    assert_eq!([merged(&[]), merged(&["--variants", "1"])], [2, 1]);
    let split = |more: &[&str]| {
        let done = sediment(folder.path(), &[&["split", "counters.gv", "-o", "parts"], more].concat());
        assert_eq!(code(&done), 0, "{}", err(&done));
        counters(&read(&folder, "parts/prog.prof"))
    };
    assert_eq!([split(&[]), split(&["--variants", "1"])], [2, 1]);
    assert_eq!(code(&sediment(folder.path(), &["merge", "--variants", "0", "counters.gv"])), 2);
    let same = sediment(folder.path(), &["diff", "counters.gv", "counters.gv"]);
    assert_eq!(code(&same), 0, "{}", err(&same));
    assert!(out(&same).contains("100.00 %"), "{}", out(&same));
    // With the sums: 9 and 816 in one, 7002 and 816 in the other.
    let text = read(&folder, "counters.gv").replace("0*4 7\"", "0*4 7000\"").replace("=1000]", "=10000]");
    std::fs::write(folder.path().join("other.gv"), text).unwrap();
    let other = sediment(folder.path(), &["diff", "counters.gv", "other.gv"]);
    assert_eq!(code(&other), 0, "{}", err(&other));
    assert!(out(&other).contains("11.52 %"), "{}", out(&other));
    let ordered = sediment(
        folder.path(),
        &["order", "-v", "nameless.gv", "--dso", "libstripped.so.1", "--linker", "list"],
    );
    assert_eq!(out(&ordered), "exported\n", "{}", err(&ordered));
    assert!(err(&ordered).contains("sediment resolve nameless.gv "), "{}", err(&ordered));
}

#[test]
fn order_of_one_program_of_every_program_and_of_none() {
    let folder = imported();
    let tool = sediment(folder.path(), &["order", "p.gv", "--dso", "tool", "--linker", "list"]);
    assert_eq!(out(&tool), "main\nwork\nleaf\n", "{}", err(&tool));
    let every = out(&sediment(folder.path(), &["order", "p.gv", "--linker", "list"]));
    assert_eq!(every.lines().count(), 4, "{every}");
    let none = sediment(folder.path(), &["order", "p.gv", "--dso", "toll", "--linker", "list"]);
    assert_eq!(code(&none), 1);
    assert!(err(&none).contains("libdeep.so.1, tool"), "{}", err(&none));
}

#[test]
fn every_linker_gets_its_own_spelling() {
    let folder = imported();
    let text = |linker: &str| out(&sediment(folder.path(), &["order", "p.gv", "--linker", linker]));
    assert!(text("gnu-ld").contains("  *(.text.work)\n"));
    assert!(text("gnu-ld-script").contains("INSERT BEFORE .text;"));
    assert!(text("lld").lines().any(|line| line == "work"));
    assert!(!text("gnu-ld").contains("*(.text.*)"), "what is not listed is the linker's own affair");
}

#[test]
fn merge_adds_executions_to_samples_by_chosen_weights_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (name, unit, count) in [("exact.gv", "executions", "1=30 2=10"), ("sampled.gv", "samples", "1=3 3=1")]
    {
        let graph = format!("graph [sediment=3, blocks_unit={unit}, blocks_total=40]");
        let text = format!("digraph {{ {graph}; f [blocks=\"00000001:{count}\"]; }}");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for some in [&["exact.gv", "sampled.gv"][..], &["exact.gv", "-w", "1", "sampled.gv"]] {
        let refused = sediment(folder.path(), &[&["merge"], some].concat());
        assert_eq!(code(&refused), 1, "{}", err(&refused));
        assert!(err(&refused).contains("(-w)"), "{}", err(&refused));
    }
    let merged = sediment(folder.path(), &["merge", "-w", "1", "exact.gv", "sampled.gv"]);
    let merged = out(&merged);
    assert!(merged.contains("blocks_unit=samples"), "{merged}");
    assert!(merged.contains("1=825000000000000 2=250000000000000 3=25000000000000"), "{merged}");
}

#[test]
fn merge_weighs_each_file_by_the_last_weight_before_it() {
    let folder = imported();
    let merged = |arguments: &[&str]| {
        let done = sediment(folder.path(), arguments);
        assert_eq!(code(&done), 0, "{}", err(&done));
        out(&done)
    };
    let once = merged(&["merge", "p.gv"]);
    assert!(once.contains("unit=share, total=1000000000000000"), "{once}");
    let quarters = merged(&["merge", "-w", "0.75", "p.gv", "-w", "0.25", "p.gv"]);
    assert!(quarters.contains("total=1000000000000000") && quarters.contains("inputs=2"), "{quarters}");
    let refused = sediment(folder.path(), &["merge", "-w", "-1", "p.gv"]);
    assert_ne!(code(&refused), 0);
    assert!(err(&refused).contains("-1"), "{}", err(&refused));
}

#[test]
fn calls_that_cross_from_one_file_to_another_are_listed() {
    let folder = imported();
    let shown = sediment(folder.path(), &["show", "--cross-dso", "p.gv"]);
    assert_eq!(code(&shown), 0, "{}", err(&shown));
    // 40 of 2,740 calls.
    assert!(
        out(&shown).contains("work -> deep in libdeep.so.1")
            || out(&shown).contains("main -> deep in libdeep.so.1"),
        "{}",
        out(&shown)
    );
    assert!(out(&shown).contains("-Bsymbolic-functions"), "{}", out(&shown));
    let json = sediment(folder.path(), &["show", "--cross-dso", "--json", "p.gv"]);
    let value: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!((value["calls"].as_str(), value["crossing"].as_str()), (Some("2740"), Some("40")));
}

#[test]
fn legacy_commands_by_first_word_and_by_name() {
    let folder = imported();
    let gv = with_input(folder.path(), &["perf2gv"], CALLGRIND.as_bytes());
    assert!(out(&gv).starts_with("digraph Callgraph {"), "{}", err(&gv));
    let order = with_input(folder.path(), &["gv2link"], &gv.stdout);
    assert!(out(&order).contains(".text : {\n") && out(&order).contains("*(.text.leaf)"), "{}", err(&order));

    let link = folder.path().join("gen_profile_merge");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), &link).unwrap();
    let arguments = ["-o", "m.gv", "-w", "0.75", "-f", "p.gv", "--weight", "0.25", "--file", "p.gv", "-d"];
    let merged = Command::new(&link).args(arguments).current_dir(folder.path()).output().unwrap();
    assert_eq!(code(&merged), 0, "{}", err(&merged));
    assert!(
        err(&merged).contains("0.75") && err(&merged).contains("0.25"),
        "-d names the weights: {}",
        err(&merged)
    );
    assert_eq!(
        read(&folder, "m.gv"),
        out(&sediment(folder.path(), &["merge", "-w", "0.75", "p.gv", "-w", "0.25", "p.gv"]))
    );
    let help = Command::new(&link).arg("-h").output().unwrap();
    assert_eq!(code(&help), 0);
    assert!(out(&help).contains("--weight"), "{}", out(&help));
}

#[test]
fn wrong_input_is_an_error_that_names_it_and_leaves_the_output_alone() {
    let folder = imported();
    let junk: Vec<u8> = (0..=255u8).cycle().take(4096).collect();
    let truncated = &CALLGRIND.as_bytes()[..CALLGRIND.find("9000").unwrap() - 2];
    let cases: [(&str, &[u8]); 4] =
        [("empty", b""), ("blank", b" \n\n"), ("junk", &junk), ("truncated", truncated)];
    for (name, content) in cases {
        std::fs::write(folder.path().join(name), content).unwrap();
        std::fs::write(folder.path().join("kept.gv"), "as it was").unwrap();
        let failed = sediment(folder.path(), &["import", name, "-o", "kept.gv"]);
        assert_eq!(code(&failed), 1, "{name}: {}", err(&failed));
        assert!(err(&failed).contains(name), "{name}: {}", err(&failed));
        assert_eq!(read(&folder, "kept.gv"), "as it was", "{name}");
    }
    let left: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".sediment"))
        .collect();
    assert!(left.is_empty(), "temporary files were left: {left:?}");
}

/// Files without a size are read completely, up to a memory limit.
#[test]
fn pipes_are_read_and_what_has_no_end_is_not() {
    let folder = imported();
    let shown = out(&sediment(folder.path(), &["show", "p.gv"]));
    let shell = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", line, "-", env!("CARGO_BIN_EXE_sediment")]).stdin(Stdio::null());
        bash.current_dir(folder.path()).output().unwrap()
    };
    for line in [
        "cat p.gv | \"$1\" show -",
        "cat p.gv | \"$1\" show /dev/stdin",
        "\"$1\" show - <p.gv",
        "\"$1\" show <(cat p.gv)",
    ] {
        let output = shell(line);
        assert!(output.status.success(), "{line}: {}", err(&output));
        let facts = |text: &str| text.split_once(": ").unwrap().1.to_owned();
        assert_eq!(facts(&out(&output)), facts(&shown), "{line}");
    }
    for line in [
        "\"$1\" show /dev/zero",
        "\"$1\" merge p.gv /dev/zero -o out.gv",
        "\"$1\" show - </dev/zero",
        "yes | \"$1\" order --linker gnu-ld --dso tool -",
    ] {
        let output = shell(&format!("ulimit -v 2000000; {line}"));
        assert_eq!(code(&output), 1, "{line}: {}", err(&output));
        assert!(err(&output).contains(" 256 MiB"), "{line}: {}", err(&output));
    }
    assert!(!folder.path().join("out.gv").exists());
}

#[test]
fn usage_errors_have_their_own_code() {
    let folder = imported();
    for arguments in [
        &["order"][..],
        &["import"],
        &["frobnicate"],
        &["order", "p.gv", "--linker", "gld"],
        &["gen_profile_merge", "-w"],
    ] {
        let refused = sediment(folder.path(), arguments);
        assert_eq!(code(&refused), 2, "{arguments:?}: {}", err(&refused));
        assert!(out(&refused).is_empty());
    }
    assert_eq!(code(&sediment(folder.path(), &["--help"])), 0);
    assert_eq!(code(&sediment(folder.path(), &["--version"])), 0);
}

#[test]
fn names_from_a_file_cannot_speak_to_the_terminal() {
    let folder = imported();
    let hostile = CALLGRIND.replace("leaf", "le\u{1b}[31maf").replace("deep", "d\u{202e}eep");
    std::fs::write(folder.path().join("hostile"), hostile).unwrap();
    let done = sediment(folder.path(), &["-v", "import", "hostile", "-o", "h.gv"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    for bytes in [&done.stderr, &sediment(folder.path(), &["show", "h.gv"]).stdout] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn json_stays_json_whatever_the_names() {
    let folder = imported();
    let text = "digraph { graph [sediment=2, total=2]; main -> \"f\u{200b}\u{202e}é\" [count=2]; }";
    std::fs::write(folder.path().join("z.gv"), text).unwrap();
    let shown = sediment(folder.path(), &["show", "--json", "z.gv"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(json["top_calls"][0]["callee"]["name"], "f\u{200b}\u{202e}é");
    assert!(shown.stdout.is_ascii());
}

#[test]
fn demangled_names_are_spoken_of_and_their_orders_read_back() {
    let folder = imported();
    let text =
        "digraph { graph [sediment=2, total=2]; \"a::b(int, char const*)\" -> \"c(long)\" [count=2]; }";
    std::fs::write(folder.path().join("nothing.gv"), text).unwrap();
    let nothing = sediment(folder.path(), &["order", "nothing.gv", "--linker", "lld", "-o", "no.order"]);
    assert!(code(&nothing) == 1 && !folder.path().join("no.order").exists(), "{}", err(&nothing));
    let text = text.replace("total=2]", "total=99]").replace("; }", "; \"c(long)\" -> \"zz\" [count=97]; }");
    std::fs::write(folder.path().join("cpp.gv"), text).unwrap();
    for linker in ["lld", "list", "gnu-ld", "gnu-ld-script"] {
        let ordered = sediment(folder.path(), &["order", "cpp.gv", "--linker", linker, "-o", "cpp.order"]);
        let name = "a::b(int, char const*)";
        assert!(
            err(&ordered).contains(&format!("warning: 2 demangled names, for example {name}: ")),
            "{ordered:?}"
        );
        assert_eq!(code(&ordered), 0);
        let few = ["order", "cpp.gv", "--linker", linker, "-o", "few.order", "--min-coverage", "99"];
        assert_eq!(code(&sediment(folder.path(), &few)), 5, "97 of 99 calls are placed");
        let verified =
            sediment(folder.path(), &["verify", env!("CARGO_BIN_EXE_sediment"), "--order", "cpp.order"]);
        let found = [name, "zz", "c(long)"].iter().any(|name| err(&verified).contains(name));
        assert!(code(&verified) == 1 && found, "{linker}: {}", err(&verified));
    }
}

#[test]
fn output_goes_through_links_and_to_the_stream_that_a_name_means() {
    let folder = imported();
    std::os::unix::fs::symlink("real.gv", folder.path().join("link.gv")).unwrap();
    let merged = sediment(folder.path(), &["merge", "p.gv", "-o", "link.gv"]);
    assert_eq!(code(&merged), 0, "{}", err(&merged));
    assert!(folder.path().join("link.gv").is_symlink() && read(&folder, "real.gv").starts_with("digraph"));
    let streamed = sediment(folder.path(), &["merge", "p.gv", "-o", "/dev/stdout"]);
    assert_eq!(out(&streamed), read(&folder, "real.gv"));
    let nowhere = sediment(folder.path(), &["merge", "p.gv", "-o", "nowhere/x.gv"]);
    assert!(code(&nowhere) == 1 && err(&nowhere).contains("nowhere/x.gv"), "{}", err(&nowhere));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = imported();
    let mut child = program()
        .args(["order", "p.gv", "--linker", "gnu-ld"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn draw_writes_what_dot_would_draw() {
    let folder = imported();
    let drawn = sediment(folder.path(), &["draw", "p.gv", "--edges", "1", "-o", "one.gv"]);
    assert_eq!(code(&drawn), 0, "{}", err(&drawn));
    let text = read(&folder, "one.gv");
    let nodes = text.contains("\"work\" [label=\"work\\n") && text.contains("\"leaf\" [label=\"leaf\\n");
    assert!(nodes && text.contains("\"work\" -> \"leaf\" ") && !text.contains("deep"), "{text}");
    assert_eq!(code(&sediment(folder.path(), &["draw", "p.gv", "-o", "x.exe"])), 2);
}

#[test]
fn orders_that_stand_for_several_runs_are_counted_once_with_their_weight() {
    let folder = TempDir::new().unwrap();
    let traces = "# IR level Instrumentation Flag\n:ir\n:temporal_prof_traces\n1\n1\n3\nmain,work,leaf,\n";
    std::fs::write(folder.path().join("traces"), traces).unwrap();
    let output = sediment(folder.path(), &["import", "traces", "-o", "p.gv", "--trace", "run"]);
    assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    let profile = std::fs::read_to_string(folder.path().join("p.gv")).unwrap();
    assert!(profile.contains("\"main\" -> \"work\" [label=0.000000, near=3]"), "{profile}");
    assert!(profile.contains("\"leaf\" [first=2]"), "{profile}");
    assert!(folder.path().join("run").is_file());
}

#[test]
fn a_trace_of_nothing_is_not_written() {
    let folder = TempDir::new().unwrap();
    let output =
        with_input(folder.path(), &["import", "-", "-o", "p.gv", "--trace", "run"], CALLGRIND.as_bytes());
    assert_eq!(code(&output), 1);
    assert!(!folder.path().join("run").exists() && !folder.path().join("p.gv").exists());
}

#[test]
fn outputs_never_overwrite_inputs() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("in"), CALLGRIND).unwrap();
    for arguments in [
        &["import", "in", "-o", "in"][..],
        &["import", "in", "-o", "./in"],
        &["import", "in", "-o", "p.gv", "--trace", "in"],
        &["import", "in", "-o", "p.gv", "--trace", "p.gv"],
    ] {
        let output = sediment(folder.path(), arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("in")).unwrap(), CALLGRIND);
}
