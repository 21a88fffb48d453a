// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a [`CallGraph`] from a [`Profile`], and the [`FunctionTable`] with the meaning of its ids.

use sediment_core::binary::objects::{Finder, InputObjects, ObjectFunction};
use sediment_core::binary::{Binary, BinaryFunction, SymbolSource, names};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::functions::FunctionTable;
use sediment_core::matching::identity;
use sediment_core::profile::{EdgeFacts, FunctionFacts, FunctionIndex, FunctionKey, Heat, Profile};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{HashMap, HashSet};

/// Bytes assumed for a function whose size neither a binary nor the profile gives.
pub(crate) const UNKNOWN_SIZE: u64 = 128;

/// The functions of a profile from which a graph is built.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Functions of every DSO.
    Everything,
    /// Functions of the DSO with this label.
    Dso(&'a str),
    /// Functions of this binary's cluster that the binary has.
    Binary {
        /// The binary.
        binary: &'a Binary,
        /// Base name of its file, used if it has no soname.
        file_name: &'a str,
    },
    /// Functions of one cluster (or of none) that the inputs of a link define. If some inputs cannot be read, also the
    /// functions of the cluster that are not found in the others.
    Objects {
        /// The inputs.
        objects: &'a InputObjects,
        /// Label of the cluster; None: functions of no DSO.
        label: Option<&'a str>,
    },
}

/// A graph, the meaning of its ids, and what was left out of it.
#[derive(Debug, Clone)]
pub struct BuiltGraph {
    /// The graph.
    pub graph: CallGraph,
    /// The functions, by id.
    pub table: FunctionTable,
    /// Functions and edges of the profile that are not in the graph, and why.
    pub skipped: Skipped,
    /// True if ids follow the program as it is linked without an order: by the addresses of a binary, or by the inputs
    /// of a link that are all known.
    pub is_in_input_order: bool,
}

/// Builds the graph of the selected functions.
///
/// The weight of a call edge is its number of calls (`count`); affinity edges are separate. If a profile has no calls,
/// the weight is its `affinity`, otherwise the logarithm of the compiler's estimate (executions of the caller for one
/// start of the program, 1 if unknown, times the calls that it makes; error paths get none), otherwise 1. Names at one
/// address of the binary are one function. The weight of a function is the number of calls into it, also from functions
/// outside the selection; with estimates, at least its expected executions. Sizes come from the binary, otherwise from
/// the profile, otherwise they are `UNKNOWN_SIZE`. If the weights of a profile exceed the limit of a graph, all are
/// divided by the same power of two, and rounded up.
///
/// # Errors
/// If the selection has no function; the error names the programs in the profile. If no function has a name.
pub fn build(profile: &Profile, selection: &Selection<'_>) -> Result<BuiltGraph> {
    let mut skipped = Skipped::default();
    let mut nodes = select(profile, selection, &mut skipped)?;
    nodes.retain(|node| {
        let is_nameless = profile.is_nameless(node.function);
        if is_nameless {
            let samples = profile.facts(node.function).samples.unwrap_or(0);
            skipped.add(Reason::NamelessFunction, samples, &profile.key(node.function).name);
        }
        !is_nameless
    });
    if nodes.is_empty() {
        return Err(without_names());
    }
    leave_in_place(profile, &mut nodes, &mut skipped)?;
    let mut ids: Vec<Option<FunctionId>> = vec![None; profile.function_count()];
    let mut aliases = Vec::new();
    for (id, node) in nodes.iter().enumerate() {
        ids[node.function.index()] = Some(FunctionId(id as u32));
        for &alias in &node.aliases {
            ids[alias.index()] = Some(FunctionId(id as u32));
            aliases.push((profile.key(alias).clone(), FunctionId(id as u32)));
        }
    }
    let mut calls = Vec::new();
    let mut outside = (0u64, 0u128);
    let source = WeightSource::of(profile);
    let edges_of_profile = profile.edges();
    for &(caller, callee, facts) in &edges_of_profile {
        let weight = source.weight(facts, [caller, callee].map(|end| profile.facts(end)));
        match (ids[caller.index()], ids[callee.index()]) {
            (caller, Some(callee)) if weight > 0 => calls.push((caller, callee, weight)),
            (Some(_), None) => outside = (outside.0 + 1, outside.1.saturating_add(weight)),
            _ => {}
        }
    }
    skipped.add_many(Reason::CallOutside, outside.0, outside.1, "");
    let affinity = affinity_edges(&edges_of_profile, &ids);
    let shift = shift_for(&calls);
    let mut weights = vec![0u64; nodes.len()];
    let mut edges = Vec::with_capacity(calls.len());
    for (caller, callee, weight) in calls {
        let weight = weight.div_ceil(1 << shift) as u64;
        weights[callee.index()] += weight;
        if let Some(caller) = caller {
            edges.push(CallEdge { caller, callee, weight });
        }
    }
    if source == WeightSource::Estimates {
        // A function called only through pointers has no incoming edges in this graph.
        for (weight, node) in weights.iter_mut().zip(&nodes) {
            for &function in node.aliases.iter().chain([&node.function]) {
                *weight = (*weight).max(estimated_runs(profile.facts(function)));
            }
        }
    }
    let sizes = nodes.iter().map(|node| node.size).collect();
    let keys = nodes.iter().map(|node| profile.key(node.function).clone()).collect();
    let has_blocks = |function: &FunctionIndex| profile.facts(*function).blocks.is_some();
    let is_counted = |node: &GraphNode| node.aliases.iter().chain([&node.function]).any(has_blocks);
    let counted = (0..).map(FunctionId).zip(&nodes).filter(|(_, node)| is_counted(node)).map(|(id, _)| id);
    let addresses = nodes.iter().filter_map(|node| node.address).collect();
    let is_in_input_order = match selection {
        Selection::Binary { .. } => true,
        Selection::Objects { objects, .. } => objects.complete(),
        Selection::Everything | Selection::Dso(_) => false,
    };
    let table = FunctionTable { keys, aliases, counted: counted.collect(), addresses };
    let graph = CallGraph::new(sizes, weights, edges)?.with_affinity(affinity)?;
    Ok(BuiltGraph { graph, table, skipped, is_in_input_order })
}

