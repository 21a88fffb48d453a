// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws layouts: functions on their pages, with their heat, before and after, in one self-contained HTML file.
//!
//! [`linked`] takes a layout from an ELF file, [`predicted`] from an order of its functions, [`html()`] draws a
//! [`LayoutReport`] of them. The file contains the pictures, so that it can be read without the script, which searches
//! them with the data of each program. A page's heat is its functions' share of all calls; the calls of a function are
//! spread evenly over its bytes, because nothing is known about its inside. To keep the file small for any program,
//! rows of pages without heat are merged, neighbours with the same heat are one shape, and single functions are drawn
//! only for the heaviest pages.

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

/// Size of a page in bytes.
const PAGE: u64 = Geometry::COMMON.page;
/// Alignment of functions in a predicted layout, in bytes.
const ALIGNMENT: u64 = Geometry::COMMON.alignment;
/// A symbol with a larger size is drawn with this size: it comes from a damaged symbol table.
const LARGEST: u64 = 1 << 26;

/// Profile data of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfiledFunction {
    /// Calls into it, in any unit that is the same for all functions.
    pub weight: u64,
    /// Group of the function in an order.
    pub group: GroupKind,
    /// Rank of first use, if it is known.
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
    /// `None`: the profile does not have the function.
    pub seen: Option<ProfiledFunction>,
    /// Index in the functions of [`ProfileByName`], if it is there.
    pub id: Option<u32>,
}

/// Functions by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Heading of the layout, not escaped yet.
    pub title: String,
    /// The functions, one for each address.
    pub functions: Vec<LayoutFunction<'a>>,
}

/// A program or library in a report.
#[derive(Debug, Clone, Default)]
pub struct ReportedProgram<'a> {
    /// Name, not escaped yet.
    pub name: String,
    /// The original layout.
    pub before: Layout<'a>,
    /// The layout with an order.
    pub after: Layout<'a>,
    /// Object file or compilation unit of functions, by their address in the layout before.
    pub objects: HashMap<u64, String>,
    /// Calls of the profile.
    pub calls: ProfileCalls<'a>,
    /// Ratio of the predicted instruction TLB misses after to those before.
    pub misses: Option<f64>,
    /// One sentence on the expected benefit, not escaped yet.
    pub verdict: String,
    /// Share of the weight that the file after has placed as ordered, in parts per million.
    pub placed: Option<u64>,
    /// Further facts, such as the linker: names and values, not escaped yet.
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
    /// Weights of all blocks, and of the blocks in the cold part; `None` if the control-flow graph in the file differs
    /// from the counted one, or if the file does not number its blocks.
    pub weights: Option<[u128; 2]>,
}

/// Counted or simulated instruction TLB misses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredMisses {
    /// Ratio of the misses after to those before.
    pub ratio: f64,
    /// True if they were simulated.
    pub is_simulated: bool,
}

/// All data of a page.
#[derive(Debug, Clone, Default)]
pub struct LayoutReport<'a> {
    /// Title, not escaped yet.
    pub title: String,
    /// Programs in the order on the page.
    pub programs: Vec<ReportedProgram<'a>>,
    /// Instruction TLB misses of an experiment.
    pub measured: Option<MeasuredMisses>,
    /// A sentence on the saved time, not escaped yet. `None`: it was not measured.
    pub time: Option<String>,
    /// Result of an evaluation, as HTML with its CSS rules.
    pub evaluation: Option<(String, &'static str)>,
    /// Sentences on how the page was made, not escaped yet.
    pub notes: Vec<String>,
    /// Date, as text.
    pub date: String,
    /// Number of the heaviest pages that are drawn with their functions.
    pub most_pages: usize,
}

/// Profile data by a function's name and, if several have that name, by its file.
#[derive(Debug, Clone, Default)]
pub struct ProfileByName<'a> {
    by_name: HashMap<&'a str, Vec<(&'a FunctionKey, u32, ProfiledFunction)>>,
}

impl<'a> ProfileByName<'a> {
    /// Makes it from these functions.
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

/// Makes the layout of a linked file. Of several names at one address, only the heaviest is used.
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

/// Makes the layout that an order should give: the functions with these names one after the other, followed by the rest
/// in its former order.
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
