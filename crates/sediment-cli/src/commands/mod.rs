// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, one file each, in the order of the work. The original's commands are names of this same program.

mod advise;
mod collect;
mod demo;
mod diff;
mod doctor;
mod draw;
mod eval;
pub(crate) mod import;
mod legacy;
mod manual;
mod merge;
mod order;
mod package;
mod predict;
mod record;
mod renamed;
mod report;
mod rpm_macros;
mod settings;
mod show;
mod split;
mod verify;
mod weights;

use crate::exit::ExitCode;
use crate::ui::Ui;
use clap::error::ContextValue;
use clap::{Parser, Subcommand};
use sediment::Result;
use sediment::order::Selection;
use std::ffi::OsString;
use std::path::Path;

/// Makes native programs start faster, use less memory and miss the instruction TLB less, by reordering their functions at
/// link time from profiles of real use.
#[derive(Debug, Parser)]
#[command(name = "sediment", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 a regression, 4 inconclusive where that was not wanted, 5 below a floor that was set, 6 this machine cannot do it.\n\
The original's commands work too: sediment perf2gv, gv2link, gen_profiles, gen_profile_merge, gen_link_order, make_sediment_rpmmacros, or links of those names to this program."
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Arguments),
    Collect(collect::Arguments),
    Import(import::Arguments),
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
    Eval(eval::Arguments),
    Demo(demo::Arguments),
    Doctor(doctor::Arguments),
    #[command(hide = true)]
    Manual(manual::Arguments),
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: Vec<OsString>, ui: &Ui) -> Result<ExitCode> {
    if let Some((name, rest)) = legacy::called_as(&arguments) {
        return legacy::run(name, rest, ui);
    }
    let program = match Program::try_parse_from(&arguments) {
        Ok(program) => program,
        Err(error) => return usage(&error, ui),
    };
    match program.command {
        Command::Record(arguments) => return record::run(&arguments, ui),
        Command::Collect(arguments) => return collect::run(&arguments, ui),
        Command::Import(arguments) => import::run(&arguments, ui),
        Command::Merge(arguments) => merge::run(&arguments, ui),
        Command::Diff(arguments) => diff::run(&arguments, ui),
        Command::Show(arguments) => show::run(&arguments, ui),
        Command::Draw(arguments) => draw::run(&arguments, ui),
        Command::Split(arguments) => split::run(&arguments, ui),
        Command::Order(arguments) => order::run(&arguments, ui),
        Command::Predict(arguments) => predict::run(&arguments, ui),
        Command::Report(arguments) => report::run(&arguments, ui),
        Command::Verify(arguments) => return verify::run(&arguments, ui),
        Command::Package(arguments) => package::run(&arguments, ui),
        Command::Advise(arguments) => advise::run(&arguments, ui),
        Command::Eval(arguments) => return eval::run(&arguments, ui),
        Command::Demo(arguments) => demo::run(&arguments, ui),
        Command::Doctor(arguments) => doctor::run(&arguments, ui),
        Command::Manual(arguments) => manual::run(&arguments, ui),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Help and version are results; anything else that the parser stops at is a usage error.
fn usage(error: &clap::Error, ui: &Ui) -> Result<ExitCode> {
    if error.use_stderr() {
        let mut text = error.render().to_string();
        // What was typed stays in its line.
        for (_, value) in error.context() {
            if let ContextValue::String(word) = value {
                text = text.replace(word.as_str(), &sediment::escape::terminal(word));
            }
        }
        ui.usage(&text);
        Ok(crate::exit::code(sediment::ErrorKind::Usage))
    } else {
        ui.result(&error.render().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads a profile, says what was left out of it, and names it in errors.
fn read_profile(path: &Path, ui: &Ui) -> Result<sediment::profile::Profile> {
    let name = crate::files::display(path);
    let bytes = crate::files::read(path)?;
    let (profile, losses) =
        sediment::profile::text::parse(&bytes).map_err(|error| error.with_input(name.clone()))?;
    ui.losses(&name, &losses);
    Ok(profile)
}

/// Reads an ELF file with its symbols, from its debug file where it is stripped.
fn read_binary(path: &Path) -> Result<sediment::binary::Binary> {
    read_binary_below(None, path)
}

/// The same, of a file below the root of a system, whose debug files lie there, too.
fn read_binary_below(root: Option<&Path>, path: &Path) -> Result<sediment::binary::Binary> {
    let root = root.map(Path::to_path_buf);
    let files = crate::files::SystemFiles::new(root, std::slice::from_ref(&path.to_path_buf()))?;
    let bytes = crate::files::read(path)?;
    sediment::binary::Binary::parse(&bytes, &files)
        .map_err(|error| error.with_input(crate::files::display(path)))
}

/// Which functions of a profile are meant: those of a binary that is at hand, of a DSO by its label, or all.
fn selection<'a>(
    binary: Option<&'a sediment::binary::Binary>,
    file_name: &'a str,
    dso: Option<&'a str>,
) -> Selection<'a> {
    match (binary, dso) {
        (Some(binary), _) => Selection::Binary { binary, file_name },
        (None, Some(label)) => Selection::Dso(label),
        (None, None) => Selection::Everything,
    }
}

/// Says when functions have names that only people use: no linker will find them.
fn say_what_is_demangled<'a>(names: impl Iterator<Item = &'a str>, ui: &Ui) {
    let demangled: Vec<&str> = names.filter(|name| sediment::binary::names::is_demangled(name)).collect();
    if let Some(example) = demangled.first() {
        ui.note(&format!(
            "{} functions have demangled names, such as {example}: no linker knows a function by them; \
             print or record again with --no-demangle (perf report and script, gprof), --demangle=no (callgrind, uftrace)",
            demangled.len()
        ));
    }
}

/// What a profile cannot tell, and whose program it is of, a line each.
pub(crate) fn what_it_cannot_tell(profile: &sediment::profile::Profile) -> Vec<String> {
    use sediment::profile::knowledge::{interpreter, not_known};
    let several = profile.source.len() > 1;
    let from = |source: Option<String>| match source {
        Some(source) if several => source,
        None if several => "any source".to_owned(),
        _ => "this source".to_owned(),
    };
    let mut lines: Vec<String> = not_known(profile)
        .into_iter()
        .map(|entry| {
            let what: Vec<String> = entry.what.iter().map(|unknown| unknown.to_string()).collect();
            format!("not known from {}: {}", from(entry.source), what.join("; "))
        })
        .collect();
    if let Some(found) = interpreter(profile) {
        // Only for the eye: the quotient of two floats is near enough.
        let share = 100.0 * found.weight.0 as f64 / found.weight.1 as f64;
        let (label, runs) = (&found.label, found.runs);
        lines.push(format!(
            "{share:.0}% of what ran is {label}: you are ordering {label}, not the {runs} program that it ran"
        ));
    }
    lines
}

/// Says which DSOs of a profile look like one library under two names; they are never joined unasked.
fn say_what_looks_alike(profile: &sediment::profile::Profile, ui: &Ui) {
    for (one, other) in sediment::profile::alike::alike(profile) {
        ui.note(&format!("{one} and {other} look like one library; they are kept apart"));
    }
}
