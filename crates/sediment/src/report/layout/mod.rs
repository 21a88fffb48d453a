// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layout as a picture: functions on their pages, with their heat, before and after; one HTML file that needs nothing else.
//!
//! [`linked`] takes a layout from an ELF file, [`predicted`] from an order of its functions, [`html()`] draws two of them. A page's
//! heat is the share of all calls that its functions have; the calls of a function are spread evenly over its bytes, as nothing is
//! known of its inside. So that the file stays small whatever the program: rows of pages without heat are joined, neighbours
//! of one heat are one shape, and single functions are drawn for the heaviest pages alone.

mod curve;
mod html;
mod map;
mod pages;
mod zoom;

pub use html::html;

use crate::binary::Binary;
use crate::callgraph::GroupKind;
use crate::model::Geometry;
use crate::profile::FunctionKey;
use std::collections::{HashMap, HashSet};

/// Bytes of a page.
const PAGE: u64 = Geometry::COMMON.page;
/// Alignment of functions in a predicted layout, in bytes.
const ALIGNMENT: u64 = Geometry::COMMON.alignment;
/// A symbol that says to be larger is drawn so large: it comes from a damaged symbol table.
const LARGEST: u64 = 1 << 26;

/// Profile data of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfiledFunction {
    /// Calls into it, in any unit that is the same for all.
    pub weight: u64,
    /// Where an order puts it.
    pub group: GroupKind,
    /// Rank of first use, where it is known.
    pub first: Option<u64>,
}

/// A function with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    /// Linkage name.
    pub name: &'a str,
    /// Address of its first byte.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// None: the profile does not have it.
    pub seen: Option<ProfiledFunction>,
}

/// Functions by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Heading of the layout: text from the caller, escaped where it is drawn.
    pub title: String,
    /// The functions, one for each address.
    pub functions: Vec<Function<'a>>,
}

/// Profile data by the name of a function and, where several have that name, its file.
#[derive(Debug, Clone, Default)]
pub struct Heat<'a> {
    by_name: HashMap<&'a str, Vec<(&'a FunctionKey, ProfiledFunction)>>,
}

impl<'a> Heat<'a> {
    /// Of these functions.
    pub fn of(functions: impl Iterator<Item = (&'a FunctionKey, ProfiledFunction)>) -> Self {
        let mut heat = Self::default();
        for (key, seen) in functions {
            heat.by_name.entry(key.name.as_str()).or_default().push((key, seen));
        }
        heat
    }

    fn find(&self, name: &str, file: Option<&str>) -> Option<ProfiledFunction> {
        let named = self.by_name.get(name)?;
        let of_file = |wanted: Option<&str>| named.iter().find(|(key, _)| key.file.as_deref() == wanted);
        of_file(file).or_else(|| of_file(None)).map(|(_, seen)| *seen)
    }
}

/// The layout of a linked file. Of several names at one address the heaviest stands for all.
#[must_use]
pub fn linked<'a>(title: &str, binary: &'a Binary, heat: &Heat<'_>) -> Layout<'a> {
    let mut functions: Vec<Function<'a>> = Vec::new();
    for function in &binary.functions {
        let here = Function {
            name: &function.name,
            address: function.address,
            size: function.size.min(LARGEST),
            seen: heat.find(&function.name, function.file.as_deref()),
        };
        let weight = |function: &Function<'_>| function.seen.map(|seen| seen.weight);
        match functions.last_mut() {
            Some(last) if last.address == here.address => {
                let size = last.size.max(here.size);
                if weight(&here) > weight(last) {
                    *last = here;
                }
                last.size = size;
            }
            _ => functions.push(here),
        }
    }
    Layout { title: title.to_owned(), functions }
}

/// The layout that an order should give: the functions of these names one behind the other, behind them the rest as it lay.
#[must_use]
pub fn predicted<'a, 'n>(
    title: &str,
    before: &Layout<'a>,
    names: impl Iterator<Item = &'n str>,
) -> Layout<'a> {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, function) in before.functions.iter().enumerate() {
        by_name.entry(function.name).or_default().push(at);
    }
    let mut placed = HashSet::new();
    let mut order: Vec<usize> = names
        .flat_map(|name| by_name.get(name).into_iter().flatten().copied())
        .filter(|at| placed.insert(*at))
        .collect();
    order.extend((0..before.functions.len()).filter(|at| !placed.contains(at)));
    let mut end = before.functions.first().map_or(0, |function| function.address);
    let functions = order
        .into_iter()
        .map(|at| {
            let function = before.functions[at].clone();
            let address = end.next_multiple_of(ALIGNMENT);
            end = address.saturating_add(function.size);
            Function { address, ..function }
        })
        .collect();
    Layout { title: title.to_owned(), functions }
}
