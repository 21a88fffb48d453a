// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project file `sediment.toml`, with options for `sediment optimize` that its command line does not have.

use super::Arguments;
use super::entries::PROJECT_FILE as NAME;
use super::recipe::BuildSystem;
use super::ship::LevelName;
use crate::files;
use crate::ui::Ui;
use clap::ValueEnum as _;
use sediment_core::{Error, ErrorCode, Result, escape};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Largest file that is read.
const LARGEST: u64 = 1 << 20;
const KEYS: &str = "train, startup, measure, build, level and profile";

/// Completes the command line by the project file, if there is one. Options on the command line take precedence.
///
/// # Errors
/// If the file cannot be read, or has another key or value.
pub(super) fn complete(given: &Arguments, tree: &Path) -> Result<Arguments> {
    let mut all = given.clone();
    let path = tree.join(NAME);
    if !path.is_file() {
        return Ok(all);
    }
    let text = String::from_utf8_lossy(&files::read_at_most(&path, LARGEST)?).into_owned();
    let located = |error: Error| error.with_input(files::display(&path));
    let table = DeTable::parse(&text)
        .map_err(|error| located(at(&text, error.span().map_or(0, |span| span.start), error.message())))?;
    for (key, value) in table.get_ref() {
        let start = value.span().start;
        let failed = |message: &str| located(at(&text, start, message));
        let texts = || {
            texts(value.get_ref()).ok_or_else(|| failed(&format!("{key} must be a text, or a list of texts")))
        };
        let is_trained = !given.train.is_empty() || !given.startup.is_empty();
        match key.get_ref().as_ref() {
            // Training commands of one kind on the command line replace those of both kinds in the file.
            "train" => put(&mut all.train, texts()?, is_trained),
            "startup" => put(&mut all.startup, texts()?, is_trained),
            "measure" => put(&mut all.measure, texts()?, !given.measure.is_empty()),
            "build" => {
                let words = texts()?.into_iter().map(OsString::from).collect();
                put(&mut all.build, words, !given.build.is_empty());
            }
            "level" => {
                let known = |name: &String| LevelName::from_str(name, false);
                let levels: std::result::Result<_, String> = texts()?.iter().map(known).collect();
                let levels = levels.map_err(|_| failed("level must be order, blocks, counters or both"))?;
                put(&mut all.level, levels, given.are_fixed());
            }
            "profile" => {
                let path = texts()?.into_iter().next().map(PathBuf::from);
                put(&mut all.keep_profile, path, given.keep_profile.is_some());
            }
            other => {
                let other = escape::terminal(other);
                return Err(failed(&format!("unknown key {other}")).with_hint(format!("known keys: {KEYS}")));
            }
        }
    }
    Ok(all)
}

/// Uses a value of the file, unless the command line has one.
fn put<T>(place: &mut T, value: T, is_given: bool) {
    if !is_given {
        *place = value;
    }
}

/// True if the project file of a folder names a build command.
pub(super) fn has_build(tree: &Path) -> bool {
    let text = files::read_at_most(&tree.join(NAME), LARGEST).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    DeTable::parse(&text).is_ok_and(|table| table.get_ref().contains_key("build"))
}

fn at(text: &str, byte: usize, message: &str) -> Error {
    let line = text.get(..byte).unwrap_or_default().matches('\n').count() as u64 + 1;
    let mut error = Error::at_line(line, message.trim_end());
    error = error.with_hint("docs/optimize.md explains the keys");
    error
}

/// A text, or a list of texts.
fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(text) => Some(vec![text.to_string()]),
        DeValue::Array(list) => list
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// Writes the given options to the project file. A missing build command is guessed, or left to be filled in.
///
/// # Errors
/// If there is a project file already.
pub(super) fn write(given: &Arguments, tree: &Path, ui: &Ui) -> Result<()> {
    let path = tree.join(NAME);
    if path.exists() {
        return Err(Error::new(ErrorCode::Usage, "the project file exists already: edit it, or remove it")
            .with_input(NAME));
    }
    let mut text = String::from(
        "# Options of `sediment optimize` in this folder; options on the command line replace them.\n",
    );
    let guessed = BuildSystem::of(tree, "").usual_build();
    let build: Vec<String> = given.build.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let build = if build.is_empty() { vec![guessed.to_owned()] } else { build };
    let mut add = |what: &str, key: &str, values: &[String], example: &str| {
        let values: Vec<String> = values.iter().map(|value| escape::toml(value)).collect();
        let _ = match &values[..] {
            [] => writeln!(text, "# {what}\n# {key} = {example}"),
            [value] => writeln!(text, "# {what}\n{key} = {value}"),
            values => writeln!(text, "# {what}\n{key} = [{}]", values.join(", ")),
        };
    };
    add("Build command: a text for a shell, or a list of words.", "build", &build, "");
    add("Commands of typical work, run in the built tree.", "train", &given.train, "[\"./prog input\"]");
    add("Commands whose start-up time matters.", "startup", &given.startup, "[\"./prog --help\"]");
    add(
        "Commands to measure: other work than the training.",
        "measure",
        &given.measure,
        "[\"./prog other-input\"]",
    );
    let levels: Vec<String> = given.level.iter().map(|level| level.text().to_owned()).collect();
    add("Levels to try; by default, the cheapest first.", "level", &levels, "[\"order\"]");
    let kept: Vec<String> =
        given.keep_profile.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    add("File to keep the profile of the shipped level in.", "profile", &kept, "\"prog.gv\"");
    files::write(&path, text.as_bytes(), ui)?;
    let is_whole = !given.train.is_empty() || !given.startup.is_empty();
    ui.note(&format!(
        "wrote {NAME}; next: {}",
        if is_whole { "sediment optimize" } else { "add training commands to it" }
    ));
    Ok(())
}
