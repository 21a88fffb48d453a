// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report independent of the output language: headings, sentences, lists and tables, with unescaped texts. The writer
//! of a language escapes them.

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReportPart {
    /// A heading with its level; the title has 1.
    Heading(u8, String),
    /// One or more sentences.
    Paragraph(String),
    /// Several sentences, each as its own item.
    List(Vec<String>),
    /// Rows and columns.
    Table(ReportTable),
    /// The position of a workload's plots, for languages that have plots.
    Plots(usize),
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReportTable {
    /// Titles of the columns; true for columns of numbers.
    pub(super) columns: Vec<(String, bool)>,
    /// Cells; each row has as many as there are columns.
    pub(super) rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// Makes a table; column titles that begin with `#` mark columns of numbers.
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
