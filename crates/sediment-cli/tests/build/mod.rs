// SPDX-License-Identifier: MIT OR Apache-2.0
//! A build that links through the wrapper: a program of two files that have local functions with the same name, and its
//! profile.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A build folder with profiles, a log, and the wrapper under the names of linkers.
pub struct BuildFolder(pub tempfile::TempDir);

impl BuildFolder {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["wrapper", "profiles", "log"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["ld", "ld.bfd", "ld.gold", "ld.lld"] {
            std::os::unix::fs::symlink(
                env!("CARGO_BIN_EXE_sediment"),
                folder.path().join("wrapper").join(name),
            )
            .unwrap();
        }
        for letter in ['a', 'b'] {
            std::fs::write(folder.path().join(format!("{letter}.c")), source(letter)).unwrap();
        }
        std::fs::write(folder.path().join("main.c"), MAIN).unwrap();
        let build = Self(folder);
        build.profile("prog.prof", "prog", "");
        build
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same program in C++.
    pub fn cxx() -> Self {
        let build = Self::new();
        for letter in ['a', 'b'] {
            std::fs::remove_file(build.path(&format!("{letter}.c"))).unwrap();
            std::fs::write(build.path(&format!("{letter}.cc")), in_cxx(&source(letter))).unwrap();
        }
        std::fs::remove_file(build.path("main.c")).unwrap();
        std::fs::write(
            build.path("main.cc"),
            MAIN.replace("volatile int sink;", "extern volatile int sink;\nvolatile int sink;"),
        )
        .unwrap();
        let mut text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
        for (name, _, _) in hot().into_iter().filter(|(name, _, _)| name != "main") {
            text = text.replace(&format!("\"{name}\""), &format!("\"{}\"", mangled(&name)));
            text = text.replace(&format!("\"{name}@"), &format!("\"{}@", mangled(&name)));
        }
        text = text.replace("a.c\"", "a.cc\"").replace("b.c\"", "b.cc\"");
        let more = "  \"_Z5all_ai\" -> \"_ZN7Shape_aC1Ei\" [label=0.1, count=70];\n  \"_Z5all_ai\" -> \"_Z5timesILi3EEii\" [label=0.1, count=80];\n}\n";
        let end = text.rfind('}').unwrap();
        let text = text[..end].to_owned() + more;
        let text = text.replace(
            "    \"gone\";\n",
            "    \"gone\";\n    \"_ZN7Shape_aC1Ei\";\n    \"_Z5timesILi3EEii\";\n",
        );
        std::fs::write(build.path("profiles/prog.prof"), text).unwrap();
        build
    }

    /// Writes a profile of the linked program, optionally with another label.
    pub fn profile(&self, file: &str, label: &str, more: &str) {
        let mut text = format!(
            "digraph Callgraph {{\n  graph [sediment=2, source=\"test\", unit=calls, total=1000];\n  subgraph cluster0 {{\n    graph [label=\"{label}\"];\n"
        );
        for (name, file, _) in hot() {
            let _ = match file {
                Some(file) => writeln!(
                    text,
                    "    \"{name}@{label}:{file}\" [label=\"{name}\", name=\"{name}\", dso=\"{label}\", file=\"{file}\"];"
                ),
                None => writeln!(text, "    \"{name}\";"),
            };
        }
        text += "    \"gone\";\n  }\n";
        for (name, file, calls) in hot() {
            let id = file.map_or(name.clone(), |file| format!("{name}@{label}:{file}"));
            let caller = if id.ends_with("b.c") || name.starts_with('b') { "all_b" } else { "all_a" };
            let _ = writeln!(text, "  \"{caller}\" -> \"{id}\" [label=0.01, count={calls}];");
        }
        let _ = writeln!(text, "{more}}}");
        std::fs::write(self.path("profiles").join(file), text).unwrap();
    }

    pub fn compiler(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.0.path())
            .args(["-O2", "-w"])
            .arg(format!("-B{}", self.path("wrapper").display()))
            .env("PROF_DIR", self.path("profiles"))
            .env("SEDIMENT_LOG", self.path("log"))
            .env_remove("SEDIMENT_LD");
        command
    }

