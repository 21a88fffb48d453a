// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order` converts profiles to a linker's ordering file.

mod estimates;
mod explain;
pub(super) mod gain;
mod goals;
mod keeping;
pub(super) mod share;
mod workloads;

use crate::compiler;
use crate::exit::ExitCode;
use crate::files;
use crate::inputs::settings::{AlgorithmInputs, AlgorithmSettings};
use crate::inputs::weights::{Weighable, Weighed};
use crate::inputs::{self, read_binary, read_profile, renamed, tell_nameless};
use crate::kept_order;
use crate::next_steps;
use crate::output::{Schema, SkippedItems};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gain::{Forecast, GainOutput};
use sediment_core::binary::{Binary, is_of_gcc_lto};
use sediment_core::callgraph::{GroupKind, Trace};
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::profile::merge::{self, Weight};
use sediment_core::skipped::Reason;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link::{self, LINKERS, Linker, Placement};
use sediment_order::order::algorithms::affinity::WeightedTrace;
use sediment_order::order::algorithms::{self, ALGORITHMS};
use sediment_order::order::forecast::ForecastProgram;
use sediment_order::order::left_out::{self, LeftOutMisses};
use sediment_order::order::versions::{self, ENGINES, Engine, LATEST};
use sediment_order::order::{
    self, AIMS, Aim, BuiltGraph, Older, OrderMethod, OrderRequest, Ordering, PlacedShare, Selection,
};
use sediment_order::wrapper::settings::share;
use sediment_read::trace::file;
use serde::Serialize;
use share::PlacedOutput;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Compute a link order
#[derive(Debug, Args)]
#[command(
    long_about = "Compute a link order.\n\n--binary orders the functions of that program, with its sizes. --dso orders the functions of one program or library of the profile. The default is every function of the profile. Linkers ignore functions that no longer exist.\n\nSeveral profiles are several workloads of one program. They are merged as by `sediment merge`, and each is compared with an order of its own. A weight (-w) applies to the profiles and traces after it, until the next."
)]
#[command(after_long_help = choices())]
pub(crate) struct OrderOptions {
    /// Profiles to order by; several are merged
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// Weight of the profiles and traces that follow: a decimal from 0 to 10^9, at most nine decimal places [default:
    /// 1]
    #[arg(short, long, value_name = "WEIGHT", allow_negative_numbers = true)]
    weight: Vec<String>,
    /// Linker that will read the order; auto asks the compiler ($CC, else cc) for its linker
    #[arg(long, value_name = "LINKER", default_value = AUTO, value_parser = linker_names())]
    linker: String,
    /// Ordering file to write; - writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Program or library to order, linked without an order [default: none]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "dso")]
    binary: Option<PathBuf>,
    /// Program or library to order, by its label in the profile [default: all]
    #[arg(long, value_name = "DSO")]
    dso: Option<String>,
    /// Ordering algorithm
    #[arg(long, value_name = "NAME", default_value = AUTO, value_parser = algorithm_names())]
    algorithm: String,
    /// Number of an earlier release's default algorithm [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    engine: Option<u32>,
    /// Goal of the order, for profiles with both call counts and first uses [default: startup for profiles of
    /// `record --startup`, else steady]
    #[arg(long, alias = "serve", value_name = "GOAL", value_parser = PossibleValuesParser::new(AIMS.iter().map(|(_, name, _)| *name)))]
    optimize_for: Option<String>,
    /// Trace from `import --trace` to refine the order with; repeatable. Algorithms for starts treat each trace as one
    /// start [default: none]
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Older ordering file, of any linker, to change only where that saves misses [default: none]
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// With --keep: smallest predicted gain that moves a function, in per cent, 0 to 100
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = values::percent, requires = "keep")]
    keep_below: u64,
    /// Alignment of the hot functions: a power of two from 16 to 1G, for example 2M; for linkers that support it
    /// [default: none]
    #[arg(long, value_name = "BYTES", value_parser = values::alignment)]
    align_hot: Option<u64>,
    /// Print to standard error why this function is where it is; repeatable [default: none]
    #[arg(long, value_name = "FUNCTION")]
    explain: Vec<String>,
    /// Exit with 5 if the order places less than this share of the profile's weight, in per cent, 0 to 100; 0 always passes
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = values::percent)]
    min_coverage: u64,
    /// Print JSON; needs --output FILE
    #[arg(long)]
    json: bool,
    /// Seed of --algorithm random, from 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    settings: AlgorithmSettings,
}

