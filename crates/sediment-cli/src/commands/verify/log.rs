// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --log`: verifies every output of a build that has a profile, as linked or as installed into a package. Lists by
//! name the outputs that were not ordered.

use super::blocks;
use super::counters::Fitting;
use super::installed::Installed;
use super::words::symbols_in_words;
use super::{Arguments, Place, as_percent, below_threshold, in_json, is_below, report_on};
use crate::exit::BELOW_THRESHOLD;
use crate::exit::ExitCode;
use crate::files;
use crate::ui::Ui;
use crate::wrapper::{BEST_AS_LINKED, LINKS, settings};
use sediment_core::binary::SymbolSource;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::verify::Report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) fn run(folder: &Path, arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let links = read(folder)?;
    let lying =
        || links.keys().map(|output| path_of_output(output).unwrap_or_else(|| output.into())).collect();
    let installed = arguments.installed.as_deref().map(|root| Installed::below(root, lying())).transpose()?;
    let mut build = Build {
        arguments,
        thresholds: thresholds(&links, arguments)?,
        installed,
        ui,
        text: String::new(),
        entries: Vec::new(),
        below: false,
        ordered: 0,
        shipped: 0,
        milliseconds: [0, 0],
    };
    let mut left: BTreeMap<&str, u64> = BTreeMap::new();
    for (output, link) in &links {
        match (word(link, "outcome"), link["profile"].is_string()) {
            ("ordered", _) => build.ordered(output, link),
            ("failed", _) => build.failed(output, link),
            (BEST_AS_LINKED, _) => build.best_as_linked(output, link),
            (_, true) => build.unplaced(output, link),
            _ => {
                *left.entry(word(link, "why")).or_default() += 1;
                build.entries.push(json!({ "output": output, "outcome": "left", "why": link["why"] }));
            }
        }
    }
    build.must_have_ordered();
    let counters = Fitting::of_build(folder)?;
    let code = if build.below { ExitCode::from(BELOW_THRESHOLD) } else { ExitCode::SUCCESS };
    if arguments.json {
        let mut answer = json!({ "schema": 1, "links": build.entries });
        if let Some(counters) = counters {
            answer["counters"] = counters.in_json();
        }
        ui.json(&answer)?;
        return Ok(code);
    }
    let Build { mut text, ordered, milliseconds, .. } = build;
    let _ = writeln!(text, "{ordered} of {} outputs ordered", links.len());
    for (why, count) in left {
        let _ = writeln!(text, "{count:>8} not ordered: {why}");
    }
    if let Some(counters) = counters {
        let _ = writeln!(text, "{}", counters.in_words());
    }
    if ordered > 0 {
        let [making, linking] = milliseconds.map(|sum| sum as f64 / 1000.0);
        let _ = writeln!(text, "ordered links took {linking:.2} s, computing the orders {making:.2} s");
    }
    ui.result(&text)?;
    Ok(code)
}

/// Report on a build's links.
struct Build<'a> {
    arguments: &'a Arguments,
    /// Smallest required coverage for each folder of profiles, in parts per million; None without a threshold.
    thresholds: BTreeMap<PathBuf, Option<u64>>,
    installed: Option<Installed>,
    ui: &'a Ui,
    text: String,
    entries: Vec<Value>,
    /// True if an output is below its threshold.
    below: bool,
    ordered: u64,
    /// Number of ordered outputs that count: with `--installed`, the installed ones.
    shipped: u64,
    /// Time to compute the orders, and to link.
    milliseconds: [u64; 2],
}

/// Smallest required coverage for each folder of profiles: from the command line, else the package's settings, else the default.
fn thresholds(
    links: &BTreeMap<String, Value>,
    arguments: &Arguments,
) -> Result<BTreeMap<PathBuf, Option<u64>>> {
    let folders = links.values().filter_map(folder_of);
    let mut thresholds = BTreeMap::new();
    for folder in folders {
        if !thresholds.contains_key(folder) {
            let settings = settings::of_folder(folder)?;
            let set = arguments.min_coverage.or(settings.min_coverage);
            thresholds.insert(folder.to_path_buf(), set.or(arguments.default_min_coverage));
        }
    }
    Ok(thresholds)
}

