// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Profile`]: functions by (dso, name, file) with integer weights, and the calls between them.
//!
//! Packages contain profiles, so a profile has no addresses, paths, host names, command lines or user names. [`text`]
//! is its file format (docs/profile-format.md), [`mod@blocks`] has counts of blocks inside functions, [`mod@counters`]
//! has counts from a compiler's instrumentation, [`merge`](mod@merge) adds profiles, [`split`](mod@split) extracts one
//! DSO's part, [`similar_labels`](mod@similar_labels) finds labels that may denote the same library, [`knowledge`]
//! lists the gaps of a profile, [`difference`] compares two profiles, [`submissions`] adds profiles from users, and
//! [`rows`](mod@rows) are profiles as tables.

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

/// Longest name, DSO label or file name in a profile, in bytes.
pub const LONGEST_NAME: usize = 4096;

/// Total of an unmerged profile whose unit is [`WeightUnit::Share`]: shares are units of 10^-15.
pub const SHARE_TOTAL: u128 = 1_000_000_000_000_000;

/// Checks a name, DSO label or file name: it must be UTF-8, not empty, at most [`LONGEST_NAME`] bytes long, without
/// control characters and `"`, and must not end in a backslash. Callers skip and count names that fail.
#[must_use]
pub fn acceptable(name: &[u8]) -> Option<&str> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return None;
    }
    let text = std::str::from_utf8(name).ok()?;
    if text.ends_with('\\') {
        return None;
    }
    // Names usually consist of ASCII letters.
    let is_plain =
        name.iter().fold(true, |plain, byte| plain & (matches!(byte, b' '..=b'~') & (*byte != b'"')));
    let refused = || text.chars().any(|c| c.is_control() || c == '"');
    (is_plain || !refused()).then_some(text)
}

/// Returns the file name after the last `/`: a DSO, file or unit is never a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
}

/// Number of graphs, and of variants of counters, that packages and parts of a profile keep for each function.
pub const VARIANTS: usize = 4;

/// Name of a function in a stripped DSO: its address as linked.
#[cfg(feature = "dwarf")]
pub(crate) fn nameless(address: u64) -> String {
    format!("{address:#x}")
}

/// Parses the address that is the name of a function: `0x` and up to sixteen hexadecimal digits without a leading zero.
pub fn address_of_nameless(name: &str) -> Option<u64> {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let digits = name.strip_prefix("0x").filter(|digits| !digits.starts_with('0'))?;
    digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Identity of a function in a profile.
///
/// Keys are ordered by (dso, name, file). Functions without a DSO come first in this order, although a file lists them
/// last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionKey {
    /// Label of the DSO that defines it: soname or base name, never a path. `None` if unknown.
    pub dso: Option<String>,
    /// Linkage name, without `@VERSION` and `@plt`.
    pub name: String,
    /// Base name of the source file, only for local functions whose name occurs more than once in their DSO.
    pub file: Option<String>,
}

impl FunctionKey {
    /// Makes the key of a function; `None` if one of the three is not `acceptable`.
    #[must_use]
    pub fn new(dso: Option<&[u8]>, name: &[u8], file: Option<&[u8]>) -> Option<Self> {
        let checked = |part: Option<&[u8]>| match part {
            None => Some(None),
            Some(bytes) => acceptable(bytes).map(|text| Some(text.to_owned())),
        };
        Some(Self { dso: checked(dso)?, name: acceptable(name)?.to_owned(), file: checked(file)? })
    }
}

/// A function of one [`Profile`]; not valid in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionIndex(u32);

impl FunctionIndex {
    /// Index for dense tables; functions are numbered from 0 in the order in which they were added.
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
    /// Units of 10^-15 of the total, as in merged profiles.
    Share,
}

/// Numbers in [`WeightUnit::Calls`] are below 2 to this power, so that they can be converted to shares in 128 bits.
const CALL_BITS: u32 = 78;

