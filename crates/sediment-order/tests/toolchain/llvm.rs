// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of BOLT, llvm-profdata and clang 19, and lets them read the output of our generators.

use libtest_mimic::Trial;
use sediment_read::read::{AddressId, RecordedAddress, Recording, Spot};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::sample_profile_text::Body;
use support::{Need, case, program, read, root};

pub(crate) fn cases() -> Vec<Trial> {
    let profdata = Need::Program("llvm-profdata-19");
    let bolt = [Need::Program("llvm-bolt-19"), Need::Program("cc")];
    vec![
        case("fdata_of_an_instrumented_program", &bolt, instrumented),
        case("sample_profiles_as_llvm_reads_and_prints_them", &[profdata], sample_profiles),
        case("temporal_traces_of_clang", &[profdata, Need::Program("clang-19")], temporal_traces),
    ]
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Copies the two source files of the goldens of fdata into a folder for one case.
fn sources() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["prog.c", "other.c"] {
        let from = root().join("tests/golden/read/bolt/instrumented").join(name);
        std::fs::copy(from, folder.path().join(name)).unwrap();
    }
    folder
}

fn name(recording: &Recording, id: AddressId) -> String {
    match &recording.addresses()[id.0 as usize] {
        RecordedAddress { spot: Spot::Symbol { name, .. }, .. } => String::from_utf8(name.clone()).unwrap(),
        other => panic!("a place without a name: {other:?}"),
    }
}

fn calls(recording: &Recording) -> BTreeMap<(String, String), u128> {
    let mut calls = BTreeMap::new();
    for (from, to, _, count) in recording.transfers() {
        *calls.entry((name(recording, from), name(recording, to))).or_default() += count;
    }
    calls
}

fn instrumented() {
    let folder = sources();
    let inside = |command: &mut Command| run(command.current_dir(folder.path()));
    let options = ["-O1", "-Wl,--emit-relocs", "-fno-optimize-sibling-calls", "-no-pie", "prog.c", "other.c"];
    inside(Command::new("cc").args(options).args(["-o", "prog"]));
    // BOLT looks for its run-time library next to the folder that it was started from.
    let bolt = program("llvm-bolt-19").unwrap().canonicalize().unwrap();
    let file = format!("--instrumentation-file={}", folder.path().join("profile.fdata").display());
    inside(Command::new(bolt).args(["-instrument", "prog", "-o", "instrumented", &file]));
    inside(&mut Command::new(Path::new("./instrumented")));
    let recording = read(&std::fs::read(folder.path().join("profile.fdata")).unwrap()).unwrap();
    let calls = calls(&recording);
    for (from, to, count) in [
        ("main", "caller", 1),
        ("caller", "leaf", 1000),
        ("main", "by_pointer", 1),
        ("by_pointer", "leaf", 7),
        ("main", "twin_of_other", 1),
        ("main", "twin", 1),
        ("twin_of_other", "twin", 3),
    ] {
        assert_eq!(calls.get(&(from.to_owned(), to.to_owned())), Some(&count), "{from} -> {to}: {calls:#?}");
    }
}

fn sample_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 11u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let bodies: Vec<Body> = (0..40).map(|number| Body::generate(number, 40, 3, &mut next)).collect();
    let forms: [fn(&Body) -> String; 2] = [Body::nested, Body::by_context];
    for form in forms {
        let text: String = bodies.iter().map(form).collect();
        std::fs::write(folder.path().join("ours"), &text).unwrap();
        for encoding in ["--text", "--extbinary"] {
            let mut command = Command::new("llvm-profdata-19");
            command.args(["merge", "--sample", encoding, "ours", "-o", "theirs"]).current_dir(folder.path());
            run(&mut command);
            let theirs = std::fs::read(folder.path().join("theirs")).unwrap();
            if encoding == "--text" {
                let (ours, theirs) = (read(text.as_bytes()).unwrap(), read(&theirs).unwrap());
                assert!(calls(&theirs) == calls(&ours), "llvm-profdata's copy reads otherwise:\n{text}");
                assert_eq!(theirs.total, ours.total);
            } else {
                let error = read(&theirs).unwrap_err();
                assert!(error.hint().unwrap().contains("llvm-profdata merge --sample --text"), "{error:?}");
            }
        }
    }
}

fn temporal_traces() {
    let folder = sources();
    let inside = |program: &str, arguments: &str| {
        run(Command::new(program).args(arguments.split(' ')).current_dir(folder.path()))
    };
    let options = "-O1 -fprofile-generate -mllvm -pgo-temporal-instrumentation prog.c other.c -o prog";
    inside("clang-19", options);
    for number in 0..2 {
        let mut command = Command::new("./prog");
        run(command.env("LLVM_PROFILE_FILE", format!("{number}.profraw")).current_dir(folder.path()));
    }
    inside("llvm-profdata-19", "merge 0.profraw 1.profraw -o runs.profdata");
    let shown = inside("llvm-profdata-19", "show --temporal-profile-traces runs.profdata");
    let text = inside("llvm-profdata-19", "merge --text 0.profraw 1.profraw");
    for bytes in [shown, text] {
        let recording =
            read(&bytes).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&bytes)));
        let mut first: Vec<(u64, String)> =
            recording.first_uses().into_iter().map(|(id, rank)| (rank, name(&recording, id))).collect();
        first.sort();
        let order: Vec<&str> = first.iter().map(|(_, name)| name.as_str()).collect();
        let expected =
            ["main", "cmp", "caller", "leaf", "recurse", "by_pointer", "twin", "twin_of_other", "twin"];
        assert_eq!(order, expected);
        assert_eq!(calls(&recording)[&("main".to_owned(), "cmp".to_owned())], 2);
    }
    for binary in ["0.profraw", "runs.profdata"] {
        let error = read(&std::fs::read(folder.path().join(binary)).unwrap()).unwrap_err();
        assert!(error.hint().unwrap().contains("--temporal-profile-traces"), "{error}");
    }
}
