// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes versions 2 and 3 in a canonical order: clusters by label, functions by id, edges by the ids of their ends,
//! attributes as listed.

use super::{LIST_SEPARATOR, entries, identity, words};
use crate::escape;
use crate::profile::arithmetic::scaled;
use crate::profile::{EdgeFacts, FunctionIndex, FunctionKey, Millionths, Profile, acceptable};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Writes a profile as a file: version 3 if it has counts of blocks or arcs or functions without names, otherwise
/// version 2.
///
/// A function is skipped with its edges if its key was not made by [`FunctionKey::new`] and is not `acceptable`.
#[must_use]
pub fn print(profile: &Profile) -> String {
    let functions = functions(profile);
    let mut text = String::with_capacity(256 + 96 * functions.len() + 96 * profile.edge_count());
    text.push_str("digraph Callgraph {\n  graph");
    graph_attributes(&mut text, profile);
    text.push_str(";\n  node [shape=ellipse];\n");
    clusters(&mut text, profile, &functions);
    for function in functions.iter().filter(|function| function.key.dso.is_none()) {
        node(&mut text, "  ", profile, function);
    }
    edges(&mut text, profile, &functions);
    text.push_str("}\n");
    text
}

/// A function that can be written.
struct WritableFunction<'p> {
    index: FunctionIndex,
    key: &'p FunctionKey,
    id: Cow<'p, str>,
    /// The id in quotes.
    quoted: String,
}

/// Returns the functions that can be written, by id.
fn functions(profile: &Profile) -> Vec<WritableFunction<'_>> {
    identity::ids(profile)
        .into_iter()
        .filter_map(|(id, index)| {
            let key = profile.key(index);
            let parts = [Some(&key.name), key.dso.as_ref(), key.file.as_ref()];
            let fit = parts.into_iter().flatten().all(|part| acceptable(part.as_bytes()).is_some());
            let quoted = escape::dot(&id).filter(|_| fit)?;
            Some(WritableFunction { index, key, id, quoted })
        })
        .collect()
}

/// `name=value` pairs between brackets.
struct Attributes<'t> {
    text: &'t mut String,
    begun: bool,
}

impl<'t> Attributes<'t> {
    fn new(text: &'t mut String) -> Self {
        Self { text, begun: false }
    }

    fn word(&mut self, name: &str, value: impl std::fmt::Display) {
        self.text.push_str(if self.begun { ", " } else { " [" });
        self.begun = true;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}={value}");
    }

    fn number(&mut self, name: &str, value: Option<impl Into<u128>>) {
        let Some(value) = value.map(Into::into) else { return };
        match u64::try_from(value) {
            // The standard library writes native integers faster.
            Ok(short) => self.word(name, short),
            Err(_) => self.word(name, value),
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.word(name, 1);
        }
    }

    /// Writes a text that is not drawn; skips one that DOT cannot hold.
    fn quoted(&mut self, name: &str, value: &str) {
        if let Some(quoted) = escape::dot(value) {
            self.word(name, quoted);
        }
    }

    /// Writes a text for drawing, in which two backslashes show one.
    fn drawn(&mut self, name: &str, value: &str) {
        self.quoted(name, &value.replace('\\', "\\\\"));
    }

    fn end(self) {
        if self.begun {
            self.text.push(']');
        }
    }
}

fn graph_attributes(text: &mut String, profile: &Profile) {
    let mut attributes = Attributes::new(text);
    let has_blocks =
        profile.blocks_total > 0 || profile.facts.iter().flatten().any(|facts| facts.blocks.is_some());
    let has_counters =
        profile.counters_total > 0 || profile.facts.iter().flatten().any(|facts| facts.counters.is_some());
    let is_unresolved = profile.dsos.values().any(|dso| dso.unresolved && dso.build_id.is_some());
    attributes.word("sediment", if has_blocks || has_counters || is_unresolved { 3 } else { 2 });
    list(&mut attributes, "source", &profile.source);
    attributes.word("unit", words::spelling(&words::UNITS, profile.unit));
    attributes.word("total", profile.total);
    list(&mut attributes, "arch", &profile.arch);
    attributes.number("inputs", profile.inputs);
    decimal(&mut attributes, "covered", profile.quality.covered);
    decimal(&mut attributes, "uncertain", profile.quality.uncertain);
    if has_blocks {
        attributes.word("blocks_unit", words::spelling(&words::BLOCK_UNITS, profile.blocks_unit));
        attributes.word("blocks_total", profile.blocks_total);
    }
    if has_counters {
        attributes.word("counters_total", profile.counters_total);
    }
    attributes.end();
}

fn list(attributes: &mut Attributes, name: &str, list: &BTreeSet<String>) {
    let fit: Vec<&str> =
        entries(list).into_iter().filter(|entry| acceptable(entry.as_bytes()).is_some()).collect();
    if !fit.is_empty() {
        attributes.quoted(name, &fit.join(LIST_SEPARATOR));
    }
}

