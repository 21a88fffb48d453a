// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines, options, macros and variables from the documentation of earlier releases. Each command runs on small
//! inputs and is accepted, or is refused with an error that names the replacement; each former spelling has the same
//! effect as the current one.

use crate::running::{code, command, done, err, out, sediment, words};
use std::path::Path;
use std::process::Command;
use support::root;

/// Makes the inputs of the command lines. `cg.out`, `server.gv`, `tool.s` and `traces` come from the transcripts.
const PREPARE: &str = r#"
set -e
mkdir work && cd work
cp ../inputs/* .
cat > tool.c <<'C'
#include <stdio.h>
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int work(int x) { return leaf(x) + leaf(x + 1); }
int main(int count, char **words) { (void)words; for (int i = 0; i < 9; i++) count += work(i); printf("x=%d\n", count); return 0; }
C
sediment import cg.out -o p.gv
mkdir -p build debian/sediment-profiles folder root/usr/bin profiles ld FOLDER
for name in a b both new one two kept recorded program submission transactions reports foo profile NAME; do cp p.gv "$name.gv"; done
sed 's/samples=\([0-9]*\)/samples=\1, first=\1/' p.gv > q.gv
cp p.gv old.gv; cp p.gv FOLDER/; cp p.gv debian/sediment-profiles/foo.gv; cp p.gv ../tinyxml2.gv; cp p.gv profiles/tool.gv
flags='-g -O1 -ffunction-sections'
cc $flags -fcallgraph-info -c tool.c -o build/tool.o
cc build/tool.o -o tool
cc build/tool.o -o program -Wl,-Map=program.map
for name in PROGRAM ELF ordered prog prog.unordered postgres build/program build/foo; do cp program "$name"; done
# In the order of the latest engine, a program this small is as it is linked.
sediment order p.gv --binary tool --engine 2 --linker gnu-ld-script -o order
cp order program.order; cp order old.ld; cp cg.out callgrind.out
ln -s "$(command -v sediment)" ld/ld
PROF_DIR=$PWD/profiles SEDIMENT_LOG=$PWD/log cc -Bld build/tool.o -o tool
cp tool root/usr/bin
printf 'main\nwork\nleaf\nleaf\nwork\nleaf\n' > entries
sediment import entries --format entry-trace --binary tool -o entries.gv --trace run.trace
cp run.trace FILE
printf 'Flat profile:\n' > profile.txt
printf 'gcc build/tool.o -o tool\n' | tee make.log > build.log
printf '#!/bin/sh\necho x=5\n' | tee old new bench make > /dev/null; chmod +x old new bench make
for row in 'o2 5' 'os 6'; do
    printf '\n Performance counter stats for x:\n\n     %s,000      cycles\n\n       1.5 seconds time elapsed\n' "${row#* }" > "${row% *}.txt"
done
cat > plan.toml <<'PLAN'
sediment-eval = 1
[[variant]]
name = "base"
program = "./old"
[[variant]]
name = "other"
program = "./new"
[[workload]]
name = "w"
command = ["{program}"]
PLAN
sediment eval run plan.toml --blocks 6 --format json > /dev/null
"#;

/// Goldens of the readers that represent users' recordings.
const RECORDINGS: &[(&str, &str)] = &[
    ("lackey.out", "lackey/static-program"),
    ("cpu.pb.gz", "pprof/go-processor-time"),
    ("stacks.txt", "perf-stacks/folded-caller"),
    ("branches.txt", "perf-script/branches-by-name-alone"),
    ("replay.txt", "uftrace/error-replay"),
];

/// Beginnings of command lines that are only parsed, and the reason.
const ONLY_PARSED: &[(&str, &str)] = &[
    ("sediment collect", "records a program of an installed package with debug symbols"),
    ("sediment package deb", "changes a source package of Debian; it has tests of its own"),
    ("sediment package rpm", "asks rpm about a spec; it has tests of its own"),
    ("sediment record --pid", "attaches to a process of this machine for a minute"),
    ("sediment record --system", "needs the right to record the whole machine"),
];

/// Beginnings of command lines with an exit code other than 0 here, and the reason.
const ENDS_WITH: &[(&str, i32, &str)] = &[
    ("sediment eval gate plan.jsonl --conclusive", 4, "two equal programs in six blocks are inconclusive"),
    (
        "sediment export program.gv --format blocks",
        1,
        "blocks are numbered by the plugin for GCC, which has tests of its own",
    ),
    (
        "sediment import --blocks recorded",
        1,
        "blocks are numbered by the plugin for GCC, which has tests of its own",
    ),
    (
        "sediment order program.gv --binary ./program --linker list --explain palloc",
        1,
        "the program has no such function",
    ),
    ("sediment import profile.txt", 1, "the text of gprof is no longer read"),
    ("sediment import replay.txt", 1, "the output of uftrace replay is no longer read"),
    ("sediment import lackey.out", 1, "the recorded program is not on this machine"),
    ("sediment verify ./program --order program.order", 5, "the program is linked without the order"),
];

/// Beginnings of removed command lines, and the replacement in the error.
const REFUSED: &[(&str, &str)] = &[
    ("sediment export recorded --binary program --format gcc-sample-", "use `export --format counters`"),
    ("sediment record --format gcc-sample-", "use `export --format counters`"),
    ("sediment record --method breakpoints", "use call-sites"),
    ("sediment order p.gv --linker lld --algorithm ext-tsp", "use cdsort"),
    ("sediment order p.gv --linker lld --algorithm common-first", "use balanced-partitioning"),
    ("sediment order p.gv --linker lld --algorithm neighbours", "use balanced-partitioning"),
    ("sediment order p.gv --linker lld --algorithm hottest", "use auto"),
    ("sediment verify prog --same-as prog.unordered --backtrace", "gdb -batch"),
    ("sediment demo", "sediment optimize"),
];

/// Command lines that need a tool or a permission that may be missing: they may end with 6.
const MAY_BE_UNSUPPORTED: &[&str] =
    &["sediment record ", "sediment eval quick --margin", "sediment verify prog --same-as"];

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for name in ["inputs", "path"] {
        std::fs::create_dir(at.join(name)).unwrap();
    }
    for input in std::fs::read_dir(root().join("tests/golden/cli/inputs")).unwrap() {
        let input = input.unwrap().path();
        std::fs::copy(&input, at.join("inputs").join(input.file_name().unwrap())).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), at.join("path/sediment")).unwrap();
    for (name, golden) in RECORDINGS {
        let golden = root().join("tests/golden/read").join(golden).join("input");
        std::fs::copy(golden, at.join("inputs").join(name)).unwrap();
    }
    let made =
        Command::new("bash").args(["-c", PREPARE]).current_dir(at).env("PATH", path(at)).output().unwrap();
    assert!(made.status.success(), "{}", err(&made));
    folder
}

/// PATH that begins with the program under test.
fn path(folder: &Path) -> String {
    format!("{}:{}", folder.join("path").display(), std::env::var("PATH").unwrap())
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

#[test]
fn former_command_lines_run() {
    let prepared = prepared();
    let list = std::fs::read_to_string(root().join("tests/golden/cli/former-commands.list")).unwrap();
    let mut wrong = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        if ONLY_PARSED.iter().any(|(beginning, _)| line.starts_with(beginning)) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("work");
        copy(&prepared.path().join("work"), &at);
        std::fs::copy(prepared.path().join("tinyxml2.gv"), folder.path().join("tinyxml2.gv")).unwrap();
        let words = words::of_line(line);
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        if line.contains("eval run") {
            std::fs::remove_file(at.join("plan.jsonl")).unwrap();
        }
        let path = format!("{}:{}", at.display(), path(prepared.path()));
        let mut command = command(&at, &arguments);
        if arguments.last() == Some(&"-") {
            command.stdin(std::fs::File::open(at.join("callgrind.out")).unwrap());
        }
        let output = command.env("PATH", path).output().unwrap();
        if code(&output) == 6 && MAY_BE_UNSUPPORTED.iter().any(|beginning| line.starts_with(beginning)) {
            support::skip_on_this_machine(&format!("{line}: {}", err(&output)));
            continue;
        }
        let refused = REFUSED.iter().find(|(beginning, _)| line.starts_with(beginning));
        let expected = ENDS_WITH.iter().find(|(beginning, _, _)| line.starts_with(beginning));
        let expected = expected.map_or(if refused.is_some() { 2 } else { 0 }, |(_, code, _)| *code);
        let names_the_new = refused.is_none_or(|(_, instead)| err(&output).contains(instead));
        if code(&output) != expected || !names_the_new {
            wrong.push(format!("{line}\nexit code {}, not {expected}\n{}", code(&output), err(&output)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The removed options on the page about migration are among the command lines that are run.
#[test]
fn removed_options_are_listed() {
    let list = std::fs::read_to_string(root().join("tests/golden/cli/former-commands.list")).unwrap();
    let page = std::fs::read_to_string(root().join("docs/migration.md")).unwrap();
    let table = page.split("## Removed").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let removed: Vec<&str> =
        rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|span| span.contains(" --")).collect();
    assert!(removed.len() > 7, "{removed:?}");
    for command in removed.iter().filter(|command| !command.starts_with("uftrace ")) {
        let is_it = |line: &&str| command.split(' ').all(|word| line.split(' ').any(|other| other == word));
        assert!(list.lines().any(|line| is_it(&line)), "former-commands.list has no line with {command}");
    }
}

#[test]
fn former_spellings_do_the_same() {
    let prepared = prepared();
    let at = prepared.path().join("work");
    let pairs: &[(&[&str], &[&str])] = &[
        (&["order", "server.gv", "--linker", "lld", "--serve", "steady"], &["--optimize-for", "steady"]),
        (&["order", "server.gv", "--linker", "lld", "--serve", "both"], &["--optimize-for", "both"]),
        (&["order", "server.gv", "--linker", "lld", "--serve", "startup"], &["--optimize-for", "startup"]),
        (&["order", "server.gv", "--linker", "gnu-ld", "--algorithm", "engine"], &["--algorithm", "auto"]),
        (&["predict", "p.gv", "--dso", "tool", "--no-engine"], &["--skip-auto"]),
    ];
    for (former, today) in pairs {
        let same = former.iter().take_while(|word| !["--serve", "--algorithm", "--no-engine"].contains(word));
        let today: Vec<&str> = same.chain(*today).copied().collect();
        let [former, today] = [sediment(&at, former), sediment(&at, &today)];
        done(&former);
        assert_eq!(out(&former), out(&today));
        assert_eq!(err(&former), err(&today));
    }
}

/// The key `serve` of a package's settings, which a linker reads.
#[test]
fn former_keys_of_settings_do_the_same() {
    let prepared = prepared();
    let at = prepared.path().join("work");
    std::fs::remove_file(at.join("profiles/tool.gv")).unwrap();
    std::fs::copy(at.join("server.gv"), at.join("profiles/tool.prof")).unwrap();
    let mut code = String::from("int main(void) { return 0; }\n");
    for number in 0..60 {
        code += &format!("void start{number:02}(void) {{}}\n");
    }
    std::fs::write(at.join("tool.c"), code).unwrap();
    let orders = ["serve = startup", "optimize-for = startup", "optimize-for = steady"].map(|key| {
        std::fs::write(at.join("profiles/sediment.conf"), format!("sediment = 1\n{key}\n")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-ffunction-sections", "-Bld", "tool.c", "-o", "tool", "-Wl,-Map=map"])
            .current_dir(&at);
        cc.env("PROF_DIR", at.join("profiles")).env("SEDIMENT_LOG", at.join("log2"));
        let linked = cc.output().unwrap();
        assert!(linked.status.success(), "{}", err(&linked));
        let log = std::fs::read_to_string(at.join("log2/links.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert_eq!(last["outcome"], "ordered", "{last}");
        std::fs::read_to_string(last["order"].as_str().unwrap()).unwrap()
    });
    assert_eq!(orders[0], orders[1]);
    assert_ne!(orders[0], orders[2]);
}

/// RPM macros that spec files and settings of earlier releases use.
#[test]
fn former_macros_are_there() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let macros = text("dist/rpm/macros.sediment") + &text("dist/rpm/macros.sediment-static");
    for name in [
        "sediment_prep",
        "sediment_check",
        "sediment_graphs_begin",
        "sediment_graphs_end",
        "sediment_release",
        "_sediment_folder",
        "_sediment_graphs",
        "_sediment_linkers",
        "_sediment_plugin",
    ] {
        assert!(macros.contains(name), "{name}");
    }
    if support::program("rpm").is_none() {
        return support::skip("rpm is not installed");
    }
    let least = |definition: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--load").arg(root().join("dist/rpm/macros.sediment")).args(definition);
        done(&rpm.args(["--eval", "%_sediment_min_coverage"]).output().unwrap())
    };
    assert_eq!(least(&[]), "\n");
    assert_eq!(least(&["--define", "_sediment_min_coverage 80"]), "80\n");
    assert_eq!(least(&["--define", "_sediment_floor 80"]), "80\n");
}

/// Variables and debhelper programs that packages of earlier releases use.
#[test]
fn former_variables_and_programs_are_there() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let wrapper = text("crates/sediment-cli/src/wrapper/linker.rs")
        + &text("crates/sediment-cli/src/wrapper/profiles.rs")
        + &text("crates/sediment-cli/src/wrapper/log.rs")
        + &text("crates/sediment-cli/src/wrapper/mod.rs");
    for name in ["PROF_DIR", "SEDIMENT_LOG", "SEDIMENT_LD"] {
        assert!(wrapper.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(text("dist/debian/dh/sediment.pm").contains("SEDIMENT_PLUGIN"));
    for program in ["dh_sediment", "dh_sediment_check", "dh_sediment_graphs", "dh_sediment_link"] {
        assert!(root().join("dist/debian/dh").join(program).is_file(), "{program}");
    }
}
