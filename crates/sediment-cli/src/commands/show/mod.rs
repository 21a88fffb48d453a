// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment show`: prints a summary of a profile.

mod cross_dso;
mod folder;
mod output;

use crate::files;
use crate::inputs::{self, read_profile, tell_nameless};
use crate::ui::Ui;
use clap::Args;
use output::{CrossDsoOutput, ShowOutput};
use sediment_core::demangle::demangled;
use sediment_core::plural::counted;
use sediment_core::profile::source::Unknown;
use sediment_core::profile::{FunctionIndex, Millionths, Profile, WeightUnit, knowledge};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Print a summary of a profile
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Profile, or a folder of profiles to list; - reads standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Number of most frequent calls and most called functions to list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// List the calls between programs and libraries, and ways to avoid them
    #[arg(long)]
    cross_dso: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if arguments.profile.is_dir() {
        if arguments.cross_dso {
            return Err(Error::new(ErrorCode::Usage, "--cross-dso needs one profile, not a folder")
                .with_input(files::display(&arguments.profile)));
        }
        return folder::run(&arguments.profile, arguments.json, ui);
    }
    let profile = read_profile(&arguments.profile, ui)?;
    tell_nameless(&profile, &arguments.profile, "the lists show the addresses", ui);
    if arguments.cross_dso {
        let calls = cross_dso::CrossCalls::of(&profile, arguments.top);
        return if arguments.json {
            ui.json(&CrossDsoOutput::new(&calls))
        } else {
            ui.result(&calls.text(&files::display(&arguments.profile)))
        };
    }
    let summary = ProfileSummary::of(&profile, arguments.top);
    if arguments.json {
        ui.json(&ShowOutput::new(&summary))
    } else {
        ui.result(&summary.text(&files::display(&arguments.profile)))
    }
}

/// Formats a profile's file and size in a line.
fn headline(name: &str, profile: &Profile) -> String {
    format!(
        "{name}: {}, {}",
        counted(profile.function_count(), "function"),
        counted(profile.edge_count(), "edge")
    )
}

/// Figures of a profile.
struct ProfileSummary<'a> {
    profile: &'a Profile,
    calls: u128,
    dsos: BTreeMap<Option<&'a str>, DsoSummary>,
    top_calls: Vec<(FunctionIndex, FunctionIndex, u128)>,
    top_functions: Vec<(FunctionIndex, u128)>,
    inside: Inside,
}

/// Numbers of functions with further data.
#[derive(Default)]
struct Inside {
    with_blocks: usize,
    with_counters: usize,
    nameless: usize,
}

impl Inside {
    fn of(profile: &Profile) -> Self {
        let functions = profile.functions();
        let number = |is_meant: &dyn Fn(FunctionIndex) -> bool| {
            functions.iter().filter(|function| is_meant(**function)).count()
        };
        Self {
            with_blocks: number(&|function| profile.facts(function).blocks.is_some()),
            with_counters: number(&|function| profile.facts(function).counters.is_some()),
            nameless: number(&|function| profile.is_nameless(function)),
        }
    }

    /// Returns a line for each number above 0.
    fn lines(&self) -> Vec<String> {
        let rows = [
            (self.with_blocks, "inside      counts of blocks of "),
            (self.with_counters, "inside      counters of a compiler's instrumentation of "),
            (self.nameless, "no names    addresses in stripped files: "),
        ];
        let rows = rows.iter().filter(|(number, _)| *number > 0);
        rows.map(|(number, what)| format!("{what}{}", counted(*number, "function"))).collect()
    }
}

#[derive(Default)]
struct DsoSummary {
    functions: u64,
    calls_in: u128,
}

impl<'a> ProfileSummary<'a> {
    fn of(profile: &'a Profile, top: usize) -> Self {
        let mut dsos: BTreeMap<Option<&str>, DsoSummary> = BTreeMap::new();
        let mut calls_in = vec![0u128; profile.function_count()];
        let mut top_calls = Vec::new();
        for (caller, callee, facts) in profile.edges() {
            let Some(count) = facts.count else { continue };
            calls_in[callee.index()] = calls_in[callee.index()].saturating_add(count);
            top_calls.push((caller, callee, count));
        }
        let calls = calls_in.iter().fold(0u128, |sum, count| sum.saturating_add(*count));
        let mut top_functions: Vec<_> =
            profile.functions().into_iter().map(|function| (function, calls_in[function.index()])).collect();
        for (function, count) in &top_functions {
            let dso = dsos.entry(profile.key(*function).dso.as_deref()).or_default();
            dso.functions += 1;
            dso.calls_in = dso.calls_in.saturating_add(*count);
        }
        // Both lists are sorted by key; a stable sort keeps this order for equal counts.
        top_calls.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        top_calls.truncate(top);
        top_functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        top_functions.truncate(top);
        Self { profile, calls, dsos, top_calls, top_functions, inside: Inside::of(profile) }
    }

