// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the wrapper's log, in the folder that `SEDIMENT_LOG` names: each order, and a line per link in `links.jsonl`.
//!
//! A line is a [`LoggedLink`]. Lines are appended, so links of a parallel build do not disturb each other.

use super::{Ordered, Origin};
use crate::files::{self, OutputFile, TemporaryFolder};
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::wrapper::command_line::LinkLine;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in the folder that lists the links.
pub(crate) const LINKS: &str = "links.jsonl";

/// Outcome of a link without an order because no order is better than the linker's layout.
pub(crate) const BEST_AS_LINKED: &str = "best as linked";
/// The same outcome in messages.
pub(super) const STARTS_BEST: &str = "the linker's own layout starts best";

/// True if the build's links must be logged.
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

/// An order on disk: in the folder of the log, or only for the duration of the link.
pub(super) struct OrderFile {
    path: PathBuf,
    _temporary: Option<TemporaryFolder>,
}

impl OrderFile {
    /// Writes it completely or not at all.
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
            // The folder distinguishes outputs of the same name.
            let place = output(line);
            let tag =
                place.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
                });
            let path = folder.join(format!("{name}-{tag:016x}.order"));
            let mut output = OutputFile::replace(&path)?;
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

/// Outcome of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkOutcome {
    /// Linked in its order.
    Ordered,
    /// Linked without its order, because the linker failed with it.
    Failed,
    /// Linked as without sediment. If it has a profile, it should have been ordered.
    Left,
    /// Linked without an order because no order is better.
    #[serde(rename = "best as linked")]
    BestAsLinked,
}

/// A line of the log: an output, and how it was linked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoggedLink {
    pub(crate) outcome: LinkOutcome,
    pub(crate) output: String,
    /// Reason for a link without its order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Code of the reason, if it is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    #[serde(default, skip_serializing_if = "LinkTimes::is_unknown")]
    pub(crate) milliseconds: LinkTimes,
    /// The order, if the output has one.
    #[serde(flatten)]
    pub(crate) order: Option<LoggedOrder>,
    /// The profile, if the output has one.
    #[serde(flatten)]
    pub(crate) origin: Option<LoggedOrigin>,
    /// Folder of further links that differ by padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layouts: Option<String>,
}

/// Milliseconds to compute the order, and to link.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LinkTimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<u64>,
}

/// The order with which an output was linked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoggedOrder {
    /// The ordering file.
    pub(crate) order: String,
    pub(crate) linker: String,
    /// Number of functions in the order.
    functions: usize,
    /// Share of the profile's calls into existing functions.
    pub(crate) coverage_percent: f64,
    engine: u32,
    /// File of the older order.
    keep: Option<String>,
    /// Pairs of a function's name in the profile and its name here.
    pub(crate) renamed: Vec<(String, String)>,
    left_out: Vec<LeftOutFunctions>,
}

/// Functions that an order does not list, for one reason.
#[derive(Debug, Serialize, Deserialize)]
struct LeftOutFunctions {
    code: String,
    reason: String,
    functions: u64,
    weight: String,
}

/// The profile of an output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoggedOrigin {
    pub(crate) profile: String,
    /// The folder of profiles.
    pub(crate) folder: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) rule: String,
    /// Ignored files with a profile of the same program.
    pub(crate) also_in: Vec<String>,
}

impl LoggedLink {
    fn new(outcome: LinkOutcome, line: &LinkLine) -> Self {
        Self {
            outcome,
            output: output(line).to_string_lossy().into_owned(),
            why: None,
            code: None,
            milliseconds: LinkTimes::default(),
            order: None,
            origin: None,
            layouts: None,
        }
    }

    fn with_order(mut self, order: &Ordered, file: &OrderFile) -> Self {
        self.order = Some(LoggedOrder::new(order, file));
        self.origin = Some(LoggedOrigin::new(&order.chosen.origin));
        self
    }
}

impl LinkTimes {
    fn is_unknown(&self) -> bool {
        self.order.is_none() && self.link.is_none()
    }
}

