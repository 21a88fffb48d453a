// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Profile`]: functions by (dso, name, file) with integer weights, and the calls between them.
//!
//! The value that is shipped: it holds no address, path, host, command line or user name. [`text`] is its file format
//! (docs/profile-format.md), [`mod@blocks`] has counts of blocks inside functions, [`mod@counters`] those of a compiler's
//! instrumentation, [`merge`](mod@merge) adds profiles up, [`split`](mod@split) takes one DSO's part, [`similar_labels`](mod@similar_labels) finds labels that may be one
//! library, [`knowledge`] lists the gaps of a profile, [`difference`] compares two, [`submissions`] adds those of
//! users, [`rows`](mod@rows) are profiles in tables.

mod arithmetic;
pub mod blocks;
pub mod counters;
pub mod difference;
mod dot;
mod escaped;
pub mod knowledge;
pub mod merge;
pub mod quality;
pub mod rows;
pub mod runs;
pub mod similar_labels;
pub mod source;
pub mod split;
pub mod submissions;
pub mod text;
pub mod values;

use blocks::{BlockCounts, BlockUnit};
use counters::ArcCounters;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use quality::RecordingQuality;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

/// The longest name, DSO label or file name that a profile keeps, in bytes.
pub const LONGEST_NAME: usize = 4096;

/// The total of a profile whose unit is [`WeightUnit::Share`], once: shares are units of 10^-15.
pub const SHARE_TOTAL: u128 = 1_000_000_000_000_000;

/// Checks a name, DSO label or file name: UTF-8, not empty, at most [`LONGEST_NAME`] bytes, without control
/// characters and `"`, and with no backslash at its end. Callers skip and count others.
#[must_use]
pub fn acceptable(name: &[u8]) -> Option<&str> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return None;
    }
    let text = std::str::from_utf8(name).ok()?;
    if text.ends_with('\\') {
        return None;
    }
    // Names are of ASCII letters as a rule.
    let is_plain =
        name.iter().fold(true, |plain, byte| plain & (matches!(byte, b' '..=b'~') & (*byte != b'"')));
    let refused = || text.chars().any(|c| c.is_control() || c == '"');
    (is_plain || !refused()).then_some(text)
}

/// File name after the last `/`: a DSO, file or unit is never a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
}

/// Number of graphs, and of variants of counters, that the parts of a profile and packages keep of a function.
pub const VARIANTS: usize = 4;

/// The name of a function that is an address as linked, in a DSO that was stripped.
#[cfg(feature = "dwarf")]
pub(crate) fn nameless(address: u64) -> String {
    format!("{address:#x}")
}

/// The address that the name of a function is: `0x` and up to sixteen hexadecimal digits without a zero in front.
pub fn address_of_nameless(name: &str) -> Option<u64> {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let digits = name.strip_prefix("0x").filter(|digits| !digits.starts_with('0'))?;
    digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The identity of a function in a profile.
///
/// Ordered by (dso, name, file); functions without a DSO come first in this order, though a file lists them last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionKey {
    /// Label of the DSO that defines it: soname or base name, never a path. None where it is not known.
    pub dso: Option<String>,
    /// Linkage name, without `@VERSION` and `@plt`.
    pub name: String,
    /// Base name of the source file, only for local functions whose name stands more than once in their DSO.
    pub file: Option<String>,
}

impl FunctionKey {
    /// The key of a function, or None when one of the three is not `acceptable`.
    #[must_use]
    pub fn new(dso: Option<&[u8]>, name: &[u8], file: Option<&[u8]>) -> Option<Self> {
        let checked = |part: Option<&[u8]>| match part {
            None => Some(None),
            Some(bytes) => acceptable(bytes).map(|text| Some(text.to_owned())),
        };
        Some(Self { dso: checked(dso)?, name: acceptable(name)?.to_owned(), file: checked(file)? })
    }
}

/// A function of one [`Profile`]; meaningless in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionIndex(u32);

impl FunctionIndex {
    /// The index into dense tables; functions are numbered from 0 as they were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Unit of `count`, `affinity` and `samples`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightUnit {
    /// Calls, or samples, of one recording.
    #[default]
    Calls,
    /// Units of 10^-15 of all that was seen, as merging makes them.
    Share,
}

/// Where numbers are [`WeightUnit::Calls`], they lie below 2 to this power, so that they can be brought to shares in 128 bits.
const CALL_BITS: u32 = 78;

impl WeightUnit {
    /// True if a profile of this unit may hold these numbers, one by one and in sum.
    pub fn holds<const N: usize>(self, numbers: [Option<u128>; N]) -> bool {
        self != WeightUnit::Calls || numbers.iter().flatten().all(|number| number >> CALL_BITS == 0)
    }

