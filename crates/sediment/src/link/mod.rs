// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LINKERS`]: an order as a file that a linker understands, and back again for [`crate::verify`].
//!
//! One statement per section: several patterns in one statement would be placed in file order. What is not listed keeps the
//! linker's own default treatment. To add a dialect: one file here, one row in [`LINKERS`], a folder in tests/golden/link, a
//! section of docs/linkers.md. `sections` holds what the dialects that name sections share.

mod align;
pub mod build_log;
pub mod command_line;
pub mod gnu_ld;
pub mod gnu_ld_script;
pub mod gold;
pub mod list;
pub mod lld;
mod objects;
pub mod plan;
mod sections;

pub use align::aligned;

use crate::binary::objects::ObjectPath;
use crate::binary::{Binary, names};
use crate::error::{Error, Losses, Result};
use crate::graph::{BuiltGraph, FunctionId, Order};
pub use objects::placements_in;
use std::collections::{HashMap, HashSet};

/// A function to be placed, and the names by which a linker can know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Linkage name.
    pub name: String,
    /// Input sections that may hold it, in the order in which they are to be placed.
    pub sections: Vec<String>,
    /// Input sections that may hold its split cold part, to be placed behind all functions.
    pub cold_sections: Vec<String>,
    /// The object files whose sections these are, for dialects that tell files apart; empty: those of every file.
    pub files: Vec<ObjectPath>,
    /// Its weight, by which dialects that know one function of a name choose.
    pub weight: u64,
}

/// One dialect of ordering file.
#[derive(Debug, Clone, Copy)]
pub struct Linker {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// Which linkers read it.
    pub summary: &'static str,
    /// The compiler's arguments that hand the file to the linker; `FILE` stands for its path.
    pub arguments: &'static str,
    /// Writes the placements; what the dialect cannot express is left out and counted.
    pub write: fn(&[Placement]) -> (String, Losses),
    /// Whether this text looks like the dialect.
    pub recognises: fn(&str) -> bool,
    /// The functions that such a text asks for, in order, as names; cold parts as `NAME.cold`.
    pub read: fn(&str) -> Result<Vec<OrderedName>>,
}

/// One function that an ordering file asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderedName {
    /// Linkage name.
    pub name: String,
    /// Line of the file that asks for it first, from 1.
    pub line: u64,
    /// Base name of the object file whose function it is, where the dialect tells.
    pub file: Option<String>,
}

/// Every dialect there is.
pub const LINKERS: &[Linker] =
    &[gnu_ld::LINKER, gnu_ld_script::LINKER, gold::LINKER, lld::LINKER, list::LINKER];

/// The dialect of this name.
#[must_use]
pub fn linker(name: &str) -> Option<&'static Linker> {
    LINKERS.iter().find(|linker| linker.name == name)
}

/// Reads an ordering file of whatever dialect the content shows: what it asks for, each name once, where it is asked for first.
///
/// # Errors
/// When no dialect recognises the text, its reader refuses it, or it asks for no function.
pub fn read(text: &str) -> Result<(&'static Linker, Vec<OrderedName>)> {
    let known = || LINKERS.iter().map(|linker| linker.name).collect::<Vec<_>>().join(", ");
    let linker = LINKERS.iter().find(|linker| (linker.recognises)(text)).ok_or_else(|| {
        Error::failed("this is no ordering file of a kind that sediment reads")
            .with_found(text.lines().next().unwrap_or_default().as_bytes())
            .with_hint(format!("it reads those that `sediment order` writes: {}", known()))
    })?;
    let mut asked = (linker.read)(text)?;
    let mut seen = HashSet::new();
    asked.retain(|name| seen.insert((name.name.clone(), name.file.clone())));
    if asked.is_empty() {
        return Err(Error::failed("the ordering file asks for no function")
            .with_hint("was the order made for another program, or of an empty profile?"));
    }
    Ok((linker, asked))
}

