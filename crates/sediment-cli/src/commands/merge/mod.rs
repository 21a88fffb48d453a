// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment merge`: several profiles in, one out; with `--into`, what users send in, into the profile that a package keeps.

mod into;

use crate::files;
use crate::inputs::weights::{Weighable, Weighed};
use crate::inputs::{self, read_profile};
use crate::ui::Ui;
use clap::Args;
use sediment::profile::merge::{self, Weight};
use sediment::{Error, ErrorKind, Result, profile};
use std::path::{Path, PathBuf};

/// Add profiles up, with weights
#[derive(Debug, Args)]
#[command(long_about = "Add profiles up, with weights.\n\n\
A fresh recording is brought to shares of all its calls first, so that a long one does not drown a short one; what was merged \
before is taken as it is. A weight (-w) holds for the files after it, until the next; it is 1 before the first. With weight 1 \
for what was already merged, the order and grouping of the inputs cannot show in the result.\n\n\
With --into, FILE… are what users sent in: each counts as one recording times its weight, also if it was merged of several, and is \
added to the profile that the package keeps. A report says what each adds. Beside --against it gives two shares of each: how much of its \
weight belongs to the files of the build that are named there, and how much of that is in them; the rest is of another version.")]
pub(crate) struct Options {
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
    #[arg(long, conflicts_with = "into")]
    normalize: bool,
    /// The profile that a package keeps: grows by the files, or is begun
    #[arg(long, value_name = "KEPT", conflicts_with = "output")]
    into: Option<PathBuf>,
    /// Who sent the files that follow, until the next; without it each file is somebody else's
    #[arg(long, value_name = "WHO")]
    from: Vec<String>,
    /// The largest part of the result that may be of one submitter; who has more is scaled down
    #[arg(long, value_name = "PERCENT", value_parser = sediment::wrapper::settings::percent)]
    cap: Option<u64>,
    /// A program or library of the build that the profile is for, with its symbols; may be repeated
    #[arg(long, value_name = "ELF")]
    against: Vec<PathBuf>,
    /// Leave out files of another version: less than this of what belongs to the files named by --against is in them. A file of which
    /// nothing belongs to them is left out, too
    #[arg(long, value_name = "PERCENT", requires = "against", value_parser = sediment::wrapper::settings::percent)]
    min_coverage: Option<u64>,
    /// Say what would come, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) type Arguments = Weighed<Options>;

impl Weighable for Options {
    const FILES: &'static [&'static str] = &["profiles", "into"];
    const NAMES: Option<&'static str> = Some("from");
}

impl Options {
    /// Refuses what has a meaning beside --into alone. The parser cannot: it asks for no option that contradicts one that is given, as
    /// --into does --output.
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
            Some((option, _)) => {
                Err(Error::new(ErrorKind::Usage, format!("{option} belongs to --into, which is not given"))
                    .with_hint(
                        "sediment merge --into KEPT FILE… adds what users sent in to the profile that a package keeps",
                    ))
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if arguments.options.into.is_some() {
        return into::run(arguments, ui);
    }
    arguments.options.must_not_belong_to_into()?;
    let inputs = arguments.files("profiles")?;
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
    inputs::warn_of_similar_labels(&merged, ui);
    files::write(output, profile::text::print(&merged).as_bytes(), ui)
}
