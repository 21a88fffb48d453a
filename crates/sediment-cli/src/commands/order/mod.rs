// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order`: profiles in, a linker's ordering file out.

mod estimates;
mod explain;
mod keeping;
mod serving;
mod workloads;

use crate::files;
use crate::inputs::settings::{Known, Settings};
use crate::inputs::weights::{Weighable, Weighed};
use crate::inputs::{self, read_binary, read_profile, renamed};
use crate::older;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use clap::builder::PossibleValuesParser;
use sediment::binary::Binary;
use sediment::callgraph::{GroupKind, Trace};
use sediment::link::{self, LINKERS, Linker, Placement};
use sediment::order::algorithms::affinity::Workload;
use sediment::order::algorithms::{self, ALGORITHMS};
use sediment::order::versions::{self, ENGINES, Engine, LATEST};
use sediment::order::{self, AIMS, Aim, BuiltGraph, Method, Older, Ordering, Request, Selection};
use sediment::profile::Profile;
use sediment::profile::merge::{self, Weight};
use sediment::trace::file;
use sediment::wrapper::settings::{percent, share};
use sediment::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Compute the link order
#[derive(Debug, Args)]
#[command(long_about = "Compute the link order.\n\n\
With --binary, the order lists what that program has, sized as it is there; with --dso, the functions of one library or program \
of the profile; with neither, those of every one. Functions that do not exist when the linker runs are ignored by it.\n\n\
Several profiles are several workloads of one program: they are merged as `sediment merge` does, and how each fares under the common \
order is said beside an order for it alone. A weight (-w) holds for the profiles and traces after it, until the next; it is 1 before \
the first.")]
#[command(after_long_help = choices())]
pub(crate) struct Options {
    /// The profile; several are merged
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// Weight of the profiles and traces that follow: a decimal from 0 to 10^9 with at most nine places
    #[arg(short, long, value_name = "WEIGHT", allow_negative_numbers = true)]
    weight: Vec<String>,
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
    /// The default order of an earlier release, by the number of its engine
    #[arg(long, value_name = "N")]
    engine: Option<u32>,
    /// What the order is to serve, where the profile tells first uses as well as calls
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(AIMS.iter().map(|(_, name, _)| *name)))]
    serve: Option<String>,
    /// A run to order for, as `import --trace` writes it; may be given again, for several workloads. Of algorithms that order
    /// for starts, each is a start
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// An older order, of any linker, to be changed only where that gains
    #[arg(long, value_name = "OLD")]
    keep: Option<PathBuf>,
    /// With --keep: the predicted gain, in per cent, below which nothing is moved
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, requires = "keep")]
    keep_below: u64,
    /// Let the hot block begin at a multiple of so many bytes, such as 4K or 2M; for the linkers that can be told
    #[arg(long, value_name = "BYTES", value_parser = values::alignment)]
    align_hot: Option<u64>,
    /// Say on standard error why this function is where it is; may be given again
    #[arg(long, value_name = "FUNCTION")]
    explain: Vec<String>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) type Arguments = Weighed<Options>;

impl Weighable for Options {
    const FILES: &'static [&'static str] = &["profiles", "trace"];
}

/// The default of `--algorithm`.
pub(crate) const ENGINE: &str = "engine";

fn algorithm_names() -> Vec<&'static str> {
    std::iter::once(ENGINE).chain(ALGORITHMS.iter().map(|algorithm| algorithm.name)).collect()
}

fn choices() -> String {
    let mut text = String::from("Algorithms:\n");
    text += &format!(
        "  {ENGINE:<22} by calls and what runs near in time; with --trace, refined by what ran together\n"
    );
    for algorithm in ALGORITHMS {
        text += &format!("  {:<22} {}\n", algorithm.name, algorithm.summary);
    }
    text += "\nWhat an order can serve:\n";
    for (_, name, summary) in AIMS {
        text += &format!("  {name:<22} {summary}\n");
    }
    text += "\nEngines:\n";
    for engine in ENGINES {
        text += &format!("  {:<22} {} ({})\n", engine.number, engine.summary, engine.since);
    }
    text += "\nLinkers, and what to pass to the compiler when it links:\n";
    for linker in LINKERS {
        text += &format!("  {:<22} {}: {}\n", linker.name, linker.summary, linker.arguments);
    }
    text
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let options = &arguments.options;
    let how = How {
        engine: how_by(options)?,
        algorithm: &options.algorithm,
        seed: options.seed,
        settings: &options.settings,
        file: options.binary.as_deref(),
        serve: options.serve.as_deref().and_then(aim),
        traces: &arguments.files("trace")?,
        keep: options.keep.as_deref().map(|older| (older, share(options.keep_below))),
        align_hot: options.align_hot,
        explain: &options.explain,
        linker: linker(&options.linker)?,
    };
    let binary = options.binary.as_deref().map(read_binary).transpose()?;
    let inputs = arguments
        .files("profiles")?
        .into_iter()
        .map(|(path, weight)| {
            let mut profile = read_profile(&path, ui)?;
            if let (Some(binary), Some(file)) = (&binary, options.binary.as_deref()) {
                renamed::follow(&mut profile, binary, file, None, ui)?;
            }
            Ok(Input { name: files::display(&path), weight, profile })
        })
        .collect::<Result<Vec<Input>>>()?;
    let file_name = options.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = inputs::selection(binary.as_ref(), &file_name, options.dso.as_deref());
    let text = match inputs.as_slice() {
        [only] => order_text(&only.profile, &selection, &how, ui),
        several => order_text_of_several(several, &selection, &how, ui),
    };
    let named = |error: Error| match inputs.as_slice() {
        [only] => error.with_input(only.name.clone()),
        _ => error,
    };
    files::write(&options.output, text.map_err(named)?.as_bytes(), ui)
}

