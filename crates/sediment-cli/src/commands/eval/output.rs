// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format and destination of an experiment's report.

use crate::files;
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use sediment_core::Result;
use sediment_eval::report::{self as report, STYLES, Style};
use sediment_eval::{Analysis, Experiment, analyse};
use std::path::PathBuf;

/// Format of a report.
#[derive(Debug, Clone, Args)]
pub(super) struct ReportOutput {
    /// Format of the report [default: terminal, or by the extension of `eval report --output`: .html, .md, .json
    /// or .csv]
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
    /// Print JSON, the same as --format json
    #[arg(long, conflicts_with_all = ["format", "style"])]
    json: bool,
    /// Print a table in the style of published comparisons instead: {} [default: none]
    #[arg(long, value_name = "STYLE", value_parser = style, conflicts_with = "format", help = style_help())]
    style: Option<Style>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// Text for a terminal: the verdicts; with --verbose all tables
    Terminal,
    /// Markdown for a merge request
    Markdown,
    /// JSON with all figures
    Json,
    /// Figures as comma-separated values
    Csv,
    /// Runs as comma-separated values
    Samples,
    /// Self-contained HTML page
    Html,
}

fn style_help() -> String {
    let names: Vec<&str> = STYLES.iter().map(|(name, _)| *name).collect();
    format!(
        "Print a table in the style of published comparisons instead: {} [default: none]",
        names.join(", ")
    )
}

fn style(text: &str) -> std::result::Result<Style, String> {
    STYLES.iter().find(|(name, _)| *name == text).map(|(_, style)| *style).ok_or_else(|| {
        let names: Vec<&str> = STYLES.iter().map(|(name, _)| *name).collect();
        format!("supported: {}", names.join(", "))
    })
}

impl ReportOutput {
    /// Analyses and prints; writes to a file if one is given.
    pub(super) fn print(&self, experiment: &Experiment, to: Option<&PathBuf>, ui: &Ui) -> Result<()> {
        let analysis = analyse(experiment)?;
        let format = self.format(to);
        let text = self.text(format, experiment, &analysis, ui)?;
        match to {
            Some(path) => files::write(path, text.as_bytes(), ui),
            None if self.style.is_none() && matches!(format, ReportFormat::Json | ReportFormat::Html) => {
                ui.raw_result(text.as_bytes())
            }
            None => ui.result(&text),
        }
    }

    /// Returns the requested format, otherwise the format for the file's extension.
    fn format(&self, to: Option<&PathBuf>) -> ReportFormat {
        let ending = to.and_then(|path| path.extension()?.to_str());
        let by_ending = match ending {
            Some("html" | "htm") => ReportFormat::Html,
            Some("md") => ReportFormat::Markdown,
            Some("json") => ReportFormat::Json,
            Some("csv") => ReportFormat::Csv,
            _ => ReportFormat::Terminal,
        };
        if self.json { ReportFormat::Json } else { self.format.unwrap_or(by_ending) }
    }

    fn text(
        &self,
        format: ReportFormat,
        experiment: &Experiment,
        analysis: &Analysis,
        ui: &Ui,
    ) -> Result<String> {
        if let Some(style) = self.style {
            return report::style(style, experiment, analysis);
        }
        Ok(match format {
            ReportFormat::Terminal if ui.is_verbose() => report::terminal(experiment, analysis),
            ReportFormat::Terminal => report::brief(experiment, analysis),
            ReportFormat::Markdown => report::markdown(experiment, analysis),
            ReportFormat::Json => report::json(experiment, analysis),
            ReportFormat::Csv => report::csv(experiment, analysis),
            ReportFormat::Samples => report::samples_csv(experiment),
            ReportFormat::Html => report::html(experiment, analysis),
        })
    }
}
