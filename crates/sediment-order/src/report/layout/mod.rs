// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layout as a picture: functions on their pages, with their heat, before and after; one HTML file that needs nothing else.
//!
//! [`linked`] takes a layout from an ELF file, [`predicted`] from an order of its functions, [`html()`] draws a [`LayoutReport`] of them. The
//! pictures are in the file, so that it can be read without script; the script searches them by the data of each program. A page's
//! heat is the share of all calls that its functions have; the calls of a function are spread evenly over its bytes, as nothing is
//! known of its inside. So that the file stays small whatever the program: rows of pages without heat are joined, neighbours
//! of one heat are one shape, and single functions are drawn for the heaviest pages alone.

mod calls;
mod curve;
mod data;
mod first_uses;
mod flame;
mod html;
mod map;
mod pages;
mod picture;
mod tables;
mod treemap;
mod zoom;

pub use calls::ProfileCalls;
pub use html::html;
pub(super) use pages::{HEAT_COLOURS, heat_step, percent};
pub use picture::picture;

use crate::model::Geometry;
use sediment_core::binary::Binary;
use sediment_core::callgraph::GroupKind;
use sediment_core::profile::FunctionKey;
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
pub struct LayoutFunction<'a> {
    /// Linkage name.
    pub name: &'a str,
    /// Address of its first byte.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// None: the profile does not have it.
    pub seen: Option<ProfiledFunction>,
    /// Its place among the functions of [`ProfileByName`], where it has one.
    pub id: Option<u32>,
}

/// Functions by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Heading of the layout: text from the caller, escaped where it is drawn.
    pub title: String,
    /// The functions, one for each address.
    pub functions: Vec<LayoutFunction<'a>>,
}

/// A program or library in a report.
#[derive(Debug, Clone, Default)]
pub struct ReportedProgram<'a> {
    /// Any text.
    pub name: String,
    /// The layout to start from.
    pub before: Layout<'a>,
    /// The layout in an order.
    pub after: Layout<'a>,
    /// The object file or compilation unit of functions by their address before.
    pub objects: HashMap<u64, String>,
    /// Calls of the profile.
    pub calls: ProfileCalls<'a>,
    /// Predicted instruction TLB misses after, as a ratio of those before.
    pub misses: Option<f64>,
    /// Is it worth while, in a sentence; any text.
    pub verdict: String,
    /// Share of the weight that is placed as ordered in the file after, in parts per million.
    pub placed: Option<u64>,
    /// Further facts, such as the linker: names and values, any text.
    pub facts: Vec<(String, String)>,
    /// Functions that the compiler split by block counts.
    pub split: Vec<SplitFunction>,
}

/// A function with a hot and a cold part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitFunction {
    /// Linkage name.
    pub name: String,
    /// Bytes outside the cold part.
    pub bytes: u64,
    /// Bytes of the cold part.
    pub cold_bytes: u64,
    /// Weights of all blocks, and of those in the cold part; None where the file has another control-flow graph than was counted, or
    /// does not number its blocks.
    pub weights: Option<[u128; 2]>,
}

/// Instruction TLB misses that were counted or simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredMisses {
    /// Misses after as a ratio of those before.
    pub ratio: f64,
    /// True if a simulator found them.
    pub is_simulated: bool,
}

/// All that a page shows.
#[derive(Debug, Clone, Default)]
pub struct LayoutReport<'a> {
    /// Any text.
    pub title: String,
    /// Programs in the order of the page.
    pub programs: Vec<ReportedProgram<'a>>,
    /// Instruction TLB misses of an experiment.
    pub measured: Option<MeasuredMisses>,
    /// Time saved, as a sentence; any text. None: it was not measured.
    pub time: Option<String>,
    /// Result of an evaluation, as HTML with its rules of style.
    pub evaluation: Option<(String, &'static str)>,
    /// Sentences on how the page was made; any text.
    pub notes: Vec<String>,
    /// Date, as text.
    pub date: String,
    /// Number of the heaviest pages that are drawn function by function.
    pub most_pages: usize,
}

/// Profile data by the name of a function and, where several have that name, its file.
#[derive(Debug, Clone, Default)]
pub struct ProfileByName<'a> {
    by_name: HashMap<&'a str, Vec<(&'a FunctionKey, u32, ProfiledFunction)>>,
}

impl<'a> ProfileByName<'a> {
    /// Of these functions.
    pub fn of(functions: impl Iterator<Item = (&'a FunctionKey, ProfiledFunction)>) -> Self {
        let mut heat = Self::default();
        for ((key, seen), id) in functions.zip(0..) {
            heat.by_name.entry(key.name.as_str()).or_default().push((key, id, seen));
        }
        heat
    }

    fn find(&self, name: &str, file: Option<&str>) -> Option<(u32, ProfiledFunction)> {
        let named = self.by_name.get(name)?;
        let of_file = |wanted: Option<&str>| named.iter().find(|(key, ..)| key.file.as_deref() == wanted);
        of_file(file).or_else(|| of_file(None)).map(|(_, id, seen)| (*id, *seen))
    }
}

/// The layout of a linked file. Of several names at one address the heaviest stands for all.
#[must_use]
pub fn linked<'a>(title: &str, binary: &'a Binary, heat: &ProfileByName<'_>) -> Layout<'a> {
    let mut functions: Vec<LayoutFunction<'a>> = Vec::new();
    for function in &binary.functions {
        let found = heat.find(&function.name, function.file.as_deref());
        let here = LayoutFunction {
            name: &function.name,
            address: function.address,
            size: function.size.min(LARGEST),
            seen: found.map(|(_, seen)| seen),
            id: found.map(|(id, _)| id),
        };
        let weight = |function: &LayoutFunction<'_>| function.seen.map(|seen| seen.weight);
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
            LayoutFunction { address, ..function }
        })
        .collect();
    Layout { title: title.to_owned(), functions }
}
