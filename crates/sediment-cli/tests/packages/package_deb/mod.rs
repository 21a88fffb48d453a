// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the changes of `sediment package deb` to Debian source packages, with dpkg-buildpackage and debhelper.

mod toy;

use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::path::Path;
use support::{Need, case, long};
use toy::{Toy, words};

/// Name, requirements and test function of a case.
type DebCase = (&'static str, Vec<Need>, fn());

pub(crate) fn cases() -> Vec<Trial> {
    let debhelper = [Need::Program("dpkg-buildpackage"), Need::Program("dh"), Need::Program("gcc")];
    let mut cases: Vec<Trial> = Vec::new();
    let more = |needs: &[Need]| [&debhelper[..], needs].concat();
    let rows: &[DebCase] = &[
        ("a_makefile_is_built_in_order", more(&[]), || ordered(ProjectKind::Make)),
        (
            "autotools_build_in_order",
            more(&[Need::Program("autoreconf"), Need::Program("libtoolize")]),
            || ordered(ProjectKind::Autotools),
        ),
        ("cmake_builds_in_order", more(&[Need::Program("cmake"), Need::Program("g++")]), || {
            ordered(ProjectKind::CMake)
        }),
        ("meson_builds_in_order", more(&[Need::Program("meson"), Need::Program("ninja")]), || {
            ordered(ProjectKind::Meson)
        }),
        ("flags_of_the_package_stay", more(&[Need::Program("blhc")]), flags_stay),
        ("older_levels_of_debhelper_build_in_order", debhelper.to_vec(), older_levels),
        ("a_sequence_for_architectures_alone_serves", debhelper.to_vec(), sequence_for_architectures),
        ("damaged_profiles_harm_no_build", debhelper.to_vec(), damaged),
        ("a_threshold_fails_the_build", debhelper.to_vec(), threshold),
        ("a_build_with_flags_of_its_own_is_told_so", debhelper.to_vec(), fixed_flags),
        ("of_two_profiles_it_is_said_which_counts", debhelper.to_vec(), two_profiles),
        (
            "for_another_machine_by_a_profile_from_here",
            more(&[Need::Program("aarch64-linux-gnu-gcc")]),
            cross,
        ),
        ("the_change_is_shown_first", vec![Need::Program("patch")], shown_first),
        ("unsupported_specs_are_refused", Vec::new(), refused),
    ];
    let cross = [
        Need::Program("make"),
        Need::Program("g++"),
        Need::Program("valgrind"),
        Need::Program("aarch64-linux-gnu-gcc"),
        Need::GccPluginHeaders("gcc"),
        Need::GccPluginHeaders("aarch64-linux-gnu-gcc"),
    ];
    // The package that follows the documentation, and others, show the same in less time.
    let long_rows: &[DebCase] = &[
        (
            "graphs_of_the_compiler_are_kept",
            more(&[Need::Program("make"), Need::Program("g++"), Need::GccPluginHeaders("gcc")]),
            graphs,
        ),
        (
            "functions_are_compiled_by_the_counts_of_their_blocks",
            more(&[
                Need::Program("make"),
                Need::Program("g++"),
                Need::Program("valgrind"),
                Need::Program("ccache"),
                Need::Program("blhc"),
                Need::GccPluginHeaders("gcc"),
            ]),
            blocks,
        ),
        (
            "units_are_compiled_by_counters",
            more(&[
                Need::Program("make"),
                Need::Program("g++"),
                Need::Program("ccache"),
                Need::GccPluginHeaders("gcc"),
            ]),
            counters,
        ),
        ("left_out_it_is_the_stock_build", debhelper.to_vec(), left_out),
        ("flags_in_included_makefiles_stay", debhelper.to_vec(), included_flags_stay),
        ("counters_from_here_serve_another_machine", more(&cross), cross_by_counters),
        ("counts_of_blocks_from_here_serve_another_machine", more(&cross), cross_by_blocks),
    ];
    cases.extend(rows.iter().map(|(name, needs, run)| case(name, needs, *run)));
    cases.extend(long_rows.iter().map(|(name, needs, run)| long(name, needs, *run)));
    cases
}

/// One change turns a package without sediment into a package with ordered programs.
fn ordered(kind: ProjectKind) {
    let toy = Toy::new(kind);
    toy.add_sequence();
    let log = toy.built(&[], "");
    let outputs = if kind == ProjectKind::Make { 1 } else { 2 };
    let placed = log
        .lines()
        .filter(|line| line.contains(": 100.00 % ") && line.contains("; 6 of 6 functions; "))
        .count();
    assert_eq!(placed, outputs, "{log}");
    assert!(log.contains("debian/sediment-profiles/toy.gv: "), "{log}");
    assert!(log.contains(&format!("{outputs} of {outputs} outputs ordered")), "{log}");
    let names: Vec<String> = toy.packages().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "the package and its debug symbols: {names:?}");
    // The packages contain no trace of the build folder or the wrapper.
    let inside =
        toy.command("grep", &["-rlE", "sediment/ld|sediment-profiles", "debian/toy"]).output().unwrap();
    assert_eq!(words(&inside), "");
}

