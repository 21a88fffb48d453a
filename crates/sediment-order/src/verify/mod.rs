// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a linked ELF file with its order, function by function, to find out what the linker really did.
//!
//! **Placed as ordered.** A linker that obeys an order places the listed functions one after the other, at ascending addresses.
//! A function counts as placed as ordered if both hold:
//!
//! 1. *In order*: it belongs to the heaviest subsequence of the order whose addresses ascend (the longest one if several are equally
//!    heavy).
//! 2. *Side by side*: it belongs to a contiguous run of at least two ordered functions, at least half of which are in
//!    order. Without this, heavy functions scattered over a program that no order was applied to would count. Isolated
//!    functions are also ignored by rule 1; otherwise a single heavy one far away could put all others out of order.
//!
//! Runs of at least [`FOLLOWED`] functions in ascending order also count in a stretch whose functions are mostly out of order, if the rest
//! of the stretch is in no recognisable order. Runtimes without function sections are such stretches. A link without the order has no such
//! runs.
//!
//! If the binary has only clones of a function, the function is looked up at their addresses. Local functions of the
//! same name are distinguished if the order names their objects and the binary their source files.
//!
//! The **weight** of a function is the number of calls into it in the profile; if a profile has no calls, its samples;
//! without a profile, 1. The total covers all functions of this program in the profile, including those that the order
//! does not list or the program no longer has.
//!
//! **In force.** If an order resembles the order of the sources, functions are placed as ordered even in a file that
//! was linked without it. [`VerifyReport::as_linked_without`] recognises such files by the objects of the link or, if
//! these are not available, by the source files of local functions.
//!
//! A function that is not placed as ordered has a [`Reason`]. The input sections are not visible in the linked file,
//! only in its object files, if these are available. Without them, reasons follow from symbols, their files, the
//! neighbours in memory, and landmarks of the usual layout of GNU ld (in `.text`: cold, exit, start-up and hot
//! functions, then the objects in the order of the command line, `_start` first), or remain unknown
//! ([`Reason::AmongUnlisted`]).

pub mod blocks;
mod input;
pub mod ranges;
mod reason;
mod reasons;
#[cfg(feature = "dwarf")]
pub mod same;
mod symbols;
mod untouched;

use crate::link::OrderedName;
use crate::model::Geometry;
use input::InputSections;
pub use reason::{InputSection, Reason};
use reasons::ReasonEvidence;
use sediment_core::ascending;
use sediment_core::binary::names;
use sediment_core::binary::objects::InputObjects;
use sediment_core::binary::{Binary, BinaryFunction, SymbolSource};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::matching::identity::Match;
use sediment_core::profile::Profile;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use symbols::{BinarySymbols, NameWeights, is_cold_part};

/// Bytes of a page.
pub const PAGE: u64 = Geometry::COMMON.page;

/// Basis of a function's weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Calls into it, in the unit of the profile's counts.
    Calls,
    /// Own cost, in the unit of the profile's samples.
    Samples,
    /// 1 for each listed function, because there is no profile, or it has no weights.
    Functions,
}

/// A function that is not placed as ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// Linkage name.
    pub name: String,
    /// Line of the ordering file, from 1; `None` if the order does not list it.
    pub line: Option<u64>,
    /// Its weight.
    pub weight: u128,
    /// Reason why it is not placed as ordered.
    pub reason: Reason,
}

