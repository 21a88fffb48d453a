// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment verify` checks a linked file against its order. `log` checks a whole build, and `installed` the files of a
//! package. `same` compares with a file linked without the order; `debug_file` does so with packagers' tools.

mod blocks;
mod debug_file;
mod installed;
mod log;
mod objects;
mod output;
mod risks;
mod same;
mod words;

use crate::exit::BELOW_THRESHOLD;
use crate::exit::ExitCode;
use crate::files;
use crate::inputs::{read_binary_below, read_profile, renamed, tell_nameless};
use crate::next_steps;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use output::VerifyOutput;
use sediment_core::binary::objects::InputObjects;
use sediment_core::binary::{Binary, SymbolSource};
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link;
use sediment_order::verify::blocks::BlocksReport;
use sediment_order::verify::{self, VerifyReport};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Check a linked file against its order
#[derive(Debug, Args)]
#[command(
    long_about = "Check a linked file against its order.\n\nPrints the share of the profile's weight in functions that are placed as ordered. Compares the number of pages that hold the ordered functions with the fewest possible. Prints inversions (pairs of functions in reverse order) and the reason for each misplaced function. Verify before stripping, or install the debug file."
)]
pub(crate) struct Arguments {
    /// Linked program or library
    #[arg(value_name = "PROGRAM", required_unless_present = "log")]
    binary: Option<PathBuf>,
    /// Ordering file that PROGRAM was linked with, for any linker (required without --log, --same-as and --blocks)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["log", "same_as", "blocks"], conflicts_with = "log")]
    order: Option<PathBuf>,
    /// The file linked without an order, to compare with; exits with 5 if anything but the order differs
    /// [default: none]
    #[arg(long, value_name = "PROGRAM", requires = "binary")]
    same_as: Option<PathBuf>,
    /// Former option, with the arguments of both programs
    #[arg(long, requires = "same_as", hide = true)]
    backtrace: bool,
    /// Arguments of both programs, for --backtrace
    #[arg(value_name = "ARGUMENT", last = true, requires = "backtrace", hide = true)]
    arguments: Vec<OsString>,
    /// Log folder of the wrapper (SEDIMENT_LOG): verify each output that has a profile. With --same-as: also print
    /// both link times, and the time to compute the order [default: none]
    #[arg(long, value_name = "DIR", conflicts_with = "profile")]
    log: Option<PathBuf>,
    /// With --log: verify the files installed below this folder, with their debug files [default: the files of the build]
    #[arg(long, value_name = "DIR", requires = "log")]
    installed: Option<PathBuf>,
    /// Profile for the weights of functions [default: equal weights]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<PathBuf>,
    /// Count the functions that the compiler split by block counts, and print the share of the recorded weight in cold parts
    #[arg(long, requires = "profile", conflicts_with = "log")]
    blocks: bool,
    /// With --blocks: exit with 5 if more than this share of the recorded weight is in cold parts, in per cent, 0 to 100
    /// [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, requires = "blocks")]
    max_cold: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 5 if less than this share of the weight is placed as ordered, in per cent, 0 to 100 [default: 50, of the
    /// weight of functions that PROGRAM defines; 0 always passes]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    min_coverage: Option<u64>,
    /// With --log: the same threshold, for packages without a threshold in sediment.conf, in per cent, 0 to 100 [default: half of the weight of functions that the file defines]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, requires = "log")]
    default_min_coverage: Option<u64>,
    /// Folder with the objects of the link, which show why functions are misplaced [default: the folder of PROGRAM]
    #[arg(long, value_name = "DIR", conflicts_with = "log")]
    objects: Option<PathBuf>,
    /// Number of misplaced functions to list; 0 lists all [default: those that fit into ten lines; all with -v]
    #[arg(long, value_name = "COUNT")]
    list: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    if arguments.backtrace {
        return Err(Error::new(ErrorCode::Usage, "--backtrace was removed").with_hint(
            "compare what gdb prints for each file: gdb -batch -ex 'break FUNCTION' -ex run -ex backtrace --args PROGRAM ARGUMENT…",
        ));
    }
    if let (Some(folder), None) = (&arguments.log, &arguments.same_as) {
        if arguments.binary.is_some() {
            return Err(Error::new(ErrorCode::Usage, "--log verifies every output: remove PROGRAM")
                .with_hint(
                    "to verify one file: --order FILE; --same-as BASE --log DIR prints how it was linked",
                ));
        }
        return log::run(folder, arguments, ui);
    }
    let Some(path) = &arguments.binary else {
        return Err(Error::new(ErrorCode::Usage, "no PROGRAM given"));
    };
    let mut code = ExitCode::SUCCESS;
    if let Some(order) = &arguments.order {
        let place = LinkedFile { path, root: None, objects: arguments.objects.as_deref() };
        let report = report_on(place, order, arguments.profile.as_deref(), None, ui)?;
        let file_name = files::display_name(path);
        let displaced = risks::displaced(place)?;
        if arguments.json {
            ui.json(&VerifyOutput::new(&report).with_displaced(&displaced))?;
        } else {
            let list = arguments.list.or(ui.is_verbose().then_some(0));
            ui.result(&match list {
                Some(list) => words::whole(&report, &file_name, list),
                None => words::brief(&report, &file_name),
            })?;
        }
        if risks::tell(&displaced, &file_name, ui)
            || below_threshold(&report, &file_name, arguments.min_coverage, ui)
        {
            code = ExitCode::from(BELOW_THRESHOLD);
        } else if report.in_force && report.asked > 0 {
            ui.next(next_steps::after_verify(path));
        }
    }
    if let (true, Some(profile)) = (arguments.blocks, &arguments.profile) {
        if !blocks::run(path, profile, arguments, ui)? {
            code = ExitCode::from(BELOW_THRESHOLD);
        }
    }
    if let Some(base) = &arguments.same_as {
        let request = same::ComparisonRequest { base, other: path, log: arguments.log.as_deref() };
        if !same::run(&request, arguments.json, ui)? {
            code = ExitCode::from(BELOW_THRESHOLD);
        }
    }
    Ok(code)
}

/// Share of the weight that a linked file has placed as ordered, in parts per million.
pub(crate) fn placed(path: &Path, order: &Path, profile: &Profile, ui: &Ui) -> Result<u64> {
    let binary = read_binary_below(None, path)?;
    let mut profile = profile.clone();
    renamed::follow(&mut profile, &binary, path, None, ui)?;
    let asked = asked_for(order)?;
    let objects = InputObjects::default();
    let report = verify::verify(&binary, &asked, Some(&profile), &files::base_name(path), &objects)?;
    Ok(report.placed_parts_per_million)
}

/// Returns functions of a linked file with counted blocks.
pub(crate) fn counted_blocks(path: &Path, binary: &Binary, profile: &Profile) -> Result<BlocksReport> {
    blocks::report_on(path, binary, profile)
}

/// Reads the functions of an ordering file.
fn asked_for(order: &Path) -> Result<Vec<link::OrderedName>> {
    let name = files::display(order);
    let text = String::from_utf8(files::read(order)?).map_err(|_| {
        Error::new(ErrorCode::UnknownFormat, "not an ordering file: it is not text").with_input(name.clone())
    })?;
    match link::lists_no_function(&text) {
        true => Ok(Vec::new()),
        false => Ok(link::read(&text).map_err(|error| error.with_input(name))?.1),
    }
}

/// A linked file, and further places to search.
#[derive(Clone, Copy)]
struct LinkedFile<'a> {
    path: &'a Path,
    /// Root of its system if it is not this one: its debug file is searched there.
    root: Option<&'a Path>,
    /// Folder with its objects; `None` for its own folder.
    objects: Option<&'a Path>,
}