/// Removes the functions that no linker may move.
fn leave_in_place(profile: &Profile, nodes: &mut Vec<GraphNode>, skipped: &mut Skipped) -> Result<()> {
    nodes.retain(|node| {
        let key = profile.key(node.function);
        let stays = node.fixed || names::is_of_ocaml(&key.name);
        if stays {
            skipped.add(Reason::RangedCode, profile.facts(node.function).samples.unwrap_or(0), &key.name);
        }
        !stays
    });
    if nodes.is_empty() {
        return Err(Error::new(
            ErrorCode::NotOrdered,
            "all functions of the profile must stay in place: code finds them by an address range (OCaml, or code between two labels), or they run on into the next function",
        )
        .with_hint("link without an order"));
    }
    Ok(())
}

/// Total weight of the functions of one program in a profile, and the part in functions that an order places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedShare {
    /// Weight in functions of the graph whose names a linker may know.
    pub placed: u128,
    /// Weight of all functions.
    pub of: u128,
}

impl PlacedShare {
    /// `placed` in millionths of `of`, rounded down; one million if there is no weight.
    #[must_use]
    pub fn parts_per_million(&self) -> u64 {
        let shift = (128 - self.of.leading_zeros()).saturating_sub(100);
        let (placed, of) = (self.placed >> shift, self.of >> shift);
        (placed * 1_000_000).checked_div(of).unwrap_or(1_000_000) as u64
    }
}