/// The oldest compatibility level that the sequence supports, set by debian/compat.
fn older_levels() {
    let toy = Toy::new(ProjectKind::Make);
    let control = toy.read("toy-1.0/debian/control");
    toy.write("toy-1.0/debian/control", &control.replace("debhelper-compat (= 13)", "debhelper (>= 12)"));
    toy.write("toy-1.0/debian/compat", "9\n");
    toy.add_sequence();
    let log = toy.built(&[], "");
    assert!(log.contains("1 of 1 outputs ordered"), "{log}");
}

/// With a build option, in a build whose packages stay the same.
fn graphs() {
    let toy = Toy::new(ProjectKind::Make);
    toy.add_sequence();
    toy.built(&[], "");
    let without = toy.packages();
    let plugin = toy.plugin();
    let mut build = toy.command("dpkg-buildpackage", &["-d", "-b", "-us", "-uc"]);
    build.env("SEDIMENT_PLUGIN", plugin.join("sediment.so"));
    let output = build.env("DEB_BUILD_OPTIONS", "nocheck parallel=2 sediment-graphs").output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let graph = toy.read("toy-1.0/debian/sediment-graphs/toy.gv");
    assert!(
        graph.contains("\"main\" -> \"program_11\" [label=0.000000, static=1.000000, kind=direct]"),
        "{graph}"
    );
    assert!(toy.packages() == without, "the packages are not the same");
    // Without the plugin, a message is printed and the build continues.
    let mut build = toy.command("dpkg-buildpackage", &["-d", "-b", "-us", "-uc"]);
    build.env("SEDIMENT_PLUGIN", plugin.join("nowhere.so"));
    let output = build.env("DEB_BUILD_OPTIONS", "nocheck sediment-graphs").output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    assert!(words(&output).contains("/nowhere.so is missing"), "{}", words(&output));
}

/// A path that the recorded run does not take, and that GCC does not assume to be cold.
const WORK: &str = include_str!("../../projects/unlikely.c");

/// Builds the packages with the compilers of a plugin; returns the output of the build.
fn built_with(toy: &Toy, plugin: &Path, options: &str, more: &[(&str, &str)]) -> String {
    toy.remove_packages();
    let mut build = toy.command("dpkg-buildpackage", &["-d", "-b", "-us", "-uc"]);
    build.env("SEDIMENT_COMPILERS", plugin.join("compilers")).envs(more.iter().copied());
    build.env("DEB_BUILD_OPTIONS", format!("nocheck {options}"));
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    words(&output)
}

/// The profile in the source package.
const PROFILE: &str = "toy-1.0/debian/sediment-profiles/toy.gv";

