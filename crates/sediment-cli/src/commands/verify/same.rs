// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --same-as`: whether a file is but for its order what it was.

use crate::files;
use crate::ui::Ui;
use sediment::Result;
use sediment::verify::same::{self, Comparison, Sizes};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Compares, says what came out, and whether all is the same.
pub(super) fn run(base: &Path, other: &Path, as_json: bool, ui: &Ui) -> Result<bool> {
    let comparison = same::compare(&files::read(base)?, &files::read(other)?)
        .map_err(|error| error.with_input(files::display(other)))?;
    if as_json {
        ui.json(&in_json(&comparison))?;
    } else {
        ui.result(&in_words(&comparison, &files::base_name(base)))?;
    }
    Ok(comparison.is_clean())
}

fn in_words(comparison: &Comparison, base: &str) -> String {
    let mut text = format!("Against {base}, which was linked without this order:\n");
    for check in &comparison.checks {
        if check.same {
            let _ = writeln!(text, "  same       {}: {}", check.what, shortened(&check.base));
        } else {
            let _ = writeln!(text, "  DIFFERENT  {}: {}; before: {}", check.what, check.other, check.base);
        }
    }
    let Comparison { base, other, .. } = comparison;
    for (what, base, other) in [
        ("file", base.file, other.file),
        ("code", base.code, other.code),
        ("debug information", base.debug, other.debug),
    ] {
        // Only for the eye: the quotient of two floats is near enough.
        let growth = if base == 0 { 0.0 } else { 100.0 * (other as f64 / base as f64 - 1.0) };
        let _ = writeln!(text, "  size       {what}: {other} bytes, {growth:+.2} %");
    }
    text
}

/// What is the same needs no more than a glance.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        text.to_owned()
    } else {
        text.chars().take(LONGEST).chain(['…']).collect()
    }
}

fn in_json(comparison: &Comparison) -> Value {
    let sizes = |sizes: Sizes| json!({ "file": sizes.file, "code": sizes.code, "debug": sizes.debug });
    json!({
        "schema": 1,
        "same": comparison.is_clean(),
        "checks": comparison.checks.iter().map(|check| json!({
            "what": check.what,
            "same": check.same,
            "base": check.base,
            "this": check.other,
        })).collect::<Vec<_>>(),
        "sizes": { "base": sizes(comparison.base), "this": sizes(comparison.other) },
    })
}
