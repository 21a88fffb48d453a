// SPDX-License-Identifier: MIT OR Apache-2.0
//! Early ids: from statements numbered before inlining, through a recording of the optimised program, to GCC's own
//! counters.

use crate::compilers::Compiler;
use crate::gcc_plugin::blocks::{MARKS, THROWN, edited, ran};
use crate::gcc_plugin::counters::{COUNTERS, TRAIN, USE, WORK};
use crate::gcc_plugin::recorded::{self, EXECUTIONS_OF_A_RECORD, EXECUTIONS_OF_A_SAMPLE};
use crate::gcc_plugin::{has, read};
use crate::running::{done, err, sediment};
use sediment_core::binary::NoFiles;
use sediment_core::binary::gcc_early_map::EarlyMap;
use std::collections::BTreeMap;
use std::process::Command;
use support::pprof_writer::Form;
use tempfile::TempDir;

const EARLY: &str = "-fplugin-arg-sediment-early-ids";
const MAP: &str = ".debug.sediment_early";
const REMOVE_MAPS: [&str; 4] = ["--remove-section", MAP, "--remove-section", ".debug.sediment_blocks"];
const STRIP: [&str; 3] = ["--strip-debug", "--remove-section", MAP];
const JUMPS: &str = include_str!("jumps.c");

