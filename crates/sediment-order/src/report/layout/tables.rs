// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a program: pages by share of the calls, groups, heaviest functions, and functions that the compiler split.

use super::map::shown;
use super::pages::{CodePages, bytes, percent, weight};
use super::zoom::group_name;
use super::{Layout, PAGE, ReportedProgram, SplitFunction};
use maud::{Markup, html};
use sediment_core::callgraph::GroupKind;
use sediment_core::page::Text;
use std::collections::HashMap;

/// Shares of all calls for which pages are counted.
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Number of functions in a table.
const HEAVIEST: usize = 40;
/// Longest name in a table, in characters.
const LONGEST: usize = 120;

/// Name of a region of the page. `of`: the program, which is added if the page has several.
pub(super) fn labelled(text: &str, of: Option<&str>) -> String {
    match of {
        Some(program) => format!("{text}, {}", shown(program, LONGEST)),
        None => text.to_owned(),
    }
}

/// Table of the number of pages that contain each share of the calls. `of`: the program, if the page has several.
pub(super) fn pages_by_share(pages: &[CodePages; 2], of: Option<&str>) -> Markup {
    let titles =
        ["4 KiB", "2 MiB"].map(|size| ["before", "after"].map(|when| format!("pages of {size}, {when}")));
    let titles = ["share of all calls".to_owned()].into_iter().chain(titles.into_iter().flatten());
    let rows = SHARES.map(|share| {
        let counts = [1, (2 << 20) / PAGE]
            .into_iter()
            .flat_map(|times| pages.iter().map(move |side| side.holding(share, times).to_string()));
        [format!("{:.1} %", 100.0 * share).replace(".0 ", " ")].into_iter().chain(counts).collect()
    });
    table(&labelled("Pages by share of the calls", of), &titles.collect::<Vec<_>>(), rows.into_iter())
}

/// Table of the groups of a layout.
pub(super) fn groups(after: &Layout<'_>, of: Option<&str>) -> Markup {
    let total = total(after);
    let groups = [GroupKind::Hot, GroupKind::Startup, GroupKind::Warm, GroupKind::Unprofiled];
    let of_group = |group: Option<GroupKind>| {
        after.functions.iter().filter(move |function| function.seen.map(|seen| seen.group) == group)
    };
    let groups = groups.map(Some).into_iter().chain([None]).filter(|group| of_group(*group).count() > 0);
    let rows = groups.map(|group| {
        vec![
            group.map_or("not in the profile", group_name).to_owned(),
            of_group(group).count().to_string(),
            bytes(of_group(group).map(|function| function.size).sum()),
            percent(of_group(group).map(|function| weight(function) as f64).sum::<f64>() / total),
        ]
    });
    let titles = ["group", "functions", "bytes", "share of all calls"].map(str::to_owned);
    table(&labelled("Groups", of), &titles, rows)
}

/// Table of the functions with the most calls, with their pages in both layouts. `numbers`: numbers of the functions
/// after in the data.
pub(super) fn heaviest(
    program: &ReportedProgram<'_>,
    pages: &[CodePages; 2],
    numbers: &[u32],
    of: Option<&str>,
) -> Markup {
    let total = total(&program.before);
    let after: HashMap<u32, u64> = numbers
        .iter()
        .zip(&program.after.functions)
        .map(|(number, function)| (*number, function.address))
        .collect();
    let mut heaviest: Vec<usize> =
        (0..program.before.functions.len()).filter(|at| weight(&program.before.functions[*at]) > 0).collect();
    heaviest.sort_by_key(|at| std::cmp::Reverse(weight(&program.before.functions[*at])));
    heaviest.truncate(HEAVIEST);
    let page = |address: u64, side: &CodePages| (address.saturating_sub(side.base) / PAGE).to_string();
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(Text(&labelled("Heaviest functions", of))) {
            table class="functions" { "\n"
                (row_of(&["function", "calls", "size", "page before", "page after", "group"].map(str::to_owned)))
                tbody { "\n"
                    @for at in heaviest {
                        @let function = &program.before.functions[at];
                        tr data-f=(at) {
                            th scope="row" { bdi { (Text(&shown(function.name, LONGEST))) } }
                            td { (percent(weight(function) as f64 / total)) }
                            td { (bytes(function.size)) }
                            td { (page(function.address, &pages[0])) }
                            td {
                                @match after.get(&(at as u32)) {
                                    Some(address) => { (page(*address, &pages[1])) }
                                    None => { "gone" }
                                }
                            }
                            td { (function.seen.map_or("", |seen| group_name(seen.group))) }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}

/// Table of the functions whose cold blocks the compiler separated, heaviest first.
pub(super) fn split(functions: &[SplitFunction], of: Option<&str>) -> Markup {
    let mut heaviest: Vec<&SplitFunction> = functions.iter().collect();
    heaviest.sort_by(|a, b| b.weights.cmp(&a.weights).then_with(|| a.name.cmp(&b.name)));
    let weights = |function: &SplitFunction| function.weights.map_or(0, |[all, _]| all);
    let all: u128 = heaviest.iter().map(|function| weights(function)).fold(0, u128::saturating_add);
    let part = |part: u128, all: u128| match part {
        0 => "none".to_owned(),
        _ => percent(super::calls::parts(part, all) as f64 / 1e9),
    };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(Text(&labelled("Hot and cold parts", of))) {
            table class="functions" { "\n"
                (row_of(&["function", "share of recorded blocks", "hot part", "cold part", "executed in the cold part"].map(str::to_owned)))
                tbody { "\n"
                    @for function in heaviest.into_iter().take(HEAVIEST) {
                        @let shares = match function.weights {
                            Some([whole, cold]) => [part(whole, all), part(cold, whole)],
                            None => ["not known", "not known"].map(str::to_owned),
                        };
                        tr {
                            th scope="row" { bdi { (Text(&shown(&function.name, LONGEST))) } }
                            td { (shares[0]) }
                            td { (parts_bar(function.bytes, function.cold_bytes)) " " (bytes(function.bytes)) }
                            td { (bytes(function.cold_bytes)) }
                            td { (shares[1]) }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}

/// Bar with a hot and a cold part.
fn parts_bar(hot: u64, cold: u64) -> Markup {
    const WIDTH: f64 = 60.0;
    let width = WIDTH * hot as f64 / (hot + cold).max(1) as f64;
    html! {
        svg class="bar" viewBox="0 0 60 8" aria-hidden="true" {
            rect class="c" width="60" height="8" {}
            rect class="h4" width=(format!("{width:.1}")) height="8" {}
        }
    }
}

fn total(layout: &Layout<'_>) -> f64 {
    layout.functions.iter().map(|function| weight(function) as f64).sum::<f64>().max(1.0)
}

fn table(label: &str, titles: &[String], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(Text(label)) {
            table { "\n"
                (row_of(titles))
                tbody { "\n"
                    @for row in rows {
                        tr {
                            @for cell in row { td { (Text(&cell)) } }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}

/// Header of a table.
fn row_of(titles: &[String]) -> Markup {
    html! {
        thead {
            tr {
                @for title in titles {
                    th scope="col" { (Text(title)) }
                }
            }
        } "\n"
    }
}
