// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of a program for the script of the page, without repetition: columns of functions, sorted by address before;
//! addresses are stored as distances.
//!
//! Functions are numbered: first the functions of the layout before, by address, then functions that exist only in the
//! layout after, then functions of other DSOs. The heat of the program's own functions is their share of the calls into
//! it. Calls are counts, in a unit large enough for the script's numbers.

use super::calls::{CallEnd, parts};
use super::map::shown;
use super::{Layout, LayoutFunction, PAGE, ReportedProgram};
use sediment_core::callgraph::GroupKind;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Numbers of functions, and the data.
pub(super) struct PageData {
    /// Number in the data, by number in the layout after.
    pub(super) after: Vec<u32>,
    /// Caller, callee and number of calls.
    pub(super) edges: Vec<(u32, u32, u64)>,
    /// Names as shown.
    pub(super) names: Vec<String>,
    pub(super) json: Value,
}

/// The data in the form that the script reads.
#[derive(Serialize)]
struct ScriptData {
    /// Name of the program.
    #[serde(rename = "q")]
    program: String,
    #[serde(rename = "n")]
    names: Vec<String>,
    /// See [`linkage_names`].
    #[serde(rename = "l")]
    linkage_names: Vec<String>,
    /// Sizes in bytes.
    #[serde(rename = "s")]
    sizes: Vec<u64>,
    /// Number of the program's own functions.
    #[serde(rename = "k")]
    own: usize,
    /// Number of all calls.
    #[serde(rename = "c")]
    calls: u64,
    /// Number of calls into the program.
    #[serde(rename = "t")]
    calls_in: u64,
    /// Number of calls into each function of other DSOs.
    #[serde(rename = "v")]
    calls_in_others: Vec<u64>,
    /// Distances between the numbers of profiled functions.
    #[serde(rename = "p")]
    profiled: Vec<usize>,
    /// Heat of each profiled function.
    #[serde(rename = "w")]
    heat: Vec<u64>,
    /// A digit per profiled function for its group.
    #[serde(rename = "g")]
    groups: String,
    /// Rank of first use of each profiled function, from 1; 0 without one.
    #[serde(rename = "f")]
    first_uses: Vec<u64>,
    #[serde(rename = "b")]
    before: SideData,
    #[serde(rename = "a")]
    after: SideData,
    /// In turn: distance to the last caller, callee, and number of calls.
    #[serde(rename = "e")]
    edges: Vec<u64>,
    /// Other DSOs, with their number of functions.
    #[serde(rename = "x")]
    elsewhere: Vec<(String, usize)>,
    /// See [`objects`].
    #[serde(rename = "o")]
    objects: Vec<String>,
    #[serde(rename = "r")]
    object_runs: Vec<usize>,
}

/// A layout.
#[derive(Serialize)]
struct SideData {
    /// Distances between addresses; the first is from the beginning of its page.
    #[serde(rename = "d")]
    distances: Vec<u64>,
    /// Runs of the numbers of its functions, as first number and length; empty if the numbers are 0, 1, 2 and so on.
    #[serde(rename = "i")]
    runs: Vec<u32>,
}

/// Longest name in characters.
const LONGEST: usize = 240;

pub(super) fn data(program: &ReportedProgram<'_>) -> PageData {
    let before = &program.before.functions;
    let mut functions: Vec<&LayoutFunction<'_>> = before.iter().collect();
    let after = numbers_after(&mut functions, &program.after.functions);
    let of_program = functions.len();
    let total = before.iter().map(|function| u128::from(super::pages::weight(function))).sum::<u128>();
    let mut names: Vec<String> = functions.iter().map(|function| shown(function.name, LONGEST)).collect();
    names.extend(program.calls.elsewhere.iter().map(|function| shown(function.name, LONGEST)));
    let mut sizes: Vec<u64> = functions.iter().map(|function| function.size).collect();
    sizes.extend(program.calls.elsewhere.iter().map(|function| function.size));

    let (mut profiled, mut heat, mut groups, mut first) = (vec![], vec![], String::new(), vec![]);
    let mut last = 0;
    for (at, function) in functions.iter().enumerate() {
        let Some(seen) = function.seen else { continue };
        profiled.push(at - last);
        last = at;
        heat.push(parts(u128::from(seen.weight), total));
        groups.push(match seen.group {
            GroupKind::Hot => '0',
            GroupKind::Startup => '1',
            GroupKind::Warm => '2',
            GroupKind::Unprofiled => '3',
        });
        first.push(seen.first.map_or(0, |first| first.saturating_add(1)));
    }

    let mut by_id: HashMap<u32, u32> = HashMap::new();
    for (function, at) in functions.iter().zip(0..) {
        if let Some(id) = function.id {
            by_id.entry(id).or_insert(at);
        }
    }
    // Power of two that divides all counts, so that their sum fits in 53 bits.
    let shift = (u128::BITS - program.calls.total.leading_zeros()).saturating_sub(53);
    let scaled = |count: u128| (count >> shift).max(u128::from(count > 0)) as u64;
    let number = |end: CallEnd| match end {
        CallEnd::Ours(id) => by_id.get(&id).copied(),
        CallEnd::Elsewhere(at) => Some(of_program as u32 + at),
    };
    let mut edges: Vec<(u32, u32, u64)> = program
        .calls
        .edges
        .iter()
        .filter_map(|(from, to, count)| Some((number(*from)?, number(*to)?, scaled(*count))))
        .collect();
    edges.sort_unstable();
    let mut last = 0;
    let mut flat = Vec::with_capacity(3 * edges.len());
    for (from, to, count) in &edges {
        flat.extend([u64::from(from - last), u64::from(*to), *count]);
        last = *from;
    }

    let (objects, object_runs) = objects(program, &functions);
    let linkage = functions.iter().map(|function| function.name);
    let linkage = linkage.chain(program.calls.elsewhere.iter().map(|function| function.name));
    let into_program = program.calls.weights.iter().fold(0_u128, |sum, weight| sum.saturating_add(*weight));
    let into_others: Vec<u64> =
        program.calls.elsewhere.iter().map(|function| scaled(function.weight)).collect();
    let data = ScriptData {
        program: shown(&program.name, LONGEST),
        linkage_names: linkage_names(linkage, &names),
        names: names.clone(),
        sizes,
        own: of_program,
        calls: scaled(program.calls.total),
        calls_in: scaled(into_program),
        calls_in_others: into_others,
        profiled,
        heat,
        groups,
        first_uses: first,
        before: side(&program.before, None),
        after: side(&program.after, Some(&after)),
        edges: flat,
        elsewhere: elsewhere(program),
        objects,
        object_runs,
    };
    PageData { after, edges, names, json: json!(data) }
}