/// Builds the package with numbered blocks, and records the built program: its profile has the counts.
fn count_blocks(toy: &Toy, plugin: &Path) {
    built_with(toy, plugin, "sediment-blocks", &[]);
    let counted = toy.path("counted");
    let arguments = ["--tool=callgrind", "--dump-instr=yes", "--callgrind-out-file=../counted", "./toy"];
    assert!(toy.command("valgrind", &arguments).output().unwrap().status.success());
    let import =
        ["import", "--blocks", "../counted", "--binary", "toy", "-o", "debian/sediment-profiles/toy.gv"];
    let imported = toy.command("sediment", &import).output().unwrap();
    assert!(imported.status.success() && counted.is_file(), "{}", words(&imported));
}

/// From a package with numbered blocks, through a recording of its program, to a package compiled with the counts.
/// Worth its time: eight builds of a package, each of which must be equal to another, or different, to the byte.
fn blocks() {
    let toy = Toy::new(ProjectKind::Make);
    toy.write("toy-1.0/program.c", WORK);
    toy.add_sequence();
    let plugin = toy.plugin();
    let built = |options: &str, more: &[(&str, &str)]| built_with(&toy, &plugin, options, more);
    let flags_of_stock = missing_flags(&toy, &built("nopgo", &[]));
    let without = toy.packages();
    count_blocks(&toy, &plugin);

    let log = built("", &[]);
    assert!(!log.contains("-fplugin"), "no flag names the plugin: {log}");
    assert_eq!(missing_flags(&toy, &log), flags_of_stock, "{log}");
    let symbols = words(&toy.command("nm", &["toy"]).output().unwrap());
    assert!(symbols.contains(" work.cold\n"), "{symbols}");
    assert!(log.contains(": 100.00 % "), "{log}");
    assert!(log.contains(" 1 function split by "), "{log}");
    let ordered = toy.packages();
    let elsewhere = Toy::new(ProjectKind::Make);
    elsewhere.write("toy-1.0/program.c", WORK);
    elsewhere.add_sequence();
    elsewhere.write(PROFILE, &toy.read(PROFILE));
    built_with(&elsewhere, &plugin, "parallel=3", &[]);
    assert!(elsewhere.packages() == ordered, "a build in another folder differs");
    built("nopgo", &[]);
    assert!(toy.packages() == without, "left out it is not the stock build");

    // A compiler cache must treat the counts as an input.
    let store = toy.path("store").display().to_string();
    let by_store = [("CC", "ccache gcc"), ("CCACHE_DIR", &store)];
    built("", &by_store);
    let profile = toy.read("toy-1.0/debian/sediment-profiles/toy.gv");
    toy.write("toy-1.0/debian/sediment-profiles/toy.gv", &without_blocks(&profile));
    built("", &by_store);
    let symbols = words(&toy.command("nm", &["toy"]).output().unwrap());
    assert!(!symbols.contains(" work.cold\n"), "{symbols}");
    // Without the plugin, a message is printed and the build continues.
    toy.write("toy-1.0/debian/sediment-profiles/toy.gv", &profile);
    let log = built("", &[("SEDIMENT_COMPILERS", "/nowhere")]);
    assert!(log.contains(" 0 functions split by ") && log.contains(": /nowhere is missing"), "{log}");
}

/// Puts the counters of an instrumented build, made by hand, into the profile of the source package.
fn train(toy: &Toy) {
    toy.write("trained/program.c", WORK);
    let train = "cd ../trained && gcc -O2 -fprofile-generate -ftest-coverage program.c -o toy && ./toy >output && \
                 sediment -q import . -o ../counters.gv && \
                 sediment merge ../toy.gv ../counters.gv -o ../toy-1.0/debian/sediment-profiles/toy.gv";
    let trained = toy.command("sh", &["-c", train]).output().unwrap();
    assert!(trained.status.success(), "{}", words(&trained));
}

/// A package that can be built for AArch64.
fn for_another_machine() -> Toy {
    let toy = Toy::new(ProjectKind::Make);
    toy.rules("override_dh_shlibdeps:\n");
    toy.write("toy-1.0/program.c", WORK);
    toy.add_sequence();
    toy
}

