// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrapper of linkers with real compilers: a build's programs get their order without a change to the build, and
//! with invalid profiles links are done as without it.

mod agreement;
mod bad_input;
mod build_systems;
mod cells;
mod following;
mod harmless;
mod same_as;
mod starts;
mod takeover;
mod threshold;

use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::{Command, Output};
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases: Vec<Trial> = Vec::new();
    let gcc = Need::Program("gcc");
    cases.extend(agreement::cases());
    cases.extend(cells::cases());
    cases.extend(threshold::cases());
    cases.extend(following::cases());
    cases.extend(same_as::cases());
    cases.extend(bad_input::cases());
    cases.extend(build_systems::cases());
    cases.extend(harmless::cases());
    cases.extend(takeover::cases());
    cases.extend(starts::cases());
    for (target, emulator) in CROSS {
        // Names of programs that live as long as the tests.
        let compiler: &'static str = Box::leak(format!("{target}-gcc").into_boxed_str());
        let needs = [Need::Program(compiler), Need::Program(emulator)];
        cases.push(case(&format!("cross_{target}"), &needs, || cross(target, emulator)));
    }
    type WrapperCase<'a> = (&'a str, &'a [Need], fn());
    let rows: &[WrapperCase<'_>] = &[
        ("without_a_profile_the_link_is_the_same", &[gcc], without_a_profile),
        ("same_named_locals_are_placed_apart", &[gcc], same_named_locals),
        ("tests_of_configure_are_passed_through", &[gcc], configure_tests),
        ("objects_are_left_alone", &[gcc], objects),
        ("a_linker_that_fails_is_run_again_without", &[gcc], failing_linker),
        ("a_link_that_fails_anyway_fails_as_always", &[gcc], failing_link),
        ("a_linker_that_cannot_order_is_named", &[gcc], unable_linker),
        ("two_wrappers_end", &[gcc], two_wrappers),
        ("called_directly_and_by_response_file", &[gcc], called_directly),
        ("shared_library_by_soname_and_program_by_functions", &[gcc], rules),
        ("clones_are_found_by_what_they_were_made_of", &[gcc], clones),
        (
            "constructors_are_found_by_either_name_with_link_time_optimisation",
            &[gcc, Need::Program("g++")],
            constructors,
        ),
        ("an_order_for_a_name_that_is_given", &[gcc], gen_link_order),
        ("a_whole_build_is_verified_by_its_log", &[gcc], verify_log),
        ("links_that_were_missed_are_named", &[gcc], missed_links),
    ];
    for (name, needs, run) in rows {
        cases.push(case(name, needs, *run));
    }
    cases
}

/// Cross compilers, with an emulator for their programs, and the folder of the target's libraries. The profile is the
/// same: it was recorded elsewhere.
const CROSS: &[(&str, &str)] = &[
    ("aarch64-linux-gnu", "qemu-aarch64"),
    ("s390x-linux-gnu", "qemu-s390x"),
    ("riscv64-linux-gnu", "qemu-riscv64"),
    ("arm-linux-gnueabihf", "qemu-arm"),
];

fn cross(target: &str, emulator: &str) {
    for more in [&[][..], &["-flto"]] {
        let build = BuildFolder::new();
        let output = build.link(build.compiler(&format!("{target}-gcc")).args(more).args(["-o", "prog"]));
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        let last = build.last();
        assert_eq!(
            (last["outcome"].as_str(), last["linker"].as_str()),
            (Some("ordered"), Some("gnu-ld-script")),
            "{last}"
        );
        let ran = Command::new(emulator)
            .arg("-L")
            .arg(format!("/usr/{target}"))
            .arg(build.path("prog"))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", said(&ran));
        let least = if more.is_empty() { 99.0 } else { 75.0 };
        assert!(build.placed() >= least, "{} %", build.placed());
    }
}

