// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of call stacks below the rows of a perf report, with counts.
//!
//! ```text
//!     73.36%   168  prog  prog  [.] leaf        36.64%    84  prog  prog  [.] leaf       26.67%    48  prog  prog  [.] twig
//!             |                                         |                                         22
//!             ---main                                   |--48--alpha                                  main
//!                |                                      |          main                              twig
//!                |--100--alpha                          |
//!                |          leaf                         --30--beta                               26
//!                 --68--leaf                                       main                               alpha
//! ```
//!
//! - A node is a chain of frames, one a line, in one column. `--COUNT--` stands before the first of them, and its children
//!   branch off in the column of its names.
//! - Without `--COUNT--` (`---main`) the tree has one root, with all that its row has: the count of the row's own column.
//! - The flat form has a count on a line of its own, and the whole stack below it.
//! - What a node has beyond its children ended there, or the report left it out: perf prints no node below a limit of half a
//!   percent. Towards callees it is known which: all stacks of a row end in its function.
//!
//! The columns are counted and the bars are not: from 32 levels on perf sets them by mistake.

use crate::read::numbers::decimal;
use std::ops::Range;

/// Takes a stack: its row, its frames as printed, its count, and whether the tree goes on below it.
type Take<'t, 'a> = &'t mut dyn FnMut(u32, &[&'a [u8]], u64, bool);

/// Content that a tree may not have, in words for an error.
pub(super) const SHARES: &str = "rounded shares of stacks instead of counts";
const OUT_OF_LINE: &str = "a line of a tree outside its columns: is the file damaged?";
const NO_NODE: &str = "neither a row nor a stack nor the start of a tree: is the file cut off?";
const RELATIVE: &str = "a tree with sums of omitted branches (fractal)";
const EXCEEDED: &str = "branches of a tree that count more than their parent";
const NO_COUNT: &str = "a tree without a count at its root, below a row without a number of samples (-n)";
const TOO_MANY: &str = "a tree with too many frames to be printed from samples";

/// An error, and the number of its line.
pub(super) type Refused = (u64, &'static str);

/// Columns per level.
const LEVEL: usize = 11;
/// Frames of all stacks together, for each byte of the input. A tree takes at least thirteen bytes for a frame, and perf keeps
/// at most 127 frames of a stack unless told otherwise.
const FRAMES_PER_BYTE: u64 = 8;

/// The trees of a report, one below each of some rows.
#[derive(Debug, Default)]
pub(super) struct Trees<'a> {
    names: Vec<&'a [u8]>,
    /// Parents before their children.
    nodes: Vec<Node>,
    trees: Vec<Tree>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Node {
    parent: Option<u32>,
    names: Range<u32>,
    /// Number of frames above it in its stacks.
    above: u32,
    /// Not known before all is read, of a root that has none of its own.
    count: u64,
    children: u64,
}

#[derive(Debug)]
struct Tree {
    row: u32,
    nodes: Range<u32>,
    line: u64,
    bare: bool,
    /// The sum of the outermost counts that are printed.
    printed: u64,
    numbers: Numbers,
}

/// Figures of a row itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) samples: Option<u64>,
    pub(super) period: Option<u64>,
}

impl Numbers {
    pub(super) fn add(&mut self, other: Self) {
        for (sum, number) in [(&mut self.samples, other.samples), (&mut self.period, other.period)] {
            *sum = number.map(|number| sum.unwrap_or(0).saturating_add(number)).or(*sum);
        }
    }
}

/// The tree whose lines are being read.
#[derive(Debug)]
struct Open {
    form: Form,
    line: u64,
    /// Where the outermost branches, or the counts of the flat form, begin.
    left: usize,
    first_node: usize,
    first_name: usize,
    /// From the outermost on: the node that lines belong to, and the column of its names.
    path: Vec<(usize, u32)>,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bare,
    Branches,
    Flat,
}

