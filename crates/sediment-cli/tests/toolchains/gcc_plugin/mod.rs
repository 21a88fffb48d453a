// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin for GCC, built and used as by a packager: its output, the use of its output, and that it changes no
//! objects.

mod blocks;
mod cold_size;
mod counters;
mod early;
mod far;
mod generated;
mod maps;
mod odd;
mod padding;
mod parts;
mod recorded;
mod split;
mod together;
mod tools;
mod untrained;
mod whole;

use crate::compilers::{COMPILERS, Compiler, CompilerHost};
use crate::running::{done, err, sediment};
use libtest_mimic::Trial;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Need, case, long};
use tempfile::TempDir;

const MAIN: &str = "#include <stdlib.h>
int twist(int);
static __attribute__((noinline)) int local(int x) { return x * 3 + twist(x); }
static inline __attribute__((always_inline)) int inlined(int x) { return twist(x + 1); }
static __attribute__((noinline, cold)) void fail(void) { abort(); }
int (*table[])(int) = { local };
__attribute__((constructor)) static void begin(void) { twist(1); }
int main(int count, char **words)
{
  for (int i = 0; i < 100; i++)
    count += local(i);
  count += inlined(count);
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
int any(Shape *shape) { return shape->area(1); }
struct Named { virtual const char *name(); Named(); };
struct Both : Shape, Named { const char *name() override; Both(); };
Named::Named() {}
Both::Both() {}
__attribute__((noinline)) const char *Both::name() { return 0; }
";

type PluginCase = (&'static str, fn(&'static Compiler));

/// Tests with every compiler.
const OF_ALL: &[PluginCase] = &[
    ("units_become_a_profile_of_the_program", units_become_a_profile_of_the_program),
    ("virtual_calls_templates_thunks_and_other_names", virtual_calls_templates_thunks_and_other_names),
    ("link_time_optimisation", link_time_optimisation),
    ("objects_stay_the_same", objects_stay_the_same),
    ("pipes_and_standard_streams", pipes_and_standard_streams),
    ("a_problem_is_a_note", a_problem_is_a_note),
    ("numbers_of_blocks_change_nothing_else", maps::numbers_change_nothing_else),
];

/// Name, test function, and requirements other than the compiler.
type OfOne = (&'static str, fn(&'static Compiler), &'static [Need]);

const VALGRIND: &[Need] = &[Need::Program("valgrind"), Need::Program("nm")];
/// Tools that build for AArch64, run programs for it, and inspect them.
const CROSS: &[Need] = &[
    Need::Program("valgrind"),
    Need::Program("objdump"),
    Need::Program("qemu-aarch64"),
    Need::Program("aarch64-linux-gnu-g++"),
    Need::GccPluginHeaders("aarch64-linux-gnu-gcc"),
];

/// Tests with every compiler whose programs run here.
const OF_NATIVE: &[OfOne] = &[
    ("blocks_that_did_not_run_are_split_off", blocks::blocks_with_count_zero_are_split_off, VALGRIND),
    ("changed_functions_keep_their_counts", blocks::changed_functions_keep_their_counts, VALGRIND),
    ("counts_of_another_compiler", blocks::counts_of_another_compiler, VALGRIND),
    ("exceptions_pass_through_cold_parts", blocks::exceptions_pass_through_cold_parts, VALGRIND),
    (
        "whatever_counts_say_the_program_is_the_same",
        blocks::whatever_a_profile_says_the_program_is_the_same,
        VALGRIND,
    ),
    (
        "functions_of_groups_are_split_in_their_group",
        blocks::functions_of_groups_are_split_in_their_group,
        VALGRIND,
    ),
    ("counters_reach_a_build_elsewhere", counters::counters_reach_a_build_elsewhere, &[]),
    ("changed_functions_lose_their_counters", counters::changed_functions_are_compiled_without_counters, &[]),
    ("blocks_on_top_of_counters_are_split", counters::blocks_on_top_of_counters_are_split, VALGRIND),
    ("two_configurations_of_a_unit", counters::two_configurations_of_a_unit, &[]),
    ("damaged_files_of_counters", counters::damaged_files_of_counters, &[]),
    ("counters_of_several_trees_add_up", together::trees_of_several_runs_add_up, &[]),
    (
        "counters_with_link_time_optimisation",
        together::counters_with_link_time_optimisation,
        &[Need::Program("objdump")],
    ),
    (
        "whatever_counters_say_the_program_is_the_same",
        counters::whatever_counters_say_the_program_is_the_same,
        &[],
    ),
    (
        "counters_alone_split_trained_functions",
        split::never_run_blocks_leave_trained_functions,
        &[Need::Program("valgrind"), Need::Program("nm"), Need::Program("objdump")],
    ),
    (
        "whatever_counters_split_the_program_is_the_same",
        split::whatever_never_ran_the_program_is_the_same,
        &[Need::Program("objdump")],
    ),
    (
        "cases_of_other_work_stay",
        untrained::cases_of_other_work_stay,
        &[Need::Program("valgrind"), Need::Program("nm"), Need::Program("objdump")],
    ),
    ("padding_pays", padding::padding_pays, VALGRIND),
    ("exceptions_go_between_parts", tools::exceptions_go_between_parts, VALGRIND),
    ("whatever_jumps_there_are", tools::whatever_jumps_there_are, VALGRIND),
];

