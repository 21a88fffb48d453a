// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment diff` compares two profiles, or prints one line by line for git.

use crate::files;
use crate::inputs::{read_profile, tell_nameless};
use crate::output::{FunctionOutput, Schema};
use crate::ui::Ui;
use clap::Args;
use sediment_core::Result;
use sediment_core::demangle::demangled;
use sediment_core::plural::counted;
use sediment_core::profile::difference::{self, Difference, Moved};
use sediment_core::profile::{FunctionKey, Profile, SHARE_TOTAL, text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Compare two profiles
#[derive(Debug, Args)]
#[command(
    long_about = "Compare two profiles.\n\nCompares each function's share of all calls, so recordings of different lengths are comparable. With one profile, prints functions and calls with their shares, one per line, for git diff. Prints files that are not profiles unchanged.\n\necho '*.gv diff=sediment' >> .gitattributes\n  git config diff.sediment.textconv 'sediment diff'"
)]
pub(crate) struct Arguments {
    /// Profile before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Profile after the change [default: none, print BEFORE line by line]
    #[arg(value_name = "AFTER")]
    after: Option<PathBuf>,
    /// Print JSON; needs AFTER
    #[arg(long, requires = "after")]
    json: bool,
    /// Number of new, gone and changed functions to list; 0 lists all
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let Some(path) = &arguments.after else {
        let bytes = files::read(&arguments.before)?;
        return ui.result(&for_git(&bytes));
    };
    let before = read_profile(&arguments.before, ui)?;
    let after = read_profile(path, ui)?;
    for (profile, path) in [(&before, &arguments.before), (&after, path)] {
        tell_nameless(profile, path, "diff compares addresses within one build only", ui);
    }
    let names = (files::display(&arguments.before), files::display(path));
    if arguments.json {
        return ui.json(&DiffOutput::new(&difference::difference(&before, &after), arguments.top));
    }
    ui.result(&in_words(&before, &after, &names, arguments.top))
}

/// Formats a share in units of 10^-15 as per cent with two decimals; the quotient of two floats is exact enough for
/// display.
fn percent(share: u128) -> String {
    format!("{:.2} %", 100.0 * share as f64 / SHARE_TOTAL as f64)
}

/// Formats parts per million as per cent, cut to two decimals.
pub(super) fn parts(parts_per_million: u64) -> String {
    format!("{}.{:02} %", parts_per_million / 10_000, parts_per_million / 100 % 100)
}

fn name_for_people(key: &FunctionKey) -> String {
    name(&FunctionKey { name: demangled(&key.name).into_owned(), ..key.clone() })
}

fn name(key: &FunctionKey) -> String {
    let file = key.file.as_ref().map_or_else(String::new, |file| format!(" ({file})"));
    let dso = key.dso.as_ref().map_or_else(String::new, |dso| format!(" [{dso}]"));
    format!("{}{file}{dso}", key.name)
}

fn words(set: &BTreeSet<String>) -> String {
    if set.is_empty() { "unknown".to_owned() } else { set.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// Output of `diff --json`: two profiles compared. Shares are parts of all calls in a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiffOutput<'a> {
    schema: Schema<1>,
    /// Share of the weight that is the same in both, in per cent; null if a profile has no counts.
    agreement_percent: Option<f64>,
    dsos: Vec<DsoShares<'a>>,
    /// Functions whose shares changed, the largest changes first.
    functions: Vec<FunctionShares<'a>>,
}

/// Shares of all calls that a program or library has.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DsoShares<'a> {
    /// Null for functions without a program or library.
    label: Option<&'a str>,
    before_percent: f64,
    after_percent: f64,
}

/// Shares of a function; null if the profile lacks the function.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FunctionShares<'a> {
    #[serde(flatten)]
    function: FunctionOutput<'a>,
    before_percent: Option<f64>,
    after_percent: Option<f64>,
}

impl<'a> DiffOutput<'a> {
    fn new(found: &'a Difference, top: usize) -> Self {
        let percent = |share: u128| 100.0 * share as f64 / SHARE_TOTAL as f64;
        let shown = if top == 0 { found.functions.len() } else { top };
        let dsos = found.dsos.iter().map(|(label, before, after)| DsoShares {
            label: label.as_deref(),
            before_percent: percent(*before),
            after_percent: percent(*after),
        });
        let moved = found.functions.iter().filter(|moved| moved.distance() > 0).take(shown);
        let functions = moved.map(|moved| FunctionShares {
            function: FunctionOutput::new(&moved.key),
            before_percent: moved.before.map(percent),
            after_percent: moved.after.map(percent),
        });
        Self {
            schema: Schema,
            agreement_percent: found.agreement.map(|agreement| agreement as f64 / 10_000.0),
            dsos: dsos.collect(),
            functions: functions.collect(),
        }
    }
}

