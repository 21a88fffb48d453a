// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --same-as`: compares a file with one linked without the order.

use super::debugger::{self, Asked};
use super::output::{LinkMilliseconds, SameAsOutput};
use super::{debug_file, log};
use crate::files;
use crate::ui::Ui;
use sediment_core::binary::names;
use sediment_core::binary::source_lines::SourceLines;
use sediment_core::binary::{Binary, BinaryFunction, NoFiles};
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::link;
use sediment_order::verify::same::{self, Comparison, Facts};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Number of functions to look up with gdb.
const ASKED: usize = 50;

/// Files and options of a comparison.
pub(super) struct Request<'a> {
    pub(super) base: &'a Path,
    pub(super) other: &'a Path,
    /// The order that the other was linked with, whose functions gdb is asked about; without one, all that both have.
    pub(super) order: Option<&'a Path>,
    /// Log of the wrapper that linked it, for the order and the link times.
    pub(super) log: Option<&'a Path>,
    /// Arguments to run both files with, to compare callers.
    pub(super) run_with: Option<&'a [OsString]>,
}

/// Result of a comparison.
struct Found {
    comparison: Comparison,
    /// Checks that were not made, with the reason.
    unchecked: Vec<(&'static str, String)>,
    links: Option<LinkMilliseconds>,
}

/// Compares, prints the result, and returns true if all is the same.
pub(super) fn run(request: &Request<'_>, as_json: bool, ui: &Ui) -> Result<bool> {
    let found = compare(request)?;
    if as_json {
        ui.json(&SameAsOutput::new(&found.comparison, &found.unchecked, found.links))?;
    } else {
        ui.result(&in_words(&found, &files::display_name(request.base)))?;
    }
    Ok(found.comparison.is_clean())
}

fn compare(request: &Request<'_>) -> Result<Found> {
    let &Request { base, other, .. } = request;
    let [bytes, other_bytes] = [files::read(base)?, files::read(other)?];
    let facts = |bytes: &[u8], path| Facts::of(bytes).map_err(|error| error.with_input(files::display(path)));
    let mut comparison = same::compare(&facts(&bytes, base)?, &facts(&other_bytes, other)?);
    let entries = request.log.map(log::read).transpose()?;
    let entry = |path: &Path| entries.as_ref().and_then(|entries| log::entry_of(entries, path));
    let logged = entry(other).and_then(|entry| Some(PathBuf::from(&entry.order.as_ref()?.order)));
    let order = request.order.map(Path::to_path_buf).or(logged);
    let functions = asked(&bytes, &other_bytes, order.as_deref())?;
    let [base, other] = [absolute(base)?, absolute(other)?];
    let mut unchecked = Vec::new();
    for (what, checked) in [
        ("gdb breaks by name", debugger::by_name(&base, &other, &functions)),
        ("gdb breaks by line", debugger::by_line(&base, &other, &functions)),
        (debug_file::WHAT, debug_file::compare(&base, &other)),
    ] {
        match checked {
            Ok(check) => comparison.checks.push(check),
            Err(error) => unchecked.push((what, error.to_string())),
        }
    }
    if let Some(arguments) = request.run_with {
        comparison.checks.push(debugger::backtraces(&base, &other, &functions, arguments)?);
    }
    let links = request.log.map(|_| {
        let [base, other] = [&base, &other].map(|path| entry(path).map(|entry| &entry.milliseconds));
        LinkMilliseconds {
            base: base.and_then(|times| times.link),
            this: other.and_then(|times| times.link),
            order: other.and_then(|times| times.order),
        }
    });
    Ok(Found { comparison, unchecked, links })
}

/// gdb and the tools run in other folders.
fn absolute(path: &Path) -> Result<std::path::PathBuf> {
    std::path::absolute(path).map_err(|error| {
        Error::new(ErrorCode::Io, format!("its folder is unknown: {error}")).with_input(files::display(path))
    })
}

/// Functions that both files have, spread over those of the order as it stands, or over all of the base by address.
fn asked(base: &[u8], other: &[u8], order: Option<&Path>) -> Result<Vec<Asked>> {
    let [base_binary, other_binary] = [Binary::parse(base, &NoFiles)?, Binary::parse(other, &NoFiles)?];
    let by_name = |binary: &'_ Binary| -> BTreeMap<String, BinaryFunction> {
        binary.functions.iter().map(|function| (function.name.clone(), function.clone())).collect()
    };
    let [there, others] = [by_name(&base_binary), by_name(&other_binary)];
    let ordered: Vec<String> = match order {
        Some(path) => {
            let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
            match link::lists_no_function(&text) {
                true => Vec::new(),
                false => {
                    let (_, names) =
                        link::read(&text).map_err(|error| error.with_input(files::display(path)))?;
                    names.into_iter().map(|function| function.name).collect()
                }
            }
        }
        None => Vec::new(),
    };
    let all = base_binary.functions.iter().map(|function| &function.name);
    let candidates: Vec<&String> = if ordered.is_empty() { all.collect() } else { ordered.iter().collect() };
    let mut seen = BTreeSet::new();
    let in_both = candidates.into_iter().filter(|name| {
        // gdb takes a cold part for a function of its own, and which lines it finds there depends on whether it lies in front.
        let whole = names::split_from(name).is_none();
        whole && there.contains_key(*name) && others.contains_key(*name) && seen.insert(*name)
    });
    let in_both: Vec<&String> = in_both.collect();
    let lines = SourceLines::read(base, &NoFiles)?;
    let count = in_both.len().min(ASKED);
    let spread = (0..count).map(|turn| in_both[turn * in_both.len() / count]);
    let asked = |name: &String| {
        let line = lines.as_ref().and_then(|lines| lines.line_at(there.get(name)?.address));
        Asked { name: name.clone(), line }
    };
    Ok(spread.map(asked).collect())
}