/// Tests with every compiler that keeps numbers of statements.
const OF_NUMBERED: &[OfOne] = &[
    ("early_ids_change_nothing_else", early::ids_change_nothing_else, &[]),
    ("early_ids_give_counters", early::recordings_give_counters, VALGRIND),
    ("early_ids_of_inlined_calls", early::inlined_calls_are_counted, VALGRIND),
    (
        "early_ids_of_several_units",
        early::functions_of_several_units_add_up,
        &[Need::Program("valgrind"), Need::Program("objdump")],
    ),
    ("early_ids_of_whatever_functions", early::whatever_functions_get_counters, VALGRIND),
    ("early_ids_by_other_recordings", early::other_recordings_give_the_same, VALGRIND),
    ("early_ids_by_recordings", early::recordings_count_statements, VALGRIND),
    ("early_ids_by_samples", early::samples_give_counters, VALGRIND),
    ("early_ids_by_branch_records", early::branch_records_give_counters, VALGRIND),
    ("early_ids_of_sanitized_units", early::sanitized_units_have_no_ids, &[]),
    ("early_ids_of_forged_maps", early::forged_maps_break_nothing, VALGRIND),
    (
        "mixed_profiles_split_what_was_instrumented",
        together::mixed_profiles_split_what_was_instrumented,
        &[Need::Program("valgrind"), Need::Program("objdump")],
    ),
];

