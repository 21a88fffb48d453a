// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins graphs of units to one profile of a linked file.
//!
//! The linked file's symbols decide. A local function of a unit is the symbol with its name and its unit's file; a
//! global function is the symbol with its name, hidden or not. A function that the file does not define is in another
//! DSO. A unit belongs to the file if the file has functions of the unit that make calls (for a unit with only tables:
//! functions that these mention) and, if there is a link map, the map has its object. Two units may claim a function
//! that only one of them can define, because a source tree often has several files `main.c`. The unit with more
//! functions in the file gets it; units that configure, CMake and Meson compile to test the compiler never do. A unit
//! without remaining functions is not in the file. The same holds for graphs of whole programs, of which a source tree
//! has one per program.
//!
//! If several units have data on a function (C++ emits templates and inline functions in each), it is not added up: the
//! largest frequency remains. Counts come from different runs of the same counters, and are added up.

use super::{UnitGraph, least};
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::profile::{CallKind, EdgeFacts, FunctionFacts, FunctionIndex, FunctionKey, Profile};
use sediment_core::skipped::{Reason, Skipped};
use sediment_core::{Error, ErrorCode, Result};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A profile of the linked file.
#[derive(Debug, Clone)]
pub struct Linked {
    /// Its functions, and functions that they call elsewhere, which have no DSO.
    pub profile: Profile,
    /// Number of units in it.
    pub units: usize,
    /// Skipped items, by reason.
    pub skipped: Skipped,
}

/// Joins the graphs of units into one profile of `binary`, whose DSO is called `label`. `objects` are the paths of the
/// objects in a link map, if there is one.
///
/// # Errors
/// If no unit is in the binary.
pub fn join_units(
    units: &[UnitGraph],
    binary: &Binary,
    label: &str,
    objects: Option<&BTreeSet<String>>,
) -> Result<Linked> {
    let symbols = LinkedSymbols::new(binary, label);
    let mut skipped = Skipped::default();
    let mut members: Vec<JoinedUnit> = Vec::new();
    for unit in units {
        let member = JoinedUnit::new(unit, &symbols);
        // A link map has the objects that went into link-time optimisation, not the result.
        let named = unit.whole_program
            || objects.is_none_or(|objects| objects.iter().any(|object| is_object_of(object, &unit.name)));
        if named && member.present > 0 {
            members.push(member);
        } else {
            skipped.add(Reason::OtherUnit, 0, &unit.name);
        }
    }
    leave_out_rivals(&mut members, &symbols, &mut skipped);
    if members.is_empty() {
        return Err(Error::new(
            ErrorCode::WrongBinary,
            format!("none of the {} units belongs to {label}", units.len()),
        )
        .with_hint("give the file linked from these units, with its symbols"));
    }
    let mut profile = Profile::default();
    if let Some(arch) = &binary.arch {
        profile.arch.insert(arch.clone());
    }
    profile.dso_mut(label).build_id.clone_from(&binary.build_id);
    let seen_whole: HashSet<&FunctionKey> = members
        .iter()
        .filter(|member| member.unit.whole_program)
        .flat_map(|member| member.callers())
        .collect();
    for member in &members {
        member.put_into(&mut profile, &seen_whole, &mut skipped);
    }
    for function in &binary.functions {
        if let Some(key) = symbols.here(function) {
            if let Some(known) = profile.find(&key) {
                let facts = profile.facts_mut(known);
                facts.size = Some(function.size).filter(|size| *size > 0).max(facts.size);
                facts.entry |= symbols.exported.contains(function.name.as_str());
            }
        }
    }
    Ok(Linked { profile, units: members.len(), skipped })
}

/// The functions of the linked file by name.
pub(crate) struct LinkedSymbols<'b> {
    label: &'b str,
    by_name: HashMap<&'b str, Vec<&'b BinaryFunction>>,
    same_named_locals: BTreeSet<&'b str>,
    /// Functions of other DSOs that it calls through linkage stubs.
    imported: HashSet<&'b str>,
    /// Functions that other DSOs can call by name.
    exported: HashSet<&'b str>,
}