pub(crate) type Arguments = Weighed<OrderOptions>;

impl Weighable for OrderOptions {
    const FILES: &'static [&'static str] = &["profiles", "trace"];
}

/// Default of `--algorithm`: the affinity layout of the latest release. Default of `--linker`: the compiler's linker.
pub(super) const AUTO: &str = "auto";

/// Former name of [`AUTO`].
const FORMER_AUTO: &str = "engine";

/// Algorithms of earlier releases, and their replacements.
const FORMER_ALGORITHMS: &[(&str, &str)] = &[
    ("ext-tsp", "cdsort"),
    ("common-first", "balanced-partitioning"),
    ("neighbours", "balanced-partitioning"),
    ("hottest", "auto"),
];

/// Parser for `--algorithm`; accepts the former name of [`AUTO`].
fn algorithm_names() -> impl TypedValueParser<Value = String> {
    let auto = PossibleValue::new(AUTO).alias(FORMER_AUTO);
    let others = ALGORITHMS.iter().map(|algorithm| PossibleValue::new(algorithm.name));
    values::names(std::iter::once(auto).chain(others), FORMER_ALGORITHMS)
        .map(|name| if name == FORMER_AUTO { AUTO.to_owned() } else { name })
}

/// Linkers that cannot read an ordering file of ours.
const BY_WRAPPER: [&str; 2] = ["mold", "wild"];

/// Parser for `--linker`.
fn linker_names() -> impl TypedValueParser<Value = String> {
    let known = std::iter::once(AUTO).chain(LINKERS.iter().map(|linker| linker.name)).map(PossibleValue::new);
    let others = BY_WRAPPER.iter().map(|name| PossibleValue::new(*name).hide(true));
    PossibleValuesParser::new(known.chain(others)).try_map(|name| {
        if BY_WRAPPER.contains(&name.as_str()) {
            return Err(format!(
                "{name} reads no ordering file; the wrapper orders for it: sediment wrapper DIR --profiles PROFILE, then link with -BDIR"
            ));
        }
        Ok(name)
    })
}

