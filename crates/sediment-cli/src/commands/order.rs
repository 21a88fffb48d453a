// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order`: a profile in, a linker's ordering file out.

use super::{read_binary, read_profile};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use clap::builder::PossibleValuesParser;
use sediment::binary::Binary;
use sediment::graph::{self, Selection};
use sediment::layout::{self, ALGORITHMS};
use sediment::link::{self, LINKERS};
use sediment::profile::Profile;
use sediment::{Error, Result};
use std::path::PathBuf;

/// Compute the link order
#[derive(Debug, Args)]
#[command(long_about = "Compute the link order.\n\n\
With --binary, the order lists what that program has, sized as it is there; with --dso, the functions of one library or program \
of the profile; with neither, those of every one. Functions that do not exist when the linker runs are ignored by it.")]
#[command(after_long_help = algorithms_and_linkers())]
pub(crate) struct Arguments {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The linker that will read the order
    #[arg(long, value_name = "LINKER", value_parser = PossibleValuesParser::new(LINKERS.iter().map(|l| l.name)))]
    linker: String,
    /// The ordering file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// The program or library to be ordered, as linked before
    #[arg(long, value_name = "ELF", conflicts_with = "dso")]
    binary: Option<PathBuf>,
    /// The label of the program or library to be ordered, as the profile has it
    #[arg(long, value_name = "NAME")]
    dso: Option<String>,
    /// How to order; the default is the best there is
    #[arg(long, value_name = "NAME", default_value = ALGORITHMS[0].name,
          value_parser = PossibleValuesParser::new(ALGORITHMS.iter().map(|a| a.name)))]
    algorithm: String,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn algorithms_and_linkers() -> String {
    let mut text = String::from("Algorithms:\n");
    for algorithm in ALGORITHMS {
        text += &format!("  {:<15} {}\n", algorithm.name, algorithm.summary);
    }
    text += "\nLinkers, and what to pass to the compiler when it links:\n";
    for linker in LINKERS {
        text += &format!("  {:<15} {}: {}\n", linker.name, linker.summary, linker.arguments);
    }
    text
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    let binary = arguments.binary.as_deref().map(read_binary).transpose()?;
    let file_name = arguments.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = match (&binary, &arguments.dso) {
        (Some(binary), _) => Selection::Binary { binary, file_name: &file_name },
        (None, Some(label)) => Selection::Dso(label),
        (None, None) => Selection::Everything,
    };
    let options = layout::Options { seed: arguments.seed };
    let text = order_text(&profile, &selection, &arguments.algorithm, options, &arguments.linker, ui)
        .map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    files::write(&arguments.output, text.as_bytes(), ui)
}

/// From a profile to the text of an ordering file, telling what was left out on the way.
pub(crate) fn order_text(
    profile: &Profile,
    selection: &Selection<'_>,
    algorithm: &str,
    options: layout::Options,
    linker: &str,
    ui: &Ui,
) -> Result<String> {
    let unknown = |what: &str, name: &str| {
        Error::new(sediment::ErrorKind::Usage, format!("no {what} is called {name}"))
    };
    let algorithm = layout::algorithm(algorithm).ok_or_else(|| unknown("algorithm", algorithm))?;
    let linker = link::linker(linker).ok_or_else(|| unknown("linker", linker))?;
    let built = graph::build(profile, selection)?;
    ui.losses("graph", &built.losses);
    super::say_what_is_demangled(built.table.keys.iter().map(|key| key.name.as_str()), ui);
    let order = layout::place(&built.graph, algorithm, &options);
    let (placements, losses) = link::placements(&order, &built, binary_of(selection));
    ui.losses("placing", &losses);
    let (text, losses) = (linker.write)(&placements);
    ui.losses(linker.name, &losses);
    Ok(text)
}

fn binary_of<'a>(selection: &Selection<'a>) -> Option<&'a Binary> {
    match selection {
        Selection::Binary { binary, .. } => Some(binary),
        _ => None,
    }
}
