// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--pgo`: levels that are built with counts for a compiler, and the choice between them.

use crate::optimize::pasted::{copy_project, makes, tools};
use crate::optimize::project::{OptimizedProject, code, err};
use libtest_mimic::Trial;
use serde_json::Value;
use support::{Need, case, root};

pub fn cases() -> Vec<Trial> {
    let needs = [
        Need::Program("gcc"),
        Need::Program("g++"),
        Need::Program("make"),
        Need::Program("valgrind"),
        Need::GccPluginHeaders("gcc"),
    ];
    vec![
        case("levels_are_built_and_compared", &needs, levels_are_built_and_compared),
        case("words_of_both_are_the_packages", &[], words_of_both_are_the_packages),
        case(
            "a_missing_plugin_is_said_before_the_build",
            &needs[..3],
            a_missing_plugin_is_said_before_the_build,
        ),
    ]
}

/// Calls that the compiler would not inline without counts, and a path that it assumes to be likely.
pub const WORK: &str = "#include <stdio.h>
static int table[64];
static int often(int x) { int sum = x; for (int j = 0; j < x % 4; j++) sum += table[(x + j) & 63] * 3 + j; return sum; }
__attribute__((noinline)) static int work(int i, int unusual)
{
  int sum = i;
  if (unusual == 0)
    for (int j = 0; j < 8; j++)
      sum += often(j + i) ^ often(j * 3) ^ often(i ^ j);
  return sum + often(i) + often(i + 1);
}
int main(int count, char **words)
{
  unsigned sum = 0;
  for (int i = 0; i < 60000; i++)
    sum += work(i, count);
  printf(\"%u %s\\n\", sum, words[0] ? \"\" : \"nameless\");
  return 0;
}
";

fn project() -> OptimizedProject {
    let makefile = "work: work.o\n\t$(CC) -o $@ work.o\nwork.o: work.c\n\t$(CC) -O2 -g -c work.c\n";
    let files = [("work.c", WORK), ("Makefile", makefile)];
    OptimizedProject::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned()))).with_valgrind()
}

fn levels_are_built_and_compared() {
    let (project, plugin) = (project(), support::plugin::built("gcc").join("sediment.so"));
    let outside = tools(&project, true);
    let before = project.files();
    let plugin = plugin.to_str().unwrap();
    let words =
        ["--pgo", "--gcc-plugin", plugin, "--train", "./work", "--keep-profile", "../kept.gv", "--json"];
    // Measurements on a busy machine must not decide here.
    let shipping = |level: &str| {
        let output = project.run(&[&words[..], &["--ship", level]].concat(), &["make"]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = shipping("counters");
    assert_eq!(project.files(), before, "the tree itself is unchanged");
    let levels = report["levels"].as_array().unwrap();
    let names: Vec<&str> = levels.iter().map(|level| level["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["order", "blocks", "counters", "both"], "{report}");
    let before = report["measured"][0]["simulated"]["instructions"]["before"].as_u64().unwrap();
    let instructions = |name: &str| -> u64 {
        let level = levels.iter().find(|level| level["name"] == name).unwrap();
        assert_eq!(level["not_built"], Value::Null, "{level}");
        level["instructions"].as_u64().unwrap()
    };
    // The compiler makes different code with counters; the linker never does.
    assert_ne!(instructions("counters"), before, "{report}");
    assert_ne!(instructions("both"), before, "{report}");
    // Block counts move code, but do not change it.
    for level in ["order", "blocks"] {
        let changed = instructions(level).abs_diff(before);
        assert!(changed * 1000 < before, "{level}: {report}");
    }
    let seconds = report["build_seconds"].clone();
    let read = |path: &str| std::fs::read(project.path(path)).unwrap();
    let has = [("counters=\"work.c@", ["counters", "both"]), ("blocks=\"", ["blocks", "both"])];
    // Levels are not built again, and the profile of the shipped one has all data that a package needs.
    for shipped in ["order", "blocks", "both", "counters"] {
        let report = shipping(shipped);
        let copy = outside.join(format!("pasted-{shipped}"));
        copy_project(&project.path(""), &copy);
        makes(&copy, &report["recipe"], "make", "work", &project.path(".sediment/result/work"));
        assert_eq!((&report["ship"]["level"], &report["build_seconds"]), (&shipped.into(), &seconds));
        let kept = String::from_utf8(read("../kept.gv")).unwrap();
        assert_eq!(kept.as_bytes(), read(".sediment/result/work.gv"));
        for (attribute, levels) in has {
            assert_eq!(kept.contains(attribute), levels.contains(&shipped), "{shipped}: {kept}");
        }
        let inner = match shipped {
            "order" => ".sediment/after/0/work".to_owned(),
            _ => format!(".sediment/builds/{shipped}/after/0/work"),
        };
        assert!(read(".sediment/result/work") == read(&inner), "{shipped} is shipped");
        assert!(!project.path(".sediment/levels").join(shipped).exists());
        assert!(read(".sediment/levels/before/work") == read(".sediment/before/0/work"));
    }
}

/// A package's compiler gets the same options with which `optimize` measured counters and blocks.
fn words_of_both_are_the_packages() {
    let words = |path: &str, from: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let (_, rest) = text.split_once(from).unwrap();
        let flags = rest.split(['"', ' ', '\n', ',', '\\']).map(str::trim).filter(|word| !word.is_empty());
        flags
            .skip_while(|word| !word.starts_with("-f"))
            .take_while(|word| word.starts_with("-f"))
            .map(str::to_owned)
            .collect()
    };
    let of_package = "`sediment optimize` uses the same options.";
    for (own, package, proof, least) in
        [("const FEWER", of_package, "\nfewer=", 2), ("const LEAN", "-fno-peel-loops \"$@\"", "\nlean=", 5)]
    {
        let own = words("crates/sediment-cli/src/commands/optimize/levels.rs", own);
        assert_eq!(own, words("gcc-plugin/compiler", package));
        assert_eq!(own, words("proofs/lib/builds.sh", proof));
        assert_eq!(own.len(), least, "{own:?}");
    }
}

fn a_missing_plugin_is_said_before_the_build() {
    let project = project();
    let output = project.run(&["--pgo", "--gcc-plugin", "nowhere.so", "--train", "./work"], &["make"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("nowhere.so"), "{}", err(&output));
    assert!(!project.path(".sediment").exists());
    let both = project.run(&["--pgo", "--in-place", "--train", "./work"], &["make"]);
    assert_eq!(code(&both), 2, "{}", err(&both));
}
