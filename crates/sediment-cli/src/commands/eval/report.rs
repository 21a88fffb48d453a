// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval report`: what an experiment shows.

use super::output::Output;
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment::{Error, Result};
use sediment_eval::run::journal;
use sediment_eval::{Experiment, Phase};
use std::path::{Path, PathBuf};

/// Report on an experiment, or on what there is of it
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file of the experiment
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the report to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    report: Output,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let experiment = read(&arguments.file, ui)?;
    arguments.report.print(&experiment, arguments.output.as_ref(), ui)
}

/// Reads the file of an experiment; says when its last line was torn.
pub(super) fn read(path: &Path, ui: &Ui) -> Result<Experiment> {
    let name = files::display(path);
    let bytes = files::read_regular(path)?;
    let recorded = journal::read(&bytes).map_err(|error| error.with_input(name.clone()))?;
    if recorded.whole < bytes.len() {
        ui.note(&format!("{name}: the last line was torn and is left out"));
    }
    let experiment = recorded.experiment;
    let measured = experiment.observations.iter().any(|run| run.phase == Phase::Measured);
    if !measured && experiment.summaries.is_empty() {
        return Err(Error::failed("there are no runs yet")
            .with_input(name)
            .with_hint(format!("go on with it: sediment eval resume {}", path.display())));
    }
    Ok(experiment)
}