/// Builds the packages for AArch64; returns the output of the build, and the stripped program.
fn cross_built(toy: &Toy, plugin: &Path, options: &str) -> (String, Vec<u8>) {
    toy.remove_packages();
    let mut build = toy.command("dpkg-buildpackage", &["-d", "-b", "-us", "-uc", "-aarm64"]);
    build.env("SEDIMENT_COMPILERS", plugin.join("compilers"));
    let output = build.env("DEB_BUILD_OPTIONS", format!("nocheck {options}")).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    (words(&output), std::fs::read(toy.path("toy-1.0/debian/toy/usr/bin/toy")).unwrap())
}

/// A cross build uses the counters of this machine, and prints the share that fits.
fn cross_by_counters() {
    let toy = for_another_machine();
    train(&toy);
    let plugin = toy.plugin_for("aarch64-linux-gnu-gcc");
    let (log, by_counters) = cross_built(&toy, &plugin, "");
    assert!(log.contains("counters: 100.00 % "), "{log}");
    assert!(by_counters != cross_built(&toy, &plugin, "nopgo").1, "counters change nothing");
}

/// A branch that no run takes, in a function that has the same graph on AArch64.
const SELDOM: &str = r#"#include <stdio.h>
static int table[64];
__attribute__((noinline)) int seldom(int i, int unusual) { int sum = i; if (unusual) for (int j = 0; j < 8; j++) { sum ^= table[(sum + j) & 63] * 3; table[sum & 63] += j; } return sum + 1; }
int main(int count, char **words) { int sum = 0; for (int i = 0; i < 2000; i++) sum += seldom(i, count > 2); printf("%d %s\n", sum, words[0]); return 0; }
"#;

/// A cross build uses the block counts of this machine.
fn cross_by_blocks() {
    let toy = for_another_machine();
    toy.write("toy-1.0/program.c", SELDOM);
    count_blocks(&toy, &toy.plugin());
    let plugin = toy.plugin_for("aarch64-linux-gnu-gcc");
    let symbols = || words(&toy.command("aarch64-linux-gnu-nm", &["toy"]).output().unwrap());
    cross_built(&toy, &plugin, "");
    assert!(symbols().contains(" seldom.cold\n"), "{}", symbols());
    cross_built(&toy, &plugin, "nopgo");
    assert!(!symbols().contains(" seldom.cold\n"), "{}", symbols());
}

/// From an instrumented build, made by hand, to a package compiled with its counters: equal to the byte in other
/// folders and with any number of jobs. Worth its time: seven builds, as for the block counts.
fn counters() {
    let [toy, other] = [(), ()].map(|()| {
        let toy = Toy::new(ProjectKind::Make);
        toy.write("toy-1.0/program.c", WORK);
        toy.add_sequence();
        toy
    });
    let plugin = toy.plugin();
    let built = |toy: &Toy, options: &str, more: &[(&str, &str)]| built_with(toy, &plugin, options, more);
    built(&toy, "nopgo", &[]);
    let stock = toy.packages();
    train(&toy);
    let profile = toy.read("toy-1.0/debian/sediment-profiles/toy.gv");
    assert!(profile.contains("counters=\"program.c@"), "{profile}");

    let log = built(&toy, "", &[]);
    assert!(
        !log.contains("-fprofile-use") && !log.contains("-fplugin"),
        "no flag of the build names them: {log}"
    );
    let with = toy.packages();
    assert!(with != stock, "counters change nothing");
    // The check prints the share of the counters that fits.
    assert!(log.contains("counters: 100.00 % "), "{log}");
    other.write("toy-1.0/debian/sediment-profiles/toy.gv", &profile);
    built(&other, "parallel=3", &[]);
    assert!(other.packages() == with, "a build in another folder differs");
    built(&toy, "nopgo", &[]);
    assert!(toy.packages() == stock, "left out it is not the stock build");

    // A changed function is compiled without counters, so the share falls.
    toy.write(
        "toy-1.0/program.c",
        &WORK.replace("  int sum = i;", "  int sum = i;\n  if (i == 77)\n    sink++;"),
    );
    let log = built(&toy, "", &[]);
    let share = log
        .split("counters: ")
        .nth(1)
        .and_then(|rest| rest.split(" %").next())
        .unwrap_or_else(|| panic!("{log}"));
    assert!(share.parse::<f64>().unwrap() < 100.0, "{log}");
    toy.write("toy-1.0/program.c", WORK);

    // A compiler cache must treat the counters as an input.
    let store = toy.path("store").display().to_string();
    let by_store = [("CC", "ccache gcc"), ("CCACHE_DIR", &store)];
    built(&toy, "", &by_store);
    let code = || words(&toy.command("objdump", &["-d", "--no-show-raw-insn", "toy"]).output().unwrap());
    let counted = code();
    toy.write("toy-1.0/debian/sediment-profiles/toy.gv", &toy.read("toy.gv"));
    built(&toy, "", &by_store);
    assert!(code() != counted, "objects of other counters came out of the store");
}

