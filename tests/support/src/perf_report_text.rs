// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints what was seen of branches as perf report would, in any of its forms, so that what is read can be held against it.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use std::collections::{BTreeMap, BTreeSet};

/// One row: calls from one symbol to another in one command.
#[derive(Debug, Clone)]
pub struct Call {
    pub command: String,
    pub from: End,
    pub to: End,
    pub count: u64,
}

/// A symbol, or an address that none was found for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub object: String,
    pub name: Name,
    pub mark: char,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Symbol(String),
    Address(u64),
}

impl End {
    pub fn symbol(object: &str, name: &str) -> Self {
        Self { object: object.into(), name: Name::Symbol(name.into()), mark: '.' }
    }

    pub fn address(object: &str, address: u64) -> Self {
        Self { object: object.into(), name: Name::Address(address), mark: '.' }
    }
}

/// The columns that perf knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Overhead,
    Samples,
    Period,
    Command,
    SourceObject,
    SourceSymbol,
    TargetObject,
    TargetSymbol,
    Ipc,
    Cycles,
}

/// Form of a report.
#[derive(Debug, Clone)]
pub struct Form {
    pub fields: Vec<Field>,
    /// `-t`.
    pub separator: Option<&'static str>,
    /// `-v`.
    pub verbose: bool,
    /// `-w`, by column; 0 for as wide as needed.
    pub widths: Vec<usize>,
    pub carriage_returns: bool,
    /// As by an editor that removes blanks at the ends of lines.
    pub trimmed: bool,
    /// Call trees below rows.
    pub trees: bool,
    pub event_count: bool,
}

impl Form {
    pub fn new(fields: &[Field]) -> Self {
        Self {
            fields: fields.to_vec(),
            separator: None,
            verbose: false,
            widths: Vec::new(),
            carriage_returns: false,
            trimmed: false,
            trees: false,
            event_count: true,
        }
    }
}

impl Field {
    fn heading(self) -> &'static str {
        match self {
            Field::Overhead => "Overhead",
            Field::Samples => "Samples",
            Field::Period => "Period",
            Field::Command => "Command",
            Field::SourceObject => "Source Shared Object",
            Field::SourceSymbol => "Source Symbol",
            Field::TargetObject => "Target Shared Object",
            Field::TargetSymbol => "Target Symbol",
            Field::Ipc => "IPC   [IPC Coverage]",
            Field::Cycles => "Basic Block Cycles",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Field::Overhead | Field::Samples | Field::Period)
    }
}

fn symbol_cell(end: &End, verbose: bool, width: Option<usize>) -> String {
    let mut cell = String::new();
    if verbose {
        let address = match end.name {
            Name::Symbol(_) => 0x55d0_c000_1000,
            Name::Address(address) => address,
        };
        cell = format!("{:<18} {} ", format!("{address:#x}"), if end.name.is_symbol() { 'd' } else { '!' });
    }
    cell += &format!("[{}] ", end.mark);
    match (&end.name, width) {
        (Name::Address(address), _) => cell += &format!("{address:#018x}"),
        // A negative precision is none.
        (Name::Symbol(name), Some(width)) if width >= cell.len() => {
            cell += &String::from_utf8_lossy(&name.as_bytes()[..name.len().min(width - cell.len())]);
        }
        (Name::Symbol(name), _) => cell += name,
    }
    cell
}

impl Name {
    fn is_symbol(&self) -> bool {
        matches!(self, Name::Symbol(_))
    }
}

