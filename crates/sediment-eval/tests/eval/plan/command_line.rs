// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the commands of a plan, and of the placeholders in them.

use sediment_eval::plan::{CommandLine, Placeholders};

#[test]
fn placeholders_are_filled_once_and_unknown_ones_stay() {
    let values = Placeholders::default()
        .with("program", "/x y/{seed}")
        .with("seed", "7")
        .with_words("flags", ["-O2".to_owned(), "-D a b".to_owned()]);
    let words = |list: &[&str]| CommandLine::Words(list.iter().map(|s| (*s).to_owned()).collect());
    assert_eq!(
        words(&["cc", "{flags}", "-s{seed}", "{program}", "{\"a\": 1}", "{"]).fill(&values).unwrap(),
        ["cc", "-O2", "-D a b", "-s7", "/x y/{seed}", "{\"a\": 1}", "{"]
    );
    let shell = CommandLine::Shell("cc {flags} {program} | awk '{print $1}'".to_owned());
    assert_eq!(
        shell.fill(&values).unwrap(),
        ["sh", "-c", "cc -O2 '-D a b' '/x y/{seed}' | awk '{print $1}'"]
    );
    assert!(shell.mentions("program") && !shell.mentions("seed"));
    assert!(shell.fill(&values.with("program", "a\nb")).is_err());
}