/// Returns blhc's findings in the log of a build, without the commands.
fn missing_flags(toy: &Toy, log: &str) -> Vec<String> {
    toy.write("log", log);
    let checked = toy.command("blhc", &["--all", "--debian", "../log"]).output().unwrap();
    let findings = words(&checked);
    let mut findings: Vec<String> = findings
        .lines()
        .map(|line| line.split_once("): ").map_or(line, |(found, _)| found).to_owned())
        .collect();
    findings.sort();
    findings.dedup();
    findings.push(format!("{:?}", checked.status.code()));
    findings
}

/// Returns the profile without its block counts.
fn without_blocks(profile: &str) -> String {
    let mut text = String::new();
    let mut rest = profile;
    while let Some((before, behind)) = rest.split_once("blocks=\"") {
        text += before.trim_end_matches(", ");
        rest = behind.split_once('"').unwrap().1;
    }
    text + rest
}

/// A build option, a build profile and a profile without functions each give the stock build, to the byte. Worth its
/// time: it shows that a package without sediment is the stock build.
fn left_out() {
    let toy = Toy::new(ProjectKind::Make);
    toy.built(&[], "");
    let stock = toy.packages();
    assert_eq!(stock.len(), 2);
    toy.add_sequence();
    let log = toy.built(&[], "nopgo");
    assert!(!log.contains("dh_sediment") && !log.contains("-ffunction-sections"), "{log}");
    assert!(toy.packages() == stock, "nopgo");
    let log = toy.built(&["-Ppkg.toy.nosediment"], "");
    assert!(!log.contains("dh_sediment"), "{log}");
    assert!(toy.packages() == stock, "pkg.toy.nosediment");
    let profile = "toy-1.0/debian/sediment-profiles/toy.gv";
    let functions = toy.read(profile);
    toy.write(profile, "digraph Callgraph {\n  graph [sediment=2, unit=calls, total=0];\n}\n");
    let log = toy.built(&[], "");
    assert!(!log.contains("-ffunction-sections"), "{log}");
    assert!(log.contains("\nsediment: debian/sediment-profiles names no function"), "{log}");
    assert!(toy.packages() == stock, "a profile without functions");
    toy.write(profile, &functions);
    // Two builds with sediment are equal, and differ from the stock build.
    toy.built(&[], "");
    let ordered = toy.packages();
    assert!(ordered != stock);
    toy.built(&[], "");
    assert!(toy.packages() == ordered, "the same source gives the same packages");
}