/// Tests with this system's compiler.
const OF_ONE: &[OfOne] = &[
    ("counts_of_a_profile", counts_of_a_profile, &[]),
    ("names_at_the_limit", names_at_the_limit, &[]),
    ("a_tree_with_more_than_the_program", a_tree_with_more_than_the_program, &[]),
    (
        "numbers_reach_the_debug_file",
        maps::numbers_reach_the_debug_file,
        &[
            Need::Program("valgrind"),
            Need::Program("dwz"),
            Need::Program("eu-strip"),
            Need::Program("dh_strip"),
            Need::Program("find-debuginfo"),
        ],
    ),
    (
        "maps_are_of_linked_functions",
        maps::maps_are_of_linked_functions,
        &[Need::Program("ld.gold"), Need::LinkerFolder("lld")],
    ),
    ("damaged_maps_are_errors", maps::damaged_maps_are_errors, &[]),
    ("early_ids_or_a_note", early::others_get_a_note, &[]),
    ("a_folder_of_the_wrapper_has_the_counters", together::a_folder_of_the_wrapper_has_the_counters, &[]),
    (
        "units_of_two_compilers",
        together::units_of_two_compilers,
        &[Need::Program("clang-19"), Need::Program("llvm-profdata-19")],
    ),
    ("unexecuted_functions_become_smaller", cold_size::unexecuted_functions_become_smaller, VALGRIND),
    ("random_counts_change_no_program", generated::random_counts_change_no_program, &[]),
    ("whatever_functions_and_flags", odd::whatever_functions_and_flags, VALGRIND),
    ("few_calls_make_nothing_cold", odd::few_calls_make_nothing_cold, VALGRIND),
    ("small_parts_stay", odd::small_parts_stay, VALGRIND),
    ("locals_of_one_name_with_lto", odd::locals_of_one_name_with_lto, VALGRIND),
    ("clones_with_other_numbers", odd::clones_with_other_numbers, VALGRIND),
    ("merged_ends_stay_hot", odd::merged_ends_stay_hot, VALGRIND),
    ("fortran_is_split", odd::fortran_is_split, &[Need::Program("valgrind"), Need::Program("gfortran")]),
    (
        "scripts_serve_every_language",
        odd::scripts_serve_every_language,
        &[Need::Program("valgrind"), Need::Program("gfortran")],
    ),
    ("another_plugin_beside", odd::another_plugin_beside, VALGRIND),
    ("landing_pads_stay_in_cross_builds", odd::landing_pads_stay_in_cross_builds, CROSS),
    ("parts_may_be_far_apart_in_cross_builds", far::parts_may_be_far_apart_in_cross_builds, CROSS),
    ("counters_split_cross_builds", split::counters_split_cross_builds, CROSS),
    ("counts_serve_cross_builds", blocks::counts_serve_cross_builds, CROSS),
    (
        "debuggers_see_the_callers_of_cold_parts",
        tools::debuggers_see_the_callers_of_cold_parts,
        &[Need::Program("valgrind"), Need::Program("gdb")],
    ),
    (
        "addresses_in_cold_parts_lead_to_lines",
        tools::addresses_in_cold_parts_lead_to_lines,
        &[Need::Program("valgrind"), Need::Program("addr2line"), Need::Program("eu-addr2line")],
    ),
    (
        "profilers_name_cold_parts",
        tools::profilers_name_cold_parts,
        &[Need::Program("valgrind"), Need::Program("perf")],
    ),
    ("unwinders_pass_cold_parts", tools::unwinders_pass_cold_parts, VALGRIND),
    ("targets_in_cold_parts_have_marks", tools::targets_in_cold_parts_have_marks, CROSS),
    ("verify_tells_what_was_split", blocks::verify_tells_what_was_split, VALGRIND),
    ("verify_tells_why_functions_stay_whole", whole::verify_tells_why_functions_stay_whole, VALGRIND),
    ("counts_that_were_not_read", whole::counts_that_were_not_read, VALGRIND),
    ("cold_parts_lie_behind_by_a_script", whole::cold_parts_by_a_script, VALGRIND),
    (
        "cold_parts_lie_behind_by_gold",
        whole::cold_parts_by_gold,
        &[Need::Program("valgrind"), Need::Program("nm"), Need::Program("ld.gold")],
    ),
    (
        "cold_parts_lie_behind_by_lld",
        whole::cold_parts_by_lld,
        &[Need::Program("valgrind"), Need::Program("nm"), Need::LinkerFolder("lld")],
    ),
    (
        "cold_parts_lie_behind_by_gnu_ld",
        whole::cold_parts_by_gnu_ld,
        &[Need::Program("valgrind"), Need::Program("nm"), Need::LinkerFolder("gnu-ld-2.44")],
    ),
    ("sources_tell_of_the_same_blocks", blocks::sources_tell_of_the_same_blocks, VALGRIND),
    (
        "samples_tell_what_is_hot",
        blocks::samples_tell_what_is_hot,
        &[Need::SharedData("hardware/cycles.perf.data"), Need::SharedData("hardware/callgrind.blocks.out")],
    ),
    ("recordings_count_blocks", recorded::recordings_count_blocks, VALGRIND),
    ("branch_records_tell_of_blocks", recorded::branch_records_tell_of_blocks, VALGRIND),
    ("sampled_addresses_tell_of_blocks", recorded::sampled_addresses_tell_of_blocks, VALGRIND),
    (
        "a_unit_reads_its_part_of_the_counts",
        parts::a_unit_reads_its_part_of_the_counts,
        &[Need::Program("valgrind"), Need::Program("strace")],
    ),
    ("functions_have_the_size_of_their_hot_part", parts::functions_have_the_size_of_their_hot_part, VALGRIND),
    ("fortran", fortran, &[Need::Program("gfortran")]),
    ("parallel_make_and_one_folder", parallel_make_and_one_folder, &[]),
    ("ccache_keeps_no_graph_unless_told_to_compile", ccache, &[Need::Program("ccache")]),
    ("a_plugin_of_another_gcc_is_a_note", of_another_gcc, COMPILERS[2].needs),
];

