// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that no recording executed, optimised for size on request.

use super::blocks::{COUNTS, MARKS, ran, record};
use super::split::symbols;
use super::{done, err, read, sediment};
use crate::compilers::Compiler;
use sediment_core::binary::{Binary, NoFiles};

/// Without an argument, only `work` and `main` are executed.
const RECORDED: &str = r#"#include <stdio.h>
int elsewhere(int *), t[64] = { 1, 7, 30, 4 };
#define SPARE { int sum = 0; for (int i = 0; i < 64; i++) sum += t[i] * (i + 3); return sum; }
__attribute__((noipa)) int work(int x) { for (int i = 0; i < 64; i++) x += t[i] ^ i; return x; }
__attribute__((noipa)) int spare(void) SPARE
static __attribute__((noipa)) int local(void) SPARE
__attribute__((noipa, hot)) int by_source(void) SPARE
static inline int inlined(int x) { for (int i = 0; i < 64; i++) x += t[i] * i; return x; }
int (*by_pointer)(int) = inlined;
int main(int count, char **words)
{
  (void) words;
  int sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += work(i) + inlined(i);
  if (count > 1)
    sum += spare() + local() + by_source() + elsewhere(t) + by_pointer(3);
  printf("%d\n", sum);
  return 0;
}
"#;
const OTHER: &str = "__attribute__((noipa)) int elsewhere(int *t) { int sum = 0; for (int i = 0; i < 64; i++) sum += t[i] * (i + 5); return sum; }\n";

/// Promise to users: functions that none of enough recordings executed become smaller, and no other function changes:
/// not those that were not recorded, that are inlined, or that the source calls hot.
pub fn unexecuted_functions_become_smaller(gcc: &'static Compiler) {
    let (folder, plugin) = (gcc.folder(), gcc.plugin());
    std::fs::write(folder.path().join("work.c"), RECORDED).unwrap();
    std::fs::write(folder.path().join("other.c"), OTHER).unwrap();
    let compile = |source: &str, more: &[&str]| {
        let flags = ["-O3", "-g", "-ffunction-sections", "-c", source];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    let link = |program: &str| {
        gcc.run(folder.path(), gcc.c, &["-static", "work.o", "other.o", "-o", program]);
    };
    // Blocks of `elsewhere` have no numbers, as in a library that was not recorded.
    compile("other.c", &[]);
    compile("work.c", &[&plugin, MARKS]);
    link("train");
    let usual = record(&folder, &[]);
    done(&sediment(folder.path(), &["merge", "p.gv", "p.gv", "-o", "two.gv"]));
    let export = |profile: &str, least: &str| {
        let arguments = ["export", profile, "--cold-size", least, "--binary", "train", "-o", "blocks"];
        let output = sediment(folder.path(), &arguments);
        assert!(output.status.success(), "{}", err(&output));
        (read(&folder, "blocks"), err(&output))
    };
    // Too few recordings: the usual file.
    let (counts, said) = export("p.gv", "2");
    assert!(counts == usual && said.contains("fewer than --cold-size 2"), "{said}");
    let build = |counts: &str| {
        std::fs::write(folder.path().join("blocks"), counts).unwrap();
        compile("work.c", &[&plugin, COUNTS, "-fchecking"]);
        compile("other.c", &[&plugin, COUNTS]);
        link("used");
        let bytes = std::fs::read(folder.path().join("used")).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        let size = |name: &str| binary.functions.iter().find(|function| function.name == name).unwrap().size;
        ["spare", "local", "work", "by_source", "inlined", "elsewhere"].map(size)
    };
    let before = build(&usual);
    let expected = [&[][..], &["spare"]].map(|arguments| ran(&folder, "used", arguments));
    let (counts, said) = export("two.gv", "2");
    assert!(said.contains("4 functions"), "{said}");
    let after = build(&counts);
    assert!(2 * after[0] < before[0] && 2 * after[1] < before[1], "{before:?} {after:?}");
    assert_eq!(after[2..4], before[2..4]);
    assert_eq!(after[5], before[5]);
    assert_eq!([&[][..], &["spare"]].map(|arguments| ran(&folder, "used", arguments)), expected);
    compile("work.c", &[&plugin, COUNTS]);
    let section =
        |name: &str| symbols(&folder, "work.o").into_iter().find(|(symbol, _)| symbol == name).unwrap().1;
    assert_eq!(
        (section("spare"), section("work")),
        (".text.unlikely.spare".to_owned(), ".text.work".to_owned())
    );
    // A program that was not recorded has no unexecuted functions.
    let stranger =
        "int aside(int x) { return x; } int (*point)(int) = aside; int strange(void) { return aside(1); }\n";
    std::fs::write(folder.path().join("stranger.c"), stranger).unwrap();
    gcc.run(
        folder.path(),
        gcc.c,
        &["-O2", "-g", "-shared", "-fPIC", "-nostdlib", "stranger.c", "-o", "stranger.so", &plugin, MARKS],
    );
    let refused = sediment(folder.path(), &["export", "p.gv", "--cold-size", "1", "--binary", "stranger.so"]);
    assert!(
        refused.status.code() == Some(1) && err(&refused).starts_with("sediment: stranger.so: "),
        "{}",
        err(&refused)
    );
    // Samples do not show which functions never ran.
    let profile = read(&folder, "p.gv").replace("blocks_unit=executions", "blocks_unit=samples");
    std::fs::write(folder.path().join("samples.gv"), profile).unwrap();
    let refused = sediment(folder.path(), &["export", "samples.gv", "--cold-size", "1", "--binary", "train"]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
}
