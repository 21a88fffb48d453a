// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment export`: a profile as a file that another program reads: a compiler, or a query engine.

use crate::files;
use crate::inputs::{read_profile, rows};
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use sediment::profile::Profile;
use sediment::profile::merge::{Weight, merge};
use sediment::{Error, ErrorCode, Result, blocks, gcov};
use std::path::PathBuf;

/// Write a profile in a format that compilers or query engines read
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Profiles to read, merged with equal weights but for rows; - reads standard input
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// File format
    #[arg(long, value_name = "FORMAT", default_value = "blocks")]
    format: Format,
    /// File to write; - writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Block counts for sediment's GCC plugin (-fplugin-arg-sediment-profile=FILE)
    Blocks,
    /// Basic block sections for clang (-fbasic-block-sections=list=FILE)
    BbSections,
    /// Counters for sediment's GCC plugin (-fplugin-arg-sediment-counters=FILE)
    Counters,
    /// Rows for query engines, JSON lines: sums of them are the merged profile (docs/rows.md)
    Rows,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if matches!(arguments.format, Format::Rows) {
        return write_rows(arguments, ui);
    }
    let profile = merged(&arguments.profiles, ui)?;
    let at_input = |error: Error| error.with_input(files::display(&arguments.profiles[0]));
    let (text, skipped) = match arguments.format {
        Format::Blocks => blocks::counts(&profile),
        Format::BbSections => blocks::clusters(&profile).map_err(at_input)?,
        Format::Counters | Format::Rows => gcov::counters(&profile),
    };
    let kind = if matches!(arguments.format, Format::Counters) { "counters" } else { "blocks" };
    ui.skipped(kind, &skipped);
    if text.lines().nth(1).is_none() {
        let (what, how) = match arguments.format {
            Format::Blocks => ("block counts", of_blocks("-fplugin-arg-sediment-blocks")),
            Format::BbSections => ("block counts of clang", of_blocks("-fbasic-block-address-map")),
            Format::Counters | Format::Rows => ("counters", "compile with -fprofile-generate -ftest-coverage, run the program, and import the folder with its .gcda and .gcno (docs/pgo.md)".to_owned()),
        };
        let why = format!("the profile has no {what}");
        return Err(at_input(Error::new(ErrorCode::NotInProfile, why)).with_hint(how));
    }
    files::write(&arguments.output, text.as_bytes(), ui)
}

/// Rows of each profile, with its number: profiles stay apart, so that a query can select, weigh and add them.
fn write_rows(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let mut text = String::new();
    for (number, path) in arguments.profiles.iter().enumerate() {
        let profile = read_profile(path, ui)?;
        if profile.counters_total > 0 {
            ui.warn(&format!("{}: counters of instrumentation have no rows", files::display(path)));
        }
        let shares = merge(&[(&profile, Weight::ONE)], false);
        let shares = shares.map_err(|error| error.with_input(files::display(path)))?;
        rows::print(&shares, number, &mut text);
    }
    files::write(&arguments.output, text.as_bytes(), ui)
}

/// Hint with the commands that count blocks.
fn of_blocks(flag: &str) -> String {
    format!(
        "compile with {flag}, record with callgrind --dump-instr=yes, import with --blocks and --binary (docs/blocks.md)"
    )
}

/// The profile of one file as it is, or the sum of several.
fn merged(paths: &[PathBuf], ui: &Ui) -> Result<Profile> {
    let profiles = paths.iter().map(|path| read_profile(path, ui)).collect::<Result<Vec<_>>>()?;
    match <[Profile; 1]>::try_from(profiles) {
        Ok([profile]) => Ok(profile),
        Err(profiles) => {
            let inputs: Vec<_> = profiles.iter().map(|profile| (profile, Weight::ONE)).collect();
            merge(&inputs, false)
        }
    }
}