/// A profile may contain a constructor as complete or base object constructor, and its section may have the other name.
fn constructors() {
    let build = BuildFolder::new();
    let classes = ["One", "Two", "Six", "Ten"];
    let mut code = "static volatile int sink;\n#define FN __attribute__((noinline, noclone))\n".to_owned();
    let mut used = String::new();
    for class in classes {
        let _ = writeln!(code, "struct {class} {{ FN {class}(int); FN ~{class}(); int held; }};");
        let _ = writeln!(code, "{class}::{class}(int x) : held(x) {{ sink += x; }}");
        let _ = writeln!(code, "{class}::~{class}() {{ sink -= held; }}");
        let _ = writeln!(used, "  {class} {}(count);", class.to_lowercase());
    }
    let code = format!("{code}int main(int count, char **) {{\n{used}  return sink == 77;\n}}\n");
    std::fs::write(build.path("classes.cc"), code).unwrap();
    for (constructor, destructor) in [("C1", "D1"), ("C2", "D2")] {
        let mut nodes = String::new();
        let mut edges = String::new();
        for class in classes.iter().rev() {
            let names = [format!("_ZN3{class}{constructor}Ei"), format!("_ZN3{class}{destructor}Ev")];
            let _ = writeln!(nodes, "    \"{}\"; \"{}\";", names[0], names[1]);
            let _ = writeln!(edges, "  \"{}\" -> \"{}\" [label=0.1, count=10];", names[0], names[1]);
        }
        let profile = format!(
            "digraph Callgraph {{\n  graph [sediment=2, source=\"test\", unit=calls, total=40];\n  subgraph cluster0 {{\n    \
             graph [label=\"classes\"];\n{nodes}  }}\n{edges}}}\n"
        );
        std::fs::write(build.path("profiles/classes.prof"), profile).unwrap();
        for more in [&[][..], &["-flto"]] {
            let mut compiler = build.compiler("g++");
            compiler.args(more).args(["-ffunction-sections", "classes.cc", "-o", "classes"]);
            let output = compiler.output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
            assert!(build.placed() >= 99.99, "{constructor} {more:?}: {} %", build.placed());
            build.runs("classes");
        }
    }
}

fn without_a_profile() {
    let build = BuildFolder::new();
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

fn same_named_locals() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    let order = std::fs::read_to_string(build.last()["order"].as_str().unwrap()).unwrap();
    let same_named_locals: Vec<&str> =
        order.lines().filter(|line| line.contains(".text.twin")).map(str::trim).collect();
    assert_eq!(same_named_locals.len(), 2, "{order}");
    assert!(same_named_locals.iter().all(|twin| twin.contains(".o\"(.text.twin)")), "{same_named_locals:?}");
    assert!(build.placed() >= 99.0);
}

fn configure_tests() {
    let build = BuildFolder::new();
    build.profile("conftest.prof", "conftest", "");
    for name in ["conftest", "cmTC_1a2b3"] {
        assert!(build.link(build.compiler("gcc").args(["-o", name])).status.success());
    }
    assert!(build.log().is_empty(), "{:?}", build.log());
}

fn objects() {
    let build = BuildFolder::new();
    let output = build.link(build.compiler("gcc").args(["-r", "-nostdlib", "-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["outcome"], "left");
}

/// A linker at the path in SEDIMENT_LD: GNU ld called by a script.
fn script(build: &BuildFolder, text: &str) -> OsString {
    use std::os::unix::fs::PermissionsExt as _;
    let path = build.path("linker");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.into()
}

fn failing_linker() {
    let build = BuildFolder::new();
    let linker = script(
        &build,
        "case \" $* \" in *' -T '*) echo 'no such luck' >&2; exit 3;; esac; exec ld.bfd \"$@\"",
    );
    let output = build.link(build.compiler("gcc").env("SEDIMENT_LD", linker).args(["-o", "prog"]));
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("no such luck"), "{}", said(&output));
    build.runs("prog");
    let last = build.last();
    assert_eq!((last["outcome"].as_str(), last["why"].as_str()), (Some("failed"), Some("no such luck")));
}

fn failing_link() {
    let build = BuildFolder::new();
    std::fs::write(build.path("main.c"), "int nowhere(void);\nint main(void) { return nowhere(); }\n")
        .unwrap();
    let output = build.link_prog();
    assert!(!output.status.success());
    assert_eq!(said(&output).matches("undefined reference to `nowhere'").count(), 1, "{}", said(&output));
    assert!(!said(&output).contains("sediment"), "{}", said(&output));
}

fn unable_linker() {
    let rows: [(&str, &[&str]); 2] = [("Acme", &[]), ("Wild", &["-Wl,--gc-sections"])];
    for (name, options) in rows {
        let build = BuildFolder::new();
        let version = format!("{name} 0.8.0 (compatible with GNU linkers)");
        let text = format!("[ \"$1\" = --version ] && {{ echo '{version}'; exit; }}; exec ld.bfd \"$@\"");
        let mut compiler = build.compiler("gcc");
        compiler.env("SEDIMENT_LD", script(&build, &text)).args(options).args(["-o", "prog"]);
        let output = build.link(&mut compiler);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(name), "{}", said(&output));
        assert!(build.last()["why"].as_str().unwrap().contains(name), "{}", build.last());
        build.runs("prog");
    }
}

fn two_wrappers() {
    let build = BuildFolder::new();
    std::fs::create_dir(build.path("second")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), build.path("second/ld")).unwrap();
    let output = build.link(
        build.compiler("gcc").arg(format!("-B{}", build.path("second").display())).args(["-o", "prog"]),
    );
    assert!(output.status.success(), "{}", said(&output));
    build.runs("prog");
    assert_eq!(build.last()["outcome"], "ordered");
    // There is no other linker: an error reports it, and the wrapper does not call itself endlessly.
    let output = Command::new(build.path("wrapper/ld"))
        .arg("a.o")
        .env("PATH", build.path("second"))
        .env_remove("COMPILER_PATH")
        .output()
        .unwrap();
    assert!(!output.status.success());
}

