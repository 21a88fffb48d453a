// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much of JSON as the output of `dot -Tjson0` takes.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Other,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    pub fn get(&self, name: &str) -> Option<&Json> {
        if let Json::Object(members) = self { members.get(name) } else { None }
    }

    /// A text member.
    pub fn text(&self, name: &str) -> Option<String> {
        if let Some(Json::Text(text)) = self.get(name) { Some(text.clone()) } else { None }
    }

    /// The entries of a list member; of none where there is none.
    pub fn list(&self, name: &str) -> &[Json] {
        if let Some(Json::List(entries)) = self.get(name) { entries } else { &[] }
    }

    pub fn number(&self) -> f64 {
        if let Json::Number(number) = self { *number } else { panic!("no number: {self:?}") }
    }
}

/// Reads one value; fails the test where it is none.
pub fn parse(text: &str) -> Json {
    let mut rest = text.trim_start();
    value(&mut rest)
}

fn value(rest: &mut &str) -> Json {
    let first = rest.chars().next().expect("JSON that ends early");
    match first {
        '{' => {
            let mut members = BTreeMap::new();
            entries(rest, '}', |rest| {
                let name = string(rest);
                take(rest, ':');
                members.insert(name, value(rest));
            });
            Json::Object(members)
        }
        '[' => {
            let mut list = Vec::new();
            entries(rest, ']', |rest| list.push(value(rest)));
            Json::List(list)
        }
        '"' => Json::Text(string(rest)),
        _ => {
            let end = rest.find([',', '}', ']', ' ', '\n']).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            *rest = behind.trim_start();
            word.parse().map_or(Json::Other, Json::Number)
        }
    }
}

fn entries(rest: &mut &str, end: char, mut entry: impl FnMut(&mut &str)) {
    *rest = rest[1..].trim_start();
    while !rest.starts_with(end) {
        entry(rest);
        if rest.starts_with(',') {
            take(rest, ',');
        }
    }
    take(rest, end);
}

fn take(rest: &mut &str, mark: char) {
    *rest = rest.strip_prefix(mark).unwrap_or_else(|| panic!("expected {mark} at {rest:.40}")).trim_start();
}

fn string(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    loop {
        match characters.next().expect("a text that ends early") {
            (at, '"') => {
                *rest = rest[at + 1..].trim_start();
                return text;
            }
            (_, '\\') => match characters.next().expect("a text that ends early").1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                other => text.push(other),
            },
            (_, other) => text.push(other),
        }
    }
}