fn choices() -> String {
    let mut text = String::from("Algorithms:\n");
    text += &format!("  {AUTO:<22} calls and temporal affinity; refined by --trace (default)\n");
    for algorithm in ALGORITHMS {
        text += &format!("  {:<22} {}\n", algorithm.name, algorithm.summary);
    }
    text += "\nGoals of --optimize-for:\n";
    for (_, name, summary) in AIMS {
        text += &format!("  {name:<22} {summary}\n");
    }
    text += "\nEngines:\n";
    for engine in ENGINES {
        text += &format!("  {:<22} {} ({})\n", engine.number, engine.summary, engine.since);
    }
    text += "\nLinkers, and the linker argument for the compiler:\n";
    for linker in LINKERS {
        text += &format!("  {:<22} {}: {}\n", linker.name, linker.summary, linker.arguments);
    }
    text
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let options = &arguments.options;
    inputs::expect_file_for_json(options.json, &options.output)?;
    let plan = OrderPlan {
        engine: engine(options)?,
        algorithm: &options.algorithm,
        seed: options.seed,
        settings: &options.settings,
        file: options.binary.as_deref(),
        goal: options.optimize_for.as_deref().and_then(aim),
        traces: &arguments.files("trace")?,
        keep: options.keep.as_deref().map(|older| (older, share(options.keep_below))),
        align_hot: options.align_hot,
        explain: &options.explain,
        linker: linker(&options.linker, ui)?,
        may_be_lto: false,
    };
    let binary = options.binary.as_deref().map(read_binary).transpose()?;
    warn_of_lto(&plan, ui)?;
    let inputs = arguments
        .files("profiles")?
        .into_iter()
        .map(|(path, weight)| {
            let mut profile = read_profile(&path, ui)?;
            tell_nameless(&profile, &path, "order places named functions only", ui);
            inputs::warn_of_quality(&profile, ui);
            if let (Some(binary), Some(file)) = (&binary, options.binary.as_deref()) {
                renamed::follow(&mut profile, binary, file, None, ui)?;
            }
            Ok(WeightedProfile { name: files::display(&path), weight, profile })
        })
        .collect::<Result<Vec<WeightedProfile>>>()?;
    let file_name = options.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = inputs::selection(binary.as_ref(), &file_name, options.dso.as_deref());
    let made = match inputs.as_slice() {
        [only] => written(&only.profile, &selection, &plan, ui),
        several => written_of_several(several, &selection, &plan, ui),
    };
    let named = |error: Error| match inputs.as_slice() {
        [only] => error.with_input(only.name.clone()),
        _ => error,
    };
    let WrittenOrder { text, gain, placed } = made.map_err(named)?;
    files::write(&options.output, text.as_bytes(), ui)?;
    let code = share::judge(placed, options.min_coverage, ui);
    if options.json {
        let output = OrderOutput::new(&text, gain, plan.linker, &options.output, ui);
        ui.json(&OrderOutput { placed: placed.into(), ..output })?;
        return Ok(code);
    }
    if options.output.is_file() && link::read(&text).is_ok() {
        ui.next(next_steps::after_order(
            plan.linker,
            &options.output,
            &options.profiles,
            options.binary.as_deref(),
        ));
    }
    Ok(code)
}

/// Warns of a program that lld cannot link, because GCC compiled it at link time.
fn warn_of_lto(plan: &OrderPlan<'_>, ui: &Ui) -> Result<()> {
    let is_for_lld = plan.linker.name.starts_with("lld");
    let Some(file) = plan.file.filter(|_| is_for_lld) else { return Ok(()) };
    if is_of_gcc_lto(&files::read(file)?) {
        ui.warn(&format!("{}: {}", files::display(file), link::NO_GCC_LTO));
    }
    Ok(())
}

/// Output of `order --json`: a written ordering file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OrderOutput<'a> {
    schema: Schema<1>,
    /// The file.
    output: Cow<'a, str>,
    linker: &'a str,
    /// Compiler arguments to link with the file; null if arguments alone are not enough.
    link_arguments: Option<String>,
    functions: usize,
    /// Weight of the profile that the order places.
    placed: PlacedOutput,
    /// Effect on the program of `--binary`; null without `--binary`, or if no forecast is possible.
    gain: Option<GainOutput>,
    skipped: Vec<SkippedItems>,
}

impl<'a> OrderOutput<'a> {
    fn new(text: &str, gain: Option<GainOutput>, linker: &'a Linker, output: &'a Path, ui: &Ui) -> Self {
        let name = output.to_string_lossy();
        let arguments = Some(linker.arguments).filter(|arguments| arguments.starts_with('-'));
        Self {
            schema: Schema,
            linker: linker.name,
            link_arguments: arguments.map(|arguments| arguments.replace("FILE", &name)),
            functions: link::read(text).map_or(0, |(_, asked)| asked.len()),
            placed: PlacedOutput::default(),
            gain,
            skipped: ui.skipped_items(),
            output: name,
        }
    }
}

