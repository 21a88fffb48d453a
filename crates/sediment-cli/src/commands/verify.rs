// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment verify`: what the linker really did with an order.

use crate::ui::Ui;
use clap::Args;
use sediment::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what the linker did with an order
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The linked program or library
    #[arg(value_name = "BINARY")]
    binary: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, _: &Ui) -> Result<ExitCode> {
    let _ = &arguments.binary;
    Ok(ExitCode::SUCCESS)
}
