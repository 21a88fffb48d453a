// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the columns of a perf report, and the cells of its rows.
//!
//! perf prints in one of two forms. *Ruled*: a header line, followed by a line with dots as wide as each column;
//! columns are padded and two blanks apart. *Separated* (`-t`): a separator between the columns and no ruler; perf
//! replaces the separator in names by `.`. Counting words does not work, because names, commands and paths contain
//! blanks.
//!
//! In the ruled form a cell is as wide as its ruler, with two exceptions that move the rest of the row to the right. An
//! address without a symbol is never cut, nor is a name in a column that `-v` fills with addresses; and a number may
//! need more digits.

use memchr::memmem;
use sediment_core::error::{Error, Result};

/// Relevant kinds of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Overhead,
    Samples,
    Period,
    SourceObject,
    SourceSymbol,
    TargetObject,
    TargetSymbol,
    Other,
}

const HEADINGS: [(&[u8], ColumnKind); 8] = [
    (b"Overhead", ColumnKind::Overhead),
    (b"Self", ColumnKind::Overhead),
    (b"Samples", ColumnKind::Samples),
    (b"Period", ColumnKind::Period),
    (b"Source Shared Object", ColumnKind::SourceObject),
    (b"Source Symbol", ColumnKind::SourceSymbol),
    (b"Target Shared Object", ColumnKind::TargetObject),
    (b"Target Symbol", ColumnKind::TargetSymbol),
];

/// perf has fewer than a hundred columns; each row is split into all of them.
const MOST_COLUMNS: usize = 256;

/// One column.
#[derive(Debug, Clone, Copy)]
struct Column {
    kind: ColumnKind,
    /// Width that perf gave it, in bytes.
    width: usize,
    /// True if it is narrower than its heading, which only `-w` causes.
    narrow: bool,
}

/// The columns of one table.
#[derive(Debug, Clone)]
pub(super) struct TableColumns<'a> {
    columns: Vec<Column>,
    /// Blanks before the first column, in the ruled form.
    indent: usize,
    /// Text between columns, in the separated form.
    separator: Option<&'a [u8]>,
}

/// A row that does not fit its columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MisfitRow(pub(super) String);

impl<'a> TableColumns<'a> {
    /// Returns the columns named by a comment line, if it is the header of a table; `next` is the line after it, which
    /// may be the ruler.
    ///
    /// # Errors
    /// If columns of branches exist but cannot be distinguished.
    pub(super) fn of_header(header: &'a [u8], next: &[u8], line: u64) -> Result<Option<Self>> {
        let Some(text) = header.strip_prefix(b"#") else { return Ok(None) };
        if let Some(spans) = ruler(next) {
            let cell = |&(start, width): &(usize, usize)| {
                let from = start.min(header.len());
                (&header[from..(start + width).min(header.len())], width)
            };
            let cells: Vec<(&[u8], usize)> = spans.iter().map(cell).collect();
            let indent = spans.first().map_or(0, |span| span.0);
            return Ok(Some(Self { columns: kinds(&cells, line)?, indent, separator: None }));
        }
        let Some(separator) = separator_of(text, line)? else { return Ok(None) };
        let cells: Vec<(&[u8], usize)> = split_by(text.strip_prefix(b" ").unwrap_or(text), separator)
            .into_iter()
            .map(|cell| (cell, cell.len()))
            .collect();
        Ok(Some(Self { columns: kinds(&cells, line)?, indent: 0, separator: Some(separator) }))
    }

    /// Index of the column of this kind.
    pub(super) fn find(&self, kind: ColumnKind) -> Option<usize> {
        self.columns.iter().position(|column| column.kind == kind)
    }

    /// True if a column is narrower than its heading, so that names which fill it are cut.
    pub(super) fn is_narrow(&self, column: usize) -> bool {
        self.columns[column].narrow
    }

    /// Width of a column.
    pub(super) fn width(&self, column: usize) -> usize {
        self.columns[column].width
    }

    /// True if this line after a row belongs to the row's call tree.
    pub(super) fn is_tree(&self, line: &[u8]) -> bool {
        let text = line.trim_ascii();
        if let Some(separator) = self.separator {
            let tree = text.starts_with(b"|") || text.starts_with(b"--");
            return tree && split_by(line, separator).len() != self.columns.len();
        }
        let first = self.columns.first().map_or(0, |column| self.indent + column.width);
        let blank = line[..first.min(line.len())].iter().all(|b| *b == b' ');
        blank || text.starts_with(b"|") || text.starts_with(b"--")
    }