/// Other DSOs, with their number of functions.
fn elsewhere(program: &ReportedProgram<'_>) -> Vec<(String, usize)> {
    let dsos = program.calls.elsewhere.chunk_by(|a, b| a.dso == b.dso);
    dsos.map(|functions| (shown(functions[0].dso, LONGEST), functions.len())).collect()
}

/// Linkage names that differ from the shown names; empty if none does. The first two characters are the lengths of the
/// common beginning and the common end with the previous name, from `0` on: neighbours often belong to the same class
/// and have the same parameters.
fn linkage_names<'f>(names: impl Iterator<Item = &'f str>, shown: &[String]) -> Vec<String> {
    const NONE: char = '0';
    const MOST: usize = (b'~' - b'0') as usize;
    let mut last = "";
    let linkage: Vec<String> = names
        .zip(shown)
        .map(|(name, shown)| {
            // Demangled names begin differently from mangled ones.
            if !name.starts_with('_') || !name.is_ascii() || shown.get(..2) == name.get(..2) {
                return String::new();
            }
            let name = &name[..name.len().min(LONGEST)];
            let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| {
                pairs.take(MOST).take_while(|(a, b)| a == b).count()
            };
            let begin = same(&mut last.bytes().zip(name.bytes()));
            let [rest_of_last, rest] = [last, name].map(|name| &name[begin..]);
            let end = same(&mut rest_of_last.bytes().rev().zip(rest.bytes().rev()));
            last = name;
            let number = |count: usize| char::from(NONE as u8 + count as u8);
            format!("{}{}{}", number(begin), number(end), &rest[..rest.len() - end])
        })
        .collect();
    if linkage.iter().all(String::is_empty) { Vec::new() } else { linkage }
}

/// Numbers of the functions after. Functions are matched in turn with the functions before that have the same name.
fn numbers_after<'f>(
    functions: &mut Vec<&'f LayoutFunction<'f>>,
    after: &'f [LayoutFunction<'f>],
) -> Vec<u32> {
    let mut by_name: HashMap<(&str, Option<u32>), Vec<u32>> = HashMap::new();
    for (at, function) in functions.iter().enumerate().rev() {
        by_name.entry((function.name, function.id)).or_default().push(at as u32);
    }
    after
        .iter()
        .map(|function| {
            let same = by_name.get_mut(&(function.name, function.id)).and_then(Vec::pop);
            same.unwrap_or_else(|| {
                functions.push(function);
                functions.len() as u32 - 1
            })
        })
        .collect()
}

fn side(layout: &Layout<'_>, numbers: Option<&[u32]>) -> SideData {
    let mut last = layout.functions.first().map_or(0, |function| function.address / PAGE * PAGE);
    let distances: Vec<u64> = layout
        .functions
        .iter()
        .map(|function| {
            let distance = function.address - last;
            last = function.address;
            distance
        })
        .collect();
    let mut runs: Vec<u32> = Vec::new();
    for number in numbers.into_iter().flatten() {
        match runs.as_mut_slice() {
            [.., first, length] if *first + *length == *number => *length += 1,
            _ => runs.extend([*number, 1]),
        }
    }
    SideData { distances, runs }
}

/// Names of object files, and runs: one plus the index of a name (0 for unknown), and length.
fn objects(program: &ReportedProgram<'_>, functions: &[&LayoutFunction<'_>]) -> (Vec<String>, Vec<usize>) {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut runs: Vec<usize> = Vec::new();
    let before = program.before.functions.len();
    for (at, function) in functions.iter().enumerate() {
        let object = program.objects.get(&function.address).filter(|_| at < before);
        let index = object.map_or(0, |object| {
            *known.entry(object).or_insert_with(|| {
                names.push(shown(object, LONGEST));
                names.len()
            })
        });
        match runs.as_mut_slice() {
            [.., last, length] if *last == index => *length += 1,
            _ => runs.extend([index, 1]),
        }
    }
    (names, runs)
}

#[cfg(test)]
mod tests {
    use super::linkage_names;

    #[test]
    fn linkage_names_are_those_that_differ_from_the_shown_ones() {
        let names = ["_ZN1a3fooEv", "_ZN1a3barEv", "main", "_Zé", "_start"];
        let shown = ["a::foo()", "a::bar()", "main", "Zé", "_start"].map(str::to_owned);
        assert_eq!(linkage_names(names.into_iter(), &shown), ["00_ZN1a3fooEv", "62bar", "", "", ""]);
        assert!(linkage_names(["main"].into_iter(), &["main".to_owned()]).is_empty());
    }
}