    /// Describes a number that this unit does not hold.
    pub fn beyond(self) -> String {
        match self {
            WeightUnit::Calls => format!("2^{CALL_BITS} or more, the limit of call counts"),
            WeightUnit::Share => "more than 2^128".to_owned(),
        }
    }
}

/// The compiler's statement on how often a function runs. Ordered by precedence in a merge: the least wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// Runs often.
    Hot,
    /// Runs while the program starts.
    Startup,
    /// Runs while the program ends.
    Exit,
    /// Hardly ever runs.
    Cold,
}

/// Kind of a call, where the compiler stated it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// By name.
    Direct,
    /// Through a pointer or a virtual table.
    Indirect,
    /// By a thunk that adjusts and jumps on.
    Thunk,
    /// Not known to be one: the function will return to the tail, where no code calls. A recorder says so, no compiler.
    Uncertain,
}

/// A non-negative decimal with six decimals, as the number of millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Millionths(pub u128);

/// Data of a function beside its identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionFacts {
    /// Bytes of code.
    pub size: Option<u64>,
    /// Own cost in the source's event.
    pub samples: Option<u128>,
    /// Rank of first use, from 0.
    pub first: Option<u64>,
    /// Calls per start of the program, estimated by a compiler.
    pub static_calls: Option<Millionths>,
    /// The compiler's statement on how often it runs.
    pub heat: Option<Heat>,
    /// The function that this is another name of.
    pub alias: Option<String>,
    /// Its address is taken.
    pub taken: bool,
    /// It is exported, main or a constructor.
    pub entry: bool,
    /// Counts of its blocks.
    pub blocks: Option<Box<BlockCounts>>,
    /// Counts of its arcs, by instrumentation.
    pub counters: Option<Box<ArcCounters>>,
}

impl FunctionFacts {
    const NOTHING: Self = Self {
        size: None,
        samples: None,
        first: None,
        static_calls: None,
        heat: None,
        alias: None,
        taken: false,
        entry: false,
        blocks: None,
        counters: None,
    };
}

/// Data of the calls from one function to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeFacts {
    /// Calls seen. None: the edge is no call that was seen.
    pub count: Option<u128>,
    /// Number of times that the callee began to run while the caller was among the last 8 distinct executed
    /// functions.
    pub affinity: Option<u128>,
    /// Calls per call of the caller, estimated by a compiler.
    pub static_calls: Option<Millionths>,
    /// Kind of the call.
    pub kind: Option<CallKind>,
}

impl EdgeFacts {
    const NOTHING: Self = Self { count: None, affinity: None, static_calls: None, kind: None };
}

/// Data of a DSO.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DsoFacts {
    /// The ELF build-id in lower-case hex.
    pub build_id: Option<String>,
    /// Name, version and release of the package it was installed from.
    pub package: Option<String>,
    /// It holds functions without names: each is its address as linked, which the build-id gives a meaning.
    pub unresolved: bool,
}

/// Functions with weights and the calls between them, by name.
///
/// Equality is of content: the order in which functions and edges were added does not show.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Recorders, in words; sorted, without repeats.
    pub source: BTreeSet<String>,
    /// Unit of counts, near counts and samples.
    pub unit: WeightUnit,
    /// All that was seen, also what has no named ends. Zero where nothing was counted (static graphs).
    pub total: u128,
    /// Machine architectures, as `uname -m` spells them; sorted, without repeats.
    pub arch: BTreeSet<String>,
    /// Number of recordings in it; None counts as one.
    pub inputs: Option<u64>,
    /// Quality of the recordings, where their recorder measured it.
    pub quality: RecordingQuality,
    /// Unit of the counts of blocks.
    pub blocks_unit: BlockUnit,
    /// All executions or samples that the counts of blocks are a part of. Zero where none were counted.
    pub blocks_total: u128,
    /// Sum of all counts of arcs that those of functions are a part of. Zero where none were counted.
    pub counters_total: u128,
    dsos: BTreeMap<String, DsoFacts>,
    keys: Vec<FunctionKey>,
    /// Facts of each function, on the heap: a graph may have many functions of which none are known.
    facts: Vec<Option<Box<FunctionFacts>>>,
    /// Functions by key: the table holds their numbers alone.
    by_key: HashTable<u32>,
    edges: Vec<ProfileEdge>,
    /// Edges by their ends.
    by_ends: HashTable<u32>,
    hashing: RandomState,
}

/// An edge, in the order of adding.
#[derive(Debug, Clone)]
struct ProfileEdge {
    caller: FunctionIndex,
    callee: FunctionIndex,
    facts: Option<Box<EdgeFacts>>,
}

impl ProfileEdge {
    fn ends(&self) -> (FunctionIndex, FunctionIndex) {
        (self.caller, self.callee)
    }

    fn facts(&self) -> &EdgeFacts {
        self.facts.as_deref().unwrap_or(&EdgeFacts::NOTHING)
    }
}

