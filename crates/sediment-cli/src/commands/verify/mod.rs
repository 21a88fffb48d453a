// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment verify`: what the linker really did with an order; `log`, with those of a whole build; `installed`, as it became part
//! of a package; `same`, what else it did, for which `debugger` asks gdb and `debug_file` the tools of packagers.

mod blocks;
mod debug_file;
mod debugger;
mod installed;
mod log;
mod same;

use crate::exit::BELOW_THRESHOLD;
use crate::exit::ExitCode;
use crate::files;
use crate::inputs::{read_binary_below, read_profile, renamed};
use crate::ui::Ui;
use clap::Args;
use sediment::binary::SymbolSource;
use sediment::binary::names::SectionGroup;
use sediment::link;
use sediment::profile::Profile;
use sediment::verify::{self, Basis, Misplaced, Reason, Report};
use sediment::wrapper::settings::percent;
use sediment::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Check what the linker did with an order
#[derive(Debug, Args)]
#[command(long_about = "Check what the linker did with an order.\n\n\
Says which share of the profile's weight lies where the order asks for it, on how many pages the ordered functions lie against \
the fewest possible, and for every function that is not in its place, why. Verify a program before it is stripped, or have \
its debug file installed.")]
pub(crate) struct Arguments {
    /// The linked program or library
    #[arg(value_name = "BINARY", required_unless_present = "log")]
    binary: Option<PathBuf>,
    /// The ordering file it was linked with, for any linker
    #[arg(long, value_name = "FILE", required_unless_present_any = ["log", "same_as", "blocks"], conflicts_with = "log")]
    order: Option<PathBuf>,
    /// The file as linked without an order: say what is not the same but for the order, and exit with 5 if anything is not
    #[arg(long, value_name = "BASE", requires = "binary")]
    same_as: Option<PathBuf>,
    /// With --same-as: run both files under gdb, with the arguments behind `--`, and compare who calls ordered functions first
    #[arg(long, requires = "same_as")]
    backtrace: bool,
    /// With --backtrace: what both files are run with
    #[arg(value_name = "ARGUMENT", last = true, requires = "backtrace")]
    arguments: Vec<OsString>,
    /// What the linker's wrapper left in this folder (SEDIMENT_LOG): verify each output that has a profile; with --same-as, the order
    /// and the link times of BINARY alone
    #[arg(long, value_name = "FOLDER", conflicts_with = "profile")]
    log: Option<PathBuf>,
    /// With --log: look at the files as they lie below this folder, where the build installed them to be packed, by their debug files
    #[arg(long, value_name = "FOLDER", requires = "log")]
    installed: Option<PathBuf>,
    /// The profile, for the functions' weights; without it all weigh the same
    #[arg(long, value_name = "PROFILE")]
    profile: Option<PathBuf>,
    /// Tell which functions were split by the profile's counts of blocks, and how much of what was recorded lies in cold parts
    #[arg(long, requires = "profile", conflicts_with = "log")]
    blocks: bool,
    /// With --blocks: exit with 5 where more than so many percent of what was recorded lies in cold parts
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "blocks")]
    max_cold: Option<u64>,
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
    /// Exit with 5 where less than so many percent of the weight is placed as asked
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    min_coverage: Option<u64>,
    /// With --log: the same, for packages whose settings (sediment.conf beside the profiles) do not say
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "log")]
    default_min_coverage: Option<u64>,
    /// How many of the functions out of place to list; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 20)]
    list: usize,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    if let (Some(folder), None) = (&arguments.log, &arguments.same_as) {
        if arguments.binary.is_some() {
            return Err(Error::new(
                ErrorKind::Usage,
                "--log verifies all that was linked, so no BINARY is named",
            )
            .with_hint("--order FILE verifies one; with --same-as BASE, --log tells how it was linked"));
        }
        return log::run(folder, arguments, ui);
    }
    let Some(path) = &arguments.binary else {
        return Err(Error::new(ErrorKind::Usage, "no binary is named"));
    };
    let mut code = ExitCode::SUCCESS;
    if let Some(order) = &arguments.order {
        let report = report_on(Place { path, root: None }, order, arguments.profile.as_deref(), None, ui)?;
        let file_name = files::display_name(path);
        if arguments.json {
            ui.json(&in_json(&report))?;
        } else {
            ui.result(&in_words(&report, &file_name, arguments.list))?;
        }
        if below_threshold(report.placed_parts_per_million, &file_name, arguments.min_coverage, ui) {
            code = ExitCode::from(BELOW_THRESHOLD);
        }
    }
    if let (true, Some(profile)) = (arguments.blocks, &arguments.profile) {
        if !blocks::run(path, profile, arguments, ui)? {
            code = ExitCode::from(BELOW_THRESHOLD);
        }
    }
    if let Some(base) = &arguments.same_as {
        let request = same::Request {
            base,
            other: path,
            order: arguments.order.as_deref(),
            log: arguments.log.as_deref(),
            run_with: arguments.backtrace.then_some(arguments.arguments.as_slice()),
        };
        if !same::run(&request, arguments.json, ui)? {
            code = ExitCode::from(BELOW_THRESHOLD);
        }
    }
    Ok(code)
}

