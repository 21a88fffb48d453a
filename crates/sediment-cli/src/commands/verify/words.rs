// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the result of `verify` for people: ten lines, or everything.

use super::as_percent;
use sediment_core::binary::SymbolSource;
use sediment_core::demangle::demangled;
use sediment_core::plural::counted;
use sediment_order::verify::{self, Basis, Misplaced, Reason, VerifyReport};
use std::collections::BTreeMap;

/// Number of lines of a short result.
const LINES: usize = 10;
/// Largest number of reasons in it.
const REASONS: usize = 3;

/// Ten lines: the share, the heaviest reasons and functions.
pub(super) fn brief(report: &VerifyReport, file_name: &str) -> String {
    if report.asked == 0 {
        return nothing_ordered(file_name);
    }
    let mut lines = first_lines(report, file_name, false);
    let reasons = by_reason(report);
    let misplaced: Vec<&Misplaced> = misplaced(report).collect();
    // A single function is its own reason.
    if misplaced.len() > 1 {
        lines.extend(reasons.iter().take(REASONS).map(|(reason, count, weight)| {
            let weight = share(*weight, report.weight);
            format!("  misplaced     {}, {weight} of the weight: {reason}", counted(*count, "function"))
        }));
    }
    let room = LINES - 1 - lines.len();
    let listed = misplaced.len().min(if misplaced.len() <= room + 1 { room + 1 } else { room });
    lines.extend(misplaced.iter().take(listed).map(|function| in_line(function, report)));
    let more = misplaced.len() - listed;
    if more > 0 {
        lines.push(format!("          and {more} more misplaced (-v lists all)"));
    }
    text_of(&lines)
}

/// All figures and reasons, and this number of misplaced functions; 0 lists all.
pub(super) fn whole(report: &VerifyReport, file_name: &str, list: usize) -> String {
    if report.asked == 0 {
        return nothing_ordered(file_name);
    }
    let mut lines = first_lines(report, file_name, true);
    let misplaced: Vec<&Misplaced> = misplaced(report).collect();
    if !misplaced.is_empty() {
        lines.push("\nMisplaced functions, by reason:".to_owned());
        let mut reasons = by_reason(report);
        reasons.sort_by_key(|(reason, _, _)| *reason);
        lines.extend(reasons.into_iter().map(|(reason, count, weight)| {
            let (functions, weight) = (counted(count, "function"), share(weight, report.weight));
            format!("{functions:>16} {weight:>9} of the weight: {reason}")
        }));
        lines.push("\nHeaviest misplaced functions:".to_owned());
        let shown = if list == 0 { misplaced.len() } else { list };
        lines.extend(misplaced.iter().take(shown).map(|function| in_line(function, report)));
        let more = misplaced.len().saturating_sub(shown);
        if more > 0 {
            lines.push(format!("          and {more} more (--list 0 lists all)"));
        }
    }
    text_of(&lines)
}

/// Message for an order without functions.
fn nothing_ordered(file_name: &str) -> String {
    format!("{file_name}: nothing to order: the order lists no function\n")
}

fn text_of(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line.trim_end_matches('\n') + "\n")
}

/// The share, the numbers of functions and pages, and whether the order is in force.
fn first_lines(report: &VerifyReport, file_name: &str, whole: bool) -> Vec<String> {
    let weight = match report.basis {
        Basis::Calls => "the calls in the profile",
        Basis::Samples => "the profile's samples",
        Basis::Functions => "the ordered functions",
    };
    let placed = as_percent(report.placed_parts_per_million);
    let mut lines = vec![format!("{file_name}: {placed} of {weight} placed as ordered")];
    if whole || report.symbols_from != SymbolSource::SymbolTable {
        lines.push(format!("  symbols       {}", symbols_in_words(report.symbols_from)));
    }
    if let Some(cluster) = report.cluster.as_ref().filter(|cluster| whole || cluster.label != file_name) {
        lines.push(format!("  profile of    {}", cluster.label));
    }
    lines.push(format!(
        "  functions     {} ordered, {} in the binary, {} placed as ordered",
        report.asked, report.found, report.placed
    ));
    let start_files = report.misplaced.iter().filter(|function| function.reason == Reason::OfStartFiles);
    let weight_of_start_files =
        start_files.clone().fold(0u128, |sum, function| sum.saturating_add(function.weight));
    match start_files.count() as u64 {
        0 => {}
        count => lines.push(format!(
            "  start files   {}, {} of the weight: {}",
            counted(count, "function"),
            share(weight_of_start_files, report.weight),
            Reason::OfStartFiles
        )),
    }
    lines.push(format!(
        "  pages         {} of {} KiB hold {}; fewest possible: {}",
        report.hot_pages,
        verify::PAGE / 1024,
        match report.basis {
            Basis::Functions => "ordered functions",
            Basis::Calls | Basis::Samples => "executed functions",
        },
        report.ideal_pages
    ));
    if whole {
        lines.push(format!("  inversions    {}", report.inversions));
    }
    if !report.in_force {
        lines.push(not_in_force(report).trim_end().to_owned());
    }
    lines
}

