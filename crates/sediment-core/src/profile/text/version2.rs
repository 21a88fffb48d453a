// SPDX-License-Identifier: MIT OR Apache-2.0
//! Versions 2 and 3: identity and weights are attributes, and an id is never parsed.

use super::{LIST_SEPARATOR, accepted, base_name, words};
use crate::error::{Error, Result};
use crate::profile::arithmetic::{NumberFault, decimal, integer, scaled};
use crate::profile::blocks::BlockCounts;
use crate::profile::counters::ArcCounters;
use crate::profile::dot::{DotEdge, DotGraph, DotNode, DotValue, Edges, Graphs, Nodes};
use crate::profile::quality::RecordingQuality;
use crate::profile::{
    EdgeFacts, FunctionFacts, FunctionIndex, FunctionKey, Millionths, Profile, WeightUnit, acceptable,
};
use crate::skipped::{Reason, Skipped};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// Number of decimals of a `static` estimate.
const DECIMALS: i64 = 6;
/// Number of decimals of a share in a label, whose unit is 10^-15.
const SHARE_DECIMALS: i64 = 15;
const SHARE: u128 = crate::profile::SHARE_TOTAL;

pub(super) fn read(graph: &DotGraph) -> Result<(Profile, Skipped)> {
    let mut skipped = Skipped::default();
    skipped.add_many(Reason::ForeignAttribute, graph.foreign, 0, &graph.first_foreign);
    let reader = Version2Reader { graph };
    let mut profile = reader.header(&mut skipped)?;
    reader.clusters(&mut profile, &mut skipped)?;
    let functions = reader.nodes(&mut profile, &mut skipped)?;
    reader.edges(&functions, &mut profile, &mut skipped)?;
    Ok((profile, skipped))
}

/// Error for an edge without a weight if other edges have one.
pub(super) fn without_weight(graph: &DotGraph, edge: &DotEdge) -> Error {
    let name = |node: u32| {
        let id = &graph.nodes[node as usize].id;
        String::from_utf8_lossy(&id[..id.len().min(4 * 60)]).chars().take(60).collect::<String>()
    };
    let (tail, head) = (name(edge.tail), name(edge.head));
    graph
        .error(edge.offset, format!("the edge from `{tail}` to `{head}` has no weight, unlike other edges"))
        .with_hint("add a `label`, `count`, `near` or `static`, or remove the edge")
}

struct Version2Reader<'g, 'a> {
    graph: &'g DotGraph<'a>,
}

impl Version2Reader<'_, '_> {
    fn fault(&self, value: &DotValue, message: &str) -> Error {
        let error = self.graph.error(value.offset, message);
        if value.text.is_empty() { error } else { error.with_found(&value.text) }
    }

    fn integer(&self, value: Option<&DotValue>, name: &str) -> Result<Option<u128>> {
        let Some(value) = value else { return Ok(None) };
        let fault = |fault: NumberFault| self.fault(value, &format!("`{name}` {}", fault.message()));
        integer(&value.text).map(Some).map_err(fault)
    }

    fn small_integer(&self, value: Option<&DotValue>, name: &str) -> Result<Option<u64>> {
        let number = self.integer(value, name)?;
        match (number.map(u64::try_from), value) {
            (None, _) => Ok(None),
            (Some(Ok(number)), _) => Ok(Some(number)),
            (Some(Err(_)), Some(value)) => Err(self.fault(value, &format!("`{name}` is too large"))),
            (Some(Err(_)), None) => Ok(None),
        }
    }

    /// Reads a number in the profile's unit.
    fn amount(&self, value: Option<&DotValue>, name: &str, unit: WeightUnit) -> Result<Option<u128>> {
        let number = self.integer(value, name)?;
        match (number, value) {
            (Some(_), Some(value)) if !unit.holds([number]) => {
                Err(self.fault(value, &format!("`{name}` is {}", unit.beyond())))
            }
            _ => Ok(number),
        }
    }

    fn estimate(&self, value: Option<&DotValue>) -> Result<Option<Millionths>> {
        self.decimal(value, "static")
    }

    fn decimal(&self, value: Option<&DotValue>, name: &str) -> Result<Option<Millionths>> {
        let Some(value) = value else { return Ok(None) };
        let fault = |fault: NumberFault| self.fault(value, &format!("`{name}` {}", fault.message()));
        decimal(&value.text, DECIMALS).map(|number| Some(Millionths(number))).map_err(fault)
    }