/// Returns the share of the selected program's weight that an order of this graph places. The weight is the calls into
/// functions; if there are none, own cost; otherwise 1 for each function.
#[must_use]
pub fn placed_share(profile: &Profile, selection: &Selection<'_>, built: &BuiltGraph) -> PlacedShare {
    let functions = profile.functions();
    let mut calls = vec![0u128; profile.function_count()];
    for (_, callee, facts) in profile.edges() {
        let sum = &mut calls[callee.index()];
        *sum = sum.saturating_add(facts.count.unwrap_or(0));
    }
    let label = match selection {
        Selection::Binary { binary, file_name } => {
            identity::dso_of(profile, binary, file_name).map(|found| found.label)
        }
        Selection::Dso(label) => Some((*label).to_owned()),
        Selection::Objects { label, .. } => label.map(str::to_owned),
        Selection::Everything => None,
    };
    let imports: HashSet<&str> = match selection {
        Selection::Binary { binary, .. } => {
            binary.plt_stubs.iter().map(|stub| stub.target.as_str()).collect()
        }
        _ => HashSet::new(),
    };
    let is_ours = |function: &FunctionIndex| {
        let FunctionKey { dso, name, .. } = profile.key(*function);
        // Functions that stay in place do not count as left out.
        if names::is_of_ocaml(name) {
            return false;
        }
        let dso = dso.as_deref();
        // If no function has a DSO, every function that the program does not import may be its own.
        let may_be_ours = || dso.is_none() && label.is_none() && !imports.contains(name.as_str());
        matches!(selection, Selection::Everything)
            || dso.is_some() && dso == label.as_deref()
            || matches!(selection, Selection::Binary { .. }) && may_be_ours()
    };
    let in_graph: HashSet<&FunctionKey> = built.table.names().map(|(key, _)| key).collect();
    let ours: Vec<FunctionIndex> = functions
        .into_iter()
        .filter(|function| is_ours(function) || in_graph.contains(profile.key(*function)))
        .collect();
    let samples = |function: FunctionIndex| profile.facts(function).samples.unwrap_or(0);
    let any = |weight: &dyn Fn(FunctionIndex) -> u128| ours.iter().any(|function| weight(*function) > 0);
    let by_calls = |function: FunctionIndex| calls[function.index()];
    let weight: &dyn Fn(FunctionIndex) -> u128 = if any(&by_calls) {
        &by_calls
    } else if any(&samples) {
        &samples
    } else {
        &|_| 1
    };
    let mut share = PlacedShare { placed: 0, of: 0 };
    for function in ours {
        let key = profile.key(function);
        share.of = share.of.saturating_add(weight(function));
        if in_graph.contains(key) && !names::is_demangled(&key.name) {
            share.placed = share.placed.saturating_add(weight(function));
        }
    }
    share
}

/// Returns the affinity edges of a profile among these functions.
fn affinity_edges(
    edges: &[(FunctionIndex, FunctionIndex, &EdgeFacts)],
    ids: &[Option<FunctionId>],
) -> Vec<CallEdge> {
    let pairs: Vec<(Option<FunctionId>, FunctionId, u128)> = edges
        .iter()
        .filter_map(|(from, to, facts)| {
            let ends = ids[from.index()].zip(ids[to.index()])?;
            facts.affinity.filter(|affinity| *affinity > 0).map(|affinity| (Some(ends.0), ends.1, affinity))
        })
        .collect();
    let shift = shift_for(&pairs);
    let pair = |(from, callee, affinity): (Option<FunctionId>, FunctionId, u128)| {
        from.map(|caller| CallEdge { caller, callee, weight: affinity.div_ceil(1 << shift) as u64 })
    };
    pairs.into_iter().filter_map(pair).collect()
}

/// Computes the rank of first use of each function of a table, by id; `None` if the profile does not contain it.
#[must_use]
pub fn first_uses(profile: &Profile, table: &FunctionTable) -> Vec<Option<u64>> {
    let mut ranks: Vec<Option<u64>> = vec![None; table.keys.len()];
    for (key, id) in table.names() {
        if let Some(first) = profile.find(key).and_then(|function| profile.facts(function).first) {
            let rank = &mut ranks[id.index()];
            *rank = Some(rank.map_or(first, |known| known.min(first)));
        }
    }
    ranks
}

/// Returns the number of bits by which weights must be shifted right so that their sum, each rounded up, is at most
/// [`CallGraph::MAX_TOTAL_WEIGHT`].
fn shift_for(calls: &[(Option<FunctionId>, FunctionId, u128)]) -> u32 {
    let fits = |shift: u32| {
        let mut weights = calls.iter().map(|(_, _, weight)| weight.div_ceil(1 << shift));
        let sum = weights.try_fold(0u128, |sum, weight| sum.checked_add(weight));
        sum.is_some_and(|sum| sum <= u128::from(CallGraph::MAX_TOTAL_WEIGHT))
    };
    (0..127).find(|shift| fits(*shift)).unwrap_or(127)
}

/// True if the graph of this profile is based on a compiler's estimates only: nothing in it was executed.
#[must_use]
pub fn is_estimated(profile: &Profile) -> bool {
    WeightSource::of(profile) == WeightSource::Estimates
}