/// Compares a linked file with an order. `known`: known pairs of a function's name in the profile and in the file.
fn report_on(
    place: LinkedFile<'_>,
    order: &Path,
    profile: Option<&Path>,
    known: Option<&[(String, String)]>,
    ui: &Ui,
) -> Result<VerifyReport> {
    let binary = read_binary_below(place.root, place.path)?;
    let path_of_profile = profile;
    let mut profile = profile.map(|path| read_profile(path, ui)).transpose()?;
    if let Some((profile, path)) = profile.as_ref().zip(path_of_profile) {
        tell_nameless(profile, path, "verify checks named functions only", ui);
    }
    if let Some(profile) = &mut profile {
        match known {
            Some(names) => rename(profile, names),
            None => renamed::follow(profile, &binary, place.path, place.root, ui)?,
        }
    }
    let asked = asked_for(order)?;
    let file_name = files::base_name(place.path);
    let verified =
        |objects: &InputObjects| verify::verify(&binary, &asked, profile.as_ref(), &file_name, objects);
    let named = place.objects.map(objects::below).transpose()?;
    let report = verified(named.as_ref().unwrap_or(&InputObjects::default()))?;
    // Many objects take long to read.
    let is_complete = report.misplaced.iter().all(|function| function.line.is_none());
    if named.is_some() || is_complete { Ok(report) } else { verified(&objects::beside(place.path)) }
}