/// A linked file, and the root of the system that it belongs to where that is not this one: its debug file is looked for there.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    root: Option<&'a Path>,
}

/// Compares a linked file with an order. `known`: pairs of a function's name in the profile and in the file, where they are known.
fn report_on(
    place: Place<'_>,
    order: &Path,
    profile: Option<&Path>,
    known: Option<&[(&str, &str)]>,
    ui: &Ui,
) -> Result<Report> {
    let binary = read_binary_below(place.root, place.path)?;
    let mut profile = profile.map(|path| read_profile(path, ui)).transpose()?;
    if let Some(profile) = &mut profile {
        match known {
            Some(names) => rename(profile, names),
            None => renamed::follow(profile, &binary, place.path, place.root, ui)?,
        }
    }
    let name = files::display(order);
    let text = String::from_utf8(files::read(order)?)
        .map_err(|_| Error::failed("this is no ordering file: it is not text").with_input(name.clone()))?;
    let (_, asked) = link::read(&text).map_err(|error| error.with_input(name))?;
    verify::verify(&binary, &asked, profile.as_ref(), &files::base_name(place.path))
}

fn rename(profile: &mut Profile, names: &[(&str, &str)]) {
    let names: HashMap<&str, &str> = names.iter().copied().collect();
    for function in profile.functions() {
        if let Some(new) = names.get(profile.key(function).name.as_str()) {
            profile.rename(function, new);
        }
    }
}

/// Whether less is placed than the caller required; then that is said.
fn below_threshold(parts_per_million: u64, file_name: &str, floor: Option<u64>, ui: &Ui) -> bool {
    let Some(floor) = floor.filter(|floor| parts_per_million < *floor) else {
        return false;
    };
    ui.error(&Error::new(
        ErrorKind::BelowThreshold,
        format!(
            "{file_name}: {} of the weight is placed as asked, less than the {} that was required",
            as_percent(parts_per_million),
            as_percent(floor)
        ),
    ));
    true
}

/// Parts per million as percent, cut to two places so that 99.999 does not read as 100.
fn as_percent(parts_per_million: u64) -> String {
    format!("{}.{:02} %", parts_per_million / 10_000, parts_per_million / 100 % 100)
}

fn symbols_in_words(source: SymbolSource) -> &'static str {
    match source {
        SymbolSource::SymbolTable => "its symbol table",
        SymbolSource::DebugFile => "its debug file",
        SymbolSource::GnuDebugdata => ".gnu_debugdata",
        SymbolSource::DynamicSymbols => "its exported symbols alone: it is stripped",
    }
}

fn in_words(report: &Report, file_name: &str, list: usize) -> String {
    let mut text = String::new();
    let symbols = symbols_in_words(report.symbols_from);
    let weight = match report.basis {
        Basis::Calls => "the calls in the profile",
        Basis::Samples => "the profile's samples",
        Basis::Functions => "the functions asked for",
    };
    let _ = writeln!(
        text,
        "{file_name}: {} of {weight} placed as asked",
        as_percent(report.placed_parts_per_million)
    );
    let _ = writeln!(text, "  read from     {symbols}");
    if let Some(cluster) = &report.cluster {
        let _ = writeln!(text, "  profile of    {}", cluster.label);
    }
    let _ = writeln!(
        text,
        "  functions     {} asked for, {} in the binary, {} placed as asked",
        report.asked, report.found, report.placed
    );
    let _ = writeln!(
        text,
        "  hot pages     {} of {} KiB; {} would hold them",
        report.hot_pages,
        verify::PAGE / 1024,
        report.ideal_pages
    );
    let _ = writeln!(text, "  inversions    {}", report.inversions);
    if !report.in_force {
        text += "The order does not show in this file: its objects were compiled without -ffunction-sections (under GCC's LTO, \
                 linked without it), or the linker was not given the order.\n";
    }
    if report.misplaced.is_empty() {
        return text;
    }
    let mut by_reason: BTreeMap<&str, (u64, u128)> = BTreeMap::new();
    for misplaced in &report.misplaced {
        let sum = by_reason.entry(reason_name(&misplaced.reason)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(misplaced.weight));
    }
    text += "\nNot in their place, by reason:\n";
    for (reason, (count, weight)) in by_reason {
        let _ = writeln!(
            text,
            "{count:>8} functions, {:>8} of the weight: {reason}",
            share(weight, report.weight)
        );
    }
    let shown = if list == 0 { report.misplaced.len() } else { list };
    text += "\nThe heaviest of them:\n";
    for Misplaced { name, line, weight, reason } in report.misplaced.iter().take(shown) {
        let line = line.map_or_else(String::new, |line| format!(" (line {line} of the order)"));
        let _ =
            writeln!(text, "{:>8}  {name}{line}: {}", share(*weight, report.weight), reason_in_words(reason));
    }
    let more = report.misplaced.len().saturating_sub(shown);
    if more > 0 {
        let _ = writeln!(text, "          and {more} more (--list 0 lists all)");
    }
    text
}

