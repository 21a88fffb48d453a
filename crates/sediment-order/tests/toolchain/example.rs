// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the library's example on a real program: computes its order, links it in that order, and checks it.

#[path = "../../examples/library.rs"]
#[allow(dead_code)] // it has a main
mod library;

use libtest_mimic::Trial;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::text;
use std::process::Command;
use support::{Need, case};

const PROGRAM: &str = "\
__attribute__((noinline)) int report(int x) { return x + 1; }\n\
__attribute__((noinline)) int seldom(int x) { return x * 3; }\n\
__attribute__((noinline)) int parse(int x) { return x - 1; }\n\
int main(int n, char **v) { int sum = n > 9 ? seldom(n) : 0; for (int i = 0; i < 11; i++) sum += parse(i); return report(sum) == 45 ? 0 : 1; }\n";

const PROFILE: &[u8] = br#"digraph Callgraph {
  graph [sediment=2, source="example", unit=calls, total=12];
  subgraph cluster0 { graph [label="program"]; "main" [entry=1]; "parse"; "report"; }
  "main" -> "report" [count=1];
  "main" -> "parse" [count=11];
}"#;

pub(crate) fn cases() -> Vec<Trial> {
    vec![case("the example of the library orders and checks a program", &[Need::Program("cc")], || {
        let folder = tempfile::tempdir().unwrap();
        let (profile, _skipped) = text::parse(PROFILE).unwrap();
        std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
        let link = |more: &[&str]| {
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-ffunction-sections", "-o", "program", "program.c"]).args(more);
            let ended = compiler.current_dir(folder.path()).output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            Binary::parse(&std::fs::read(folder.path().join("program")).unwrap(), &NoFiles).unwrap()
        };
        let before = link(&[]);
        let script = library::order(&profile, &before, "program").unwrap();
        std::fs::write(folder.path().join("program.order"), &script).unwrap();
        let ordered = link(&["-Wl,-T,program.order"]);
        let verdict = |binary: &Binary| library::check(&profile, binary, "program", &script).unwrap();
        assert!(verdict(&ordered).starts_with("3 of 3 "), "{}", verdict(&ordered));
        assert!(!verdict(&before).starts_with("3 of 3 "), "{}", verdict(&before));
        assert!(Command::new(folder.path().join("program")).status().unwrap().success());
    })]
}
