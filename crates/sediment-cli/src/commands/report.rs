// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment report`: a layout before and after as a picture.

use crate::files;
use crate::inputs::{read_binary, read_profile};
use crate::ui::Ui;
use clap::Args;
use sediment::callgraph::GroupKind;
use sediment::order::{self, Ordering, Request, Selection};
use sediment::report::layout::{self, Heat, ProfiledFunction};
use sediment::{Error, ErrorCode, Result, link};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Draw a program's layout before and after ordering
#[derive(Debug, Args)]
#[command(
    long_about = "Draw a program's layout before and after ordering.\n\nWrites a self-contained HTML file: the heat of every page of code, a curve of the share of calls in the heaviest pages, and the functions of the heaviest pages. By default the layout after ordering is a prediction, for the order that `sediment order` computes. --order predicts the layout for an ordering file. --after shows a program that is already linked with an order."
)]
pub(crate) struct Arguments {
    /// Profile to read
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Program or library linked without an order
    #[arg(long, value_name = "PROGRAM")]
    binary: PathBuf,
    /// The same file linked with an order [default: none]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "order")]
    after: Option<PathBuf>,
    /// Ordering file of any linker [default: computed as by `sediment order`]
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// HTML file to write; - writes to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Line to add above the layouts; repeatable [default: none]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Vec<String>,
    /// Number of heaviest pages to draw function by function
    #[arg(long, value_name = "COUNT", default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pages: u16,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let profile = read_profile(&arguments.profile, ui)?;
    let binary = read_binary(&arguments.binary)?;
    let file_name = files::base_name(&arguments.binary);
    let selection = Selection::Binary { binary: &binary, file_name: &file_name };
    let Ordering { order, built, first, .. } = order::compute(&profile, &selection, &Request::default())
        .map_err(|error| error.with_input(files::display(&arguments.profile)))?;
    ui.skipped("graph", &built.skipped);
    let mut groups = vec![GroupKind::Unprofiled; built.graph.len()];
    for group in &order.groups {
        for function in &group.functions {
            groups[function.index()] = group.kind;
        }
    }
    let heat = Heat::of(built.graph.ids().map(|id| {
        let (weight, first) = (built.graph.weights()[id.index()], first[id.index()]);
        (&built.table.keys[id.index()], ProfiledFunction { weight, group: groups[id.index()], first })
    }));
    let before = layout::linked(&format!("before: {file_name} as linked"), &binary, &heat);
    let linked_after = arguments.after.as_deref().map(read_binary).transpose()?;
    let after = match (&linked_after, &arguments.order) {
        (Some(binary), _) => layout::linked("after: as linked with the order", binary, &heat),
        (None, Some(path)) => {
            let text = files::read(path)?;
            let (_, asked) = link::read(&String::from_utf8_lossy(&text))
                .map_err(|error| error.with_input(files::display(path)))?;
            let names = asked.iter().map(|asked| asked.name.as_str());
            layout::predicted(&format!("after: predicted for {}", files::base_name(path)), &before, names)
        }
        (None, None) => {
            let names = order.functions().map(|id| built.table.keys[id.index()].name.as_str());
            layout::predicted("after: predicted for the default order", &before, names)
        }
    };
    let source: Vec<&str> = profile.source.iter().map(String::as_str).collect();
    let mut notes = arguments.note.clone();
    notes.extend([
        format!("Call counts are from the profile {}, recorded by {}.", files::base_name(&arguments.profile), source.join(", ")),
        "A function's calls are spread evenly over its bytes, as the profile does not say which bytes were executed. Predicted layouts were not linked."
            .to_owned(),
        format!(
            "Made by sediment {} on {}: sediment report {} --binary {}{}.",
            env!("CARGO_PKG_VERSION"),
            today()?,
            files::base_name(&arguments.profile),
            files::base_name(&arguments.binary),
            match (&arguments.after, &arguments.order) {
                (Some(after), _) => format!(" --after {}", files::base_name(after)),
                (None, Some(order)) => format!(" --order {}", files::base_name(order)),
                (None, None) => String::new(),
            }
        ),
    ]);
    let page = layout::html(&file_name, &notes, &before, &after, usize::from(arguments.pages));
    files::write(&arguments.output, page.as_bytes(), ui)
}

/// Date of today in UTC, or of SOURCE_DATE_EPOCH: <https://reproducible-builds.org/specs/source-date-epoch/>.
fn today() -> Result<String> {
    let time = match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => SystemTime::now(),
        Some(given) => given
            .to_str()
            .and_then(|text| text.parse().ok())
            .filter(|seconds| *seconds <= LAST_SECOND)
            .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
            .ok_or_else(|| {
                Error::new(ErrorCode::Usage, "SOURCE_DATE_EPOCH is no time up to the year 9999")
                    .with_found(given.as_encoded_bytes())
                    .with_hint("it is a number of seconds since 1970; unset, the page has the date of today")
            })?,
    };
    let text = humantime::format_rfc3339_seconds(time).to_string();
    Ok(text.split('T').next().unwrap_or_default().to_owned())
}

/// The last second of the year 9999, in seconds since 1970.
const LAST_SECOND: u64 = 253_402_300_799;