/// Result of checking a binary against an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Where the binary's symbols were found.
    pub symbols_from: SymbolSource,
    /// The profile's cluster that belongs to the binary, if a profile with clusters was given.
    pub cluster: Option<Match>,
    /// Basis of the weights.
    pub basis: Basis,
    /// Number of functions that the order lists, without those of other programs; 0 for an order without functions.
    pub asked: u64,
    /// Number of functions that the order lists, but that the profile has only in other programs.
    pub elsewhere: u64,
    /// Number of listed functions that the binary has.
    pub found: u64,
    /// Number of listed functions that are placed as ordered.
    pub placed: u64,
    /// Weight of all functions of the program.
    pub weight: u128,
    /// Weight of the functions that the binary has.
    pub weight_found: u128,
    /// Weight of the functions placed as ordered.
    pub weight_placed: u128,
    /// `weight_placed` in millionths of `weight`, rounded down; 0 if there is no weight.
    pub placed_parts_per_million: u64,
    /// Pairs of listed functions that are in memory in the opposite order.
    pub inversions: u64,
    /// Bytes of the listed functions that have a weight.
    pub hot_bytes: u64,
    /// Number of pages of [`PAGE`] bytes that contain them.
    pub hot_pages: u64,
    /// Smallest number of pages that could contain them.
    pub ideal_pages: u64,
    /// True if the order shows in the binary: at least one in ten of the functions found, and two of them, is placed as
    /// ordered, or would be without the cold parts in between, and the functions are not placed [`as_linked_without`].
    /// If not, either no object has function sections or the linker did not get the order.
    ///
    /// [`as_linked_without`]: Self::as_linked_without
    pub in_force: bool,
    /// True if the functions are in the sequence of the link's inputs, although the order has another sequence. Then
    /// the functions placed as ordered would have these places without the order, too.
    pub as_linked_without: bool,
    /// The functions not placed as ordered: the heaviest first, then in the sequence of the order, then by name.
    pub misplaced: Vec<Misplaced>,
}

impl VerifyReport {
    /// Returns `weight_placed` in millionths of `weight_found`, rounded down; one million if there is no weight.
    #[must_use]
    pub fn placed_of_found_parts_per_million(&self) -> u64 {
        if self.weight_found == 0 {
            1_000_000
        } else {
            parts_per_million(self.weight_placed, self.weight_found)
        }
    }
}

/// Compares a linked binary with the order it was linked with; `file_name` is the base name of the binary's file, by
/// which the profile's cluster is found. A name that is listed twice counts once, at its first place. `objects`: the
/// inputs of the link, if available; they improve the reasons.
///
/// # Errors
/// If the binary has no function symbols or none of the listed functions, or if the profile contains only other
/// programs.
pub fn verify(
    binary: &Binary,
    asked: &[OrderedName],
    profile: Option<&Profile>,
    file_name: &str,
    objects: &InputObjects,
) -> Result<VerifyReport> {
    let symbols = BinarySymbols::of(binary, file_name)?;
    let weights = match profile {
        Some(profile) => NameWeights::of(profile, &symbols, file_name)?,
        None => NameWeights::uniform(),
    };
    let mut followed = HashSet::new();
    let (wanted, elsewhere) = wanted(asked, &symbols, &weights, &mut followed);
    if !asked.is_empty() && !wanted.iter().any(|function| !function.candidates.is_empty()) {
        // The order may list a function by several of its sections.
        let names: HashSet<&str> = asked.iter().map(|function| function.name.as_str()).collect();
        let what = match names.len() {
            1 => "the ordered function is not".to_owned(),
            count => format!("none of the {count} ordered functions is"),
        };
        return Err(Error::new(ErrorCode::NotInProfile, format!("{what} in {file_name}"))
            .with_found(asked.first().map(|name| name.name.as_bytes()).unwrap_or_default())
            .with_hint("was the order computed for another program?"));
    }
    let placed_functions = PlacedFunctions::of(&wanted, &symbols, false);
    let without_cold = PlacedFunctions::of(&wanted, &symbols, true);
    let asked: HashSet<&str> = wanted.iter().map(|function| function.name).collect();
    let follows = without_cold.has_followed_runs;
    let as_linked_without = !follows && untouched::lies_as_linked_without(&wanted, &symbols, objects);
    let evidence = ReasonEvidence {
        symbols: &symbols,
        weights: &weights,
        placed_functions: &placed_functions,
        without_cold: &without_cold,
        asked: &asked,
        sections: &InputSections::new(objects),
        as_linked_without,
        in_force: follows || !as_linked_without && shows(&wanted, &without_cold),
    };
    Ok(report(&wanted, &evidence, elsewhere, &followed))
}

