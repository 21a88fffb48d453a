// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as one HTML file that needs nothing else: no script, no network; light, dark and print by its own style.

use super::document::{Part, Table};
use super::plots::plots;
use crate::Analysis;
use sediment::escape;
use sediment::report::page::page;
use std::fmt::Write as _;

const STYLE: &str = include_str!("report.css");

pub(super) fn html(parts: &[Part], analysis: &Analysis) -> String {
    let title = parts.iter().find_map(|part| match part {
        Part::Heading(1, title) => Some(title.as_str()),
        _ => None,
    });
    let mut body = String::new();
    for part in parts {
        match part {
            Part::Heading(level, title) => {
                let _ = writeln!(body, "<h{level}>{}</h{level}>", escape::html(title));
            }
            Part::Paragraph(sentence) => {
                let _ = writeln!(body, "<p>{}</p>", escape::html(sentence));
            }
            Part::List(items) => {
                body.push_str("<ul>\n");
                for item in items {
                    let _ = writeln!(body, "<li>{}</li>", escape::html(item));
                }
                body.push_str("</ul>\n");
            }
            Part::Table(rows) => table(&mut body, rows),
            Part::Plots(workload) => {
                if let Some(workload) = analysis.workloads.get(*workload) {
                    body.push_str(&plots(analysis, workload));
                }
            }
        }
    }
    page(title.unwrap_or_default(), STYLE, &body)
}

fn table(page: &mut String, table: &Table) {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for (title, number) in &table.columns {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}</th>", escape::html(title));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (cell, (title, number)) in row.iter().zip(&table.columns) {
            let verdict = ["faster", "slower", "equivalent", "inconclusive"].contains(&cell.as_str());
            let class = match (number, verdict && title == "verdict") {
                (true, _) => " class=\"n\"".to_owned(),
                (false, true) => format!(" class=\"{cell}\""),
                (false, false) => String::new(),
            };
            let _ = write!(page, "<td{class}>{}</td>", escape::html(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}
