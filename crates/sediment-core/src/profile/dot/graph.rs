// SPDX-License-Identifier: MIT OR Apache-2.0
//! A digraph as read from a file: nodes, edges and clusters, each with the attributes of profiles.

use super::line_of;
use super::vocabulary::{Edges, Graphs, Nodes};
use crate::error::Error;
use crate::profile::push;
use std::borrow::Cow;

/// Text of an attribute with its offset in the file.
#[derive(Debug, Clone)]
pub(in crate::profile) struct DotValue<'a> {
    pub(in crate::profile) text: Cow<'a, [u8]>,
    /// True for HTML, in which a backslash is drawn as a backslash.
    pub(in crate::profile) html: bool,
    pub(in crate::profile) offset: u32,
}

/// Index of an object's attribute in the table of values; [`NONE`] without this attribute.
pub(super) type Slot = u32;
pub(super) const NONE: u32 = u32::MAX;

/// Slots of all objects of one kind. Most objects have no attributes of their own, and share the slots of the current
/// defaults.
#[derive(Debug)]
pub(super) struct Slots<const N: usize>(Vec<[Slot; N]>);

/// Index of an object's entry in [`Slots`], and whether the entry belongs to it alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotsOf(u32);

impl SlotsOf {
    pub(super) const NOTHING: Self = Self(0);
    const OWN: u32 = 1 << 31;

    fn place(self) -> usize {
        (self.0 & !Self::OWN) as usize
    }
}

impl<const N: usize> Slots<N> {
    pub(super) fn new() -> Self {
        Self(vec![[NONE; N]])
    }

    /// Makes shared slots: another object's, overwritten by the given ones.
    pub(super) fn merged(&mut self, of: SlotsOf, by: &[Slot; N]) -> SlotsOf {
        let of = SlotsOf(of.0 & !SlotsOf::OWN);
        if by.iter().all(|slot| *slot == NONE) {
            return of;
        }
        let mut slots = self.0[of.place()];
        for (slot, by) in slots.iter_mut().zip(by) {
            if *by != NONE {
                *slot = *by;
            }
        }
        self.shared(slots)
    }

    /// Makes shared slots.
    pub(super) fn shared(&mut self, slots: [Slot; N]) -> SlotsOf {
        push(&mut self.0, slots);
        SlotsOf(self.0.len() as u32 - 1)
    }

    /// Overwrites an object's slots by the given ones.
    pub(super) fn overwrite(&mut self, of: &mut SlotsOf, by: &[Slot; N]) {
        if of.0 & SlotsOf::OWN == 0 {
            let merged = self.merged(*of, by);
            if merged.0 != of.0 {
                *of = SlotsOf(merged.0 | SlotsOf::OWN);
            }
            return;
        }
        for (slot, by) in self.0[of.place()].iter_mut().zip(by) {
            if *by != NONE {
                *slot = *by;
            }
        }
    }

    pub(super) fn of(&self, of: SlotsOf) -> &[Slot; N] {
        &self.0[of.place()]
    }
}

#[derive(Debug)]
pub(in crate::profile) struct DotNode<'a> {
    pub(in crate::profile) id: Cow<'a, [u8]>,
    /// Offset of its first mention.
    pub(in crate::profile) offset: u32,
    pub(super) slots: SlotsOf,
    pub(super) cluster: u32,
}

#[derive(Debug)]
pub(in crate::profile) struct DotEdge {
    pub(in crate::profile) tail: u32,
    pub(in crate::profile) head: u32,
    pub(in crate::profile) offset: u32,
    pub(super) slots: SlotsOf,
}

/// The parts of a digraph that a profile needs.
#[derive(Debug)]
pub(in crate::profile) struct DotGraph<'a> {
    pub(super) bytes: &'a [u8],
    pub(in crate::profile) nodes: Vec<DotNode<'a>>,
    pub(in crate::profile) edges: Vec<DotEdge>,
    pub(super) values: Vec<DotValue<'a>>,
    pub(super) node_slots: Slots<{ Nodes::COUNT }>,
    pub(super) edge_slots: Slots<{ Edges::COUNT }>,
    pub(super) attributes: [Slot; Graphs::COUNT],
    pub(super) subgraphs: Vec<DotSubgraph>,
    /// Number of attributes, in objects and defaults, that profiles do not have; and the name of the first.
    pub(in crate::profile) foreign: u64,
    pub(in crate::profile) first_foreign: Cow<'a, [u8]>,
    /// Number of times that each profile attribute was given.
    pub(in crate::profile) given_to_nodes: [u64; Nodes::COUNT],
    pub(in crate::profile) given_to_edges: [u64; Edges::COUNT],
    pub(in crate::profile) given_to_graphs: [u64; Graphs::COUNT],
}

#[derive(Debug)]
pub(super) struct DotSubgraph {
    pub(super) parent: u32,
    pub(super) cluster: bool,
    pub(super) slots: [Slot; Graphs::OF_CLUSTERS],
    /// Its own defaults, for when it is reopened.
    pub(super) own: u32,
    /// Ranges of its part of the listing when it was last open, and before.
    pub(super) span: (u32, u32),
    pub(super) earlier: Vec<(u32, u32)>,
}