/// The functions of an order as a linker can know them, and what could not be told apart.
///
/// A linker knows a function by its name, or by a section that has the name in it. Functions of one name (local functions of
/// several files, or of several programs in one order) are placed together, where the heaviest of them belongs; of two equally
/// heavy ones, where the first stands.
///
/// With a binary at hand, cold parts that functions were split into are left to the linker, and the sections of a function's
/// other names are listed with it: a compiler names the section after one of them (a C++ constructor's after that of the base
/// class part).
#[must_use]
pub fn placements(order: &Order, built: &BuiltGraph, binary: Option<&Binary>) -> (Vec<Placement>, Losses) {
    let mut losses = Losses::default();
    let name_of = |id: FunctionId| built.table.keys[id.index()].name.as_str();
    let weight_of = |id: FunctionId| built.graph.weights()[id.index()];
    let mut chosen: HashMap<&str, FunctionId> = HashMap::new();
    for id in order.functions() {
        let kept = chosen.entry(name_of(id)).or_insert(id);
        if weight_of(id) > weight_of(*kept) {
            *kept = id;
        }
    }
    let split: Option<HashSet<&str>> = binary.map(|binary| {
        binary.functions.iter().filter_map(|function| names::split_from(&function.name)).collect()
    });
    let other_names = binary.map(other_names).unwrap_or_default();
    let mut placed = Vec::with_capacity(chosen.len());
    for id in order.functions() {
        let name = name_of(id);
        if chosen.get(name) != Some(&id) {
            let reason = "functions whose name a heavier or earlier one has: placed together with it";
            losses.add(reason, u128::from(weight_of(id)), name);
            continue;
        }
        let is_split = split.as_ref().map(|split| split.contains(name));
        let mut sections = names::sections(name, is_split);
        for alias in other_names.get(name).into_iter().flatten().filter(|alias| !chosen.contains_key(*alias))
        {
            sections.own.extend(names::sections(alias, is_split).own);
        }
        placed.push(Placement {
            name: name.to_owned(),
            sections: sections.own,
            cold_sections: sections.cold,
            files: Vec::new(),
            weight: weight_of(id),
        });
    }
    (placed, losses)
}

/// The other names of each function, in the order of the binary's table.
fn other_names(binary: &Binary) -> HashMap<&str, Vec<&str>> {
    // More names at one address are no other names: a linker folded functions of equal code.
    const MOST_NAMES: usize = 8;
    let mut others: HashMap<&str, Vec<&str>> = HashMap::new();
    let addresses = binary.functions.chunk_by(|a, b| a.address == b.address);
    for here in addresses.filter(|here| (2..=MOST_NAMES).contains(&here.len())) {
        let names: Vec<&str> = here.iter().map(|function| function.name.as_str()).collect();
        for name in &names {
            let is_other =
                |other: &&str| other != name && names::symbol(other.as_bytes()).name != name.as_bytes();
            others.entry(name).or_default().extend(names.iter().copied().filter(is_other));
        }
    }
    others
}

/// The end of a section name that stands for those of all clones of a function: `.text.f` and this are the sections of `f.isra.0`,
/// `f.lto_priv.3` and the like. No compiler gives a section such an end.
const CLONES: &str = ".\u{0}*";

/// How the first line of our ordering files begins, behind its comment sign.
const MADE_BY: &str = "Made by sediment";

/// The first line of an ordering file, without its comment signs: what made it, and how to hand it on.
fn header(linker: &Linker) -> String {
    format!("{MADE_BY} {} for {}: {}", env!("CARGO_PKG_VERSION"), linker.summary, linker.arguments)
}

/// Writes one symbol a line; what `escape` refuses, and names that were there before, are left out and counted.
fn write_lines(
    placements: &[Placement],
    escape: fn(&str) -> Option<String>,
    text: &mut String,
    losses: &mut Losses,
) {
    let mut heaviest: HashMap<&str, (u64, usize)> = HashMap::new();
    for (turn, placement) in placements.iter().enumerate() {
        let kept = heaviest.entry(&placement.name).or_insert((placement.weight, turn));
        if placement.weight > kept.0 {
            *kept = (placement.weight, turn);
        }
    }
    for (turn, placement) in placements.iter().enumerate() {
        if heaviest.get(placement.name.as_str()).is_none_or(|(_, kept)| *kept != turn) {
            losses.add(REPEATED, 0, &placement.name);
        } else if let Some(line) = escape(&placement.name) {
            text.push_str(&line);
            text.push('\n');
        } else {
            losses.add(UNWRITABLE, 0, &placement.name);
        }
    }
}

/// Reads one symbol a line: blanks around it, empty lines and lines that begin with `#` do not count.
fn read_lines(text: &str) -> Vec<OrderedName> {
    text.lines()
        .zip(1..)
        .map(|(line, number)| (line.trim(), number))
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, number)| ordered(line, number))
        .collect()
}

/// Whether a text can be a list of symbols: a text, most of whose lines are one word or look like a demangled name.
fn looks_like_lines(text: &str) -> bool {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')).collect();
    let name = |line: &&&str| !line.contains(char::is_whitespace) || names::is_demangled(line);
    let words = lines.iter().filter(name).count();
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) && 2 * words > lines.len()
}

/// A name as others write it: the original's orders still have the version of a symbol behind it.
fn ordered(name: &str, line: u64) -> OrderedName {
    let bare = std::str::from_utf8(names::symbol(name.as_bytes()).name).unwrap_or(name);
    OrderedName { name: bare.to_owned(), line, file: None }
}

/// Reasons for which names are left out of an ordering file.
const REPEATED: &str = "functions that are listed already";
const UNWRITABLE: &str = "functions whose names the linker's language cannot express";
