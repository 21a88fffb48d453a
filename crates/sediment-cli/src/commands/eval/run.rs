// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval run`: executes a plan.

use super::output::ReportOutput;
use super::{Limits, session};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::plan;
use std::path::{Path, PathBuf};

/// Build, run and analyse the variants of a plan
#[derive(Debug, Args)]
#[command(
    long_about = "Build, run and analyse the variants of a plan.\n\nEvery run is written to a file at once. To continue an interrupted experiment: `sediment eval resume FILE`. To report again: `sediment eval report FILE`. docs/measuring.md describes plans."
)]
pub(crate) struct Arguments {
    /// Plan in TOML
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// File to write the runs to [default: the plan's name with .jsonl]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    report: ReportOutput,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let name = files::display(&arguments.plan);
    let text = String::from_utf8(files::read(&arguments.plan)?).map_err(|_| {
        Error::new(ErrorCode::UnknownFormat, "not a plan: it is not text").with_input(name.clone())
    })?;
    let mut plan = plan::read(&text).map_err(|error| error.with_input(name))?;
    arguments.limits.apply(&mut plan);
    let folder =
        arguments.plan.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let path = arguments.output.clone().unwrap_or_else(|| {
        let stem = arguments.plan.file_stem().unwrap_or(arguments.plan.as_os_str());
        PathBuf::from(stem).with_extension("jsonl")
    });
    let experiment = session::begin(&plan, folder, arguments.limits.seed, &path, ui)?;
    ui.note(&format!("wrote the runs to {}", files::display(&path)));
    arguments.report.print(&experiment, None, ui)
}
