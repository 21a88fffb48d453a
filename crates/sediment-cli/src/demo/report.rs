// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report of the demo: the steps, the figures before and after, and the same steps for another program.

use super::program::{FILES, FUNCTIONS, HOT_FUNCTIONS};
use super::toolchain::Toolchain;
use crate::change;
use crate::output::Schema;
use sediment_core::plural::grouped;
use sediment_measure::samples::Spread;
use sediment_measure::{Reading, Unit};
use sediment_order::verify::Report;
use serde::Serialize;
use std::fmt::Write;

/// A quantity of both programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Linked in input order.
    pub(crate) before: Reading,
    /// Linked in sediment's order.
    pub(crate) after: Reading,
}

/// Results of the demo.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Requests that were recorded.
    pub(crate) recorded_requests: u32,
    /// Functions in the profile of the program itself.
    pub(crate) profiled_functions: usize,
    /// Name of the recorder.
    pub(crate) recorder: &'static str,
    /// Number of functions in the order for the linker.
    pub(crate) ordered_functions: usize,
    /// Results of verification: first the program linked without the order.
    pub(crate) verified: [Report; 2],
    /// Measurements of both programs.
    pub(crate) comparisons: Vec<Comparison>,
    /// Requests that each of those runs served.
    pub(crate) measured_requests: u32,
    /// Meters that do not work here, and why.
    pub(crate) missing_meters: Vec<String>,
    /// User time of the program in sediment's order over that in input order, by pair.
    pub(crate) time_ratios: Vec<f64>,
    /// Requests that each run of a pair served.
    pub(crate) timed_requests: u32,
    /// Folder of the kept files.
    pub(crate) kept_in: Option<String>,
}

/// Output of `demo --json`: the figures of the generated program before and after.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DemoOutput<'a> {
    schema: Schema<1>,
    compiler: &'a str,
    linker: &'a str,
    /// Recording method.
    method: &'static str,
    profiled_functions: usize,
    ordered_functions: usize,
    /// Share of the calls that go to functions placed as ordered, in per cent.
    weight_placed_percent: f64,
    measured: Vec<DemoFigure>,
    /// User time of the program in sediment's order over that in input order, of each pair of runs.
    time_ratios: &'a [f64],
    /// Meters that do not work here, and why, for people.
    missing_meters: &'a [String],
    /// Folder of the kept files; null without `--keep`.
    kept_in: Option<&'a str>,
}

/// A quantity of both programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DemoFigure {
    name: &'static str,
    /// `count`, `bytes` or `microseconds`.
    unit: &'static str,
    /// Linked in input order.
    before: u64,
    /// Linked in sediment's order.
    after: u64,
}

/// The report for programs.
pub(crate) fn output<'a>(findings: &'a Findings, toolchain: &'a Toolchain) -> DemoOutput<'a> {
    let figure = |row: &Comparison| DemoFigure {
        name: row.before.quantity.name,
        unit: match row.before.quantity.unit {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Microseconds => "microseconds",
        },
        before: row.before.value,
        after: row.after.value,
    };
    DemoOutput {
        schema: Schema,
        compiler: &toolchain.compiler_version,
        linker: &toolchain.linker_version,
        method: findings.recorder,
        profiled_functions: findings.profiled_functions,
        ordered_functions: findings.ordered_functions,
        weight_placed_percent: findings.verified[1].placed_parts_per_million as f64 / 1e4,
        measured: findings.comparisons.iter().map(figure).collect(),
        time_ratios: &findings.time_ratios,
        missing_meters: &findings.missing_meters,
        kept_in: findings.kept_in.as_deref(),
    }
}

/// The report.
pub(crate) fn text(findings: &Findings, toolchain: &Toolchain) -> String {
    let mut text = done(findings, toolchain);
    text += &measured(findings);
    text += &meaning(findings);
    text += &next_steps(toolchain);
    if let Some(folder) = &findings.kept_in {
        let _ = writeln!(text, "\nAll files of the demo are in {folder}.");
    }
    text
}