/// Returns the engine for `--engine` or `--algorithm auto`; `None` for other algorithms.
fn engine(options: &OrderOptions) -> Result<Option<&'static Engine>> {
    let Some(number) = options.engine else {
        return Ok((options.algorithm == AUTO).then_some(LATEST));
    };
    let usage = |message: String| Err(Error::new(ErrorCode::Usage, message));
    let Some(engine) = versions::engine(number) else {
        let known: Vec<String> = ENGINES.iter().map(|engine| engine.number.to_string()).collect();
        return usage(format!("unknown engine {number}; supported: {}", known.join(", ")));
    };
    if options.algorithm != AUTO {
        return usage(format!(
            "--engine {number} selects an algorithm itself: remove --algorithm {}",
            options.algorithm
        ));
    }
    if !engine.knows_runs && (!options.trace.is_empty() || options.optimize_for.is_some()) {
        return usage(format!(
            "engine {number} supports neither --trace nor --optimize-for: it uses call counts only"
        ));
    }
    Ok(Some(engine))
}

/// Returns the goal with this name.
fn aim(name: &str) -> Option<Aim> {
    AIMS.iter().find(|(_, known, _)| *known == name).map(|(aim, _, _)| *aim)
}

/// Returns the linker with this name, or the compiler's linker.
fn linker(name: &str, ui: &Ui) -> Result<&'static Linker> {
    if name == AUTO {
        let (linker, version) = compiler::default_linker(ui)?;
        ui.note(&format!("--linker {}: {version}", linker.name));
        return Ok(linker);
    }
    link::linker(name).ok_or_else(|| Error::new(ErrorCode::Usage, format!("unknown linker {name}")))
}

/// A profile to order by.
struct WeightedProfile {
    name: String,
    weight: Weight,
    profile: Profile,
}

/// All inputs of an order except the profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderPlan<'a> {
    /// Release whose default order is requested; `None` for the order of `algorithm`.
    engine: Option<&'static Engine>,
    algorithm: &'a str,
    seed: u64,
    settings: &'a AlgorithmSettings,
    /// File of the selected binary.
    file: Option<&'a Path>,
    goal: Option<Aim>,
    traces: &'a [(PathBuf, Weight)],
    /// The older order, and the gain below which it stays.
    keep: Option<(&'a Path, f64)>,
    /// Alignment of the hot functions, in bytes.
    align_hot: Option<u64>,
    explain: &'a [String],
    linker: &'static Linker,
    /// True if the program is unknown, so that it may be compiled at link time.
    may_be_lto: bool,
}

impl OrderPlan<'_> {
    /// Returns the traces with their weights.
    fn workloads<'t>(&self, traces: &'t [Trace]) -> Vec<WeightedTrace<'t>> {
        let weights = self.traces.iter().map(|(_, weight)| weight.billionths());
        traces.iter().zip(weights).map(|(trace, weight)| WeightedTrace { trace, weight }).collect()
    }

    /// Computes the order of a graph for these runs.
    fn order(
        &self,
        profile: &Profile,
        built: BuiltGraph,
        traces: &[Trace],
        older: Option<&Older>,
        selection: &Selection<'_>,
        ui: &Ui,
    ) -> Result<Ordering> {
        let workloads = self.workloads(traces);
        let request = |method| OrderRequest { method, aim: self.goal, workloads: &workloads, older };
        if let Some(engine) = self.engine {
            self.settings.refuse_for_engine()?;
            return order::compute_built(profile, built, &request(OrderMethod::Engine(engine)));
        }
        let algorithm = algorithms::algorithm(self.algorithm)
            .ok_or_else(|| Error::new(ErrorCode::Usage, format!("unknown algorithm {}", self.algorithm)))?;
        if algorithm.input == algorithms::AlgorithmInput::Calls && !traces.is_empty() {
            let name = self.algorithm;
            let message = format!(
                "--trace works with --algorithm auto and algorithms for starts; {name} uses call counts only"
            );
            return Err(Error::new(ErrorCode::Usage, message));
        }
        let binary = binary_of(selection).zip(self.file);
        let known = AlgorithmInputs::of(self.settings, algorithm, profile, &built, traces, binary, ui)?;
        order::compute_built(
            profile,
            built,
            &request(OrderMethod::Algorithm(algorithm, known.options(self.seed))),
        )
    }
}