/// Adds an item to a table that grows by a quarter: one of a large profile that doubled would take twice what it holds.
fn push<T>(table: &mut Vec<T>, item: T) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 4).max(4));
    }
    table.push(item);
}

impl Profile {
    /// The function with this key, added with no facts if it is new. Its DSO becomes a cluster.
    pub fn function(&mut self, key: FunctionKey) -> FunctionIndex {
        let Self { keys, by_key, hashing, .. } = self;
        let next = keys.len() as u32;
        let known = by_key.entry(
            hashing.hash_one(&key),
            |other| keys[*other as usize] == key,
            |other| hashing.hash_one(&keys[*other as usize]),
        );
        match known {
            Entry::Occupied(known) => return FunctionIndex(*known.get()),
            Entry::Vacant(place) => place.insert(next),
        };
        if let Some(dso) = &key.dso {
            if !self.dsos.contains_key(dso) {
                self.dsos.insert(dso.clone(), DsoFacts::default());
            }
        }
        push(&mut self.keys, key);
        push(&mut self.facts, None);
        FunctionIndex(next)
    }

    /// Gives a function another name. False, and nothing is changed, where a function has that name, or none may have it.
    pub fn rename(&mut self, function: FunctionIndex, name: &str) -> bool {
        let old = self.key(function);
        let bytes = |part: &Option<String>| part.as_ref().map(|text| text.clone().into_bytes());
        let new = FunctionKey::new(bytes(&old.dso).as_deref(), name.as_bytes(), bytes(&old.file).as_deref());
        let Some(new) = new.filter(|new| self.find(new).is_none()) else { return false };
        let Self { keys, by_key, hashing, .. } = self;
        let old = std::mem::replace(&mut keys[function.index()], new);
        if let Ok(entry) = by_key.find_entry(hashing.hash_one(&old), |other| *other == function.0) {
            entry.remove();
        }
        let hash = |other: &u32| hashing.hash_one(&keys[*other as usize]);
        by_key.insert_unique(hash(&function.0), function.0, hash);
        true
    }

    /// The function with this key, if there is one.
    #[must_use]
    pub fn find(&self, key: &FunctionKey) -> Option<FunctionIndex> {
        let hash = self.hashing.hash_one(key);
        self.by_key.find(hash, |other| self.keys[*other as usize] == *key).map(|found| FunctionIndex(*found))
    }

    /// The first function, by key, with a number of its own or of its calls that no file of this unit may hold.
    pub fn first_beyond_unit(&self) -> Option<&FunctionKey> {
        let functions = self.functions().into_iter();
        let by_samples =
            functions.map(|function| (function, !self.unit.holds([self.facts(function).samples])));
        let edges = self.edges().into_iter();
        let by_calls =
            edges.map(|(caller, _, facts)| (caller, !self.unit.holds([facts.count, facts.affinity])));
        by_samples.chain(by_calls).find(|(_, beyond)| *beyond).map(|(function, _)| self.key(function))
    }