    /// Reads a number from 0 to 1.
    fn quality(&self, value: Option<&DotValue>, name: &str) -> Result<Option<Millionths>> {
        let share = self.decimal(value, name)?;
        match value {
            Some(value) if share > Some(Millionths(1_000_000)) => {
                Err(self.fault(value, &format!("`{name}` is above 1")))
            }
            _ => Ok(share),
        }
    }

    fn blocks(&self, value: Option<&DotValue>) -> Result<Option<Box<BlockCounts>>> {
        let Some(value) = value.filter(|value| !value.text.is_empty()) else { return Ok(None) };
        BlockCounts::parse(&value.text)
            .map(|blocks| Some(Box::new(blocks)))
            .map_err(|what| self.fault(value, &what))
    }

    fn counters(&self, value: Option<&DotValue>) -> Result<Option<Box<ArcCounters>>> {
        let Some(value) = value.filter(|value| !value.text.is_empty()) else { return Ok(None) };
        ArcCounters::parse(&value.text)
            .map(|counters| Some(Box::new(counters)))
            .map_err(|what| self.fault(value, &what))
    }

    fn word<T: Copy, const N: usize>(
        &self,
        value: Option<&DotValue>,
        name: &str,
        words: &words::Spellings<T, N>,
    ) -> Result<Option<T>> {
        let Some(value) = value else { return Ok(None) };
        words::value(words, name, &value.text).map(Some).map_err(|message| self.fault(value, &message))
    }

    fn flag(&self, value: Option<&DotValue>, name: &str) -> Result<bool> {
        match value.map(|value| (&*value.text, value)) {
            None | Some((b"0", _)) => Ok(false),
            Some((b"1", _)) => Ok(true),
            Some((_, value)) => Err(self.fault(value, &format!("`{name}` is neither 0 nor 1"))),
        }
    }

    fn header(&self, skipped: &mut Skipped) -> Result<Profile> {
        let given = |attribute| self.graph.of_graph(attribute);
        // On the graph itself these attributes are a title; clusters inherit them.
        for attribute in [Graphs::Label, Graphs::BuildId, Graphs::Package, Graphs::Unresolved] {
            if given(attribute).is_some() {
                skipped.add(Reason::ForeignAttribute, 0, Graphs::spelling(attribute as usize));
            }
        }
        let mut list = |value: Option<&DotValue>| -> BTreeSet<String> {
            let Some(value) = value else { return BTreeSet::new() };
            match std::str::from_utf8(&value.text) {
                Ok(text) => text
                    .split(LIST_SEPARATOR)
                    .filter_map(|entry| accepted(entry.as_bytes(), skipped))
                    .collect(),
                Err(_) => accepted(&value.text, skipped).into_iter().collect(),
            }
        };
        Ok(Profile {
            source: list(given(Graphs::Source)),
            arch: list(given(Graphs::Arch)),
            unit: self.word(given(Graphs::Unit), "unit", &words::UNITS)?.unwrap_or_default(),
            total: self.integer(given(Graphs::Total), "total")?.unwrap_or(0),
            inputs: self.small_integer(given(Graphs::Inputs), "inputs")?,
            quality: RecordingQuality {
                covered: self.quality(given(Graphs::Covered), "covered")?,
                uncertain: self.quality(given(Graphs::Uncertain), "uncertain")?,
            },
            blocks_unit: self
                .word(given(Graphs::BlocksUnit), "blocks_unit", &words::BLOCK_UNITS)?
                .unwrap_or_default(),
            blocks_total: self.integer(given(Graphs::BlocksTotal), "blocks_total")?.unwrap_or(0),
            counters_total: self.integer(given(Graphs::CountersTotal), "counters_total")?.unwrap_or(0),
            ..Profile::default()
        })
    }

