// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a graph from tokens.
//!
//! One loop with a stack of open subgraphs on the heap. A table has every value of an attribute once; objects and
//! defaults refer to it, so that a default of ten megabytes costs the same for one edge as for a million.

use super::error_at;
use super::graph::{DotGraph, DotNode, DotSubgraph, DotValue, NONE, Slot, Slots, SlotsOf};
use super::lexer::{DotToken, Id, Keyword, Lexer, undirected};
use super::vocabulary::{Edges, Graphs, Nodes};
use crate::error::{Error, ErrorCode, Result};
use crate::profile::push;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// Verdict on a value: the code and message of its error.
pub(super) type ValueCheck = std::result::Result<(), (ErrorCode, String)>;

/// Largest nesting depth of subgraphs; `dot` fails at about 3,300.
const DEEPEST: usize = 10_000;

/// Reads one digraph.
///
/// `check` is called with the version as soon as it is read, because the rest of a newer file may not be valid DOT.
///
/// # Errors
/// If the text is not DOT, is not directed, or makes too many edges; the error has the line.
pub(in crate::profile) fn read<'a>(
    bytes: &'a [u8],
    check: impl Fn(&DotValue<'a>) -> ValueCheck,
) -> Result<DotGraph<'a>> {
    read_by(bytes, check, true)
}

/// As [`read`], with or without the shortcut for plain statements.
pub(super) fn read_by<'a>(
    bytes: &'a [u8],
    check: impl Fn(&DotValue<'a>) -> ValueCheck,
    plain: bool,
) -> Result<DotGraph<'a>> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(Error::new(ErrorCode::TooLarge, "a profile of 4 GiB or more"));
    }
    let mut builder = Builder::new(bytes, &check);
    builder.plain = plain;
    builder.header()?;
    builder.statements()?;
    builder.footer()?;
    builder.graph.settle_clusters(&builder.listing);
    Ok(builder.graph)
}

/// Default attributes of objects that are created from here on.
#[derive(Debug, Clone)]
pub(super) struct Defaults {
    nodes: [Slot; Nodes::COUNT],
    edges: [Slot; Edges::COUNT],
    /// Slots of objects without attributes of their own.
    of_nodes: SlotsOf,
    pub(super) of_edges: SlotsOf,
    graphs: [Slot; Graphs::OF_CLUSTERS],
}

impl Defaults {
    const NOTHING: Self = Self {
        nodes: [NONE; Nodes::COUNT],
        edges: [NONE; Edges::COUNT],
        of_nodes: SlotsOf::NOTHING,
        of_edges: SlotsOf::NOTHING,
        graphs: [NONE; Graphs::OF_CLUSTERS],
    };