enum Content<'a> {
    Counted(u64, &'a [u8]),
    Root(&'a [u8]),
    Name(&'a [u8]),
}

impl<'a> Content<'a> {
    fn of(text: &'a [u8]) -> Result<Self, &'static str> {
        let Some(marked) = text.strip_prefix(b"--") else { return Ok(Self::Name(text)) };
        let digits = marked.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let (count, rest) = marked.split_at(digits);
        if digits > 0 && rest.starts_with(b"%") {
            return Err(SHARES);
        }
        match (decimal(count), rest.strip_prefix(b"--"), rest.strip_prefix(b"-")) {
            (Some(count), Some(name), _) if !name.is_empty() => Ok(Self::Counted(count, name)),
            (None, _, Some(name)) if digits == 0 && !name.is_empty() => Ok(Self::Root(name)),
            _ => Err(NO_NODE),
        }
    }
}

impl<'a> Trees<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Takes a line of the tree below the row that was read last.
    pub(super) fn line(&mut self, number: u64, line: &'a [u8]) -> Result<(), &'static str> {
        let line = line.trim_ascii_end();
        let Some(at) = line.iter().position(|b| !matches!(b, b' ' | b'|')) else { return Ok(()) };
        let content = Content::of(&line[at..])?;
        if let Content::Counted(_, b"[...]") | Content::Root(b"[...]") | Content::Name(b"[...]") = content {
            return Err(RELATIVE);
        }
        let Some(mut open) = self.open.take() else { return self.first(number, at, &content) };
        let outcome = self.further(&mut open, at, &content);
        self.open = Some(open);
        outcome
    }

    fn first(&mut self, line: u64, at: usize, content: &Content<'a>) -> Result<(), &'static str> {
        let (form, left) = match content {
            Content::Root(_) => (Form::Bare, at),
            Content::Counted(..) if at > 0 => (Form::Branches, at - 1),
            Content::Name(name) if name.iter().all(u8::is_ascii_digit) => (Form::Flat, at),
            _ => return Err(NO_NODE),
        };
        let (first_node, first_name) = (self.nodes.len(), self.names.len());
        let mut open = Open { form, line, left, first_node, first_name, path: Vec::new(), ended: false };
        match content {
            Content::Root(name) => {
                self.node(&mut open, at + 3, 0, Some(name))?;
            }
            content => self.further(&mut open, at, content)?,
        }
        self.open = Some(open);
        Ok(())
    }

    fn further(&mut self, open: &mut Open, at: usize, content: &Content<'a>) -> Result<(), &'static str> {
        match *content {
            _ if open.ended => Err(OUT_OF_LINE),
            Content::Counted(count, name) if open.form != Form::Flat && at > 0 => {
                let column = at - 1;
                while open.path.last().is_some_and(|(names, _)| *names > column) {
                    open.path.pop();
                }
                let placed = match open.path.last() {
                    Some((names, _)) => *names == column,
                    None => open.form == Form::Branches && open.left == column,
                };
                if !placed {
                    return Err(OUT_OF_LINE);
                }
                self.node(open, column + LEVEL, count, Some(name))
            }
            Content::Name(count) if open.form == Form::Flat && open.path.is_empty() => {
                let count = decimal(count).filter(|_| at == open.left).ok_or(OUT_OF_LINE)?;
                self.node(open, 0, count, None)
            }
            Content::Name(name) => {
                let Some((column, node)) = open.path.last_mut() else { return Err(OUT_OF_LINE) };
                if *column == 0 && at > open.left {
                    *column = at;
                }
                // A frame below a branch of its node would be of nobody.
                if *column != at || *node as usize + 1 != self.nodes.len() {
                    return Err(OUT_OF_LINE);
                }
                self.names.push(name);
                self.nodes[*node as usize].names.end += 1;
                Ok(())
            }
            _ => Err(OUT_OF_LINE),
        }
    }

    fn node(
        &mut self,
        open: &mut Open,
        column: usize,
        count: u64,
        name: Option<&'a [u8]>,
    ) -> Result<(), &'static str> {
        let parent = open.path.last().map(|(_, node)| *node);
        let mut above = 0;
        if let Some(parent) = parent {
            let bare = open.form == Form::Bare && parent as usize == open.first_node;
            let parent = &mut self.nodes[parent as usize];
            above = parent.above + (parent.names.end - parent.names.start);
            parent.children = parent.children.saturating_add(count);
            if !bare && parent.children > parent.count {
                return Err(EXCEEDED);
            }
        }
        let start = self.names.len() as u32;
        self.names.extend(name);
        open.path.push((column, self.nodes.len() as u32));
        self.nodes.push(Node { parent, names: start..self.names.len() as u32, above, count, children: 0 });
        Ok(())
    }

    /// Takes an empty line: the end of a tree, or of a stack of the flat form.
    pub(super) fn empty_line(&mut self) {
        if let Some(open) = &mut self.open {
            if open.form == Form::Flat {
                open.path.clear();
            } else {
                open.ended = true;
            }
        }
    }

    /// Ends the tree that has begun; without an address for its row it is skipped.
    pub(super) fn close(&mut self, numbers: Numbers, row: Option<u32>) {
        let Some(open) = self.open.take() else { return };
        let Some(row) = row else {
            self.nodes.truncate(open.first_node);
            self.names.truncate(open.first_name);
            return;
        };
        let nodes = open.first_node as u32..self.nodes.len() as u32;
        let bare = open.form == Form::Bare;
        let own = &self.nodes[open.first_node..];
        let printed = match own.first() {
            Some(root) if bare => root.children,
            _ => own
                .iter()
                .filter(|node| node.parent.is_none())
                .fold(0, |sum: u64, node| sum.saturating_add(node.count)),
        };
        self.trees.push(Tree { row, nodes, line: open.line, bare, printed, numbers });
    }

    /// True if the tree below the row that was read last has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.open.is_some()
    }

    /// Gives roots without a count that of their rows. Returns what rows have beyond their trees, and the number out of
    /// `others` that is in the same unit.
    ///
    /// The numbers of a tree are of samples or of the event's period, and nothing says which. Samples are no more than a row
    /// has; a period is what all the branches of some row add up to.
    pub(super) fn settle(&mut self, others: Numbers) -> Result<(Vec<(u32, u64)>, u64), Refused> {
        let samples: fn(Numbers) -> Option<u64> = |numbers| numbers.samples;
        let period: fn(Numbers) -> Option<u64> = |numbers| numbers.period;
        let fits = |of: fn(Numbers) -> Option<u64>| {
            self.trees.iter().find(|tree| of(tree.numbers).is_none_or(|own| own < tree.printed))
        };
        let is_sum = |tree: &Tree| tree.printed > 0 && tree.numbers.period == Some(tree.printed);
        let of = match (fits(samples), fits(period)) {
            (None, _) => samples,
            (Some(_), None) if self.trees.iter().any(is_sum) => period,
            (Some(_), None) if self.trees.iter().all(|tree| tree.printed == 0) => period,
            (Some(misfit), _) => {
                if misfit.numbers.samples.is_some() {
                    return Err((misfit.line, EXCEEDED));
                }
                if let Some(tree) = self.trees.iter().find(|tree| tree.bare) {
                    return Err((tree.line, NO_COUNT));
                }
                // All that is needed is printed in the trees.
                |_| None
            }
        };
        let mut left_out = Vec::new();
        for tree in &self.trees {
            let own = of(tree.numbers).unwrap_or(tree.printed);
            match self.nodes.get_mut(tree.nodes.start as usize) {
                Some(root) if tree.bare => root.count = own,
                _ if own > tree.printed => left_out.push((tree.row, own - tree.printed)),
                _ => {}
            }
        }
        Ok((left_out, of(others).unwrap_or(0)))
    }

    /// True if the functions of rows stand at the beginning, or at the end, of the trees' stacks; and true if any
    /// stack shows it.
    pub(super) fn ends(&self, symbol: impl Fn(u32) -> Option<&'a [u8]>) -> (bool, bool, bool) {
        let (mut first, mut several) = (true, false);
        let (mut ending, mut not_ending) = (0, 0);
        for tree in &self.trees {
            let Some(symbol) = symbol(tree.row) else { continue };
            for node in &self.nodes[tree.nodes.start as usize..tree.nodes.end as usize] {
                let names = &self.names[node.names.start as usize..node.names.end as usize];
                if node.above as usize + names.len() < 2 && node.children == 0 {
                    continue;
                }
                several = true;
                if node.parent.is_none() {
                    first &= names.first() == Some(&symbol);
                }
                if node.children == 0 {
                    *(if names.last() == Some(&symbol) { &mut ending } else { &mut not_ending }) += 1u64;
                }
            }
        }
        // Where the report left out the ends of stacks, others stand there.
        let last = if first { not_ending == 0 } else { ending > not_ending };
        (first, last, several)
    }

    /// Calls with each stack: its row, its frames as printed, its count, and whether the tree goes on below it.
    ///
    /// Time and memory are in proportion to `bytes`, the length of the input.
    pub(super) fn stacks(&self, bytes: usize, take: Take<'_, 'a>) -> Result<(), Refused> {
        let mut left = (bytes as u64).saturating_mul(FRAMES_PER_BYTE);
        for tree in &self.trees {
            for node in &self.nodes[tree.nodes.start as usize..tree.nodes.end as usize] {
                if node.count > node.children {
                    let frames = node.above + (node.names.end - node.names.start);
                    left = left.checked_sub(frames.into()).ok_or((tree.line, TOO_MANY))?;
                }
            }
        }
        let mut stack: Vec<&[u8]> = Vec::new();
        for tree in &self.trees {
            for node in &self.nodes[tree.nodes.start as usize..tree.nodes.end as usize] {
                stack.truncate(node.above as usize);
                stack.extend(&self.names[node.names.start as usize..node.names.end as usize]);
                let count = node.count.saturating_sub(node.children);
                if count > 0 {
                    take(tree.row, &stack, count, node.children > 0);
                }
            }
        }
        Ok(())
    }
}
