// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ProfileRow`]: a profile as rows of a table, and [`Assembly`]: a profile made from sums of such rows.
//!
//! Each row is a subject (kind, functions, detail) with a weight in shares. To merge profiles, a query engine adds the
//! weights of equal subjects and takes the lowest `first`; it needs only integers. Data that cannot be added (sizes,
//! compilers' classifications, build-ids) is part of the subject. [`Assembly`] makes the profile of these sums. So for
//! profiles `a` and `b` of shares
//!
//! ```text
//! assembly of (rows of a and b, grouped) = merge of a and b
//! ```
//!
//! Counters of instrumentation have no rows, because they are not single integers.

use super::blocks::{BlockCounts, BlockUnit, GraphCounts};
use super::quality::RecordingQuality;
use super::text::words::{BLOCK_UNITS, HEATS, KINDS, Spellings, spelling, value};
use super::{DsoFacts, EdgeFacts, FunctionFacts, FunctionIndex, Millionths, Profile, WeightUnit};
use crate::error::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Kind of a row's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKind {
    /// All calls of the recordings; no functions.
    Total,
    /// Number of recordings; no functions.
    Inputs,
    /// A recorder; its name is the detail.
    Source,
    /// A machine architecture, in the detail.
    Arch,
    /// A share of the calls that the recordings have, in the detail.
    Quality,
    /// A DSO: its label, build-id and package are the detail.
    Library,
    /// A function; its weight is samples.
    Function,
    /// Calls between two functions.
    Call,
    /// Temporal affinity of two functions.
    Near,
    /// Total of all counts of blocks; the detail is their unit.
    BlocksTotal,
    /// The graph of a function's blocks; its weight is the number of recordings that have it.
    Graph,
    /// A block of a graph.
    Block,
    /// A block without a known count; its weight is the number of such recordings.
    UnknownBlock,
    /// The signature of a block.
    Signature,
}

impl RowKind {
    /// Each kind with its spelling in tables.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::Total, "total"),
        (Self::Inputs, "inputs"),
        (Self::Source, "source"),
        (Self::Arch, "arch"),
        (Self::Quality, "quality"),
        (Self::Library, "library"),
        (Self::Function, "function"),
        (Self::Call, "call"),
        (Self::Near, "near"),
        (Self::BlocksTotal, "blocks-total"),
        (Self::Graph, "graph"),
        (Self::Block, "block"),
        (Self::UnknownBlock, "unknown-block"),
        (Self::Signature, "signature"),
    ];

    /// Spelling in tables.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, text)| text)
    }

    /// Returns the kind with this spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == text).map(|(kind, _)| *kind)
    }

    /// True for counts inside functions, which have ten to twenty times as many rows as all other kinds.
    #[must_use]
    pub fn is_of_blocks(self) -> bool {
        self >= Self::BlocksTotal
    }
}

/// A row of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileRow {
    /// Kind of the subject.
    pub kind: RowKind,
    /// The function, or the caller.
    pub function: Option<FunctionIndex>,
    /// The callee of a call or an affinity edge.
    pub callee: Option<FunctionIndex>,
    /// Further parts of the subject; empty for most calls.
    pub detail: String,
    /// Shares, or a number of recordings; `None` if nothing was counted.
    pub weight: Option<u128>,
    /// Rank of first use of a function.
    pub first: Option<u64>,
}

