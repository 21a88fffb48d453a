// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment advise inline`: lists the calls worth inlining by hand.

mod output;

use crate::files::{self, SystemFiles};
use crate::inputs::read_profile;
use crate::ui::Ui;
use crate::values;
use clap::{Args, Subcommand};
use output::AdviseOutput;
use sediment_core::binary::Binary;
use sediment_core::binary::source_lines::{SourceLine, SourceLines};
use sediment_core::demangle::demangled;
use sediment_core::profile::FunctionKey;
use sediment_core::{Error, Result, escape};
use sediment_order::advise::compiler_notes::CompilerNotes;
use sediment_order::advise::experiment::{self, AdviceExperiment};
use sediment_order::advise::inline::{self, Advice, AdvisedProgram, InlineCandidate};
use std::fmt::Write;
use std::path::PathBuf;

/// Report what else a profile shows about a program
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    about: About,
}

#[derive(Debug, Subcommand)]
enum About {
    Inline(Inline),
}

/// List the calls worth inlining by hand
#[derive(Debug, Args)]
#[command(
    long_about = "List the calls worth inlining by hand: call counts, the largest possible saving, obstacles, and the change to make.\n\nThe saving is an upper bound: the instructions of the call itself as a share of all instructions. Callgrind profiles have instruction counts; other profiles rank calls by their share of all calls.\n\nMeasure before you decide: --emit-plan writes the experiment for `sediment eval`."
)]
struct Inline {
    /// Profile to read; - reads standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Recorded program or library, preferably with debug information
    #[arg(long, value_name = "PROGRAM")]
    binary: PathBuf,
    /// Output of the build with -fopt-info-inline-missed, for the compiler's reasons [default: none]
    #[arg(long, value_name = "FILE")]
    compiler_notes: Option<PathBuf>,
    /// Smallest saving to list, in per cent of all instructions (of all calls if instructions are not counted), 0 to 100
    #[arg(long, value_name = "PERCENT", default_value = "0.1", value_parser = values::least)]
    least: f64,
    /// Largest callee to list, in bytes; callees with nearly all calls from one call site may be larger
    #[arg(long, value_name = "BYTES", default_value_t = inline::InlineThresholds::default().largest_callee, value_parser = values::bytes)]
    largest: u64,
    /// Number of calls to list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// Write an experiment for `sediment eval` that compares this advice with LTO, a link order and -O levels [default: none]
    #[arg(long, value_name = "FILE")]
    emit_plan: Option<PathBuf>,
    /// Shell command that builds the program in the plan; uses {flags} and {output}
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "emit_plan",
        default_value = "cc {flags} -o {output} *.c"
    )]
    build: String,
    /// Shell command that the plan measures; uses {program}
    #[arg(long, value_name = "COMMAND", requires = "emit_plan", default_value = "{program}")]
    run: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let About::Inline(arguments) = &arguments.about;
    let profile = read_profile(&arguments.profile, ui)?;
    let name = files::display(&arguments.binary);
    let bytes = files::read(&arguments.binary)?;
    let system = SystemFiles::new(None, std::slice::from_ref(&arguments.binary))?;
    let of_binary = |error: Error| error.with_input(name.clone());
    let binary = Binary::parse(&bytes, &system).map_err(of_binary)?;
    let lines = SourceLines::read(&bytes, &system).map_err(of_binary)?;
    let notes = match &arguments.compiler_notes {
        Some(path) => CompilerNotes::find(&String::from_utf8_lossy(&files::read(path)?)),
        None => CompilerNotes::default(),
    };
    let file_name = files::base_name(&arguments.binary);
    let program = AdvisedProgram {
        bytes: &bytes,
        binary: &binary,
        file_name: &file_name,
        lines: lines.as_ref(),
        notes: &notes,
    };
    let settings =
        inline::InlineThresholds { least_saving: arguments.least, largest_callee: arguments.largest };
    let advice = inline::advise(&profile, &program, &settings)?;
    if !advice.has_lines {
        ui.warn(&format!(
            "{name} has no debug information, so source lines and units are unknown: build with -g, or install its debug symbols"
        ));
    }
    if let Some(path) = &arguments.emit_plan {
        let (build, run) = (arguments.build.as_str(), arguments.run.as_str());
        let experiment = AdviceExperiment { program: &file_name, build, run, inlined: arguments.top };
        files::write(path, experiment::plan(&advice, &experiment).as_bytes(), ui)?;
    }
    if arguments.json {
        ui.json(&AdviseOutput::new(&advice, arguments.top))
    } else {
        ui.result(&text(&advice, arguments.top))
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn spelled(key: &FunctionKey) -> String {
    match &key.file {
        Some(file) => format!("{} ({file})", demangled(&key.name)),
        None => demangled(&key.name).into_owned(),
    }
}

fn text(advice: &Advice, top: usize) -> String {
    let mut text = String::new();
    let of_what = if advice.instructions.is_some() { "instructions" } else { "calls" };
    if advice.candidates.is_empty() {
        let best = advice.others.iter().find(|c| !c.obstacles.iter().any(|o| o.forbids()));
        let best = best.or(advice.others.first()).map_or(0.0, InlineCandidate::weight);
        let _ = writeln!(
            text,
            "Nothing worth inlining by hand: the best candidate accounts for {} of all {of_what}.",
            percent(best)
        );
    } else {
        let cumulative = advice.cumulative();
        let verb = if advice.instructions.is_some() { "save at most" } else { "are" };
        let curve: Vec<String> = [1, 3, 10, 30, cumulative.len()]
            .into_iter()
            .filter(|n| *n <= cumulative.len())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(|n| format!("first {n}: {}", percent(cumulative[n - 1])))
            .collect();
        let count = advice.candidates.len();
        let calls = if count == 1 { "call is" } else { "calls are" };
        let _ = writeln!(
            text,
            "{count} {calls} worth a look. Added up, they {verb} these shares of all {of_what}: {}.",
            curve.join("; ")
        );
        let _ = writeln!(
            text,
            "This is an upper bound: build both variants and compare them with `sediment eval`.\n"
        );
        for (rank, candidate) in advice.candidates.iter().take(top).enumerate() {
            describe(&mut text, rank + 1, candidate);
        }
    }
    let refused: Vec<&InlineCandidate> = advice.others.iter().take(top).collect();
    if !refused.is_empty() {
        let _ = writeln!(text, "Skipped, heaviest first:");
        for candidate in refused {
            let _ = writeln!(
                text,
                "  {:>8}  {} -> {}: {}",
                percent(candidate.weight()),
                spelled(&candidate.caller),
                spelled(&candidate.callee),
                why_not(candidate)
            );
        }
    }
    text
}

fn why_not(candidate: &InlineCandidate) -> String {
    let forbidding: Vec<&str> =
        candidate.obstacles.iter().filter(|o| o.forbids()).map(|o| o.words()).collect();
    if !forbidding.is_empty() {
        forbidding.join("; ")
    } else if candidate.size == 0 {
        "unknown size".to_owned()
    } else {
        format!("{} bytes, too large for the gain", candidate.size)
    }
}

fn describe(text: &mut String, rank: usize, candidate: &InlineCandidate) {
    let _ = writeln!(text, "{rank}. {} -> {}", spelled(&candidate.caller), spelled(&candidate.callee));
    let saving = candidate.saving.map_or_else(String::new, |saving| {
        format!("; saves at most {} of all instructions", percent(saving))
    });
    let _ = writeln!(
        text,
        "   calls       {} ({} of all calls, {} of the calls to this callee){saving}",
        candidate.calls,
        percent(candidate.share),
        percent(candidate.share_of_callee)
    );
    let sites = match candidate.sites {
        Some(1) => "1 call site".to_owned(),
        Some(count) => format!("{count} call sites"),
        None => "unknown number of call sites on this architecture".to_owned(),
    };
    let _ = writeln!(
        text,
        "   size        {} bytes, {} instructions per call; {sites}; code growth at most {:+} bytes",
        candidate.size, candidate.instructions_per_call, candidate.growth
    );
    let list = |lines: &[SourceLine]| lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(definition) = &candidate.definition {
        let called = if candidate.lines.is_empty() {
            String::new()
        } else {
            format!("; called at {}", list(&candidate.lines))
        };
        let _ = writeln!(text, "   defined     {}{called}", escape::terminal(&definition.to_string()));
    }
    if !candidate.obstacles.is_empty() {
        let words: Vec<&str> = candidate.obstacles.iter().map(|obstacle| obstacle.words()).collect();
        let _ = writeln!(text, "   obstacle    {}", words.join("; "));
    }
    if let Some(reason) = &candidate.compiler_reason {
        let _ = writeln!(text, "   compiler    {}", escape::terminal(reason));
    }
    let _ = writeln!(text, "   change      {}\n", candidate.change);
}