fn done(findings: &Findings, toolchain: &Toolchain) -> String {
    let mut text = format!(
        "Generated program: {} functions in {FILES} C files; {} of them serve requests, spread over all files.\n\n",
        grouped(FUNCTIONS as u64),
        grouped(HOT_FUNCTIONS as u64),
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<10} {value}");
    };
    row("compiler", toolchain.compiler_version.clone());
    row("linker", format!("{}: reads an order with {}", toolchain.linker_version, toolchain.linker.name));
    row(
        "recorded",
        format!(
            "{} requests by {}: {} functions of the program",
            grouped(findings.recorded_requests),
            findings.recorder,
            grouped(findings.profiled_functions as u64),
        ),
    );
    row(
        "ordered",
        format!(
            "{} functions in the default order (--algorithm auto)",
            grouped(findings.ordered_functions as u64)
        ),
    );
    let [before, after] = &findings.verified;
    row(
        "verified",
        format!(
            "{}.{} % of the calls go to functions placed as ordered",
            after.placed_parts_per_million / 10_000,
            after.placed_parts_per_million % 10_000 / 1_000,
        ),
    );
    row(
        "",
        format!(
            "profiled functions on {} pages, fewest possible {}; before on {}",
            after.hot_pages, after.ideal_pages, before.hot_pages
        ),
    );
    text
}

fn measured(findings: &Findings) -> String {
    let mut text = format!(
        "\nMeasured on {} requests that were not recorded:\n\n  {:<16} {:>14}  {:>16}  {:>9}\n",
        grouped(findings.measured_requests),
        "",
        "input order",
        "sediment's order",
        "change",
    );
    for Comparison { before, after } in &findings.comparisons {
        let _ = writeln!(
            text,
            "  {:<16} {:>14}  {:>16}  {:>9}",
            before.quantity.name,
            value(before),
            value(after),
            change(before.value, after.value)
        );
    }
    if let Some(spread) = Spread::of(&findings.time_ratios) {
        let _ = writeln!(
            text,
            "\n  user time, after / before, of {} interleaved pairs of runs ({} requests each):\n  median {:.3}, quartiles {:.3} to {:.3}, range {:.3} to {:.3}",
            findings.time_ratios.len(),
            grouped(findings.timed_requests),
            spread.median,
            spread.lower_quartile,
            spread.upper_quartile,
            spread.minimum,
            spread.maximum,
        );
    }
    for missing in &findings.missing_meters {
        let _ = writeln!(text, "\n  not measured: {missing}");
    }
    text
}

fn meaning(findings: &Findings) -> String {
    let time = match Spread::of(&findings.time_ratios) {
        Some(spread) if spread.lower_quartile <= 1.0 && spread.upper_quartile >= 1.0 => {
            "The quartiles of the time are on both sides of 1: these runs do not show whether it became faster or slower.\n"
        }
        _ => "",
    };
    format!(
        "\nBoth programs printed the same checksums. Misses, instructions and pages are simulated by cachegrind (a TLB of 64\npages without a second level, an L1 cache of 32 KiB) and exact. Faults, memory and time are of this machine.\n{time}The hot functions were spread on purpose. Expect less where files already group them.\n"
    )
}

fn next_steps(toolchain: &Toolchain) -> String {
    let linker = toolchain.linker.name;
    let arguments = toolchain.order_arguments("\"$PWD\"/program.order").join(" ");
    format!(
        "\nThe same with your own program:\n\n  \
         1. compile with -ffunction-sections (with GCC's -flto: also when linking), link, and do not strip\n  \
         2. sediment record -o program.gv -- ./program ARGUMENTS\n  \
         3. sediment order program.gv --binary ./program --linker {linker} -o program.order\n  \
         4. link again with {arguments}\n  \
         5. sediment verify ./program --order program.order --profile program.gv\n"
    )
}

fn value(reading: &Reading) -> String {
    match reading.quantity.unit {
        Unit::Bytes => format!("{:.2} MiB", reading.value as f64 / (1 << 20) as f64),
        Unit::Microseconds => format!("{:.3} s", reading.value as f64 / 1e6),
        _ => grouped(reading.value),
    }
}

/// The change in percent, with its sign.
fn change(before: u64, after: u64) -> String {
    if before == after {
        return "none".to_owned();
    }
    if before == 0 {
        return "–".to_owned();
    }
    change::in_percent(after as f64 / before as f64, 1).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_documented() {
        support::documented_schema::<DemoOutput<'_>>("demo");
    }

    #[test]
    fn a_change_has_its_sign() {
        assert_eq!(change(200, 100), "−50.0 %");
        assert_eq!(change(100, 101), "+1.0 %");
        assert_eq!(change(5, 5), "none");
        assert_eq!(change(0, 5), "–");
    }
}
