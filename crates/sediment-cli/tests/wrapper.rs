// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrapper of linkers, under real compilers: programs of a build get their order without a change to the build, and whatever
//! is wrong with profiles, links are done as without it.

#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Trial};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{Need, case};

fn main() {
    let mut cases: Vec<Trial> = Vec::new();
    let gcc = Need::Program("gcc");
    for how in HOWS {
        let mut needs = vec![Need::Program(how.compiler), Need::Program("nm")];
        needs.extend(how.program.map(Need::Program));
        needs.extend(how.folder.map(Need::LinkerFolder));
        cases.push(case(&format!("ordered_by_{}", how.name), &needs, || ordered(how)));
    }
    type Row<'a> = (&'a str, &'a [Need], fn());
    let rows: &[Row<'_>] = &[
        ("without_a_profile_the_link_is_the_same", &[gcc], without_a_profile),
        ("local_twins_are_told_apart", &[gcc], local_twins),
        ("what_configure_tries_is_left_alone", &[gcc], configure_tests),
        ("objects_are_left_alone", &[gcc], objects),
        ("a_build_with_an_order_of_its_own", &[gcc, Need::LinkerFolder("lld")], own_order),
        ("a_linker_that_fails_is_run_again_without", &[gcc], failing_linker),
        ("a_link_that_fails_anyway_fails_as_always", &[gcc], failing_link),
        ("wrong_profiles_harm_no_link", &[gcc], wrong_profiles),
        ("a_linker_that_cannot_order_is_named", &[gcc], unable_linker),
        ("two_wrappers_end", &[gcc], two_wrappers),
        ("called_directly_and_by_response_file", &[gcc], called_directly),
        ("shared_library_by_soname_and_program_by_functions", &[gcc], rules),
        ("clones_are_found_by_what_they_were_made_of", &[gcc], clones),
    ];
    for (name, needs, run) in rows {
        cases.push(case(name, needs, *run));
    }
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}

/// A compiler and a linker, and what to call them with.
struct How {
    name: &'static str,
    compiler: &'static str,
    /// Further program that is needed.
    program: Option<&'static str>,
    /// Folder with the linker, behind ours on the compiler's way.
    folder: Option<&'static str>,
    arguments: &'static [&'static str],
    dialect: &'static str,
}

const HOWS: &[How] = &[
    How {
        name: "gcc_gnu_ld",
        compiler: "gcc",
        program: None,
        folder: None,
        arguments: &["-fuse-ld=bfd"],
        dialect: "gnu-ld-script",
    },
    How {
        name: "gcc_gnu_ld_2_44",
        compiler: "gcc",
        program: None,
        folder: Some("gnu-ld-2.44"),
        arguments: &[],
        dialect: "gnu-ld",
    },
    How {
        name: "gcc_gold",
        compiler: "gcc",
        program: Some("ld.gold"),
        folder: None,
        arguments: &["-fuse-ld=gold"],
        dialect: "gold",
    },
    How {
        name: "gcc_lld",
        compiler: "gcc",
        program: None,
        folder: Some("lld"),
        arguments: &["-fuse-ld=lld"],
        dialect: "lld",
    },
    How {
        name: "gcc_lto",
        compiler: "gcc",
        program: None,
        folder: None,
        arguments: &["-flto", "-fuse-ld=bfd"],
        dialect: "gnu-ld-script",
    },
    How {
        name: "gcc_lto_2_44",
        compiler: "gcc",
        program: None,
        folder: Some("gnu-ld-2.44"),
        arguments: &["-flto"],
        dialect: "gnu-ld",
    },
    How {
        name: "gcc_lto_gold",
        compiler: "gcc",
        program: Some("ld.gold"),
        folder: None,
        arguments: &["-flto", "-fuse-ld=gold"],
        dialect: "gold",
    },
    How {
        name: "clang_gnu_ld",
        compiler: "clang-19",
        program: None,
        folder: None,
        arguments: &[],
        dialect: "gnu-ld-script",
    },
    How {
        name: "clang_lld",
        compiler: "clang-19",
        program: None,
        folder: None,
        arguments: &["-fuse-ld=lld"],
        dialect: "lld",
    },
    How {
        name: "clang_thin_lto_lld",
        compiler: "clang-19",
        program: None,
        folder: None,
        arguments: &["-flto=thin", "-fuse-ld=lld"],
        dialect: "lld",
    },
    How {
        name: "clang_lto_gnu_ld",
        compiler: "clang-19",
        program: None,
        folder: None,
        arguments: &["-flto"],
        dialect: "gnu-ld-script",
    },
];

