// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LINKERS`] writes an order as a file for a linker, and reads it back for [`crate::verify`].
//!
//! Each section has its own statement, because several patterns in one statement would be placed in file order. The
//! linker treats unlisted sections as usual. To add a dialect, add a file here, a row in [`LINKERS`], a folder in
//! tests/golden/link and a section in docs/linkers.md. `sections` has the common code of the dialects that name
//! sections.

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
pub use lld::NO_GCC_LTO;
pub use objects::{add_sections_of_clones, placements_in};
use sediment_core::skipped::{Reason, Skipped};

use sediment_core::binary::names;
use sediment_core::binary::objects::ObjectPath;
use sediment_core::error::{Error, ErrorCode, Result};
use std::collections::{HashMap, HashSet};

/// A function to be placed, and the names by which a linker can identify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Linkage name.
    pub name: String,
    /// Input sections that may contain it, in the order of placement.
    pub sections: Vec<String>,
    /// Input sections that may contain its split cold part, to be placed after all functions.
    pub cold_sections: Vec<String>,
    /// Linkage name of its split cold part, if it is known to have one and [`Self::cold_sections`] are to be placed.
    pub cold_name: Option<String>,
    /// Object files of these sections, for dialects that distinguish files; empty for all files.
    pub files: Vec<ObjectPath>,
    /// Its weight, by which dialects that can have only one function of a name choose.
    pub weight: u64,
    /// True if it represents all functions with its name that no placement by file covers; if files are not named as
    /// expected, these are all of them.
    pub is_rest: bool,
    /// Calls of the function by name, with counts, for dialects that leave the order to the linker; otherwise empty.
    pub calls: Vec<(String, u64)>,
}

/// One dialect of ordering file.
#[derive(Debug, Clone, Copy)]
pub struct Linker {
    /// Name by which the user chooses it.
    pub name: &'static str,
    /// The linkers that read it.
    pub summary: &'static str,
    /// The compiler's arguments that pass the file to the linker; `FILE` represents its path.
    pub arguments: &'static str,
    /// True for a linker that reads this dialect, from the first line of its `--version` and from its `--help`. The
    /// wrapper uses the first matching row.
    pub is_read_by: fn(version: &str, help: &str) -> bool,
    /// True if it writes calls, from which the linker computes an order: [`Placement::calls`].
    pub wants_calls: bool,
    /// Writes the placements; functions that the dialect cannot express are skipped and counted.
    pub write: fn(&[Placement]) -> (String, Skipped),
    /// Recognises the dialect by its text.
    pub recognises: fn(&str) -> bool,
    /// Returns the names of the functions in such a text, in order; cold parts as `NAME.cold`.
    pub read: fn(&str) -> Result<Vec<OrderedName>>,
}

/// A function in an ordering file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderedName {
    /// Linkage name.
    pub name: String,
    /// Line of its first mention in the file, from 1.
    pub line: u64,
    /// Base name of its object file, if the dialect has it.
    pub file: Option<String>,
}

/// All dialects.
pub const LINKERS: &[Linker] =
    &[gnu_ld::LINKER, gnu_ld_script::LINKER, gold::LINKER, lld_call_graph::LINKER, lld::LINKER, list::LINKER];

/// Returns the dialect with this name.
#[must_use]
pub fn linker(name: &str) -> Option<&'static Linker> {
    LINKERS.iter().find(|linker| linker.name == name)
}

/// Reads an ordering file in the dialect that its content shows. Returns its functions, each name once at its first
/// position.
///
/// # Errors
/// If no dialect recognises the text, its reader refuses it, or it lists no functions.
pub fn read(text: &str) -> Result<(&'static Linker, Vec<OrderedName>)> {
    let known = || LINKERS.iter().map(|linker| linker.name).collect::<Vec<_>>().join(", ");
    let linker = LINKERS.iter().find(|linker| (linker.recognises)(text)).ok_or_else(|| {
        if text.trim_start().starts_with("digraph") {
            return Error::new(ErrorCode::UnknownFormat, "a profile, not an ordering file").with_hint(
                "give it as --profile; to make an ordering file from it: sediment order PROFILE --binary PROGRAM --linker auto -o FILE",
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
        return Err(Error::new(ErrorCode::EmptyInput, "the ordering file lists no function")
            .with_hint("the linker's own layout is best, or the profile is empty or from another program"));
    }
    Ok((linker, asked))
}

/// True for an ordering file of ours without functions: the program is linked as usual.
#[must_use]
pub fn lists_no_function(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let is_ours = first.trim_start_matches(['#', '/', '*', ' ']).starts_with(MADE_BY);
    let linker = LINKERS.iter().find(|linker| (linker.recognises)(text)).filter(|_| is_ours);
    linker.is_some_and(|linker| (linker.read)(text).is_ok_and(|asked| asked.is_empty()))
}

/// Suffix of a section name for the sections of all clones of a function: `.text.f` with this suffix denotes the
/// sections of `f.isra.0`, `f.lto_priv.3` and so on. No compiler uses this suffix.
const CLONES: &str = ".\u{0}*";

/// Beginning of the first line of our ordering files, after the comment sign.
const MADE_BY: &str = "Made by sediment";

/// First line of an ordering file, without its comment signs: the program that made it, and how to use the file.
fn header(linker: &Linker) -> String {
    format!("{MADE_BY} {} for {}: {}", env!("CARGO_PKG_VERSION"), linker.summary, linker.arguments)
}

/// For each placement, whether it is the heaviest with its name, or the first of equally heavy ones: for dialects that
/// can have only one function of a name.
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

/// Counts a placement whose name is already listed, unless it only repeats placements by file.
fn repeated(placement: &Placement, skipped: &mut Skipped) {
    if !placement.is_rest {
        skipped.add(Reason::AlreadyListed, u128::from(placement.weight), &placement.name);
    }
}

/// Writes one symbol per line; skips and counts repeated names, and names that `escape` refuses.
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

/// Reads one symbol per line; ignores blanks around it, empty lines, and lines that begin with `#`.
fn read_lines(text: &str) -> Vec<OrderedName> {
    text.lines()
        .zip(1..)
        .map(|(line, number)| (line.trim(), number))
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, number)| ordered(line, number))
        .collect()
}

/// True if a text may be a list of symbols: most of its lines are one word or look like a demangled name.
fn looks_like_lines(text: &str) -> bool {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')).collect();
    let name = |line: &&&str| !line.contains(char::is_whitespace) || names::is_demangled(line);
    let words = lines.iter().filter(name).count();
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) && 2 * words > lines.len()
}

/// Makes a function from a name in another tool's order: upstream sediment's orders still have symbol versions.
fn ordered(name: &str, line: u64) -> OrderedName {
    let bare = std::str::from_utf8(names::symbol(name.as_bytes()).name).unwrap_or(name);
    OrderedName { name: bare.to_owned(), line, file: None }
}