impl WeightUnit {
    /// True if a profile of this unit may hold each of these numbers and their sum.
    pub fn holds<const N: usize>(self, numbers: [Option<u128>; N]) -> bool {
        self != WeightUnit::Calls || numbers.iter().flatten().all(|number| number >> CALL_BITS == 0)
    }

    /// Describes a number that is too large for this unit.
    pub fn beyond(self) -> String {
        match self {
            WeightUnit::Calls => format!("2^{CALL_BITS} or more, the limit of call counts"),
            WeightUnit::Share => "more than 2^128".to_owned(),
        }
    }
}

/// The compiler's classification of how often a function runs. Ordered by precedence in a merge: the smallest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// Runs often.
    Hot,
    /// Runs while the program starts.
    Startup,
    /// Runs while the program ends.
    Exit,
    /// Rarely runs.
    Cold,
}

/// Kind of a call, if the compiler reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// By name.
    Direct,
    /// Through a pointer or a virtual table.
    Indirect,
    /// Through a thunk that adjusts an argument and jumps on.
    Thunk,
    /// Possibly not a call: the function will return to the tail of the caller, where no code calls. Recorders report
    /// it, compilers do not.
    Uncertain,
}

/// A non-negative decimal with six decimals, as the number of millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Millionths(pub u128);

/// Data of a function in addition to its identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionFacts {
    /// Size of its code in bytes.
    pub size: Option<u64>,
    /// Own cost in the event of the source.
    pub samples: Option<u128>,
    /// Rank of first use, from 0.
    pub first: Option<u64>,
    /// Calls per start of the program, estimated by a compiler.
    pub static_calls: Option<Millionths>,
    /// The compiler's classification of how often it runs.
    pub heat: Option<Heat>,
    /// The function of which this is another name.
    pub alias: Option<String>,
    /// True if its address is taken.
    pub taken: bool,
    /// True if it is exported, main or a constructor.
    pub entry: bool,
    /// Counts of its blocks.
    pub blocks: Option<Box<BlockCounts>>,
    /// Counts of its arcs from instrumentation.
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
    /// Number of recorded calls; `None` if the edge is not a recorded call.
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
    /// Name, version and release of the package that contains it.
    pub package: Option<String>,
    /// True if it has functions without names. The name of such a function is its address as linked, which refers to
    /// the build-id.
    pub unresolved: bool,
}

/// Functions with weights, and the calls between them, by name.
///
/// Equality compares the content, not the order in which functions and edges were added.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Recorders as text; sorted, without repeats.
    pub source: BTreeSet<String>,
    /// Unit of counts, near counts and samples.
    pub unit: WeightUnit,
    /// Total of all calls, including calls whose ends have no names. Zero if nothing was counted (static graphs).
    pub total: u128,
    /// Architectures as `uname -m` spells them; sorted, without repeats.
    pub arch: BTreeSet<String>,
    /// Number of recordings; `None` counts as one.
    pub inputs: Option<u64>,
    /// Quality of the recordings, if their recorder measured it.
    pub quality: RecordingQuality,
    /// Unit of the counts of blocks.
    pub blocks_unit: BlockUnit,
    /// Total of all executions or samples that the counts of blocks belong to. Zero if none were counted.
    pub blocks_total: u128,
    /// Total of all arc counts that the functions' arc counts belong to. Zero if none were counted.
    pub counters_total: u128,
    dsos: BTreeMap<String, DsoFacts>,
    keys: Vec<FunctionKey>,
    /// Data of each function, on the heap: a graph may have many functions without data.
    facts: Vec<Option<Box<FunctionFacts>>>,
    /// Functions by key; the table holds only their numbers.
    by_key: HashTable<u32>,
    edges: Vec<ProfileEdge>,
    /// Edges by their ends.
    by_ends: HashTable<u32>,
    hashing: RandomState,
}

/// An edge, in the order in which it was added.
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

