// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment demo`: the whole line on a generated program.

use crate::ui::Ui;
use clap::Args;
use sediment::Result;

/// Run the whole line on a generated program
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments, _: &Ui) -> Result<()> {
    Ok(())
}
