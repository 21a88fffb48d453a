// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placements with the linker's inputs: the sections that exist in them decide.
//!
//! A function of the profile is searched by its name, then by its clones ([`Finder`]). Local symbols with the same name
//! are distinguished by their object files. Inputs that are compiled during the link have no sections yet; then every
//! section that a compiler may use is listed, followed by the sections of clones.

use super::{CLONES, Placement};
use crate::order::BuiltGraph;
use sediment_core::binary::names;
use sediment_core::binary::objects::{Finder, InputObjects, ObjectFunction, ObjectPath};
use sediment_core::callgraph::{FunctionId, Order};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Returns the functions of an order as a linker with these objects can identify them, and the functions that could not
/// be distinguished.
#[must_use]
pub fn placements_in(order: &Order, built: &BuiltGraph, objects: &InputObjects) -> (Vec<Placement>, Skipped) {
    let mut skipped = Skipped::default();
    let keys = &built.table.keys;
    let finder = Finder::new(&objects.functions, keys.iter().map(|key| key.name.as_str()));
    let mut clones: HashMap<&str, usize> = HashMap::new();
    for name in keys.iter().map(|key| key.name.as_str()).collect::<HashSet<&str>>() {
        *clones.entry(names::stem(name)).or_default() += 1;
    }
    // Objects that contain each section, and whether the section has its own function.
    let mut holders: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for function in &objects.functions {
        holders.entry(&function.section).or_default().insert(function.path);
    }
    let cold_parts: HashMap<(usize, &str), &ObjectFunction> = objects
        .functions
        .iter()
        .filter_map(|part| Some(((part.path, names::split_from(&part.name)?), part)))
        .collect();
    let heaviest = heaviest(order, built);
    let mut placed = Vec::new();
    let mut taken: HashSet<(usize, &str)> = HashSet::new();
    for id in order.functions() {
        let key = &keys[id.index()];
        let weight = built.graph.weights()[id.index()];
        let found = finder.find(&key.name, key.file.as_deref());
        if found.is_empty() && objects.complete() {
            skipped.add(Reason::NotInInputs, u128::from(weight), &key.name);
            continue;
        }
        for group in by_symbol(&found) {
            let mine: Vec<&ObjectFunction> = group
                .into_iter()
                .filter(|found| taken.insert((found.path, found.section.as_str())))
                .collect();
            let Some(first) = mine.first() else { continue };
            if names::function_of_section(&first.section).is_none() {
                let reason = match is_start_file(&objects.paths[first.path]) {
                    true => Reason::StartFile,
                    false => Reason::NoOwnSection,
                };
                skipped.add(reason, u128::from(weight), &key.name);
                continue;
            }
            let sections: Vec<String> = distinct(mine.iter().map(|found| found.section.as_str()));
            let paths: BTreeSet<usize> = mine.iter().map(|found| found.path).collect();
            let others =
                sections.iter().any(|section| holders.get(section.as_str()).is_some_and(|all| *all != paths));
            let cold: Vec<&ObjectFunction> = match built.table.counted.contains(&id) {
                true => mine
                    .iter()
                    .filter_map(|whole| cold_parts.get(&(whole.path, &whole.name)))
                    .copied()
                    .collect(),
                false => Vec::new(),
            };
            let files = if others {
                paths.iter().map(|path| objects.paths[*path].clone()).collect()
            } else {
                Vec::new()
            };
            placed.push(Placement {
                name: first.name.clone(),
                sections,
                cold_sections: distinct(cold.iter().map(|part| part.section.as_str())),
                cold_name: cold.first().map(|part| part.name.clone()),
                files,
                weight,
                is_rest: false,
                calls: Vec::new(),
            });
        }
        if found.is_empty() && heaviest.get(key.name.as_str()) == Some(&id) {
            placed.push(compiled_by_lto(&key.name, weight, &clones));
        } else if found.is_empty() {
            skipped.add(Reason::SharedName, u128::from(weight), &key.name);
        }
    }
    (placed, skipped)
}

/// The heaviest function with each name, or the first of equally heavy ones: if no section distinguishes the others,
/// they are placed with it.
fn heaviest<'a>(order: &Order, built: &'a BuiltGraph) -> HashMap<&'a str, FunctionId> {
    let weight_of = |id: FunctionId| built.graph.weights()[id.index()];
    let mut heaviest: HashMap<&str, FunctionId> = HashMap::new();
    for id in order.functions() {
        let kept = heaviest.entry(&built.table.keys[id.index()].name).or_insert(id);
        if weight_of(id) > weight_of(*kept) {
            *kept = id;
        }
    }
    heaviest
}

/// Adds to placements by name the sections that functions may get in link-time optimisation, as the wrapper does for
/// inputs that it cannot read.
pub fn add_sections_of_clones(placements: &mut [Placement]) {
    let names: HashSet<String> = placements.iter().map(|placement| placement.name.clone()).collect();
    let mut clones: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *clones.entry(names::stem(name)).or_default() += 1;
    }
    for placement in placements {
        let by_lto = compiled_by_lto(&placement.name, placement.weight, &clones);
        let more = by_lto.sections.into_iter().filter(|section| !placement.sections.contains(section));
        let more: Vec<String> = more.collect();
        placement.sections.extend(more);
    }
}

/// Objects that a compiler adds to each program, by base name.
const START_FILES: &[&str] = &[
    "crt1.o",
    "Scrt1.o",
    "rcrt1.o",
    "gcrt1.o",
    "grcrt1.o",
    "crti.o",
    "crtn.o",
    "crtbegin.o",
    "crtbeginS.o",
    "crtbeginT.o",
    "crtend.o",
    "crtendS.o",
];

fn is_start_file(path: &ObjectPath) -> bool {
    matches!(path, ObjectPath::File(path) if START_FILES.contains(&path.rsplit('/').next().unwrap_or(path)))
}

/// Functions by name, each list in order.
fn by_symbol<'a>(found: &[&'a ObjectFunction]) -> Vec<Vec<&'a ObjectFunction>> {
    let mut groups: Vec<Vec<&ObjectFunction>> = Vec::new();
    for function in found {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.name == function.name)) {
            Some(group) => group.push(function),
            None => groups.push(vec![function]),
        }
    }
    groups
}

fn distinct<'a>(sections: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    sections.filter(|section| seen.insert(*section)).map(str::to_owned).collect()
}

/// Returns the placement of a function that is compiled during the link: every section that it may get, its own first.
fn compiled_by_lto(name: &str, weight: u64, profiled: &HashMap<&str, usize>) -> Placement {
    let mut sections = names::sections(name, None);
    let stem = names::stem(name);
    if names::split_from(name).is_none() {
        if stem != name {
            sections.own.extend(names::sections(stem, None).own);
        }
        // If the profile distinguishes clones, a wildcard would move all of them to the position of the first.
        let clones = |stem: &str| names::may_have_clones(stem).then(|| format!(".text.{stem}{CLONES}"));
        if profiled.get(stem) == Some(&1) {
            sections.own.extend(clones(stem));
        }
        if let Some(other) = names::other_structor(stem).filter(|other| !profiled.contains_key(&**other)) {
            sections.own.extend(names::sections(&other, None).own);
            sections.own.extend(clones(&other));
        }
    }
    Placement {
        name: name.to_owned(),
        sections: sections.own,
        cold_sections: sections.cold,
        cold_name: None,
        files: Vec::new(),
        weight,
        is_rest: false,
        calls: Vec::new(),
    }
}