fn rename(profile: &mut Profile, names: &[(String, String)]) {
    let names: HashMap<&str, &str> = names.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
    for function in profile.functions() {
        if let Some(new) = names.get(profile.key(function).name.as_str()) {
            profile.rename(function, new);
        }
    }
}

/// If a smaller share of the file's own weight is placed as ordered, the file is not ordered, whatever the threshold;
/// in parts per million.
const LEAST_OF_DEFINED: u64 = 500_000;

/// True if less is placed than the threshold requires; prints an error then. Without a threshold, functions that the
/// file lacks do not count. An order without functions is always followed.
fn below_threshold(report: &VerifyReport, file_name: &str, threshold: Option<u64>, ui: &Ui) -> bool {
    match threshold {
        _ if report.asked == 0 => false,
        Some(threshold) => is_below(report.placed_parts_per_million, file_name, "", threshold, ui),
        None if report.as_linked_without => {
            let placed = as_percent(report.placed_of_found_parts_per_million());
            let text = format!(
                "{file_name}: not ordered: {placed} of the weight that it defines is placed as ordered, but would be without the order, too"
            );
            let hint = "to accept this share: --min-coverage PERCENT; 0 always passes";
            ui.error(&Error::new(ErrorCode::BelowThreshold, text).with_hint(hint));
            true
        }
        None if report.symbols_from == SymbolSource::DynamicSymbols
            && report.weight_found < report.weight / 2 =>
        {
            let text = format!(
                "{file_name} is stripped: its exported functions have less than half of the weight, too little to check the order"
            );
            let hint =
                "verify it before stripping, or install its debug file; --min-coverage 0 always passes";
            ui.error(&Error::new(ErrorCode::Stripped, text).with_hint(hint));
            true
        }
        None => {
            let placed = report.placed_of_found_parts_per_million();
            is_below(placed, file_name, " that it defines", LEAST_OF_DEFINED, ui)
        }
    }
}

/// True if the share is below the threshold; prints an error then. `of`: text after "the weight".
fn is_below(parts_per_million: u64, file_name: &str, of: &str, threshold: u64, ui: &Ui) -> bool {
    if parts_per_million >= threshold {
        return false;
    }
    let [placed, least] = [parts_per_million, threshold].map(as_percent);
    let text = format!(
        "{file_name}: only {placed} of the weight{of} is placed as ordered, below the threshold of {least}"
    );
    let error = Error::new(ErrorCode::BelowThreshold, text);
    ui.error(&match of {
        "" => error,
        _ => error.with_hint("--min-coverage PERCENT sets another threshold; 0 always passes"),
    });
    true
}

/// Formats parts per million as per cent, cut to two decimals so that 99.999 is not shown as 100.
fn as_percent(parts_per_million: u64) -> String {
    format!("{}.{:02} %", parts_per_million / 10_000, parts_per_million / 100 % 100)
}
