// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-w WEIGHT FILE…` on a command line: a weight applies until the next one, and is 1 before the first.

use clap::{ArgMatches, Args, FromArgMatches};
use sediment_core::Result;
use sediment_core::profile::merge::Weight;
use std::path::PathBuf;

/// Options of a command in which a `weight` applies to the following files; has the ids of the options for these files.
pub(crate) trait Weighable: Args {
    const FILES: &'static [&'static str];
    /// Id of the option for the submitter of the following files.
    const NAMES: Option<&'static str> = None;
}

/// The options, and the positions of weights and files on the command line.
#[derive(Debug)]
pub(crate) struct Weighed<O> {
    pub(crate) options: O,
    weights: Vec<(usize, String)>,
    files: Vec<(&'static str, Vec<(usize, PathBuf)>)>,
    names: Vec<(usize, String)>,
}

impl<O> Weighed<O> {
    /// Returns the files of an option, each with its weight.
    pub(crate) fn files(&self, option: &str) -> Result<Vec<(PathBuf, Weight)>> {
        let files = self.files.iter().find(|(name, _)| *name == option);
        pair(&self.weights, files.map_or(&[], |(_, files)| files))
    }

    /// True if a weight was given for each file of an option.
    pub(crate) fn all_are_weighed(&self, option: &str) -> bool {
        let first_weight = self.weights.iter().map(|(position, _)| *position).min();
        let files = self.files.iter().filter(|(name, _)| *name == option).flat_map(|(_, files)| files);
        first_weight
            .is_some_and(|first| files.map(|(position, _)| *position).all(|position| position > first))
    }

    /// Returns the submitter of each of an option's files: the last name before it.
    pub(crate) fn names(&self, option: &str) -> Vec<Option<String>> {
        let files = self.files.iter().filter(|(name, _)| *name == option).flat_map(|(_, files)| files);
        files
            .map(|(position, _)| {
                let before = self.names.iter().rev().find(|(at, _)| at < position);
                before.map(|(_, name)| name.clone())
            })
            .collect()
    }
}

impl<O: Weighable> FromArgMatches for Weighed<O> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(Self {
            options: O::from_arg_matches(matches)?,
            weights: positioned(matches, "weight"),
            files: O::FILES.iter().map(|option| (*option, positioned(matches, option))).collect(),
            names: O::NAMES.map_or_else(Vec::new, |option| positioned(matches, option)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<O: Weighable> Args for Weighed<O> {
    fn augment_args(command: clap::Command) -> clap::Command {
        O::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        O::augment_args_for_update(command)
    }
}

/// Pairs each file with the last weight before it. Both lists have positions on the command line.
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

/// Returns the values of an argument with their positions on the command line.
pub(crate) fn positioned<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    argument: &str,
) -> Vec<(usize, T)> {
    let positions = matches.indices_of(argument).into_iter().flatten();
    let values = matches.get_many::<T>(argument).into_iter().flatten().cloned();
    positions.zip(values).collect()
}
