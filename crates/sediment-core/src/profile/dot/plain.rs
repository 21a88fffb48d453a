// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the simple statements of profiles without a tokenizer.
//!
//! ```text
//! "id" [name=value, name=value];
//! "id" -> "id" [name=value];
//! ```
//!
//! Such a statement is scanned first, and becomes part of the graph when its `;` is found. Any other statement is left
//! to the reader of tokens from its first byte on, so the meaning of a file, its errors and their lines do not depend
//! on this module.

use super::builder::Builder;
use super::graph::{DotValue, NONE, Slot};
use super::lexer::is_keyword;
use super::vocabulary::{Edges, Nodes};
use crate::error::Result;
use std::borrow::Cow;

/// Largest number of attributes of one statement: no object of a profile has as many.
const MOST: usize = 16;

/// A range of the text.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: u32,
    to: u32,
}

/// The attributes of a statement: the slot of each name, the name, and the beginning of the value with its quotes.
#[derive(Debug, Default)]
struct Given {
    count: usize,
    all: [(u8, Span, u32); MOST],
}

impl Given {
    fn positions(&self) -> impl Iterator<Item = usize> {
        self.all[..self.count].iter().map(|(place, _, _)| usize::from(*place))
    }
}

/// Position in the text. Methods return `None` if the text is not of the plain form.
struct PlainCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl PlainCursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, is_so: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_so) {
            self.at += 1;
        }
    }

    fn blanks(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\n'));
    }

    fn mark(&mut self, mark: u8) -> Option<()> {
        (self.peek()? == mark).then(|| self.at += 1)
    }

    /// Reads a quoted text without a backslash.
    fn quoted(&mut self) -> Option<Span> {
        self.mark(b'"')?;
        let from = self.at;
        self.at += memchr::memchr2(b'"', b'\\', self.bytes.get(from..)?)?;
        let to = self.at;
        self.mark(b'"')?;
        Some(Span { from: from as u32, to: to as u32 })
    }

    /// Reads a number, or a word that is not a keyword.
    fn bare(&mut self) -> Option<Span> {
        let from = self.at;
        if self.peek()?.is_ascii_digit() {
            self.skip(|byte| byte.is_ascii_digit());
            if self.mark(b'.').is_some() {
                self.skip(|byte| byte.is_ascii_digit());
            }
        } else {
            self.skip(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if self.at == from || is_keyword(&self.bytes[from..self.at]) {
                return None;
            }
        }
        Some(Span { from: from as u32, to: self.at as u32 })
    }

    /// Reads `[name=value, …]`, or nothing.
    fn attributes(&mut self, place: impl Fn(&[u8]) -> Option<usize>, given: &mut Given) -> Option<()> {
        given.count = 0;
        if self.mark(b'[').is_none() {
            return Some(());
        }
        loop {
            let name = self.bare()?;
            let place = place(&self.bytes[name.from as usize..name.to as usize])?;
            self.mark(b'=')?;
            let offset = self.at as u32;
            let value = if self.peek()? == b'"' { self.quoted() } else { self.bare() }?;
            *given.all.get_mut(given.count)? = (place as u8, value, offset);
            given.count += 1;
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.skip(|byte| byte == b' ');
                }
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

/// A scanned statement.
struct Statement {
    tail: Span,
    /// Offset of the arrow, and the id after it.
    head: Option<(u32, Span)>,
}

fn statement(cursor: &mut PlainCursor, given: &mut Given) -> Option<Statement> {
    let tail = cursor.quoted()?;
    cursor.skip(|byte| byte == b' ');
    let arrow = cursor.at as u32;
    let head = if cursor.mark(b'-').is_some() {
        cursor.mark(b'>')?;
        cursor.skip(|byte| byte == b' ');
        let head = cursor.quoted()?;
        cursor.skip(|byte| byte == b' ');
        Some((arrow, head))
    } else {
        None
    };
    match head {
        Some(_) => cursor.attributes(Edges::place, given)?,
        None => cursor.attributes(Nodes::place, given)?,
    }
    cursor.mark(b';')?;
    Some(Statement { tail, head })
}

impl<'a> Builder<'a, '_> {
    /// Reads statements from this token on while they are plain. False if the first one is not.
    pub(super) fn plain_statements(&mut self) -> Result<bool> {
        let mut cursor = PlainCursor { bytes: self.graph.bytes, at: self.offset };
        let mut given = Given::default();
        let mut end = None;
        while let Some(found) = statement(&mut cursor, &mut given) {
            self.add_plain(&found, &given);
            end = Some(cursor.at);
            cursor.blanks();
        }
        let Some(end) = end else { return Ok(false) };
        self.lexer.go_to(end);
        self.advance()?;
        Ok(true)
    }

    fn add_plain(&mut self, statement: &Statement, given: &Given) {
        let tail = self.plain_node(statement.tail);
        let Some((arrow, head)) = statement.head else {
            let slots = self.plain_slots::<{ Nodes::COUNT }>(given);
            given.positions().for_each(|place| self.graph.given_to_nodes[place] += 1);
            self.graph.node_slots.overwrite(&mut self.graph.nodes[tail as usize].slots, &slots);
            return;
        };
        self.last_tail = tail;
        let head = self.plain_node(head);
        given.positions().for_each(|place| self.graph.given_to_edges[place] += 1);
        let given = self.plain_slots::<{ Edges::COUNT }>(given);
        let holding = self.frames.last().map_or(0, |frame| frame.holding);
        let slots = self.graph.edge_slots.merged(self.defaults[holding as usize].of_edges, &given);
        self.edge(tail, head, NONE, arrow, slots, &given);
    }

    /// Returns the text of a span from the file itself.
    fn text_of(&self, span: Span) -> Cow<'a, [u8]> {
        Cow::Borrowed(&self.graph.bytes[span.from as usize..span.to as usize])
    }

    /// Returns the node of a quoted id, whose quotes begin one byte earlier.
    fn plain_node(&mut self, id: Span) -> u32 {
        self.node(self.text_of(id), id.from - 1)
    }

    fn plain_slots<const N: usize>(&mut self, given: &Given) -> [Slot; N] {
        let mut slots = [NONE; N];
        for (place, text, offset) in &given.all[..given.count] {
            slots[usize::from(*place)] = self.graph.values.len() as u32;
            let text = self.text_of(*text);
            self.graph.values.push(DotValue { text, html: false, offset: *offset });
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::builder::read_by;
    use crate::random::Generator;

    /// Both ways give the same graph, or the same error.
    fn same(text: &[u8]) {
        let read = |plain| read_by(text, |_| Ok(()), plain).map(|graph| format!("{graph:?}"));
        assert_eq!(read(true), read(false), "{}", String::from_utf8_lossy(text));
    }

    const TEXT: &str = "digraph Callgraph {
  graph [sediment=2, unit=calls, total=9];
  node [shape=ellipse];
  subgraph cluster0 {
    graph [label=\"a.so\"];
    \"f\" [size=12, first=3, heat=hot];
    \"g@x\" [label=\"g\", name=\"g\", dso=\"a.so\", file=\"g.c\"];
    \"\";
  }
  \"f\" -> \"g@x\" [label=0.500000, count=5, kind=direct];
  \"g@x\" -> \"f\" [count=4];
  \"h\" -> \"h\";
}
";

    #[test]
    fn plain_statements_mean_what_tokens_mean() {
        same(TEXT.as_bytes());
        for statement in [
            "\"a\";\"b\"  [size=1];\"a\"->\"b\"[count=1,near=2];",
            "\"a\" [size=1,];",
            "\"a\" [size=1 first=2];",
            "\"a\" [size=1; first=2];",
            "\"a\" [size=1][first=2];",
            "\"a\" [size=1, size=2] ;",
            "\"a\" [size=1",
            "\"a\" [size=1.5, first=.5, static=1.];",
            "\"a\" [size=-1];",
            "\"a\" [size=1a];",
            "\"a\" [node=1];",
            "\"a\" [alias=node];",
            "\"a\" [alias=Graph, name=graph_];",
            "\"a\" [alias=\"node\", color=red];",
            "\"a\" [alias=\"x\" + \"y\"];",
            "\"a\" [alias=\"x\\\"y\"];",
            "\"a\" [alias=<b>];",
            "\"a\" + \"b\" [size=1];",
            "\"a\":\"p\" [size=1];",
            "\"a\" = \"b\";",
            "\"a\", \"b\" [size=1];",
            "\"a\" -> \"b\" -> \"c\" [count=1];",
            "\"a\" -> \"b\" [key=1];\"a\" -> \"b\" [key=1];",
            "\"a\" -> \"b\" [color=red];",
            "\"a\" -> { \"b\" \"c\" } [count=1];",
            "\"a\" -> \"b\" [count=1]",
            "\"a\" -- \"b\";",
            "\"a\" -> ;",
            "\"a",
            "\"a\nb\" [size=1];\n\"c\" @",
            "\"é\" [size=1];\"x\" [é=1];",
            "edge [count=2]; \"a\" -> \"b\"; \"a\" -> \"b\" [near=1];",
            "node [size=2]; \"a\"; \"b\" [first=1]; \"a\" [size=3];",
            "\"a\" [size=1];\"b\" [size=2] // c\n; \"c\"\t;",
        ] {
            for kind in ["digraph", "strict digraph"] {
                same(format!("{kind} {{ {statement} }}").as_bytes());
                same(
                    format!("{kind} {{ subgraph clusterx {{ label=\"l\"; {statement} }}\n\"z\"; }}")
                        .as_bytes(),
                );
            }
        }
    }

    #[test]
    fn changed_profiles_are_read_alike() {
        let pieces: [&[u8]; 14] = [
            b"\"", b"->", b";", b"[", b"]", b"=", b",", b" ", b"\n", b"\\", b"size=1", b"node", b"{", b"/**/",
        ];
        let mut random = Generator::new(1);
        for _ in 0..4_000 {
            let mut text = TEXT.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(text.len());
                match random.below(3) {
                    0 => drop(text.remove(at)),
                    1 => drop(text.splice(at..at, pieces[random.below(pieces.len())].iter().copied())),
                    _ => text.truncate(at.max(1)),
                }
            }
            same(&text);
        }
    }
}
