// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as text: for a terminal in aligned columns, and as Markdown.

use super::document::{ReportPart, ReportTable};
use sediment_core::escape;
use std::fmt::Write as _;

/// Width of lines of sentences on a terminal.
const WIDTH: usize = 100;

pub(super) fn terminal(parts: &[ReportPart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            ReportPart::Heading(level, title) => {
                let title = escape::terminal(title);
                let rule = match level {
                    1 => "=",
                    2 => "-",
                    _ => "",
                };
                let _ = writeln!(text, "\n{title}");
                if !rule.is_empty() {
                    let _ = writeln!(text, "{}", rule.repeat(title.chars().count()));
                }
            }
            ReportPart::Paragraph(sentence) => text.push_str(&fold(&escape::terminal(sentence), "", "")),
            ReportPart::List(items) => {
                for item in items {
                    text.push_str(&fold(&escape::terminal(item), "- ", "  "));
                }
            }
            ReportPart::Table(table) => {
                text.push('\n');
                text.push_str(&aligned(table));
            }
            ReportPart::Plots(_) => {}
        }
    }
    text.trim_start_matches('\n').to_owned()
}

/// Aligned columns, with numbers right-aligned.
pub(super) fn aligned(table: &ReportTable) -> String {
    let titles: Vec<String> = table.columns.iter().map(|(title, _)| escape::terminal(title)).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|cell| escape::terminal(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let gap = if column > 0 { "  " } else { "" };
            let (before, after) =
                if table.columns[column].1 { (padding.as_str(), "") } else { ("", padding.as_str()) };
            let _ = write!(line, "{gap}{before}{cell}{after}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn fold(sentence: &str, first: &str, others: &str) -> String {
    let mut text = String::new();
    let mut line = first.to_owned();
    let mut begun = false;
    for word in sentence.split(' ') {
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = others.to_owned();
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    let _ = writeln!(text, "{line}");
    text
}

pub(super) fn markdown(parts: &[ReportPart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            ReportPart::Heading(level, title) => {
                let _ = writeln!(text, "{} {}\n", "#".repeat(usize::from(*level)), escape::markdown(title));
            }
            ReportPart::Paragraph(sentence) => {
                let _ = writeln!(text, "{}\n", escape::markdown(sentence));
            }
            ReportPart::List(items) => {
                for item in items {
                    let _ = writeln!(text, "- {}", escape::markdown(item));
                }
                text.push('\n');
            }
            ReportPart::Table(table) => {
                text.push_str(&markdown_table(table));
                text.push('\n');
            }
            ReportPart::Plots(_) => {}
        }
    }
    text
}

fn markdown_table(table: &ReportTable) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut table.columns.iter().map(|(title, _)| escape::markdown(title)));
    let rules = table.columns.iter().map(|(_, number)| if *number { "--:" } else { "---" });
    let _ = writeln!(text, "|{}|", rules.collect::<Vec<_>>().join("|"));
    for row in &table.rows {
        text.push_str(&line(&mut row.iter().map(|cell| escape::markdown(cell))));
    }
    text
}
