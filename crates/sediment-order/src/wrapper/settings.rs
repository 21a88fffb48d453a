// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a package: a file next to its profiles, which is read whenever the package is built.
//!
//! It has lines of `key = value`; `#` begins a comment. The first key is `sediment`, the version of the format; the
//! other keys have the names of options of `sediment order` and `sediment verify`. An unknown or repeated key is an
//! error, because a setting without effect would not be noticed. docs/packaging.md describes the keys.

use crate::order::versions::{ENGINES, Engine, LATEST, engine};
use crate::order::{AIMS, Aim};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::escape;
use std::collections::BTreeMap;

/// Name of the file, in the folder of profiles.
pub const FILE: &str = "sediment.conf";
/// Newest version of the format.
pub const VERSION: u32 = 1;
/// Key of the goal of the order.
const GOAL: &str = "optimize-for";
/// Former name of [`GOAL`].
const FORMER_GOAL: &str = "serve";
/// Extension of an older order, whose file name is the name of its program.
pub const ORDER: &str = ".order";
/// Default gain below which an older order stays, in parts per million.
pub(crate) const KEEP_BELOW: u64 = 20_000;

/// Settings of a package. A package without the file has the default.
#[derive(Debug, Clone)]
pub struct PackageSettings {
    /// `engine`: the release whose default order is used.
    pub engine: &'static Engine,
    /// `optimize-for`: goal of the order; `None` for the release's default.
    pub aim: Option<Aim>,
    /// `keep`: names of older orders in the same folder, `PROGRAM.order` each.
    pub keep: Vec<String>,
    /// `keep-below`: gain below which an older order stays, in parts per million.
    pub keep_below: u64,
    /// `min-coverage`: smallest share of a profile's weight that must be placed as ordered, in parts per million.
    pub min_coverage: Option<u64>,
}

impl Default for PackageSettings {
    fn default() -> Self {
        Self { engine: LATEST, aim: None, keep: Vec::new(), keep_below: KEEP_BELOW, min_coverage: None }
    }
}

/// Reads the text of a settings file.
///
/// # Errors
/// For the first line that is not `key = value`, or has an unknown key, a repeated key or an invalid value; for a file
/// whose first key is not `sediment`, and for a file with a newer version.
pub fn parse(text: &[u8]) -> Result<PackageSettings> {
    let mut settings = PackageSettings::default();
    let mut lines_of: BTreeMap<&str, u64> = BTreeMap::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let wrong = |what: &str| Error::at_line(number, what).with_found(line);
        let line = std::str::from_utf8(line).map_err(|_| wrong("not UTF-8 text"))?;
        let setting = line.split('#').next().unwrap_or_default().trim();
        if setting.is_empty() {
            continue;
        }
        let (key, value) =
            setting.split_once('=').ok_or_else(|| wrong("not a setting; expected `key = value`"))?;
        let (key, value) = (key.trim(), value.trim());
        let key = if key == FORMER_GOAL { GOAL } else { key };
        if lines_of.is_empty() != (key == "sediment") {
            return Err(wrong("the first setting must be the version of the file, given once")
                .with_hint(format!("begin the file with `sediment = {VERSION}`")));
        }
        if let Some(before) = lines_of.insert(key, number) {
            return Err(wrong(&format!("{key} is already set in line {before}")));
        }
        settings.set(key, value).map_err(|what| what.at(number, line))?;
    }
    if lines_of.is_empty() {
        return Err(Error::new(ErrorCode::EmptyInput, "no settings")
            .with_hint(format!("begin the file with `sediment = {VERSION}`, or remove it")));
    }
    if let (Some(line), false) = (lines_of.get(GOAL), settings.engine.knows_runs) {
        let number = settings.engine.number;
        return Err(Error::at_line(*line, format!("engine {number} does not support optimize-for")));
    }
    Ok(settings)
}

/// Error in a setting, and a hint.
struct Wrong(String, String, ErrorCode);

impl Wrong {
    fn new(message: String, hint: String) -> Self {
        Self(message, hint, ErrorCode::Damaged)
    }

    fn newer(mut self) -> Self {
        self.2 = ErrorCode::NewerVersion;
        self
    }

    fn at(self, number: u64, line: &str) -> Error {
        Error::at_line(number, self.0).with_found(line.as_bytes()).with_hint(self.1).with_code(self.2)
    }
}

impl PackageSettings {
    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), Wrong> {
        let one_of = |what: &str, known: Vec<String>| {
            Wrong::new(format!("unknown {what}"), format!("supported: {}", known.join(", ")))
        };
        let share = || percent(value).map_err(|wrong| Wrong::new(wrong, format!("for example `{key} = 50`")));
        match key {
            "sediment" => version(value)?,
            "engine" => {
                let known = || ENGINES.iter().map(|engine| engine.number.to_string()).collect();
                let found = value.parse().ok().and_then(engine);
                self.engine = found.ok_or_else(|| one_of("engine", known()))?;
            }
            GOAL => {
                let found = AIMS.iter().find(|(_, name, _)| *name == value);
                let known = || AIMS.iter().map(|(_, name, _)| (*name).to_owned()).collect();
                self.aim = Some(found.ok_or_else(|| one_of("goal", known()))?.0);
            }
            "keep" => {
                self.keep = value.split_whitespace().map(str::to_owned).collect();
                let plain = |name: &str| escape::file_name(name).as_deref() == Some(name);
                let named = |name: &String| name.len() > ORDER.len() && name.ends_with(ORDER) && plain(name);
                if self.keep.is_empty() || !self.keep.iter().all(named) {
                    return Err(Wrong::new(
                        "not names of older orders".to_owned(),
                        format!("older orders must be next to this file, with names such as PROGRAM{ORDER}"),
                    ));
                }
            }
            "keep-below" => self.keep_below = share()?,
            "min-coverage" => self.min_coverage = Some(share()?),
            _ => {
                let known = ["engine", GOAL, "keep", "keep-below", "min-coverage"].map(str::to_owned);
                return Err(one_of("setting", known.into()));
            }
        }
        Ok(())
    }
}

fn version(value: &str) -> std::result::Result<(), Wrong> {
    match value.parse::<u32>() {
        Ok(1..=VERSION) => Ok(()),
        Ok(newer) if newer > VERSION => Err(Wrong::new(
            format!("version {newer} of the file, but this program reads version {VERSION}"),
            "build with a newer sediment, or rewrite the file".to_owned(),
        )
        .newer()),
        _ => Err(Wrong::new("not a version of a settings file".to_owned(), format!("expected {VERSION}"))),
    }
}

/// Parses a percentage from 0 to 100 with up to four decimals; returns parts per million.
///
/// # Errors
/// For anything else; the error is a text.
pub fn percent(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{text} is not a percentage from 0 to 100 with at most four decimal places");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || fraction.len() > 4 || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let parts: u64 = format!("{whole}{fraction:0<4}").parse().map_err(|_| wrong())?;
    if parts > 1_000_000 { Err(wrong()) } else { Ok(parts) }
}

/// Converts parts per million to a share of one.
#[must_use]
pub fn share(parts_per_million: u64) -> f64 {
    parts_per_million as f64 / 1e6
}