    /// Returns the label of a cluster as drawn.
    fn label(&self, cluster: u32) -> Cow<'_, [u8]> {
        match self.graph.of_cluster(cluster, Graphs::Label) {
            Some(value) if value.html => Cow::Borrowed(base_name(&value.text)),
            Some(value) => undoubled(base_name(&value.text)),
            None => Cow::Borrowed(b""),
        }
    }

    fn clusters(&self, profile: &mut Profile, skipped: &mut Skipped) -> Result<()> {
        for number in self.graph.clusters() {
            let label = self.label(number);
            let Some(dso) = acceptable(&label) else {
                skipped.add(Reason::UnacceptableName, 0, &label);
                continue;
            };
            let cluster = profile.dso_mut(dso);
            let given = |attribute| self.graph.of_cluster(number, attribute);
            if let Some(value) = given(Graphs::BuildId) {
                match build_id(&value.text) {
                    Some(id) => agree(self, &mut cluster.build_id, id, value, "build_id")?,
                    None => skipped.add(Reason::UnacceptableText, 0, &value.text),
                }
            }
            if let Some(value) = given(Graphs::Package) {
                if let Some(package) = accepted(&value.text, skipped) {
                    agree(self, &mut cluster.package, package, value, "package")?;
                }
            }
            let unresolved = given(Graphs::Unresolved);
            cluster.unresolved |= self.flag(unresolved, "unresolved")?;
            if let Some(value) = unresolved.filter(|_| cluster.unresolved && cluster.build_id.is_none()) {
                let message = "a cluster has functions without names, but no `build_id`";
                return Err(self.fault(value, message));
            }
        }
        Ok(())
    }

    fn nodes(&self, profile: &mut Profile, skipped: &mut Skipped) -> Result<Vec<Option<FunctionIndex>>> {
        let labels: HashMap<u32, Cow<[u8]>, RandomState> =
            self.graph.clusters().map(|cluster| (cluster, self.label(cluster))).collect();
        let mut functions = Vec::with_capacity(self.graph.nodes.len());
        profile.reserve_functions(self.graph.nodes.len());
        for node in &self.graph.nodes {
            let given = |attribute| self.graph.of_node(node, attribute);
            let facts = self.facts(node, profile.unit, skipped)?;
            let name = given(Nodes::Name).map_or(&*node.id, |value| &*value.text);
            let file = given(Nodes::File).map(|value| base_name(&value.text));
            let listed = self.graph.cluster_of(node).and_then(|cluster| labels.get(&cluster));
            let dso = match (given(Nodes::Dso), listed) {
                (Some(value), Some(label)) if base_name(&value.text) != &**label => {
                    let message = "`dso` differs from the cluster that lists the function";
                    return Err(self.fault(value, message));
                }
                (Some(value), _) => Some(base_name(&value.text)),
                (None, listed) => listed.map(|label| &**label),
            };
            let Some(key) = FunctionKey::new(dso, name, file) else {
                let example =
                    self.graph.lost_name(name, node.offset, skipped.items(Reason::UnacceptableName));
                skipped.add(Reason::UnacceptableName, facts.samples.unwrap_or(0), &example);
                functions.push(None);
                continue;
            };
            let function = profile.function(key);
            let unit = profile.unit;
            let added = match &mut profile.facts[function.index()] {
                _ if facts == FunctionFacts::NOTHING => Some(()),
                // A single number was checked when it was read.
                unknown @ None => {
                    *unknown = Some(Box::new(facts));
                    Some(())
                }
                Some(sum) => sum.absorb(&facts).filter(|()| unit.holds([sum.samples])),
            };
            added.ok_or_else(|| {
                let message = format!("the `samples` of a function add up to {}", profile.unit.beyond());
                self.graph.error(node.offset, message)
            })?;
            functions.push(Some(function));
        }
        Ok(functions)
    }

    fn facts(&self, node: &DotNode, unit: WeightUnit, skipped: &mut Skipped) -> Result<FunctionFacts> {
        let given = |attribute| self.graph.of_node(node, attribute);
        Ok(FunctionFacts {
            size: self.small_integer(given(Nodes::Size), "size")?,
            samples: self.amount(given(Nodes::Samples), "samples", unit)?,
            first: self.small_integer(given(Nodes::First), "first")?,
            static_calls: self.estimate(given(Nodes::Static))?,
            heat: self.word(given(Nodes::Heat), "heat", &words::HEATS)?,
            alias: given(Nodes::Alias).and_then(|value| accepted(&value.text, skipped)),
            taken: self.flag(given(Nodes::Taken), "taken")?,
            entry: self.flag(given(Nodes::Entry), "entry")?,
            blocks: self.blocks(given(Nodes::Blocks))?,
            counters: self.counters(given(Nodes::Counters))?,
        })
    }

    fn edges(
        &self,
        functions: &[Option<FunctionIndex>],
        profile: &mut Profile,
        skipped: &mut Skipped,
    ) -> Result<()> {
        profile.reserve_edges(self.graph.edges.len());
        let mut bare = None;
        let mut labelled = false;
        let mut weighted = false;
        for edge in &self.graph.edges {
            let label = self.share(edge)?;
            let facts = self.edge_facts(edge, label, profile)?;
            let says_more = facts.count.is_some() || facts.affinity.is_some() || facts.static_calls.is_some();
            weighted |= says_more;
            labelled |= says_more || label.is_some();
            if label.is_none() && !says_more {
                bare = bare.or(Some(edge));
            }
            let (tail, head) = (functions[edge.tail as usize], functions[edge.head as usize]);
            let (Some(caller), Some(callee)) = (tail, head) else {
                let name = &self.graph.nodes[edge.tail as usize].id;
                skipped.add(Reason::EdgeWithoutEnd, facts.count.unwrap_or(0), name);
                continue;
            };
            let unit = profile.unit;
            if facts == EdgeFacts::NOTHING {
                profile.add_edge(caller, callee);
                continue;
            }
            let number = profile.add_edge(caller, callee);
            let added = match &mut profile.edges[number].facts {
                unknown @ None => {
                    let sum = unknown.insert(Box::new(facts));
                    unit.holds([sum.count, sum.affinity]).then_some(())
                }
                Some(sum) => sum.add(&facts).filter(|()| unit.holds([sum.count, sum.affinity])),
            };
            added.ok_or_else(|| {
                self.graph.error(edge.offset, format!("a repeated edge adds up to {}", unit.beyond()))
            })?;
        }
        match (bare, self.graph.edges.first()) {
            (Some(edge), _) if labelled => Err(without_weight(self.graph, edge)),
            (_, Some(first)) if !weighted => {
                let name = &self.graph.nodes[first.tail as usize].id;
                skipped.add_many(Reason::NoWeights, self.graph.edges.len() as u64, 0, name);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the share in an edge's label, in units of 10^-15.
    fn share(&self, edge: &DotEdge) -> Result<Option<u128>> {
        let label = self.graph.of_edge(edge, Edges::Label).filter(|value| !value.text.is_empty());
        let Some(label) = label else { return Ok(None) };
        decimal(&label.text, SHARE_DECIMALS)
            .map(Some)
            .map_err(|fault| self.fault(label, &format!("the label of an edge {}", fault.message())))
    }

    fn edge_facts(&self, edge: &DotEdge, label: Option<u128>, profile: &Profile) -> Result<EdgeFacts> {
        let given = |attribute| self.graph.of_edge(edge, attribute);
        let mut facts = EdgeFacts {
            count: self.amount(given(Edges::Count), "count", profile.unit)?,
            affinity: self.amount(given(Edges::Near), "near", profile.unit)?,
            static_calls: self.estimate(given(Edges::Static))?,
            kind: self.word(given(Edges::Kind), "kind", &words::KINDS)?,
        };
        // `count` takes precedence; the share counts only if somebody deleted `count` by hand.
        if let (None, Some(share @ 1..)) = (facts.count, label) {
            let count = scaled(share, profile.total, SHARE);
            facts.count = Some(
                count.ok_or_else(|| self.graph.error(edge.offset, "the label of an edge is too large"))?,
            );
        }
        let counted = facts.count.is_some_and(|count| count > 0) || label.is_some_and(|share| share > 0);
        if counted && profile.total == 0 {
            return Err(self
                .graph
                .error(edge.offset, "call counts need the graph's `total`, which is missing or 0")
                .with_hint("`total` is the sum of all calls; a label is count / total"));
        }
        Ok(facts)
    }
}

/// Sets data of a DSO; two clusters with one label must agree.
fn agree(
    reader: &Version2Reader,
    known: &mut Option<String>,
    said: String,
    value: &DotValue,
    name: &str,
) -> Result<()> {
    if known.as_ref().is_some_and(|known| *known != said) {
        return Err(reader.fault(value, &format!("two clusters with the same label have different `{name}`")));
    }
    *known = Some(said);
    Ok(())
}

fn build_id(text: &[u8]) -> Option<String> {
    let hex = acceptable(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some(hex.to_ascii_lowercase())
}

/// Returns a drawn text without the escapes of backslashes.
fn undoubled(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(text, b"\\\\").is_none() {
        return Cow::Borrowed(text);
    }
    let mut single = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            bytes.next_if_eq(&b'\\');
        }
        single.push(byte);
    }
    Cow::Owned(single)
}