/// The folder of profiles that a link was ordered by.
fn folder_of(link: &Value) -> Option<&Path> {
    link["folder"].as_str().map(Path::new)
}

impl Build<'_> {
    fn threshold(&self, link: &Value) -> Option<u64> {
        folder_of(link)
            .and_then(|folder| self.thresholds.get(folder).copied())
            .unwrap_or(self.arguments.min_coverage)
    }

    fn say(&mut self, line: &str) {
        self.text += &escape::terminal(line);
        self.text.push('\n');
    }

    /// An ordered output: verifies how much of its profile is placed as ordered.
    fn ordered(&mut self, output: &str, link: &Value) {
        self.ordered += 1;
        let checked = match &self.installed {
            Some(installed) => as_installed(link, output, installed, self.ui),
            None => as_linked(link, output, self.ui),
        };
        let Checked { shown, report, from } = match checked {
            Ok(Some(checked)) => checked,
            Ok(None) => return self.not_installed(output),
            Err(error) => {
                self.say(&format!("{output}: not verified: {error}"));
                self.entries
                    .push(json!({ "output": output, "outcome": "not verified", "why": error.to_string() }));
                self.shipped += 1;
                self.below = true;
                return;
            }
        };
        self.shipped += 1;
        self.say(&format!(
            "{shown}: {} of the weight placed as ordered; {} of {} functions; profile found by {}; {} order{}{}",
            as_percent(report.placed_parts_per_million),
            report.placed,
            report.asked,
            word(link, "rule"),
            word(link, "linker"),
            match followed(link).len() {
                0 => String::new(),
                count => format!("; {count} renamed"),
            },
            from.as_ref().map_or_else(String::new, |from| format!("; symbols from {from}"))
        ));
        self.tell_of_other_profiles(link);
        let blocks = self.tell_of_blocks(output, link);
        for (sum, what) in self.milliseconds.iter_mut().zip(["order", "link"]) {
            *sum += link["milliseconds"][what].as_u64().unwrap_or(0);
        }
        let name = files::base_name(Path::new(output));
        self.below |= below_threshold(&report, &name, self.threshold(link), self.ui);
        let mut entry = json!({ "output": output, "outcome": "ordered", "rule": word(link, "rule"), "also_in": link["also_in"], "coverage_percent": link["coverage_percent"], "renamed": link["renamed"], "report": in_json(&report) });
        if self.installed.is_some() {
            entry["installed"] = json!(shown);
            entry["seen_in"] = json!(from);
        }
        if let Some(blocks) = blocks {
            entry["blocks"] = blocks;
        }
        self.entries.push(entry);
    }

    /// The profile's block counts in an output, as it was linked.
    fn tell_of_blocks(&mut self, output: &str, link: &Value) -> Option<Value> {
        let built = path_of_output(output)?;
        let profile = Path::new(word(link, "profile"));
        match blocks::in_short(&built, profile, &followed(link), self.ui) {
            Ok(found) => found.map(|(line, report)| {
                self.say(&format!("         {line}"));
                report
            }),
            Err(error) => {
                self.say(&format!("         block counts not verified: {error}"));
                None
            }
        }
    }

    /// Name to show of an output without an order; None if it is not installed.
    fn shown(&self, output: &str) -> Option<String> {
        let Some(installed) = &self.installed else { return Some(output.to_owned()) };
        let built = path_of_output(output).unwrap_or_else(|| output.into());
        installed.of(&built).first().map(|path| installed.on_system(path).display().to_string())
    }

    /// An output whose profile asks for no order. It counts as one that is as its profile asks.
    fn best_as_linked(&mut self, output: &str, link: &Value) {
        let Some(shown) = self.shown(output) else { return self.not_installed(output) };
        self.say(&format!("{shown}: nothing to order: {}", word(link, "why")));
        self.tell_of_other_profiles(link);
        self.shipped += 1;
        self.unordered_entry(output, &shown, link);
    }

    /// An output that has a profile but no order: nothing is placed as ordered.
    fn unplaced(&mut self, output: &str, link: &Value) {
        let Some(shown) = self.shown(output) else { return self.not_installed(output) };
        let why = word(link, "why");
        self.say(&format!("{shown}: {} of the weight placed as ordered; not ordered: {why}", as_percent(0)));
        self.tell_of_other_profiles(link);
        let name = files::base_name(Path::new(output));
        let required = self.threshold(link);
        self.below |= required.is_some_and(|threshold| is_below(0, &name, "", threshold, self.ui));
        self.unordered_entry(output, &shown, link);
    }

    fn unordered_entry(&mut self, output: &str, shown: &str, link: &Value) {
        let mut entry = json!({ "output": output, "outcome": link["outcome"], "why": link["why"], "rule": word(link, "rule"), "profile": link["profile"], "label": link["label"], "also_in": link["also_in"] });
        if self.installed.is_some() {
            entry["installed"] = json!(shown);
        }
        self.entries.push(entry);
    }

    /// An output that the linker could not link in its order.
    fn failed(&mut self, output: &str, link: &Value) {
        let why = word(link, "why");
        self.say(&format!("{output}: linked without its order, because the linker failed with it: {why}"));
        self.entries.push(json!({ "output": output, "outcome": "failed", "why": why }));
        self.below = true;
    }

    fn not_installed(&mut self, output: &str) {
        self.say(&format!("{output}: not installed"));
        self.entries.push(json!({ "output": output, "outcome": "not installed" }));
    }

    /// Files that have a profile of the same program, and do not count.
    fn tell_of_other_profiles(&mut self, link: &Value) {
        let name = |path: &str| files::base_name(Path::new(path));
        let others: Vec<String> =
            link["also_in"].as_array().into_iter().flatten().filter_map(Value::as_str).map(name).collect();
        if !others.is_empty() {
            let counts = name(word(link, "profile"));
            self.say(&format!("         used the profile in {counts}, ignored {}", others.join(", ")));
        }
    }

    /// A threshold needs at least one ordered output.
    fn must_have_ordered(&mut self) {
        let given = self.arguments.min_coverage.or(self.arguments.default_min_coverage);
        let threshold = self.thresholds.values().copied().fold(given, Option::max);
        let Some(threshold) = threshold.filter(|_| self.shipped == 0 && !self.below) else { return };
        let required = format!("the threshold is {}", as_percent(threshold));
        let error = match (&self.installed, self.ordered) {
            (Some(installed), 1..) => Error::new(ErrorCode::BelowThreshold,
                format!("no ordered output is installed; {required}"),
            )
            .with_input(files::display(installed.root()))
            .with_hint("each output was searched by build-id, code and name: was it relinked or changed after the build?"),
            _ => Error::new(ErrorCode::BelowThreshold,
                format!("no output was ordered; {required}"),
            )
            .with_hint("is the profile of these programs, and are they compiled with -ffunction-sections?"),
        };
        self.ui.error(&error);
        self.below = true;
    }
}