/// True if enough of the functions found are placed as ordered to show that the order was applied.
fn shows(wanted: &[WantedFunction<'_>], placed_functions: &PlacedFunctions) -> bool {
    let found = wanted.iter().filter(|function| !function.candidates.is_empty());
    let placed = found.clone().filter(|function| placed_functions.has(function)).count();
    let found = found.count();
    placed >= found.min(2) && 10 * placed >= found
}

/// A function that the order lists.
struct WantedFunction<'a> {
    name: &'a str,
    line: u64,
    weight: u128,
    /// Its possible addresses, ascending; several for local functions of the same name.
    candidates: Vec<u64>,
}

/// Collects the functions that the order lists for this binary, each once, and the number of names that only other
/// programs have. If the binary has a function of the profile only as clones, it is added to `followed` if the order
/// lists a clone in its place.
fn wanted<'a>(
    asked: &'a [OrderedName],
    symbols: &BinarySymbols<'_>,
    weights: &NameWeights<'a>,
    followed: &mut HashSet<&'a str>,
) -> (Vec<WantedFunction<'a>>, u64) {
    let names: HashSet<&str> = asked.iter().map(|function| function.name.as_str()).collect();
    let mut cloned: HashMap<&str, &'a str> = HashMap::new();
    for name in weights.by_name.keys().filter(|name| !names.contains(*name) && symbols.named(name).is_empty())
    {
        for clone in symbols.made_of(name).filter(|clone| !weights.by_name.contains_key(clone.name.as_str()))
        {
            cloned.entry(clone.name.as_str()).or_insert(name);
        }
    }
    let aliases = not_asked_by_address(&names, symbols, weights);
    let mut seen = HashSet::new();
    let mut told_apart: HashSet<&str> = HashSet::new();
    let mut elsewhere = 0;
    let mut wanted = Vec::new();
    for OrderedName { name, line, file } in asked {
        let of_object = |function: &&&BinaryFunction| {
            file.as_deref().is_some_and(|object| names::compiled_to(function.file.as_deref(), object))
        };
        let mut by_object: Vec<&BinaryFunction> =
            symbols.named(name).iter().filter(of_object).copied().collect();
        by_object.dedup_by_key(|function| function.address);
        if let [function] = by_object.as_slice() {
            told_apart.insert(name);
            if seen.insert((name.as_str(), Some(function.address))) {
                let weight = weights.of_file(name, function.file.as_deref());
                wanted.push(WantedFunction { name, line: *line, weight, candidates: vec![function.address] });
            }
            continue;
        }
        // If earlier entries name an object, an entry with only the name is for the other functions of this name.
        if told_apart.contains(name.as_str()) || !seen.insert((name.as_str(), None)) {
            continue;
        }
        let functions = symbols.named(name);
        let weighed = weights.by_name.get(name.as_str());
        if functions.is_empty() && weighed.is_none() {
            // A cold part is listed in case it exists.
            let in_case = names::split_from(name).is_some();
            let foreign = weights.foreign.contains(name.as_str());
            elsewhere += u64::from(foreign);
            if in_case || foreign {
                continue;
            }
        }
        let of_file = |function: &&&BinaryFunction| {
            weighed.is_some_and(|weighed| {
                function.file.as_deref().is_some_and(|file| weighed.files.contains_key(file))
            })
        };
        let by_file: BTreeSet<u64> =
            functions.iter().filter(of_file).map(|function| function.address).collect();
        let by_name: BTreeSet<u64> = functions.iter().map(|function| function.address).collect();
        let by_clone = || {
            let free = |clone: &&BinaryFunction| {
                !names.contains(clone.name.as_str()) && !weights.by_name.contains_key(clone.name.as_str())
            };
            symbols.made_of(name).filter(free).map(|clone| clone.address).collect()
        };
        let candidates: BTreeSet<u64> = if !by_file.is_empty() {
            by_file
        } else if by_name.is_empty() {
            by_clone()
        } else {
            by_name
        };
        let mut weight = weights.of_name(name);
        if let Some(original) = cloned.get(name.as_str()).filter(|original| !followed.contains(*original)) {
            followed.insert(original);
            weight = weight.saturating_add(weights.of_name(original));
        }
        let candidates: Vec<u64> = candidates.into_iter().collect();
        if let [address] = candidates.as_slice() {
            for alias in aliases.get(address).into_iter().flatten().filter(|alias| followed.insert(alias)) {
                weight = weight.saturating_add(weights.of_name(alias));
            }
        }
        wanted.push(WantedFunction { name, line: *line, weight, candidates });
    }
    (wanted, elsewhere)
}

