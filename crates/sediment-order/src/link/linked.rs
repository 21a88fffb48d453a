// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placements without the linker's inputs: by names only, or with a linked file from an earlier build of the program.
//!
//! A linker identifies a function by its name, or by a section whose name contains it. Without a binary, functions with
//! the same name (local functions of several files, or of several programs in one order) are placed together at the
//! position of the heaviest, or of the first of equally heavy ones. With a binary:
//!
//! - A function that it does not contain is searched under the names that the compiler may have given it ([`Finder`]).
//! - In dialects with object files, local functions with the same name are distinguished by the source files in its
//!   symbol table. An object is assumed to be named after its source. If it is not, for example when one command
//!   compiles and links, all functions with the name are placed together at the position of the last one.
//! - The linker places the cold parts of split functions, except the parts that were split by the profile's block
//!   counts.
//! - The sections of a function's other names are listed with it, because a compiler names the section after one of
//!   them (for a C++ constructor, after its base class part).

use super::Placement;
use crate::order::BuiltGraph;
use sediment_core::binary::objects::{Finder, ObjectPath};
use sediment_core::binary::{Binary, names};
use sediment_core::callgraph::{FunctionId, Order};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Returns the functions of an order in the form that a linker can identify, with their calls for the dialects that
/// need them, and the functions that could not be distinguished.
#[must_use]
pub fn placements(
    order: &Order,
    built: &BuiltGraph,
    binary: Option<&Binary>,
    with_calls: bool,
) -> (Vec<Placement>, Skipped) {
    let mut skipped = Skipped::default();
    let weight_of = |id: FunctionId| built.graph.weights()[id.index()];
    let found = found(order, built, binary);
    let same_named_locals =
        binary.map(|binary| SameNamedLocals::of(&found, built, binary)).unwrap_or_default();
    let mut chosen: HashMap<&str, FunctionId> = HashMap::new();
    for (name, id) in found.iter().copied() {
        let kept = chosen.entry(name).or_insert(id);
        if weight_of(id) > weight_of(*kept) {
            *kept = id;
        }
    }
    let split: Option<HashSet<&str>> = binary.map(|binary| {
        binary.functions.iter().filter_map(|function| names::split_from(&function.name)).collect()
    });
    let other_names = binary.map(other_names).unwrap_or_default();
    let mut calls = if with_calls { calls(&found, built) } else { HashMap::new() };
    let mut placed = Vec::with_capacity(chosen.len());
    for (turn, (name, id)) in found.iter().copied().enumerate() {
        let file = same_named_locals.file_of(name, id, built);
        if file.is_none() && chosen.get(name) != Some(&id) {
            skipped.add(Reason::SharedName, u128::from(weight_of(id)), name);
            continue;
        }
        let is_split = split.as_ref().map(|split| split.contains(name));
        let mut sections = names::sections(name, is_split);
        let has_counted_part = is_split == Some(true) && built.table.counted.contains(&id);
        if has_counted_part {
            // Compilers have two section groups for it.
            sections.cold = names::sections(&names::cold_part(name), None).own;
        }
        for alias in other_names.get(name).into_iter().flatten().filter(|alias| !chosen.contains_key(*alias))
        {
            sections.own.extend(names::sections(alias, is_split).own);
        }
        let whole = Placement {
            name: name.to_owned(),
            sections: sections.own,
            cold_sections: sections.cold,
            cold_name: has_counted_part.then(|| names::cold_part(name)),
            files: Vec::new(),
            weight: weight_of(id),
            is_rest: false,
            calls: calls.remove(&id).unwrap_or_default(),
        };
        let Some(file) = file else {
            placed.push(whole);
            continue;
        };
        let files = vec![ObjectPath::CompiledFrom(file.to_owned())];
        placed.push(Placement { files, cold_sections: Vec::new(), cold_name: None, ..whole.clone() });
        if same_named_locals.last.get(name) == Some(&turn) {
            placed.push(Placement { weight: 0, is_rest: true, calls: Vec::new(), ..whole });
        }
    }
    (placed, skipped)
}