/// Returns the misplaced functions except functions of the compiler's start files, which nobody can place; these are
/// counted separately.
fn misplaced(report: &VerifyReport) -> impl Iterator<Item = &Misplaced> {
    report.misplaced.iter().filter(|function| function.reason != Reason::OfStartFiles)
}

/// Returns reasons with the number and weight of their functions, the heaviest first.
fn by_reason(report: &VerifyReport) -> Vec<(&'static str, u64, u128)> {
    let mut sums: BTreeMap<&str, (u64, u128)> = BTreeMap::new();
    for misplaced in misplaced(report) {
        let sum = sums.entry(misplaced.reason.code()).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(misplaced.weight));
    }
    let mut reasons: Vec<_> =
        sums.into_iter().map(|(reason, (count, weight))| (reason, count, weight)).collect();
    reasons.sort_by_key(|(reason, count, weight)| (std::cmp::Reverse((*weight, *count)), *reason));
    reasons
}

fn in_line(function: &Misplaced, report: &VerifyReport) -> String {
    let Misplaced { name, line, weight, reason } = function;
    let line = line.map_or_else(String::new, |line| format!(" (line {line} of the order)"));
    let (name, weight) = (demangled(name), share(*weight, report.weight));
    format!("{weight:>8}  {name}{line}: {reason}")
}

pub(super) fn symbols_in_words(source: SymbolSource) -> &'static str {
    match source {
        SymbolSource::SymbolTable => "symbol table",
        SymbolSource::DebugFile => "debug file",
        SymbolSource::GnuDebugdata => ".gnu_debugdata",
        SymbolSource::DynamicSymbols => "exported symbols only (stripped)",
    }
}

/// Returns the reason why a file does not follow its order, from the reasons of its functions.
fn not_in_force(report: &VerifyReport) -> &'static str {
    let has = |wanted: fn(&Reason) -> bool| report.misplaced.iter().any(|function| wanted(&function.reason));
    let passed = !has(|reason| matches!(reason, Reason::NotPassed(_)));
    let sections = !has(|reason| matches!(reason, Reason::NoOwnSection(_)));
    // Sections with other names than `.text.f`: of OCaml (`.text.caml.f`), and of split and unknown functions.
    if passed && has(|reason| matches!(reason, Reason::NamedAfter(_))) {
        return "The file does not follow the order: its sections have other names than the order lists.\n";
    }
    match (passed, sections) {
        (false, true) => {
            "The file does not follow the order: its objects have function sections, so the linker did not get the order.\n"
        }
        (true, false) => {
            "The file does not follow the order: its objects have no function sections. Compile with -ffunction-sections.\n"
        }
        (false, false) => {
            "The file does not follow the order: the linker did not get it, and some objects have no function sections.\n"
        }
        (true, true) => {
            "The file does not follow the order: it was compiled without -ffunction-sections (with GCC's LTO: linked without it), or the linker did not get the order.\n"
        }
    }
}

/// Formats a share in per cent for people: the quotient of two floats is exact enough.
pub(super) fn share(weight: u128, whole: u128) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.3} %", 100.0 * weight as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(misplaced: usize) -> VerifyReport {
        let reasons = [
            Reason::AmongUnlisted,
            Reason::OutOfOrder,
            Reason::InlinedOrRemoved,
            Reason::NotInBinary,
            Reason::NotAsked,
        ];
        let function = |number: usize| Misplaced {
            name: format!("f{number}"),
            line: Some(number as u64 + 1),
            weight: 1,
            reason: reasons[number % reasons.len()].clone(),
        };
        VerifyReport {
            symbols_from: SymbolSource::SymbolTable,
            cluster: None,
            basis: Basis::Calls,
            asked: 100,
            elsewhere: 0,
            found: 100,
            placed: 100 - misplaced as u64,
            weight: 100,
            weight_found: 100,
            weight_placed: 100 - misplaced as u128,
            placed_parts_per_million: 1_000_000 - 10_000 * misplaced as u64,
            inversions: 0,
            hot_bytes: 0,
            hot_pages: 1,
            ideal_pages: 1,
            in_force: misplaced < 50,
            as_linked_without: false,
            misplaced: (0..misplaced).map(function).collect(),
        }
    }

    #[test]
    fn a_short_answer_has_ten_lines_and_counts_the_rest() {
        for misplaced in 0..=100 {
            let text = brief(&report(misplaced), "prog");
            assert!(text.lines().count() <= LINES, "{misplaced}: {text}");
            let named = (0..misplaced).filter(|number| text.contains(&format!("  f{number} "))).count();
            let counted = text.lines().filter_map(|line| {
                line.trim().strip_prefix("and ")?.split(' ').next()?.parse::<usize>().ok()
            });
            assert_eq!(named + counted.sum::<usize>(), misplaced, "{text}");
            let all = whole(&report(misplaced), "prog", 0);
            assert!((0..misplaced).all(|number| all.contains(&format!("  f{number} "))), "{all}");
        }
    }
}
