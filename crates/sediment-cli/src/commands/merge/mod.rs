// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment merge`: merges profiles; with `--into`, adds submissions to the profile of a package.

mod into;

use crate::files;
use crate::inputs::weights::{Weighable, Weighed};
use crate::inputs::{self, read_profile_or_rows};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::profile::Profile;
use sediment_core::profile::blocks::BlockUnit;
use sediment_core::profile::merge::{self, Weight};
use sediment_core::{Error, ErrorCode, Result, profile};
use std::path::{Path, PathBuf};

/// Merge profiles with weights
#[derive(Debug, Args)]
#[command(
    long_about = "Merge profiles with weights.\n\nScales each fresh recording to shares of its calls, so long recordings do not outweigh short ones. Merged profiles are taken unchanged. A weight (-w) applies to the files after it, until the next; the default is 1. Merging with weight 1 gives the same result in any order and grouping.\n\nWith --into, adds submissions from users to the profile that a package keeps. Each file counts as one recording times its weight. Prints what each file adds. With --against, prints two shares per file: the weight that belongs to the build, and the part of it that the build defines."
)]
pub(crate) struct MergeOptions {
    /// Profile to write; - writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Weight of the files that follow: a decimal from 0 to 10^9, at most nine decimal places [default: 1]
    #[arg(short, long, value_name = "WEIGHT", allow_negative_numbers = true)]
    weight: Vec<String>,
    /// Profiles to merge, or rows of them (docs/rows.md)
    #[arg(required = true, value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Before merging, scale inputs that are merged profiles to the total of one recording
    #[arg(long, conflicts_with = "into")]
    normalize: bool,
    /// Number of control-flow graphs and counter variants to keep for each function of the result, heaviest first
    /// [default: all]
    #[arg(long, value_name = "COUNT", value_parser = values::number_of_variants, conflicts_with = "into")]
    variants: Option<usize>,
    /// Print JSON; needs --output FILE or --into FILE
    #[arg(long)]
    json: bool,
    /// Profile of a package to add the files to; created if missing [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    into: Option<PathBuf>,
    /// Submitter of the files that follow, until the next --from [default: each file has its own]
    #[arg(long, value_name = "SUBMITTER")]
    from: Vec<String>,
    /// Largest share of the result from one submitter, in per cent; more is scaled down [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    cap: Option<u64>,
    /// Program or library of the build, with symbols; repeatable [default: none]
    #[arg(long, value_name = "PROGRAM")]
    against: Vec<PathBuf>,
    /// Skip a file (it is from another version) if the build defines functions with less than this share of its
    /// weight, in per cent, 0 to 100 [default: none]
    #[arg(long, value_name = "PERCENT", requires = "against", value_parser = values::percent)]
    min_coverage: Option<u64>,
    /// Print the report and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) type Arguments = Weighed<MergeOptions>;

impl Weighable for MergeOptions {
    const FILES: &'static [&'static str] = &["profiles", "into"];
    const NAMES: Option<&'static str> = Some("from");
}

impl MergeOptions {
    /// Refuses options that need --into. The parser cannot check that, because it accepts a missing required option if
    /// that option conflicts with a given one, as --into does with --output.
    fn must_not_belong_to_into(&self) -> Result<()> {
        let given = [
            ("--from", !self.from.is_empty()),
            ("--cap", self.cap.is_some()),
            ("--against", !self.against.is_empty()),
            ("--min-coverage", self.min_coverage.is_some()),
            ("--dry-run", self.dry_run),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(Error::new(ErrorCode::Usage, format!("{option} needs --into"))
                .with_hint(
                    "to add submissions to the profile of a package: sediment merge --into KEPT.gv FILE...",
                )),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if arguments.options.into.is_some() {
        return into::run(arguments, ui);
    }
    arguments.options.must_not_belong_to_into()?;
    let inputs = arguments.files("profiles")?;
    let options = &arguments.options;
    inputs::expect_file_for_json(options.json, &options.output)?;
    let settings = MergeSettings {
        normalize: options.normalize,
        variants: options.variants,
        mixes_block_units: arguments.all_are_weighed("profiles"),
    };
    let merged = merge_files(&inputs, settings, &options.output, ui)?;
    if options.json { ui.json(&inputs::ProfileOutput::new(&merged, &options.output, ui)) } else { Ok(()) }
}

/// Settings of a merge.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MergeSettings {
    /// True to scale totals of merged inputs back to one recording first.
    normalize: bool,
    /// Number of graphs and variants of counters to keep for each function; `None` keeps all.
    variants: Option<usize>,
    /// True to add block executions of some inputs to samples of others, as samples: the user chose the weight of each.
    mixes_block_units: bool,
}

/// Reads, merges and writes profiles.
pub(crate) fn merge_files(
    inputs: &[(PathBuf, Weight)],
    settings: MergeSettings,
    output: &Path,
    ui: &Ui,
) -> Result<Profile> {
    let mut profiles = inputs
        .iter()
        .map(|(path, weight)| Ok((read_profile_or_rows(path, ui)?, *weight)))
        .collect::<Result<Vec<_>>>()?;
    let counts_samples =
        |profile: &Profile| profile.blocks_total > 0 && profile.blocks_unit == BlockUnit::Samples;
    if settings.mixes_block_units && profiles.iter().any(|(profile, _)| counts_samples(profile)) {
        for (profile, _) in &mut profiles {
            profile.blocks_unit = BlockUnit::Samples;
        }
    }
    let borrowed: Vec<_> = profiles.iter().map(|(profile, weight)| (profile, *weight)).collect();
    let mut merged = merge::merge(&borrowed, settings.normalize)?;
    if let Some(most) = settings.variants {
        merged.keep_heaviest_variants(most);
    }
    inputs::warn_of_similar_labels(&merged, ui);
    files::write(output, profile::text::print(&merged).as_bytes(), ui)?;
    Ok(merged)
}