impl<'b> LinkedSymbols<'b> {
    pub(crate) fn new(binary: &'b Binary, label: &'b str) -> Self {
        let mut by_name: HashMap<&str, Vec<&BinaryFunction>> = HashMap::new();
        for function in &binary.functions {
            by_name.entry(&function.name).or_default().push(function);
        }
        // A program's global functions are called from inside; a library begins at its exported functions. Modules that
        // programs load by path have no soname.
        let library =
            binary.soname.is_some() || !by_name.contains_key("main") && !by_name.contains_key("_start");
        let exported = binary.functions.iter().filter(|function| library && !function.local);
        let exported = exported.map(|function| function.name.as_str()).collect();
        let imported = binary.plt_stubs.iter().map(|stub| stub.target.as_str()).collect();
        Self { label, by_name, same_named_locals: binary.same_named_locals(), imported, exported }
    }

    fn here(&self, function: &BinaryFunction) -> Option<FunctionKey> {
        let file =
            function.file.as_deref().filter(|_| self.same_named_locals.contains(function.name.as_str()));
        FunctionKey::new(Some(self.label.as_bytes()), function.name.as_bytes(), file.map(str::as_bytes))
    }

    /// Number of functions of the linked file with this key: several local functions may have the same name and file.
    fn definitions(&self, key: &FunctionKey) -> usize {
        let is_it = |function: &&&BinaryFunction| key.file.is_none() || function.file == key.file;
        self.by_name.get(key.name.as_str()).map_or(1, |all| all.iter().filter(is_it).count().max(1))
    }

    /// Finds the function of the linked file for a unit's function.
    pub(crate) fn find(&self, meant: &FunctionKey) -> Option<FunctionKey> {
        let candidates = self.by_name.get(meant.name.as_str())?;
        let found = match &meant.file {
            None => candidates.iter().find(|function| !function.local).or_else(|| match &candidates[..] {
                // Hidden functions are local after linking.
                [only] => Some(only),
                _ => None,
            }),
            Some(file) => {
                let of_file = |function: &&&BinaryFunction| function.file.as_ref() == Some(file);
                candidates.iter().find(of_file).or_else(|| match &candidates[..] {
                    [only] if only.local && only.file.is_none() => Some(only),
                    _ => None,
                })
            }
        }?;
        self.here(found)
    }
}

/// A unit matched to the linked file.
struct JoinedUnit<'u> {
    unit: &'u UnitGraph,
    /// Its functions in the linked file, by their index in the unit.
    found: Vec<Option<FunctionKey>>,
    /// By function: true if it makes calls, so that the unit defines it.
    calls: Vec<bool>,
    /// By function: true if it is local to the unit.
    local: Vec<bool>,
    /// By function: true if another unit has it.
    lost: Vec<bool>,
    /// Number of its functions in the linked file, as far as can be determined.
    present: usize,
    /// Number of functions that it defines or calls, and the number of these that the linked file has or imports.
    named: u64,
    known: u64,
}

impl<'u> JoinedUnit<'u> {
    fn new(unit: &'u UnitGraph, symbols: &LinkedSymbols<'_>) -> Self {
        let graph = &unit.graph;
        let functions = graph.functions();
        let mut found = vec![None; functions.len()];
        let mut local = vec![false; functions.len()];
        for function in &functions {
            found[function.index()] = symbols.find(graph.key(*function));
            local[function.index()] = graph.key(*function).file.is_some();
        }
        let mut calls = vec![false; functions.len()];
        let mut needed = vec![false; functions.len()];
        for (caller, callee, facts) in graph.edges() {
            calls[caller.index()] = true;
            needed[callee.index()] |= found[caller.index()].is_some()
                && !matches!(facts.kind, Some(CallKind::Indirect | CallKind::Thunk));
        }
        let (mut defined, mut present) = (0, 0);
        let (mut named, mut known) = (0, 0);
        for function in functions {
            let at = function.index();
            let key = graph.key(function);
            let is_here = found[at].is_some();
            if calls[at] || local[at] {
                defined += 1;
                present += usize::from(is_here);
            } else if !needed[at] || !is_here && symbols.imported.is_empty() {
                continue;
            }
            named += 1;
            known += u64::from(is_here || !calls[at] && symbols.imported.contains(key.name.as_str()));
        }
        // Tables of functions: the unit only shows that the addresses of these functions are taken.
        if defined == 0 {
            present = found.iter().flatten().count();
        }
        let lost = vec![false; found.len()];
        Self { unit, found, calls, local, lost, present, named, known }
    }