fn called_directly() {
    let build = BuildFolder::new();
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
    let build = BuildFolder::new();
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
    // Two profiles define an equal share of it; then only one.
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
    let build = BuildFolder::new();
    let text = std::fs::read_to_string(build.path("profiles/prog.prof")).unwrap();
    // The profiled build had a clone of one function; of another, this build has only a clone.
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

fn sediment(build: &BuildFolder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
    command
        .args(arguments)
        .current_dir(build.0.path())
        .env("PROF_DIR", build.path("profiles"))
        .output()
        .unwrap()
}

fn gen_link_order() {
    let build = BuildFolder::new();
    std::fs::create_dir(build.path("elsewhere")).unwrap();
    build.profile("given.gv", "prog", "");
    let link = |order: &[&str]| -> Vec<String> {
        let output = sediment(&build, &[&["gen_link_order"], order].concat());
        assert!(output.status.success(), "{}", said(&output));
        let path = String::from_utf8(output.stdout).unwrap();
        let path = path.trim_end();
        assert!(path.starts_with('/'), "{path}");
        // The source is in one folder, the build in another.
        let linked = Command::new("gcc")
            .current_dir(build.path("elsewhere"))
            .args([
                "-O2",
                "-w",
                "-ffunction-sections",
                "-fuse-ld=bfd",
                "../a.c",
                "../b.c",
                "../main.c",
                "-o",
                "prog",
            ])
            .arg(format!("-Wl,-T,{path}"))
            .output()
            .unwrap();
        assert!(linked.status.success(), "{}", said(&linked));
        let names =
            Command::new("nm").args(["-n", "elsewhere/prog"]).current_dir(build.0.path()).output().unwrap();
        let names = String::from_utf8(names.stdout).unwrap();
        let numbered = |name: &&str| name.len() == 3 && name.starts_with(['a', 'b']);
        names
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .filter(numbered)
            .map(str::to_owned)
            .collect()
    };
    let linker = ["-l", "gnu-ld-script"];
    let by_folder = link(&[linker.as_slice(), &["/usr/bin/prog"]].concat());
    assert_eq!(
        link(&[linker.as_slice(), &["-o", "other.order", "prog", "profiles/given.gv"]].concat()),
        by_folder
    );
    assert!(build.path("prog.order").is_file() && build.path("other.order").is_file());
    let unordered = link(&[linker.as_slice(), &["unknown"]].concat());
    assert!(unordered.is_sorted() && !by_folder.is_sorted(), "{unordered:?} {by_folder:?}");
    // The compiler's linker decides the dialect.
    let order = sediment(&build, &["gen_link_order", "prog"]);
    assert!(order.status.success(), "{}", said(&order));
    let wrong = sediment(&build, &["gen_link_order", "prog", "gone.gv"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.stdout.is_empty() && said(&wrong).contains("gone.gv"));
}

fn verify_log() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    assert!(build.link(build.compiler("gcc").args(["-o", "elsewhere"])).status.success());
    let output = sediment(&build, &["verify", "--log", "log", "--min-coverage", "99"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", said(&output));
    assert!(["/elsewhere: ", "/prog: ", "2 of 2 outputs"].iter().all(|part| text.contains(part)), "{text}");
    // Linked again without the log.
    let plain = build.link(Command::new("gcc").current_dir(build.0.path()).args(["-O2", "-w", "-o", "prog"]));
    assert!(plain.status.success());
    let output = sediment(&build, &["verify", "--log", "log", "--min-coverage", "99"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    std::fs::remove_file(build.path("prog")).unwrap();
    let output = sediment(&build, &["verify", "--log", "log"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("not verified"));
    assert_eq!(sediment(&build, &["verify", "--log", "gone"]).status.code(), Some(1));
}

fn missed_links() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    let log = format!(
        "make: Entering directory '{0}'\ngcc -B{0}/wrapper a.o -o prog\ngcc -shared a.o -o libx.so\nld -o y a.o\n",
        build.0.path().display()
    );
    std::fs::write(build.path("build.log"), log).unwrap();
    let output = sediment(&build, &["doctor", "--build-log", "build.log", "--log", "log"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", said(&output));
    let parts = ["3 links ", " 2 of them ", "/libx.so (line 3, gcc)", "/y (line 4, ld)"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    std::fs::write(build.path("quiet.log"), "  CC a.o\n  LD prog\n").unwrap();
    let output = sediment(&build, &["doctor", "--build-log", "quiet.log", "--log", "log"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("quiet.log: "), "{}", said(&output));
}
