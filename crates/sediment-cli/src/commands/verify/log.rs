// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --log` verifies every output of a build that has a profile, as linked or as installed in a package. Lists
//! the outputs that were not ordered.

use super::blocks;
use super::installed::Installed;
use super::output::{
    BlocksOutput, LinkOutput, LogOutput, OrderedLink, UnorderedLink, VerifiedOutcome, VerifyOutput,
};
use super::words::symbols_in_words;
use super::{Arguments, LinkedFile, as_percent, below_threshold, is_below, report_on, risks};
use crate::counter_fit::Fitting;
use crate::exit::BELOW_THRESHOLD;
use crate::exit::ExitCode;
use crate::files;
use crate::output::Schema;
use crate::ui::Ui;
use crate::wrapper::{LINKS, LinkOutcome, LoggedLink, LoggedOrder, LoggedOrigin, settings};
use sediment_core::binary::SymbolSource;
use sediment_core::matching::identity::MatchRule;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::verify::VerifyReport;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(super) fn run(folder: &Path, arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let links = read(folder)?;
    let lying =
        || links.keys().map(|output| path_of_output(output).unwrap_or_else(|| output.into())).collect();
    let installed = arguments.installed.as_deref().map(|root| Installed::below(root, lying())).transpose()?;
    let mut build = LogReport {
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
    for link in links.values() {
        match (link.outcome, &link.order, &link.origin) {
            (LinkOutcome::Ordered, Some(order), Some(origin)) => build.ordered(link, order, origin),
            (LinkOutcome::Failed, ..) => build.failed(link),
            (LinkOutcome::BestAsLinked, _, Some(origin)) => build.best_as_linked(link, origin),
            (_, _, Some(origin)) => build.unplaced(link, origin),
            _ => {
                *left.entry(why(link)).or_default() += 1;
                build.entries.push(LinkOutput::new(&link.output, VerifiedOutcome::Left, link.why.clone()));
            }
        }
    }
    build.must_have_ordered();
    let counters = Fitting::of_build(folder)?;
    let code = if build.below { ExitCode::from(BELOW_THRESHOLD) } else { ExitCode::SUCCESS };
    if arguments.json {
        let counters = counters.as_ref().map(Fitting::output);
        ui.json(&LogOutput { schema: Schema, links: build.entries, counters })?;
        return Ok(code);
    }
    let LogReport { mut text, ordered, milliseconds, .. } = build;
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
struct LogReport<'a> {
    arguments: &'a Arguments,
    /// Smallest required coverage for each folder of profiles, in parts per million; `None` without a threshold.
    thresholds: BTreeMap<PathBuf, Option<u64>>,
    installed: Option<Installed>,
    ui: &'a Ui,
    text: String,
    entries: Vec<LinkOutput<'a>>,
    /// True if an output is below its threshold.
    below: bool,
    ordered: u64,
    /// Number of ordered outputs that count: only installed ones with `--installed`.
    shipped: u64,
    /// Time to compute the orders, and to link.
    milliseconds: [u64; 2],
}

/// Returns the smallest required coverage for each folder of profiles: from the command line, otherwise from the
/// package's settings, otherwise the default.
fn thresholds(
    links: &BTreeMap<String, LoggedLink>,
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

/// Returns the folder of profiles that a link used.
fn folder_of(link: &LoggedLink) -> Option<&Path> {
    link.origin.as_ref()?.folder.as_deref().map(Path::new)
}

impl<'a> LogReport<'a> {
    fn threshold(&self, link: &LoggedLink) -> Option<u64> {
        folder_of(link)
            .and_then(|folder| self.thresholds.get(folder).copied())
            .unwrap_or(self.arguments.min_coverage)
    }

    fn say(&mut self, line: &str) {
        self.text += &escape::terminal(line);
        self.text.push('\n');
    }

    /// Verifies how much of its profile an ordered output has placed as ordered.
    fn ordered(&mut self, link: &'a LoggedLink, order: &'a LoggedOrder, origin: &'a LoggedOrigin) {
        self.ordered += 1;
        let output = &link.output;
        let checked = match &self.installed {
            Some(installed) => as_installed(order, origin, output, installed, self.ui),
            None => as_linked(order, origin, output, self.ui),
        };
        let VerifiedOutput { shown, report, from } = match checked {
            Ok(Some(checked)) => checked,
            Ok(None) => return self.not_installed(link),
            Err(error) => {
                self.say(&format!("{output}: not verified: {error}{}", marked(origin)));
                let why = Some(error.to_string());
                self.entries.push(LinkOutput::new(output, VerifiedOutcome::NotVerified, why));
                self.shipped += 1;
                self.below |= !is_guess(origin);
                return;
            }
        };
        self.shipped += 1;
        self.say(&format!(
            "{shown}: {} of the weight placed as ordered; {} of {} functions; profile found by {}{}; {} order{}{}",
            as_percent(report.placed_parts_per_million),
            report.placed,
            report.asked,
            origin.rule,
            marked(origin),
            order.linker,
            match order.renamed.len() {
                0 => String::new(),
                count => format!("; {count} renamed"),
            },
            from.as_ref().map_or_else(String::new, |from| format!("; symbols from {from}"))
        ));
        self.tell_of_other_profiles(origin);
        let blocks = self.tell_of_blocks(output, order, origin);
        for (sum, took) in self.milliseconds.iter_mut().zip([link.milliseconds.order, link.milliseconds.link])
        {
            *sum += took.unwrap_or(0);
        }
        let name = files::base_name(Path::new(output));
        if !is_guess(origin) {
            self.below |= below_threshold(&report, &name, self.threshold(link), self.ui);
        }
        // The objects of the link are in the build folder.
        let built = path_of_output(output);
        let place = built.as_deref().map(|path| LinkedFile { path, root: None, objects: None });
        let displaced = place.map(risks::displaced).and_then(Result::ok).unwrap_or_default();
        self.below |= risks::tell(&displaced, &name, self.ui);
        let ordered = OrderedLink {
            rule: &origin.rule,
            also_in: &origin.also_in,
            coverage_percent: (report.placed_parts_per_million / 100) as f64 / 100.0,
            renamed: &order.renamed,
            report: VerifyOutput::new(&report).with_displaced(&displaced),
            seen_in: from,
            blocks,
        };
        self.entries.push(LinkOutput {
            installed: self.installed.is_some().then_some(shown),
            ordered: Some(ordered),
            ..LinkOutput::new(output, VerifiedOutcome::Ordered, None)
        });
    }

    /// Reports how an output, as linked, uses the profile's block counts.
    fn tell_of_blocks(
        &mut self,
        output: &str,
        order: &LoggedOrder,
        origin: &LoggedOrigin,
    ) -> Option<BlocksOutput> {
        let built = path_of_output(output)?;
        match blocks::in_short(&built, Path::new(&origin.profile), &order.renamed, self.ui) {
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

    /// Returns the name to show for an output without an order; `None` if it is not installed.
    fn shown(&self, output: &str) -> Option<String> {
        let Some(installed) = &self.installed else { return Some(output.to_owned()) };
        let built = path_of_output(output).unwrap_or_else(|| output.into());
        installed.of(&built).first().map(|path| installed.on_system(path).display().to_string())
    }

    /// Reports an output whose profile does not request an order. It counts as verified.
    fn best_as_linked(&mut self, link: &'a LoggedLink, origin: &'a LoggedOrigin) {
        let Some(shown) = self.shown(&link.output) else { return self.not_installed(link) };
        self.say(&format!("{shown}: nothing to order: {}", why(link)));
        self.tell_of_other_profiles(origin);
        self.shipped += 1;
        self.add_unordered(link, VerifiedOutcome::BestAsLinked, origin, shown);
    }

    /// Reports an output with a profile but without an order: nothing is placed as ordered.
    fn unplaced(&mut self, link: &'a LoggedLink, origin: &'a LoggedOrigin) {
        let Some(shown) = self.shown(&link.output) else { return self.not_installed(link) };
        let (placed, why) = (as_percent(0), why(link));
        self.say(&format!(
            "{shown}: {placed} of the weight placed as ordered; not ordered: {why}{}",
            marked(origin)
        ));
        self.tell_of_other_profiles(origin);
        let name = files::base_name(Path::new(&link.output));
        let required = self.threshold(link).filter(|_| !is_guess(origin));
        self.below |= required.is_some_and(|threshold| is_below(0, &name, "", threshold, self.ui));
        self.add_unordered(link, VerifiedOutcome::Left, origin, shown);
    }

    fn add_unordered(
        &mut self,
        link: &'a LoggedLink,
        outcome: VerifiedOutcome,
        origin: &'a LoggedOrigin,
        shown: String,
    ) {
        let unordered = UnorderedLink {
            rule: &origin.rule,
            profile: &origin.profile,
            label: origin.label.as_deref(),
            also_in: &origin.also_in,
        };
        self.entries.push(LinkOutput {
            installed: self.installed.is_some().then_some(shown),
            unordered: Some(unordered),
            ..LinkOutput::new(&link.output, outcome, link.why.clone())
        });
    }

    /// Reports an output that the linker could not link with its order.
    fn failed(&mut self, link: &'a LoggedLink) {
        let (output, why) = (&link.output, why(link));
        self.say(&format!(
            "{output}: linked without an order, because the linker failed with the order: {why}"
        ));
        self.entries.push(LinkOutput::new(output, VerifiedOutcome::Failed, link.why.clone()));
        self.below = true;
    }

    fn not_installed(&mut self, link: &'a LoggedLink) {
        self.say(&format!("{}: not installed", link.output));
        self.entries.push(LinkOutput::new(&link.output, VerifiedOutcome::NotInstalled, None));
    }

    /// Reports unused files with a profile of the same program.
    fn tell_of_other_profiles(&mut self, origin: &LoggedOrigin) {
        let name = |path: &String| files::base_name(Path::new(path));
        let others: Vec<String> = origin.also_in.iter().map(name).collect();
        if !others.is_empty() {
            let counts = name(&origin.profile);
            self.say(&format!("         used the profile in {counts}; ignored: {}", others.join(", ")));
        }
    }

    /// Checks that there is at least one ordered output, which a threshold requires.
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
            .with_hint("each output was searched by build-id, code and name: was it linked again, or changed after the build?"),
            _ => Error::new(ErrorCode::BelowThreshold,
                format!("no output was ordered; {required}"),
            )
            .with_hint("does the profile belong to these programs, and are they compiled with -ffunction-sections?"),
        };
        self.ui.error(&error);
        self.below = true;
    }
}

/// True if the profile was matched to this output only by common functions, such as for a static twin of a library.
fn is_guess(origin: &LoggedOrigin) -> bool {
    origin.rule == MatchRule::Functions.in_words()
}

/// Text after a guessed profile.
fn marked(origin: &LoggedOrigin) -> &'static str {
    if is_guess(origin) { " (a guess, not checked against thresholds)" } else { "" }
}

fn why(link: &LoggedLink) -> &str {
    link.why.as_deref().unwrap_or_default()
}

/// An output that was compared with its order.
struct VerifiedOutput {
    /// Path of the compared file.
    shown: String,
    report: VerifyReport,
    /// Source of its symbols; only for installed files.
    from: Option<String>,
}

/// Verifies an output in the build folder.
fn as_linked(
    order: &LoggedOrder,
    origin: &LoggedOrigin,
    output: &str,
    ui: &Ui,
) -> Result<Option<VerifiedOutput>> {
    let path = path_of_output(output).unwrap_or_else(|| PathBuf::from(output));
    let report = report(order, origin, &path, None, ui)?;
    Ok(Some(VerifiedOutput { shown: output.to_owned(), report, from: None }))
}

/// Verifies an output in the folder from which the package is made; `None` if it is not there. If that file is stripped
/// and has no debug file, reads the file in the build folder.
fn as_installed(
    order: &LoggedOrder,
    origin: &LoggedOrigin,
    output: &str,
    installed: &Installed,
    ui: &Ui,
) -> Result<Option<VerifiedOutput>> {
    let built = path_of_output(output);
    let (files, is_this_build) = installed.identified(built.as_deref().unwrap_or(Path::new(output)));
    let Some(first) = files.first() else { return Ok(None) };
    // If there are several, the one with the most placed weight: other files with this name do not follow the order.
    let mut best: Option<(&Path, VerifyReport)> = None;
    let mut why = None;
    for path in &files {
        match report(order, origin, path, Some(installed.root()), ui) {
            Ok(report) => {
                let placed = |report: &VerifyReport| report.placed_parts_per_million;
                if best.as_ref().is_none_or(|(_, best)| placed(best) < placed(&report)) {
                    best = Some((path, report));
                }
            }
            Err(error) => why = Some(error),
        }
    }
    let shown = |path: &Path| installed.on_system(path).display().to_string();
    let stripped = |report: &VerifyReport| report.symbols_from == SymbolSource::DynamicSymbols;
    match (best, built, why) {
        (Some((path, report)), built, _) if !stripped(&report) || built.is_none() => {
            let from = symbols_in_words(report.symbols_from).to_owned();
            Ok(Some(VerifiedOutput { shown: shown(path), report, from: Some(from) }))
        }
        // The file in the build folder is not evidence for another build.
        (_, Some(_), _) if !is_this_build => Err(Error::new(
            ErrorCode::WrongBinary,
            format!(
                "{} has the name of this output, but it is stripped and from another build",
                shown(first)
            ),
        )
        .with_hint("verify before stripping, or install its debug file")),
        (best, Some(built), _) => {
            let report = report(order, origin, &built, None, ui)?;
            let from = symbols_in_words(report.symbols_from);
            let from = format!("{from} as linked, because the installed file is stripped");
            let path = best.map_or(*first, |(path, _)| path);
            Ok(Some(VerifiedOutput { shown: shown(path), report, from: Some(from) }))
        }
        (_, None, Some(error)) => Err(error),
        (_, None, None) => Ok(None),
    }
}

fn report(
    order: &LoggedOrder,
    origin: &LoggedOrigin,
    path: &Path,
    root: Option<&Path>,
    ui: &Ui,
) -> Result<VerifyReport> {
    let place = LinkedFile { path, root, objects: None };
    let profile = Path::new(&origin.profile);
    report_on(place, Path::new(&order.order), Some(profile), Some(&order.renamed), ui)
}

/// Returns the path of an output; libtool links a library for installation as NAMET and renames it.
fn path_of_output(output: &str) -> Option<PathBuf> {
    let renamed = output.strip_suffix('T');
    [Some(output), renamed].into_iter().flatten().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns the log entry of a file, found by any path to it.
pub(super) fn entry_of<'a>(links: &'a BTreeMap<String, LoggedLink>, file: &Path) -> Option<&'a LoggedLink> {
    let file = file.canonicalize().ok()?;
    let is_it = |output: &&String| {
        path_of_output(output).and_then(|path| path.canonicalize().ok()).as_ref() == Some(&file)
    };
    links.get(links.keys().find(is_it)?)
}

/// Reads the links of a build by output; each output's last link counts.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, LoggedLink>> {
    let path = folder.join(LINKS);
    let named = |error: Error| error.with_input(files::display(&path));
    let bytes = files::read(&path).map_err(|error| error.with_hint("is this the folder of SEDIMENT_LOG?"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut links = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let link: LoggedLink = serde_json::from_str(line).map_err(|_| {
            named(Error::at_line(number, "not a line of the wrapper's log").with_found(line.as_bytes()))
        })?;
        links.insert(link.output.clone(), link);
    }
    if links.is_empty() {
        return Err(named(Error::new(ErrorCode::EmptyInput, "no link in the log")));
    }
    Ok(links)
}
