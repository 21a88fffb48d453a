// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment predict`: predicts the effect of orders before linking.

mod output;

use super::order::gain::{self, Forecast, GainOutput};
use super::order::share;
use super::order::{AUTO, read_trace};
use crate::exit::ExitCode;
use crate::files;
use crate::inputs::settings;
use crate::inputs::{self, read_binary, read_profile, renamed};
use crate::output::Schema;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use clap::builder::PossibleValuesParser;
use output::{OrderScores, PredictOutput};
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link;
use sediment_order::model::cores::{CORES, Core, core_of};
use sediment_order::model::{self, AssumedLayout, CoreMisses, Geometry, HotPages, Score, StartFaults};
use sediment_order::order::algorithms::affinity::WeightedTrace;
use sediment_order::order::algorithms::{self, ALGORITHMS, Algorithm, AlgorithmInput, AlgorithmOptions};
use sediment_order::order::forecast::{ForecastProgram, OrderGain, TLB_ENTRIES};
use sediment_order::order::left_out;
use sediment_order::order::{self, BuiltGraph, OrderRequest};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Predict the effect of each order before linking
#[derive(Debug, Args)]
#[command(
    long_about = "Predict the effect of each order before linking.\n\nWith --binary, the first line is the forecast for the default order, or for the first --order; the row `input` is the program's current layout. With --trace, counts instruction TLB misses over the recorded run. Without it, estimates them from the calls. Both include the libraries. Neither is a measurement."
)]
pub(crate) struct Arguments {
    /// Profile to read
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Program or library to order, linked without an order [default: none]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "dso")]
    binary: Option<PathBuf>,
    /// Program or library to order, by its label in the profile [default: all]
    #[arg(long, value_name = "NAME")]
    dso: Option<String>,
    /// Trace from `import --trace` to count misses in; its first uses are the start of the program [default: none]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Ordering file of any linker to predict in addition; repeatable [default: none]
    #[arg(long, value_name = "FILE")]
    order: Vec<PathBuf>,
    /// Skip the default algorithm, which is slow with a trace
    #[arg(long, alias = "no-engine")]
    skip_auto: bool,
    /// Print all scores: call distances, hot pages by page size, misses of a processor core, page faults at start
    #[arg(long)]
    full: bool,
    /// Processor core for --full
    #[arg(long, value_name = "NAME", default_value = CORES[0].name, value_parser = PossibleValuesParser::new(CORES.iter().map(|core| core.name)))]
    core: String,
    /// Exit with 5 if an order places less than this share of the profile's weight, in per cent, 0 to 100; 0 always passes
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = values::percent)]
    min_coverage: u64,
    /// Print JSON with all scores
    #[arg(long)]
    json: bool,
}