    /// Returns the functions of the linked file whose calls this unit contains.
    fn callers(&self) -> impl Iterator<Item = &FunctionKey> {
        let tells = |at: &usize| self.calls[*at] && !self.lost[*at];
        (0..self.found.len()).filter(tells).filter_map(|at| self.found[at].as_ref())
    }

    /// Returns the functions of the linked file that it defines, by their index.
    fn defined(&self) -> impl Iterator<Item = (usize, &FunctionKey)> {
        let defines = |at: &usize| self.calls[*at] || self.local[*at];
        (0..self.found.len()).filter(defines).filter_map(|at| Some((at, self.found[at].as_ref()?)))
    }

    /// Returns the defined functions that only one unit can define. C++ and similar languages emit one function in each
    /// unit that needs it.
    fn claims(&self) -> impl Iterator<Item = (usize, &FunctionKey)> {
        let is_shared = |name: &str| matches!(name.as_bytes(), [b'_', b'A'..=b'Z', ..]);
        self.defined().filter(move |(at, key)| self.local[*at] || !is_shared(&key.name))
    }

    /// Compares the shares of two units in the linked file. A share of few functions is weak evidence, so Laplace's
    /// rule of succession applies.
    fn compare(&self, other: &Self) -> Ordering {
        let share = |member: &Self, other: &Self| {
            u128::from(member.known + 1).saturating_mul(u128::from(other.named + 2))
        };
        is_probe(&other.unit.name)
            .cmp(&is_probe(&self.unit.name))
            .then(share(self, other).cmp(&share(other, self)))
    }

    fn put_into(&self, profile: &mut Profile, seen_whole: &HashSet<&FunctionKey>, skipped: &mut Skipped) {
        let graph = &self.unit.graph;
        profile.source.extend(graph.source.iter().cloned());
        profile.total = profile.total.saturating_add(graph.total);
        let mut absent: BTreeSet<&str> = BTreeSet::new();
        let mut ids: Vec<Option<FunctionIndex>> = vec![None; self.found.len()];
        for function in graph.functions() {
            let at = function.index();
            let key = graph.key(function);
            let place = match &self.found[at] {
                Some(found) => found.clone(),
                // A function that neither the unit nor the linked file defines is in another DSO.
                None if !self.calls[at] && key.file.is_none() => key.clone(),
                None => {
                    absent.insert(&key.name);
                    continue;
                }
            };
            // A local function that another unit has is not the one that this unit calls.
            if self.lost[at] {
                skipped.add(Reason::ContestedFunction, 0, &key.name);
                ids[at] = (!self.local[at]).then(|| profile.function(place));
                continue;
            }
            let known = profile.function(place);
            ids[at] = Some(known);
            describe(profile.facts_mut(known), graph.facts(function));
        }
        for name in absent {
            skipped.add(Reason::AbsentFunction, 0, name);
        }
        for (caller, callee, facts) in graph.edges() {
            let (Some(from), Some(to)) = (ids[caller.index()], ids[callee.index()]) else { continue };
            if self.lost[caller.index()] {
                continue;
            }
            let older = !self.unit.whole_program
                && self.found[caller.index()].as_ref().is_some_and(|key| seen_whole.contains(key));
            if older {
                skipped.add(Reason::OlderUnit, 0, &graph.key(caller).name);
                continue;
            }
            join(profile.edge_mut(from, to), facts);
        }
    }
}

/// Adds the data of a further unit on a function.
fn describe(known: &mut FunctionFacts, more: &FunctionFacts) {
    known.heat = least(known.heat, more.heat);
    known.first = least(known.first, more.first);
    known.size = known.size.max(more.size);
    known.alias = known.alias.take().or_else(|| more.alias.clone());
    known.taken |= more.taken;
    known.entry |= more.entry;
}

/// Adds the data of a further unit on a call.
fn join(known: &mut EdgeFacts, more: &EdgeFacts) {
    known.static_calls = known.static_calls.max(more.static_calls);
    if let Some(count) = more.count {
        known.count = Some(known.count.unwrap_or(0).saturating_add(count));
    }
    known.kind = least(known.kind, more.kind);
}