/// A package that sets flags in every possible way keeps its flags, and gets sections.
fn flags_stay() {
    let toy = Toy::new(ProjectKind::Make);
    toy.rules(
        "export DEB_BUILD_MAINT_OPTIONS = hardening=+all\nexport DEB_CFLAGS_MAINT_APPEND = -fno-plt\n\
         DPKG_EXPORT_BUILDFLAGS = 1\ninclude /usr/share/dpkg/buildflags.mk\n\
         override_dh_auto_build:\n\tdh_auto_build -- CFLAGS=\"$(CFLAGS)\" LDFLAGS=\"$(LDFLAGS)\"\n",
    );
    toy.add_sequence();
    let log = toy.built(&[], "");
    assert!(log.contains(": 100.00 % "), "{log}");
    assert!(log.contains("-fno-plt") && log.contains("-ffunction-sections"), "{log}");
    toy.write("log", &log);
    let checked = toy.command("blhc", &["--all", "--debian", "../log"]).output().unwrap();
    assert!(checked.status.success(), "{}\n{log}", words(&checked));
}

/// The maintainer's flags are in a file that an included file includes, and in one whose name cannot be resolved.
fn included_flags_stay() {
    let toy = Toy::new(ProjectKind::Make);
    toy.add_sequence();
    toy.write("toy-1.0/debian/flags.mk", "export DEB_CFLAGS_MAINT_APPEND = -fno-plt\n");
    toy.write("toy-1.0/debian/all.mk", "-include debian/none.mk \\\n  $(CURDIR)/debian/flags.mk # flags\n");
    let build = "DPKG_EXPORT_BUILDFLAGS = 1\ninclude /usr/share/dpkg/buildflags.mk\n\
         override_dh_auto_build:\n\tdh_auto_build -- CFLAGS=\"$(CFLAGS)\" LDFLAGS=\"$(LDFLAGS)\"\n";
    for (includes, twice) in
        [("include debian/all.mk\n", false), ("F = flags\ninclude debian/$(F).mk\n", true)]
    {
        toy.rules(&format!("{includes}{build}"));
        let log = toy.built(&[], "");
        assert!(log.contains(": 100.00 % "), "{includes}{log}");
        assert!(log.contains("-fno-plt"), "{includes}{log}");
        let doubled = log.lines().any(|line| line.matches("-ffunction-sections").count() > 1);
        assert!(twice || !doubled, "{includes}{log}");
    }
}

/// A maintainer may have added the sequence here; debhelper loads it once.
fn sequence_for_architectures() {
    let toy = Toy::new(ProjectKind::Make);
    toy.add_sequence();
    let control = toy.read("toy-1.0/debian/control");
    let control = control.replace(" dh-sequence-sediment <", "Build-Depends-Arch: dh-sequence-sediment <");
    toy.write("toy-1.0/debian/control", &control);
    toy.add_sequence();
    assert_eq!(toy.read("toy-1.0/debian/control"), control);
    let log = toy.built(&[], "");
    assert!(log.contains(": 100.00 % "), "{log}");
}

fn damaged() {
    let toy = Toy::new(ProjectKind::Make);
    toy.add_sequence();
    toy.write("toy-1.0/debian/sediment-profiles/toy.gv", "digraph { a -> \"");
    let log = toy.built(&[], "");
    assert!(log.contains("0 of 1 outputs ordered"), "{log}");
    assert!(log.contains("sediment: warning: skipped debian/sediment-profiles/toy.gv: "), "{log}");
    assert!(log.contains("debian/sediment-profiles/toy.gv:1: "), "{log}");
    assert!(log.contains("dh_sediment: warning: ") && log.contains("dh_sediment_check: warning: "), "{log}");
}

fn threshold() {
    for (more, asked) in [
        (["--min-coverage", "90"], " 90 percent "),
        (["--settings", "../sediment.conf"], " debian/sediment-profiles/sediment.conf "),
    ] {
        let toy = Toy::new(ProjectKind::Make);
        toy.write("sediment.conf", "sediment = 1\nengine = 1\nmin-coverage = 90\n");
        let arguments = [&["package", "deb", ".", "--profile", "../toy.gv", "--apply"], &more[..]].concat();
        let output = toy.command("sediment", &arguments).output().unwrap();
        assert!(output.status.success(), "{}", words(&output));
        toy.built(&[], "");
        // Most functions of the profile now have other names.
        let source = toy.read("toy-1.0/program.c");
        let source = source.replace("program_1", "renamed_1").replace("program_9", "renamed_9");
        toy.write("toy-1.0/program.c", &source);
        let output = toy.build(&[], "");
        assert!(!output.status.success());
        assert_eq!(checked(&words(&output), "error").matches(asked).count(), 1, "{}", words(&output));
    }
}

