// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a report as a single HTML file without scripts or network access, with its own style for light, dark and
//! print.

use super::document::{ReportPart, ReportTable};
use super::plots::plots;
use crate::Analysis;
use crate::comparison::{EffectScale, percent};
use maud::{Markup, PreEscaped, html};
use sediment_core::page::{HtmlPage, Text};

const STYLE: &str = include_str!("report.css");

/// The style rules of a section inside another page.
pub(super) const SECTION_STYLE: &str = STYLE;

pub(super) fn html(parts: &[ReportPart], analysis: &Analysis) -> String {
    let title = parts.iter().find_map(|part| match part {
        ReportPart::Heading(1, title) => Some(title.as_str()),
        _ => None,
    });
    let title = title.unwrap_or_default();
    let body = html! {
        header { "\n"
            p class="kicker" { "Evaluation" } "\n"
            h1 { (Text(title)) } "\n"
        } "\n"
        main id="evaluation" { "\n" (contents(parts, analysis, 0)) } "\n"
    };
    HtmlPage { title, style: STYLE, script: "", body: &body.into_string() }.html()
}

/// Writes the same as a part of another page, with headings from level 3.
pub(super) fn section(parts: &[ReportPart], analysis: &Analysis) -> String {
    contents(parts, analysis, 1).into_string()
}

/// Writes the verdicts, then the parts. Tables with a heading of their own are folded, because they are evidence.
fn contents(parts: &[ReportPart], analysis: &Analysis, deeper: u8) -> Markup {
    let begin = usize::from(matches!(parts.first(), Some(ReportPart::Heading(1, _))));
    // General warnings come after the answer.
    let first = parts.iter().position(|part| matches!(part, ReportPart::Heading(2, _))).unwrap_or(begin);
    let (warnings, parts) = (&parts[begin..first], &parts[first..]);
    let folded = |at: usize| match (&parts[at], parts.get(at + 1)) {
        (ReportPart::Heading(_, title), Some(ReportPart::Table(rows))) => Some((title, rows)),
        _ => None,
    };
    let above = |at: usize| {
        let mut headings = parts[..at].iter().rev();
        headings
            .find_map(
                |part| if let ReportPart::Heading(_, title) = part { Some(title.as_str()) } else { None },
            )
            .unwrap_or("")
    };
    html! {
        @for (name, verdict) in headlines(analysis) {
            p class="headline" { span class=(verdict) { (Text(&name)) } } "\n"
        }
        @for part in warnings { (plain(part, "Warnings", analysis, deeper)) }
        @for at in 0..parts.len() {
            @if let Some((title, rows)) = folded(at) {
                details { "\n" summary { (Text(title)) } (table(rows, title)) } "\n"
            } @else if at == 0 || folded(at - 1).is_none() {
                (plain(&parts[at], above(at), analysis, deeper))
            }
        }
    }
}

/// The change of each compared build, in a line, and the class of its verdict.
fn headlines(analysis: &Analysis) -> Vec<(String, &'static str)> {
    let several = analysis.workloads.len() > 1;
    let mut lines = Vec::new();
    for workload in &analysis.workloads {
        for judged in &workload.verdicts {
            let build = &analysis.variants[judged.variant];
            let found = workload.headline_comparison(judged.variant).filter(|_| build.probe.is_none());
            let Some(found) = found else { continue };
            let word = judged.verdict.word();
            let of = if several { format!(" on {}", workload.name) } else { String::new() };
            let change = match found.effect {
                Some(effect) if found.scale == EffectScale::Logarithm => format!(
                    ", {:+.2}\u{a0}% ({:+.2}\u{a0}% to {:+.2}\u{a0}%)",
                    percent(effect.interval.estimate),
                    percent(effect.interval.lower),
                    percent(effect.interval.upper)
                ),
                _ => String::new(),
            };
            let metric = workload.headline.map_or("", |at| analysis.metrics[at].name.as_str());
            lines.push((format!("{}{of}: {word}{change} {metric}", build.name), word));
        }
    }
    lines
}

/// Writes a part below a heading, which names its tables.
fn plain(part: &ReportPart, above: &str, analysis: &Analysis, deeper: u8) -> Markup {
    html! {
        @match part {
            ReportPart::Heading(level, title) => { (heading(*level + deeper, title)) "\n" }
            ReportPart::Paragraph(sentence) => { p { (Text(sentence)) } "\n" }
            ReportPart::List(items) => {
                ul { "\n"
                    @for item in items {
                        li { (Text(item)) } "\n"
                    }
                } "\n"
            }
            ReportPart::Table(rows) => { (table(rows, above)) }
            ReportPart::Plots(workload) => {
                @if let Some(workload) = analysis.workloads.get(*workload) {
                    (PreEscaped(plots(analysis, workload)))
                }
            }
        }
    }
}

fn heading(level: u8, title: &str) -> Markup {
    html! {
        @match level {
            1 => h1 { (Text(title)) },
            2 => h2 { (Text(title)) },
            3 => h3 { (Text(title)) },
            _ => h4 { (Text(title)) },
        }
    }
}

/// Writes a table that can be scrolled, named after the heading above and its first columns.
fn table(table: &ReportTable, heading: &str) -> Markup {
    const NAMED: usize = 3;
    let columns: Vec<&str> = table.columns.iter().map(|(title, _)| title.as_str()).take(NAMED).collect();
    let label = [heading, &columns.join(", ")].join(": ");
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(Text(label.trim_start_matches(": "))) {
            table { "\n"
                thead {
                    tr {
                        @for (title, number) in &table.columns {
                            th scope="col" class=[number.then_some("n")] { (Text(title)) }
                        }
                    }
                } "\n"
                tbody { "\n"
                    @for row in &table.rows {
                        tr {
                            @for (cell, (title, number)) in row.iter().zip(&table.columns) {
                                td class=[class(cell, title, *number)] { (Text(cell)) }
                            }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}

/// Class of a cell: the class for numbers, or its verdict.
fn class<'a>(cell: &'a str, title: &str, is_number: bool) -> Option<&'a str> {
    let is_verdict = ["faster", "slower", "equivalent", "inconclusive"].contains(&cell);
    match (is_number, is_verdict && title == "verdict") {
        (true, _) => Some("n"),
        (false, true) => Some(cell),
        (false, false) => None,
    }
}