impl LoggedOrder {
    fn new(order: &Ordered, file: &OrderFile) -> Self {
        let left_out = order.skipped.iter().map(|(reason, entry)| LeftOutFunctions {
            code: reason.code(),
            reason: reason.to_string(),
            functions: entry.items,
            weight: entry.weight.to_string(),
        });
        let renamed = order.renamed.iter().map(|renaming| (renaming.old.clone(), renaming.new.clone()));
        Self {
            order: file.path().to_string_lossy().into_owned(),
            linker: order.dialect.name.to_owned(),
            functions: order.placements.len(),
            coverage_percent: (order.coverage * 100.0).floor() / 100.0,
            engine: order.settings.engine.number,
            keep: order.older.as_ref().map(|older| older.file.clone()),
            renamed: renamed.collect(),
            left_out: left_out.collect(),
        }
    }
}

impl LoggedOrigin {
    fn new(origin: &Origin) -> Self {
        Self {
            profile: whole(&origin.path),
            folder: origin.path.parent().map(whole),
            label: origin.label.clone(),
            rule: origin.rule.in_words().to_owned(),
            also_in: origin.also_in.iter().map(|path| whole(path)).collect(),
        }
    }
}

/// Logs a link with its order, the times for the order and the link, and the folder of its layouts.
pub(super) fn ordered(
    line: &LinkLine,
    order: &Ordered,
    file: &OrderFile,
    took: [Duration; 2],
    layouts: Option<&Path>,
    ui: &Ui,
) {
    let [order_took, link_took] = took.map(|time| Some(milliseconds(time)));
    let link = LoggedLink::new(LinkOutcome::Ordered, line).with_order(order, file);
    let milliseconds = LinkTimes { order: order_took, link: link_took };
    append(&LoggedLink { milliseconds, layouts: layouts.map(whole), ..link }, ui);
}

/// Logs a link that failed with its order and was repeated without it.
pub(super) fn failed(line: &LinkLine, order: &Ordered, file: &OrderFile, said: &str, ui: &Ui) {
    let link = LoggedLink::new(LinkOutcome::Failed, line).with_order(order, file);
    append(&LoggedLink { why: Some(said.to_owned()), ..link }, ui);
}

/// Reason for a link without an order, and its code if it is an error.
type MissingOrderReason<'a> = (&'a str, Option<ErrorCode>);

/// Logs an unchanged link, with its duration and its profile, if one was found.
pub(super) fn left(
    line: &LinkLine,
    why: MissingOrderReason<'_>,
    origin: Option<&Origin>,
    took: Duration,
    ui: &Ui,
) {
    append(&unordered(LinkOutcome::Left, line, why, origin, took), ui);
}

/// Logs an unchanged link without a profile, with the folder of its layouts.
pub(super) fn without_profile(line: &LinkLine, layouts: Option<&Path>, took: Duration, ui: &Ui) {
    let link = unordered(LinkOutcome::Left, line, ("no profile", None), None, took);
    append(&LoggedLink { layouts: layouts.map(whole), ..link }, ui);
}

/// Logs a link without an order because no order is better, with its duration.
pub(super) fn best_as_linked(line: &LinkLine, origin: &Origin, took: Duration, ui: &Ui) {
    append(&unordered(LinkOutcome::BestAsLinked, line, (STARTS_BEST, None), Some(origin), took), ui);
}

fn unordered(
    outcome: LinkOutcome,
    line: &LinkLine,
    (why, code): MissingOrderReason<'_>,
    origin: Option<&Origin>,
    took: Duration,
) -> LoggedLink {
    LoggedLink {
        why: Some(why.to_owned()),
        code: code.map(|code| code.text().to_owned()),
        milliseconds: LinkTimes { order: None, link: Some(milliseconds(took)) },
        origin: origin.map(LoggedOrigin::new),
        ..LoggedLink::new(outcome, line)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the absolute path.
fn whole(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).to_string_lossy().into_owned()
}

/// Appends a line. If the log cannot be written, a warning is printed and the link goes on.
fn append(link: &LoggedLink, ui: &Ui) {
    let Some(folder) = folder() else { return };
    let line = json!(link).to_string();
    let written = files::folder(&folder).and_then(|folder| files::append_line(&folder.join(LINKS), &line));
    if let Err(error) = written {
        ui.note(&format!("SEDIMENT_LOG: {error}"));
    }
}
