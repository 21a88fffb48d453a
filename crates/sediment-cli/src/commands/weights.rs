// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-w WEIGHT FILE…` on a command line: a weight stands until the next, and is 1 before the first.

use sediment::Result;
use sediment::profile::merge::Weight;
use std::path::PathBuf;

/// Pairs each file with the last weight given before it. Both lists hold the position of each on the command line.
pub(crate) fn pair(
    weights: &[(usize, String)],
    files: &[(usize, PathBuf)],
) -> Result<Vec<(PathBuf, Weight)>> {
    let weights = weights
        .iter()
        .map(|(position, text)| Ok((*position, Weight::parse(text)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(files
        .iter()
        .map(|(position, path)| {
            let before = weights.iter().rev().find(|(at, _)| at < position);
            (path.clone(), before.map_or(Weight::ONE, |(_, weight)| *weight))
        })
        .collect())
}

/// The values of an argument with their positions on the command line.
pub(crate) fn positioned<T: Clone + Send + Sync + 'static>(
    matches: &clap::ArgMatches,
    argument: &str,
) -> Vec<(usize, T)> {
    let positions = matches.indices_of(argument).into_iter().flatten();
    let values = matches.get_many::<T>(argument).into_iter().flatten().cloned();
    positions.zip(values).collect()
}
