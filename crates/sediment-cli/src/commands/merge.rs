// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment merge`: several profiles in, one out.

use super::{read_profile, weights};
use crate::files;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches};
use sediment::profile::merge::{self, Weight};
use sediment::{Result, profile};
use std::path::{Path, PathBuf};

/// Add profiles up, with weights
#[derive(Debug, Args)]
#[command(long_about = "Add profiles up, with weights.\n\n\
A fresh recording is brought to shares of all its calls first, so that a long one does not drown a short one; what was merged \
before is taken as it is. A weight (-w) holds for the files after it, until the next; it is 1 before the first. With weight 1 \
for what was already merged, the order and grouping of the inputs cannot show in the result.")]
struct Options {
    /// The profile to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Weight of the files that follow: a decimal from 0 to 10^9 with at most nine places
    #[arg(short, long, value_name = "WEIGHT", allow_negative_numbers = true)]
    weight: Vec<String>,
    /// The profiles
    #[arg(required = true, value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Bring the totals of merged inputs back to one recording's first
    #[arg(long)]
    normalize: bool,
}

/// The options, and each file with the weight that stands for it.
#[derive(Debug)]
pub(crate) struct Arguments {
    options: Options,
    weights: Vec<(usize, String)>,
    profiles: Vec<(usize, PathBuf)>,
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(Self {
            options: Options::from_arg_matches(matches)?,
            weights: weights::positioned(matches, "weight"),
            profiles: weights::positioned(matches, "profiles"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Arguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args_for_update(command)
    }
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let inputs = weights::pair(&arguments.weights, &arguments.profiles)?;
    merge_files(&inputs, arguments.options.normalize, &arguments.options.output, ui)
}

/// Reads, merges and writes.
pub(crate) fn merge_files(
    inputs: &[(PathBuf, Weight)],
    normalize: bool,
    output: &Path,
    ui: &Ui,
) -> Result<()> {
    let profiles = inputs
        .iter()
        .map(|(path, weight)| Ok((read_profile(path, ui)?, *weight)))
        .collect::<Result<Vec<_>>>()?;
    let borrowed: Vec<_> = profiles.iter().map(|(profile, weight)| (profile, *weight)).collect();
    let merged = merge::merge(&borrowed, normalize)?;
    super::say_what_looks_alike(&merged, ui);
    files::write(output, profile::text::print(&merged).as_bytes(), ui)
}