    /// Returns the cells of a row, one for each column, with their padding.
    ///
    /// # Errors
    /// When the row does not fit the columns.
    pub(super) fn cells(&self, row: &'a [u8]) -> std::result::Result<Vec<&'a [u8]>, MisfitRow> {
        let Some(separator) = self.separator else { return self.ruled_cells(row) };
        let cells = split_by(row, separator);
        if cells.len() != self.columns.len() {
            return Err(MisfitRow(format!(
                "a row of {} fields under a header of {}",
                cells.len(),
                self.columns.len()
            )));
        }
        Ok(cells)
    }

    fn ruled_cells(&self, row: &'a [u8]) -> std::result::Result<Vec<&'a [u8]>, MisfitRow> {
        let misfit = || MisfitRow("a row that is not aligned with the columns of its header".to_owned());
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut at = 0;
        for (number, column) in self.columns.iter().enumerate() {
            let gap = if number == 0 { self.indent } else { 2 };
            let before = &row[at.min(row.len())..(at + gap).min(row.len())];
            if before.iter().any(|b| *b != b' ') {
                return Err(misfit());
            }
            at += gap;
            let rest = &row[at.min(row.len())..];
            let width = match column.kind {
                ColumnKind::SourceSymbol | ColumnKind::TargetSymbol => symbol_width(rest, column.width),
                ColumnKind::Overhead | ColumnKind::Samples | ColumnKind::Period => {
                    number_width(rest, column.width)
                }
                _ => column.width,
            };
            cells.push(&rest[..width.min(rest.len())]);
            at += width;
        }
        if row[at.min(row.len())..].iter().any(|b| *b != b' ') { Err(misfit()) } else { Ok(cells) }
    }
}

/// Returns the columns of a ruler (start, width); `None` if the line is not a ruler.
fn ruler(line: &[u8]) -> Option<Vec<(usize, usize)>> {
    let text = line.strip_prefix(b"#")?;
    if !text.contains(&b'.') || !text.iter().all(|b| matches!(b, b'.' | b' ')) {
        return None;
    }
    let mut spans = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let width = line[at..].iter().take_while(|b| **b == b'.').count();
        if width > 0 {
            spans.push((at, width));
        }
        at += width.max(1);
    }
    Some(spans)
}

fn split_by<'a>(text: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut cells = Vec::new();
    let mut from = 0;
    for at in memmem::find_iter(text, separator) {
        cells.push(&text[from..at]);
        from = at + separator.len();
    }
    cells.push(&text[from..]);
    cells
}

/// Finds the separator in a header without a ruler: the text before a heading that begins its column.
fn separator_of(text: &[u8], line: u64) -> Result<Option<&[u8]>> {
    let (Some(source), Some(target)) =
        (memmem::find(text, b"Source Symbol"), memmem::find(text, b"Target Symbol"))
    else {
        return Ok(None);
    };
    let before = text[..source.max(target)].trim_ascii_start();
    let is_separator = |b: &u8| !b.is_ascii_alphanumeric() && !matches!(b, b' ' | b']' | b')' | b'%');
    let length = before.iter().rev().take_while(|b| is_separator(b)).count();
    if length == 0 {
        return Err(Error::at_line(
            line,
            "the table has no line of dots and no separator between its columns",
        )
        .with_found(text)
        .with_hint("keep the line of dots below the header, or print the report with -t '|'"));
    }
    Ok(Some(&before[before.len() - length..]))
}

/// Determines the kind of each column from its heading. `-w` may have cut a heading to the width of its column.
fn kinds(cells: &[(&[u8], usize)], line: u64) -> Result<Vec<Column>> {
    if cells.len() > MOST_COLUMNS {
        return Err(Error::at_line(line, format!("a table of {} columns, more than perf has", cells.len())));
    }
    // "Source S" would be ambiguous.
    const TELLING: usize = b"Source Sy".len();
    let mut columns: Vec<Column> = cells
        .iter()
        .map(|&(cell, width)| {
            let heading = cell.trim_ascii();
            let is = |full: &[u8]| {
                heading == full
                    || (heading.len() == width && heading.len() >= TELLING && full.starts_with(heading))
            };
            let found = HEADINGS.iter().find(|(full, _)| is(full));
            let narrow = found.is_some_and(|(full, _)| heading.len() < full.len());
            Column { kind: found.map_or(ColumnKind::Other, |(_, kind)| *kind), width, narrow }
        })
        .collect();
    for (side, symbol, object) in [
        (b"Source S", ColumnKind::SourceSymbol, ColumnKind::SourceObject),
        (b"Target S", ColumnKind::TargetSymbol, ColumnKind::TargetObject),
    ] {
        let has = |columns: &[Column], kind| columns.iter().any(|column| column.kind == kind);
        let Some(narrow) = cells.iter().position(|(cell, _)| cell.trim_ascii() == side) else { continue };
        columns[narrow].narrow = true;
        match (has(&columns, symbol), has(&columns, object)) {
            (true, false) => columns[narrow].kind = object,
            (false, true) => columns[narrow].kind = symbol,
            _ => {
                return Err(Error::at_line(line, "the columns are too narrow to identify")
                    .with_found(cells[narrow].0)
                    .with_hint("print the report without -w"));
            }
        }
    }
    Ok(columns)
}