fn in_words(found: &Found, base: &str) -> String {
    let Found { comparison, unchecked, links } = found;
    let mut text = format!("Compared with {base}, which was linked without this order:\n");
    for check in &comparison.checks {
        if check.same {
            let _ =
                writeln!(text, "  same       {}: {}", check.what, escape::terminal(&shortened(&check.base)));
        } else {
            let [now, before] = [&check.other, &check.base].map(|found| escape::terminal(found));
            let _ = writeln!(text, "  DIFFERENT  {}: {now}; base: {before}", check.what);
        }
    }
    for (what, why) in unchecked {
        let _ = writeln!(text, "  unchecked  {what}: {}", escape::terminal(why));
    }
    for (what, base, other) in sizes(comparison) {
        // Only for the eye: the quotient of two floats is near enough.
        let growth = if base == 0 { 0.0 } else { 100.0 * (other as f64 / base as f64 - 1.0) };
        let more = i128::from(other) - i128::from(base);
        let _ = writeln!(text, "  size       {what}: {other} bytes, {more:+} bytes, {growth:+.2} %");
    }
    if let Some(links) = links {
        let time = |milliseconds: Option<u64>| match milliseconds {
            // Only for the eye.
            Some(milliseconds) => format!("{:.2} s", milliseconds as f64 / 1000.0),
            None => "not in the log".to_owned(),
        };
        let [base, other, order] = [links.base, links.this, links.order].map(time);
        let _ = writeln!(text, "  link time  {other}, computing the order {order}; base {base}");
    }
    text
}

/// Parts of the files with a size, before and now.
fn sizes(comparison: &Comparison) -> [(&'static str, u64, u64); 3] {
    let Comparison { base, other, .. } = comparison;
    [
        ("file", base.file, other.file),
        ("code", base.code, other.code),
        ("debug information", base.debug, other.debug),
    ]
}

/// A value that is the same, shortened.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        text.to_owned()
    } else {
        text.chars().take(LONGEST).chain(['…']).collect()
    }
}