impl<'a> DotGraph<'a> {
    /// Returns an attribute of a node. An empty text counts as missing, as in Graphviz, except in the attributes that
    /// identify a function.
    pub(in crate::profile) fn of_node(&self, node: &DotNode<'a>, attribute: Nodes) -> Option<&DotValue<'a>> {
        self.values.get(self.node_slots.of(node.slots)[attribute as usize] as usize)
    }

    pub(in crate::profile) fn of_edge(&self, edge: &DotEdge, attribute: Edges) -> Option<&DotValue<'a>> {
        self.values.get(self.edge_slots.of(edge.slots)[attribute as usize] as usize)
    }

    pub(in crate::profile) fn of_graph(&self, attribute: Graphs) -> Option<&DotValue<'a>> {
        self.values.get(self.attributes[attribute as usize] as usize)
    }

    /// Returns the number of the labelled cluster that a node belongs to.
    pub(in crate::profile) fn cluster_of(&self, node: &DotNode<'a>) -> Option<u32> {
        (node.cluster != NONE).then_some(node.cluster)
    }

    /// Returns the numbers of the clusters with a label, in the order in which they were first opened.
    pub(in crate::profile) fn clusters(&self) -> impl Iterator<Item = u32> {
        let labelled =
            |subgraph: &DotSubgraph| subgraph.cluster && subgraph.slots[Graphs::Label as usize] != NONE;
        (0..self.subgraphs.len() as u32).filter(move |number| labelled(&self.subgraphs[*number as usize]))
    }

    pub(in crate::profile) fn of_cluster(&self, cluster: u32, attribute: Graphs) -> Option<&DotValue<'a>> {
        let slots = &self.subgraphs[cluster as usize].slots;
        slots.get(attribute as usize).and_then(|slot| self.values.get(*slot as usize))
    }

    /// Returns a name, with its line, as the example of a skipped item. Only the first example of a kind is shown, so
    /// the line is counted only for it.
    pub(in crate::profile) fn lost_name(&self, name: &[u8], offset: u32, known: u64) -> String {
        let name = String::from_utf8_lossy(&name[..name.len().min(200)]);
        if known > 0 {
            name.into_owned()
        } else {
            format!("{name} in line {}", line_of(self.bytes, offset as usize))
        }
    }

    /// Makes an error at the line of `offset`.
    pub(in crate::profile) fn error(&self, offset: u32, message: impl Into<String>) -> Error {
        Error::at_line(line_of(self.bytes, offset as usize), message)
    }
}

impl DotGraph<'_> {
    /// Assigns each node to a cluster: the first one that lists it, and recursively the first inside that one that
    /// does. If that cluster has no label, the nearest enclosing one with a label counts.
    ///
    /// `listing` has every node named in a subgraph, with the innermost subgraph.
    pub(super) fn settle_clusters(&mut self, listing: &[(u32, u32)]) {
        let around = self.nearest(|subgraph| subgraph.cluster);
        let labelled =
            self.nearest(|subgraph| subgraph.cluster && subgraph.slots[Graphs::Label as usize] != NONE);
        let count = self.subgraphs.len();
        let visits = self.visits();
        let mut by_visit: Vec<(u32, u32)> = listing
            .iter()
            .filter(|(_, subgraph)| around[*subgraph as usize] != NONE)
            .map(|(node, subgraph)| (visits[*subgraph as usize].0, *node))
            .collect();
        by_visit.sort_unstable();
        let mut by_entry = vec![0u32; count];
        for (number, (entered, _)) in visits.iter().enumerate() {
            by_entry[*entered as usize] = number as u32;
        }
        for (entered, node) in by_visit {
            let cluster = around[by_entry[entered as usize] as usize];
            let settled = &mut self.nodes[node as usize].cluster;
            let deeper = *settled != NONE && {
                let (from, to) = visits[*settled as usize];
                (from..to).contains(&visits[cluster as usize].0)
            };
            if *settled == NONE || deeper {
                *settled = cluster;
            }
        }
        for node in self.nodes.iter_mut().filter(|node| node.cluster != NONE) {
            node.cluster = labelled[node.cluster as usize];
        }
    }

    /// For each subgraph, returns itself or the nearest enclosing one that satisfies the predicate; [`NONE`] without
    /// one.
    fn nearest(&self, is_so: impl Fn(&DotSubgraph) -> bool) -> Vec<u32> {
        let mut nearest = Vec::with_capacity(self.subgraphs.len());
        // A subgraph comes after its enclosing one.
        for (number, subgraph) in self.subgraphs.iter().enumerate() {
            nearest.push(match subgraph.parent {
                _ if is_so(subgraph) => number as u32,
                NONE => NONE,
                parent => nearest[parent as usize],
            });
        }
        nearest
    }

    /// Number of the visit at which each subgraph is entered and left, if each is visited before its inner ones and
    /// these in the order of the text.
    fn visits(&self) -> Vec<(u32, u32)> {
        let count = self.subgraphs.len();
        let mut sizes = vec![1u32; count];
        for number in (0..count).rev() {
            let parent = self.subgraphs[number].parent;
            if parent != NONE {
                sizes[parent as usize] += sizes[number];
            }
        }
        let mut next_in = vec![0u32; count];
        let mut next = 0;
        let mut visits = Vec::with_capacity(count);
        for number in 0..count {
            let place = match self.subgraphs[number].parent {
                NONE => &mut next,
                parent => &mut next_in[parent as usize],
            };
            let entered = *place;
            *place += sizes[number];
            next_in[number] = entered + 1;
            visits.push((entered, entered + sizes[number]));
        }
        visits
    }
}