    /// Links the program through the wrapper.
    pub fn link(&self, compiler: &mut Command) -> Output {
        compiler.args(["-ffunction-sections", "a.c", "b.c", "main.c"]).output().unwrap()
    }

    pub fn link_prog(&self) -> Output {
        self.link(self.compiler("gcc").args(["-o", "prog"]))
    }

    /// The lines of the log.
    pub fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("log/links.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn last(&self) -> serde_json::Value {
        self.log().pop().expect("the log has a line")
    }

    pub fn runs(&self, program: &str) {
        let output = Command::new(self.path(program)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Share of the weight that is placed as ordered, in percent.
    pub fn placed(&self) -> f64 {
        let last = self.last();
        let output = Command::new(env!("CARGO_BIN_EXE_sediment"))
            .args([
                "verify",
                "--json",
                last["output"].as_str().unwrap(),
                "--order",
                last["order"].as_str().unwrap(),
            ])
            .args(["--profile", last["profile"].as_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["weight_placed_percent"].as_f64().unwrap()
    }
}

/// The same source in C++, with a template and a class, so that their mangled names occur.
pub fn in_cxx(source: &str) -> String {
    let mut text = source.to_owned();
    if text.contains("all_a(int x)") || text.contains("all_b(int x)") {
        let letter = if text.contains("all_a(int x)") { 'a' } else { 'b' };
        let more = format!(
            "template <int N> FN int times(int x) {{ sink += x; return x * N; }}\n\
             struct Shape_{letter} {{ FN Shape_{letter}(int x); virtual FN int step(int x); int held; }};\n\
             Shape_{letter}::Shape_{letter}(int x) : held(x) {{ sink += x; }}\n\
             int Shape_{letter}::step(int x) {{ return times<3>(x) + held; }}\n\
             FN int all_{letter}(int x) {{\n  Shape_{letter} shape(x);\n  x = shape.step(x);\n"
        );
        text = text.replace(&format!("FN int all_{letter}(int x) {{\n"), &more);
    }
    text
}

/// A function's name in C++.
pub fn mangled(name: &str) -> String {
    match name {
        "main" => name.to_owned(),
        "twin" => "_ZL4twini".to_owned(),
        _ => format!("_Z{}{name}i", name.len()),
    }
}

/// The executed functions: name, file of local functions with the same name, calls.
pub fn hot() -> Vec<(String, Option<&'static str>, u32)> {
    let mut functions =
        vec![("all_a".to_owned(), None, 3), ("all_b".to_owned(), None, 3), ("main".to_owned(), None, 1)];
    for (letter, base) in [('a', 100), ('b', 200)] {
        for step in 0..6_u32 {
            functions.push((format!("{letter}{:02}", step * 7 % 24), None, base + step));
        }
    }
    functions.push(("twin".to_owned(), Some("a.c"), 90));
    functions.push(("twin".to_owned(), Some("b.c"), 190));
    functions
}

/// One of the two files of the program: numbered functions, a local one whose name also occurs in the other file, and a
/// cold one.
pub fn source(letter: char) -> String {
    let factor = if letter == 'a' { 3 } else { 5 };
    let mut text = format!(
        "#include <stdio.h>\n#define FN __attribute__((noinline, noclone))\nextern volatile int sink;\n\
         static FN int twin(int x) {{ sink += x; return x * {factor} + 1000; }}\n"
    );
    for number in 0..24 {
        let _ = writeln!(
            text,
            "FN int {letter}{number:02}(int x) {{ sink += x; return x * {} + {number}; }}",
            2 * number + factor
        );
    }
    let _ = writeln!(
        text,
        "FN __attribute__((cold)) int cold_{letter}(int x) {{ puts(\"cold\"); return x - 1; }}\nFN int all_{letter}(int x) {{\n  x = twin(x);"
    );
    for step in 0..6 {
        let _ = writeln!(text, "  x = {letter}{:02}(x);", step * 7 % 24);
    }
    let _ = writeln!(text, "  if (x == 77) x = cold_{letter}(x);\n  return x;\n}}");
    text
}

const MAIN: &str = "volatile int sink;\nextern int all_a(int), all_b(int);\n\
    int main(int argc, char **argv) { return all_b(all_a(argc)) == 12345; }\n";

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