/// Returns the rows of a profile of shares, as made by [`merge`](super::merge::merge).
#[must_use]
pub fn rows(profile: &Profile) -> Vec<ProfileRow> {
    let mut rows = Vec::with_capacity(8 + profile.function_count() + profile.edge_count());
    let mut add = |kind, function, callee, detail, weight, first| {
        rows.push(ProfileRow { kind, function, callee, detail, weight, first });
    };
    add(RowKind::Total, None, None, String::new(), Some(profile.total), None);
    let inputs = u128::from(profile.inputs.unwrap_or(1));
    add(RowKind::Inputs, None, None, String::new(), Some(inputs), None);
    for (kind, list) in [(RowKind::Source, &profile.source), (RowKind::Arch, &profile.arch)] {
        for entry in list {
            add(kind, None, None, entry.clone(), None, None);
        }
    }
    for (name, share) in [("covered", profile.quality.covered), ("uncertain", profile.quality.uncertain)] {
        if let Some(Millionths(share)) = share {
            add(RowKind::Quality, None, None, format!("{name}={share}"), None, None);
        }
    }
    for (label, facts) in &profile.dsos {
        add(RowKind::Library, None, None, detail_of_library(label, facts), None, None);
    }
    if profile.blocks_total > 0 {
        let unit = spelling(&BLOCK_UNITS, profile.blocks_unit).to_owned();
        add(RowKind::BlocksTotal, None, None, unit, Some(profile.blocks_total), None);
    }
    for index in (0..profile.keys.len() as u32).map(FunctionIndex) {
        let facts = profile.facts(index);
        add(RowKind::Function, Some(index), None, detail_of_function(facts), facts.samples, facts.first);
        for (hash, graph) in facts.blocks.iter().flat_map(|blocks| blocks.graphs()) {
            let mut of = |kind, detail, weight| add(kind, Some(index), None, detail, weight, None);
            of(RowKind::Graph, format!("{hash:08x}"), Some(1));
            for (block, count) in &graph.seen {
                of(RowKind::Block, format!("{hash:08x}:{block}"), Some(*count));
            }
            for block in &graph.unknown {
                of(RowKind::UnknownBlock, format!("{hash:08x}:{block}"), Some(1));
            }
            for (block, signature) in &graph.signatures {
                of(RowKind::Signature, format!("{hash:08x}:{block}@{signature:04x}"), None);
            }
        }
    }
    for edge in &profile.edges {
        let (facts, ends) = (edge.facts(), (Some(edge.caller), Some(edge.callee)));
        let detail = detail_of_call(facts);
        if facts.count.is_some() || facts.affinity.is_none() || !detail.is_empty() {
            add(RowKind::Call, ends.0, ends.1, detail, facts.count, None);
        }
        if facts.affinity.is_some() {
            add(RowKind::Near, ends.0, ends.1, String::new(), facts.affinity, None);
        }
    }
    rows
}

/// Appends an item `name=value`. Only the value of the last item may contain blanks.
fn item(detail: &mut String, name: &str, value: impl std::fmt::Display) {
    if !detail.is_empty() {
        detail.push(' ');
    }
    detail.push_str(name);
    detail.push('=');
    // Writing to a string cannot fail.
    let _ = write!(detail, "{value}");
}

fn detail_of_library(label: &str, facts: &DsoFacts) -> String {
    let mut detail = String::new();
    if let Some(id) = &facts.build_id {
        item(&mut detail, "build_id", id);
    }
    if facts.unresolved {
        item(&mut detail, "unresolved", 1);
    }
    // A label contains no control characters, so a tab can end the package's name, which may contain blanks.
    item(&mut detail, "package", format_args!("{}\t{label}", facts.package.as_deref().unwrap_or("")));
    detail
}

fn detail_of_function(facts: &FunctionFacts) -> String {
    let mut detail = String::new();
    if let Some(size) = facts.size {
        item(&mut detail, "size", size);
    }
    if let Some(Millionths(calls)) = facts.static_calls {
        item(&mut detail, "static", calls);
    }
    if let Some(heat) = facts.heat {
        item(&mut detail, "heat", spelling(&HEATS, heat));
    }
    for (name, is_so) in [("taken", facts.taken), ("entry", facts.entry)] {
        if is_so {
            item(&mut detail, name, 1);
        }
    }
    if let Some(alias) = &facts.alias {
        item(&mut detail, "alias", alias);
    }
    detail
}

fn detail_of_call(facts: &EdgeFacts) -> String {
    let mut detail = String::new();
    if let Some(kind) = facts.kind {
        item(&mut detail, "kind", spelling(&KINDS, kind));
    }
    if let Some(Millionths(calls)) = facts.static_calls {
        item(&mut detail, "static", calls);
    }
    detail
}

/// Makes a profile from rows, each subject once or several times.
#[derive(Debug)]
pub struct Assembly {
    profile: Profile,
    libraries: BTreeMap<String, DsoFacts>,
    graphs: BTreeMap<(FunctionIndex, u32), GraphSums>,
}

/// Sums for one graph of blocks.
#[derive(Debug, Default)]
struct GraphSums {
    recordings: u128,
    seen: Vec<(u32, u128)>,
    unknown: BTreeMap<u32, u128>,
    signatures: Vec<(u32, u16)>,
}