impl<'a> OrderPlan<'a> {
    /// Plan with the current engine, for this linker.
    pub(crate) fn by_default(linker: &'static Linker, settings: &'a AlgorithmSettings) -> Self {
        Self {
            engine: Some(LATEST),
            algorithm: AUTO,
            seed: 0,
            settings,
            file: None,
            goal: None,
            traces: &[],
            keep: None,
            align_hot: None,
            explain: &[],
            linker,
            may_be_lto: true,
        }
    }
}

/// Returns the text of an ordering file for a profile; prints skipped items.
pub(crate) fn order_text(
    profile: &Profile,
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    ui: &Ui,
) -> Result<String> {
    Ok(written(profile, selection, plan, ui)?.text)
}

/// An ordering file, and the gain of the order if the program's current link is known.
struct WrittenOrder {
    text: String,
    gain: Option<GainOutput>,
    placed: PlacedShare,
}

fn written(
    profile: &Profile,
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    ui: &Ui,
) -> Result<WrittenOrder> {
    let (ordering, gain, placed) = ordering_of(profile, selection, plan, None, ui)?;
    Ok(WrittenOrder { text: text_of(&ordering, selection, plan, ui)?, gain, placed })
}

/// As [`written`], for several workloads; each is compared with its own order.
fn written_of_several(
    inputs: &[WeightedProfile],
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    ui: &Ui,
) -> Result<WrittenOrder> {
    let weighed: Vec<(&Profile, Weight)> =
        inputs.iter().map(|input| (&input.profile, input.weight)).collect();
    let merged = merge::merge(&weighed, false)?;
    inputs::warn_of_similar_labels(&merged, ui);
    let left_out = match selection {
        Selection::Binary { .. } if plan.traces.is_empty() => {
            Some(workloads::left_out(inputs, selection, plan, ui)?)
        }
        _ => None,
    };
    let (ordering, gain, placed) = ordering_of(&merged, selection, plan, left_out, ui)?;
    workloads::print_workloads(inputs, &ordering, selection, plan, ui)?;
    Ok(WrittenOrder { text: text_of(&ordering, selection, plan, ui)?, gain, placed })
}

/// Orders the functions; prints skipped items and the effect of the order. `left_out` has the misses of recordings that
/// were held out of an order.
fn ordering_of(
    profile: &Profile,
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    left_out: Option<LeftOutMisses>,
    ui: &Ui,
) -> Result<(Ordering, Option<GainOutput>, PlacedShare)> {
    let built = order::build(profile, selection)?;
    let placed = order::placed_share(profile, selection, &built);
    share::say(placed, ui)?;
    let stays = built.skipped.items(Reason::RangedCode);
    if stays > 0 {
        ui.note(&format!(
            "{} stay in place: code finds them by an address range (OCaml, or code between two labels), or they run on into the next function",
            counted(stays, "function")
        ));
    }
    ui.skipped("graph", &built.skipped);
    warn_of_go(&built, ui);
    inputs::say_what_is_demangled(built.table.keys.iter().map(|key| key.name.as_str()), ui);
    let traces =
        plan.traces.iter().map(|(path, _)| read_trace(path, &built)).collect::<Result<Vec<Trace>>>()?;
    let older = |(path, threshold)| kept_order::read(path, &files::read(path)?, threshold);
    let older = plan.keep.map(older).transpose()?.flatten();
    let left_out = match (selection, plan.engine) {
        (Selection::Binary { .. }, Some(engine)) if !traces.is_empty() => {
            let workloads = plan.workloads(&traces);
            let request = OrderRequest {
                method: OrderMethod::Engine(engine),
                aim: plan.goal,
                workloads: &workloads,
                older: None,
            };
            Some(left_out::over_traces(profile, &built, &request)?)
        }
        _ => left_out,
    };
    let ordering = plan.order(profile, built, &traces, older.as_ref(), selection, ui)?;
    if let Some(engine) = plan.engine {
        workloads::print_traces(engine, &ordering, &traces, plan.traces, ui);
    }
    if let Some(unprofiled) = &ordering.unprofiled {
        estimates::print_estimates(unprofiled, ordering.is_estimated, ui);
    }
    let traces: Vec<&Trace> = traces.iter().collect();
    let program = ForecastProgram::new(profile, &ordering.built, &traces)?;
    goals::print_goals(&ordering, &program, &traces, plan.goal, ui);
    if let Some(older) = &older {
        keeping::print_moves(&ordering, older, ui);
    }
    let forecast = Forecast { profile, is_counted: !traces.is_empty(), left_out };
    let gain = gain::print_gain(&ordering, &program, &forecast, ui);
    Ok((ordering, gain.map(|gain| GainOutput::new(&gain, &forecast)), placed))
}