/// The engine that is asked for: its order, or that of another algorithm.
fn how_by(options: &Options) -> Result<Option<&'static Engine>> {
    let Some(number) = options.engine else {
        return Ok((options.algorithm == ENGINE).then_some(LATEST));
    };
    let usage = |message: String| Err(Error::new(ErrorKind::Usage, message));
    let Some(engine) = versions::engine(number) else {
        let known: Vec<String> = ENGINES.iter().map(|engine| engine.number.to_string()).collect();
        return usage(format!("there is no engine {number}; there are {}", known.join(", ")));
    };
    if options.algorithm != ENGINE {
        return usage(format!(
            "--engine {number} is an algorithm itself: leave out --algorithm {}",
            options.algorithm
        ));
    }
    if !engine.knows_runs && (!options.trace.is_empty() || options.serve.is_some()) {
        return usage(format!(
            "engine {number} knew neither --trace nor --serve: its orders are of the calls alone"
        ));
    }
    Ok(Some(engine))
}

/// A number of bytes, with K, M or G behind it for 2^10, 2^20 or 2^30.
fn aim(name: &str) -> Option<Aim> {
    AIMS.iter().find(|(_, known, _)| *known == name).map(|(aim, _, _)| *aim)
}

pub(crate) fn linker(name: &str) -> Result<&'static Linker> {
    link::linker(name).ok_or_else(|| Error::new(ErrorKind::Usage, format!("no linker is called {name}")))
}

/// A profile of several.
struct Input {
    name: String,
    weight: Weight,
    profile: Profile,
}

/// How a profile becomes the text of an ordering file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    /// The engine; None for the order of `algorithm`.
    engine: Option<&'static Engine>,
    algorithm: &'a str,
    seed: u64,
    settings: &'a Settings,
    /// The file of the selected binary.
    file: Option<&'a Path>,
    serve: Option<Aim>,
    traces: &'a [(PathBuf, Weight)],
    /// The older order, and the share of gain below which it stays.
    keep: Option<(&'a Path, f64)>,
    /// What the address of the hot block is to be a multiple of.
    align_hot: Option<u64>,
    explain: &'a [String],
    linker: &'static Linker,
}

impl How<'_> {
    /// The order of a graph, for these runs.
    fn order(
        &self,
        profile: &Profile,
        built: BuiltGraph,
        traces: &[Trace],
        older: Option<&Older>,
        selection: &Selection<'_>,
        ui: &Ui,
    ) -> Result<Ordering> {
        let weights = self.traces.iter().map(|(_, weight)| weight.billionths());
        let workloads: Vec<Workload<'_>> =
            traces.iter().zip(weights).map(|(trace, weight)| Workload { trace, weight }).collect();
        let request = |method| Request { method, aim: self.serve, workloads: &workloads, older };
        if let Some(engine) = self.engine {
            self.settings.refuse_for_engine()?;
            return order::compute_built(profile, built, &request(Method::Engine(engine)));
        }
        let algorithm = algorithms::algorithm(self.algorithm).ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("no algorithm is called {}", self.algorithm))
        })?;
        if algorithm.input == algorithms::AlgorithmInput::Calls && !traces.is_empty() {
            let name = self.algorithm;
            let message = format!("--trace is for the engine and for starts; {name} looks at calls alone");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let binary = binary_of(selection).zip(self.file);
        let known = Known::of(self.settings, algorithm, profile, &built, traces, binary, ui)?;
        order::compute_built(profile, built, &request(Method::Algorithm(algorithm, known.options(self.seed))))
    }
}