impl Default for Assembly {
    fn default() -> Self {
        let profile = Profile { unit: WeightUnit::Share, inputs: Some(0), ..Profile::default() };
        Self { profile, libraries: BTreeMap::new(), graphs: BTreeMap::new() }
    }
}

impl Assembly {
    /// Returns the profile so far, to add functions that rows refer to.
    pub fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }

    /// Adds a row whose functions belong to [`Self::profile`].
    ///
    /// # Errors
    /// If a sum exceeds 128 bits, if a detail is invalid for its kind, or if merging the profiles would fail.
    pub fn add(&mut self, row: &ProfileRow) -> Result<()> {
        let ProfileRow { kind, detail, weight, .. } = row;
        let broken =
            || Error::new(ErrorCode::Damaged, format!("not a row of a profile: {} {detail:?}", kind.text()));
        let ends = || row.function.zip(row.callee).ok_or_else(broken);
        let number = weight.unwrap_or(0);
        match kind {
            RowKind::Total => self.profile.total = sum(self.profile.total, number)?,
            RowKind::Inputs => {
                let number = u64::try_from(number).map_err(|_| too_large())?;
                let inputs = self.profile.inputs.unwrap_or(0).checked_add(number);
                self.profile.inputs = Some(inputs.ok_or_else(too_large)?);
            }
            RowKind::Source => {
                self.profile.source.insert(accepted(detail).ok_or_else(broken)?);
            }
            RowKind::Arch => {
                self.profile.arch.insert(accepted(detail).ok_or_else(broken)?);
            }
            RowKind::Quality => self.profile.quality.append(&quality(detail).ok_or_else(broken)?),
            RowKind::Library => {
                let (label, facts) = library(detail).ok_or_else(broken)?;
                match self.libraries.get_mut(&label) {
                    Some(known) => known.keep_agreed(&label, &facts)?,
                    None => drop(self.libraries.insert(label, facts)),
                }
            }
            RowKind::Function => {
                let mut facts = function(detail).ok_or_else(broken)?;
                (facts.samples, facts.first) = (*weight, row.first);
                let function = row.function.ok_or_else(broken)?;
                self.profile.facts_mut(function).absorb(&facts).ok_or_else(too_large)?;
            }
            RowKind::Call => {
                let (caller, callee) = ends()?;
                let facts = EdgeFacts { count: *weight, ..call(detail).ok_or_else(broken)? };
                self.profile.edge_mut(caller, callee).absorb(&facts).ok_or_else(too_large)?;
            }
            RowKind::Near => {
                let (caller, callee) = ends()?;
                let facts = EdgeFacts { affinity: *weight, ..EdgeFacts::default() };
                self.profile.edge_mut(caller, callee).absorb(&facts).ok_or_else(too_large)?;
            }
            RowKind::BlocksTotal => {
                let unit: BlockUnit = word(&BLOCK_UNITS, detail).ok_or_else(broken)?;
                if self.profile.blocks_total > 0 && self.profile.blocks_unit != unit {
                    return Err(super::merge::different_units());
                }
                self.profile.blocks_unit = unit;
                self.profile.blocks_total = sum(self.profile.blocks_total, number)?;
            }
            RowKind::Graph | RowKind::Block | RowKind::UnknownBlock | RowKind::Signature => {
                let function = row.function.ok_or_else(broken)?;
                self.add_block(*kind, function, detail, number)?.ok_or_else(broken)?;
            }
        }
        Ok(())
    }

    /// Adds a row of a graph; `None` if the detail is invalid for its kind.
    fn add_block(
        &mut self,
        kind: RowKind,
        function: FunctionIndex,
        detail: &str,
        weight: u128,
    ) -> Result<Option<()>> {
        let (hash, rest) = detail.split_once(':').unwrap_or((detail, ""));
        let Ok(hash) = u32::from_str_radix(hash, 16) else { return Ok(None) };
        let graph = self.graphs.entry((function, hash)).or_default();
        if kind == RowKind::Graph {
            graph.recordings = sum(graph.recordings, weight)?;
            return Ok(Some(()));
        }
        let (block, signature) = rest.split_once('@').unwrap_or((rest, ""));
        let Ok(block) = block.parse() else { return Ok(None) };
        match kind {
            RowKind::Block => graph.seen.push((block, weight)),
            RowKind::UnknownBlock => {
                let recordings = graph.unknown.entry(block).or_default();
                *recordings = sum(*recordings, weight)?;
            }
            _ => match u16::from_str_radix(signature, 16) {
                Ok(signature) => graph.signatures.push((block, signature)),
                Err(_) => return Ok(None),
            },
        }
        Ok(Some(()))
    }

    /// Returns the profile of all rows.
    ///
    /// # Errors
    /// If a sum exceeds 128 bits.
    pub fn finish(mut self) -> Result<Profile> {
        for (label, facts) in self.libraries {
            self.profile.dsos.insert(label, facts);
        }
        for ((function, hash), graph) in self.graphs {
            // A block is unknown if no recording with its graph knows it.
            let unknown = graph.unknown.into_iter().filter(|(_, recordings)| *recordings == graph.recordings);
            let unknown = unknown.map(|(block, _)| block).collect();
            let counts = GraphCounts { seen: graph.seen, unknown, signatures: graph.signatures };
            let blocks = self.profile.facts_mut(function).blocks.get_or_insert_default();
            BlockCounts::add(blocks, hash, counts).ok_or_else(too_large)?;
        }
        Ok(self.profile)
    }
}