/// Calls that are inlined late, each alone in its block, before and after a longer path.
const INLINED: &str = "#include <stdio.h>
struct list { int size, sum, at[64]; };
__attribute__((noinline, cold)) static void shrink(struct list *list) { puts(\"full\"); list->size /= 2; }
static inline void push(struct list *list, int value)
{
  if (list->size == 64)
    shrink(list);
  list->at[list->size++] = value;
  list->sum = list->sum * 3 ^ value;
  if (list->sum % 7 == 0)
    list->sum += list->at[list->sum & 63 & (list->size - 1)];
}
__attribute__((noinline)) int visit(struct list *list, int i)
{
  if (i % 3)
    push(list, i);
  if (i % 5 == 0)
    push(list, -i);
  return list->sum;
}
int main(void)
{
  struct list list = { 0 };
  unsigned sum = 0;
  for (int i = 0; i < 300; i++)
    sum += visit(&list, i);
  printf(\"%u\\n\", sum);
  return 0;
}
";

/// Compilers whose statements keep their numbers.
pub const COMPILERS: &[&str] = &["gcc-13", "gcc-14", "gcc-15", "gcc-16"];

fn sources(gcc: &Compiler) -> TempDir {
    let folder = gcc.folder();
    for (name, text) in [("work.c", WORK), ("inlined.c", INLINED), ("jumps.c", JUMPS), ("thrown.cc", THROWN)]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn compiler_of(gcc: &Compiler, source: &str) -> &'static str {
    if source.ends_with(".cc") { gcc.cxx } else { gcc.c }
}

/// Counters of a run of the source, built with early ids and further options; the program is `train`, the profile
/// `early.gv`.
pub fn recorded(gcc: &Compiler, folder: &TempDir, source: &str, more: &[&str]) -> String {
    let flags = ["-O2", "-g", "-w", "-static", &gcc.plugin(), EARLY, source, "-o", "train"];
    gcc.run(folder.path(), compiler_of(gcc, source), &[&flags, more].concat());
    let mut valgrind = Command::new("valgrind");
    valgrind.current_dir(folder.path()).args(["--tool=callgrind", "--demangle=no", "--dump-instr=yes"]);
    assert!(
        valgrind.args(["--callgrind-out-file=recorded", "./train"]).output().unwrap().status.code().is_some()
    );
    import(folder, "recorded")
}

/// Counters of a run of the source with GCC's own instrumentation.
fn instrumented(gcc: &Compiler, source: &str) -> String {
    let folder = sources(gcc);
    gcc.run(
        folder.path(),
        compiler_of(gcc, source),
        &[&TRAIN[..], &["-w", "-static", source, "-o", "own"]].concat(),
    );
    let mut own = Command::new(folder.path().join("own"));
    assert!(
        own.env("GCOV_PREFIX", folder.path().join("elsewhere")).output().unwrap().status.code().is_some()
    );
    done(&sediment(folder.path(), &["import", ".", "-o", "own.gv"]));
    done(&sediment(folder.path(), &["export", "own.gv", "--format", "counters", "-o", "counters"]));
    read(&folder, "counters")
}

fn import(folder: &TempDir, recording: &str) -> String {
    let import = ["import", "--blocks", recording, "--binary", "train", "-o", "early.gv"];
    done(&sediment(folder.path(), &import));
    done(&sediment(folder.path(), &["export", "early.gv", "--format", "counters", "-o", "counters"]));
    read(folder, "counters")
}

/// For each function: its unit, checksums, and the counts of its arcs.
fn arcs(counters: &str) -> BTreeMap<String, (String, String)> {
    let line = |line: &str| {
        let [name, _, unit, sums, counts] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let arcs = counts.split(" | ").next().unwrap().trim();
        let unit = unit.strip_prefix("early+").unwrap_or(unit);
        (name.to_owned(), (format!("{unit} {sums}"), arcs.to_owned()))
    };
    counters.lines().skip(1).map(line).collect()
}

/// Only two maps are added. GCC's own split debug information of `jumps.c` varies between runs, and GCC 16 overwrites
/// numbers of statements by numbers of copies; in these cases only code is compared.
pub fn ids_change_nothing_else(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let plugin = gcc.plugin();
    for source in ["work.c", "jumps.c", "thrown.cc"] {
        for debug in ["-g", "-g3", "-g0", "-gsplit-dwarf", "-O3"] {
            let is_other = gcc.name == "gcc-16" || (source == "jumps.c" && debug == "-gsplit-dwarf");
            let edit: &[&str] = if is_other { &STRIP } else { &REMOVE_MAPS };
            let object = |more: &[&str]| edited(gcc, &folder, source, &[&[debug, "-w"], more].concat(), edit);
            let without = object(&[]);
            assert!(without == object(&[&plugin, EARLY]), "{source} {debug}");
            assert!(
                without == object(&[&plugin, EARLY, MARKS]),
                "{source} {debug} with a map of late blocks"
            );
        }
        assert!(!folder.path().join("object.c.gv").exists());
    }
}

/// The graphs equal those of GCC's instrumentation, and exact counts give its counters.
pub fn recordings_give_counters(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let early = arcs(&recorded(gcc, &folder, "work.c", &[MARKS]));
    has(&read(&folder, "early.gv"), &["counters=\"early+work.c@", "blocks=\""]);
    assert_eq!(early, arcs(&instrumented(gcc, "work.c")));
}

/// An inlined call is counted by the code of its callee.
pub fn inlined_calls_are_counted(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let early = recorded(gcc, &folder, "inlined.c", &[]);
    let code = Command::new("objdump").current_dir(folder.path()).args(["-d", "train"]).output().unwrap();
    let code = String::from_utf8_lossy(&code.stdout).into_owned();
    assert!(!code.contains("<push>"), "push was not inlined");
    assert_eq!(arcs(&early), arcs(&instrumented(gcc, "inlined.c")));
}

/// Executions of a function that was inlined in one unit count for another unit's copy.
pub fn functions_of_several_units_add_up(gcc: &'static Compiler) {
    const KEPT: &str = "unsigned (*kept)(unsigned) = work;\n";
    const CALLS: &str = "#include <cstdio>
extern unsigned (*kept)(unsigned);
int main()
{
  unsigned sum = 0;
  for (unsigned i = 0; i < 2000; i++)
    sum += work(i);
  std::printf(\"%u\\n\", sum);
  return kept == nullptr;
}
";
    let work = "inline unsigned work(unsigned x)
{
  if (x % 7 == 0)
    return x * 3;
  for (unsigned i = 0; i < x % 5; i++)
    x = x * 5 ^ i;
  return x;
}
";
    let folder = gcc.folder();
    let plugin = gcc.plugin();
    for (name, text) in [("kept", KEPT), ("calls", CALLS)] {
        std::fs::write(folder.path().join(format!("{name}.cc")), format!("{work}{text}")).unwrap();
    }
    let training = ["-O2", "-g", "-static", &plugin, EARLY, "kept.cc", "calls.cc", "-o", "train"];
    gcc.run(folder.path(), gcc.cxx, &training);
    let mut valgrind = Command::new("valgrind");
    valgrind.current_dir(folder.path()).args(["--tool=callgrind", "--demangle=no", "--dump-instr=yes"]);
    done(&valgrind.args(["--callgrind-out-file=recorded", "./train"]).output().unwrap());
    let counters = import(&folder, "recorded");
    let of_kept = |line: &&str| line.starts_with("_Z4workj\t") && line.contains("early+kept.cc@");
    assert!(counters.lines().any(|line| of_kept(&line) && line.ends_with("\t0*2")), "{counters}");
    // Without the other unit's counts the function would look as if it never ran.
    let is_cold = |counters: &str| {
        std::fs::write(folder.path().join("counters"), counters).unwrap();
        let flags = USE.iter().copied().filter(|flag| *flag != "-fprofile-partial-training");
        let more = [&*plugin, COUNTERS, "-ffunction-sections", "-c", "kept.cc", "-o", "kept.o"];
        gcc.run(folder.path(), gcc.cxx, &flags.chain(more).collect::<Vec<_>>());
        let sections =
            Command::new("objdump").current_dir(folder.path()).args(["-h", "kept.o"]).output().unwrap();
        String::from_utf8_lossy(&sections.stdout).contains(".text.unlikely._Z4workj")
    };
    let alone: Vec<&str> =
        counters.lines().filter(|line| !line.starts_with("_Z4workj\t") || of_kept(line)).collect();
    assert!(is_cold(&format!("{}\n", alone.join("\n"))));
    assert!(!is_cold(&counters));
}

/// Computed jumps, setjmp, nested functions, exceptions: the graphs are GCC's, and the counters match them.
pub fn whatever_functions_get_counters(gcc: &'static Compiler) {
    let folder = sources(gcc);
    for source in ["jumps.c", "thrown.cc"] {
        let early = arcs(&recorded(gcc, &folder, source, &[]));
        let compiler = compiler_of(gcc, source);
        let own = arcs(&instrumented(gcc, source));
        let both: Vec<_> = early.iter().filter_map(|(name, one)| Some((name, one, own.get(name)?))).collect();
        assert!(both.len() > 3, "{early:?} {own:?}");
        // The checksum of a unit depends on its list of functions, which for C++ differs from GCC's; the checksums of
        // graphs must not differ.
        let sums = |of: &(String, String)| of.0.split(' ').next_back().unwrap().to_owned();
        // Some functions of the C++ library also differ, and are compiled without counters.
        for (name, early, own) in both.into_iter().filter(|(name, ..)| !name.contains("St")) {
            assert_eq!(sums(early), sums(own), "{source}: {name}");
        }
        let plugin = gcc.plugin();
        let program = [&USE[..], &["-w", &plugin, COUNTERS, "-static", source, "-o", "used"]].concat();
        let used = gcc.run(folder.path(), compiler, &program);
        assert!(!err(&used).contains("have changed"), "{}", err(&used));
        assert_eq!(ran(&folder, "used", &[]), ran(&folder, "train", &[]), "{source}");
    }
}

/// Lackey gives the same counts as callgrind.
pub fn other_recordings_give_the_same(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let exact = arcs(&recorded(gcc, &folder, "work.c", &[]));
    let lackey =
        ["--tool=lackey", "--trace-superblocks=yes", "--vex-guest-chase=no", "--vex-iropt-unroll-thresh=0"];
    let logged = ["--trace-sched=yes", "-v", "-v", "--log-file=log", "./train"];
    assert!(Command::new("valgrind").current_dir(folder.path()).args(lackey).args(logged).output().is_ok());
    let by_log = arcs(&import(&folder, "log"));
    assert_eq!(by_log["step"], exact["step"]);
    assert_eq!(by_log["rare"], exact["rare"]);
}

/// `record --blocks` counts code with only the map of statements.
pub fn recordings_count_statements(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let flags = ["-O2", "-g", "-w", "-static", &gcc.plugin(), EARLY, "work.c", "-o", "train"];
    gcc.run(folder.path(), gcc.c, &flags);
    let record = ["record", "--method", "valgrind", "--blocks", "-o", "b.gv", "--", "./train"];
    let recorded = sediment(folder.path(), &record);
    assert_eq!((recorded.stdout, recorded.status.code()), ran(&folder, "train", &[]));
    let profile = read(&folder, "b.gv");
    assert!(!profile.contains("blocks=\""), "there is no map of blocks: {profile}");
    done(&sediment(folder.path(), &["export", "b.gv", "--format", "counters", "-o", "counters"]));
    let (found, own) = (arcs(&read(&folder, "counters")), arcs(&instrumented(gcc, "work.c")));
    let executed = |of: &BTreeMap<String, (String, String)>| {
        let is_executed = |counts: &str| counts.split(' ').any(|count| !matches!(count, "0" | "" | "|"));
        let ran = of.iter().filter(|(_, (_, counts))| is_executed(counts));
        ran.map(|(name, (sums, _))| (name.clone(), sums.clone())).collect::<Vec<_>>()
    };
    assert_eq!(executed(&found), executed(&own), "{found:?} {own:?}");
}

/// The counts of arcs, one by one.
fn counts(arcs: &str) -> Vec<u64> {
    let run = |run: &str| {
        let (count, times) = run.split_once('*').unwrap_or((run, "1"));
        vec![count.parse().unwrap(); times.parse().unwrap()]
    };
    arcs.split(' ').flat_map(run).collect()
}

/// Frequently executed code has samples, and arcs that are never taken have none.
pub fn samples_give_counters(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let exact = arcs(&recorded(gcc, &folder, "work.c", &[]));
    let bytes = recorded::sampled(&folder).encode(Form { gzip: true, ..Form::default() });
    std::fs::write(folder.path().join("cpu.pb.gz"), bytes).unwrap();
    let sampled = arcs(&import(&folder, "cpu.pb.gz"));
    for function in ["step", "main"] {
        assert_eq!(sampled[function].0, exact[function].0, "{function}");
        let [sampled, exact] = [&sampled, &exact].map(|all| counts(&all[function].1));
        let often = |count: &u64| *count >= EXECUTIONS_OF_A_SAMPLE;
        assert!(exact.iter().any(often), "{function}: {exact:?}");
        let fits = |(sampled, exact): (&u64, &u64)| if *sampled > 0 { *exact > 0 } else { !often(exact) };
        let all_fit = sampled.iter().zip(&exact).all(fits);
        assert!(all_fit && sampled.len() == exact.len(), "{function}: {sampled:?} {exact:?}");
    }
    // Too few samples give no information about a function.
    assert!(!sampled.contains_key("rare"), "{sampled:?}");
    by_counters_the_same(gcc, &folder);
}

pub fn branch_records_give_counters(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let exact = arcs(&recorded(gcc, &folder, "work.c", &[]));
    let map =
        EarlyMap::read(&std::fs::read(folder.path().join("train")).unwrap(), &NoFiles).unwrap().unwrap();
    recorded::write_branch_records(
        &folder,
        map.code.iter().map(|code| code.address..code.address + code.size),
    );
    let recorded = arcs(&import(&folder, "perf.data"));
    for function in ["step", "main"] {
        assert_eq!(recorded[function].0, exact[function].0, "{function}");
        let [recorded, exact] = [&recorded, &exact].map(|all| counts(&all[function].1));
        let is_near = |(recorded, exact): (&u64, &u64)| {
            (recorded * EXECUTIONS_OF_A_RECORD).abs_diff(*exact) <= 2 * EXECUTIONS_OF_A_RECORD
        };
        let same = recorded.len() == exact.len() && recorded.iter().zip(&exact).all(is_near);
        assert!(same, "{function}: {recorded:?} {exact:?}");
    }
    by_counters_the_same(gcc, &folder);
}

/// A program compiled with the counters behaves like the recorded one.
fn by_counters_the_same(gcc: &Compiler, folder: &TempDir) {
    let plugin = gcc.plugin();
    let program = [&USE[..], &[&plugin, COUNTERS, "-static", "work.c", "-o", "used"]].concat();
    let used = gcc.run(folder.path(), gcc.c, &program);
    assert!(!err(&used).contains("have changed"), "{}", err(&used));
    assert_eq!(ran(folder, "used", &[]), ran(folder, "train", &[]));
}

/// A map with any change is an error, or gives counters that make no program incorrect.
pub fn forged_maps_break_nothing(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c", &[]);
    let expected = ran(&folder, "train", &[]);
    let objcopy = |arguments: &[&str]| {
        assert!(
            Command::new("objcopy").current_dir(folder.path()).args(arguments).status().unwrap().success()
        );
    };
    objcopy(&["--dump-section", &format!("{MAP}=map"), "train"]);
    let map = std::fs::read(folder.path().join("map")).unwrap();
    let with = |map: &[u8]| {
        std::fs::write(folder.path().join("map"), map).unwrap();
        objcopy(&["--update-section", &format!("{MAP}=map"), "train"]);
        EarlyMap::read(&std::fs::read(folder.path().join("train")).unwrap(), &NoFiles)
    };
    let whole = with(&map).unwrap().unwrap();
    assert_eq!(whole.units.len(), 1);
    assert!(whole.code.iter().any(|code| code.statements.len() > 3), "{whole:?}");
    let statements = || whole.code.iter().flat_map(|code| &code.statements);
    assert!(statements().any(|one| one.is_firm) && statements().any(|one| !one.is_firm), "{whole:?}");
    assert!(with(&map[..map.len() - 1]).is_err());
    assert!(with(&[&map[..], &[3]].concat()).unwrap_err().to_string().contains("version 3"));
    let mut applied = 0;
    for place in (1..map.len()).step_by(map.len() / 60) {
        let mut changed = map.clone();
        changed[place] = changed[place].wrapping_mul(7).wrapping_add(3);
        if with(&changed).is_err() {
            continue;
        }
        let import = ["import", "--blocks", "recorded", "--binary", "train", "-o", "early.gv"];
        let export = ["export", "early.gv", "--format", "counters", "-o", "counters"];
        // Without the unit's record there are no counters.
        if !sediment(folder.path(), &import).status.success()
            || !sediment(folder.path(), &export).status.success()
        {
            continue;
        }
        let plugin = gcc.plugin();
        let flags = [&USE[..], &[&plugin, COUNTERS, "-static", "work.c", "-o", "used"]].concat();
        gcc.run(folder.path(), gcc.c, &flags);
        assert_eq!(ran(&folder, "used", &[]), expected, "{place}");
        applied += 1;
    }
    assert!(applied > 10, "{applied}");
}

/// Numbered statements would change the checks of sanitizers.
pub fn sanitized_units_have_no_ids(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let source = "#include <map>
#include <string>
#include <vector>
int main()
{
  std::map<std::string, int> names;
  std::vector<int> numbers;
  for (int i = 0; i < 50; i++)
    numbers.push_back(names[std::to_string(i)] += i);
  return numbers.size() == 50 ? 0 : names.size();
}
";
    std::fs::write(folder.path().join("checked.cc"), source).unwrap();
    let object = |more: &[&str]| {
        let flags = ["-O2", "-g", "-w", "-fsanitize=undefined", "-c", "checked.cc", "-o", "checked.o"];
        let output = gcc.run(folder.path(), gcc.cxx, &[&flags[..], more].concat());
        (std::fs::read(folder.path().join("checked.o")).unwrap(), err(&output))
    };
    let ((without, _), (with, note)) = (object(&[]), object(&[&gcc.plugin(), EARLY]));
    assert!(without == with, "another object");
    assert!(note.contains("early map"), "{note}");
}

/// With another compiler, or with -flto, the object is unchanged, and a note reports it.
pub fn others_get_a_note(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let version = gcc.run(folder.path(), gcc.c, &["-dumpversion"]);
    let is_older = String::from_utf8_lossy(&version.stdout).trim().starts_with("12");
    let flags: &[&str] = if is_older { &["-O2"] } else { &["-O2", "-flto", "-ffat-lto-objects"] };
    let output = gcc.run(folder.path(), gcc.c, &[flags, &[&gcc.plugin(), EARLY, "-c", "work.c"]].concat());
    assert!(err(&output).contains("early map"), "{}", err(&output));
    let sections =
        Command::new("readelf").current_dir(folder.path()).args(["-SW", "work.o"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&sections.stdout).contains(MAP));
}