/// Collects the profile's names that the order does not list and that have exactly one address, by this address. If the
/// order lists another name at that address (a C++ constructor has two), the function counts as listed.
fn not_asked_by_address<'a>(
    asked: &HashSet<&str>,
    symbols: &BinarySymbols<'_>,
    weights: &NameWeights<'a>,
) -> HashMap<u64, Vec<&'a str>> {
    let mut by_address: HashMap<u64, Vec<&str>> = HashMap::new();
    for name in weights.by_name.keys().filter(|name| !asked.contains(*name)) {
        if let [function] = symbols.named(name) {
            by_address.entry(function.address).or_default().push(name);
        }
    }
    by_address
}

/// Places of the listed functions.
struct PlacedFunctions {
    /// Addresses of functions placed as ordered: in order and side by side.
    as_ordered: BTreeSet<u64>,
    /// All addresses of the stretches of memory that contain them.
    ordered_stretches: BTreeSet<u64>,
    /// True if a part of a stretch follows the order, and the rest of the stretch is in no recognisable order.
    has_followed_runs: bool,
    inversions: u64,
}

impl PlacedFunctions {
    /// `without_cold`: ignores unlisted cold parts.
    fn of(wanted: &[WantedFunction<'_>], symbols: &BinarySymbols<'_>, without_cold: bool) -> Self {
        let stretches = stretches(wanted, symbols, without_cold);
        let accompanied: HashSet<u64> = stretches
            .iter()
            .filter(|stretch| stretch.len() > 1 || wanted.len() == 1)
            .flatten()
            .copied()
            .collect();
        let mut taken = HashSet::new();
        // Aliases of an address that the order already lists have the same place.
        let all: Vec<(usize, u64, u128)> = wanted
            .iter()
            .enumerate()
            .filter_map(|(turn, function)| match function.candidates.as_slice() {
                [address] if taken.insert(*address) => Some((turn, *address, function.weight)),
                _ => None,
            })
            .collect();
        let sequence = |members: &[(usize, u64, u128)]| -> Vec<(u64, u128)> {
            members.iter().map(|(_, address, weight)| (*address, *weight)).collect()
        };
        let inversions = ascending::inversions(&sequence(&all));
        let all_turns = all.clone();
        let near: Vec<(usize, u64, u128)> =
            all.into_iter().filter(|(_, address, _)| accompanied.contains(address)).collect();
        let mut turns: BTreeMap<usize, u64> = ascending::heaviest(&sequence(&near))
            .into_iter()
            .map(|member| (near[member].0, near[member].1))
            .collect();
        let mut in_order: BTreeSet<u64> = turns.values().copied().collect();
        // Local functions of the same name are placed together: each one that fits between its neighbours in the order
        // is in order.
        for (turn, function) in
            wanted.iter().enumerate().filter(|(_, function)| function.candidates.len() > 1)
        {
            let above = turns.range(..turn).next_back().map_or(0, |(_, address)| address + 1);
            let below = turns.range(turn + 1..).next().map_or(u64::MAX, |(_, address)| *address);
            let fits = |address: &u64| (above..below).contains(address) && accompanied.contains(address);
            for address in function.candidates.iter().copied().filter(fits) {
                in_order.insert(address);
                turns.insert(turn, address);
            }
        }
        let turns: HashMap<u64, usize> =
            all_turns.into_iter().map(|(turn, address, _)| (address, turn)).collect();
        let mut placed_functions = Self {
            as_ordered: BTreeSet::new(),
            ordered_stretches: BTreeSet::new(),
            has_followed_runs: false,
            inversions,
        };
        for stretch in stretches {
            let members: Vec<u64> =
                stretch.iter().copied().filter(|address| in_order.contains(address)).collect();
            if 2 * members.len() >= stretch.len() {
                placed_functions.as_ordered.extend(members);
                placed_functions.ordered_stretches.extend(stretch);
                continue;
            }
            for run in followed_runs(&stretch, &turns) {
                placed_functions.has_followed_runs = true;
                placed_functions.as_ordered.extend(run);
                placed_functions.ordered_stretches.extend(run);
            }
        }
        placed_functions
    }

    fn has(&self, function: &WantedFunction<'_>) -> bool {
        function.candidates.iter().any(|address| self.as_ordered.contains(address))
    }
}

/// Length of a run of functions that no link without the order contains.
const FOLLOWED: usize = 16;

/// Finds the runs of at least [`FOLLOWED`] functions in order within a stretch, if less than a quarter of its other
/// listed functions are in order.
fn followed_runs<'a>(stretch: &'a [u64], turns: &HashMap<u64, usize>) -> Vec<&'a [u64]> {
    let turn = |address: &u64| turns.get(address).copied();
    let runs = stretch.chunk_by(|one, next| turn(one).zip(turn(next)).is_some_and(|(one, next)| one < next));
    let (followed, rest): (Vec<&[u64]>, Vec<&[u64]>) = runs.partition(|run| run.len() >= FOLLOWED);
    let mut rest: Vec<(usize, u64)> =
        rest.into_iter().flatten().filter_map(|address| Some((turn(address)?, *address))).collect();
    rest.sort_unstable();
    let sequence: Vec<(u64, u128)> = rest.iter().map(|(_, address)| (*address, 1)).collect();
    if 4 * ascending::heaviest(&sequence).len() < sequence.len() { followed } else { Vec::new() }
}

