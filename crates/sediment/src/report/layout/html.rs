// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two layouts as one page.

use super::curve::curve;
use super::map::map;
use super::pages::{Pages, STEPS, bytes, percent, weight};
use super::zoom::{group_name, zoom};
use super::{Layout, PAGE};
use crate::callgraph::GroupKind;
use crate::report::page::{Text, page};
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("layout.css");

/// The shares of all calls that pages are counted for.
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Two layouts of a program as one HTML file. `program` and `notes` are any text; `most_pages` of the heaviest pages of each
/// layout are drawn function by function.
#[must_use]
pub fn html(
    program: &str,
    notes: &[String],
    before: &Layout<'_>,
    after: &Layout<'_>,
    most_pages: usize,
) -> String {
    let pages = [Pages::of(before), Pages::of(after)];
    let layouts = [before, after];
    let body = html! {
        h1 { "Layout of " (Text(program)) } "\n"
        p class="headline" { (headline(&pages)) } "\n"
        @for note in notes {
            p { (Text(note)) } "\n"
        }
        (summary(layouts, &pages))
        h2 { "Share of calls by number of pages" } "\n"
        p { "Each line adds pages, heaviest first. A steeper line needs fewer instruction TLB entries." } "\n"
        div class="wide" {
            (PreEscaped(curve([(&before.title, &pages[0]), (&after.title, &pages[1])])))
        } "\n"
        h2 { "All pages" } "\n"
        p {
            "One square is a page of 4 KiB, one row 128 KiB. Dashed lines mark huge pages of 2 MiB. "
            "Point at a page to see its heaviest functions."
        } "\n"
        (legend())
        (sides(layouts, |side| map(layouts[side], &pages[side])))
        h2 { "Heaviest pages, function by function" } "\n"
        p {
            "The " (most_pages) " pages with the most calls, by address. Each bar is a function, from its first byte "
            "to its last. Left: offset in the code. Right: share of all calls. "
            "Dots separate pages that are not adjacent."
        } "\n"
        (sides(layouts, |side| zoom(layouts[side], &pages[side], most_pages)))
    };
    page(&format!("Layout of {program}"), STYLE, &body.into_string())
}

/// The pages that hold nearly all calls, before and after, in a sentence.
fn headline(pages: &[Pages; 2]) -> String {
    let [before, after] = [0, 1].map(|side: usize| pages[side].holding(0.99, 1));
    let change = 100.0 * (after as f64 / before.max(1) as f64 - 1.0);
    format!("99 % of the calls: {before} pages of 4 KiB before, {after} after ({change:+.0} %).")
}

/// Both layouts next to each other, drawn as SVG.
fn sides(layouts: [&Layout<'_>; 2], draw: impl Fn(usize) -> String) -> Markup {
    html! {
        div class="sides" { "\n"
            @for (side, layout) in layouts.into_iter().enumerate() {
                section { "\n"
                    h3 { (Text(&layout.title)) } "\n"
                    (PreEscaped(draw(side)))
                } "\n"
            }
        } "\n"
    }
}

fn legend() -> Markup {
    let square = |class: &str| {
        PreEscaped(format!(
            "<svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>"
        ))
    };
    html! {
        ul class="legend" { "\n"
            @for (step, (_, meaning)) in (1..=STEPS.len()).rev().zip(STEPS) {
                li { (square(&format!("h{step}"))) (meaning) } "\n"
            }
            li { (square("c")) "code without calls" } "\n"
        } "\n"
    }
}

fn summary(layouts: [&Layout<'_>; 2], pages: &[Pages; 2]) -> Markup {
    html! {
        (pages_by_share(pages))
        (groups(layouts[1]))
    }
}

/// A table of the pages that hold each share of the calls.
fn pages_by_share(pages: &[Pages; 2]) -> Markup {
    html! {
        div class="scroll" {
            table { "\n"
                thead {
                    tr {
                        th scope="col" { "share of all calls" }
                        @for size in ["4 KiB", "2 MiB"] {
                            @for when in ["before", "after"] {
                                th scope="col" { "pages of " (size) ", " (when) }
                            }
                        }
                    }
                } "\n"
                tbody { "\n"
                    @for share in SHARES {
                        tr {
                            td { (format!("{:.1} %", 100.0 * share).replace(".0 ", " ")) }
                            @for times in [1, (2 << 20) / PAGE] {
                                @for side in pages {
                                    td { (side.holding(share, times)) }
                                }
                            }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}

/// A table of the groups of a layout.
fn groups(after: &Layout<'_>) -> Markup {
    let total = after.functions.iter().map(|function| weight(function) as f64).sum::<f64>().max(1.0);
    let groups = [GroupKind::Hot, GroupKind::Startup, GroupKind::Warm, GroupKind::Unprofiled];
    let of_group = |group: Option<GroupKind>| {
        after.functions.iter().filter(move |function| function.seen.map(|seen| seen.group) == group)
    };
    let groups = groups.map(Some).into_iter().chain([None]).filter(|group| of_group(*group).count() > 0);
    html! {
        div class="scroll" {
            table { "\n"
                thead {
                    tr {
                        @for title in ["group", "functions", "bytes", "share of all calls"] {
                            th scope="col" { (title) }
                        }
                    }
                } "\n"
                tbody { "\n"
                    @for group in groups {
                        tr {
                            td { (group.map_or("not in the profile", group_name)) }
                            td { (of_group(group).count()) }
                            td { (bytes(of_group(group).map(|function| function.size).sum())) }
                            td { (percent(of_group(group).map(|function| weight(function) as f64).sum::<f64>() / total)) }
                        } "\n"
                    }
                } "\n"
            }
        } "\n"
    }
}
