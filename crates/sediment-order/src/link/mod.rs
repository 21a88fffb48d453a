// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LINKERS`]: an order as a file that a linker understands, and back again for [`crate::verify`].
//!
//! One statement per section: several patterns in one statement would be placed in file order. What is not listed keeps the
//! linker's own default treatment. To add a dialect: one file here, one row in [`LINKERS`], a folder in tests/golden/link, a
//! section of docs/linkers.md. `sections` holds what the dialects that name sections share.

mod align;
pub mod gnu_ld;
pub mod gnu_ld_script;
pub mod gold;
mod linked;
mod list;
pub mod lld;
mod lld_call_graph;
mod objects;
mod sections;

pub use align::aligned;
pub use linked::placements;
pub use objects::{add_sections_of_clones, placements_in};
use sediment_core::skipped::{Reason, Skipped};

use sediment_core::binary::names;
use sediment_core::binary::objects::ObjectPath;
use sediment_core::error::{Error, ErrorCode, Result};
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
    /// Linkage name of its split cold part, where it is known to have one and [`Self::cold_sections`] are to be placed.
    pub cold_name: Option<String>,
    /// The object files whose sections these are, for dialects that tell files apart; empty: those of every file.
    pub files: Vec<ObjectPath>,
    /// Its weight, by which dialects that know one function of a name choose.
    pub weight: u64,
    /// It stands for the functions of its name that no placement by file has: where files are not called as expected, all of them.
    pub is_rest: bool,
    /// Calls of the function, by name, with counts; for dialects that leave the order to the linker; empty for all
    /// others.
    pub calls: Vec<(String, u64)>,
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
    /// True for a linker that reads this dialect, by the first line that it prints for `--version`, and its `--help`. The wrapper takes the
    /// first such row.
    pub is_read_by: fn(version: &str, help: &str) -> bool,
    /// True if it writes calls, from which the linker makes an order: [`Placement::calls`].
    pub wants_calls: bool,
    /// Writes the placements; functions that the dialect cannot express are skipped and counted.
    pub write: fn(&[Placement]) -> (String, Skipped),
    /// Recognises the dialect by its text.
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
    &[gnu_ld::LINKER, gnu_ld_script::LINKER, gold::LINKER, lld_call_graph::LINKER, lld::LINKER, list::LINKER];

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
        if text.trim_start().starts_with("digraph") {
            return Error::new(ErrorCode::UnknownFormat, "a profile, not an ordering file").with_hint(
                "give it as --profile; to make an ordering file of it: sediment order PROFILE --binary PROGRAM --linker auto -o FILE",
            );
        }
        Error::new(ErrorCode::UnknownFormat, "unknown kind of ordering file")
            .with_found(text.lines().next().unwrap_or_default().as_bytes())
            .with_hint(format!("supported: {}", known()))
    })?;
    let mut asked = (linker.read)(text)?;
    let mut seen = HashSet::new();
    asked.retain(|name| seen.insert((name.name.clone(), name.file.clone())));
    if asked.is_empty() {
        return Err(Error::new(ErrorCode::EmptyInput, "the ordering file lists no function").with_hint(
            "the program is best as it is linked, or the profile is empty or of another program",
        ));
    }
    Ok((linker, asked))
}

/// True for an ordering file of ours that lists no function: the program stays as it is linked.
#[must_use]
pub fn lists_no_function(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let is_ours = first.trim_start_matches(['#', '/', '*', ' ']).starts_with(MADE_BY);
    let linker = LINKERS.iter().find(|linker| (linker.recognises)(text)).filter(|_| is_ours);
    linker.is_some_and(|linker| (linker.read)(text).is_ok_and(|asked| asked.is_empty()))
}

/// The end of a section name that stands for those of all clones of a function: `.text.f` and this are the sections of `f.isra.0`,
/// `f.lto_priv.3` and the like. No compiler gives a section such an end.
const CLONES: &str = ".\u{0}*";

/// Start of the first line of our ordering files, after the comment sign.
const MADE_BY: &str = "Made by sediment";

/// The first line of an ordering file, without its comment signs: what made it, and how to hand it on.
fn header(linker: &Linker) -> String {
    format!("{MADE_BY} {} for {}: {}", env!("CARGO_PKG_VERSION"), linker.summary, linker.arguments)
}

/// Of each placement, whether it is the heaviest of its name, and of equally heavy ones the first: for dialects that know one
/// function of a name.
fn heaviest(placements: &[Placement]) -> Vec<bool> {
    let mut heaviest: HashMap<&str, (u64, usize)> = HashMap::new();
    for (turn, placement) in placements.iter().enumerate() {
        let kept = heaviest.entry(&placement.name).or_insert((placement.weight, turn));
        if placement.weight > kept.0 {
            *kept = (placement.weight, turn);
        }
    }
    let turns = placements.iter().enumerate();
    turns
        .map(|(turn, placement)| heaviest.get(placement.name.as_str()).is_some_and(|(_, kept)| *kept == turn))
        .collect()
}

/// Counts a placement whose name is listed already, unless it only says again what others say of single files.
fn repeated(placement: &Placement, skipped: &mut Skipped) {
    if !placement.is_rest {
        skipped.add(Reason::AlreadyListed, u128::from(placement.weight), &placement.name);
    }
}

/// Writes one symbol a line; names that `escape` refuses, and repeated names, are skipped and counted.
fn write_lines(
    placements: &[Placement],
    escape: fn(&str) -> Option<String>,
    text: &mut String,
    skipped: &mut Skipped,
) {
    let kept = heaviest(placements);
    for (placement, kept) in placements.iter().zip(kept) {
        if !kept {
            repeated(placement, skipped);
        } else if let Some(line) = escape(&placement.name) {
            text.push_str(&line);
            text.push('\n');
        } else {
            skipped.add(Reason::UnwritableName, 0, &placement.name);
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

/// True if a text can be a list of symbols: most of its lines are one word or look like a demangled name.
fn looks_like_lines(text: &str) -> bool {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')).collect();
    let name = |line: &&&str| !line.contains(char::is_whitespace) || names::is_demangled(line);
    let words = lines.iter().filter(name).count();
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) && 2 * words > lines.len()
}

/// A name of another tool's order: upstream sediment's orders still have the version of a symbol behind it.
fn ordered(name: &str, line: u64) -> OrderedName {
    let bare = std::str::from_utf8(names::symbol(name.as_bytes()).name).unwrap_or(name);
    OrderedName { name: bare.to_owned(), line, file: None }
}
