// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a plan in the form of the file, and errors that name the line, the table and the key.

use super::{CommandLine, ReadyPlan, RunPlan, VERSION};
use crate::data::Direction;
use sediment_core::error::{Error, ErrorCode, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    #[serde(rename = "sediment-eval")]
    _version: u64,
    pub(super) name: String,
    pub(super) baseline: Option<String>,
    pub(super) primary: Option<String>,
    #[serde(deserialize_with = "share")]
    pub(super) margin: Option<f64>,
    #[serde(deserialize_with = "confidence")]
    pub(super) confidence: Option<f64>,
    pub(super) noise_floor: Option<bool>,
    pub(super) run: RunPlan,
    pub(super) build: Option<BuildTable>,
    pub(super) variant: Vec<VariantTable>,
    pub(super) factor: Vec<FactorTable>,
    pub(super) workload: Vec<WorkloadTable>,
    pub(super) metric: Vec<MetricTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BuildTable {
    pub(super) command: Option<CommandLine>,
    pub(super) link: Option<CommandLine>,
    pub(super) spec: Option<String>,
    pub(super) program: String,
    pub(super) flags: String,
    pub(super) folder: String,
    #[serde(deserialize_with = "whole::<_, _, 1, 1000>")]
    pub(super) replicas: Option<u64>,
    pub(super) section: Option<String>,
    #[serde(deserialize_with = "seconds")]
    pub(super) time_limit: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct VariantTable {
    pub(super) name: String,
    pub(super) program: Option<String>,
    pub(super) programs: Option<Vec<String>>,
    pub(super) command: Option<CommandLine>,
    pub(super) link: Option<CommandLine>,
    pub(super) flags: String,
    pub(super) arguments: Vec<String>,
    pub(super) factors: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FactorTable {
    pub(super) name: String,
    pub(super) levels: Vec<String>,
    pub(super) flags: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WorkloadTable {
    pub(super) name: String,
    pub(super) command: Option<CommandLine>,
    pub(super) server: Option<CommandLine>,
    pub(super) import: BTreeMap<String, Vec<String>>,
    pub(super) prepare: Option<CommandLine>,
    pub(super) ready: Option<ReadyPlan>,
    pub(super) drive: Option<CommandLine>,
    pub(super) warm_up: Option<CommandLine>,
    pub(super) stop: Option<String>,
    #[serde(deserialize_with = "seconds")]
    pub(super) stop_limit: Option<f64>,
    #[serde(deserialize_with = "seconds")]
    pub(super) ready_limit: Option<f64>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) folder: String,
    pub(super) input: Option<String>,
    pub(super) work: Option<WorkTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WorkTable {
    pub(super) name: Option<String>,
    pub(super) regex: Option<String>,
    pub(super) pointer: Option<String>,
    #[serde(deserialize_with = "positive")]
    pub(super) count: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct MetricTable {
    pub(super) name: String,
    pub(super) better: Option<Direction>,
    pub(super) unit: Option<String>,
    pub(super) regex: Option<String>,
    pub(super) pointer: Option<String>,
}

fn number<'de, D: Deserializer<'de>, T: From<f64>>(
    from: D,
    is: &str,
    fits: impl Fn(f64) -> bool,
) -> std::result::Result<T, D::Error> {
    let number = f64::deserialize(from)?;
    if fits(number) { Ok(number.into()) } else { Err(D::Error::custom(format!("a number {is}"))) }
}

macro_rules! numbers {
    ($($name:ident: $is:literal, $fits:expr;)*) => {$(
        pub(super) fn $name<'de, D: Deserializer<'de>, T: From<f64>>(from: D) -> std::result::Result<T, D::Error> {
            number(from, $is, $fits)
        }
    )*};
}

numbers! {
    share: "above 0 and below 1", |number| number > 0.0 && number < 1.0;
    confidence: "from 0.5 to 0.9999", |number| (0.5..=0.9999).contains(&number);
    positive: "above 0", |number| number > 0.0 && number.is_finite();
    seconds: "from 0.01 to 10000000", |number| (0.01..=1e7).contains(&number);
    seconds_or_none: "from 0 to 10000000", |number| (0.0..=1e7).contains(&number);
}

/// A whole number, within bounds.
pub(super) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(
    from: D,
) -> std::result::Result<T, D::Error> {
    let number = u64::deserialize(from)?;
    let fitting = T::try_from(number).ok().filter(|_| (LEAST..=MOST).contains(&number));
    fitting.ok_or_else(|| D::Error::custom(format!("a whole number from {LEAST} to {MOST}")))
}

/// A table of the plan with the positions of its keys.
#[derive(Clone, Copy)]
pub(super) struct PlanTable<'a> {
    text: &'a str,
    entries: &'a DeTable<'a>,
    begins: usize,
}

impl<'a> PlanTable<'a> {
    /// The top of a plan.
    pub(super) fn top(text: &'a str, document: &'a DeTable<'a>) -> Self {
        Self { text, entries: document, begins: 0 }
    }

    /// Makes an error at this key, or at the table if it lacks the key.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> Error {
        let at = self.entries.get_key_value(key).map_or(self.begins, |(name, _)| name.span().start);
        Error::at_line(line(self.text, at), message)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns the table of this name, or all tables written as `[[key]]`.
    pub(super) fn tables(&self, key: &str) -> Vec<Self> {
        let value = self.entries.get(key);
        let list = value.and_then(|value| value.get_ref().as_array());
        let tables = list.into_iter().flatten().chain(value);
        let of = |value: &'a Spanned<DeValue<'a>>| Some((value.get_ref().as_table()?, value.span().start));
        tables.filter_map(of).map(|(entries, begins)| Self { text: self.text, entries, begins }).collect()
    }
}

/// Parses TOML; the error names the line.
pub(super) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>> {
    DeTable::parse(text).map_err(|error| {
        let message = format!("not TOML: {}", error.message().replace('\n', ", "));
        match error.span() {
            Some(span) => Error::at_line(line(text, span.start), message),
            None => Error::new(ErrorCode::Damaged, message),
        }
    })
}

/// Reads the tables of a plan.
pub(super) fn read(text: &str, document: &Spanned<DeTable<'_>>) -> Result<File> {
    let top = document.get_ref();
    check_version(&PlanTable::top(text, top))?;
    if let Some(at) = top.iter().find_map(|(_, value)| nul(value)) {
        let key = path_at(top, at).pop().unwrap_or_default();
        return Err(Error::at_line(line(text, at), format!("{key} holds a NUL character")));
    }
    let tables = File::deserialize(toml::de::Deserializer::from(document.clone()));
    tables.map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (message, hint) = refusal(error.message(), path_at(top, at));
        let error = Error::at_line(line(text, at), message);
        if hint.is_empty() { error } else { error.with_hint(hint) }
    })
}

/// The message for serde's refusal of a key, with the keys known at this place.
fn refusal(message: &str, mut path: Vec<&str>) -> (String, String) {
    let key = path.pop().unwrap_or_default();
    let (is, wanted) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let wanted = wanted.trim_start_matches("one of ").replace('`', "");
    let unknown = is.strip_prefix("unknown field `").or(is.strip_prefix("unknown variant `"));
    let unknown = unknown.and_then(|name| name.strip_suffix('`'));
    if unknown == Some(key) {
        let place = if path.is_empty() {
            "at the top of a plan".to_owned()
        } else {
            format!("in [{}]", path.join("."))
        };
        return (format!("unknown key {key} {place}"), format!("known keys: {wanted}"));
    }
    let found = unknown.unwrap_or_else(|| is.split_once(": ").map_or(is, |(_, found)| found));
    let wanted = match wanted.as_str() {
        "" if is.starts_with("wanted exactly 1 element") => {
            return (format!("{key} must be command, port, socket or log"), String::new());
        }
        "" => return (format!("{key} is {is}"), String::new()),
        "f64" => "a number".to_owned(),
        "u32" | "u64" => "a whole number".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" if found == "map" => format!("written as [[{key}]]"),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        _ => wanted,
    };
    (format!("{key} is {wanted}, not {found}"), String::new())
}

/// The version is checked first, because a newer plan may have keys that are unknown here.
fn check_version(top: &PlanTable<'_>) -> Result<()> {
    let Some(value) = top.entries.get("sediment-eval") else {
        return Err(Error::at_line(1, "not a plan: it has no line sediment-eval = 1"));
    };
    match value.get_ref().as_integer().and_then(|number| number.as_str().parse::<u64>().ok()) {
        Some(VERSION) => Ok(()),
        Some(newer) if newer > VERSION => Err(top
            .error(
                "sediment-eval",
                format!("this plan has version {newer}, and this program reads version {VERSION}"),
            )
            .with_hint("use a newer sediment")),
        _ => Err(top.error("sediment-eval", format!("sediment-eval is the plan's version: {VERSION}"))),
    }
}

/// Returns the line, from 1, of an offset.
fn line(text: &str, offset: usize) -> u64 {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count() as u64
}

/// Returns the key whose name or value is at this offset, preceded by the names of its tables.
fn path_at<'a>(entries: &'a DeTable<'_>, at: usize) -> Vec<&'a str> {
    entries
        .iter()
        .find_map(|(name, value)| {
            let tables = value.get_ref().as_array().into_iter().flatten().chain([value]);
            let below = tables
                .filter_map(|table| Some(path_at(table.get_ref().as_table()?, at)))
                .find(|path| !path.is_empty());
            let here = name.span().contains(&at) || value.span().contains(&at);
            let below = below.or_else(|| here.then(Vec::new))?;
            Some([&[name.get_ref().as_ref()], &below[..]].concat())
        })
        .unwrap_or_default()
}

/// The offset of a text with a NUL character in it.
fn nul(value: &Spanned<DeValue<'_>>) -> Option<usize> {
    match value.get_ref() {
        DeValue::String(text) => text.contains('\0').then(|| value.span().start),
        DeValue::Array(list) => list.iter().find_map(nul),
        DeValue::Table(entries) => entries.iter().find_map(|(_, value)| nul(value)),
        _ => None,
    }
}
