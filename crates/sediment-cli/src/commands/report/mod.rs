// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment report` draws layouts before and after, with their measurements, in one HTML file. `program` collects the
//! data on each program.

mod date;
mod found;
mod program;

use crate::commands::eval;
use crate::files;
use crate::inputs::{self, read_binary, read_profile};
use crate::output::WrittenOutput;
use crate::ui::Ui;
use clap::Args;
use program::{ReportInputs, gathered};
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::report::{TlbMisses, tlb_misses};
use sediment_order::report::layout::{self, LayoutReport, MeasuredMisses};
use std::path::PathBuf;

/// Draw a program's layout before and after ordering
#[derive(Debug, Args)]
#[command(
    long_about = "Draw a program's layout before and after ordering.\n\nWrites a self-contained HTML file. It shows the pages that hold the calls, the heat of every page of code, and functions with their callers and callees. It also shows first uses, and the profiled code by library and object file. The file needs no network. Its script adds search and selection; the pictures and tables work without it.\n\nBy default the layout after ordering is a prediction, for the order that `sediment order` computes. --order predicts the layout for an ordering file. --after shows a program that is already linked with an order, and refuses a program that has few of the profiled functions; with --order, the report also shows the share that is placed as ordered."
)]
pub(crate) struct Arguments {
    /// Profile to read
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Program or library linked without an order; repeatable, for several in one report
    #[arg(long, value_name = "PROGRAM", required = true)]
    binary: Vec<PathBuf>,
    /// The same file linked with an order; as often as --binary, in the same order [default: none]
    #[arg(long, value_name = "PROGRAM")]
    after: Vec<PathBuf>,
    /// Ordering file of any linker; as often as --binary, in the same order [default: computed as by `sediment order`]
    #[arg(long, value_name = "FILE")]
    order: Vec<PathBuf>,
    /// Experiment file of `sediment eval`, to show its verdict and measured misses [default: none]
    #[arg(long, value_name = "FILE")]
    eval: Option<PathBuf>,
    /// HTML file to write; - writes to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Also write the pages before and after to this SVG file [default: none]
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Verdict to show, such as a measured one [default: the verdict of the forecast]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    verdict: Option<String>,
    /// Line to add to the section about the report; repeatable [default: none]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Vec<String>,
    /// Number of heaviest pages to draw function by function
    #[arg(long, value_name = "COUNT", default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pages: u16,
    /// Print JSON; needs --output FILE
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    for (option, given) in [("--after", &arguments.after), ("--order", &arguments.order)] {
        if !given.is_empty() && given.len() != arguments.binary.len() {
            return Err(Error::new(
                ErrorCode::Usage,
                format!(
                    "{option} is given {}, --binary {}",
                    counted(given.len(), "time"),
                    counted(arguments.binary.len(), "time")
                ),
            )
            .with_hint(format!("give {option} once for each --binary, in the same order")));
        }
    }
    let is_the_same = |picture: &PathBuf| {
        let both = [picture, &arguments.output];
        picture == &arguments.output || both.iter().all(|path| files::is_standard_output(path))
    };
    if arguments.picture.as_ref().is_some_and(is_the_same) {
        return Err(Error::new(ErrorCode::Usage, "--output and --picture name the same file")
            .with_hint("give each a file of its own"));
    }
    if arguments.json {
        let mut outputs = std::iter::once(&arguments.output).chain(&arguments.picture);
        outputs.try_for_each(|path| inputs::expect_file_for_json(true, path))?;
    }
    let date = date::today()?;
    let profile = read_profile(&arguments.profile, ui)?;
    let profile_name = files::display(&arguments.profile);
    let binaries = arguments.binary.iter().map(|path| read_binary(path)).collect::<Result<Vec<_>>>()?;
    let afters = arguments.after.iter().map(|path| read_binary(path)).collect::<Result<Vec<_>>>()?;
    let mut programs = Vec::new();
    for (at, binary) in binaries.iter().enumerate() {
        programs.push(gathered(
            &ReportInputs {
                profile: &profile,
                profile_name: &profile_name,
                path: &arguments.binary[at],
                binary,
                after: afters.get(at).zip(arguments.after.get(at).map(PathBuf::as_path)),
                order: arguments.order.get(at).map(PathBuf::as_path),
                verdict: arguments.verdict.as_deref(),
            },
            ui,
        )?);
    }
    let experiment = arguments.eval.as_ref().map(|path| eval::analysed(path, ui)).transpose()?;
    let names: Vec<String> = arguments.binary.iter().map(|path| files::base_name(path)).collect();
    let report = LayoutReport {
        title: names.join(", "),
        programs,
        measured: experiment.as_ref().and_then(|(_, analysis)| {
            let TlbMisses { ratio, is_simulated } = tlb_misses(analysis)?;
            Some(MeasuredMisses { ratio, is_simulated })
        }),
        time: experiment
            .as_ref()
            .and_then(|(_, analysis)| Some(analysis.workloads.first()?.recommendation.clone())),
        evaluation: experiment
            .as_ref()
            .map(|(experiment, analysis)| sediment_eval::report::html_section(experiment, analysis)),
        notes: notes(arguments, &profile, &date),
        date,
        most_pages: usize::from(arguments.pages),
    };
    files::write(&arguments.output, layout::html(&report).as_bytes(), ui)?;
    if let Some(path) = &arguments.picture {
        files::write(path, layout::picture(&report).as_bytes(), ui)?;
    }
    if arguments.json {
        let written = std::iter::once(&arguments.output).chain(&arguments.picture);
        ui.json(&WrittenOutput::new(written.map(PathBuf::as_path), ui.skipped_items()))?;
    }
    Ok(())
}

/// Returns sentences on how the report was made.
fn notes(arguments: &Arguments, profile: &sediment_core::profile::Profile, date: &str) -> Vec<String> {
    let source: Vec<&str> = profile.source.iter().map(String::as_str).collect();
    let mut command = format!("sediment report {}", files::base_name(&arguments.profile));
    let options = [
        ("binary", &arguments.binary),
        ("after", &arguments.after),
        ("order", &arguments.order),
        ("eval", &arguments.eval.iter().cloned().collect()),
    ];
    for (option, paths) in options {
        for path in paths {
            command += &format!(" --{option} {}", files::base_name(path));
        }
    }
    let spread = match profile.blocks_total {
        0 => {
            "The calls of a function are spread evenly over its bytes, because the profile counts functions, not bytes."
        }
        _ => {
            "The calls of a function are spread evenly over its bytes. Only the table of hot and cold parts uses block counts."
        }
    };
    let mut notes = arguments.note.clone();
    notes.extend([
        format!(
            "Call counts are from the profile {}, recorded by {}.",
            files::base_name(&arguments.profile),
            if source.is_empty() { "an unknown recorder".to_owned() } else { source.join(", ") }
        ),
        format!("{spread} Predicted layouts were not linked. Predicted misses are an estimate by a model of a TLB with 64 entries."),
        format!("Made by sediment {} on {date}: {command}.", env!("CARGO_PKG_VERSION")),
    ]);
    notes
}