    /// Overrides the defaults of the enclosing graph by these.
    fn over(&self, around: &Self, graph: &mut DotGraph<'_>) -> Self {
        fn pick<const N: usize>(own: &[Slot; N], around: &[Slot; N]) -> [Slot; N] {
            std::array::from_fn(|place| if own[place] == NONE { around[place] } else { own[place] })
        }
        let (nodes, edges) = (pick(&self.nodes, &around.nodes), pick(&self.edges, &around.edges));
        Self {
            nodes,
            edges,
            of_nodes: if nodes == around.nodes { around.of_nodes } else { graph.node_slots.shared(nodes) },
            of_edges: if edges == around.edges { around.of_edges } else { graph.edge_slots.shared(edges) },
            graphs: pick(&self.graphs, &around.graphs),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DotElement {
    Node,
    Edge,
    Graph,
}

/// Part of a statement that names nodes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Node(u32),
    Subgraph(u32),
    /// `->`, at this offset.
    Arrow(u32),
}

/// An open graph or subgraph.
#[derive(Debug)]
pub(super) struct OpenGraph {
    /// Its number; [`NONE`] for the graph itself.
    subgraph: u32,
    /// Slots in [`Builder::defaults`]: all defaults in effect, and the ones set here.
    pub(super) holding: u32,
    own: u32,
    /// True if only this frame uses these two slots.
    private: bool,
    /// Beginning of its part of the listing.
    start: u32,
    /// Pieces of the unfinished statement that contains the subgraph.
    pieces: Vec<Piece>,
}

pub(super) struct Assignment<'a> {
    pub(super) name: Cow<'a, [u8]>,
    pub(super) slot: Slot,
}

pub(super) struct Builder<'a, 'c> {
    pub(super) lexer: Lexer<'a>,
    check: &'c dyn Fn(&DotValue<'a>) -> ValueCheck,
    pub(super) graph: DotGraph<'a>,
    pub(super) strict: bool,
    plain: bool,
    token: DotToken<'a>,
    pub(super) offset: usize,
    pub(super) frames: Vec<OpenGraph>,
    pub(super) defaults: Vec<Defaults>,
    pub(super) assignments: Vec<Assignment<'a>>,
    /// Nodes by id; the table holds only their numbers.
    nodes_by_id: HashTable<u32>,
    hashing: RandomState,
    pub(super) last_tail: u32,
    subgraphs_by_name: HashMap<(u32, Cow<'a, [u8]>), u32>,
    /// Edges that a later statement may refer to again, with their keys: in a strict graph all edges, by nodes;
    /// otherwise the edges with a key, also by key.
    pub(super) edges_by_key: HashMap<(u32, u32, u32), (u32, u32)>,
    pub(super) keys: HashMap<Cow<'a, [u8]>, u32>,
    /// Every node named in a subgraph, with the innermost subgraph, in the order of the text.
    pub(super) listing: Vec<(u32, u32)>,
    /// By node: the last search of a subgraph that found it.
    pub(super) found: Vec<u32>,
    pub(super) searches: u32,
    pub(super) work: u64,
}

impl<'a, 'c> Builder<'a, 'c> {
    fn new(bytes: &'a [u8], check: &'c dyn Fn(&DotValue<'a>) -> ValueCheck) -> Self {
        // Each value has an `=`; but memory must stay below twice the length of the text.
        let values = memchr::memchr_iter(b'=', bytes).count().min(bytes.len() / 16);
        Self {
            lexer: Lexer::new(bytes),
            check,
            graph: DotGraph {
                bytes,
                nodes: Vec::new(),
                edges: Vec::new(),
                values: Vec::with_capacity(values),
                node_slots: Slots::new(),
                edge_slots: Slots::new(),
                attributes: [NONE; Graphs::COUNT],
                subgraphs: Vec::new(),
                foreign: 0,
                first_foreign: Cow::Borrowed(b""),
                given_to_nodes: [0; Nodes::COUNT],
                given_to_edges: [0; Edges::COUNT],
                given_to_graphs: [0; Graphs::COUNT],
            },
            strict: false,
            plain: true,
            token: DotToken::End,
            offset: 0,
            frames: Vec::new(),
            defaults: vec![Defaults::NOTHING],
            assignments: Vec::new(),
            // The number in a typical profile, far below the number that the text could have.
            nodes_by_id: HashTable::with_capacity(bytes.len() / 96),
            hashing: RandomState::default(),
            last_tail: NONE,
            subgraphs_by_name: HashMap::new(),
            edges_by_key: HashMap::new(),
            keys: HashMap::new(),
            listing: Vec::new(),
            found: Vec::new(),
            searches: 0,
            work: 0,
        }
    }

    pub(super) fn advance(&mut self) -> Result<()> {
        (self.offset, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn at(&self, mark: u8) -> bool {
        self.token == DotToken::Mark(mark)
    }

    fn expect(&mut self, mark: u8, what: &str) -> Result<()> {
        if !self.at(mark) {
            return Err(self.expected(what));
        }
        self.advance()
    }

    fn expected(&self, what: &str) -> Error {
        if self.token == DotToken::End {
            return self
                .lexer
                .error(self.offset, format!("expected {what}, but the file ends"))
                .with_hint("is the file cut off?");
        }
        self.lexer.error(self.offset, format!("expected {what}"))
    }

    /// `[strict] digraph [id] {`
    fn header(&mut self) -> Result<()> {
        const HINT: &str = "a profile begins with `digraph`; to convert a profiler's output: sediment import";
        self.advance()?;
        if self.token == DotToken::End {
            return Err(Error::at_line(1, "empty file; expected a profile")
                .with_code(ErrorCode::EmptyInput)
                .with_hint(HINT));
        }
        if self.token == DotToken::Keyword(Keyword::Strict) {
            self.strict = true;
            self.advance()?;
        }
        match self.token {
            DotToken::Keyword(Keyword::Digraph) => self.advance()?,
            DotToken::Keyword(Keyword::Graph) => {
                return Err(undirected(self.lexer.error(self.offset, "an undirected graph")));
            }
            DotToken::End => return Err(self.expected("`digraph`")),
            _ => return Err(self.expected("`digraph`").with_hint(HINT)),
        }
        if matches!(self.token, DotToken::Id(_)) {
            self.advance()?;
        }
        self.expect(b'{', "`{` after `digraph`")?;
        self.frames.push(OpenGraph {
            subgraph: NONE,
            holding: 0,
            own: 0,
            private: false,
            start: 0,
            pieces: Vec::new(),
        });
        Ok(())
    }

    fn footer(&mut self) -> Result<()> {
        if self.token == DotToken::End {
            return Ok(());
        }
        let message = "text after the end of the graph";
        Err(self
            .lexer
            .error(self.offset, message)
            .with_hint("a profile is one graph; to join several: sediment merge"))
    }

    fn statements(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last() {
            let continues = !frame.pieces.is_empty();
            match &self.token {
                DotToken::Mark(b'}') => self.close()?,
                DotToken::Mark(b';') if !continues => self.advance()?,
                DotToken::Mark(b'{') | DotToken::Keyword(Keyword::Subgraph) => self.open()?,
                DotToken::Keyword(Keyword::Node) if !continues => self.default_statement(DotElement::Node)?,
                DotToken::Keyword(Keyword::Edge) if !continues => self.default_statement(DotElement::Edge)?,
                DotToken::Keyword(Keyword::Graph) if !continues => {
                    self.default_statement(DotElement::Graph)?
                }
                DotToken::Id(_) => {
                    if continues || !self.plain || !self.plain_statements()? {
                        self.name()?;
                    }
                }
                _ if continues => return Err(self.expected("a node or a subgraph after `->` or `,`")),
                _ => return Err(self.expected("a statement or `}`")),
            }
        }
        Ok(())
    }

    /// `node`, `edge` or `graph`, with defaults for later objects.
    fn default_statement(&mut self, kind: DotElement) -> Result<()> {
        self.advance()?;
        if !self.at(b'[') {
            return Err(self.expected("`[` after `node`, `edge` or `graph`"));
        }
        self.attribute_lists()?;
        self.set_defaults(kind)
    }

    /// Reads an id that begins a statement or is the next end of an edge: `name = value`, or a node with its port.
    fn name(&mut self) -> Result<()> {
        let (offset, id) = self.take_id("a name")?;
        let begins = self.frames.last().is_some_and(|frame| frame.pieces.is_empty());
        if begins && self.at(b'=') {
            self.assignments.clear();
            self.assignment(id.text)?;
            return self.set_defaults(DotElement::Graph);
        }
        let node = self.node(id.text, offset);
        for _ in 0..2 {
            if self.at(b':') {
                self.advance()?;
                self.take_id("a port after `:`")?;
                self.foreign(Cow::Borrowed(b"port"));
            }
        }
        self.piece(Piece::Node(node))
    }

    /// Adds an end to the statement, and finishes the statement if nothing continues it.
    fn piece(&mut self, piece: Piece) -> Result<()> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        push(&mut frame.pieces, piece);
        match (&self.token, piece) {
            (DotToken::Arrow, _) => {
                if let Piece::Node(node) = piece {
                    self.last_tail = node;
                }
                push(&mut frame.pieces, Piece::Arrow(self.offset as u32));
                self.advance()
            }
            (DotToken::Mark(b','), Piece::Node(_)) => {
                self.advance()?;
                if matches!(self.token, DotToken::Id(_)) {
                    Ok(())
                } else {
                    Err(self.expected("a node after `,`"))
                }
            }
            _ => self.end_statement(),
        }
    }

    fn end_statement(&mut self) -> Result<()> {
        self.assignments.clear();
        if self.at(b'[') {
            self.attribute_lists()?;
        }
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let mut pieces = std::mem::take(&mut frame.pieces);
        if pieces.iter().any(|piece| matches!(piece, Piece::Arrow(_))) {
            self.edges(&pieces)?;
        } else {
            if let [Piece::Subgraph(_)] = pieces[..] {
                self.assigned::<0>(DotElement::Node);
            }
            let slots = self.assigned::<{ Nodes::COUNT }>(DotElement::Node);
            for piece in &pieces {
                if let Piece::Node(node) = piece {
                    self.graph.node_slots.overwrite(&mut self.graph.nodes[*node as usize].slots, &slots);
                }
            }
        }
        pieces.clear();
        if let Some(frame) = self.frames.last_mut() {
            frame.pieces = pieces;
        }
        Ok(())
    }

    /// `[subgraph [id]] {`
    fn open(&mut self) -> Result<()> {
        let mut name = None;
        if self.token == DotToken::Keyword(Keyword::Subgraph) {
            self.advance()?;
            if matches!(self.token, DotToken::Id(_)) {
                name = Some(self.take_id("a name")?.1.text);
            }
        }
        self.expect(b'{', "`{` after `subgraph`")?;
        if self.frames.len() > DEEPEST {
            let message = format!("subgraphs nested deeper than {DEEPEST} levels");
            return Err(self
                .lexer
                .error(self.offset, message)
                .with_hint("`dot` does not read such a file either"));
        }
        let Some(around) = self.frames.last() else { return Ok(()) };
        let (parent, holding) = (around.subgraph, around.holding);
        let known =
            name.as_ref().and_then(|name| self.subgraphs_by_name.get(&(parent, name.clone())).copied());
        let subgraph = known.unwrap_or_else(|| {
            let number = self.graph.subgraphs.len() as u32;
            let subgraph = DotSubgraph {
                parent,
                cluster: name.as_ref().is_some_and(|name| name.starts_with(b"cluster")),
                slots: self.defaults[holding as usize].graphs,
                own: 0,
                span: (0, 0),
                earlier: Vec::new(),
            };
            push(&mut self.graph.subgraphs, subgraph);
            if let Some(name) = name {
                self.subgraphs_by_name.insert((parent, name), number);
            }
            number
        });
        let own = self.graph.subgraphs[subgraph as usize].own;
        let mut frame = OpenGraph {
            subgraph,
            holding,
            own,
            private: false,
            start: self.listing.len() as u32,
            pieces: Vec::new(),
        };
        if own != 0 {
            let holding = self.defaults[own as usize].over(&self.defaults[holding as usize], &mut self.graph);
            frame.holding = self.defaults.len() as u32;
            push(&mut self.defaults, holding);
            frame.private = true;
        }
        self.frames.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.frames.last().is_some_and(|frame| !frame.pieces.is_empty()) {
            return Err(self.expected("a node or a subgraph after `->`"));
        }
        self.advance()?;
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        if frame.subgraph == NONE {
            return Ok(());
        }
        let subgraph = &mut self.graph.subgraphs[frame.subgraph as usize];
        if subgraph.span.0 < subgraph.span.1 {
            subgraph.earlier.push(subgraph.span);
        }
        subgraph.span = (frame.start, self.listing.len() as u32);
        subgraph.own = frame.own;
        self.piece(Piece::Subgraph(frame.subgraph))
    }

    fn take_id(&mut self, what: &str) -> Result<(u32, Id<'a>)> {
        let DotToken::Id(id) = &mut self.token else { return Err(self.expected(what)) };
        let id = Id { text: std::mem::take(&mut id.text), html: id.html };
        let offset = self.offset as u32;
        self.advance()?;
        Ok((offset, id))
    }

    /// Reads `[name = value, …] […]` into the assignments.
    fn attribute_lists(&mut self) -> Result<()> {
        self.assignments.clear();
        while self.at(b'[') {
            self.advance()?;
            while !self.at(b']') {
                let (_, id) = self.take_id("an attribute or `]`")?;
                self.assignment(id.text)?;
                if self.at(b',') || self.at(b';') {
                    self.advance()?;
                }
            }
            self.advance()?;
        }
        Ok(())
    }

    /// Reads `= value` after an attribute's name.
    fn assignment(&mut self, name: Cow<'a, [u8]>) -> Result<()> {
        self.expect(b'=', "`=` after the name of an attribute")?;
        let (offset, id) = self.take_id("the value of an attribute")?;
        let slot = self.graph.values.len() as u32;
        self.graph.values.push(DotValue { text: id.text, html: id.html, offset });
        self.assignments.push(Assignment { name, slot });
        Ok(())
    }

    pub(super) fn foreign(&mut self, name: Cow<'a, [u8]>) {
        if self.graph.foreign == 0 {
            self.graph.first_foreign = name;
        }
        self.graph.foreign += 1;
    }

    /// Returns the assignments as slots of one kind of object; counts attributes that profiles do not have.
    pub(super) fn assigned<const N: usize>(&mut self, kind: DotElement) -> [Slot; N] {
        let mut slots = [NONE; N];
        let mut assignments = std::mem::take(&mut self.assignments);
        for Assignment { name, slot } in assignments.drain(..) {
            let (place, given) = match kind {
                DotElement::Node => (Nodes::place(&name), &mut self.graph.given_to_nodes[..]),
                DotElement::Edge => (Edges::place(&name), &mut self.graph.given_to_edges[..]),
                DotElement::Graph => (Graphs::place(&name), &mut self.graph.given_to_graphs[..]),
            };
            match place.filter(|place| *place < N) {
                Some(place) => {
                    slots[place] = slot;
                    given[place] += 1;
                }
                None => self.foreign(name),
            }
        }
        // The next statement reuses its memory.
        self.assignments = assignments;
        slots
    }

    fn set_defaults(&mut self, kind: DotElement) -> Result<()> {
        let mut defaults = Defaults::NOTHING;
        let subgraph = self.frames.last().map_or(NONE, |frame| frame.subgraph);
        match kind {
            DotElement::Node => {
                // Every profile that sediment writes has it; it is only drawn.
                let values = &self.graph.values;
                self.assignments.retain(|given| {
                    *given.name != *b"shape" || *values[given.slot as usize].text != *b"ellipse"
                });
                defaults.nodes = self.assigned(kind);
            }
            DotElement::Edge => defaults.edges = self.assigned(kind),
            DotElement::Graph if subgraph == NONE => {
                let slots = self.assigned::<{ Graphs::COUNT }>(kind);
                overwrite(&mut self.graph.attributes, &slots);
                defaults.graphs.copy_from_slice(&slots[..Graphs::OF_CLUSTERS]);
                let version = slots[Graphs::Sediment as usize];
                if let Some(value) = self.graph.values.get(version as usize) {
                    (self.check)(value).map_err(|(code, message)| {
                        error_at(self.graph.bytes, value.offset as usize, message).with_code(code)
                    })?;
                }
            }
            DotElement::Graph => {
                defaults.graphs = self.assigned(kind);
                overwrite(&mut self.graph.subgraphs[subgraph as usize].slots, &defaults.graphs);
            }
        }
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        if !frame.private {
            for place in [&mut frame.own, &mut frame.holding] {
                let copy = self.defaults[*place as usize].clone();
                *place = self.defaults.len() as u32;
                push(&mut self.defaults, copy);
            }
            frame.private = true;
        }
        for place in [frame.own, frame.holding] {
            let merged = defaults.over(&self.defaults[place as usize], &mut self.graph);
            self.defaults[place as usize] = merged;
        }
        Ok(())
    }

    pub(super) fn node(&mut self, id: Cow<'a, [u8]>, offset: u32) -> u32 {
        // Edges are usually grouped by their tails.
        if self.graph.nodes.get(self.last_tail as usize).is_some_and(|last| last.id == id) {
            return self.list(self.last_tail);
        }
        let holding = self.frames.last().map_or(0, |frame| frame.holding);
        let Self { graph: DotGraph { nodes, .. }, nodes_by_id, hashing, .. } = self;
        let next = nodes.len() as u32;
        let known = nodes_by_id.entry(
            hashing.hash_one(&id),
            |other| nodes[*other as usize].id == id,
            |other| hashing.hash_one(&nodes[*other as usize].id),
        );
        let node = match known {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                place.insert(next);
                let slots = self.defaults[holding as usize].of_nodes;
                push(nodes, DotNode { id, offset, slots, cluster: NONE });
                next
            }
        };
        self.list(node)
    }

    /// Adds a node to the listing of the open subgraph.
    fn list(&mut self, node: u32) -> u32 {
        match self.frames.last() {
            Some(OpenGraph { subgraph: NONE, .. }) | None => {}
            Some(frame) => push(&mut self.listing, (node, frame.subgraph)),
        }
        node
    }
}

/// Overwrites slots with the given ones.
pub(super) fn overwrite<const N: usize>(slots: &mut [Slot; N], by: &[Slot; N]) {
    for (slot, by) in slots.iter_mut().zip(by) {
        if *by != NONE {
            *slot = *by;
        }
    }
}