fn sum(a: u128, b: u128) -> Result<u128> {
    a.checked_add(b).ok_or_else(too_large)
}

fn too_large() -> Error {
    super::merge::too_large()
}

/// Returns a text that a profile may contain: rows are untrusted.
fn accepted(text: &str) -> Option<String> {
    super::acceptable(text.as_bytes()).map(str::to_owned)
}

/// Returns the value with this spelling.
fn word<T: Copy, const N: usize>(words: &Spellings<T, N>, text: &str) -> Option<T> {
    value(words, "", text.as_bytes()).ok()
}

fn quality(detail: &str) -> Option<RecordingQuality> {
    let (name, share) = detail.split_once('=')?;
    let share = Some(Millionths(share.parse().ok().filter(|share| *share <= 1_000_000)?));
    match name {
        "covered" => Some(RecordingQuality { covered: share, ..RecordingQuality::default() }),
        "uncertain" => Some(RecordingQuality { uncertain: share, ..RecordingQuality::default() }),
        _ => None,
    }
}

fn library(detail: &str) -> Option<(String, DsoFacts)> {
    let mut facts = DsoFacts::default();
    let mut rest = detail;
    loop {
        if let Some(last) = rest.strip_prefix("package=") {
            let (package, label) = last.split_once('\t')?;
            facts.package = if package.is_empty() { None } else { Some(accepted(package)?) };
            return accepted(label).filter(|label| !label.contains('/')).map(|label| (label, facts));
        }
        let (first, others) = rest.split_once(' ')?;
        match first.split_once('=')? {
            ("build_id", id) if id.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                facts.build_id = Some(id.to_owned());
            }
            ("unresolved", "1") => facts.unresolved = true,
            _ => return None,
        }
        rest = others;
    }
}

fn function(detail: &str) -> Option<FunctionFacts> {
    let mut facts = FunctionFacts::default();
    let mut rest = detail;
    while !rest.is_empty() {
        if let Some(alias) = rest.strip_prefix("alias=") {
            facts.alias = Some(accepted(alias)?);
            break;
        }
        let (first, others) = rest.split_once(' ').unwrap_or((rest, ""));
        match first.split_once('=')? {
            ("size", size) => facts.size = Some(size.parse().ok()?),
            ("static", calls) => facts.static_calls = Some(Millionths(calls.parse().ok()?)),
            ("heat", heat) => facts.heat = Some(word(&HEATS, heat)?),
            ("taken", "1") => facts.taken = true,
            ("entry", "1") => facts.entry = true,
            _ => return None,
        }
        rest = others;
    }
    Some(facts)
}

fn call(detail: &str) -> Option<EdgeFacts> {
    let mut facts = EdgeFacts::default();
    for item in detail.split(' ').filter(|item| !item.is_empty()) {
        match item.split_once('=')? {
            ("kind", kind) => facts.kind = Some(word(&KINDS, kind)?),
            ("static", calls) => facts.static_calls = Some(Millionths(calls.parse().ok()?)),
            _ => return None,
        }
    }
    Some(facts)
}