/// A text of a link's line.
fn word<'a>(link: &'a Value, key: &str) -> &'a str {
    link[key].as_str().unwrap_or_default()
}

/// Pairs of a name in the profile and the one that the wrapper followed it to.
fn followed(link: &Value) -> Vec<(&str, &str)> {
    let pairs = link["renamed"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?))).collect()
}

/// An output that was compared with its order.
struct Checked {
    /// The file that was looked at.
    shown: String,
    report: Report,
    /// Source of its symbols; for installed files only.
    from: Option<String>,
}

/// Verifies an output in the build folder.
fn as_linked(link: &Value, output: &str, ui: &Ui) -> Result<Option<Checked>> {
    let path = path_of_output(output).unwrap_or_else(|| PathBuf::from(output));
    let report = report(link, &path, None, ui)?;
    Ok(Some(Checked { shown: output.to_owned(), report, from: None }))
}

/// Verifies an output in the folder that the package is made of; None if it is not there. If that file is stripped and has no debug file,
/// the file in the build folder is read.
fn as_installed(link: &Value, output: &str, installed: &Installed, ui: &Ui) -> Result<Option<Checked>> {
    let built = path_of_output(output);
    let files = installed.of(built.as_deref().unwrap_or(Path::new(output)));
    let Some(first) = files.first() else { return Ok(None) };
    // Of several, the one with the most weight placed: other files of this name do not follow the order.
    let mut best: Option<(&Path, Report)> = None;
    let mut why = None;
    for path in &files {
        match report(link, path, Some(installed.root()), ui) {
            Ok(report) => {
                let placed = |report: &Report| report.placed_parts_per_million;
                if best.as_ref().is_none_or(|(_, best)| placed(best) < placed(&report)) {
                    best = Some((path, report));
                }
            }
            Err(error) => why = Some(error),
        }
    }
    let shown = |path: &Path| installed.on_system(path).display().to_string();
    let stripped = |report: &Report| report.symbols_from == SymbolSource::DynamicSymbols;
    match (best, built, why) {
        (Some((path, report)), built, _) if !stripped(&report) || built.is_none() => {
            let from = symbols_in_words(report.symbols_from).to_owned();
            Ok(Some(Checked { shown: shown(path), report, from: Some(from) }))
        }
        (best, Some(built), _) => {
            let report = report(link, &built, None, ui)?;
            let from = symbols_in_words(report.symbols_from);
            let from = format!("{from} as linked, because the installed file is stripped");
            let path = best.map_or(*first, |(path, _)| path);
            Ok(Some(Checked { shown: shown(path), report, from: Some(from) }))
        }
        (_, None, Some(error)) => Err(error),
        (_, None, None) => Ok(None),
    }
}