    /// Number of functions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.keys.len()
    }

    /// Number of edges.
    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The identity of a function.
    #[must_use]
    pub fn key(&self, function: FunctionIndex) -> &FunctionKey {
        &self.keys[function.index()]
    }

    /// Data of a function.
    #[must_use]
    pub fn facts(&self, function: FunctionIndex) -> &FunctionFacts {
        self.facts[function.index()].as_deref().unwrap_or(&FunctionFacts::NOTHING)
    }

    /// Data of a function, mutable.
    pub fn facts_mut(&mut self, function: FunctionIndex) -> &mut FunctionFacts {
        self.facts[function.index()].get_or_insert_default()
    }

    /// The edge from `caller` to `callee`, added with no facts if it is new.
    pub fn edge_mut(&mut self, caller: FunctionIndex, callee: FunctionIndex) -> &mut EdgeFacts {
        let position = self.add_edge(caller, callee);
        self.edges[position].facts.get_or_insert_default()
    }

    /// The number of the edge from `caller` to `callee`, added with no facts if it is new.
    fn add_edge(&mut self, caller: FunctionIndex, callee: FunctionIndex) -> usize {
        let Self { edges, by_ends, hashing, .. } = self;
        let next = edges.len() as u32;
        let known = by_ends.entry(
            hashing.hash_one((caller, callee)),
            |other| edges[*other as usize].ends() == (caller, callee),
            |other| hashing.hash_one(edges[*other as usize].ends()),
        );
        match known {
            Entry::Occupied(known) => return *known.get() as usize,
            Entry::Vacant(place) => place.insert(next),
        };
        push(edges, ProfileEdge { caller, callee, facts: None });
        next as usize
    }

    /// The edge from `caller` to `callee`, if there is one.
    #[must_use]
    pub fn edge(&self, caller: FunctionIndex, callee: FunctionIndex) -> Option<&EdgeFacts> {
        let hash = self.hashing.hash_one((caller, callee));
        let found = self.by_ends.find(hash, |other| self.edges[*other as usize].ends() == (caller, callee));
        found.map(|position| self.edges[*position as usize].facts())
    }

    /// The functions in the order of their keys.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionIndex> {
        let mut order: Vec<FunctionIndex> = (0..self.keys.len() as u32).map(FunctionIndex).collect();
        order.sort_by(|a, b| self.key(*a).cmp(self.key(*b)));
        order
    }

    /// The edges in the order of their callers' keys, then their callees'.
    #[must_use]
    pub fn edges(&self) -> Vec<(FunctionIndex, FunctionIndex, &EdgeFacts)> {
        let mut rank = vec![0u32; self.keys.len()];
        for (position, function) in self.functions().into_iter().enumerate() {
            rank[function.index()] = position as u32;
        }
        let mut edges: Vec<_> =
            self.edges.iter().map(|edge| (edge.caller, edge.callee, edge.facts())).collect();
        edges.sort_unstable_by_key(|(caller, callee, _)| (rank[caller.index()], rank[callee.index()]));
        edges
    }

    /// [`Self::function`], which copies a key only if it is new.
    fn function_of(&mut self, key: &FunctionKey) -> FunctionIndex {
        match self.find(key) {
            Some(known) => known,
            None => self.function(key.clone()),
        }
    }

    /// Reserves space for `more` functions.
    fn reserve_functions(&mut self, more: usize) {
        self.keys.reserve_exact(more);
        self.facts.reserve_exact(more);
        let Self { keys, by_key, hashing, .. } = self;
        by_key.reserve(more, |other| hashing.hash_one(&keys[*other as usize]));
    }

    /// Reserves space for `more` edges.
    fn reserve_edges(&mut self, more: usize) {
        self.edges.reserve_exact(more);
        let Self { edges, by_ends, hashing, .. } = self;
        by_ends.reserve(more, |other| hashing.hash_one(edges[*other as usize].ends()));
    }

    /// The DSOs by label, also those that no function names.
    #[must_use]
    pub fn dsos(&self) -> &BTreeMap<String, DsoFacts> {
        &self.dsos
    }

    /// True if a function has no name: it is an address as linked, in a DSO that was stripped.
    #[must_use]
    pub fn is_nameless(&self, function: FunctionIndex) -> bool {
        let FunctionKey { dso, name, .. } = self.key(function);
        let dso = dso.as_ref().and_then(|label| self.dsos.get(label));
        dso.is_some_and(|dso| dso.unresolved) && address_of_nameless(name).is_some()
    }

    /// Takes the mark of unresolved functions from the DSOs of which every function has a name.
    pub fn keep_unresolved_where_nameless(&mut self) {
        let nameless: BTreeSet<String> = (0..self.keys.len() as u32)
            .map(FunctionIndex)
            .filter(|function| self.is_nameless(*function))
            .filter_map(|function| self.key(function).dso.clone())
            .collect();
        for (label, facts) in &mut self.dsos {
            facts.unresolved &= nameless.contains(label);
        }
    }

    /// Cuts the graphs of counted blocks and the variants of counters of each function to the heaviest; true if there were more.
    pub fn keep_heaviest_variants(&mut self, most: usize) -> bool {
        let mut is_cut = false;
        for facts in self.facts.iter_mut().flatten() {
            is_cut |= facts.blocks.as_mut().is_some_and(|blocks| blocks.keep_heaviest(most));
            is_cut |= facts.counters.as_mut().is_some_and(|counters| counters.keep_heaviest(most));
        }
        is_cut
    }

    /// Data of a DSO, mutable; added if it is new.
    pub fn dso_mut(&mut self, label: &str) -> &mut DsoFacts {
        self.dsos.entry(label.to_owned()).or_default()
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        let header = |p: &Self| {
            let blocks = (p.blocks_unit, p.blocks_total, p.counters_total);
            (p.source.clone(), p.unit, p.total, p.arch.clone(), (p.inputs, p.quality), blocks)
        };
        header(self) == header(other)
            && self.dsos == other.dsos
            && self.keys.len() == other.keys.len()
            && self.edges.len() == other.edges.len()
            && (0..self.keys.len() as u32).map(FunctionIndex).all(|function| {
                let there = other.find(self.key(function));
                there.is_some_and(|there| other.facts(there) == self.facts(function))
            })
            && self.edges.iter().all(|edge| {
                match (other.find(self.key(edge.caller)), other.find(self.key(edge.callee))) {
                    (Some(caller), Some(callee)) => other.edge(caller, callee) == Some(edge.facts()),
                    _ => false,
                }
            })
    }
}

impl Eq for Profile {}
