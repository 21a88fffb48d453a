// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment export`: a profile as a file that another program reads.

use crate::files;
use crate::inputs::read_profile;
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use sediment::{Error, Result, blocks};
use std::path::PathBuf;

/// Write a profile as a file that a compiler reads
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The profile; - is standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The kind of file
    #[arg(long, value_name = "FORMAT", default_value = "blocks")]
    format: Format,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Counts of blocks, for sediment's plugin for GCC: -fplugin-arg-sediment-profile=FILE
    Blocks,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    let Format::Blocks = arguments.format;
    let (text, skipped) = blocks::counts(&profile);
    ui.skipped("blocks", &skipped);
    if text.lines().nth(1).is_none() {
        return Err(Error::failed("the profile has no counts of blocks")
            .with_input(files::display(&arguments.profile))
            .with_hint("compile with sediment's plugin for GCC (-fplugin-arg-sediment-blocks), record with valgrind --tool=callgrind --dump-instr=yes, and import with --blocks and that program: docs/blocks.md"));
    }
    files::write(&arguments.output, text.as_bytes(), ui)
}