/// Returns the warning or error of the check.
fn checked(log: &str, severity: &str) -> String {
    let beginning = format!("dh_sediment_check: {severity}: ");
    let mut lines = log.lines().filter(|line| line.starts_with(&beginning));
    lines.next().unwrap_or_else(|| panic!("{severity}: {log}")).to_owned()
}

/// Without -ffunction-sections nothing can be ordered: this is a warning, or an error if there is a threshold; neither
/// mentions a setting that nobody made.
fn fixed_flags() {
    let toy = Toy::new(ProjectKind::Make);
    toy.rules("override_dh_auto_build:\n\tdh_auto_build -- CFLAGS=-O2\n");
    toy.add_sequence();
    let log = toy.built(&[], "");
    assert!(log.contains("/toy: 0.00 % "), "{log}");
    assert!(log.contains("sediment: toy: not ordered: "), "{log}");
    assert!(checked(&log, "warning").contains("-ffunction-sections"), "{log}");
    toy.rules(
        "override_dh_auto_build:\n\tdh_auto_build -- CFLAGS=-O2\noverride_dh_sediment_check:\n\tdh_sediment_check --min-coverage=60\n",
    );
    let output = toy.build(&[], "");
    assert!(!output.status.success(), "{}", words(&output));
    assert!(checked(&words(&output), "error").contains(" 60 percent "), "{}", words(&output));
    // Nothing has a profile.
    toy.rules("");
    toy.write(
        "toy-1.0/debian/sediment-profiles/toy.gv",
        &toy.read("toy.gv").replace("\"toy\"", "\"x\"").replace("program_", "x_"),
    );
    let log = toy.built(&[], "");
    let warning = checked(&log, "warning");
    assert!(warning.contains("-ffunction-sections") && !warning.contains("percent"), "{log}");
}

/// A profile is replaced by a newer one with another name.
fn two_profiles() {
    let toy = Toy::new(ProjectKind::Make);
    toy.add_sequence();
    toy.write("new.gv", &toy.read("toy.gv"));
    let arguments = ["package", "deb", ".", "--profile", "../new.gv", "--apply"];
    let output = toy.command("sediment", &arguments).output().unwrap();
    let said = words(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("sediment: ./debian/sediment-profiles/toy.gv ") && said.contains(" new.gv "),
        "{said}"
    );
    let log = toy.built(&[], "");
    let both = "debian/sediment-profiles/new.gv and debian/sediment-profiles/toy.gv ";
    assert!(log.contains(&format!("dh_sediment: warning: {both}")), "{log}");
    assert!(log.contains(" the one in new.gv ") && !log.contains(" the one in toy.gv "), "{log}");
}

/// An AArch64 package with a profile from x86-64.
fn cross() {
    let toy = Toy::new(ProjectKind::Make);
    // Libraries for that machine are not installed as packages.
    toy.rules("override_dh_shlibdeps:\n");
    toy.add_sequence();
    let log = toy.built(&["-aarm64"], "");
    assert!(log.contains("aarch64-linux-gnu-gcc"), "{log}");
    assert!(log.contains(": 100.00 % "), "{log}");
    let file = std::fs::read(toy.path("toy-1.0/debian/toy/usr/bin/toy")).unwrap();
    assert_eq!(file[18], 183, "EM_AARCH64");
}

