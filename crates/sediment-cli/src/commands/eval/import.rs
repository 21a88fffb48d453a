// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval import`: measurements of other tools.

use super::output::ReportOutput;
use super::session;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::escape::toml;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::plan;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Analyse measurements of other tools
#[derive(Debug, Args)]
#[command(
    long_about = "Analyse measurements of other tools.\n\nEach argument is NAME=FILE. The first name is the baseline; a name may have several files. Reads `perf stat` text, -x and -j, hyperfine's JSON, Go benchmarks, and plain numbers, one per line. The content decides the format. Files that contain only a mean and a deviation are compared unpaired."
)]
pub(crate) struct Arguments {
    /// Variant name and a file of its measurements
    #[arg(value_name = "NAME=FILE", required = true)]
    files: Vec<String>,
    /// Metric that decides [default: elapsed]
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Largest difference that counts as equivalent, in per cent, above 0 and below 100
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "1")]
    margin: f64,
    /// Metric that is better when higher; repeatable [default: none]
    #[arg(long, value_name = "METRIC")]
    higher: Vec<String>,
    /// Experiment file to write [default: none]
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOutput,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let usage = |message: String| Error::new(ErrorCode::Usage, message);
    let mut variants: Vec<(&str, Vec<&str>)> = Vec::new();
    for argument in &arguments.files {
        let (name, file) = argument
            .split_once('=')
            .ok_or_else(|| usage(format!("{argument}: expected NAME=FILE, for example O2=o2.txt")))?;
        match variants.iter_mut().find(|(other, _)| *other == name) {
            Some((_, files)) => files.push(file),
            None => variants.push((name, vec![file])),
        }
    }
    let mut text = format!("sediment-eval = 1\nmargin = {:?}\n", arguments.margin);
    if let Some(primary) = &arguments.primary {
        let _ = writeln!(text, "primary = {}", toml(primary));
    }
    for (name, _) in &variants {
        let _ = write!(text, "\n[[variant]]\nname = {}\n", toml(name));
    }
    for metric in &arguments.higher {
        let _ = write!(text, "\n[[metric]]\nname = {}\nbetter = \"higher\"\n", toml(metric));
    }
    text += "\n[[workload]]\nname = \"import\"\n[workload.import]\n";
    for (name, files) in &variants {
        let list: Vec<String> = files.iter().map(|file| toml(file)).collect();
        let _ = writeln!(text, "{} = [{}]", toml(name), list.join(", "));
    }
    let plan = plan::read(&text).map_err(|error| usage(error.to_string()))?;
    let experiment = session::begin(&plan, Path::new("."), None, &arguments.output, ui)?;
    arguments.report.print(&experiment, None, ui)
}
