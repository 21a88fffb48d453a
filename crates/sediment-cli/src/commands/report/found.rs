// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the functions of a profile that exist in a file, with their share of the calls: the profile may be from
//! another version, and the file may be stripped.

use crate::files;
use sediment_core::binary::{Binary, SymbolSource};
use sediment_core::callgraph::FunctionId;
use sediment_core::matching::identity;
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::order::BuiltGraph;
use sediment_order::report::layout::Layout;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Share of the calls that may be missing in a file without a warning.
const LITTLE: f64 = 0.01;

/// Profiled functions that exist in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundFunctions {
    functions: usize,
    profiled: usize,
    /// Calls to these functions, and to all functions.
    calls: [u128; 2],
}

impl FoundFunctions {
    /// Formats them in a few words: `883 of 1,338 in the file, with 78.91 % of the calls`.
    pub(super) fn in_words(&self) -> String {
        let Self { functions, profiled, calls: [found, all] } = self;
        let counts = format!("{} of {} in the file", grouped(functions), grouped(profiled));
        // A missing part is never rounded to nothing.
        let share = (*found as f64 / (*all).max(1) as f64 * 1e4).floor() / 100.0;
        if functions == profiled || *all == 0 {
            counts
        } else {
            format!("{counts}, with {share:.2} % of the calls")
        }
    }

    pub(super) fn is_all(&self) -> bool {
        self.functions == self.profiled
    }

    /// True if so much is missing that the page does not represent the profile.
    pub(super) fn lacks_much(&self) -> bool {
        match self.calls {
            [_, 0] => (self.functions as f64) < (1.0 - LITTLE) * self.profiled as f64,
            [found, all] => (found as f64) < (1.0 - LITTLE) * all as f64,
        }
    }
}

/// Counts the functions in a program's part of a profile that are drawn in a layout; `None` if the program's functions
/// in the profile are not known.
pub(super) fn of_profile(
    profile: &Profile,
    label: Option<&str>,
    built: &BuiltGraph,
    layout: &Layout<'_>,
) -> Option<FoundFunctions> {
    let label = label?;
    let ids: HashMap<&FunctionKey, FunctionId> = built.table.names().collect();
    let drawn = ids_of(layout);
    let is_ours = |function: FunctionIndex| profile.key(function).dso.as_deref() == Some(label);
    let is_drawn =
        |function: FunctionIndex| ids.get(profile.key(function)).is_some_and(|id| drawn.contains(&id.0));
    let ours: Vec<FunctionIndex> =
        profile.functions().into_iter().filter(|function| is_ours(*function)).collect();
    let mut calls = [0_u128; 2];
    for (_, callee, facts) in profile.edges() {
        let count = facts.count.filter(|_| is_ours(callee)).unwrap_or(0);
        calls[1] = calls[1].saturating_add(count);
        calls[0] = calls[0].saturating_add(if is_drawn(callee) { count } else { 0 });
    }
    let functions = ours.iter().filter(|function| is_drawn(**function)).count();
    Some(FoundFunctions { functions, profiled: ours.len(), calls })
}

/// Counts the profiled functions of the layout before that exist in the file after.
///
/// # Errors
/// If there are so few that the file is stripped, or is another program.
pub(super) fn of_layout(
    before: &Layout<'_>,
    after: &Layout<'_>,
    built: &BuiltGraph,
    binary: &Binary,
    [path_before, path]: [&Path; 2],
) -> Result<FoundFunctions> {
    let [profiled, there] = [before, after].map(ids_of);
    let name = |id: &u32| built.table.keys[*id as usize].name.as_str();
    let both = || profiled.intersection(&there);
    let names_there: HashSet<&str> = both().map(name).collect();
    let weight = |ids: &mut dyn Iterator<Item = &u32>| {
        ids.map(|id| u128::from(built.graph.weights()[*id as usize])).sum::<u128>()
    };
    let functions = both().count();
    let found = FoundFunctions {
        functions,
        profiled: profiled.len(),
        calls: [weight(&mut both()), weight(&mut profiled.iter())],
    };
    if found.is_all() || identity::defines_enough(profiled.iter().map(name), &names_there) {
        return Ok(found);
    }
    let (code, why, hint) = match binary.symbols_from {
        SymbolSource::DynamicSymbols => (
            ErrorCode::Stripped,
            "it is stripped to its exported functions",
            "give the unstripped file to --after",
        ),
        _ => {
            (ErrorCode::WrongBinary, "it is another program", "give the same program to --binary and --after")
        }
    };
    Err(Error::new(
        code,
        format!(
            "only {} of {} of {} are in this file: {why}",
            grouped(functions),
            counted(grouped(profiled.len()), "profiled function"),
            files::base_name(path_before)
        ),
    )
    .with_hint(hint)
    .with_input(files::display(path)))
}

fn ids_of(layout: &Layout<'_>) -> HashSet<u32> {
    layout.functions.iter().filter_map(|function| function.id).collect()
}
