// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints perf reports of known call stacks: folded, as trees, and flat, from either end.

#![allow(dead_code, unreachable_pub)] // each test program and bench uses its part

use std::collections::BTreeMap;
use std::fmt::Write;

/// Outermost caller first, with how often each was seen.
pub type Stacks = BTreeMap<Vec<String>, u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Folded,
    Tree,
    Flat,
}

#[derive(Debug, Clone, Copy)]
pub struct Report {
    pub shape: Shape,
    pub callers_first: bool,
    /// Between columns, in place of setting them flush.
    pub separator: Option<char>,
    /// Columns of samples and of periods, and what the stacks are counted in.
    pub samples: bool,
    pub period: bool,
    pub in_periods: bool,
    /// Threshold below which counts are not printed.
    pub limit: u64,
    pub carriage_returns: bool,
}

/// Of every sample.
const PERIOD: u64 = 1_000_003;

/// A row for each function that is innermost in a stack, with its stacks below it.
pub fn print_report(stacks: &Stacks, report: Report) -> String {
    let mut rows: BTreeMap<&str, Vec<(Vec<&str>, u64)>> = BTreeMap::new();
    for (stack, count) in stacks {
        let mut names: Vec<&str> = stack.iter().map(String::as_str).collect();
        if !report.callers_first {
            names.reverse();
        }
        rows.entry(stack.last().unwrap()).or_default().push((names, *count));
    }
    let all: u64 = stacks.values().sum();
    let mut text = format!("# Samples: {all}  of event 'cycles:u'\n#\n");
    let mut cells = vec!["Overhead"];
    cells.extend(report.samples.then_some("     Samples"));
    cells.extend(report.period.then_some("      Period"));
    cells.extend(["Shared Object", "Symbol"]);
    let between = report.separator.map_or("  ".to_owned(), String::from);
    writeln!(text, "# {}", cells.join(&between)).unwrap();
    let scale = if report.in_periods { PERIOD } else { 1 };
    for (symbol, stacks) in rows {
        let samples: u64 = stacks.iter().map(|(_, count)| count).sum();
        let share = 100.0 * samples as f64 / all as f64;
        let mut cells = vec![match report.separator {
            Some(_) => format!(" {share:.2}% "),
            None => format!("  {share:>7.2}%"),
        }];
        cells.extend(report.samples.then(|| format!("{samples:>12}")));
        cells.extend(report.period.then(|| format!("{:>12}", samples * PERIOD)));
        cells.extend([format!("{:13}", "prog"), format!("[.] {symbol}")]);
        writeln!(text, "{}", cells.join(&between)).unwrap();
        let stacks: Vec<(Vec<&str>, u64)> =
            stacks.into_iter().map(|(names, count)| (names, count * scale)).collect();
        match report.shape {
            Shape::Folded => {
                let between = report.separator.map_or(";".to_owned(), String::from);
                for (names, count) in &stacks {
                    writeln!(text, "{count} {}", names.join(&between)).unwrap();
                }
            }
            Shape::Flat => {
                for (names, count) in stacks.iter().filter(|(_, count)| *count >= report.limit) {
                    writeln!(text, "           {count}").unwrap();
                    for name in names {
                        writeln!(text, "                {name}").unwrap();
                    }
                    text.push('\n');
                }
                text.push('\n');
            }
            Shape::Tree => {
                print_tree(&mut text, &stacks, samples * scale, report.limit);
                text.push('\n');
            }
        }
    }
    if report.carriage_returns { text.replace('\n', "\r\n") } else { text }
}

struct Branch<'a> {
    names: Vec<&'a str>,
    count: u64,
    rest: Vec<(Vec<&'a str>, u64)>,
}

/// One for each first name; each takes what all of its stacks have in common. The heaviest stands first.
fn branches<'a>(stacks: &[(Vec<&'a str>, u64)], limit: u64) -> Vec<Branch<'a>> {
    let mut by_name: BTreeMap<&str, Vec<&(Vec<&'a str>, u64)>> = BTreeMap::new();
    for stack in stacks.iter().filter(|(names, _)| !names.is_empty()) {
        by_name.entry(stack.0[0]).or_default().push(stack);
    }
    let mut branches: Vec<Branch> = by_name
        .into_values()
        .map(|stacks| {
            let first = &stacks[0].0;
            let common = |(names, _): &&(Vec<&str>, u64)| {
                names.iter().zip(first).take_while(|(name, other)| name == other).count()
            };
            let common = stacks.iter().map(common).min().unwrap();
            Branch {
                names: first[..common].to_vec(),
                count: stacks.iter().map(|(_, count)| count).sum(),
                rest: stacks.iter().map(|(names, count)| (names[common..].to_vec(), *count)).collect(),
            }
        })
        .filter(|branch| branch.count >= limit)
        .collect();
    branches.sort_by_key(|branch| std::cmp::Reverse(branch.count));
    branches
}

fn print_tree(text: &mut String, stacks: &[(Vec<&str>, u64)], own: u64, limit: u64) {
    let left = " ".repeat(12);
    match &branches(stacks, limit)[..] {
        [root] if root.count == own => {
            writeln!(text, "{left}|\n{left}---{}", root.names[0]).unwrap();
            for name in &root.names[1..] {
                writeln!(text, "{left}   {name}").unwrap();
            }
            print_branches(text, &root.rest, &format!("{left}   "), limit);
        }
        _ => print_branches(text, stacks, &left, limit),
    }
}

fn print_branches(text: &mut String, stacks: &[(Vec<&str>, u64)], left: &str, limit: u64) {
    let branches = branches(stacks, limit);
    for (number, branch) in branches.iter().enumerate() {
        let bar = if number + 1 == branches.len() { ' ' } else { '|' };
        writeln!(text, "{left}|          ").unwrap();
        writeln!(text, "{left}{bar}--{}--{}", branch.count, branch.names[0]).unwrap();
        let left = format!("{left}{bar}          ");
        for name in &branch.names[1..] {
            writeln!(text, "{left}{name}").unwrap();
        }
        print_branches(text, &branch.rest, &left, limit);
    }
}
