// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds numbers in the output of a program, by regular expression or JSON pointer, or uses a number known beforehand.

use regex_lite::Regex;
use sediment_core::error::{Error, ErrorCode, Result};

/// Place of a number in a program's output.
#[derive(Debug, Clone)]
pub enum Extraction {
    /// In the first group of each match.
    Pattern(Box<Regex>),
    /// At this place in the JSON document (RFC 6901), or in the last line that is a JSON document.
    Pointer(String),
    /// Not in the output: this number in every run.
    Known(f64),
}

impl Extraction {
    /// By regular expression, which needs a group.
    ///
    /// # Errors
    /// If it is not a regular expression, or has no group.
    pub fn pattern(text: &str) -> Result<Self> {
        // Programs print lines, so ^ and $ match at lines.
        let regex = regex_lite::RegexBuilder::new(text).multi_line(true).build().map_err(|error| {
            Error::new(ErrorCode::Damaged, format!("not a regular expression: {error}"))
                .with_found(text.as_bytes())
        })?;
        if regex.captures_len() < 2 {
            return Err(Error::new(ErrorCode::Damaged, "the expression has no group around the number")
                .with_found(text.as_bytes())
                .with_hint("for example 'transactions: ([0-9]+)'"));
        }
        Ok(Self::Pattern(Box::new(regex)))
    }

    /// By JSON pointer.
    ///
    /// # Errors
    /// If it is not a JSON pointer, which is empty or begins with `/`.
    pub fn pointer(text: &str) -> Result<Self> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(
                Error::new(ErrorCode::Damaged, "a JSON pointer begins with /").with_found(text.as_bytes())
            );
        }
        Ok(Self::Pointer(text.to_owned()))
    }

    /// All numbers found, in their order.
    ///
    /// # Errors
    /// If nothing is found, or the text found is not a number.
    pub fn numbers(&self, output: &str) -> Result<Vec<f64>> {
        let (found, missing): (Vec<String>, String) = match self {
            Self::Pattern(regex) => (
                regex
                    .captures_iter(output)
                    .filter_map(|captures| captures.get(1).map(|group| group.as_str().to_owned()))
                    .collect(),
                format!("{} matches nothing in its output", regex.as_str()),
            ),
            Self::Pointer(pointer) => (
                at_pointer(output, pointer).into_iter().collect(),
                format!("its output has no number at {pointer}"),
            ),
            Self::Known(number) => return Ok(vec![*number]),
        };
        if found.is_empty() {
            return Err(Error::new(ErrorCode::Damaged, missing));
        }
        found.iter().map(|text| number(text)).collect()
    }
}

fn number(text: &str) -> Result<f64> {
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    match plain.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(Error::new(ErrorCode::Damaged, "not a number").with_found(text.as_bytes())),
    }
}

fn at_pointer(output: &str, pointer: &str) -> Option<String> {
    let documents = std::iter::once(output).chain(output.lines().rev());
    let found = documents
        .filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok())
        .find_map(|document| document.pointer(pointer).cloned())?;
    match found {
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::String(text) => Some(text),
        _ => None,
    }
}
