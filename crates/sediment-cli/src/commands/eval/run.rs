// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval run`: what a plan says.

use super::output::Output;
use super::{Limits, session};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment::{Error, Result};
use sediment_eval::plan;
use std::path::{Path, PathBuf};

/// Build, run and judge what a plan says
#[derive(Debug, Args)]
#[command(long_about = "Build, run and judge what a plan says.\n\n\
Every run is kept in a file as it is made, beside the folder with the programs that were built; `sediment eval resume FILE` goes on \
with what was broken off, `sediment eval report FILE` reports again. docs/evaluation.md lists what a plan may say.")]
pub(crate) struct Arguments {
    /// The plan, in TOML
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Where the runs are kept; without it, the plan's name with .jsonl
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    report: Output,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let name = files::display(&arguments.plan);
    let text = String::from_utf8(files::read(&arguments.plan)?)
        .map_err(|_| Error::failed("this is no plan: it is not text").with_input(name.clone()))?;
    let mut plan = plan::read(&text).map_err(|error| error.with_input(name))?;
    arguments.limits.apply(&mut plan);
    let folder =
        arguments.plan.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let path = arguments.output.clone().unwrap_or_else(|| {
        let stem = arguments.plan.file_stem().unwrap_or(arguments.plan.as_os_str());
        PathBuf::from(stem).with_extension("jsonl")
    });
    let experiment = session::begin(&plan, folder, arguments.limits.seed, &path, ui)?;
    ui.note(&format!("the runs are kept in {}", files::display(&path)));
    arguments.report.print(&experiment, None, ui)
}