/// Number of random orders to predict.
const CHANCES: u64 = 5;

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let mut profile = read_profile(&arguments.profile, ui)?;
    inputs::warn_of_quality(&profile, ui);
    let binary = arguments.binary.as_deref().map(read_binary).transpose()?;
    if let (Some(binary), Some(file)) = (&binary, arguments.binary.as_deref()) {
        renamed::follow(&mut profile, binary, file, None, ui)?;
    }
    let file_name = arguments.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = inputs::selection(binary.as_ref(), &file_name, arguments.dso.as_deref());
    let core = core_of(&arguments.core)
        .ok_or_else(|| Error::new(ErrorCode::Usage, format!("unknown core {}", arguments.core)))?;
    let built = order::build(&profile, &selection)
        .map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    let placed = order::placed_share(&profile, &selection, &built);
    share::say(placed, ui).map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    ui.skipped("graph", &built.skipped);
    let trace = arguments.trace.as_deref().map(|path| read_trace(path, &built)).transpose()?;
    let starts = settings::starts(&profile, &built, trace.as_slice());
    let traces: Vec<&Trace> = trace.iter().collect();
    let program = ForecastProgram::new(&profile, &built, &traces)?;
    let full = arguments.full || arguments.json;
    let known = PredictionInputs {
        built: &built,
        trace: trace.as_ref(),
        starts: &starts,
        core: full.then_some(core),
        program: &program,
    };
    let default = if arguments.skip_auto { None } else { Some(known.default_order(&profile)?) };
    let mut orders: Vec<(Name, Vec<FunctionId>)> = Vec::new();
    for path in &arguments.order {
        orders.push((Name::File(files::display_name(path)), known.read_order(path)?));
    }
    let judged = orders.first().map(|(_, order)| order).or(default.as_ref());
    let gain = judged.and_then(|order| program.gain(order));
    let left_out = match (&trace, &gain, orders.is_empty()) {
        (Some(trace), Some(_), true) => {
            let request =
                OrderRequest { workloads: &[WeightedTrace { trace, weight: 1 }], ..OrderRequest::default() };
            Some(left_out::over_traces(&profile, &built, &request)?)
        }
        _ => None,
    };
    let forecast = Forecast { profile: &profile, is_counted: trace.is_some(), left_out };
    let rows: Vec<PredictionRow> = default
        .iter()
        .map(|order| (Name::Default, order.clone()))
        .chain(orders.clone())
        .chain(known.orders())
        .map(|(name, order)| PredictionRow::of(name, &known, &order))
        .collect();
    if arguments.json {
        ui.json(&PredictOutput {
            schema: Schema,
            placed: placed.into(),
            orders: rows.iter().map(OrderScores::new).collect(),
            gain: gain.as_ref().map(|gain| GainOutput::new(gain, &forecast)),
        })?;
        return Ok(share::judge(placed, arguments.min_coverage, ui));
    }
    let mut text = match (&gain, arguments.binary.is_some()) {
        (Some(gain), _) => {
            let name =
                arguments.order.first().map_or_else(|| AUTO.to_owned(), |path| files::display_name(path));
            format!("{name}: {}\n{}\n", forecast.in_words(gain), unknown_time(gain, &profile))
        }
        (None, false) => "hint: --binary PROGRAM compares with the program's current layout\n\n".to_owned(),
        (None, true) if !program.has_calls() => format!("{}\n\n", gain::NO_FORECAST),
        (None, true) => String::new(),
    };
    text += &table(&rows);
    if arguments.full {
        text += &distances(&rows);
        text += &hot_pages(&rows);
        text += &core_table(&rows, core);
        text += &faults(&rows);
    }
    text += &limits(&rows, trace.is_some());
    ui.result(&text)?;
    Ok(share::judge(placed, arguments.min_coverage, ui))
}

/// Line for a gain whose worth in CPU time the profile does not limit; empty for others.
fn unknown_time(gain: &OrderGain, profile: &Profile) -> &'static str {
    if gain.fits() || gain.is_nothing() || gain::worth(gain, profile).is_some() {
        return "";
    }
    "What this is worth in CPU time is unknown: a recording with --method valgrind gives an upper limit, and sediment optimize measures it.\n"
}

/// Inputs of orders and scores.
struct PredictionInputs<'a> {
    built: &'a BuiltGraph,
    trace: Option<&'a Trace>,
    starts: &'a [Vec<FunctionId>],
    /// Processor core whose misses are counted.
    core: Option<&'static Core>,
    program: &'a ForecastProgram<'a>,
}

impl PredictionInputs<'_> {
    /// Reads the functions of an ordering file that are in the profile.
    fn read_order(&self, path: &Path) -> Result<Vec<FunctionId>> {
        let named = |error: Error| error.with_input(files::display(path));
        let text = String::from_utf8(files::read(path)?).map_err(|_| {
            named(Error::new(ErrorCode::UnknownFormat, "not an ordering file: it is not text"))
        })?;
        let (_, asked) = link::read(&text).map_err(named)?;
        let listed = asked.iter().map(|function| (function.name.as_str(), function.file.as_deref()));
        let order = order::functions_named(&self.built.table, listed);
        if order.is_empty() {
            return Err(named(
                Error::new(ErrorCode::NotInProfile, "no function of this order is in the profile")
                    .with_hint("was the order computed for another program?"),
            ));
        }
        Ok(order)
    }

    /// Computes the default order of `sediment order`, with the trace if there is one.
    fn default_order(&self, profile: &Profile) -> Result<Vec<FunctionId>> {
        let workloads: Vec<WeightedTrace<'_>> =
            self.trace.iter().map(|trace| WeightedTrace { trace, weight: 1 }).collect();
        let request = OrderRequest { workloads: &workloads, ..OrderRequest::default() };
        let ordering = order::compute_built(profile, self.built.clone(), &request)?;
        Ok(ordering.order.functions().collect())
    }

    /// Computes the order of each algorithm, and several random ones; algorithms for starts only if a start is known.
    fn orders(&self) -> Vec<(Name, Vec<FunctionId>)> {
        let graph = &self.built.graph;
        let mut orders = Vec::new();
        for algorithm in ALGORITHMS {
            if algorithm.input == AlgorithmInput::Starts && self.starts.is_empty() {
                continue;
            }
            let seeds = if *algorithm == algorithms::RANDOM { 1..=CHANCES } else { 0..=0 };
            for seed in seeds {
                let options = AlgorithmOptions { seed, starts: self.starts, ..AlgorithmOptions::default() };
                orders.push((Name::Algorithm(algorithm, seed), (algorithm.run)(graph, &options)));
            }
        }
        orders
    }
}

