// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrapper's log, in the folder that `SEDIMENT_LOG` names: each order, and in `links.jsonl` a line per link.
//!
//! A line is a JSON object: `outcome` (ordered, failed, left or best as linked), `output`, and for the first two `order`, `linker`,
//! `functions`, `coverage_percent` (share of the profile's calls into existing functions), `engine`, `keep` (the older
//! order), `renamed` (pairs of a name in the profile and the one here); `why` for all but the first, with its `code` where it is an error; the `milliseconds` of linking
//! and of computing the order. An output with a profile also has `profile`, `folder` (of profiles), `label`, `rule`, and
//! `also_in` (ignored files with a profile of the same program); if its outcome is left, it should have been ordered. Lines
//! are appended, so links of a parallel build do not disturb each other.

use super::{Ordered, Origin};
use crate::files::{self, Output, TemporaryFolder};
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::wrapper::command_line::LinkLine;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in the folder that lists the links.
pub(crate) const LINKS: &str = "links.jsonl";

/// The outcome of a link without an order, as no order is better.
pub(crate) const BEST_AS_LINKED: &str = "best as linked";
/// The same for people.
pub(super) const STARTS_BEST: &str = "the program starts best as it is linked";

/// True if a build wants its links logged.
pub(super) fn is_kept() -> bool {
    folder().is_some()
}

fn folder() -> Option<PathBuf> {
    std::env::var_os("SEDIMENT_LOG").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The output's absolute path.
pub(super) fn output(line: &LinkLine) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    here.join(line.output.clone().unwrap_or_else(|| "a.out".into()))
}

/// An order on disk: in the folder of the log, or for as long as the link takes.
pub(super) struct OrderFile {
    path: PathBuf,
    _temporary: Option<TemporaryFolder>,
}

impl OrderFile {
    /// Writes it whole or not at all.
    pub(super) fn write(line: &LinkLine, text: &[u8]) -> Result<Self> {
        Self::written(line, text).map_err(|error| {
            let failed = Error::new(ErrorCode::Io, format!("cannot write the order: {error}"));
            error.hint().map_or(failed.clone(), |hint| failed.clone().with_hint(hint))
        })
    }

    fn written(line: &LinkLine, text: &[u8]) -> Result<Self> {
        if let Some(folder) = folder() {
            let folder = files::folder(&folder)?;
            let name = escape::file_name(&line.output_name()).unwrap_or_else(|| "output".to_owned());
            // Outputs of one name in several folders: the folder tells them apart.
            let place = output(line);
            let tag =
                place.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
                });
            let path = folder.join(format!("{name}-{tag:016x}.order"));
            let mut output = Output::replace(&path)?;
            output.write_all(text).map_err(|error| output.failed(&error))?;
            output.keep()?;
            return Ok(Self { path, _temporary: None });
        }
        let temporary = TemporaryFolder::new()?;
        let path = temporary.write("order", text)?;
        Ok(Self { path, _temporary: Some(temporary) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A link that was done in its order, and how long the order and the link took.
pub(super) fn ordered(line: &LinkLine, order: &Ordered, file: &OrderFile, took: [Duration; 2], ui: &Ui) {
    let mut entry = about(line, order, file, "ordered");
    let [made, linked] = took.map(milliseconds);
    entry["milliseconds"] = json!({ "order": made, "link": linked });
    append(&entry, ui);
}

/// A link that failed in its order and was done without.
pub(super) fn failed(line: &LinkLine, order: &Ordered, file: &OrderFile, said: &str, ui: &Ui) {
    let mut entry = about(line, order, file, "failed");
    entry["why"] = json!(said);
    append(&entry, ui);
}

/// Reason for a link without an order, and its code where it is an error.
type Why<'a> = (&'a str, Option<ErrorCode>);

/// A link that was done as without sediment, how long it took, and the profile that it has all the same.
pub(super) fn left(line: &LinkLine, why: Why<'_>, origin: Option<&Origin>, took: Duration, ui: &Ui) {
    unordered(line, "left", why, origin, took, ui);
}

/// A link without an order because its profile asks for none, and how long it took.
pub(super) fn best_as_linked(line: &LinkLine, origin: &Origin, took: Duration, ui: &Ui) {
    unordered(line, BEST_AS_LINKED, (STARTS_BEST, None), Some(origin), took, ui);
}

fn unordered(
    line: &LinkLine,
    outcome: &str,
    (why, code): Why<'_>,
    origin: Option<&Origin>,
    took: Duration,
    ui: &Ui,
) {
    let output = output(line);
    let mut entry = json!({ "outcome": outcome, "output": output.to_string_lossy(), "why": why, "milliseconds": { "link": milliseconds(took) } });
    if let Some(code) = code {
        entry["code"] = json!(code.text());
    }
    if let Some(origin) = origin {
        add_origin(&mut entry, origin);
    }
    append(&entry, ui);
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn about(line: &LinkLine, order: &Ordered, file: &OrderFile, outcome: &str) -> Value {
    let left_out: Vec<Value> = order
        .skipped
        .iter()
        .map(|(reason, entry)| {
            json!({ "code": reason.code(), "reason": reason.to_string(), "functions": entry.items, "weight": entry.weight.to_string() })
        })
        .collect();
    let mut entry = json!({
        "outcome": outcome,
        "output": output(line).to_string_lossy(),
        "order": file.path().to_string_lossy(),
        "linker": order.dialect.name,
        "functions": order.functions,
        "coverage_percent": (order.coverage * 100.0).floor() / 100.0,
        "engine": order.settings.engine.number,
        "keep": order.older.as_ref().map(|older| &older.file),
        "renamed": order.renamed.iter().map(|renaming| json!([renaming.old, renaming.new])).collect::<Vec<_>>(),
        "left_out": left_out,
    });
    add_origin(&mut entry, &order.chosen.origin);
    entry
}

fn add_origin(entry: &mut Value, origin: &Origin) {
    entry["profile"] = whole(&origin.path);
    entry["folder"] = origin.path.parent().map_or(Value::Null, whole);
    entry["label"] = json!(origin.label);
    entry["rule"] = json!(origin.rule.in_words());
    entry["also_in"] = origin.also_in.iter().map(|path| whole(path)).collect();
}

/// A path from the root.
fn whole(path: &Path) -> Value {
    json!(path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).to_string_lossy())
}

/// Appends a line; a log that cannot be written is said, and holds up no link.
fn append(entry: &Value, ui: &Ui) {
    let Some(folder) = folder() else { return };
    let written =
        files::folder(&folder).and_then(|folder| files::append_line(&folder.join(LINKS), &entry.to_string()));
    if let Err(error) = written {
        ui.note(&format!("SEDIMENT_LOG: {error}"));
    }
}
