// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin for GCC, built and used as a packager would: what it writes, what becomes of it, and that it changes no object.

mod running;
#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use libtest_mimic::Arguments;
use running::{done, err, sediment};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use support::{Need, case};
use tempfile::TempDir;

const MAIN: &str = "#include <stdlib.h>
int twist(int);
static __attribute__((noinline)) int local(int x) { return x * 3 + twist(x); }
static __attribute__((noinline, cold)) void fail(void) { abort(); }
int (*table[])(int) = { local };
__attribute__((constructor)) static void begin(void) { twist(1); }
int main(int count, char **words)
{
  for (int i = 0; i < 100; i++)
    count += local(i);
  if (!words)
    fail();
  return table[0](count) & 1;
}
";
const OTHER: &str = "static __attribute__((noinline)) int local(int x) { return x * 7; }
int twist(int x) { return local(x) + 1; }
";
const CLASSES: &str = "struct Shape { virtual int area(int); };
struct Disc final : Shape { int area(int) override; };
template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
int sum(Disc *disc, int n) { int s = 0; for (int i = 0; i < n; i++) s += disc->area(i); return twice(s); }
";

fn main() {
    let c = [Need::Program("make"), Need::Program("g++"), Need::GccPluginHeaders];
    let cases = vec![
        case("units_become_a_profile_of_the_program", &c, units_become_a_profile_of_the_program),
        case("virtual_calls_and_templates", &c, virtual_calls_and_templates),
        case("link_time_optimisation", &c, link_time_optimisation),
        case("objects_stay_the_same", &c, objects_stay_the_same),
        case("counts_of_a_profile", &c, counts_of_a_profile),
        case("a_problem_is_a_note", &c, a_problem_is_a_note),
    ];
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", err(&output));
    output
}

/// The option for the compiler; the plugin is built once.
fn plugin() -> String {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, plugin) = BUILT.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let out = format!("OUT={}", folder.path().display());
        let source = support::root().join("gcc-plugin");
        run(&source, "make", &["-s", &out, "CC=gcc", "CXX=g++", "CXXFLAGS=-O1 -Werror"]);
        let plugin = folder.path().join("sediment.so");
        (folder, plugin)
    });
    format!("-fplugin={}", plugin.display())
}

fn sources() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in [("main.c", MAIN), ("other.c", OTHER), ("classes.cc", CLASSES)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

fn units_become_a_profile_of_the_program() {
    let folder = sources();
    let plugin = plugin();
    run(folder.path(), "gcc", &["-O2", "-ffunction-sections", &plugin, "-c", "main.c", "other.c"]);
    run(folder.path(), "gcc", &["main.o", "other.o", "-o", "program"]);
    let unit = read(&folder, "main.c.gv");
    has(&unit, &["\"local\" [file=\"main.c\", taken=1]", "\"main\" [heat=startup, entry=1]", "heat=cold"]);
    has(&unit, &["\"main\" -> \"local\" [label=0.000000, static=", "kind=direct]"]);
    let imported = sediment(folder.path(), &["import", ".", "--binary", "program", "-o", "p.gv"]);
    assert!(err(&imported).contains("2 of 2 graphs of units are of program"), "{}", err(&imported));
    let profile = read(&folder, "p.gv");
    has(&profile, &["\"local@program:main.c\" -> \"twist\"", "\"twist\" -> \"local@program:other.c\""]);
    let order = done(&sediment(folder.path(), &["order", "p.gv", "--binary", "program", "--linker", "list"]));
    let place = |name: &str| order.lines().position(|line| line == name).unwrap();
    assert!(place("local") < place("fail"), "{order}");
}

fn virtual_calls_and_templates() {
    let folder = sources();
    run(folder.path(), "g++", &["-O2", &plugin(), "-c", "classes.cc"]);
    let unit = read(&folder, "classes.cc.gv");
    has(&unit, &["\"_Z3sumP4Disci\" -> \"_ZN4Disc4areaEi\"", "\"_Z3sumP4Disci\" -> \"_Z5twiceIiET_S0_\""]);
}

fn link_time_optimisation() {
    let folder = sources();
    let plugin = plugin();
    run(folder.path(), "gcc", &["-O2", "-flto", &plugin, "-c", "main.c", "other.c"]);
    has(&read(&folder, "other.c.gv"), &["\"twist\" -> \"local\""]);
    run(folder.path(), "gcc", &["-O2", "-flto", &plugin, "main.o", "other.o", "-o", "program"]);
    let whole = read(&folder, "program.wpa.gv");
    has(&whole, &["gcc call graph of the program", "\"local@:main.c\" -> \"local@:other.c\""]);
}

fn objects_stay_the_same() {
    let folder = sources();
    let plugin = plugin();
    for flags in
        [&["-O2"][..], &["-O2", "-g"], &["-O0"], &["-O2", "-flto", "-ffat-lto-objects", "-frandom-seed=1"]]
    {
        for (output, with) in [("with.o", Some(plugin.as_str())), ("without.o", None)] {
            let all: Vec<&str> =
                flags.iter().copied().chain(with).chain(["-c", "main.c", "-o", output]).collect();
            run(folder.path(), "gcc", &all);
            // Where code is kept for the link, GCC notes its options, and the plugin is one of them.
            run(folder.path(), "objcopy", &["--strip-debug", "--remove-section=.gnu.lto_*", output]);
        }
        let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(bytes("with.o") == bytes("without.o"), "{flags:?}");
    }
}

fn counts_of_a_profile() {
    let folder = sources();
    let plugin = plugin();
    run(folder.path(), "gcc", &["-O2", "-fprofile-generate", "main.c", "other.c", "-o", "program"]);
    let _ = Command::new("./program").current_dir(folder.path()).status().unwrap();
    run(folder.path(), "gcc", &["-O2", "-fprofile-use", &plugin, "-c", "main.c", "-o", "program-main.o"]);
    has(&read(&folder, "program-main.c.gv"), &["\"main\" -> \"local\" [label=", "count=100,", "first="]);
}

fn a_problem_is_a_note() {
    let folder = sources();
    let output = Command::new("gcc")
        .args(["-O2", "-Werror", &plugin(), "-c", "other.c"])
        .env("SEDIMENT_GV_DIR", folder.path().join("nowhere"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success() && folder.path().join("other.o").is_file(), "{}", err(&output));
    assert_eq!(
        err(&output).matches("note: sediment: no call graph of this unit").count(),
        1,
        "{}",
        err(&output)
    );
}