/// One thousandth of a call per program start, in units of 10^-12. Estimates are divided by it before the logarithm.
const THOUSANDTH: u128 = 1_000_000_000;

/// Returns the logarithm of 1 + value / unit to base 2, in units of 2^-20 (about a millionth), linear between powers of
/// two. It uses only integers, so it is the same on every machine. It is above 0 if the value is.
pub(super) fn compressed(value: u128, unit: u128) -> u64 {
    const DECIMALS: u32 = 20;
    let logarithm = |number: u128| {
        let whole = number.max(1).ilog2();
        let mantissa =
            if whole > DECIMALS { number >> (whole - DECIMALS) } else { number << (DECIMALS - whole) };
        (u64::from(whole) << DECIMALS) + (mantissa as u64 & ((1 << DECIMALS) - 1))
    };
    (logarithm(unit.saturating_add(value)) - logarithm(unit)).max(u64::from(value > 0))
}

/// Estimated executions of a function, compressed; 0 for an error path.
fn estimated_runs(facts: &FunctionFacts) -> u64 {
    let runs = facts.static_calls.filter(|_| facts.heat != Some(Heat::Cold));
    runs.map_or(0, |runs| compressed(runs.0.saturating_mul(1_000_000), THOUSANDTH))
}

/// The attribute of a profile's edges that is used for the number of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightSource {
    Counts,
    Affinity,
    Estimates,
    Nothing,
}

impl WeightSource {
    pub(super) fn of(profile: &Profile) -> Self {
        let edges = profile.edges();
        let any = |has: fn(&EdgeFacts) -> bool| edges.iter().any(|(_, _, facts)| has(facts));
        if any(|facts| facts.count.is_some_and(|count| count > 0)) {
            Self::Counts
        } else if any(|facts| facts.affinity.is_some_and(|affinity| affinity > 0)) {
            Self::Affinity
        } else if any(|facts| facts.static_calls.is_some_and(|calls| calls.0 > 0)) {
            Self::Estimates
        } else {
            Self::Nothing
        }
    }

    fn weight(self, facts: &EdgeFacts, [caller, callee]: [&FunctionFacts; 2]) -> u128 {
        match self {
            Self::Counts => facts.count.unwrap_or(0),
            Self::Affinity => facts.affinity.unwrap_or(0),
            // Error paths get no expected calls.
            Self::Estimates if [caller, callee].iter().any(|end| end.heat == Some(Heat::Cold)) => 0,
            Self::Estimates => {
                let runs = caller.static_calls.map_or(1_000_000, |runs| runs.0);
                let calls = facts.static_calls.map_or(0, |calls| calls.0);
                compressed(runs.saturating_mul(calls), THOUSANDTH).into()
            }
            Self::Nothing => 1,
        }
    }
}

/// A function of the profile that comes into the graph.
struct GraphNode {
    function: FunctionIndex,
    /// Further names of the function.
    aliases: Vec<FunctionIndex>,
    size: u64,
    /// Address in the binary, if the functions belong to one.
    address: Option<u64>,
    /// True if other code relies on its position.
    fixed: bool,
}

fn select(profile: &Profile, selection: &Selection<'_>, skipped: &mut Skipped) -> Result<Vec<GraphNode>> {
    let node = |function: FunctionIndex| GraphNode {
        function,
        aliases: Vec::new(),
        size: profile.facts(function).size.filter(|size| *size > 0).unwrap_or(UNKNOWN_SIZE),
        address: None,
        fixed: false,
    };
    if profile.function_count() == 0 {
        return Err(Error::new(ErrorCode::EmptyProfile, "the profile has no functions to order"));
    }
    match selection {
        Selection::Everything => Ok(profile.functions().into_iter().map(node).collect()),
        Selection::Dso(label) => {
            let nodes: Vec<GraphNode> = profile
                .functions()
                .into_iter()
                .filter(|function| profile.key(*function).dso.as_deref() == Some(label))
                .map(node)
                .collect();
            if nodes.is_empty() {
                return Err(Error::new(
                    ErrorCode::NotInProfile,
                    format!("the profile has no functions of {label}"),
                )
                .with_hint(format!("the profile has functions of: {}", held(profile))));
            }
            Ok(nodes)
        }
        Selection::Binary { binary, file_name } => select_of_binary(profile, binary, file_name, skipped),
        Selection::Objects { objects, label } => select_of_objects(profile, objects, *label, skipped),
    }
}