fn in_words(before: &Profile, after: &Profile, names: &(String, String), top: usize) -> String {
    let found = difference::difference(before, after);
    let mut text = format!("{} -> {}\n", names.0, names.1);
    let recordings = |profile: &Profile| profile.inputs.unwrap_or(1).to_string();
    for (what, was, is) in [
        ("recorded by", words(&before.source), words(&after.source)),
        ("machines", words(&before.arch), words(&after.arch)),
        ("recordings", recordings(before), recordings(after)),
        ("functions", before.function_count().to_string(), after.function_count().to_string()),
        ("edges", before.edge_count().to_string(), after.edge_count().to_string()),
    ] {
        let change = if was == is { was } else { format!("{was} -> {is}") };
        let _ = writeln!(text, "  {what:<12} {change}");
    }
    match found.agreement {
        Some(agreement) => {
            let _ = writeln!(text, "  agreement    {} of the weight is the same", parts(agreement));
        }
        None => text += "  agreement    unknown, because one of the profiles has no counts\n",
    }
    for (label, was, is) in &found.dsos {
        let label = label.as_deref().unwrap_or("(no program or library)");
        if was.abs_diff(*is) >= SHARE_TOTAL / 1000 {
            let _ = writeln!(text, "  {label}: {} -> {}", percent(*was), percent(*is));
        }
    }
    let new: Vec<&Moved> = found.functions.iter().filter(|moved| moved.before.is_none()).collect();
    let gone: Vec<&Moved> = found.functions.iter().filter(|moved| moved.after.is_none()).collect();
    let kept: Vec<&Moved> = found
        .functions
        .iter()
        .filter(|moved| moved.before.is_some() && moved.after.is_some() && moved.distance() > 0)
        .collect();
    list(&mut text, "new", &new, top, |moved| percent(moved.after.unwrap_or(0)));
    list(&mut text, "gone", &gone, top, |moved| percent(moved.before.unwrap_or(0)));
    list(&mut text, "with a changed share", &kept, top, |moved| {
        format!("{} -> {}", percent(moved.before.unwrap_or(0)), percent(moved.after.unwrap_or(0)))
    });
    text
}

fn list(text: &mut String, what: &str, moved: &[&Moved], top: usize, share: impl Fn(&Moved) -> String) {
    if moved.is_empty() {
        return;
    }
    let together = moved.iter().fold(0u128, |sum, moved| sum.saturating_add(moved.distance()));
    let _ = writeln!(text, "\n{} {what}, {} together:", counted(moved.len(), "function"), percent(together));
    let shown = if top == 0 { moved.len() } else { top };
    for moved in moved.iter().take(shown) {
        let _ = writeln!(text, "  {:>20}  {}", share(moved), name_for_people(&moved.key));
    }
    if moved.len() > shown {
        let _ = writeln!(text, "  {:>20}  and {} more (--top 0 lists all)", "", moved.len() - shown);
    }
}

/// Returns a profile as lines. git reports an error for a failed textconv and stops at a file that cannot be shown.
/// Therefore anything that is not a profile, such as a drawing with the same extension or a damaged version, is shown
/// unchanged.
fn for_git(bytes: &[u8]) -> String {
    match text::parse(bytes) {
        Ok((profile, _)) => as_lines(&profile),
        Err(error) => format!("not a profile: {error}\n{}", String::from_utf8_lossy(bytes)),
    }
}

/// Returns a line for each function and each call, in the order of their names, with shares to two decimals. Profiles
/// that print alike have equal lines.
fn as_lines(profile: &Profile) -> String {
    let mut text = format!(
        "recorded by {}\nmachines {}\nrecordings {}\n",
        words(&profile.source),
        words(&profile.arch),
        profile.inputs.unwrap_or(1)
    );
    for (label, cluster) in profile.dsos() {
        let package = cluster.package.as_ref().map_or_else(String::new, |package| format!(", {package}"));
        let build = cluster.build_id.as_ref().map_or_else(String::new, |id| format!(", build-id {id}"));
        let _ = writeln!(text, "{label}{package}{build}");
    }
    let weights = difference::weights(profile);
    let shares: BTreeMap<&FunctionKey, u128> = difference::shares(&weights);
    let counted = shares.values().any(|share| *share > 0);
    for (key, share) in &shares {
        let share = if counted { format!(" {}", percent(*share)) } else { String::new() };
        let _ = writeln!(text, "{}{share}", name(key));
    }
    let sum =
        profile.edges().iter().fold(0u128, |sum, (_, _, facts)| sum.saturating_add(facts.count.unwrap_or(0)));
    for (caller, callee, facts) in profile.edges() {
        // For display only: the quotient of two floats is exact enough.
        let seen = facts.count.filter(|_| sum > 0).map(|count| 100.0 * count as f64 / sum as f64);
        let share = match (seen, facts.static_calls) {
            (Some(share), _) => format!("{share:.2} %"),
            (None, Some(calls)) => format!("estimated {:.2} for each", calls.0 as f64 / 1e6),
            (None, None) => continue,
        };
        let _ = writeln!(text, "{} -> {} {share}", name(profile.key(caller)), name(profile.key(callee)));
    }
    text
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<DiffOutput<'_>>("diff");
}
