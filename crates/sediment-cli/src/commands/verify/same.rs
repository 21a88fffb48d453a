// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --same-as` compares a file with one linked without the order.

use super::output::{LinkMilliseconds, SameAsOutput};
use super::{debug_file, log};
use crate::files;
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::verify::same::{self, ComparedFacts, FileComparison};
use std::fmt::Write as _;
use std::path::Path;

/// Files and options of a comparison.
pub(super) struct ComparisonRequest<'a> {
    pub(super) base: &'a Path,
    pub(super) other: &'a Path,
    /// Log of the wrapper that linked the file, for the link times.
    pub(super) log: Option<&'a Path>,
}

/// Result of a comparison.
struct ComparisonResult {
    comparison: FileComparison,
    /// Checks that were not made, with their reasons.
    unchecked: Vec<(&'static str, String)>,
    links: Option<LinkMilliseconds>,
}

/// Compares the files and prints the result; true if everything is the same.
pub(super) fn run(request: &ComparisonRequest<'_>, as_json: bool, ui: &Ui) -> Result<bool> {
    let found = compare(request)?;
    if as_json {
        ui.json(&SameAsOutput::new(&found.comparison, &found.unchecked, found.links))?;
    } else {
        ui.result(&in_words(&found, &files::display_name(request.base)))?;
    }
    Ok(found.comparison.is_clean())
}

fn compare(request: &ComparisonRequest<'_>) -> Result<ComparisonResult> {
    let &ComparisonRequest { base, other, .. } = request;
    let [bytes, other_bytes] = [files::read(base)?, files::read(other)?];
    let facts =
        |bytes: &[u8], path| ComparedFacts::of(bytes).map_err(|error| error.with_input(files::display(path)));
    let mut comparison = same::compare(&facts(&bytes, base)?, &facts(&other_bytes, other)?);
    let entries = request.log.map(log::read).transpose()?;
    let entry = |path: &Path| entries.as_ref().and_then(|entries| log::entry_of(entries, path));
    let [base, other] = [absolute(base)?, absolute(other)?];
    let mut unchecked = Vec::new();
    match debug_file::compare(&base, &other) {
        Ok(check) => comparison.checks.push(check),
        Err(error) => unchecked.push((debug_file::WHAT, error.to_string())),
    }
    let links = request.log.map(|_| {
        let [base, other] = [&base, &other].map(|path| entry(path).map(|entry| &entry.milliseconds));
        LinkMilliseconds {
            base: base.and_then(|times| times.link),
            this: other.and_then(|times| times.link),
            order: other.and_then(|times| times.order),
        }
    });
    Ok(ComparisonResult { comparison, unchecked, links })
}

/// The tools run in other folders.
fn absolute(path: &Path) -> Result<std::path::PathBuf> {
    std::path::absolute(path).map_err(|error| {
        Error::new(ErrorCode::Io, format!("its folder is unknown: {error}")).with_input(files::display(path))
    })
}

fn in_words(found: &ComparisonResult, base: &str) -> String {
    let ComparisonResult { comparison, unchecked, links } = found;
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
        // For display only: the quotient of two floats is exact enough.
        let growth = if base == 0 { 0.0 } else { 100.0 * (other as f64 / base as f64 - 1.0) };
        let more = i128::from(other) - i128::from(base);
        let _ = writeln!(text, "  size       {what}: {other} bytes, {more:+} bytes, {growth:+.2} %");
    }
    if let Some(links) = links {
        let time = |milliseconds: Option<u64>| match milliseconds {
            // For display only.
            Some(milliseconds) => format!("{:.2} s", milliseconds as f64 / 1000.0),
            None => "not in the log".to_owned(),
        };
        let [base, other, order] = [links.base, links.this, links.order].map(time);
        let _ = writeln!(text, "  link time  {other}, computing the order {order}; base {base}");
    }
    text
}

/// Parts of the files with their sizes, before and after.
fn sizes(comparison: &FileComparison) -> [(&'static str, u64, u64); 3] {
    let FileComparison { base, other, .. } = comparison;
    [
        ("file", base.file, other.file),
        ("code", base.code, other.code),
        ("debug information", base.debug, other.debug),
    ]
}

/// Shortens a value that is the same in both.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        text.to_owned()
    } else {
        text.chars().take(LONGEST).chain(['…']).collect()
    }
}
