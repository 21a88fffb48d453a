// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the advice on inlining, for programs made by a real compiler and profiles with known counts.

use libtest_mimic::Trial;
use sediment_core::binary::source_lines::SourceLines;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::advise::compiler_notes::CompilerNotes;
use sediment_order::advise::inline::{
    Advice, AdvisedProgram, InlineCandidate, InlineThresholds, Obstacle, advise,
};
use std::path::Path;
use std::process::Command;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    vec![
        case("advise: obstacles, places and the compiler's reasons", &[Need::Program("gcc")], program),
        case("advise: a library's exported functions are replaceable", &[Need::Program("gcc")], library),
        case("advise: link-time optimisation joins units", &[Need::Program("gcc")], joined_units),
    ]
}

const MAIN: &str = "#include <stdio.h>
int apart(int);
__attribute__((noinline)) static int near_by(int x) { return x * 3 + 1; }
__attribute__((noinline)) static int taken(int x) { return (x * 1234567) ^ (x % 89); }
__attribute__((noinline)) static int aimed_at(int x) { return x * 7 + 1; }
__attribute__((noinline)) static int again(int x) { return x < 2 ? 1 : again(x - 2) + apart(x); }
int (*table[])(int) = { taken, aimed_at };
int main(int count, char **words) {
  int sum = apart(count);
  sum += near_by(count);
  sum += taken(count);
  sum += again(count);
  sum += table[count & 1](count);
  return printf(\"%d %s\\n\", sum, words[0]) == 0;
}
";
const APART: &str = "int apart(int x) { return x ^ 5; }\n";

/// Compiles the files with gcc, and returns its output.
fn compile(folder: &Path, files: &[(&str, &str)], output: &str, options: &[&str]) -> String {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let done = Command::new("gcc")
        .args(["-O2", "-g", "-fopt-info-inline-missed", "-o", output])
        .args(options)
        .args(files.iter().map(|(name, _)| name))
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    said
}

/// Makes a profile with these calls, from a run of a million instructions.
fn profile(dso: &str, calls: &[(&str, &str, u128)]) -> Profile {
    let mut profile = Profile::default();
    profile.source.insert("valgrind callgrind (Ir)".to_owned());
    let function = |profile: &mut Profile, name: &str| {
        let dso = if name == "printf" { "libc.so.6" } else { dso };
        let key = FunctionKey::new(Some(dso.as_bytes()), name.as_bytes(), None).unwrap();
        profile.function(key)
    };
    for (caller, callee, count) in calls {
        let (caller, callee) = (function(&mut profile, caller), function(&mut profile, callee));
        profile.edge_mut(caller, callee).count = Some(*count);
        profile.facts_mut(caller).samples = Some(0);
    }
    let main = function(&mut profile, calls[0].0);
    profile.facts_mut(main).samples = Some(1_000_000);
    profile
}

fn advice(folder: &Path, file: &str, profile: &Profile, said: &str) -> Advice {
    let bytes = std::fs::read(folder.join(file)).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let lines = SourceLines::read(&bytes, &NoFiles).unwrap();
    let notes = CompilerNotes::find(said);
    let program = AdvisedProgram {
        bytes: &bytes,
        binary: &binary,
        file_name: file,
        lines: lines.as_ref(),
        notes: &notes,
    };
    advise(profile, &program, &InlineThresholds::default()).unwrap()
}

fn of<'a>(list: &'a [InlineCandidate], caller: &str, callee: &str) -> &'a InlineCandidate {
    list.iter().find(|c| c.caller.name == caller && c.callee.name == callee).unwrap_or_else(|| {
        panic!("no {caller} -> {callee} in {list:#?}");
    })
}

fn program() {
    let folder = tempfile::tempdir().unwrap();
    let said = compile(folder.path(), &[("main.c", MAIN), ("apart.c", APART)], "program", &[]);
    let calls = [
        ("main", "apart", 9_000),
        ("main", "near_by", 8_000),
        ("main", "taken", 7_000),
        ("main", "aimed_at", 6_000),
        ("main", "printf", 5_000),
        ("again", "again", 4_000),
        ("main", "again", 1),
    ];
    let advice = advice(folder.path(), "program", &profile("program", &calls), &said);

    let names: Vec<&str> = advice.candidates.iter().map(|c| c.callee.name.as_str()).collect();
    assert_eq!(names, ["apart", "near_by", "taken"]);
    let apart = of(&advice.candidates, "main", "apart");
    assert_eq!(apart.obstacles, [Obstacle::OtherUnit]);
    assert!(apart.change.contains("header") && apart.change.contains("-flto"), "{}", apart.change);
    assert_eq!(apart.compiler_reason.as_deref(), Some("function body not available"));
    assert_eq!(apart.definition.as_ref().unwrap().to_string(), "apart.c:1");
    assert_eq!(apart.lines.iter().map(ToString::to_string).collect::<Vec<_>>(), ["main.c:9"]);
    assert_eq!(apart.sites, Some(1));
    // The call and the return at least, 9,000 times, out of a million instructions.
    assert!(apart.saving.unwrap() >= 0.018 && apart.saving.unwrap() < 0.05, "{:?}", apart.saving);

    let near_by = of(&advice.candidates, "main", "near_by");
    assert_eq!(near_by.obstacles, []);
    assert!(near_by.growth < 0, "its own copy goes away: {}", near_by.growth);
    assert!(near_by.compiler_reason.is_some());
    assert_eq!(of(&advice.candidates, "main", "taken").obstacles, [Obstacle::AddressTaken]);
    assert!(of(&advice.candidates, "main", "taken").growth > 0);
    let cumulative = advice.cumulative();
    assert!(cumulative[0] < cumulative[1] && cumulative[1] < cumulative[2]);

    let refused = |caller, callee| &of(&advice.others, caller, callee).obstacles;
    assert_eq!(refused("main", "printf"), &[Obstacle::OtherDso]);
    assert!(refused("main", "aimed_at").contains(&Obstacle::Indirect));
    assert_eq!(refused("again", "again")[0], Obstacle::Recursive);
}

fn library() {
    let folder = tempfile::tempdir().unwrap();
    let text = "__attribute__((noinline)) int inner(int x) { return x * 3; }\nint outer(int x) { return inner(x) + 1; }\n";
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libinner.so.1"];
    let calls = [("outer", "inner", 9_000)];
    compile(folder.path(), &[("inner.c", text)], "libinner.so.1", &shared);
    let replaceable = advice(folder.path(), "libinner.so.1", &profile("libinner.so.1", &calls), "");
    assert_eq!(replaceable.candidates[0].obstacles, [Obstacle::Interposable]);
    assert!(replaceable.candidates[0].change.contains("hidden"));

    let bound = [&shared[..], &["-fno-semantic-interposition", "-Wl,-Bsymbolic-functions"]].concat();
    compile(folder.path(), &[("inner.c", text)], "libinner.so.1", &bound);
    let fixed = advice(folder.path(), "libinner.so.1", &profile("libinner.so.1", &calls), "");
    assert_eq!(fixed.candidates[0].obstacles, []);
}

fn joined_units() {
    let folder = tempfile::tempdir().unwrap();
    let apart = "__attribute__((noinline)) int apart(int x) { return x ^ 5; }\n";
    compile(folder.path(), &[("main.c", MAIN), ("apart.c", apart)], "program", &["-flto"]);
    let calls = [("main", "apart", 9_000)];
    let advice = advice(folder.path(), "program", &profile("program", &calls), "");
    assert_eq!(of(&advice.candidates, "main", "apart").obstacles, []);
}