/// The cell of a symbol column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolCell<'a> {
    /// A name, and perf's mark for its privilege level.
    Named(&'a [u8], u8),
    /// An address for which perf found no symbol, and the mark.
    Address(&'a [u8], u8),
    /// No branch, as in rows of samples without one.
    Nothing,
}

impl<'a> SymbolCell<'a> {
    /// Splits `[.] name`, with the address that `-v` prints before it.
    pub(super) fn parse(cell: &'a [u8]) -> Self {
        let cell = cell.trim_ascii();
        let start = before_name(cell);
        if start == 0 {
            return Self::Nothing;
        }
        let mark = cell[start - 3];
        let name = cell[start.min(cell.len())..].trim_ascii();
        match name {
            b"" => Self::Nothing,
            b"[unknown]" => Self::Address(name, mark),
            _ if address_length(name) == name.len() => Self::Address(name, mark),
            _ => Self::Named(name, mark),
        }
    }
}

/// Width of the text before the name in a symbol cell: `[.] `, and with `-v` also an address and the origin of the
/// symbol. 0 without a mark. If the cell ends with the mark, the blank after it counts, because it may have been
/// trimmed.
fn before_name(cell: &[u8]) -> usize {
    let mark_at = |at: usize| {
        cell.get(at) == Some(&b'[')
            && cell.get(at + 2) == Some(&b']')
            && cell.get(at + 3).is_none_or(|b| *b == b' ')
    };
    if mark_at(0) {
        return 4;
    }
    let address = address_length(cell);
    if address == 0 {
        return 0;
    }
    let blanks = cell[address..].iter().take_while(|b| **b == b' ').count();
    let mark = address + blanks + 2;
    if blanks > 0 && cell.get(mark - 1) == Some(&b' ') && mark_at(mark) { mark + 4 } else { 0 }
}

/// Length of `0x` and hexadecimal digits at the start; 0 without them.
fn address_length(text: &[u8]) -> usize {
    let Some(digits) = text.strip_prefix(b"0x") else { return 0 };
    let digits = digits.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if digits == 0 { 0 } else { 2 + digits }
}

fn symbol_width(rest: &[u8], width: usize) -> usize {
    let start = before_name(rest);
    let name = &rest[start.min(rest.len())..];
    let address = address_length(name);
    let ends_there = name.get(address).is_none_or(|b| *b == b' ');
    if address > 0 && ends_there {
        width.max(start + address)
    } else if start > width {
        // There was no room for a name; in this case perf prints all of it.
        start + memmem::find(name, b"  ").unwrap_or(name.len())
    } else {
        width
    }
}

fn number_width(rest: &[u8], width: usize) -> usize {
    width + rest.get(width..).unwrap_or_default().iter().take_while(|b| **b != b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_taken_apart() {
        let parse = |text: &'static str| SymbolCell::parse(text.as_bytes());
        assert_eq!(parse("[.] palloc  "), SymbolCell::Named(b"palloc", b'.'));
        assert_eq!(parse("[k] do_syscall_64"), SymbolCell::Named(b"do_syscall_64", b'k'));
        assert_eq!(
            parse("[.] operator new(unsigned long)"),
            SymbolCell::Named(b"operator new(unsigned long)", b'.')
        );
        assert_eq!(parse("[.] 0x0000000000000a26"), SymbolCell::Address(b"0x0000000000000a26", b'.'));
        assert_eq!(parse("[H] [unknown]"), SymbolCell::Address(b"[unknown]", b'H'));
        assert_eq!(
            parse("0xa26              ! [.] 0x0000000000000a26"),
            SymbolCell::Address(b"0x0000000000000a26", b'.')
        );
        assert_eq!(parse("0x55d0c0001a26     v [.] main"), SymbolCell::Named(b"main", b'.'));
        assert_eq!(parse("[.] 0xdeadbeef_handler"), SymbolCell::Named(b"0xdeadbeef_handler", b'.'));
        assert_eq!(parse("N/A"), SymbolCell::Nothing);
        assert_eq!(parse("[.] "), SymbolCell::Nothing);
        assert_eq!(parse(""), SymbolCell::Nothing);
    }

    #[test]
    fn a_separator_is_what_stands_before_a_heading() {
        let separator = |header: &'static str| separator_of(header.as_bytes(), 1).unwrap();
        assert_eq!(separator(" Overhead|Source Symbol  |Target Symbol "), Some(&b"|"[..]));
        assert_eq!(separator(" Overhead,Command,Source Symbol,Target Symbol"), Some(&b","[..]));
        assert_eq!(separator(" Overhead\tSource Symbol\tTarget Symbol"), Some(&b"\t"[..]));
        assert_eq!(separator(" Overhead::Source Symbol::Target Symbol"), Some(&b"::"[..]));
        assert_eq!(separator(" Target Symbol ;Source Symbol"), Some(&b";"[..]));
        assert_eq!(separator(" Overhead|Symbol"), None);
        assert!(separator_of(b" Overhead  Source Symbol  Target Symbol", 1).is_err());
    }
}