/// Name of an order.
#[derive(Clone)]
enum Name {
    Default,
    /// An algorithm, with its seed; 0 without one.
    Algorithm(&'static Algorithm, u64),
    /// An ordering file.
    File(String),
}

impl Name {
    /// Name in the notation of `sediment order --algorithm`.
    fn shown(&self) -> String {
        match self {
            Self::Default => AUTO.to_owned(),
            Self::Algorithm(algorithm, 0) => algorithm.name.to_owned(),
            Self::Algorithm(algorithm, seed) => format!("{} {seed}", algorithm.name),
            Self::File(name) => name.clone(),
        }
    }

    fn is_input(&self) -> bool {
        matches!(self, Self::Algorithm(algorithm, _) if **algorithm == *algorithms::INPUT)
    }
}

struct PredictionRow {
    name: Name,
    score: Score,
    misses: [f64; TLB_ENTRIES.len()],
    /// First touches, and misses of other code, at each of [`TLB_ENTRIES`]; only with a trace.
    compulsory: Option<u64>,
    outside: Option<[u64; TLB_ENTRIES.len()]>,
    core: Option<CoreMisses>,
    /// Page faults of the start, if one is known.
    faults: Option<StartFaults>,
}

impl PredictionRow {
    fn of(name: Name, known: &PredictionInputs<'_>, order: &[FunctionId]) -> Self {
        let graph = &known.built.graph;
        let standard = Geometry::default();
        let geometry = |tlb_entries| Geometry { tlb_entries, ..standard };
        let linked = known.program.linked().filter(|_| name.is_input());
        let layout = linked.unwrap_or(AssumedLayout::Packed(order));
        let replays = known
            .trace
            .map(|trace| TLB_ENTRIES.map(|entries| model::replay(trace, graph, layout, &geometry(entries))));
        Self {
            name,
            score: model::score(graph, layout, &standard),
            misses: known.program.outlook(layout).misses,
            compulsory: replays.map(|replays| replays[1].pages),
            outside: replays.map(|replays| replays.map(|replay| replay.outside)),
            core: known.core.map(|core| match known.trace {
                Some(trace) => model::core_replay(trace, graph, layout, core, &standard),
                None => model::core_misses(graph, layout, core, &standard),
            }),
            faults: known.starts.first().map(|start| model::start_faults(start, graph, layout, &standard)),
        }
    }