fn report(link: &Value, path: &Path, root: Option<&Path>, ui: &Ui) -> Result<Report> {
    let word = |key: &str| Path::new(link[key].as_str().unwrap_or_default());
    report_on(
        Place { path, root, objects: None },
        word("order"),
        Some(word("profile")),
        Some(&followed(link)),
        ui,
    )
}

/// Path of an output; libtool links a library for installation as NAMET, and renames it.
fn path_of_output(output: &str) -> Option<PathBuf> {
    let renamed = output.strip_suffix('T');
    [Some(output), renamed].into_iter().flatten().map(PathBuf::from).find(|path| path.is_file())
}

/// The log's entry of a file, by any path to it.
pub(super) fn entry_of<'a>(links: &'a BTreeMap<String, Value>, file: &Path) -> Option<&'a Value> {
    let file = file.canonicalize().ok()?;
    let is_it = |output: &&String| {
        path_of_output(output).and_then(|path| path.canonicalize().ok()).as_ref() == Some(&file)
    };
    links.get(links.keys().find(is_it)?)
}

/// The links of a build by their output, each as it was linked last.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let path = folder.join(LINKS);
    let named = |error: Error| error.with_input(files::display(&path));
    let bytes = files::read(&path).map_err(|error| error.with_hint("is this the folder of SEDIMENT_LOG?"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut links = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let link: Value = serde_json::from_str(line).map_err(|_| {
            named(Error::at_line(number, "not a line of the wrapper's log").with_found(line.as_bytes()))
        })?;
        let output = link["output"]
            .as_str()
            .ok_or_else(|| named(Error::at_line(number, "a link without an output")))?;
        links.insert(output.to_owned(), link);
    }
    if links.is_empty() {
        return Err(named(Error::new(ErrorCode::EmptyInput, "no link in the log")));
    }
    Ok(links)
}