/// Appends to a table that grows by a quarter: if a large table doubled, it would take twice the memory of its items.
fn push<T>(table: &mut Vec<T>, item: T) {
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 4).max(4));
    }
    table.push(item);
}

impl Profile {
    /// Returns the function with this key; adds it without data if it is new. Its DSO becomes a cluster.
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

    /// Renames a function. False, without any change, if a function has the new name, or if the name is not allowed.
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

    /// Returns the function with this key, if there is one.
    #[must_use]
    pub fn find(&self, key: &FunctionKey) -> Option<FunctionIndex> {
        let hash = self.hashing.hash_one(key);
        self.by_key.find(hash, |other| self.keys[*other as usize] == *key).map(|found| FunctionIndex(*found))
    }

    /// Returns the first function, by key, that has a number, or a call with a number, too large for files of this
    /// unit.
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

    /// Returns the identity of a function.
    #[must_use]
    pub fn key(&self, function: FunctionIndex) -> &FunctionKey {
        &self.keys[function.index()]
    }

    /// Returns the data of a function.
    #[must_use]
    pub fn facts(&self, function: FunctionIndex) -> &FunctionFacts {
        self.facts[function.index()].as_deref().unwrap_or(&FunctionFacts::NOTHING)
    }

    /// Returns the data of a function, mutable.
    pub fn facts_mut(&mut self, function: FunctionIndex) -> &mut FunctionFacts {
        self.facts[function.index()].get_or_insert_default()
    }

    /// Returns the edge from `caller` to `callee`; adds it without data if it is new.
    pub fn edge_mut(&mut self, caller: FunctionIndex, callee: FunctionIndex) -> &mut EdgeFacts {
        let position = self.add_edge(caller, callee);
        self.edges[position].facts.get_or_insert_default()
    }

    /// Returns the number of the edge from `caller` to `callee`; adds it without data if it is new.
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

    /// Returns the edge from `caller` to `callee`, if there is one.
    #[must_use]
    pub fn edge(&self, caller: FunctionIndex, callee: FunctionIndex) -> Option<&EdgeFacts> {
        let hash = self.hashing.hash_one((caller, callee));
        let found = self.by_ends.find(hash, |other| self.edges[*other as usize].ends() == (caller, callee));
        found.map(|position| self.edges[*position as usize].facts())
    }

    /// Returns the functions in the order of their keys.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionIndex> {
        let mut order: Vec<FunctionIndex> = (0..self.keys.len() as u32).map(FunctionIndex).collect();
        order.sort_by(|a, b| self.key(*a).cmp(self.key(*b)));
        order
    }

    /// Returns the edges in the order of their callers' keys, then of their callees' keys.
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

    /// As [`Self::function`], but copies the key only if it is new.
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

    /// Returns the DSOs by label, including DSOs without functions.
    #[must_use]
    pub fn dsos(&self) -> &BTreeMap<String, DsoFacts> {
        &self.dsos
    }

    /// True if a function has no name but an address as linked, in a stripped DSO.
    #[must_use]
    pub fn is_nameless(&self, function: FunctionIndex) -> bool {
        let FunctionKey { dso, name, .. } = self.key(function);
        let dso = dso.as_ref().and_then(|label| self.dsos.get(label));
        dso.is_some_and(|dso| dso.unresolved) && address_of_nameless(name).is_some()
    }

    /// Clears the flag of unresolved functions for DSOs in which every function has a name.
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

    /// Keeps only the heaviest graphs of blocks and variants of counters of each function; true if there were more.
    pub fn keep_heaviest_variants(&mut self, most: usize) -> bool {
        let mut is_cut = false;
        for facts in self.facts.iter_mut().flatten() {
            is_cut |= facts.blocks.as_mut().is_some_and(|blocks| blocks.keep_heaviest(most));
            is_cut |= facts.counters.as_mut().is_some_and(|counters| counters.keep_heaviest(most));
        }
        is_cut
    }

    /// Returns the data of a DSO, mutable; adds the DSO if it is new.
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
