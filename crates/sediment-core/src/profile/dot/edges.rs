// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the edges of a statement: one from each node of an end to each node of the next end.
//!
//! If an end is a subgraph or a list, it has all of its nodes. The product can be far larger than the text, so
//! [`Builder::limit`] limits the number of edges, and of entries that are searched for them.

use super::builder::{Builder, DotElement, Piece};
use super::graph::{DotEdge, NONE, Slot, SlotsOf};
use super::vocabulary::Edges;
use crate::error::Result;
use crate::profile::push;
use std::borrow::Cow;

impl<'a> Builder<'a, '_> {
    /// Largest number of edges beyond the first of each arrow, and of searched entries, for a file of this length.
    fn limit(&self) -> u64 {
        self.graph.bytes.len() as u64 / 8 + 65_536
    }

    /// Makes an edge from each node of every end to each node of the next.
    pub(super) fn edges(&mut self, pieces: &[Piece]) -> Result<()> {
        let key = self.take_key();
        let given = self.assigned::<{ Edges::COUNT }>(DotElement::Edge);
        let holding = self.frames.last().map_or(0, |frame| frame.holding);
        let slots = self.graph.edge_slots.merged(self.defaults[holding as usize].of_edges, &given);
        let mut tails: Vec<u32> = Vec::new();
        let mut heads: Vec<u32> = Vec::new();
        let mut arrow = None;
        for piece in pieces.iter().map(Some).chain([None]) {
            match piece {
                Some(Piece::Node(node)) => heads.push(*node),
                Some(Piece::Subgraph(subgraph)) => self.collect(*subgraph, &mut heads)?,
                Some(Piece::Arrow(_)) | None => {
                    if let Some(offset) = arrow {
                        let edges = tails.len() as u64 * heads.len() as u64;
                        self.spend(edges.saturating_sub(1), offset)?;
                        for tail in &tails {
                            for head in &heads {
                                self.edge(*tail, *head, key, offset, slots, &given);
                            }
                        }
                    }
                    std::mem::swap(&mut tails, &mut heads);
                    heads.clear();
                    arrow = piece.map(|piece| if let Piece::Arrow(offset) = piece { *offset } else { 0 });
                }
            }
        }
        Ok(())
    }

    /// Takes `key`, which is not an attribute: it distinguishes or identifies edges between the same two nodes.
    fn take_key(&mut self) -> u32 {
        let Some(last) = self.assignments.iter().rposition(|given| *given.name == *b"key") else {
            return NONE;
        };
        let key = self.graph.values[self.assignments[last].slot as usize].text.clone();
        self.assignments.retain(|given| *given.name != *b"key");
        let number = self.keys.len() as u32;
        *self.keys.entry(key).or_insert(number)
    }

    pub(super) fn edge(
        &mut self,
        tail: u32,
        head: u32,
        key: u32,
        offset: u32,
        slots: SlotsOf,
        given: &[Slot; Edges::COUNT],
    ) {
        let number = self.graph.edges.len() as u32;
        if self.strict || key != NONE {
            let name = (tail, head, if self.strict { NONE } else { key });
            let (known, its_key) = *self.edges_by_key.entry(name).or_insert((number, key));
            if known != number {
                if key == NONE || key == its_key {
                    self.graph.edge_slots.overwrite(&mut self.graph.edges[known as usize].slots, given);
                } else {
                    // A second edge in a strict graph: Graphviz ignores it and its attributes.
                    self.foreign(Cow::Borrowed(b"key"));
                }
                return;
            }
        }
        push(&mut self.graph.edges, DotEdge { tail, head, offset, slots });
    }

    /// The nodes of a subgraph, each once.
    fn collect(&mut self, subgraph: u32, into: &mut Vec<u32>) -> Result<()> {
        self.searches += 1;
        self.found.resize(self.graph.nodes.len(), 0);
        let mut span = self.graph.subgraphs[subgraph as usize].span;
        let mut earlier = self.graph.subgraphs[subgraph as usize].earlier.len();
        loop {
            self.spend(u64::from(span.1 - span.0), self.offset as u32)?;
            for (node, _) in &self.listing[span.0 as usize..span.1 as usize] {
                let found = &mut self.found[*node as usize];
                if *found != self.searches {
                    *found = self.searches;
                    into.push(*node);
                }
            }
            if earlier == 0 {
                return Ok(());
            }
            earlier -= 1;
            span = self.graph.subgraphs[subgraph as usize].earlier[earlier];
        }
    }

    fn spend(&mut self, work: u64, offset: u32) -> Result<()> {
        self.work += work;
        if self.work > self.limit() {
            let message = format!("edges of subgraphs multiply to more than {}", self.limit());
            return Err(self
                .lexer
                .error(offset as usize, message)
                .with_hint("write the edges out one by one"));
        }
        Ok(())
    }
}
