// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of numbers in the output of programs.

use sediment_eval::plan::Extraction;

#[test]
fn numbers_are_found_by_pattern_and_pointer() {
    let pattern = Extraction::pattern("^done: ([0-9,.]+)$").unwrap();
    assert_eq!(pattern.numbers("x\ndone: 1,200\ny\ndone: 3.5\n").unwrap(), [1200.0, 3.5]);
    let nothing = pattern.numbers("nothing").unwrap_err().to_string();
    assert!(nothing.contains("^done: ([0-9,.]+)$"), "{nothing}");
    let pointer = Extraction::pointer("/runs/0/count").unwrap();
    assert_eq!(pointer.numbers("{\"runs\": [{\"count\": 12}]}").unwrap(), [12.0]);
    assert_eq!(pointer.numbers("log\n{\"runs\": [{\"count\": \"7\"}]}\n").unwrap(), [7.0]);
    assert!(pointer.numbers("{\"runs\": [{\"count\": [1]}]}").is_err());
    assert_eq!(Extraction::Known(400.0).numbers("").unwrap(), [400.0]);
}

#[test]
fn an_expression_needs_a_group() {
    assert!(Extraction::pattern("[0-9]+").unwrap_err().to_string().contains("no group"));
    assert!(Extraction::pattern("(").is_err());
    assert!(Extraction::pointer("runs").is_err());
}