/// Warns of a Go program, which is recognised by functions of its runtime.
fn warn_of_go(built: &BuiltGraph, ui: &Ui) {
    let is_of_runtime =
        |name: &str| matches!(name, "runtime.goexit" | "runtime.goexit.abi0" | "runtime.rt0_go.abi0");
    if built.table.keys.iter().any(|key| is_of_runtime(&key.name)) {
        ui.warn("this is a Go program: Go's linker reads no order, so this file has no effect");
    }
}

/// Returns the text of an ordering file.
fn text_of(ordering: &Ordering, selection: &Selection<'_>, plan: &OrderPlan<'_>, ui: &Ui) -> Result<String> {
    for name in plan.explain {
        for line in explain::explain(name, ordering)?.lines() {
            ui.note(line);
        }
    }
    let (mut placements, skipped) =
        link::placements(&ordering.order, &ordering.built, binary_of(selection), plan.linker.wants_calls);
    ui.skipped("placing", &skipped);
    if plan.may_be_lto {
        link::add_sections_of_clones(&mut placements);
    }
    let (text, skipped) = (plan.linker.write)(&placements);
    ui.skipped(plan.linker.name, &skipped);
    match plan.align_hot {
        Some(bytes) => with_hot_block_aligned(ordering, &text, &placements, bytes, plan.linker, ui),
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
            "order: aligned the hot functions to {bytes} bytes in the file; to align them in memory, link with -Wl,-z,max-page-size={bytes}"
        ));
    }
    Ok(text)
}

/// Smallest page size in bytes: programs are loaded at a multiple of it.
const SMALLEST_PAGE: u64 = 4096;

/// Reads a trace; an error if no ordered function occurs in it.
pub(super) fn read_trace(path: &Path, built: &BuiltGraph) -> Result<Trace> {
    let named = |error: Error| error.with_input(files::display(path));
    let source = files::RecordingSource::open(path)?;
    let trace = file::load_with_others(&source, &built.table).map_err(named)?;
    if trace.functions.iter().all(|function| function.index() >= built.graph.len()) {
        return Err(named(
            Error::new(ErrorCode::NotInProfile, "the trace has no function to order").with_hint(
                "use a trace of the ordered program, imported with the same symbols as the profile",
            ),
        ));
    }
    Ok(trace)
}

fn binary_of<'a>(selection: &Selection<'a>) -> Option<&'a Binary> {
    match selection {
        Selection::Binary { binary, .. } => Some(binary),
        _ => None,
    }
}

/// Formats a ratio as a change in per cent: 0.3 is "-70 %".
fn change(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{percent:+.1} %")
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<OrderOutput<'_>>("order");
}