/// For the eye: the quotient of two floats is near enough.
fn share(weight: u128, whole: u128) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.3} %", 100.0 * weight as f64 / whole as f64) }
}

/// A name for programs, which stays the same from release to release.
fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::NotInBinary => "not in the binary",
        Reason::InlinedOrRemoved => "inlined or removed",
        Reason::OnlyAsClone(_) => "only as clone",
        Reason::NoSymbol => "no symbol",
        Reason::NotAsked => "not asked for",
        Reason::NamedAfter(_) => "section of another name",
        Reason::SameNamedLocal(_) => "local twin",
        Reason::OtherOutputSection(_) => "other output section",
        Reason::OtherGroup(_) => "other section group",
        Reason::NoOwnSection(_) => "no section of its own",
        Reason::OutOfOrder => "out of order",
    }
}

fn reason_in_words(reason: &Reason) -> String {
    match reason {
        Reason::NotInBinary => "the binary has no such function".to_owned(),
        Reason::InlinedOrRemoved => {
            "the profiled build had it, this one has not: inlined everywhere, renamed or removed".to_owned()
        }
        Reason::OnlyAsClone(clones) => format!("only as specialised by the compiler: {}", clones.join(", ")),
        Reason::NoSymbol => "perhaps there, but the binary is stripped to its exported functions".to_owned(),
        Reason::NotAsked => "the profile has it, the order does not list it".to_owned(),
        Reason::NamedAfter(names) => format!("its section has another of its names: {}", names.join(", ")),
        Reason::SameNamedLocal(count) => {
            format!("{count} local functions have this name, and the order cannot tell them apart")
        }
        Reason::OtherOutputSection(section) => format!("it lies in the output section {section}"),
        Reason::OtherGroup(group) => format!(
            "it lies among the {} that the linker groups by itself",
            match group {
                Some(group) => group_in_words(*group),
                None => "cold, exit, start-up or hot functions",
            }
        ),
        Reason::NoOwnSection(file) => format!(
            "it has no section of its own{}: compile with -ffunction-sections, under GCC's LTO link with it too",
            file.as_ref().map_or_else(String::new, |file| format!(" ({file})"))
        ),
        Reason::OutOfOrder => "it lies among the ordered functions, but not in its turn".to_owned(),
    }
}

fn group_in_words(group: SectionGroup) -> &'static str {
    match group {
        SectionGroup::Plain => "functions",
        SectionGroup::Hot => "hot functions",
        SectionGroup::Startup => "start-up functions",
        SectionGroup::Exit => "exit functions",
        SectionGroup::Unlikely => "cold functions",
        SectionGroup::Split => "split cold parts",
    }
}

fn in_json(report: &Report) -> Value {
    let detail = |reason: &Reason| -> Value {
        match reason {
            Reason::OnlyAsClone(names) | Reason::NamedAfter(names) => json!(names),
            Reason::SameNamedLocal(count) => json!(count),
            Reason::OtherOutputSection(section) => json!(section),
            Reason::OtherGroup(group) => json!(group.map(group_in_words)),
            Reason::NoOwnSection(file) => json!(file),
            _ => Value::Null,
        }
    };
    // Weights can pass 2^64, beyond what JSON readers keep exact: they are written as text.
    json!({
        "schema": 1,
        "symbols_from": match report.symbols_from {
            SymbolSource::SymbolTable => "symtab",
            SymbolSource::DebugFile => "debug file",
            SymbolSource::GnuDebugdata => "gnu_debugdata",
            SymbolSource::DynamicSymbols => "dynsym",
        },
        "profile_of": report.cluster.as_ref().map(|cluster| &cluster.label),
        "weight_is": match report.basis {
            Basis::Calls => "calls",
            Basis::Samples => "samples",
            Basis::Functions => "functions",
        },
        "functions_asked": report.asked,
        "functions_of_other_programs": report.elsewhere,
        "functions_found": report.found,
        "functions_placed": report.placed,
        "weight": report.weight.to_string(),
        "weight_found": report.weight_found.to_string(),
        "weight_placed": report.weight_placed.to_string(),
        "weight_placed_percent": report.placed_parts_per_million as f64 / 10_000.0,
        "inversions": report.inversions,
        "hot_bytes": report.hot_bytes,
        "hot_pages": report.hot_pages,
        "ideal_pages": report.ideal_pages,
        "order_in_force": report.in_force,
        "misplaced": report.misplaced.iter().map(|misplaced| json!({
            "name": misplaced.name,
            "line": misplaced.line,
            "weight": misplaced.weight.to_string(),
            "reason": reason_name(&misplaced.reason),
            "detail": detail(&misplaced.reason),
        })).collect::<Vec<_>>(),
    })
}
