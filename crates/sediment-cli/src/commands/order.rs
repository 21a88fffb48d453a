// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order`: a profile in, a linker's ordering file out.

use super::settings::{Known, Settings};
use super::{read_binary, read_profile};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use clap::builder::PossibleValuesParser;
use sediment::binary::Binary;
use sediment::engine::{self, Workload};
use sediment::graph::{self, BuiltGraph, Order, Selection, Trace};
use sediment::layout::{self, ALGORITHMS, Evidence};
use sediment::link::{self, LINKERS};
use sediment::profile::Profile;
use sediment::trace::file;
use sediment::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

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
    #[arg(long, value_name = "NAME", default_value = ENGINE, value_parser = PossibleValuesParser::new(algorithm_names()))]
    algorithm: String,
    /// A run to order for, as `import --trace` writes it; may be given again, for several workloads that count alike. Of
    /// algorithms that order for starts, each is a start
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Say on standard error why this function is where it is; may be given again
    #[arg(long, value_name = "FUNCTION")]
    explain: Vec<String>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: Settings,
}

/// The default of `--algorithm`.
pub(crate) const ENGINE: &str = "engine";

fn algorithm_names() -> Vec<&'static str> {
    std::iter::once(ENGINE).chain(ALGORITHMS.iter().map(|algorithm| algorithm.name)).collect()
}

fn algorithms_and_linkers() -> String {
    let mut text = String::from("Algorithms:\n");
    text += &format!("  {ENGINE:<15} the best classic order; with --trace, refined by what ran together\n");
    for algorithm in ALGORITHMS {
        text += &format!("  {:<22} {}\n", algorithm.name, algorithm.summary);
    }
    text += "\nLinkers, and what to pass to the compiler when it links:\n";
    for linker in LINKERS {
        text += &format!("  {:<22} {}: {}\n", linker.name, linker.summary, linker.arguments);
    }
    text
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    let binary = arguments.binary.as_deref().map(read_binary).transpose()?;
    let file_name = arguments.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = super::selection(binary.as_ref(), &file_name, arguments.dso.as_deref());
    let how = How {
        algorithm: &arguments.algorithm,
        seed: arguments.seed,
        settings: &arguments.settings,
        file: arguments.binary.as_deref(),
        traces: &arguments.trace,
        explain: &arguments.explain,
        linker: &arguments.linker,
    };
    let text = order_text(&profile, &selection, &how, ui)
        .map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    files::write(&arguments.output, text.as_bytes(), ui)
}

/// How a profile becomes the text of an ordering file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) algorithm: &'a str,
    pub(crate) seed: u64,
    pub(crate) settings: &'a Settings,
    /// The file of the selected binary.
    pub(crate) file: Option<&'a Path>,
    pub(crate) traces: &'a [PathBuf],
    pub(crate) explain: &'a [String],
    pub(crate) linker: &'a str,
}

/// From a profile to the text of an ordering file, telling what was left out on the way.
pub(crate) fn order_text(
    profile: &Profile,
    selection: &Selection<'_>,
    how: &How<'_>,
    ui: &Ui,
) -> Result<String> {
    let unknown =
        |what: &str, name: &str| Error::new(ErrorKind::Usage, format!("no {what} is called {name}"));
    let linker = link::linker(how.linker).ok_or_else(|| unknown("linker", how.linker))?;
    let built = graph::build(profile, selection)?;
    ui.losses("graph", &built.losses);
    super::say_what_is_demangled(built.table.keys.iter().map(|key| key.name.as_str()), ui);
    let order = if how.algorithm == ENGINE {
        how.settings.refuse_for_engine()?;
        by_engine(&built, how.traces, ui)?
    } else {
        let algorithm =
            layout::algorithm(how.algorithm).ok_or_else(|| unknown("algorithm", how.algorithm))?;
        if algorithm.evidence == Evidence::Calls && !how.traces.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("--trace is for the engine and for starts; {} looks at calls alone", how.algorithm),
            ));
        }
        let traces =
            how.traces.iter().map(|path| read_trace(path, &built)).collect::<Result<Vec<Trace>>>()?;
        let binary = binary_of(selection).zip(how.file);
        let known = Known::of(how.settings, algorithm, profile, &built, &traces, binary, ui)?;
        layout::place(&built.graph, algorithm, &known.options(how.seed))
    };
    for name in how.explain {
        for line in super::explain::explain(name, &order, &built)?.lines() {
            ui.note(line);
        }
    }
    let (placements, losses) = link::placements(&order, &built, binary_of(selection));
    ui.losses("placing", &losses);
    let (text, losses) = (linker.write)(&placements);
    ui.losses(linker.name, &losses);
    Ok(text)
}

/// The engine's order, for the runs in these files.
fn by_engine(built: &BuiltGraph, paths: &[PathBuf], ui: &Ui) -> Result<Order> {
    let traces = paths.iter().map(|path| read_trace(path, built)).collect::<Result<Vec<Trace>>>()?;
    let workloads: Vec<Workload<'_>> = traces.iter().map(|trace| Workload { trace, weight: 1 }).collect();
    let outcome = engine::order(&built.graph, &workloads);
    if !traces.is_empty() {
        let found = match outcome.gain_in_percent() {
            0 => "nothing better was found".to_owned(),
            gain => format!("refined to {gain}% less cost on parts of the runs that were kept from it"),
        };
        ui.note(&format!("engine: {} fits the runs best; {found}", outcome.start));
    }
    if traces.len() > 1 {
        for (path, trace) in paths.iter().zip(&traces) {
            let alone = engine::order(&built.graph, &[Workload { trace, weight: 1 }]);
            let [together, alone] =
                [&outcome.order, &alone.order].map(|order| 100.0 * engine::cost(&built.graph, trace, order));
            ui.note(&format!(
                "engine: {} costs {together:.0}% of what it does in the order of cdsort; in an order for it alone, {alone:.0}%",
                files::display(path)
            ));
        }
    }
    Ok(layout::grouped(&built.graph, outcome.order))
}

/// A run of which at least one function is to be ordered.
pub(super) fn read_trace(path: &Path, built: &BuiltGraph) -> Result<Trace> {
    let named = |error: Error| error.with_input(files::display(path));
    let source = files::Source::open(path)?;
    let trace = file::load_with_others(&source, &built.table).map_err(named)?;
    if trace.functions.iter().all(|function| function.index() >= built.graph.len()) {
        return Err(named(Error::failed("no function that is to be ordered runs in this trace").with_hint(
            "it has to be of the program that is ordered, imported with the same symbols as the profile",
        )));
    }
    Ok(trace)
}

fn binary_of<'a>(selection: &Selection<'a>) -> Option<&'a Binary> {
    match selection {
        Selection::Binary { binary, .. } => Some(binary),
        _ => None,
    }
}
