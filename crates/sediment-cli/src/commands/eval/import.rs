// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval import`: what other tools measured.

use super::output::Output;
use super::session;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment::escape::toml;
use sediment::{Error, ErrorKind, Result};
use sediment_eval::plan;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Judge what other tools measured
#[derive(Debug, Args)]
#[command(long_about = "Judge what other tools measured.\n\n\
Each argument is NAME=FILE; the first name is the baseline, and a name may have several files. Read are `perf stat` text, -x, and -j, \
hyperfine's JSON, the output of Go's benchmarks, and plain numbers, one on a line; which it is shows in the content. What a tool \
kept as mean and deviation alone is judged unpaired.")]
pub(crate) struct Arguments {
    /// A variant's name and a file of it
    #[arg(value_name = "NAME=FILE", required = true)]
    files: Vec<String>,
    /// The metric that decides
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Difference below which builds count as equivalent, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "1")]
    margin: f64,
    /// More is better of this metric
    #[arg(long, value_name = "METRIC")]
    higher: Vec<String>,
    /// Where the experiment is kept
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    report: Output,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let mut variants: Vec<(&str, Vec<&str>)> = Vec::new();
    for argument in &arguments.files {
        let (name, file) = argument
            .split_once('=')
            .ok_or_else(|| usage(format!("{argument}: write NAME=FILE, such as O2=o2.txt")))?;
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