/// A build folder with profiles, a log, and the wrapper under the names of linkers.
struct Build(tempfile::TempDir);

impl Build {
    fn new() -> Self {
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

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a profile of the program that is linked, under another label where wanted.
    fn profile(&self, file: &str, label: &str, more: &str) {
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

    fn compiler(&self, program: &str) -> Command {
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
    fn link(&self, compiler: &mut Command) -> Output {
        compiler.args(["-ffunction-sections", "a.c", "b.c", "main.c"]).output().unwrap()
    }

    fn link_prog(&self) -> Output {
        self.link(self.compiler("gcc").args(["-o", "prog"]))
    }

    /// The lines of the log.
    fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("log/links.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn last(&self) -> serde_json::Value {
        self.log().pop().expect("the log has a line")
    }

    fn runs(&self, program: &str) {
        let output = Command::new(self.path(program)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Share of the weight that is placed as asked, in percent.
    fn placed(&self) -> f64 {
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

/// The functions that ran: name, file of local ones of one name, calls.
fn hot() -> Vec<(String, Option<&'static str>, u32)> {
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

/// One of two files of the program: numbered functions, a local one whose name the other file has too, a cold one.
fn source(letter: char) -> String {
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

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ordered(how: &How) {
    let build = Build::new();
    let mut compiler = build.compiler(how.compiler);
    if let Some(folder) = how.folder {
        // The next on the compiler's way is the linker that ours stands for.
        compiler.arg(format!("-B{}", support::linker_folder(folder).unwrap().display()));
    }
    let output = build.link(compiler.args(how.arguments).args(["-o", "prog"]));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    build.runs("prog");
    let last = build.last();
    assert_eq!(last["outcome"], "ordered", "{last}");
    assert_eq!(last["linker"], how.dialect, "{last}");
    assert_eq!(last["rule"], "file name", "{last}");
    // Clang's own local copies get names that no ordering file of lld can foresee; functions are inlined by link-time optimisation.
    let least = if how.arguments.iter().any(|argument| argument.starts_with("-flto")) { 75.0 } else { 99.0 };
    assert!(build.placed() >= least, "{} %, {last}", build.placed());
}

fn without_a_profile() {
    let build = Build::new();
    let plain = Command::new("gcc")
        .current_dir(build.0.path())
        .args(["-O2", "-w", "-ffunction-sections", "a.c", "b.c", "main.c", "-o", "plain"])
        .output()
        .unwrap();
    assert!(plain.status.success());
    let expected = std::fs::read(build.path("plain")).unwrap();
    let no_folder = |command: &mut Command| {
        command.env_remove("PROF_DIR");
    };
    let other_name = |_: &mut Command| {
        std::fs::rename(build.path("profiles/prog.prof"), build.path("profiles/other.gv")).unwrap()
    };
    let empty = |_: &mut Command| std::fs::remove_file(build.path("profiles/other.gv")).unwrap();
    let changes: [&dyn Fn(&mut Command); 3] = [&no_folder, &other_name, &empty];
    for (turn, change) in changes.into_iter().enumerate() {
        let mut compiler = build.compiler("gcc");
        change(&mut compiler);
        if turn == 1 {
            // Functions of another program.
            let text = std::fs::read_to_string(build.path("profiles/other.gv")).unwrap();
            let foreign = text.replace("\"a", "\"x").replace("\"b", "\"y").replace("prog", "other");
            std::fs::write(build.path("profiles/other.gv"), foreign).unwrap();
        }
        let output = build.link(compiler.args(["-o", "plain"]));
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        assert!(std::fs::read(build.path("plain")).unwrap() == expected, "turn {turn} is another link");
    }
}

fn local_twins() {
    let build = Build::new();
    assert!(build.link_prog().status.success());
    let order = std::fs::read_to_string(build.last()["order"].as_str().unwrap()).unwrap();
    let twins: Vec<&str> = order.lines().filter(|line| line.contains(".text.twin")).map(str::trim).collect();
    assert_eq!(twins.len(), 2, "{order}");
    assert!(twins.iter().all(|twin| twin.contains(".o\"(.text.twin)")), "{twins:?}");
    assert!(build.placed() >= 99.0);
}

fn configure_tests() {
    let build = Build::new();
    build.profile("conftest.prof", "conftest", "");
    for name in ["conftest", "cmTC_1a2b3"] {
        assert!(build.link(build.compiler("gcc").args(["-o", name])).status.success());
    }
    assert!(build.log().is_empty(), "{:?}", build.log());
}

fn objects() {
    let build = Build::new();
    let output = build.link(build.compiler("gcc").args(["-r", "-nostdlib", "-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["outcome"], "left");
}

fn own_order() {
    let build = Build::new();
    std::fs::write(build.path("own"), "a03\nb03\n").unwrap();
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    let output = build.link(build.compiler("gcc").args([
        &lld,
        "-fuse-ld=lld",
        "-Wl,--symbol-ordering-file=own",
        "-o",
        "prog",
    ]));
    assert!(output.status.success(), "{}", said(&output));
    let last = build.last();
    assert_eq!(last["outcome"], "left");
    assert!(last["why"].as_str().unwrap().contains("--symbol-ordering-file"), "{last}");
}

/// A linker by the name that SEDIMENT_LD gives: GNU ld behind a script.
fn script(build: &Build, text: &str) -> OsString {
    use std::os::unix::fs::PermissionsExt as _;
    let path = build.path("linker");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.into()
}

fn failing_linker() {
    let build = Build::new();
    let linker = script(
        &build,
        "case \" $* \" in *' -T '*) echo 'no such luck' >&2; exit 3;; esac; exec ld.bfd \"$@\"",
    );
    let output = build.link(build.compiler("gcc").env("SEDIMENT_LD", linker).args(["-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("run again without it") && said(&output).contains("no such luck"),
        "{}",
        said(&output)
    );
    build.runs("prog");
    let last = build.last();
    assert_eq!((last["outcome"].as_str(), last["why"].as_str()), (Some("failed"), Some("no such luck")));
}

fn failing_link() {
    let build = Build::new();
    std::fs::write(build.path("main.c"), "int nowhere(void);\nint main(void) { return nowhere(); }\n")
        .unwrap();
    let output = build.link_prog();
    assert!(!output.status.success());
    assert_eq!(said(&output).matches("undefined reference to `nowhere'").count(), 1, "{}", said(&output));
    assert!(!said(&output).contains("sediment"), "{}", said(&output));
}

fn wrong_profiles() {
    let build = Build::new();
    let profile = build.path("profiles/prog.prof");
    let wrong: &[(&str, &str)] = &[
        ("digraph {", "prog.prof"),
        ("", "prog"),
        ("digraph Callgraph { graph [sediment=99]; }", "version"),
        (
            "digraph Callgraph { subgraph cluster0 { graph [label=\"prog\"]; \"strange\"; } \"strange\" -> \"strange\" [label=1.0]; }",
            "no function of the profile",
        ),
    ];
    for (text, word) in wrong {
        std::fs::write(&profile, text).unwrap();
        let output = build.link_prog();
        assert!(output.status.success(), "{text}: {}", said(&output));
        assert!(
            said(&output).contains("not ordered") && said(&output).contains(word),
            "{text}: {}",
            said(&output)
        );
        build.runs("prog");
    }
    std::fs::remove_dir_all(build.path("profiles")).unwrap();
    let output = build.link_prog();
    assert!(output.status.success() && said(&output).contains("PROF_DIR"), "{}", said(&output));
    // Names with blanks, quotes and the languages of linkers in them; versions off.
    std::fs::create_dir(build.path("profiles")).unwrap();
    build.profile(
        "prog-3.2.1.prof",
        "prog-3.2.1",
        "  \"all_a\" -> \"x y\" [label=0.1, count=5];\n  \"all_a\" -> \"q\\\"); EVIL(\" [label=0.1, count=5];\n  \"all_a\" -> \"*\" [label=0.1, count=5];\n",
    );
    let output = build.link_prog();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert_eq!(build.last()["rule"], "name without version");
    assert!(build.placed() >= 98.0);
}

fn unable_linker() {
    let build = Build::new();
    let linker = script(
        &build,
        "[ \"$1\" = --version ] && { echo 'mold 2.0 (compatible with GNU ld)'; exit; }; exec ld.bfd \"$@\"",
    );
    let output = build.link(build.compiler("gcc").env("SEDIMENT_LD", linker).args(["-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("this linker cannot order functions (mold); linking as usual"),
        "{}",
        said(&output)
    );
}

fn two_wrappers() {
    let build = Build::new();
    std::fs::create_dir(build.path("second")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), build.path("second/ld")).unwrap();
    let output = build.link(
        build.compiler("gcc").arg(format!("-B{}", build.path("second").display())).args(["-o", "prog"]),
    );
    assert!(output.status.success(), "{}", said(&output));
    build.runs("prog");
    assert_eq!(build.last()["outcome"], "ordered");
    // No other linker anywhere: said, and no endless chain.
    let output = Command::new(build.path("wrapper/ld"))
        .arg("a.o")
        .env("PATH", build.path("second"))
        .env_remove("COMPILER_PATH")
        .output()
        .unwrap();
    assert!(!output.status.success());
}

fn called_directly() {
    let build = Build::new();
    assert!(
        build
            .compiler("gcc")
            .args(["-ffunction-sections", "-c", "a.c", "b.c", "main.c"])
            .status()
            .unwrap()
            .success()
    );
    std::fs::write(build.path("words"), "-o 'prog' \"a.o\" b.o\nmain.o -e main").unwrap();
    let output = Command::new(build.path("wrapper/ld.bfd"))
        .current_dir(build.0.path())
        .args(["--unresolved-symbols=ignore-all", "@words"])
        .env("PROF_DIR", build.path("profiles"))
        .env("SEDIMENT_LOG", build.path("log"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["outcome"], "ordered");
    assert!(build.placed() >= 99.0);
    let version = Command::new(build.path("wrapper/ld")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("GNU ld"));
}

fn rules() {
    let build = Build::new();
    std::fs::rename(build.path("profiles/prog.prof"), build.path("profiles/else.prof")).unwrap();
    build.profile("libprog.so.1.prof", "libprog.so.1", "");
    let output = build.link(build.compiler("gcc").args([
        "-shared",
        "-fPIC",
        "-Wl,-soname,libprog.so.1",
        "-o",
        "libprog.so.1.2.3",
    ]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["rule"], "soname");
    assert!(build.placed() >= 95.0, "{}", build.placed());
    // Two profiles define as much of it; then one.
    assert!(build.link(build.compiler("gcc").args(["-o", "quite-different"])).status.success());
    assert_eq!(build.last()["outcome"], "left");
    std::fs::write(build.path("profiles/map"), "quite-different else\n").unwrap();
    assert!(build.link(build.compiler("gcc").args(["-o", "quite-different"])).status.success());
    assert_eq!(build.last()["rule"], "line in the map");
    std::fs::remove_file(build.path("profiles/map")).unwrap();
    std::fs::remove_file(build.path("profiles/libprog.so.1.prof")).unwrap();
    assert!(build.link(build.compiler("gcc").args(["-o", "quite-different"])).status.success());
    assert_eq!(build.last()["rule"], "functions");
}

fn clones() {
    let build = Build::new();
    let text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
    // The profiled build had cloned one function, and another not that this one has as a clone alone.
    std::fs::write(
        build.path("profiles/prog.prof"),
        text.replace("\"a07\"", "\"a07.constprop.3\"").replace("\"b07\"", "\"b07.lto_priv.0\""),
    )
    .unwrap();
    assert!(build.link_prog().status.success());
    let order = std::fs::read_to_string(build.last()["order"].as_str().unwrap()).unwrap();
    assert!(order.contains("*(.text.a07)") && order.contains("*(.text.b07)"), "{order}");
    assert!(build.placed() >= 99.0, "{}", build.placed());
}
