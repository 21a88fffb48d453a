// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions that a linker moved away from the place that other code relies on: [`displaced`].
//!
//! If the linker moved a function out of a range between two labels, or away from code that continues into it, only the
//! object files show this.
//!
//! OCaml's runtime considers an address OCaml code if it is between `camlUnit__code_begin` and `code_end` of a unit.
//! Code outside works at first, but a stack overflow there is a crash instead of an exception. Each unit has a function
//! `entry`; a unit is whole if no other code is between its functions.

use sediment_core::binary::objects::{InputObjects, ObjectFunction};
use sediment_core::binary::{Binary, BinaryFunction, names};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Separators of a unit and a function: OCaml 4, 5.1 and later.
const SEPARATORS: [&str; 3] = ["__", ".", "$"];

/// Bytes of padding between two functions, over which code may run on.
const MOST_PADDING: u64 = 64;

/// A function that is not where other code looks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplacedFunction {
    /// Linkage name.
    pub name: String,
    /// Its required place.
    pub place: RequiredPlace,
}

/// A place that other code relies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredPlace {
    /// Among the other functions of its OCaml unit.
    OcamlUnit,
    /// Between these two labels.
    Between {
        /// Label of the beginning.
        begin: String,
        /// Label of the end.
        end: String,
    },
    /// Right after this function, which runs on into it.
    Behind(String),
}

/// Finds the functions of a linked file that are not where other code looks for them, if the file and the objects of
/// the link show it.
#[must_use]
pub fn displaced(binary: &Binary, objects: &InputObjects) -> Vec<DisplacedFunction> {
    let of_ocaml = outside_range(binary).into_iter();
    let mut displaced: Vec<DisplacedFunction> = of_ocaml
        .map(|name| DisplacedFunction { name: name.to_owned(), place: RequiredPlace::OcamlUnit })
        .collect();
    let mut by_name: HashMap<&str, Vec<&BinaryFunction>> = HashMap::new();
    for function in &binary.functions {
        by_name.entry(function.name.as_str()).or_default().push(function);
    }
    // The only position of a function of an object.
    let find = |function: &ObjectFunction| -> Option<&BinaryFunction> {
        let named = by_name.get(function.name.as_str())?.iter();
        let of_file = named.filter(|there| function.file.is_none() || there.file == function.file);
        let places: BTreeSet<u64> = of_file.clone().map(|there| there.address).collect();
        of_file.copied().next().filter(|_| places.len() == 1)
    };
    for range in &objects.label_ranges {
        let linked: Vec<_> = binary
            .label_ranges
            .iter()
            .filter(|there| (&there.begin, &there.end) == (&range.begin, &range.end))
            .collect();
        let [linked] = linked[..] else { continue };
        let is_outside = |there: &&BinaryFunction| !(linked.from..linked.to).contains(&there.address);
        let functions = range.functions.iter().map(|function| &objects.functions[*function]);
        displaced.extend(functions.filter_map(find).filter(is_outside).map(|there| DisplacedFunction {
            name: there.name.clone(),
            place: RequiredPlace::Between { begin: range.begin.clone(), end: range.end.clone() },
        }));
    }
    for (function, next) in &objects.running_on {
        let [function, next] = [function, next].map(|index| &objects.functions[*index]);
        // Linkers gather groups without an order, too.
        if function.unordered_place().0 != next.unordered_place().0 {
            continue;
        }
        if let (Some(one), Some(next)) = (find(function), find(next)) {
            if next.address.checked_sub(one.end()).is_none_or(|between| between >= MOST_PADDING) {
                displaced.push(DisplacedFunction {
                    name: next.name.clone(),
                    place: RequiredPlace::Behind(one.name.clone()),
                });
            }
        }
    }
    displaced
}

/// Finds the OCaml functions that are separate from most of their unit, by address; empty for a correct file.
#[must_use]
fn outside_range(binary: &Binary) -> Vec<&str> {
    let units: HashSet<&str> =
        binary.functions.iter().filter_map(|function| unit_of_entry(&function.name)).collect();
    if units.is_empty() {
        return Vec::new();
    }
    let mut by_address: Vec<&BinaryFunction> =
        binary.functions.iter().filter(|function| !function.untyped).collect();
    by_address.sort_by_key(|function| function.address);
    by_address.dedup_by_key(|function| function.address);
    let runs: Vec<(Option<&str>, &[&BinaryFunction])> = by_address
        .chunk_by(|a, b| unit_of(&a.name, &units) == unit_of(&b.name, &units))
        .map(|run| (unit_of(&run[0].name, &units), run))
        .collect();
    let mut longest: HashMap<&str, usize> = HashMap::new();
    for (unit, run) in &runs {
        if let Some(unit) = unit {
            let most = longest.entry(unit).or_default();
            *most = (*most).max(run.len());
        }
    }
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    let mut outside = Vec::new();
    for (unit, run) in &runs {
        let Some(unit) = unit else { continue };
        // The unit is where its longest run is; if several are equally long, the first one counts.
        if run.len() == longest[unit] && kept.insert(unit) {
            continue;
        }
        outside.extend(run.iter().map(|function| function.name.as_str()));
    }
    outside
}

/// Returns `camlSo` for `camlSo__entry`.
fn unit_of_entry(name: &str) -> Option<&str> {
    let unit = SEPARATORS.iter().find_map(|separator| name.strip_suffix("entry")?.strip_suffix(separator))?;
    names::is_of_ocaml(name).then_some(unit)
}

/// Returns the unit of a function: the longest unit name that is a prefix of its name.
fn unit_of<'a>(name: &'a str, units: &HashSet<&str>) -> Option<&'a str> {
    if !names::is_of_ocaml(name) {
        return None;
    }
    let mut ends: Vec<usize> =
        SEPARATORS.iter().flat_map(|separator| name.match_indices(separator).map(|(at, _)| at)).collect();
    ends.sort_unstable();
    ends.into_iter().rev().map(|end| &name[..end]).find(|unit| units.contains(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(names: &[&str]) -> Binary {
        let function = |(number, name): (usize, &&str)| BinaryFunction {
            name: (*name).to_owned(),
            address: 0x1000 + 16 * number as u64,
            size: 16,
            ..BinaryFunction::default()
        };
        Binary { functions: names.iter().enumerate().map(function).collect(), ..Binary::default() }
    }

    #[test]
    fn a_unit_lies_in_one_piece() {
        let sound =
            ["main", "camlA__f_1", "camlA__entry", "camlA__B__g__h_2", "camlA__B__entry", "caml_alloc"];
        assert_eq!(outside_range(&binary(&sound)), Vec::<&str>::new());
        let torn = ["camlA__f_1", "caml_alloc", "camlA__g_2", "camlA__entry", "camlA__B__entry"];
        assert_eq!(outside_range(&binary(&torn)), ["camlA__f_1"]);
        assert_eq!(outside_range(&binary(&["f", "camlA__f_1", "g"])), Vec::<&str>::new(), "no unit of OCaml");
    }
}