/// Calls of each function; callees have their first name.
fn calls(found: &[(&str, FunctionId)], built: &BuiltGraph) -> HashMap<FunctionId, Vec<(String, u64)>> {
    let mut names: HashMap<FunctionId, &str> = HashMap::new();
    for (name, id) in found {
        names.entry(*id).or_insert(name);
    }
    let mut calls: HashMap<FunctionId, Vec<(String, u64)>> = HashMap::new();
    for edge in built.graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
        if let Some(callee) = names.get(&edge.callee) {
            calls.entry(edge.caller).or_default().push(((*callee).to_owned(), edge.weight));
        }
    }
    calls
}

/// Functions of an order by their names in the binary, each name of a function once.
fn found<'a>(order: &Order, built: &'a BuiltGraph, binary: Option<&'a Binary>) -> Vec<(&'a str, FunctionId)> {
    let name_of = |id: FunctionId| built.table.keys[id.index()].name.as_str();
    let Some(binary) = binary else {
        return order.functions().map(|id| (name_of(id), id)).collect();
    };
    let finder = Finder::new(&binary.functions, built.table.keys.iter().map(|key| key.name.as_str()));
    let there: HashSet<&str> = binary.functions.iter().map(|function| function.name.as_str()).collect();
    let mut followed: HashSet<&str> = HashSet::new();
    let mut found = Vec::new();
    for id in order.functions() {
        let name = name_of(id);
        let clones = if there.contains(name) { Vec::new() } else { finder.find_clones(name) };
        if clones.is_empty() {
            found.push((name, id));
        }
        let names: BTreeSet<&str> = clones.into_iter().map(|clone| clone.name.as_str()).collect();
        found.extend(names.into_iter().filter(|clone| followed.insert(clone)).map(|clone| (clone, id)));
    }
    found
}

/// Local functions with the same name that an order distinguishes by their files.
#[derive(Default)]
struct SameNamedLocals<'a> {
    /// Names with their files.
    names: HashSet<(&'a str, &'a str)>,
    /// Position of the last one with each name.
    last: HashMap<&'a str, usize>,
}

impl<'a> SameNamedLocals<'a> {
    fn of(found: &[(&'a str, FunctionId)], built: &'a BuiltGraph, binary: &Binary) -> Self {
        let mut there: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for function in binary.functions.iter().filter(|function| function.local) {
            if let Some(file) = function.file.as_deref() {
                there.entry(&function.name).or_default().insert(file);
            }
        }
        let mut names = HashSet::new();
        let mut last = HashMap::new();
        for (turn, (name, id)) in found.iter().enumerate() {
            let files = there.get(name).filter(|files| files.len() > 1);
            let file = built.table.keys[id.index()].file.as_deref();
            if let Some(file) = file.filter(|file| files.is_some_and(|files| files.contains(file))) {
                names.insert((*name, file));
                last.insert(*name, turn);
            }
        }
        Self { names, last }
    }

    /// Returns the source file that distinguishes a function from others with its name.
    fn file_of<'b>(&self, name: &str, id: FunctionId, built: &'b BuiltGraph) -> Option<&'b str> {
        let file = built.table.keys[id.index()].file.as_deref();
        file.filter(|file| self.names.contains(&(name, *file)))
    }
}

/// Returns the other names of each function, in the order of the binary's table.
fn other_names(binary: &Binary) -> HashMap<&str, Vec<&str>> {
    let mut others: HashMap<&str, Vec<&str>> = HashMap::new();
    let addresses = binary.functions.chunk_by(|a, b| a.address == b.address);
    for here in addresses.filter(|here| (2..=Binary::MOST_NAMES).contains(&here.len())) {
        let names: Vec<&str> = here.iter().map(|function| function.name.as_str()).collect();
        for name in &names {
            let is_other =
                |other: &&str| other != name && names::symbol(other.as_bytes()).name != name.as_bytes();
            others.entry(name).or_default().extend(names.iter().copied().filter(is_other));
        }
    }
    others
}
