// SPDX-License-Identifier: MIT OR Apache-2.0
//! TOML with lines: a table of a plan whose keys are all known, and its values as what they should be.

use super::keys;
use sediment::error::{Error, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of the plan.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    text: &'a str,
    name: &'static str,
    entries: &'a DeTable<'a>,
    begins: usize,
}

/// The line, from 1, of an offset.
fn line(text: &str, offset: usize) -> u64 {
    1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() as u64
}

/// Parses TOML; the error names the line.
pub(super) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>> {
    DeTable::parse(text).map_err(|error| {
        let message = format!("this is no TOML: {}", error.message().replace('\n', ", "));
        match error.span() {
            Some(span) => Error::at_line(line(text, span.start), message),
            None => Error::failed(message),
        }
    })
}

impl<'a> Table<'a> {
    /// The top of a plan.
    pub(super) fn top(text: &'a str, entries: &'a DeTable<'a>) -> Result<Self> {
        Self { text, name: "", entries, begins: 0 }.checked()
    }

    /// Refuses keys that nobody knows.
    fn checked(self) -> Result<Self> {
        let known = keys::of(self.name);
        let tables = match self.name {
            "" => &["run", "build", "variant", "factor", "workload", "metric"][..],
            _ => &[],
        };
        for key in self.entries.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) && !tables.contains(&name) {
                let place = if self.name.is_empty() { "at the top of a plan" } else { self.name };
                let all: Vec<&str> = known.iter().chain(tables).copied().collect();
                return Err(Error::at_line(
                    line(self.text, key.span().start),
                    format!(
                        "unknown key {name} {}",
                        if self.name.is_empty() { place.to_owned() } else { format!("in [{place}]") }
                    ),
                )
                .with_hint(format!("known are: {}", all.join(", "))));
            }
        }
        Ok(self)
    }

    /// An error at this key, or at the table where it has no such key.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> Error {
        let at = self.entries.iter().find(|(name, _)| name.get_ref() == key);
        let offset = at.map_or(self.begins, |(name, _)| name.span().start);
        Error::at_line(line(self.text, offset), message)
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        debug_assert!(keys::of(self.name).contains(&key) || self.name.is_empty(), "{key}");
        self.entries.get(key)
    }

    fn is_not(&self, key: &str, found: &DeValue<'_>, wanted: &str) -> Error {
        self.error(key, format!("{key} is {wanted}")).with_found(found.type_str().as_bytes())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>> {
        self.value(key).map(|value| self.as_text(key, value)).transpose()
    }

    fn as_text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String> {
        let found = value.get_ref();
        let text = found.as_str().ok_or_else(|| self.is_not(key, found, "a text in quotes"))?;
        if text.contains('\0') {
            return Err(self.error(key, format!("{key} holds a NUL character")));
        }
        Ok(text.to_owned())
    }

    pub(super) fn required_text(&self, key: &str) -> Result<String> {
        let text = self.text(key)?.unwrap_or_default();
        if text.is_empty() { Err(self.error(key, format!("{key} is missing or empty"))) } else { Ok(text) }
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.value(key).map(|value| self.as_texts(key, value)).transpose()
    }

    fn as_texts(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>> {
        let found = value.get_ref();
        let list = found.as_array().ok_or_else(|| self.is_not(key, found, "a list of texts"))?;
        list.iter().map(|item| self.as_text(key, item)).collect()
    }

    /// A table of texts under names of the user's own, sorted.
    pub(super) fn named_texts(&self, key: &str) -> Result<Vec<(String, String)>> {
        self.named(key, |table, value| table.as_text(key, value))
    }

    /// A table of lists of texts under names of the user's own, sorted.
    pub(super) fn named_lists(&self, key: &str) -> Result<Vec<(String, Vec<String>)>> {
        self.named(key, |table, value| table.as_texts(key, value))
    }

    fn named<T>(
        &self,
        key: &str,
        read: impl Fn(&Self, &Spanned<DeValue<'_>>) -> Result<T>,
    ) -> Result<Vec<(String, T)>> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let found = value.get_ref();
        let table = found.as_table().ok_or_else(|| self.is_not(key, found, "a table"))?;
        table
            .iter()
            .map(|(name, value)| Ok((name.get_ref().clone().into_owned(), read(self, value)?)))
            .collect()
    }

    /// A command: a list is a program and its arguments, a text is for the shell.
    pub(super) fn command(&self, key: &str) -> Result<Option<super::CommandLine>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        if value.get_ref().is_str() {
            return Ok(Some(super::CommandLine::Shell(self.as_text(key, value)?)));
        }
        let words = self.as_texts(key, value).map_err(|_| {
            self.is_not(
                key,
                value.get_ref(),
                "a text for the shell, or a list of a program and its arguments",
            )
        })?;
        if words.first().is_none_or(String::is_empty) {
            return Err(self.error(key, format!("{key} names no program")));
        }
        Ok(Some(super::CommandLine::Words(words)))
    }

    pub(super) fn truth(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.get_ref().as_bool().ok_or_else(|| self.is_not(key, value.get_ref(), "true or false"))
    }

    /// A number with a fraction, within bounds.
    pub(super) fn number(&self, key: &str, least: f64, most: f64) -> Result<Option<f64>> {
        self.number_that(key, &format!("from {least} to {most}"), |number| number >= least && number <= most)
    }

    /// A share: above 0 and below 1.
    pub(super) fn share(&self, key: &str) -> Result<Option<f64>> {
        self.number_that(key, "above 0 and below 1", |number| number > 0.0 && number < 1.0)
    }

    /// A number above 0.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.number_that(key, "above 0", |number| number > 0.0 && number.is_finite())
    }

    fn number_that(&self, key: &str, is: &str, fits: impl Fn(f64) -> bool) -> Result<Option<f64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let found = value.get_ref();
        let number = match found {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => return Err(self.is_not(key, found, "a number")),
        };
        match number {
            Some(number) if fits(number) => Ok(Some(number)),
            _ => Err(self.error(key, format!("{key} is a number {is}"))),
        }
    }

    /// A whole number, within bounds.
    pub(super) fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        self.as_whole(key, value, least, most).map(Some)
    }

    fn as_whole(&self, key: &str, value: &Spanned<DeValue<'_>>, least: u64, most: u64) -> Result<u64> {
        let found = value.get_ref();
        let number = found.as_integer().ok_or_else(|| self.is_not(key, found, "a whole number"))?;
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if number >= least && number <= most => Ok(number),
            _ => Err(self.error(key, format!("{key} is a whole number from {least} to {most}"))),
        }
    }

    pub(super) fn wholes(&self, key: &str) -> Result<Vec<u64>> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let found = value.get_ref();
        let list = found.as_array().ok_or_else(|| self.is_not(key, found, "a list of whole numbers"))?;
        list.iter().map(|item| self.as_whole(key, item, 0, 1 << 20)).collect()
    }

    /// A table of its own below this one; `name` as the table of keys has it.
    pub(super) fn table(&self, key: &str, name: &'static str) -> Result<Option<Table<'a>>> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let found = value.get_ref();
        let entries = found.as_table().ok_or_else(|| self.is_not(key, found, "a table"))?;
        Table { text: self.text, name, entries, begins: value.span().start }.checked().map(Some)
    }

    /// Tables of one name, `[[key]]`.
    pub(super) fn tables(&self, key: &'static str) -> Result<Vec<Table<'a>>> {
        let Some(value) = self.entries.get(key) else { return Ok(Vec::new()) };
        let found = value.get_ref();
        let wrong = || self.is_not(key, found, &format!("written as [[{key}]]"));
        let list = found.as_array().ok_or_else(wrong)?;
        list.iter()
            .map(|item| {
                let entries = item.get_ref().as_table().ok_or_else(wrong)?;
                Table { text: self.text, name: key, entries, begins: item.span().start }.checked()
            })
            .collect()
    }
}
