// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds signs that the linker got no order, although many functions are placed as ordered by chance.
//!
//! Problem: if an order resembles the order of the sources, a file that was linked without it still seems to follow it in part.
//!
//! A linker without an order keeps the sections of an object together, in their sequence. So functions that are
//! neighbours in an object are neighbours in memory. An order separates most of them. [`Neighbours`] counts the
//! neighbours that the order separates, and those that are separated in memory. If the order separates many, and none
//! of these are separated in memory, no linker followed it.
//!
//! A file that follows the order has about as many separated neighbours as the order, so it is never suspected,
//! whatever the objects contain. Neither is a file that follows another order.
//!
//! Without objects, the source files of local functions are used: a linker keeps the functions of one file together.
//! [`LocalFunctionRuns`] counts how often the file changes from one function to the next.

use super::WantedFunction;
use super::symbols::BinarySymbols;
use sediment_core::binary::objects::{InputObjects, ObjectFunction};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The order must separate at least this many neighbours, or change files this many times more than necessary.
const FEWEST: usize = 3;
/// At most one in this many of the order's changes may be visible in memory; they are explained by misleading symbols
/// or objects.
const STRAYS: usize = 20;

/// True if the functions are in the sequence of their inputs, although the order has another one.
pub(super) fn lies_as_linked_without(
    wanted: &[WantedFunction<'_>],
    symbols: &BinarySymbols<'_>,
    objects: &InputObjects,
) -> bool {
    let mut turns: HashMap<u64, usize> = HashMap::new();
    for (turn, function) in wanted.iter().enumerate() {
        if let [address] = function.candidates.as_slice() {
            turns.entry(*address).or_insert(turn);
        }
    }
    let known = known(symbols, objects);
    let covered = known.iter().filter(|function| turns.contains_key(&function.address)).count();
    // An object that is younger than the order proves nothing about the others.
    if 2 * covered >= turns.len() {
        Neighbours::of(&known, &turns).are_untouched()
    } else {
        LocalFunctionRuns::of(symbols, &turns).are_untouched(turns.len())
    }
}

/// A function of the file whose place in the link's inputs is known.
#[derive(Clone, Copy)]
struct LocatedFunction {
    /// Group of the linker, object, section and offset.
    place: (usize, usize, usize, u64),
    address: u64,
}

impl LocatedFunction {
    /// Functions of one block are together in a link without an order.
    fn block(&self) -> (usize, usize) {
        (self.place.0, self.place.1)
    }
}

/// The functions of the file that one object has, in the order of the inputs; ambiguous ones are skipped.
fn known(symbols: &BinarySymbols<'_>, objects: &InputObjects) -> Vec<LocatedFunction> {
    let copies = copies(objects);
    let mut by_name: HashMap<(&str, Option<&str>), Option<&ObjectFunction>> = HashMap::new();
    let functions =
        objects.functions.iter().filter(|f| !copies.contains(&f.path) && f.section.starts_with(".text"));
    for function in functions {
        let file = function.file.as_deref().filter(|_| function.local);
        by_name
            .entry((function.name.as_str(), file))
            .and_modify(|other| *other = None)
            .or_insert(Some(function));
    }
    let mut at: BTreeMap<u64, BTreeSet<(usize, usize, usize, u64)>> = BTreeMap::new();
    for ((name, file), function) in by_name {
        let Some(function) = function else { continue };
        let of_file = |address: &u64| {
            file.is_none()
                || symbols
                    .at(*address)
                    .iter()
                    .any(|there| there.name == name && there.file.as_deref() == file)
        };
        let addresses: BTreeSet<u64> =
            symbols.named(name).iter().map(|there| there.address).filter(of_file).collect();
        if let [address] = addresses.into_iter().collect::<Vec<_>>()[..] {
            at.entry(address).or_default().insert(function.unordered_place());
        }
    }
    // Aliases have one place; functions that were folded to one have several.
    let mut known: Vec<LocatedFunction> = at
        .into_iter()
        .filter(|(_, positions)| positions.len() == 1)
        .flat_map(|(address, positions)| {
            positions.into_iter().map(move |place| LocatedFunction { place, address })
        })
        .collect();
    known.sort_unstable_by_key(|function| (function.place, function.address));
    known
}

/// Objects with the functions of an earlier one: libtool compiles each source twice, and archives repeat the objects
/// next to them.
fn copies(objects: &InputObjects) -> HashSet<usize> {
    let mut first: HashMap<Vec<(&str, &str)>, usize> = HashMap::new();
    let by_object = objects.functions.chunk_by(|a, b| a.path == b.path);
    by_object
        .filter_map(|functions| {
            let held = functions.iter().map(|f| (f.name.as_str(), f.section.as_str())).collect();
            let path = functions.first()?.path;
            (*first.entry(held).or_insert(path) != path).then_some(path)
        })
        .collect()
}

/// Neighbours in an object, one of them ordered at least.
#[derive(Default)]
struct Neighbours {
    all: usize,
    /// Not side by side in the order.
    parted_by_order: usize,
    /// Not side by side in memory.
    parted_in_memory: usize,
}

impl Neighbours {
    /// `turns`: the ordered addresses.
    fn of(known: &[LocatedFunction], turns: &HashMap<u64, usize>) -> Self {
        let mut in_order: Vec<(usize, u64)> = known
            .iter()
            .filter_map(|function| turns.get(&function.address).map(|turn| (*turn, function.address)))
            .collect();
        in_order.sort_unstable();
        let next_in_order: HashMap<u64, u64> =
            in_order.windows(2).map(|pair| (pair[0].1, pair[1].1)).collect();
        let next_in_memory = next_in_memory(known);
        let count = |has_own_sections: bool| {
            let mut neighbours = Self::default();
            for pair in known.windows(2) {
                let [one, next] = [pair[0], pair[1]];
                let ordered = turns.contains_key(&one.address) || turns.contains_key(&next.address);
                let own = one.place.2 != next.place.2;
                if one.block() != next.block() || !ordered || own != has_own_sections {
                    continue;
                }
                let parted =
                    |by: &HashMap<u64, u64>| usize::from(by.get(&one.address) != Some(&next.address));
                neighbours.all += 1;
                neighbours.parted_by_order += parted(&next_in_order);
                neighbours.parted_in_memory += parted(&next_in_memory);
            }
            neighbours
        };
        // Functions of one section stay together under every order.
        let own = count(true);
        if own.all > 0 { own } else { count(false) }
    }

    fn are_untouched(&self) -> bool {
        self.parted_by_order >= FEWEST
            && 10 * self.parted_by_order >= self.all
            && STRAYS * self.parted_in_memory <= self.parted_by_order
    }
}

/// Finds the next known function after each one in memory. Functions of another group of the same object are skipped:
/// some linkers gather them, and others leave them.
fn next_in_memory(known: &[LocatedFunction]) -> HashMap<u64, u64> {
    let mut by_address = known.to_vec();
    by_address.sort_unstable_by_key(|function| function.address);
    let next = |turn: usize| {
        let one = by_address[turn];
        let other_group =
            |there: &&LocatedFunction| there.place.1 == one.place.1 && there.place.0 != one.place.0;
        let next = by_address[turn + 1..].iter().find(|there| !other_group(there))?;
        Some((one.address, next.address))
    };
    (0..by_address.len()).filter_map(next).collect()
}

/// Runs of ordered local functions of one source file.
struct LocalFunctionRuns {
    functions: usize,
    files: usize,
    in_order: usize,
    in_memory: usize,
}

impl LocalFunctionRuns {
    /// `turns`: the ordered addresses.
    fn of(symbols: &BinarySymbols<'_>, turns: &HashMap<u64, usize>) -> Self {
        let mut functions: Vec<(u64, usize, &str)> = Vec::new();
        for (address, turn) in turns {
            // Cold, exit, start-up and hot functions may be gathered.
            let grouped = symbols.groups_end.is_some_and(|end| *address < end);
            let files: BTreeSet<Option<&str>> =
                symbols.at(*address).iter().map(|there| there.file.as_deref()).collect();
            if let (false, [Some(file)]) = (grouped, &files.into_iter().collect::<Vec<_>>()[..]) {
                functions.push((*address, *turn, file));
            }
        }
        let runs = |functions: &[(u64, usize, &str)]| functions.chunk_by(|a, b| a.2 == b.2).count();
        functions.sort_unstable();
        let in_memory = runs(&functions);
        functions.sort_unstable_by_key(|function| function.1);
        let in_order = runs(&functions);
        let files = functions.iter().map(|function| function.2).collect::<HashSet<_>>().len();
        Self { functions: functions.len(), files, in_order, in_memory }
    }

    /// `ordered`: number of all ordered functions of the file. The order must change files twice as often as needed: a file that
    /// follows it for the most part shows that.
    fn are_untouched(&self, ordered: usize) -> bool {
        let [asked, found] = [self.in_order, self.in_memory].map(|runs| runs - self.files);
        4 * self.functions >= ordered && asked >= FEWEST.max(self.files) && STRAYS * found <= asked
    }
}
