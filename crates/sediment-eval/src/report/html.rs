// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as one HTML file that needs nothing else: no script, no network; light, dark and print by its own style.

use super::document::{Part, Table};
use super::plots::plots;
use crate::Analysis;
use maud::{Markup, PreEscaped, html};
use sediment::report::page::{Text, page};

const STYLE: &str = include_str!("report.css");

pub(super) fn html(parts: &[Part], analysis: &Analysis) -> String {
    let title = parts.iter().find_map(|part| match part {
        Part::Heading(1, title) => Some(title.as_str()),
        _ => None,
    });
    let body = html! {
        @for part in parts {
            @match part {
                Part::Heading(level, title) => { (heading(*level, title)) "\n" }
                Part::Paragraph(sentence) => { p { (Text(sentence)) } "\n" }
                Part::List(items) => {
                    ul { "\n"
                        @for item in items {
                            li { (Text(item)) } "\n"
                        }
                    } "\n"
                }
                Part::Table(rows) => { (table(rows)) }
                Part::Plots(workload) => {
                    @if let Some(workload) = analysis.workloads.get(*workload) {
                        (PreEscaped(plots(analysis, workload)))
                    }
                }
            }
        }
    };
    page(title.unwrap_or_default(), STYLE, &body.into_string())
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

fn table(table: &Table) -> Markup {
    html! {
        div class="scroll" {
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

/// Class of a cell: that of numbers, or its verdict.
fn class<'a>(cell: &'a str, title: &str, is_number: bool) -> Option<&'a str> {
    let is_verdict = ["faster", "slower", "equivalent", "inconclusive"].contains(&cell);
    match (is_number, is_verdict && title == "verdict") {
        (true, _) => Some("n"),
        (false, true) => Some(cell),
        (false, false) => None,
    }
}
