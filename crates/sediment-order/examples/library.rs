// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes an order from a profile, and verifies a linked program, with the library only.
//!
//! cargo run --example library -- program.gv program >program.order     # then link with -Wl,-T,program.order
//! cargo run --example library -- program.gv program program.order      # did the linker do it?
#![allow(clippy::print_stdout, clippy::print_stderr)]

use sediment_core::binary::objects::InputObjects;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::{Profile, text};
use sediment_order::link::{self, linker, placements};
use sediment_order::order::{OrderRequest, Selection, compute};
use sediment_order::verify::verify;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Makes the linker script with which GNU ld places the functions of a program.
pub(crate) fn order(profile: &Profile, binary: &Binary, file_name: &str) -> Result<String, Box<dyn Error>> {
    let ordering = compute(profile, &Selection::Binary { binary, file_name }, &OrderRequest::default())?;
    let gnu_ld = linker("gnu-ld-script").ok_or("no such linker")?;
    let (functions, skipped) = placements(&ordering.order, &ordering.built, None, gnu_ld.wants_calls);
    for (reason, tally) in skipped.iter() {
        eprintln!("left out: {} {reason}", tally.items);
    }
    Ok((gnu_ld.write)(&functions).0)
}

/// Counts the functions that are placed as ordered, and gives the reason for each other one.
pub(crate) fn check(
    profile: &Profile,
    binary: &Binary,
    file_name: &str,
    script: &str,
) -> Result<String, Box<dyn Error>> {
    let (_linker, ordered) = link::read(script)?;
    let report = verify(binary, &ordered, Some(profile), file_name, &InputObjects::default())?;
    let mut text = format!("{} of {} functions placed as ordered", report.placed, report.asked);
    for function in &report.misplaced {
        text += &format!("\n{}: {}", function.name, function.reason.code());
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, program, script @ ..] = &arguments[..] else {
        return Err("give a profile and a program".into());
    };
    let (profile, _skipped) = text::parse(&fs::read(profile)?)?;
    let binary = Binary::parse(&fs::read(program)?, &NoFiles)?;
    let file_name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let result = match script.first() {
        None => order(&profile, &binary, &file_name)?,
        Some(script) => check(&profile, &binary, &file_name, &fs::read_to_string(script)?)?,
    };
    println!("{result}");
    Ok(())
}
