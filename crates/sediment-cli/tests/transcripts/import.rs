// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment import` with more than one input and output: the parts of a callgrind recording, the order of a run, the
//! trace.

use crate::running::{code, done, err, sediment};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PART: &str = "version: 1\ncreator: callgrind-3.19.0\npositions: line\nevents: Ir\nsummary: 30\n\nob=(1) /usr/bin/tool\n\
                    fn=(1) main\n1 10\ncfn=(2) work\ncalls=9 10\n2 9000\n\nfn=(2)\n10 20\n\ntotals: 30\n";
const EMPTY_PART: &str = "version: 1\ncreator: callgrind-3.19.0\nthread: 2\npositions: line\nevents: Ir\nsummary: 0\n\n\ntotals: 0\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_file_that_callgrind_left_empty_stands_for_those_beside_it() {
    let folder = folder(&[
        ("callgrind.out.7", ""),
        ("callgrind.out.7.2-01", PART),
        ("callgrind.out.7.1-01", PART),
        ("callgrind.out.7-01", PART),
        ("callgrind.out.7-02", EMPTY_PART),
        ("callgrind.out.77", "not one of them"),
        ("callgrind.out.7.old", "nor this"),
        ("callgrind.out.7.3", ""),
    ]);
    let output = sediment(folder.path(), &["-v", "import", "callgrind.out.7"]);
    assert!(done(&output).contains("\"main\" -> \"work\" [label=1.000000, count=27]"), "{output:?}");
    let parts = ["-01", "-02", ".1-01", ".2-01"].map(|part| format!("callgrind.out.7{part}")).join(", ");
    let said = err(&output);
    assert!(said.starts_with("sediment: warning: ") && said.contains(&format!(": {parts}\n")), "{said}");
}

/// As answers of a continuous profiler may be stored: by day, with other files in between.
#[test]
fn a_folder_of_recordings_is_read_file_by_file() {
    let folder = folder(&[("one.folded", "main;work 3\n"), ("notes.bin", "\u{1}\u{2}")]);
    std::fs::create_dir(folder.path().join("day")).unwrap();
    std::fs::write(folder.path().join("day/two.folded"), "main;work 4\nmain;rest 1\n").unwrap();
    let whole = sediment(folder.path(), &["import", "."]);
    let named = sediment(folder.path(), &["import", "one.folded", "day/two.folded"]);
    assert_eq!(done(&whole), done(&named));
    assert!(done(&whole).contains("count=7"), "{whole:?}");
    assert!(err(&whole).starts_with("sediment: warning: skipped 1 file "), "{whole:?}");
}

/// As listed by a shell: including the empty one, and a thread that did nothing.
#[test]
fn parts_without_costs_do_not_stop_the_others() {
    let folder = folder(&[("c.7", ""), ("c.7-01", PART), ("c.7-02", EMPTY_PART), ("c.7.1-01", PART)]);
    let output = sediment(folder.path(), &["-v", "import", "c.7", "c.7-01", "c.7-02", "c.7.1-01"]);
    assert!(done(&output).contains("count=18"), "{output:?}");
    let alone = sediment(folder.path(), &["import", "c.7-02"]);
    assert!(!alone.status.success(), "nothing but an empty part is no profile");
    assert!(err(&alone).starts_with("sediment: c.7-02:9: "), "{alone:?}");
    let both = sediment(folder.path(), &["import", "c.7-02", "c.7-02"]);
    assert!(!both.status.success(), "{both:?}");
}

/// `step` and `leaf` of the program below; it has no other symbols.
fn lackey_log(program: &Path, blocks: &[u64]) -> String {
    let mut log = format!(
        "==7== Lackey, an example Valgrind tool\n--7-- Reading syms from {}\n--7--    svma 0x1000, avma 0x109000\n",
        program.display()
    );
    for block in blocks {
        log += &format!("SB {:08x}\n", 0x10_8000 + block);
    }
    log + "==7== Exit code:       0\n"
}

/// A library with two functions, and their addresses.
fn library(folder: &Path) -> Option<[u64; 2]> {
    let source = "int leaf(int n) { return n + 1; } int step(int n) { return leaf(n) * 2; }";
    std::fs::write(folder.join("library.c"), source).unwrap();
    let mut cc = Command::new("cc");
    cc.args([
        "-O1",
        "-fPIC",
        "-shared",
        "-fno-inline",
        "-fno-semantic-interposition",
        "library.c",
        "-o",
        "library.so",
    ]);
    cc.current_dir(folder).status().ok().filter(std::process::ExitStatus::success)?;
    let nm = Command::new("nm").args(["-D", "library.so"]).current_dir(folder).output().ok()?;
    let text = String::from_utf8(nm.stdout).ok()?;
    let address = |name: &str| {
        let line = text.lines().find(|line| line.ends_with(&format!(" T {name}")))?;
        u64::from_str_radix(line.split(' ').next()?, 16).ok()
    };
    Some([address("step")?, address("leaf")?])
}