/// Makes the error for a profile without a function that can be ordered, because all functions are addresses in
/// stripped files.
fn without_names() -> Error {
    Error::new(
        ErrorCode::Stripped,
        "the functions of the profile have no names: they were recorded in stripped files",
    )
    .with_hint("to name them by the debug file of that build: sediment resolve PROFILE --debug FILE")
}

/// Returns the functions of a DSO that objects define, in the order in which a linker without an ordering file places
/// them, and the defined functions without a DSO. If some objects do not list their functions, all others of the DSO
/// follow.
fn select_of_objects(
    profile: &Profile,
    objects: &InputObjects,
    label: Option<&str>,
    skipped: &mut Skipped,
) -> Result<Vec<GraphNode>> {
    let functions = profile.functions();
    let cluster = || functions.iter().map(|function| profile.key(*function));
    let ours = cluster().filter(|key| key.dso.as_deref() == label);
    let finder = Finder::new(&objects.functions, ours.map(|key| key.name.as_str()));
    let mut found: Vec<(Option<&ObjectFunction>, GraphNode)> = Vec::new();
    for &function in &functions {
        let key = profile.key(function);
        let in_cluster = key.dso.as_deref() == label;
        if !in_cluster && key.dso.is_some() {
            continue;
        }
        let there = finder.find(&key.name, key.file.as_deref()).first().copied();
        // A function of another program matches only by its exact name.
        let there = there.filter(|there| in_cluster || there.name == key.name);
        if there.is_none() && (objects.complete() || !in_cluster) {
            if in_cluster {
                skipped.add(Reason::NotInInputs, 0, &key.name);
            }
            continue;
        }
        let sizes = there.map(|there| there.size).into_iter().chain(profile.facts(function).size);
        let size = sizes.into_iter().find(|size| *size > 0).unwrap_or(UNKNOWN_SIZE);
        let fixed = there.is_some_and(|there| objects.fixed.contains(&(there.path, there.place)));
        found.push((there, GraphNode { function, aliases: Vec::new(), size, address: None, fixed }));
    }
    if found.is_empty() {
        return Err(Error::new(
            ErrorCode::WrongBinary,
            "none of the functions in the profile is linked: it is a profile of another program or version",
        )
        .with_hint(format!("the profile has functions of: {}", held(profile))));
    }
    // Functions come in the order of their keys; a stable sort keeps this order among names of the same place.
    found.sort_by_key(|(there, _)| (there.is_none(), there.map(ObjectFunction::unordered_place)));
    let mut names_at: HashMap<(usize, (usize, u64)), usize> = HashMap::new();
    for function in &objects.functions {
        *names_at.entry((function.path, function.place)).or_default() += 1;
    }
    found.dedup_by(|(there, node), (before, kept)| {
        let place = |function: &ObjectFunction| (function.path, function.place);
        let is_alias = there.is_some_and(|there| {
            before.is_some_and(|before| place(before) == place(there))
                && names_at[&place(there)] <= Binary::MOST_NAMES
        });
        if is_alias {
            kept.aliases.push(node.function);
        }
        is_alias
    });
    Ok(found.into_iter().map(|(_, node)| node).collect())
}