impl<'a> How<'a> {
    /// By the present engine, for this linker.
    pub(crate) fn by_default(linker: &'static Linker, settings: &'a Settings) -> Self {
        Self {
            engine: Some(LATEST),
            algorithm: ENGINE,
            seed: 0,
            settings,
            file: None,
            serve: None,
            traces: &[],
            keep: None,
            align_hot: None,
            explain: &[],
            linker,
        }
    }
}

/// From a profile to the text of an ordering file, telling what was left out on the way.
pub(crate) fn order_text(
    profile: &Profile,
    selection: &Selection<'_>,
    how: &How<'_>,
    ui: &Ui,
) -> Result<String> {
    text_of(&ordering_of(profile, selection, how, ui)?, selection, how, ui)
}

/// The same of several workloads, saying how each fares.
fn order_text_of_several(
    inputs: &[Input],
    selection: &Selection<'_>,
    how: &How<'_>,
    ui: &Ui,
) -> Result<String> {
    let weighed: Vec<(&Profile, Weight)> =
        inputs.iter().map(|input| (&input.profile, input.weight)).collect();
    let merged = merge::merge(&weighed, false)?;
    inputs::warn_of_similar_labels(&merged, ui);
    let ordering = ordering_of(&merged, selection, how, ui)?;
    workloads::say_how_each_fares(inputs, &ordering, selection, how, ui)?;
    text_of(&ordering, selection, how, ui)
}

/// Orders the functions, telling what was left out and what the order does.
fn ordering_of(profile: &Profile, selection: &Selection<'_>, how: &How<'_>, ui: &Ui) -> Result<Ordering> {
    let built = order::build(profile, selection)?;
    ui.skipped("graph", &built.skipped);
    inputs::say_what_is_demangled(built.table.keys.iter().map(|key| key.name.as_str()), ui);
    let traces =
        how.traces.iter().map(|(path, _)| read_trace(path, &built)).collect::<Result<Vec<Trace>>>()?;
    let older = |(path, threshold)| older::read(path, &files::read(path)?, threshold);
    let older = how.keep.map(older).transpose()?;
    let ordering = how.order(profile, built, &traces, older.as_ref(), selection, ui)?;
    if let Some(engine) = how.engine {
        workloads::say_how_the_runs_fare(engine, &ordering, &traces, how.traces, ui);
    }
    if let Some(unprofiled) = &ordering.unprofiled {
        estimates::say_what_they_do(unprofiled, ordering.is_estimated, ui);
    }
    if let Some(aim) = ordering.served {
        serving::say_what_each_aim_gives(&ordering, &traces, aim, ui);
    }
    if let Some(older) = &older {
        keeping::say_what_moved(&ordering, older, ui);
    }
    Ok(ordering)
}

/// The text of an ordering file.
fn text_of(ordering: &Ordering, selection: &Selection<'_>, how: &How<'_>, ui: &Ui) -> Result<String> {
    for name in how.explain {
        for line in explain::explain(name, ordering)?.lines() {
            ui.note(line);
        }
    }
    let (placements, skipped) =
        link::placements(&ordering.order, &ordering.built, binary_of(selection), how.linker.wants_calls);
    ui.skipped("placing", &skipped);
    let (text, skipped) = (how.linker.write)(&placements);
    ui.skipped(how.linker.name, &skipped);
    match how.align_hot {
        Some(bytes) => with_hot_block_aligned(ordering, &text, &placements, bytes, how.linker, ui),
        None => Ok(text),
    }
}

fn with_hot_block_aligned(
    ordering: &Ordering,
    text: &str,
    placements: &[Placement],
    bytes: u64,
    linker: &Linker,
    ui: &Ui,
) -> Result<String> {
    let hot = ordering.order.groups.iter().find(|group| group.kind == GroupKind::Hot);
    let hot: HashSet<&str> = hot
        .into_iter()
        .flat_map(|group| &group.functions)
        .map(|id| ordering.built.table.keys[id.index()].name.as_str())
        .collect();
    let of_block = placements.iter().filter(|placement| hot.contains(placement.name.as_str()));
    let text = link::aligned(linker, text, of_block, bytes)?;
    if bytes > SMALLEST_PAGE {
        ui.note(&format!(
            "order: the hot block begins at a multiple of {bytes} bytes in the file; for the kernel to keep to it, link with -Wl,-z,max-page-size={bytes}, too"
        ));
    }
    Ok(text)
}

/// Bytes of the smallest page: programs begin at a multiple of it wherever they are loaded.
const SMALLEST_PAGE: u64 = 4096;

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
