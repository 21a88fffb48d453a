// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify --log`: every output of a build that the linker's wrapper ordered, against its order.

use super::{Arguments, as_percent, below_floor, in_json, report_on};
use crate::exit::BELOW_FLOOR;
use crate::files;
use crate::ui::Ui;
use crate::wrapper::LINKS;
use sediment::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(folder: &Path, arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let links = read(folder)?;
    let mut text = String::new();
    let mut entries = Vec::new();
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    let (mut code, mut ordered) = (ExitCode::SUCCESS, 0);
    for (output, link) in &links {
        let word = |key: &str| link[key].as_str().unwrap_or_default();
        let why = || word("why").to_owned();
        match word("outcome") {
            "ordered" => {}
            "failed" => {
                let _ = writeln!(
                    text,
                    "{output}: linked without its order, as the linker failed with it: {}",
                    why()
                );
                entries.push(json!({ "output": output, "outcome": "failed", "why": why() }));
                code = ExitCode::from(BELOW_FLOOR);
                continue;
            }
            _ => {
                *left.entry(why()).or_default() += 1;
                entries.push(json!({ "output": output, "outcome": "left", "why": why() }));
                continue;
            }
        }
        ordered += 1;
        let profile = Path::new(word("profile"));
        let report = report_on(Path::new(output), Path::new(word("order")), Some(profile), ui);
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                let _ = writeln!(text, "{output}: not verified: {error}");
                entries
                    .push(json!({ "output": output, "outcome": "not verified", "why": error.to_string() }));
                code = ExitCode::from(BELOW_FLOOR);
                continue;
            }
        };
        let _ = writeln!(
            text,
            "{output}: {} of the weight placed as asked; {} of {} functions; by its {}, for {}",
            as_percent(report.placed_parts_per_million),
            report.placed,
            report.asked,
            word("rule"),
            word("linker")
        );
        if below_floor(&report, &files::base_name(Path::new(output)), arguments, ui) {
            code = ExitCode::from(BELOW_FLOOR);
        }
        entries.push(json!({ "output": output, "outcome": "ordered", "rule": word("rule"), "report": in_json(&report) }));
    }
    if arguments.json {
        ui.json(&json!({ "schema": 1, "links": entries }))?;
        return Ok(code);
    }
    let _ = writeln!(text, "{ordered} of {} outputs ordered", links.len());
    for (why, count) in left {
        let _ = writeln!(text, "{count:>8} left as they are: {why}");
    }
    ui.result(&text)?;
    Ok(code)
}

/// The links of a build by their output, each as it was linked last.
fn read(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let path = folder.join(LINKS);
    let named = |error: Error| error.with_input(files::display(&path));
    let bytes =
        files::read(&path).map_err(|error| error.with_hint("is this the folder that SEDIMENT_LOG named?"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut links = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let link: Value = serde_json::from_str(line).map_err(|_| {
            named(Error::at_line(number, "no link as the wrapper writes them").with_found(line.as_bytes()))
        })?;
        let output =
            link["output"].as_str().ok_or_else(|| named(Error::at_line(number, "a link without output")))?;
        links.insert(output.to_owned(), link);
    }
    if links.is_empty() {
        return Err(named(Error::new(ErrorKind::Failed, "no link is in the log")));
    }
    Ok(links)
}