/// Returns the functions of the binary's DSO that exist in the binary, by address, and the functions without a DSO that
/// exist in it. A call into a library that the profiler did not see is recorded without a DSO.
fn select_of_binary(
    profile: &Profile,
    binary: &Binary,
    file_name: &str,
    skipped: &mut Skipped,
) -> Result<Vec<GraphNode>> {
    let label = identity::dso_of(profile, binary, file_name).map(|found| found.label);
    let by_name = by_name(binary);
    let functions = profile.functions();
    let cluster = || functions.iter().map(|function| profile.key(*function)).filter(|key| key.dso == label);
    let finder = Finder::new(&binary.functions, cluster().map(|key| key.name.as_str()));
    let mut found: Vec<(u64, GraphNode)> = Vec::new();
    for &function in &functions {
        let key = profile.key(function);
        let in_cluster = key.dso.is_some() && key.dso == label;
        if !in_cluster && key.dso.is_some() {
            continue;
        }
        let there = match by_name.get(key.name.as_str()) {
            Some(candidates) => same_function(key, candidates),
            None if in_cluster => finder.find_clones(&key.name).first().copied(),
            None => None,
        };
        match there {
            Some(there) => {
                let size = [Some(there.size), profile.facts(function).size]
                    .into_iter()
                    .flatten()
                    .find(|size| *size > 0);
                let size = size.unwrap_or(UNKNOWN_SIZE);
                let address = Some(there.address);
                let fixed = binary.is_fixed(there.address);
                found
                    .push((there.address, GraphNode { function, aliases: Vec::new(), size, address, fixed }));
            }
            None if in_cluster => skipped.add(Reason::NotInBinary, 0, &key.name),
            None => {}
        }
    }
    if found.is_empty() {
        let is_nameless = |function: &FunctionIndex| profile.is_nameless(*function);
        if functions.iter().filter(|function| profile.key(**function).dso == label).any(is_nameless) {
            return Err(without_names());
        }
        if binary.symbols_from == SymbolSource::DynamicSymbols {
            return Err(Error::new(
                ErrorCode::Stripped,
                format!(
                    "no function of the profile is in {file_name}: it is stripped to its exported functions"
                ),
            )
            .with_hint("give the unstripped program"));
        }
        return Err(Error::new(
            ErrorCode::WrongBinary,
            format!("no function of the profile is in {file_name}: it is a profile of another program"),
        )
        .with_hint(format!("the profile has functions of: {}", held(profile))));
    }
    // Functions come in the order of their keys; a stable sort keeps this order among aliases of the same address.
    found.sort_by_key(|(address, _)| *address);
    found.dedup_by(|(address, node), (before, kept)| {
        let is_alias = address == before && binary.names_at(*address) <= Binary::MOST_NAMES;
        if is_alias {
            kept.aliases.push(node.function);
        }
        is_alias
    });
    Ok(found.into_iter().map(|(_, node)| node).collect())
}

fn by_name(binary: &Binary) -> HashMap<&str, Vec<&BinaryFunction>> {
    let mut by_name: HashMap<&str, Vec<&BinaryFunction>> = HashMap::new();
    for function in &binary.functions {
        by_name.entry(function.name.as_str()).or_default().push(function);
    }
    by_name
}

/// Chooses, from a binary's functions of one name, the one that the key refers to.
fn same_function<'a>(key: &FunctionKey, candidates: &[&'a BinaryFunction]) -> Option<&'a BinaryFunction> {
    let exact = candidates.iter().find(|candidate| key.file.is_some() && candidate.file == key.file);
    // Another file's local function of the same name is another function.
    let other_file = |candidate: &BinaryFunction| {
        key.file.is_some() && candidate.file.is_some() && candidate.file != key.file
    };
    exact.or_else(|| candidates.iter().find(|candidate| !other_file(candidate))).copied()
}

/// Collects for each function of a table its distinct 4-byte windows (shingles) as integers, in ascending order. A
/// function that is not among the bytes of this binary's file has none; only the first 64 KiB of a function count.
#[must_use]
pub fn code_shingles(table: &FunctionTable, binary: &Binary, file: &[u8]) -> Vec<Vec<u64>> {
    const MOST: u64 = 1 << 16;
    let by_name = by_name(binary);
    let bytes_of = |key: &FunctionKey| {
        let function = same_function(key, by_name.get(key.name.as_str())?)?;
        let start = usize::try_from(binary.file_offset_of_address(function.address)?).ok()?;
        file.get(start..start.checked_add(function.size.min(MOST) as usize)?)
    };
    let pieces = |bytes: &[u8]| {
        let mut pieces: Vec<u64> = bytes
            .windows(4)
            .map(|piece| piece.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            .collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    };
    table.keys.iter().map(|key| bytes_of(key).map(pieces).unwrap_or_default()).collect()
}

/// Lists the programs and libraries of a profile, for a message.
pub(crate) fn held(profile: &Profile) -> String {
    const MOST_NAMED: usize = 12;
    let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    match labels.len() {
        0 => "no named program or library".to_owned(),
        count if count > MOST_NAMED => {
            format!("{} and {} more", labels[..MOST_NAMED].join(", "), count - MOST_NAMED)
        }
        _ => labels.join(", "),
    }
}