fn shown_first() {
    let toy = Toy::new(ProjectKind::Meson);
    let before = toy.read("toy-1.0/debian/control");
    let arguments = ["package", "deb", ".", "--profile", "../toy.gv"];
    let output = toy.command("sediment", &arguments).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let added: Vec<String> = String::from_utf8(output.stdout.clone())
        .unwrap()
        .lines()
        .filter(|line| line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---"))
        .map(str::to_owned)
        .collect();
    assert_eq!(added, ["+ dh-sequence-sediment <!pkg.toy.nosediment>,"], "{}", words(&output));
    assert!(words(&output).contains("debian/sediment-profiles/toy.gv: "), "{}", words(&output));
    assert!(words(&output).contains("--apply"), "{}", words(&output));
    assert_eq!(toy.read("toy-1.0/debian/control"), before);
    assert!(!toy.path("toy-1.0/debian/sediment-profiles").exists());
    // The diff can be applied, including the tabs of debian/rules.
    let with_threshold = [&arguments[..], &["--min-coverage", "90"]].concat();
    let difference = toy.command("sediment", &with_threshold).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&difference).contains("+\tdh_sediment_check --min-coverage=90"));
    std::fs::write(toy.path("change"), &difference).unwrap();
    let patched = toy.command("patch", &["--dry-run", "-p1", "-i", "../change"]).output().unwrap();
    assert!(patched.status.success(), "{}", words(&patched));
    toy.add_sequence();
    let after = toy.read("toy-1.0/debian/control");
    assert_ne!(after, before);
    assert_eq!(toy.read("toy-1.0/debian/sediment-profiles/toy.gv"), toy.read("toy.gv"));
    let again = toy
        .command("sediment", &["package", "deb", ".", "--profile", "../toy.gv", "--apply"])
        .output()
        .unwrap();
    assert!(again.status.success() && again.stdout.is_empty(), "{}", words(&again));
    assert_eq!(toy.read("toy-1.0/debian/control"), after);
}

fn refused() {
    let try_it = |toy: &Toy, told: &str| {
        let before = toy.read("toy-1.0/debian/control");
        let arguments = ["package", "deb", ".", "--profile", "../toy.gv", "--apply"];
        let output = toy.command("sediment", &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        assert!(words(&output).contains(told), "{told}: {}", words(&output));
        assert_eq!(toy.read("toy-1.0/debian/control"), before);
        assert!(!toy.path("toy-1.0/debian/sediment-profiles").exists());
    };
    let toy = Toy::new(ProjectKind::Make);
    toy.write("toy-1.0/debian/rules", "#!/usr/bin/make -f\nbuild:\n\tdh_auto_build\n");
    try_it(&toy, "./debian/rules: ");
    let toy = Toy::new(ProjectKind::Make);
    toy.rules("export COMPILER_PATH = /opt/tools\n");
    try_it(&toy, "COMPILER_PATH");
    let control = toy.read("toy-1.0/debian/control");
    let toy = Toy::new(ProjectKind::Make);
    toy.write("toy-1.0/debian/control", &control.replace("(= 13)", "(= 8)"));
    try_it(&toy, "debhelper level is 8;");
    let by_architecture = "Build-Depends: cmake\nBuild-Depends-Arch:\n debhelper-compat (= 13),\n";
    let moved = control.replace("Build-Depends:\n debhelper-compat (= 13),\n", by_architecture);
    toy.write("toy-1.0/debian/control", &moved);
    try_it(&toy, "Build-Depends-Arch");
    toy.write("toy-1.0/debian/control", &control.replace("Architecture: any", "Architecture: all"));
    try_it(&toy, "architecture-independent");
    toy.write("toy-1.0/debian/control", &control.replace("Source: toy\n", "Source: toy\nno field\n"));
    try_it(&toy, "no field");
    toy.write("toy-1.0/debian/control", &control);
    toy.write("toy-1.0/debian/control.in", &control);
    try_it(&toy, "control.in");
    std::fs::remove_file(toy.path("toy-1.0/debian/control.in")).unwrap();
    std::fs::remove_file(toy.path("toy.gv")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", toy.path("toy.gv")).unwrap();
    try_it(&toy, "../toy.gv: ");
}