    fn text(&self, name: &str) -> String {
        let profile = self.profile;
        let mut text = headline(name, profile) + "\n";
        let join = |words: &std::collections::BTreeSet<String>| {
            if words.is_empty() {
                "unknown".to_owned()
            } else {
                words.iter().cloned().collect::<Vec<_>>().join(", ")
            }
        };
        let estimates = self.estimates();
        let unit = match profile.unit {
            _ if self.calls == 0 && profile.total == 0 && !estimates.is_empty() => {
                "none: static call graph only, with a compiler's estimates"
            }
            _ if self.calls == 0 && profile.total == 0 && self.inside.with_counters > 0 => {
                "none: counters of a compiler's instrumentation only"
            }
            WeightUnit::Calls if self.lacks_call_counts() => "samples of one recording, or their periods",
            WeightUnit::Calls => "calls of one recording",
            WeightUnit::Share => "shares, in units of 10^-15",
        };
        let _ = writeln!(text, "  source      {}", join(&profile.source));
        let _ = writeln!(
            text,
            "  counts are  {unit}; total {}, between named functions {}",
            profile.total, self.calls
        );
        let _ = writeln!(text, "  machines    {}", join(&profile.arch));
        let _ = writeln!(text, "  recordings  {}", profile.inputs.unwrap_or(1));
        for line in self.inside.lines().into_iter().chain(inputs::gaps_of_profile(profile)) {
            let _ = writeln!(text, "  {line}");
        }
        if let Some(warning) = inputs::interpreted(profile) {
            let _ = writeln!(text, "  warning: {warning}");
        }
        let _ = writeln!(
            text,
            "\n{:>10} {:>8}  program or library (of the calls between named functions)",
            "functions", "calls"
        );
        for (label, dso) in &self.dsos {
            let cluster = label.and_then(|label| profile.dsos().get(label));
            let build_id = cluster.and_then(|c| c.build_id.as_deref());
            let package = cluster.and_then(|c| c.package.as_deref());
            let more = [package.map(str::to_owned), build_id.map(|id| format!("build-id {id}"))];
            let more: Vec<String> = more.into_iter().flatten().collect();
            let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
            let label = label.unwrap_or("(unknown)");
            let _ = writeln!(text, "{:>10} {:>8}  {label}{more}", dso.functions, self.share(dso.calls_in));
        }
        if self.calls > 0 {
            let _ = writeln!(text, "\nMost frequent calls:");
            for (caller, callee, count) in &self.top_calls {
                let _ = writeln!(
                    text,
                    "{:>10} {:>8}  {} -> {}",
                    "",
                    self.share(*count),
                    self.name(*caller),
                    self.name(*callee)
                );
            }
            let _ = writeln!(text, "\nMost called functions:");
            for (function, count) in &self.top_functions {
                let _ = writeln!(text, "{:>10} {:>8}  {}", "", self.share(*count), self.name(*function));
            }
        } else if !estimates.is_empty() {
            let _ = writeln!(
                text,
                "\nMost called functions by a compiler's estimates, in calls per program start:"
            );
            for (function, Millionths(calls)) in estimates.iter().take(self.top_functions.len()) {
                // For display only: a float is exact enough.
                let calls = format!("{:.2}", *calls as f64 / 1e6);
                let _ = writeln!(text, "{:>10} {calls:>8}  {}", "", self.name(*function));
            }
        }
        text
    }

    /// Returns the estimated calls of each function per program start, the largest first.
    fn estimates(&self) -> Vec<(FunctionIndex, Millionths)> {
        let functions = self.profile.functions().into_iter();
        let mut estimates: Vec<_> = functions
            .filter(|function| self.profile.key(*function).dso.is_some())
            .filter_map(|function| Some((function, self.profile.facts(function).static_calls?)))
            .collect();
        estimates.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.0));
        estimates
    }

    fn lacks_call_counts(&self) -> bool {
        let lacks = |entry: &knowledge::NotKnown| entry.what.contains(&Unknown::CallCounts);
        knowledge::not_known(self.profile).iter().any(lacks)
    }

    fn name(&self, function: FunctionIndex) -> String {
        let key = self.profile.key(function);
        let mut name = demangled(&key.name).into_owned();
        if let Some(file) = &key.file {
            name += &format!(" ({file})");
        }
        if let Some(dso) = &key.dso {
            name += &format!(" [{dso}]");
        }
        name
    }

    /// Formats a share of all calls between named functions, in per cent with two decimals.
    fn share(&self, count: u128) -> String {
        if self.calls == 0 {
            return "-".to_owned();
        }
        // For display only: the quotient of two floats is exact enough.
        format!("{:.2}%", 100.0 * count as f64 / self.calls as f64)
    }
}
