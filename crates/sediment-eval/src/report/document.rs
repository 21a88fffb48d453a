// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report before it is written in a language: headings, sentences, lists and tables, with every text as it is. Whoever writes it
//! out escapes it.

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReportPart {
    /// Heading of a level: 1 for the title.
    Heading(u8, String),
    /// A sentence or more.
    Paragraph(String),
    /// Several, each on its own.
    List(Vec<String>),
    /// Rows and columns.
    Table(ReportTable),
    /// The place of a workload's plots, for languages that have them.
    Plots(usize),
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReportTable {
    /// Titles of the columns, and whether they hold numbers.
    pub(super) columns: Vec<(String, bool)>,
    /// Cells, as many a row as there are columns.
    pub(super) rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// A table whose column titles that begin with `#` hold numbers.
    pub(super) fn new(titles: &[&str]) -> Self {
        let columns = titles.iter().map(|title| match title.strip_prefix('#') {
            Some(title) => (title.to_owned(), true),
            None => ((*title).to_owned(), false),
        });
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }
}
