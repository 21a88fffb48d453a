// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a plan, with placeholders that are filled in when they run.

use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::escape;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A command as a plan writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a text for the shell, or a list of a program and its arguments")]
pub enum CommandLine {
    /// A program and its arguments.
    Words(#[serde(deserialize_with = "program_and_arguments")] Vec<String>),
    /// A text for `sh -c`.
    Shell(String),
}

fn program_and_arguments<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    if words.first().is_none_or(String::is_empty) {
        Err(D::Error::custom("names no program"))
    } else {
        Ok(words)
    }
}

/// Values of placeholders `{name}` in a command: one word each, or for some names a list of words.
#[derive(Debug, Clone, Default)]
pub struct Placeholders {
    values: Vec<(&'static str, String)>,
    lists: Vec<(&'static str, Vec<String>)>,
}

impl Placeholders {
    /// Sets a placeholder; a later value takes precedence.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.values.retain(|(other, _)| *other != name);
        self.values.push((name, value.into()));
        self
    }

    /// Sets a placeholder for several words: an item of its own in a list, or part of a text for the shell.
    #[must_use]
    pub fn with_words(mut self, name: &'static str, words: impl IntoIterator<Item = String>) -> Self {
        self.lists.retain(|(other, _)| *other != name);
        self.lists.push((name, words.into_iter().collect()));
        self
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    fn words(&self, name: &str) -> Option<&[String]> {
        self.lists.iter().find(|(other, _)| *other == name).map(|(_, words)| words.as_slice())
    }

    /// The placeholders as environment variables `SEDIMENT_EVAL_NAME`; the words of lists are separated by blanks.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        let name = |name: &str| format!("SEDIMENT_EVAL_{}", name.to_ascii_uppercase());
        let values = self.values.iter().map(move |(key, value)| (name(key), value.clone()));
        values.chain(self.lists.iter().map(move |(key, words)| (name(key), words.join(" "))))
    }
}

impl CommandLine {
    /// True if the command has this placeholder, or its variable.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        let (placeholder, variable) =
            (format!("{{{name}}}"), format!("SEDIMENT_EVAL_{}", name.to_ascii_uppercase()));
        let in_text = |text: &String| text.contains(&placeholder) || text.contains(&variable);
        match self {
            Self::Words(words) => words.iter().any(in_text),
            Self::Shell(text) => in_text(text),
        }
    }

    /// Returns the words to run. In a text for the shell every word is quoted. An unknown name in braces stays as it
    /// is.
    ///
    /// # Errors
    /// If a value cannot be expressed in the shell.
    pub fn fill(&self, values: &Placeholders) -> Result<Vec<String>> {
        match self {
            Self::Words(words) => Ok(words.iter().flat_map(|word| fill_word(word, values)).collect()),
            Self::Shell(text) => {
                let mut refused = None;
                let mut quoted = |word: &String| {
                    escape::shell(word).unwrap_or_else(|| {
                        refused = Some(word.clone());
                        String::new()
                    })
                };
                let filled = replace(text, |name| match (values.words(name), values.value(name)) {
                    (Some(words), _) => Some(words.iter().map(&mut quoted).collect::<Vec<_>>().join(" ")),
                    (None, Some(value)) => Some(quoted(&value.to_owned())),
                    (None, None) => None,
                });
                match refused {
                    Some(value) => {
                        Err(Error::new(ErrorCode::Damaged, "a value cannot be written for the shell")
                            .with_found(value.as_bytes()))
                    }
                    None => Ok(vec!["sh".to_owned(), "-c".to_owned(), filled]),
                }
            }
        }
    }
}

fn fill_word(word: &str, values: &Placeholders) -> Vec<String> {
    let alone = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match alone.and_then(|name| values.words(name)) {
        Some(words) => words.to_vec(),
        None => vec![replace(word, |name| values.value(name).map(str::to_owned))],
    }
}

/// Replaces `{name}` if `value` knows the name, from left to right; replacements are not examined again.
fn replace(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let name = rest.find('}').map(|close| &rest[1..close]);
        match name.and_then(|name| Some((name.len(), value(name)?))) {
            Some((length, value)) => {
                filled.push_str(&value);
                rest = &rest[length + 2..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled + rest
}