/// Finds the longest stretches of memory, within an output section, that contain only listed functions.
fn stretches(
    wanted: &[WantedFunction<'_>],
    symbols: &BinarySymbols<'_>,
    without_cold: bool,
) -> Vec<Vec<u64>> {
    // Local functions of the same name are placed together, including those that the order does not list.
    let asked_for: HashSet<u64> = wanted
        .iter()
        .flat_map(|function| {
            let same_named = symbols.named(function.name).iter().map(|other| other.address);
            same_named.chain(function.candidates.iter().copied())
        })
        .collect();
    let functions: Vec<(u64, &str)> = symbols
        .by_address
        .iter()
        .filter(|(address, there)| !without_cold || asked_for.contains(address) || !is_cold_part(there))
        .filter_map(|(address, there)| there.first().map(|function| (*address, function.section.as_str())))
        .collect();
    functions
        .chunk_by(|(a, section), (b, other)| {
            section == other && asked_for.contains(a) == asked_for.contains(b)
        })
        .filter(|stretch| stretch.first().is_some_and(|(address, _)| asked_for.contains(address)))
        .map(|stretch| stretch.iter().map(|(address, _)| *address).collect())
        .collect()
}

fn report(
    wanted: &[WantedFunction<'_>],
    evidence: &ReasonEvidence<'_>,
    elsewhere: u64,
    followed: &HashSet<&str>,
) -> VerifyReport {
    let ReasonEvidence { symbols, weights, placed_functions, asked, .. } = *evidence;
    let found: Vec<&WantedFunction> =
        wanted.iter().filter(|function| !function.candidates.is_empty()).collect();
    let placed: Vec<&WantedFunction> =
        found.iter().copied().filter(|function| placed_functions.has(function)).collect();
    let not_asked =
        || weights.by_name.iter().filter(|(name, _)| !asked.contains(*name) && !followed.contains(*name));

    let mut misplaced: Vec<Misplaced> = wanted
        .iter()
        .filter(|function| !placed_functions.has(function))
        .map(|function| Misplaced {
            name: function.name.to_owned(),
            line: Some(function.line),
            weight: function.weight,
            reason: evidence.reason(function),
        })
        .collect();
    misplaced.extend(not_asked().map(|(name, weighed)| Misplaced {
        name: (*name).to_owned(),
        line: None,
        weight: weighed.weight,
        reason: if symbols.named(name).is_empty() {
            reasons::absent(name, symbols, weights)
        } else {
            reasons::not_asked(name, symbols)
        },
    }));
    misplaced.sort_by(|a, b| {
        let turn = |function: &Misplaced| function.line.unwrap_or(u64::MAX);
        b.weight.cmp(&a.weight).then(turn(a).cmp(&turn(b))).then_with(|| a.name.cmp(&b.name))
    });

    let sum = |weights: &mut dyn Iterator<Item = u128>| weights.fold(0u128, u128::saturating_add);
    let weight_not_asked = sum(&mut not_asked().map(|(_, weighed)| weighed.weight));
    let weight = sum(&mut wanted.iter().map(|function| function.weight)).saturating_add(weight_not_asked);
    let not_asked_but_there = not_asked().filter(|(name, _)| !symbols.named(name).is_empty());
    let weight_found = sum(&mut found.iter().map(|function| function.weight))
        .saturating_add(sum(&mut not_asked_but_there.map(|(_, weighed)| weighed.weight)));
    let weight_placed = sum(&mut placed.iter().map(|function| function.weight));
    let (hot_bytes, hot_pages) = pages(found.iter().copied().filter(|function| function.weight > 0), symbols);
    VerifyReport {
        symbols_from: symbols.binary.symbols_from,
        cluster: weights.cluster.clone(),
        basis: weights.basis,
        asked: wanted.len() as u64,
        elsewhere,
        found: found.len() as u64,
        placed: placed.len() as u64,
        weight,
        weight_found,
        weight_placed,
        placed_parts_per_million: parts_per_million(weight_placed, weight),
        inversions: placed_functions.inversions,
        hot_bytes,
        hot_pages,
        ideal_pages: hot_bytes.div_ceil(PAGE),
        in_force: evidence.in_force,
        as_linked_without: evidence.as_linked_without,
        misplaced,
    }
}

/// `part` in millionths of `whole`, rounded down.
fn parts_per_million(part: u128, whole: u128) -> u64 {
    // Weights can fill 128 bits, so both are shifted alike until the product fits.
    let shift = (128 - whole.leading_zeros()).saturating_sub(100);
    let (part, whole) = (part >> shift, whole >> shift);
    (part * 1_000_000).checked_div(whole).unwrap_or(0) as u64
}

/// Counts the bytes of these functions and the pages that contain them.
fn pages<'a>(
    functions: impl Iterator<Item = &'a WantedFunction<'a>>,
    symbols: &BinarySymbols<'_>,
) -> (u64, u64) {
    let addresses: BTreeSet<u64> = functions.flat_map(|function| &function.candidates).copied().collect();
    let (mut bytes, mut pages, mut counted_to) = (0u64, 0u64, None);
    for address in addresses {
        let size = symbols.at(address).iter().map(|function| function.size).max().unwrap_or(0).max(1);
        bytes = bytes.saturating_add(size);
        let (first, last) = (address / PAGE, address.saturating_add(size - 1) / PAGE);
        let from = counted_to.map_or(first, |counted: u64| first.max(counted + 1));
        pages += (last + 1).saturating_sub(from);
        counted_to = Some(counted_to.map_or(last, |counted: u64| counted.max(last)));
    }
    (bytes, pages)
}