/// Tests with several compilers that a new compiler must pass in every run: whether the plugin works, and leaves
/// objects unchanged.
const WITH_OTHERS: &[&str] = &[
    "units_become_a_profile_of_the_program",
    "objects_stay_the_same",
    "numbers_of_blocks_change_nothing_else",
    "blocks_that_did_not_run_are_split_off",
    "whatever_counts_say_the_program_is_the_same",
    "whatever_counters_say_the_program_is_the_same",
    "counters_alone_split_trained_functions",
];

fn is_short(compiler: &Compiler, test: &str) -> bool {
    match compiler.name {
        "gcc" => true,
        "gcc-14" => WITH_OTHERS.contains(&test),
        _ => false,
    }
}

/// A test with a compiler, which counts as long if a shorter one shows the same.
fn of_compiler(
    compiler: &'static Compiler,
    test: &str,
    needs: &[Need],
    is_short: bool,
    run: fn(&'static Compiler),
) -> Trial {
    let (name, needs) = (format!("{}_{test}", compiler.name), [compiler.needs, needs].concat());
    if is_short {
        case(&name, &needs, move || run(compiler))
    } else {
        long(&name, &needs, move || run(compiler))
    }
}

pub(crate) fn cases() -> Vec<Trial> {
    let of_all = COMPILERS.iter().flat_map(|compiler| {
        OF_ALL
            .iter()
            .map(move |(name, test)| of_compiler(compiler, name, &[], is_short(compiler, name), *test))
    });
    let native = COMPILERS.iter().filter(|compiler| !compiler.name.starts_with("aarch64"));
    let of_native = native.flat_map(|compiler| {
        let case =
            |(name, test, needs): &OfOne| of_compiler(compiler, name, needs, is_short(compiler, name), *test);
        OF_NATIVE.iter().map(case)
    });
    let numbered = COMPILERS.iter().filter(|compiler| early::COMPILERS.contains(&compiler.name));
    let of_numbered = numbered.flat_map(|compiler| {
        let case = |(name, test, needs): &OfOne| {
            of_compiler(compiler, name, needs, compiler.name == "gcc-14", *test)
        };
        OF_NUMBERED.iter().map(case)
    });
    let of_one = OF_ONE.iter().map(|(name, test, needs)| {
        let needs = [COMPILERS[0].needs, needs].concat();
        case(name, &needs, move || test(&COMPILERS[0]))
    });
    // It is in Fedora, but in no package of Debian.
    let annocheck = match support::program("annocheck") {
        None => support::ignored("annocheck_says_the_same", "annocheck is not installed"),
        Some(_) => {
            let needs = [COMPILERS[0].needs, VALGRIND].concat();
            case("annocheck_says_the_same", &needs, || parts::annocheck_says_the_same(&COMPILERS[0]))
        }
    };
    of_all.chain(of_native).chain(of_numbered).chain(of_one).chain([annocheck]).collect()
}

fn sources(compiler: &Compiler) -> TempDir {
    let folder = compiler.folder();
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

/// With another compiler than this system's it takes long, because it is the first test that needs the plugin, which is
/// compiled for it.
fn units_become_a_profile_of_the_program(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    gcc.run(folder.path(), gcc.c, &["-O2", "-ffunction-sections", &plugin, "-c", "main.c", "other.c"]);
    gcc.run(folder.path(), gcc.c, &["main.o", "other.o", "-o", "program"]);
    let unit = read(&folder, "main.c.gv");
    has(&unit, &["\"local\" [file=\"main.c\", taken=1]", "\"main\" [heat=startup, entry=1]", "heat=cold"]);
    has(&unit, &["\"main\" -> \"local\" [label=0.000000, static=", "kind=direct]"]);
    has(&unit, &["\"main\" -> \"twist\" [label=0.000000, static=1.000000, kind=direct]"]);
    assert!(!unit.contains("inlined"), "{unit}");
    let imported = sediment(folder.path(), &["-v", "import", ".", "--binary", "program", "-o", "p.gv"]);
    has(&err(&imported), &[" 2 of 2 units ", " 7 functions "]);
    assert!(!err(&imported).contains("skipped"), "{}", err(&imported));
    let profile = read(&folder, "p.gv");
    has(&profile, &["\"local@program:main.c\" -> \"twist\"", "\"twist\" -> \"local@program:other.c\""]);
    let shown = done(&sediment(folder.path(), &["show", "p.gv"]));
    has(&shown, &["    1.00  main [program]\n", "static call graph only"]);
    // It may be the first profile that a package keeps, and does not count as a recording there.
    let begun = done(&sediment(folder.path(), &["merge", "--into", "kept.gv", "p.gv"]));
    has(&begun, &["  now           0 recordings"]);
    let order = sediment(folder.path(), &["-v", "order", "p.gv", "--binary", "program", "--linker", "list"]);
    has(&err(&order), &["estimates", "for example local\n"]);
    assert_eq!(err(&order).matches("sediment: warning: ").count(), 1, "{}", err(&order));
    let order = done(&order);
    let place = |name: &str| order.lines().position(|line| line == name).unwrap();
    assert!(place("local") < place("fail"), "{order}");
}

fn virtual_calls_templates_thunks_and_other_names(gcc: &Compiler) {
    let folder = sources(gcc);
    gcc.run(folder.path(), gcc.cxx, &["-O2", &gcc.plugin(), "-c", "classes.cc"]);
    let unit = read(&folder, "classes.cc.gv");
    has(&unit, &["\"_Z3sumP4Disci\" -> \"_ZN4Disc4areaEi\"", "\"_Z3sumP4Disci\" -> \"_Z5twiceIiET_S0_\""]);
    let line =
        |beginning: &str| unit.lines().find(|line| line.trim().starts_with(beginning)).unwrap_or_default();
    has(line("\"_Z3anyP5Shape\" -> \"_ZN4Disc4areaEi\""), &["kind=indirect"]);
    has(line("\"_ZThn8_N4Both4nameEv\" -> "), &["\"_ZN4Both4nameEv\"", "kind=thunk"]);
    has(line("\"_ZN4BothC1Ev\""), &["alias=\"_ZN4BothC2Ev\""]);
}

fn link_time_optimisation(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    for fat in ["-fno-fat-lto-objects", "-ffat-lto-objects"] {
        gcc.run(folder.path(), gcc.c, &["-O2", "-flto", fat, &plugin, "-c", "main.c", "other.c"]);
        has(&read(&folder, "other.c.gv"), &["\"twist\" -> \"local\""]);
        gcc.run(folder.path(), gcc.c, &["-O2", "-flto", &plugin, "main.o", "other.o", "-o", "program"]);
        let whole = read(&folder, "program.wpa.gv");
        has(&whole, &["gcc call graph of the program", "\"local@:main.c\" -> \"local@:other.c\""]);
        for name in ["other.c.gv", "program.wpa.gv"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
    // In one partition there is no other phase, and its name varies.
    let link = |more: &[&str]| {
        gcc.run(folder.path(), gcc.c, &[&["-O2", "-flto", &plugin], more].concat());
    };
    link(&["-flto-partition=none", "main.o", "other.o", "-o", "program"]);
    has(
        &read(&folder, "program.wpa.gv"),
        &["gcc call graph of the program", "\"main\" [heat=startup, entry=1]"],
    );
    let graphs = |folder: &TempDir| {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.ends_with(".gv"))
            .collect::<Vec<_>>()
    };
    std::fs::remove_file(folder.path().join("main.c.gv")).unwrap();
    assert_eq!(graphs(&folder), ["program.wpa.gv"]);
    std::fs::remove_file(folder.path().join("program.wpa.gv")).unwrap();
    // A graph whose object goes into another link is used there.
    link(&["-r", "main.o", "other.o", "-o", "both.o"]);
    assert!(graphs(&folder).is_empty());
}

/// A path that cannot be a file name in one folder; a file name that a profile cannot hold; a method called `main`.
fn names_at_the_limit(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    let deep = ["a", "b", "c"].map(|name| name.repeat(100)).join("/");
    let graphs = folder.path().join("graphs");
    for new in [&folder.path().join(&deep), &graphs] {
        std::fs::create_dir_all(new).unwrap();
    }
    let object = format!("{deep}/other.o");
    let argument = format!("-fplugin-arg-sediment-folder={}", graphs.display());
    let output = gcc.run(folder.path(), gcc.c, &["-O2", &plugin, &argument, "-c", "other.c", "-o", &object]);
    assert_eq!(err(&output), "");
    let names: Vec<_> = std::fs::read_dir(&graphs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() == 1 && names[0].to_string_lossy().ends_with("c#other.c.gv"), "{names:?}");
    std::fs::write(folder.path().join("q\"x.c"), OTHER).unwrap();
    let output = gcc.run(folder.path(), gcc.c, &["-O2", &plugin, "-c", "q\"x.c"]);
    has(&err(&output), &["skipped 2 functions or calls"]);
    has(&read(&folder, "q\"x.c.gv"), &["\"twist\""]);
    std::fs::write(
        folder.path().join("m.cc"),
        "struct App { int main(int); };\nint f(int);\nint App::main(int x) { return f(x); }\n",
    )
    .unwrap();
    gcc.run(folder.path(), gcc.cxx, &["-O2", &plugin, "-c", "m.cc"]);
    assert!(!read(&folder, "m.cc.gv").contains("entry"), "{}", read(&folder, "m.cc.gv"));
}

/// A tree with the remains of configure's last test, and with an invalid object.
fn a_tree_with_more_than_the_program(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    let probe = "int twist(int);\nint main(void) { return twist(1); }\n";
    std::fs::write(folder.path().join("conftest.c"), probe).unwrap();
    std::fs::write(folder.path().join("broken.o"), b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0broken")
        .unwrap();
    let unused = format!("{MAIN}int local_too(int x) {{ return local(x); }}\n");
    std::fs::write(folder.path().join("main.c"), unused).unwrap();
    gcc.run(
        folder.path(),
        gcc.c,
        &["-O2", "-ffunction-sections", &plugin, "-c", "main.c", "other.c", "conftest.c"],
    );
    gcc.run(folder.path(), gcc.c, &["-Wl,--gc-sections", "main.o", "other.o", "-o", "program"]);
    let imported = sediment(folder.path(), &["-v", "import", ".", "--binary", "program", "-o", "p.gv"]);
    has(&err(&imported), &[" 2 of 3 units ", " ./broken.o\n", " local_too\n", " ./conftest.c.gv\n"]);
    has(&read(&folder, "p.gv"), &["\"main\" -> \"local@program:main.c\""]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let none = sediment(folder.path(), &["import", "empty", "--binary", "program"]);
    assert!(!none.status.success(), "{}", err(&none));
    has(&err(&none), &["empty: ", "-fcallgraph-info"]);
    gcc.run(folder.path(), gcc.c, &["-s", "-rdynamic", "main.o", "other.o", "-o", "stripped"]);
    let stripped = sediment(folder.path(), &["-v", "import", ".", "--binary", "stripped", "-o", "s.gv"]);
    // The output of one import may be in the tree of the next.
    has(&err(&stripped), &[" 2 of 3 units ", " ./p.gv\n", "sediment: warning: stripped "]);
    // A file given by the user is not skipped.
    let named = sediment(folder.path(), &["import", "broken.o", "--binary", "program"]);
    assert!(!named.status.success(), "{}", err(&named));
    has(&err(&named), &["broken.o: "]);
}

fn objects_stay_the_same(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    let lto = ["-O2", "-g", "-flto", "-frandom-seed=1"];
    for flags in [
        &["-O2"][..],
        &["-O2", "-g", "-frecord-gcc-switches"],
        &["-O0"],
        &[&lto[..], &["-fno-fat-lto-objects"]].concat(),
        &[&lto[..], &["-ffat-lto-objects"]].concat(),
    ] {
        let compile = |with: &[&str]| {
            let all = [flags, with, &["-c", "main.c", "-o", "main.o"]].concat();
            gcc.run(folder.path(), gcc.c, &all);
            std::fs::read(folder.path().join("main.o")).unwrap()
        };
        let without = compile(&[]);
        assert!(compile(&[&plugin]) == without, "{flags:?}");
        assert!(
            compile(&[&plugin, "-fplugin-arg-sediment-folder=."]) == without,
            "{flags:?} with an argument"
        );
    }
}

fn counts_of_a_profile(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    gcc.run(folder.path(), gcc.c, &["-O2", "-fprofile-generate", "main.c", "other.c", "-o", "program"]);
    let _ = Command::new("./program").current_dir(folder.path()).status().unwrap();
    gcc.run(folder.path(), gcc.c, &["-O2", "-fprofile-use", &plugin, "-c", "main.c", "-o", "program-main.o"]);
    has(&read(&folder, "program-main.c.gv"), &["\"main\" -> \"local\" [label=", "count=100,", "first="]);
    // The same folder twice gives the same counts once.
    let imported = sediment(folder.path(), &["-v", "import", ".", ".", "--binary", "program", "-o", "p.gv"]);
    has(&err(&imported), &[" 1 of 1 units ", " 203 calls "]);
    has(&read(&folder, "p.gv"), &["count=100,"]);
}

fn fortran(gcc: &Compiler) {
    let folder = sources(gcc);
    let text = "module m\ncontains\n subroutine inner(x)\n real :: x\n call outer(x)\n end subroutine\nend module\n\
                program p\n use m\n real :: y\n call inner(y)\nend program\n";
    std::fs::write(folder.path().join("p.f90"), text).unwrap();
    gcc.run(folder.path(), "gfortran", &["-O1", "-fno-inline", &gcc.plugin(), "-c", "p.f90"]);
    let unit = read(&folder, "p.f90.gv");
    has(
        &unit,
        &["\"MAIN__\" -> \"__m_MOD_inner\"", "\"__m_MOD_inner\" -> \"outer_\"", "\"main\" -> \"MAIN__\""],
    );
}

/// A call graph if GCC reads its source from a pipe, or writes its output to one.
fn pipes_and_standard_streams(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    let whole = "\"twist\" -> \"local\"";
    let written = |name: &str| {
        has(&read(&folder, name), &[whole]);
        std::fs::remove_file(folder.path().join(name)).unwrap();
    };
    gcc.run(folder.path(), gcc.c, &["-O2", "-pipe", &plugin, "-c", "other.c"]);
    written("other.c.gv");
    let output = gcc.run(folder.path(), gcc.c, &["-O2", &plugin, "-S", "-o", "-", "other.c"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("twist:"));
    written("other.c.gv");
    for (arguments, name) in [(&["-c", "-o", "x.o"][..], "x.gv"), (&["-S", "-o", "-"], "stdin.gv")] {
        let mut command = gcc.command(folder.path(), gcc.c);
        command.args(["-O2", "-pipe", &plugin, "-x", "c", "-"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(OTHER.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        written(name);
    }
}

/// Many compilers at once, some of the same unit: all files in the folder are complete at any time, and there are no
/// others.
fn parallel_make_and_one_folder(gcc: &Compiler) {
    const UNITS: usize = 12;
    let folder = sources(gcc);
    let mut makefile = String::from("all:");
    for unit in 0..UNITS {
        std::fs::create_dir(folder.path().join(format!("d{unit}"))).unwrap();
        std::fs::write(folder.path().join(format!("d{unit}/other.c")), OTHER).unwrap();
        makefile += &format!(" d{unit}/other.o same{unit}");
    }
    makefile +=
        "\n%.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\nsame%:\n\t$(CC) $(CFLAGS) -c -o d0/other.o d0/other.c\n";
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    std::fs::create_dir(folder.path().join("graphs")).unwrap();
    let graphs = folder.path().join("graphs");
    let flags = format!("CFLAGS=-O1 {}", gcc.plugin());
    let mut make = Command::new("make")
        .args(["-s", "-j8", "CC=gcc", &flags])
        .env("SEDIMENT_GV_DIR", &graphs)
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    let finished = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "gv")).collect::<Vec<_>>()
    };
    loop {
        let ended = make.try_wait().unwrap();
        for path in finished(&graphs) {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.ends_with("}\n"), "{}", path.display());
        }
        if let Some(status) = ended {
            assert!(status.success());
            break;
        }
    }
    assert_eq!(finished(&graphs).len(), UNITS);
    assert_eq!(std::fs::read_dir(&graphs).unwrap().count(), UNITS, "something else was left behind");
    assert!(finished(&folder.path().join("d0")).is_empty());
    // An argument of the plugin takes precedence over the environment.
    let here = format!("-fplugin-arg-sediment-folder={}", folder.path().join("d1").display());
    gcc.run(folder.path(), gcc.c, &[&gcc.plugin(), &here, "-c", "other.c"]);
    assert_eq!(finished(&folder.path().join("d1")).len(), 1);
}

fn ccache(gcc: &Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    let graph = folder.path().join("other.c.gv");
    // The first compilation, one answered from the cache, and one that must not be.
    for (again, written) in [(None, true), (None, false), (Some("1"), true)] {
        let _ = std::fs::remove_file(&graph);
        let mut command = Command::new("ccache");
        command.args(["gcc", "-O2", &plugin, "-c", "other.c"]).current_dir(folder.path());
        command.env("CCACHE_DIR", folder.path().join("store")).env_remove("CCACHE_RECACHE");
        command.envs(again.map(|again| ("CCACHE_RECACHE", again)));
        let output = command.output().unwrap();
        assert!(output.status.success() && folder.path().join("other.o").is_file(), "{}", err(&output));
        assert_eq!(graph.is_file(), written, "{}", err(&output));
    }
}

fn a_problem_is_a_note(gcc: &Compiler) {
    let folder = sources(gcc);
    for (arguments, of_unit) in
        [("-fplugin-arg-sediment-folder=nowhere", "nowhere"), ("-fplugin-arg-sediment-hat=x", "`hat`")]
    {
        let output = gcc
            .command(folder.path(), gcc.c)
            .args(["-O2", "-Werror", &gcc.plugin(), arguments, "-c", "other.c"])
            .output()
            .unwrap();
        assert!(output.status.success() && folder.path().join("other.o").is_file(), "{}", err(&output));
        let said = err(&output);
        assert_eq!(said.matches("note: sediment: ").count(), 1, "{said}");
        assert!(said.contains(of_unit), "{said}");
        std::fs::remove_file(folder.path().join("other.o")).unwrap();
    }
}

/// This system's plugin in the compiler of the Debian 13 tree.
fn of_another_gcc(gcc: &Compiler) {
    let other = COMPILERS.iter().find(|other| matches!(other.runs, CompilerHost::InTree(_))).unwrap();
    let folder = sources(other);
    let plugin = gcc.plugin();
    std::fs::copy(plugin.strip_prefix("-fplugin=").unwrap(), folder.path().join("sediment.so")).unwrap();
    let output = other
        .command(folder.path(), other.c)
        .args(["-O2", "-fplugin=./sediment.so", "-c", "other.c"])
        .output()
        .unwrap();
    let said = err(&output);
    assert!(output.status.success() && folder.path().join("other.o").is_file(), "{said}");
    assert_eq!(said.matches("note: sediment: ").count(), 1, "{said}");
    assert_eq!(said.matches(" GCC ").count(), 2, "both versions: {said}");
}