/// If several units claim a function, the units with the largest shares in the linked file get it: as many units as the
/// file has functions with that name and file. Units that define nothing else are skipped.
fn leave_out_rivals(members: &mut Vec<JoinedUnit<'_>>, symbols: &LinkedSymbols<'_>, skipped: &mut Skipped) {
    let mut claims: BTreeMap<(bool, &FunctionKey), Vec<(usize, usize)>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate() {
        for (function, key) in member.claims() {
            claims.entry((member.unit.whole_program, key)).or_default().push((at, function));
        }
    }
    let mut lost: Vec<(usize, usize)> = Vec::new();
    for ((_, key), rivals) in &claims {
        let definitions = symbols.definitions(key);
        if rivals.len() <= definitions {
            continue;
        }
        for &(one, function) in rivals {
            let is_more = |other: &&(usize, usize)| members[one].compare(&members[other.0]) == Ordering::Less;
            if rivals.iter().filter(is_more).count() >= definitions {
                lost.push((one, function));
            }
        }
    }
    for (member, function) in lost {
        members[member].lost[function] = true;
    }
    members.retain(|member| {
        let is_left = !member.lost.contains(&true) || member.defined().any(|(at, _)| !member.lost[at]);
        if !is_left {
            skipped.add(Reason::RivalUnit, 0, &member.unit.name);
        }
        is_left
    });
}

/// True for a unit that a build system compiled to test the compiler: autoconf's `conftest`, and units in CMake's and
/// Meson's folders for such tests.
fn is_probe(unit: &str) -> bool {
    let mut parts = unit.rsplit(['/', '#']);
    let name = parts.next().unwrap_or(unit);
    // `conftest-conftest.c` if it was linked at once.
    name.starts_with("conftest.")
        || name.contains("-conftest.")
        || parts.any(|folder| matches!(folder, "CMakeTmp" | "CMakeScratch" | "meson-private"))
}

/// True if an object of a link map, as a path or as `archive(member)`, was compiled from the unit with this path:
/// `build/ceval.o` from `build/ceval.c.gv`, `ceval.cpp.o` from `ceval.cpp.cpp.gv`.
fn is_object_of(object: &str, unit: &str) -> bool {
    let without = |path: &str| path.rsplit_once('.').map_or(path, |(stem, _)| stem).to_owned();
    // In a common folder, the name contains the path; for a long path, a digest and the end of the path.
    let unit = match unit.rsplit_once('/').map_or(unit, |(_, name)| name).strip_prefix('#') {
        Some(path) => match path.split_once('#') {
            Some((digest, end)) if digest.len() == 16 && digest.bytes().all(|c| c.is_ascii_hexdigit()) => {
                end.replace('#', "/")
            }
            _ => format!("/{}", path.replace('#', "/")),
        },
        None => unit.to_owned(),
    };
    let unit = if unit.ends_with(".o") { without(&unit) } else { without(&without(&unit)) };
    let object = match object.rsplit_once('(') {
        Some((_, member)) => member.trim_end_matches(')'),
        None => object,
    };
    let object = without(object);
    let ends_with = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let plain = |path: &str| path.trim_start_matches("./").to_owned();
    let (object, unit) = (plain(&object), plain(&unit));
    ends_with(&object, &unit) || ends_with(&unit, &object)
}

#[cfg(test)]
mod tests {
    use super::is_object_of;

    #[test]
    fn objects_and_units_meet_by_their_paths() {
        for (object, unit) in [
            ("build/ceval.o", "build/ceval.c.gv"),
            ("/src/build/ceval.o", "build/ceval.c.gv"),
            ("lib/libparser.a(scan.o)", "/tree/parser/scan.c.gv"),
            ("CMakeFiles/x.dir/foo.cpp.o", "CMakeFiles/x.dir/foo.cpp.cpp.gv"),
            ("./a.o", "a.c.gv"),
            ("/b/src/a.o", "graphs/#b#src#a.c.gv"),
            ("/b/src/a.o", "graphs/#0123456789abcdef#src#a.c.gv"),
            ("a.o", "a.o"),
        ] {
            assert!(is_object_of(object, unit), "{object} {unit}");
        }
        for (object, unit) in
            [("build/ceval.o", "build/eval.c.gv"), ("x/a.o", "y/a.c.gv"), ("ba.o", "a.c.gv")]
        {
            assert!(!is_object_of(object, unit), "{object} {unit}");
        }
    }
}
