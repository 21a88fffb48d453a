// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile in, an order for GNU ld out: `cargo run -p sediment-order --example order <program.gv >program.order`.
#![allow(clippy::print_stdout)]

use sediment::link::{linker, placements};
use sediment::order::{self, Request, Selection};
use sediment::profile::text;
use std::error::Error;

/// The linker script that places a profile's functions.
fn order(profile: &[u8]) -> Result<String, Box<dyn Error>> {
    let (profile, _left_out) = text::parse(profile)?;
    let ordering = order::compute(&profile, &Selection::Everything, &Request::default())?;
    let gnu_ld = linker("gnu-ld-script").ok_or("no such linker")?;
    let (placed, _left_out) = placements(&ordering.order, &ordering.built, None, gnu_ld.wants_calls);
    let (script, _left_out) = (gnu_ld.write)(&placed);
    Ok(script)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", order(std::io::read_to_string(std::io::stdin())?.as_bytes())?);
    Ok(())
}

#[test]
fn callees_lie_behind_their_callers() {
    let profile = br#"digraph Callgraph {
  graph [sediment=2, source="example", unit=calls, total=12];
  subgraph cluster0 { graph [label="program"]; "main" [entry=1]; "parse"; "report"; }
  "main" -> "report" [count=1];
  "main" -> "parse" [count=11];
}"#;
    let script = order(profile).unwrap();
    let place = |name| script.find(&format!(".text.{name})")).unwrap_or_else(|| panic!("{name}: {script}"));
    assert!(place("main") < place("parse") && place("parse") < place("report"), "{script}");
}
