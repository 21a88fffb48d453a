// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --log`: every output of a build that the linker's wrapper ordered, against its order; as it was linked, or as it was
//! installed into a package.

use super::installed::Installed;
use super::{Arguments, Place, as_percent, below_floor, in_json, report_on, symbols_in_words};
use crate::exit::BELOW_FLOOR;
use crate::files;
use crate::ui::Ui;
use crate::wrapper::LINKS;
use sediment::binary::SymbolSource;
use sediment::verify::Report;
use sediment::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(folder: &Path, arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let links = read(folder)?;
    let installed = arguments.installed.as_deref().map(Installed::below).transpose()?;
    let mut text = String::new();
    let mut entries = Vec::new();
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    let (mut code, mut ordered, mut shipped) = (ExitCode::SUCCESS, 0, 0);
    let mut milliseconds = [0, 0];
    for (output, link) in &links {
        let word = |key: &str| link[key].as_str().unwrap_or_default();
        let why = || word("why").to_owned();
        match word("outcome") {
            "ordered" => {}
            "failed" => {
                let _ = writeln!(
                    text,
                    "{output}: linked without its order, as the linker failed with it: {}",
                    why()
                );
                entries.push(json!({ "output": output, "outcome": "failed", "why": why() }));
                code = ExitCode::from(BELOW_FLOOR);
                continue;
            }
            _ => {
                *left.entry(why()).or_default() += 1;
                entries.push(json!({ "output": output, "outcome": "left", "why": why() }));
                continue;
            }
        }
        ordered += 1;
        let checked = match &installed {
            Some(installed) => as_installed(link, output, installed, ui),
            None => as_linked(link, output, ui),
        };
        let Checked { shown, report, from } = match checked {
            Ok(Some(checked)) => checked,
            Ok(None) => {
                let _ = writeln!(text, "{output}: not installed");
                entries.push(json!({ "output": output, "outcome": "not installed" }));
                continue;
            }
            Err(error) => {
                let _ = writeln!(text, "{output}: not verified: {error}");
                entries
                    .push(json!({ "output": output, "outcome": "not verified", "why": error.to_string() }));
                shipped += 1;
                code = ExitCode::from(BELOW_FLOOR);
                continue;
            }
        };
        shipped += 1;
        let _ = writeln!(
            text,
            "{shown}: {} of the weight placed as asked; {} of {} functions; by its {}, for {}{}{}",
            as_percent(report.placed_parts_per_million),
            report.placed,
            report.asked,
            word("rule"),
            word("linker"),
            match followed(link).len() {
                0 => String::new(),
                count => format!("; {count} followed to new names"),
            },
            from.as_ref().map_or_else(String::new, |from| format!("; seen in {from}"))
        );
        for (sum, what) in milliseconds.iter_mut().zip(["order", "link"]) {
            *sum += link["milliseconds"][what].as_u64().unwrap_or(0);
        }
        if below_floor(&report, &files::base_name(Path::new(output)), arguments, ui) {
            code = ExitCode::from(BELOW_FLOOR);
        }
        let mut entry = json!({ "output": output, "outcome": "ordered", "rule": word("rule"), "coverage_percent": link["coverage_percent"], "renamed": link["renamed"], "report": in_json(&report) });
        if installed.is_some() {
            entry["installed"] = json!(shown);
            entry["seen_in"] = json!(from);
        }
        entries.push(entry);
    }
    if arguments.min_coverage.is_some() && shipped == 0 {
        ui.error(
            &Error::new(ErrorKind::BelowFloor, "nothing of the build was ordered, and a floor was set")
                .with_hint(
                    "is the profile one of these programs, and are they compiled with -ffunction-sections?",
                ),
        );
        code = ExitCode::from(BELOW_FLOOR);
    }
    if arguments.json {
        ui.json(&json!({ "schema": 1, "links": entries }))?;
        return Ok(code);
    }
    let _ = writeln!(text, "{ordered} of {} outputs ordered", links.len());
    for (why, count) in left {
        let _ = writeln!(text, "{count:>8} left as they are: {why}");
    }
    if ordered > 0 {
        let [making, linking] = milliseconds.map(|sum| sum as f64 / 1000.0);
        let _ =
            writeln!(text, "{linking:>8.2} s took the ordered links, and {making:.2} s to make their orders");
    }
    ui.result(&text)?;
    Ok(code)
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
    /// What told where its functions are; said of installed files alone.
    from: Option<String>,
}

/// The output as it lies in the build folder.
fn as_linked(link: &Value, output: &str, ui: &Ui) -> Result<Option<Checked>> {
    let path = where_it_lies(output).unwrap_or_else(|| PathBuf::from(output));
    let report = report(link, &path, None, ui)?;
    Ok(Some(Checked { shown: output.to_owned(), report, from: None }))
}

/// The output as it lies below the folder that the package is made of; None where it does not. Where that file is stripped and
/// has no debug file, the one in the build folder tells.
fn as_installed(link: &Value, output: &str, installed: &Installed, ui: &Ui) -> Result<Option<Checked>> {
    let built = where_it_lies(output);
    let files = installed.of(built.as_deref().unwrap_or(Path::new(output)));
    let Some(first) = files.first() else { return Ok(None) };
    // Of several, the one that it can be: another of its name lies in no order of its own.
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
            let from = format!("{from}, as it was linked: the installed file is stripped");
            let path = best.map_or(*first, |(path, _)| path);
            Ok(Some(Checked { shown: shown(path), report, from: Some(from) }))
        }
        (_, None, Some(error)) => Err(error),
        (_, None, None) => Ok(None),
    }
}

fn report(link: &Value, path: &Path, root: Option<&Path>, ui: &Ui) -> Result<Report> {
    let word = |key: &str| Path::new(link[key].as_str().unwrap_or_default());
    report_on(Place { path, root }, word("order"), Some(word("profile")), &followed(link), ui)
}

/// The output's file: libtool links a library for installation as NAMET, and renames it.
fn where_it_lies(output: &str) -> Option<PathBuf> {
    let renamed = output.strip_suffix('T');
    [Some(output), renamed].into_iter().flatten().map(PathBuf::from).find(|path| path.is_file())
}

/// The line of a file, wherever it was linked from.
pub(super) fn entry_of<'a>(links: &'a BTreeMap<String, Value>, file: &Path) -> Option<&'a Value> {
    let file = file.canonicalize().ok()?;
    let is_it = |output: &&String| {
        where_it_lies(output).and_then(|path| path.canonicalize().ok()).as_ref() == Some(&file)
    };
    links.get(links.keys().find(is_it)?)
}

/// The links of a build by their output, each as it was linked last.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let path = folder.join(LINKS);
    let named = |error: Error| error.with_input(files::display(&path));
    let bytes =
        files::read(&path).map_err(|error| error.with_hint("is this the folder that SEDIMENT_LOG named?"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut links = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let link: Value = serde_json::from_str(line).map_err(|_| {
            named(Error::at_line(number, "no link as the wrapper writes them").with_found(line.as_bytes()))
        })?;
        let output =
            link["output"].as_str().ok_or_else(|| named(Error::at_line(number, "a link without output")))?;
        links.insert(output.to_owned(), link);
    }
    if links.is_empty() {
        return Err(named(Error::new(ErrorKind::Failed, "no link is in the log")));
    }
    Ok(links)
}