    /// Hot pages of 4, 16 and 64 KiB and 2 MiB.
    fn hot_pages(&self) -> [HotPages; 4] {
        let [larger, large, huge] = self.score.hot_larger_pages;
        [self.score.hot_pages, larger, large, huge]
    }
}

fn table(rows: &[PredictionRow]) -> String {
    let mut text = format!(
        "{:<22} {:>14} {:>13} {:>13} {:>12} {:>12} {:>12}\n",
        "order",
        "calls in 4 KiB",
        "pages of 90 %",
        "pages of 99 %",
        "misses, 32",
        "misses, 64",
        "misses, 128"
    );
    for row in rows {
        let [of_90, of_99] = [1, 2].map(|share| row.score.hot_pages.needed[share]);
        let [small, middle, large] = row.misses;
        let share = 100.0 * row.score.call_distance.within_4_kib;
        let _ = writeln!(
            text,
            "{:<22} {share:>12.1} % {of_90:>13} {of_99:>13} {small:>12.0} {middle:>12.0} {large:>12.0}",
            row.name.shown()
        );
    }
    text
}

fn distances(rows: &[PredictionRow]) -> String {
    let mut text = format!(
        "\nCall distance, weighted by call counts\n{:<22} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
        "order", "mean bytes", "in 64 B", "in 4 KiB", "in 2 MiB", "mean D^-1/4"
    );
    for row in rows {
        let distance = &row.score.call_distance;
        let [line, page, huge] = [distance.within_64_bytes, distance.within_4_kib, distance.within_2_mib]
            .map(|share| 100.0 * share);
        let _ = writeln!(
            text,
            "{:<22} {:>12.0} {line:>10.1} % {page:>10.1} % {huge:>10.1} % {:>12.4}",
            row.name.shown(),
            distance.mean,
            distance.nearness
        );
    }
    text
}

fn hot_pages(rows: &[PredictionRow]) -> String {
    let mut text = format!("\nPages for 50, 90, 99 and 99.9 % of the weight\n{:<22}", "order");
    for size in ["4 KiB", "16 KiB", "64 KiB", "2 MiB"] {
        let _ = write!(text, " {size:>23}");
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, "{:<22}", row.name.shown());
        for pages in row.hot_pages() {
            let [half, most, nearly, all] = pages.needed;
            let _ = write!(text, " {half:>5} {most:>5} {nearly:>5} {all:>5}");
        }
        text.push('\n');
    }
    text
}

fn core_table(rows: &[PredictionRow], core: &Core) -> String {
    let sets = |sets: model::cores::Sets| format!("{} in {} ways", sets.units, sets.ways);
    let mut text = format!(
        "\nMisses of {}: instruction TLB {}, second level {} (shared with data, all for code here), L1I {} lines (a rough estimate that does not rank orders)\n{:<22} {:>14} {:>14} {:>14}\n",
        core.summary,
        sets(core.itlb),
        sets(core.second_tlb),
        sets(core.l1i),
        "order",
        "TLB",
        "page walks",
        "L1I"
    );
    for (row, misses) in rows.iter().filter_map(|row| Some((row, row.core?))) {
        let CoreMisses { itlb, walks, l1i } = misses;
        let _ = writeln!(text, "{:<22} {itlb:>14.0} {walks:>14.0} {l1i:>14.0}", row.name.shown());
    }
    text
}

fn faults(rows: &[PredictionRow]) -> String {
    let Some(uses) = rows.first().and_then(|row| row.faults).map(|faults| faults.uses) else {
        return "\nNo page faults at start: the profile has no first uses.\n".to_owned();
    };
    let mut text = format!(
        "\nPage faults at start, {uses} functions\n{:<22} {:>14} {:>14} {:>20}\n",
        "order", "pages", "64 KiB around", "mean pages so far"
    );
    for (row, faults) in rows.iter().filter_map(|row| Some((row, row.faults?))) {
        let mean = faults.area as f64 / faults.uses.max(1) as f64;
        let _ = writeln!(
            text,
            "{:<22} {:>14} {:>14} {mean:>20.1}",
            row.name.shown(),
            faults.pages,
            faults.around
        );
    }
    text
}

/// Describes the source of the misses, and the misses that no order removes.
fn limits(rows: &[PredictionRow], is_counted: bool) -> String {
    let mut text = String::new();
    let how = if is_counted { "counted over the trace" } else { "estimated from calls" };
    let _ = writeln!(text, "\nMisses of an instruction TLB with 32, 64 and 128 entries of 4 KiB, {how}.");
    let best = rows.iter().min_by(|a, b| a.misses[1].total_cmp(&b.misses[1]));
    if let Some((row, first, outside)) = best.and_then(|row| Some((row, row.compulsory?, row.outside?[1]))) {
        let share = |part: u64| 100.0 * part as f64 / row.misses[1].max(1.0);
        let _ = writeln!(
            text,
            "No order removes these misses of {} at 64 entries: {:.1} % first touches of pages, {:.1} % in other programs and libraries.",
            row.name.shown(),
            share(first),
            share(outside)
        );
    }
    text
}