/// A share of the total with two decimals.
pub fn share(count: u64, total: u64) -> String {
    let hundredths = (u128::from(count) * 20_000 + u128::from(total)) / (2 * u128::from(total));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

fn cell(field: Field, call: &Call, total: u64, verbose: bool, width: Option<usize>) -> String {
    match field {
        Field::Overhead => share(call.count, total),
        Field::Samples | Field::Period => call.count.to_string(),
        Field::Command => call.command.clone(),
        Field::SourceObject => call.from.object.clone(),
        Field::TargetObject => call.to.object.clone(),
        Field::SourceSymbol => symbol_cell(&call.from, verbose, width),
        Field::TargetSymbol => symbol_cell(&call.to, verbose, width),
        Field::Ipc if call.count % 7 == 0 => "-".into(),
        Field::Ipc => "0.00  [  0.0%]".into(),
        Field::Cycles => (call.count % 5 + 1).to_string(),
    }
}

/// A cell as wide as its column.
fn padded(cell: String, field: Field, width: usize, separator: Option<&str>) -> String {
    let cell = match separator {
        Some(separator) => cell.replace(&separator[..1], "."),
        None => cell,
    };
    // Bytes, not characters.
    let padding = " ".repeat(width.saturating_sub(cell.len()));
    let symbol = matches!(field, Field::SourceSymbol | Field::TargetSymbol);
    if field.is_number() {
        if separator.is_some() { format!(" {cell} ") } else { padding + &cell }
    } else if symbol || cell.len() <= width {
        cell + &padding
    } else {
        String::from_utf8_lossy(&cell.as_bytes()[..width]).into_owned()
    }
}

/// The text of a report; rows in the order given.
pub fn print(event: &str, calls: &[Call], form: &Form) -> String {
    let total: u64 = calls.iter().map(|call| call.count).sum();
    let cell = |field: Field, call: &Call, width| cell(field, call, total, form.verbose, width);
    let width = |number: usize, field: Field| match form.widths.get(number) {
        Some(width) if *width > 0 && !field.is_number() => *width,
        _ => {
            let least =
                if matches!(field, Field::Samples | Field::Period) { 12 } else { field.heading().len() };
            // Addresses do not count, as perf reckons.
            let counts = |call: &&Call| match field {
                Field::SourceSymbol => call.from.name.is_symbol(),
                Field::TargetSymbol => call.to.name.is_symbol(),
                Field::Overhead | Field::Samples | Field::Period => false,
                _ => true,
            };
            calls
                .iter()
                .filter(counts)
                .map(|call| cell(field, call, None).len())
                .max()
                .unwrap_or(0)
                .max(least)
        }
    };
    let widths: Vec<usize> =
        form.fields.iter().enumerate().map(|(number, field)| width(number, *field)).collect();

    let between = form.separator.unwrap_or("  ");
    let row = |cells: Vec<String>| -> String {
        let cells = cells.into_iter().zip(&form.fields).zip(&widths);
        let padded = cells.map(|((cell, field), width)| padded(cell, *field, *width, form.separator));
        padded.collect::<Vec<_>>().join(between)
    };
    let mut lines = vec![
        "# To display the perf.data header info, please use --header/--header-only options.".to_owned(),
        "#".into(),
        format!("# Samples: {}K of event '{event}'", total / 1000),
    ];
    if form.event_count {
        lines.push(format!("# Event count (approx.): {total}"));
    }
    lines.push("#".into());
    let heading =
        |(field, width): (&Field, &usize)| field.heading()[..field.heading().len().min(*width)].to_owned();
    lines.push(format!("# {}", row(form.fields.iter().zip(&widths).map(heading).collect())));
    if form.separator.is_none() {
        let dots: Vec<String> = widths.iter().map(|width| ".".repeat(*width)).collect();
        lines.push(format!("# {}", dots.join(between)));
        lines.push("#".into());
    }
    for call in calls {
        let cells =
            form.fields.iter().zip(&widths).map(|(field, width)| cell(*field, call, Some(*width))).collect();
        lines.push(if form.separator.is_some() { row(cells) } else { format!("  {}", row(cells)) });
        if form.trees {
            lines.push("            |          ".into());
            lines.push("            ---main".into());
            lines.push("               a name (of C++)".into());
        }
    }
    lines.extend([
        String::new(),
        "#".into(),
        "# (Tip: Save output with: perf report --stdio > FILE)".into(),
        "#".into(),
    ]);
    let end = if form.carriage_returns { "\r\n" } else { "\n" };
    lines.iter().map(|line| if form.trimmed { line.trim_end() } else { line }.to_owned() + end).collect()
}

/// True calls: each pair of named ends in user programs, and all named ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub calls: BTreeMap<(String, String), u128>,
    pub functions: BTreeSet<String>,
}

/// The truth as far as a form shows it: without a column of objects, functions have none.
pub fn truth(calls: &[Call], form: &Form) -> Truth {
    let objects = form.fields.contains(&Field::SourceObject) || form.fields.contains(&Field::TargetObject);
    let name = |end: &End| match &end.name {
        Name::Symbol(name) if end.mark == '.' => {
            let shown = |text: &str| match form.separator {
                Some(separator) => text.replace(&separator[..1], "."),
                None => text.to_owned(),
            };
            let object = if objects && end.object != "[unknown]" { shown(&end.object) } else { "-".into() };
            Some(format!("{object}:{}", shown(name)))
        }
        _ => None,
    };
    let mut truth = Truth::default();
    for call in calls {
        let (from, to) = (name(&call.from), name(&call.to));
        truth.functions.extend(from.iter().chain(&to).cloned());
        if let (Some(from), Some(to)) = (from, to) {
            *truth.calls.entry((from, to)).or_default() += u128::from(call.count);
        }
    }
    truth
}
