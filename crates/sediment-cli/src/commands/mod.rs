// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, one file each, in the order in which they are used. Commands of upstream sediment are further names of
//! this program.

mod advise;
mod collect;
mod diff;
mod doctor;
mod draw;
mod eval;
mod export;
mod import;
mod legacy;
mod manual;
mod merge;
mod optimize;
mod order;
mod package;
mod predict;
mod record;
mod report;
mod resolve;
mod show;
mod split;
mod verify;
mod wrapper;

use crate::exit::ExitCode;
use crate::next_steps;
use crate::ui::{Ui, Verbosity};
use clap::error::ContextValue;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use sediment_core::Result;
use std::ffi::OsString;

/// Reorders the functions of native programs at link time, from profiles of real use: faster starts, less memory, fewer
/// instruction TLB misses
#[derive(Debug, Parser)]
#[command(name = "sediment", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 regression, 4 inconclusive (with --conclusive), 5 below a --min-... threshold, 6 not possible on this machine.\nThe commands of upstream sediment work too: sediment perf2gv, gv2link, gen_profiles, gen_profile_merge, gen_link_order, make_sediment_rpmmacros, or links with these names to this program.\nMan pages, and completions for bash, zsh and fish: sediment manual DIR."
)]
struct SedimentProgram {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(subcommand)]
    command: SedimentCommand,
}

#[derive(Debug, Subcommand)]
enum SedimentCommand {
    Optimize(optimize::Arguments),
    Record(record::Arguments),
    Collect(collect::Arguments),
    Import(import::Arguments),
    Resolve(resolve::Arguments),
    Merge(merge::Arguments),
    Diff(diff::Arguments),
    Show(show::Arguments),
    Draw(draw::Arguments),
    Split(split::Arguments),
    Order(order::Arguments),
    Predict(predict::Arguments),
    Report(report::Arguments),
    Verify(verify::Arguments),
    Package(package::Arguments),
    Advise(advise::Arguments),
    Export(export::Arguments),
    Eval(eval::Arguments),
    Wrapper(wrapper::Arguments),
    Doctor(doctor::Arguments),
    Manual(manual::Arguments),
}

/// Runs the command given by the arguments.
pub(crate) fn run(arguments: Vec<OsString>, ui: &Ui) -> Result<ExitCode> {
    if let Some((name, rest)) = legacy::called_as(&arguments) {
        return legacy::run(name, rest, ui);
    }
    let (arguments, command) = match optimize::as_cargo_command(&arguments) {
        Some(words) => (words?, optimize::with_help_for_cargo(SedimentProgram::command())),
        None => (arguments, SedimentProgram::command()),
    };
    let parsed = command.try_get_matches_from(&arguments);
    let program = match parsed.and_then(|mut found| SedimentProgram::from_arg_matches_mut(&mut found)) {
        Ok(program) => program,
        Err(error) => return usage(&error, &arguments, ui),
    };
    ui.set_verbosity(program.verbosity);
    match program.command {
        SedimentCommand::Optimize(arguments) => return optimize::run(&arguments, ui),
        SedimentCommand::Record(arguments) => return record::run(&arguments, ui),
        SedimentCommand::Collect(arguments) => return collect::run(&arguments, ui),
        SedimentCommand::Import(arguments) => import::run(&arguments, ui),
        SedimentCommand::Resolve(arguments) => resolve::run(&arguments, ui),
        SedimentCommand::Merge(arguments) => merge::run(&arguments, ui),
        SedimentCommand::Diff(arguments) => diff::run(&arguments, ui),
        SedimentCommand::Show(arguments) => show::run(&arguments, ui),
        SedimentCommand::Draw(arguments) => draw::run(&arguments, ui),
        SedimentCommand::Split(arguments) => split::run(&arguments, ui),
        SedimentCommand::Order(arguments) => return order::run(&arguments, ui),
        SedimentCommand::Predict(arguments) => return predict::run(&arguments, ui),
        SedimentCommand::Report(arguments) => report::run(&arguments, ui),
        SedimentCommand::Verify(arguments) => return verify::run(&arguments, ui),
        SedimentCommand::Package(arguments) => package::run(&arguments, ui),
        SedimentCommand::Advise(arguments) => advise::run(&arguments, ui),
        SedimentCommand::Export(arguments) => export::run(&arguments, ui),
        SedimentCommand::Eval(arguments) => return eval::run(&arguments, ui),
        SedimentCommand::Wrapper(arguments) => wrapper::run(&arguments, ui),
        SedimentCommand::Doctor(arguments) => doctor::run(&arguments, ui),
        SedimentCommand::Manual(arguments) => manual::run(&arguments, ui),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Help and version are results; any other reason for the parser to stop is a usage error.
fn usage(error: &clap::Error, arguments: &[OsString], ui: &Ui) -> Result<ExitCode> {
    if error.use_stderr() {
        let mut text = error.render().to_string();
        // The user's input must stay on one line.
        for (_, value) in error.context() {
            if let ContextValue::String(word) = value {
                text = text.replace(word.as_str(), &sediment_core::escape::terminal(word));
            }
        }
        if let Some(meant) = next_steps::corrected(arguments, error) {
            let at = text.find("\nUsage:").unwrap_or(text.len());
            text.insert_str(at, &format!("\n  tip: {meant}\n"));
        }
        ui.usage(&text);
        Ok(crate::exit::code(sediment_core::ErrorKind::Usage))
    } else {
        ui.help(&error.render())?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/options.rs"]
mod options;
