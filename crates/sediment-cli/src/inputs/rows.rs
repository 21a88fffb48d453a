// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles as rows of a table in JSON lines, for query engines: each line is an object with the columns in
//! docs/rows.md. Lines with sums are read as the merged profile.

use sediment_core::profile::rows::{Assembly, ProfileRow, RowKind, rows};
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};
use serde_json::{Map, Value, json};

/// Columns of the three parts of a function's identity.
const FUNCTION: [&str; 3] = ["dso", "name", "file"];
const CALLEE: [&str; 3] = ["callee_dso", "callee_name", "callee_file"];

/// True for the beginning of such a file.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

/// Appends the rows of a profile of shares. Weights are strings, because many JSON readers have only 53-bit numbers.
pub(crate) fn print(profile: &Profile, number: usize, text: &mut String) {
    for row in rows(profile) {
        let mut object = Map::new();
        object.insert("profile".to_owned(), json!(number));
        object.insert("kind".to_owned(), json!(row.kind.text()));
        for (names, function) in [(FUNCTION, row.function), (CALLEE, row.callee)] {
            let key = function.map(|function| profile.key(function));
            let parts = [
                key.and_then(|key| key.dso.as_deref()),
                key.map(|key| key.name.as_str()),
                key.and_then(|key| key.file.as_deref()),
            ];
            for (name, part) in names.into_iter().zip(parts) {
                object.insert(name.to_owned(), json!(part));
            }
        }
        object.insert("detail".to_owned(), json!(row.detail));
        object.insert("weight".to_owned(), json!(row.weight.map(|weight| weight.to_string())));
        object.insert("first_use".to_owned(), json!(row.first));
        text.push_str(&Value::Object(object).to_string());
        text.push('\n');
    }
}

/// Reads the profile from rows; rows with the same subject are added up.
pub(crate) fn parse(bytes: &[u8]) -> Result<Profile> {
    let mut assembly = Assembly::default();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fault =
            |what: &str| Error::at_line(at as u64 + 1, what).with_hint("columns of rows: docs/rows.md");
        let object: Value = serde_json::from_slice(line)
            .map_err(|error| fault(&format!("not a row of a profile: {error}")))?;
        let row = row(&object, &mut assembly).map_err(|what| fault(&what))?;
        assembly.add(&row).map_err(|error| Error::new(error.code(), format!("line {}: {error}", at + 1)))?;
    }
    let profile = assembly.finish()?;
    if profile.function_count() == 0 {
        return Err(Error::new(ErrorCode::EmptyProfile, "no row contains a function"));
    }
    Ok(profile)
}

/// Reads the row of an object, or returns its error.
fn row(object: &Value, assembly: &mut Assembly) -> std::result::Result<ProfileRow, String> {
    let kind = text(object, "kind")?.and_then(RowKind::parse).ok_or("a row with an unknown `kind`")?;
    let function = function(object, FUNCTION, assembly)?;
    let callee = self::function(object, CALLEE, assembly)?;
    let detail = text(object, "detail")?.unwrap_or_default().to_owned();
    let weight = number(object, "weight")?;
    let first = number(object, "first_use")?.map(u64::try_from).transpose();
    Ok(ProfileRow {
        kind,
        function,
        callee,
        detail,
        weight,
        first: first.map_err(|_| "`first_use` is too large")?,
    })
}

fn function(
    object: &Value,
    names: [&str; 3],
    assembly: &mut Assembly,
) -> std::result::Result<Option<FunctionIndex>, String> {
    let [dso, name, file] = names;
    let Some(own) = text(object, name)? else { return Ok(None) };
    let bytes = |part: Option<&'_ str>| part.map(|part| part.as_bytes().to_vec());
    let (dso, file) = (bytes(text(object, dso)?), bytes(text(object, file)?));
    let key = FunctionKey::new(dso.as_deref(), own.as_bytes(), file.as_deref())
        .ok_or_else(|| format!("`{name}` is not a function name that a profile can contain"))?;
    Ok(Some(assembly.profile().function(key)))
}

fn text<'o>(object: &'o Value, name: &str) -> std::result::Result<Option<&'o str>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` is not a text")),
    }
}

/// Reads an integer, as a number or as a string.
fn number(object: &Value, name: &str) -> std::result::Result<Option<u128>, String> {
    let wrong = || format!("`{name}` is not an integer of 0 or more");
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
        Some(Value::Number(number)) => number.as_u64().map(|number| Some(number.into())).ok_or_else(wrong),
        Some(_) => Err(wrong()),
    }
}
