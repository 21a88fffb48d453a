// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment predict`: what the orders should do, before anything is linked.

use super::order::{ENGINE, read_trace};
use super::{read_binary, read_profile};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment::Result;
use sediment::engine::{self, Workload};
use sediment::graph::{self, BuiltGraph, FunctionId, Trace};
use sediment::layout::{ALGORITHMS, Options};
use sediment::model::{self, Geometry};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Say what each order should do, before anything is linked
#[derive(Debug, Args)]
#[command(long_about = "Say what each order should do, before anything is linked.\n\n\
With --trace, misses of the instruction TLB are counted over the recorded run, that of libraries included; without, they are \
estimated from the calls, which ranks orders and forecasts no count. None of it is a measurement.")]
pub(crate) struct Arguments {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The program or library to be ordered, as linked before
    #[arg(long, value_name = "ELF", conflicts_with = "dso")]
    binary: Option<PathBuf>,
    /// The label of the program or library to be ordered, as the profile has it
    #[arg(long, value_name = "NAME")]
    dso: Option<String>,
    /// A run to count over, as `import --trace` writes it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Leave out the engine, which takes its time over a trace
    #[arg(long)]
    no_engine: bool,
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Sizes of the instruction TLB that are looked at, in entries.
const ENTRIES: [u32; 3] = [32, 64, 128];
/// How many random orders stand for chance.
const CHANCES: u64 = 5;

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    let binary = arguments.binary.as_deref().map(read_binary).transpose()?;
    let file_name = arguments.binary.as_deref().map(files::base_name).unwrap_or_default();
    let selection = super::selection(binary.as_ref(), &file_name, arguments.dso.as_deref());
    let built = graph::build(&profile, &selection)
        .map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    ui.losses("graph", &built.losses);
    let trace = arguments.trace.as_deref().map(|path| read_trace(path, &built)).transpose()?;
    let rows: Vec<Row> = orders(&built, trace.as_ref(), !arguments.no_engine)
        .into_iter()
        .map(|(name, order)| Row::of(name, &built, &order, trace.as_ref()))
        .collect();
    if arguments.json {
        return ui.json(&Value::Array(rows.iter().map(Row::json).collect()));
    }
    ui.result(&table(&rows, trace.is_some()))
}

/// Every order there is, chance several times.
fn orders(built: &BuiltGraph, trace: Option<&Trace>, with_engine: bool) -> Vec<(String, Vec<FunctionId>)> {
    let mut orders = Vec::new();
    if with_engine && trace.is_some() {
        let workloads: Vec<Workload<'_>> = trace.iter().map(|trace| Workload { trace, weight: 1 }).collect();
        orders.push((ENGINE.to_owned(), engine::order(&built.graph, &workloads).order));
    }
    for algorithm in ALGORITHMS {
        let seeds = if algorithm.name == "random" { 1..=CHANCES } else { 0..=0 };
        for seed in seeds {
            let name =
                if seed > 0 { format!("{} {seed}", algorithm.name) } else { algorithm.name.to_owned() };
            orders.push((name, (algorithm.run)(&built.graph, &Options { seed })));
        }
    }
    orders
}

struct Row {
    name: String,
    within_a_page: f64,
    hot_pages: [u64; 2],
    misses: [f64; ENTRIES.len()],
    /// First touches, and misses of other code at 64 entries; with a trace alone.
    compulsory: Option<u64>,
    outside: Option<u64>,
}

impl Row {
    fn of(name: String, built: &BuiltGraph, order: &[FunctionId], trace: Option<&Trace>) -> Self {
        let graph = &built.graph;
        let geometry = |tlb_entries| Geometry { tlb_entries, ..Geometry::default() };
        let score = model::score(graph, order, &Geometry::default());
        let replays =
            trace.map(|trace| ENTRIES.map(|entries| model::replay(trace, graph, order, &geometry(entries))));
        Self {
            name,
            within_a_page: score.call_distance.within_4_kib,
            hot_pages: [score.hot_pages.needed[1], score.hot_pages.needed[2]],
            misses: match replays {
                Some(replays) => replays.map(|replay| replay.misses as f64),
                None => ENTRIES.map(|entries| model::score(graph, order, &geometry(entries)).tlb.misses),
            },
            compulsory: replays.map(|replays| replays[1].pages),
            outside: replays.map(|replays| replays[1].outside),
        }
    }

    fn json(&self) -> Value {
        json!({
            "order": self.name,
            "calls_within_4_kib": self.within_a_page,
            "pages_of_90_percent": self.hot_pages[0],
            "pages_of_99_percent": self.hot_pages[1],
            "itlb_misses": ENTRIES.iter().zip(self.misses).map(|(entries, misses)| json!({"entries": entries, "misses": misses})).collect::<Vec<_>>(),
            "first_touches": self.compulsory,
            "misses_outside": self.outside,
        })
    }
}

fn table(rows: &[Row], counted: bool) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<15} {:>14} {:>15} {:>15} {:>14} {:>14} {:>14}",
        "order", "calls in 4 KiB", "pages of 90%", "pages of 99%", "misses, 32", "misses, 64", "misses, 128"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<15} {:>13.1}% {:>15} {:>15} {:>14.0} {:>14.0} {:>14.0}",
            row.name,
            100.0 * row.within_a_page,
            row.hot_pages[0],
            row.hot_pages[1],
            row.misses[0],
            row.misses[1],
            row.misses[2]
        );
    }
    let how = if counted {
        "counted over the run"
    } else {
        "estimated from the calls: they rank orders and forecast no count"
    };
    let _ = writeln!(text, "\nMisses of an instruction TLB of 32, 64 and 128 entries of 4 KiB, {how}.");
    let best = rows.iter().min_by(|a, b| a.misses[1].total_cmp(&b.misses[1]));
    if let Some((row, first, outside)) = best.and_then(|row| Some((row, row.compulsory?, row.outside?))) {
        let share = |part: u64| 100.0 * part as f64 / row.misses[1].max(1.0);
        let _ = writeln!(
            text,
            "Of {}'s at 64 entries, {:.1}% are first touches of pages, and {:.1}% are of other programs' and libraries' code: no order helps there.",
            row.name,
            share(first),
            share(outside)
        );
    }
    if let Some(input) = rows.iter().find(|row| row.name == "input") {
        let needed = input.compulsory.unwrap_or(input.hot_pages[1]);
        let _ = if needed <= u64::from(ENTRIES[1]) {
            writeln!(
                text,
                "Do not bother: unordered, what runs fits into {needed} pages, and {} entries hold them.",
                ENTRIES[1]
            )
        } else {
            writeln!(
                text,
                "Unordered, what runs takes {needed} pages: {} entries do not hold them.",
                ENTRIES[1]
            )
        };
    }
    text
}