#[test]
fn the_order_of_a_run_is_in_the_profile_and_in_the_trace() {
    let folder = folder(&[]);
    let Some([step, leaf]) = library(folder.path()) else {
        return support::skip("cc or nm is missing");
    };
    let log = lackey_log(&folder.path().join("library.so"), &[step, leaf, step + 4, leaf, step + 4]);
    std::fs::write(folder.path().join("log"), log).unwrap();
    std::fs::write(folder.path().join("trace"), "old").unwrap();
    let output = sediment(folder.path(), &["-v", "import", "log", "--trace", "trace"]);
    let profile = done(&output);
    assert!(profile.contains("\"step\" -> \"leaf\" [label=1.000000, count=2, near=2]"), "{profile}");
    assert!(profile.contains("\"leaf\" -> \"step\" [label=0.000000, near=2]"), "{profile}");
    assert!(profile.contains("first=0") && profile.contains("first=1"), "{profile}");
    let trace = folder.path().join("trace");
    let mode = std::fs::metadata(&trace).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a trace is its owner's alone");
    let bytes = std::fs::read(trace).unwrap();
    assert!(bytes.starts_with(b"sediment trace 1\n") && bytes.ends_with(&[0, 5]), "{bytes:?}");
    // Returns to the middle of `step` are not calls.
    let said = err(&output);
    assert!(said.contains(" weight 2\n") && said.contains(" 5 function entries, "), "{said}");
}

/// More data than is kept in memory: 20 MB of stacks.
#[test]
fn pipes_are_read_like_files() {
    let folder = tempfile::tempdir().unwrap();
    let stacks: String = (0..900_000)
        .map(|number| format!("main;work;part_{:03} {}\n", number % 613, 1 + number % 7))
        .collect();
    assert!(stacks.len() > 16 << 20, "{}", stacks.len());
    std::fs::write(folder.path().join("stacks"), &stacks).unwrap();
    let of_file = done(&sediment(folder.path(), &["import", "stacks"]));
    let piped = |settings: &[(&str, &str)]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sediment"));
        program.args(["import", "-"]).current_dir(folder.path()).envs(settings.iter().copied());
        let mut cat = Command::new("cat")
            .arg("stacks")
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = program.stdin(cat.stdout.take().unwrap()).output().unwrap();
        // The pipe must end with its reader.
        drop(program);
        cat.wait().unwrap();
        output
    };
    assert_eq!(done(&piped(&[])), of_file);
    assert!(of_file.contains("\"work\" -> \"part_000\""));
    let nowhere = piped(&[("TMPDIR", "/nonexistent")]);
    assert!(!nowhere.status.success() && nowhere.stdout.is_empty());
    assert!(err(&nowhere).contains("TMPDIR"), "{}", err(&nowhere));
}

/// Counts that are too large for a profile are an error before anything is written, instead of a file that cannot be
/// read again.
#[test]
fn sums_that_no_profile_holds_are_refused() {
    let lines = format!("main;a {}\n", u64::MAX).repeat(20_000);
    let folder = folder(&[("huge.folded", &lines)]);
    let output = sediment(folder.path(), &["-v", "import", "huge.folded", "-o", "p.gv"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("`a`") && err(&output).contains("2^78"), "{}", err(&output));
    assert!(!folder.path().join("p.gv").exists());
}

/// A recording that may be larger than memory must not be read completely only to recognise it; `prlimit` simulates the
/// limit.
#[test]
fn a_large_recording_is_recognised_by_its_beginning() {
    let folder = folder(&[("c.out", PART)]);
    let large = std::fs::OpenOptions::new().append(true).open(folder.path().join("c.out")).unwrap();
    large.set_len(8 << 30).unwrap();
    let output = Command::new("prlimit")
        .args(["--as=2147483648", env!("CARGO_BIN_EXE_sediment"), "import", "--map", "m", "c.out"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).starts_with("sediment: --map "), "{}", err(&output));
}

#[test]
fn options_of_recordings_are_refused_for_graphs_of_units() {
    let folder = folder(&[("unit.ci", "graph: { title: \"unit.c\"\n}\n")]);
    for option in
        [&["--trace", "t"][..], &["--symfs", "."], &["--format", "callgrind"], &["--ignore-build-id"]]
    {
        let output = sediment(folder.path(), &[&["import", "unit.ci"], option].concat());
        assert_eq!(code(&output), 2, "{option:?}");
        assert!(err(&output).starts_with(&format!("sediment: {} ", option[0])), "{}", err(&output));
    }
}