fn clusters(text: &mut String, profile: &Profile, functions: &[WritableFunction]) {
    let labels: Vec<&String> =
        profile.dsos.keys().filter(|label| acceptable(label.as_bytes()).is_some()).collect();
    let mut members: Vec<Vec<&WritableFunction>> = vec![Vec::new(); labels.len()];
    for function in functions {
        if let Some(dso) = &function.key.dso {
            if let Ok(position) = labels.binary_search(&dso) {
                members[position].push(function);
            }
        }
    }
    for (number, (label, members)) in labels.into_iter().zip(members).enumerate() {
        let _ = write!(text, "  subgraph cluster{number} {{\n    graph");
        let cluster = &profile.dsos[label];
        let mut attributes = Attributes::new(text);
        attributes.drawn("label", label);
        for (name, value) in [("build_id", &cluster.build_id), ("package", &cluster.package)] {
            if let Some(value) = value {
                attributes.quoted(name, value);
            }
        }
        attributes.flag("unresolved", cluster.unresolved && cluster.build_id.is_some());
        attributes.end();
        text.push_str(";\n");
        for function in members {
            node(text, "    ", profile, function);
        }
        text.push_str("  }\n");
    }
}

fn node(text: &mut String, indent: &str, profile: &Profile, function: &WritableFunction) {
    let FunctionKey { dso, name, file } = function.key;
    let facts = profile.facts(function.index);
    text.push_str(indent);
    text.push_str(&function.quoted);
    let mut attributes = Attributes::new(text);
    if function.id != *name {
        attributes.drawn("label", name);
        attributes.quoted("name", name);
        if let Some(dso) = dso {
            attributes.quoted("dso", dso);
        }
    }
    if let Some(file) = file {
        attributes.quoted("file", file);
    }
    attributes.number("size", facts.size);
    attributes.number("samples", facts.samples);
    attributes.number("first", facts.first);
    decimal(&mut attributes, "static", facts.static_calls);
    if let Some(heat) = facts.heat {
        attributes.word("heat", words::spelling(&words::HEATS, heat));
    }
    if let Some(alias) = &facts.alias {
        attributes.quoted("alias", alias);
    }
    attributes.flag("taken", facts.taken);
    attributes.flag("entry", facts.entry);
    if let Some(blocks) = facts.blocks.as_ref().filter(|blocks| !blocks.is_empty()) {
        attributes.quoted("blocks", &blocks.to_string());
    }
    if let Some(counters) = facts.counters.as_ref().filter(|counters| !counters.is_empty()) {
        attributes.quoted("counters", &counters.to_string());
    }
    attributes.end();
    text.push_str(";\n");
}

fn edges(text: &mut String, profile: &Profile, functions: &[WritableFunction]) {
    let mut rank = vec![None; profile.function_count()];
    for (position, function) in functions.iter().enumerate() {
        rank[function.index.index()] = Some(position as u32);
    }
    let mut edges: Vec<(u32, u32, &EdgeFacts)> = profile
        .edges
        .iter()
        .filter_map(|edge| Some((rank[edge.caller.index()]?, rank[edge.callee.index()]?, edge.facts())))
        .collect();
    edges.sort_unstable_by_key(|(caller, callee, _)| (*caller, *callee));
    for (caller, callee, facts) in edges {
        text.push_str("  ");
        text.push_str(&functions[caller as usize].quoted);
        text.push_str(" -> ");
        text.push_str(&functions[callee as usize].quoted);
        let mut attributes = Attributes::new(text);
        attributes.word("label", Label { count: facts.count.unwrap_or(0), total: profile.total });
        attributes.number("count", facts.count);
        attributes.number("near", facts.affinity);
        decimal(&mut attributes, "static", facts.static_calls);
        if let Some(kind) = facts.kind {
            attributes.word("kind", words::spelling(&words::KINDS, kind));
        }
        attributes.end();
        text.push_str(";\n");
    }
}

/// Share of all calls with six decimals, rounded half to even; 0 if the total is 0.
struct Label {
    count: u128,
    total: u128,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.total == 0 {
            return f.write_str("0.000000");
        }
        let whole = self.count / self.total;
        // The remainder is below the total, so the fraction is at most one million.
        let fraction = scaled(self.count % self.total, 1_000_000, self.total).unwrap_or(0);
        write!(f, "{}.{:06}", whole + fraction / 1_000_000, fraction % 1_000_000)
    }
}

fn decimal(attributes: &mut Attributes, name: &str, value: Option<Millionths>) {
    if let Some(Millionths(value)) = value {
        attributes.word(name, format_args!("{}.{:06}", value / 1_000_000, value % 1_000_000));
    }
}
