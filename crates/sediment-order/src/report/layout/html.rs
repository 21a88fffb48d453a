// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a report as one page: the result first, then each program with its pictures, then notes on how the page was
//! made.

use super::curve::curve;
use super::data::data;
use super::first_uses::{first_uses, pages_touched};
use super::flame::flame;
use super::map::map;
use super::pages::{CodePages, STEPS};
use super::treemap::treemap;
use super::zoom::zoom;
use super::{Layout, LayoutReport, MeasuredMisses, ReportedProgram, tables};
use maud::{Markup, PreEscaped, html};
use sediment_core::page::{HtmlPage, Text, data as embedded};
use sediment_core::plural::counted;

const STYLE: &str = include_str!("layout.css");
const SCRIPT: &str = include_str!("layout.js");

/// Returns a report as one HTML file.
#[must_use]
pub fn html(report: &LayoutReport<'_>) -> String {
    let several = report.programs.len() > 1;
    let body = html! {
        header { "\n"
            p class="kicker" { "Layout" @if !report.date.is_empty() { " · " (report.date) } } "\n"
            h1 { bdi { (Text(&report.title)) } } "\n"
            @for program in &report.programs {
                @let pages = [CodePages::of(&program.before), CodePages::of(&program.after)];
                p class="verdict" {
                    @if several { strong { bdi { (Text(&program.name)) } ": " } }
                    (Text(report.time.as_ref().unwrap_or(&program.verdict)))
                } "\n"
                p class="headline" { (headline(program, &pages, report.measured.filter(|_| !several))) } "\n"
                @if let Some([before, after]) = pages_touched([&program.before, &program.after]) {
                    p { "First uses touch " (before) " → " (counted(after as u64, "page")) } "\n"
                }
                @if report.time.is_some() { p { (Text(&program.verdict)) } "\n" }
            }
            @if several {
                nav aria-label="Programs" { ul { "\n"
                    @for (at, program) in report.programs.iter().enumerate() {
                        li { a href=(format!("#program-{at}")) { bdi { (Text(&program.name)) } } } "\n"
                    }
                    @if report.evaluation.is_some() { li { a href="#evaluation" { "Measured" } } "\n" }
                } } "\n"
            }
        } "\n"
        (PreEscaped(PANEL))
        main { "\n"
            @for (at, shown) in report.programs.iter().enumerate() {
                (program(shown, at, report, several))
            }
            @if let Some((evaluation, _)) = &report.evaluation {
                section id="evaluation" { "\n" h2 { "Measured" } "\n" (PreEscaped(evaluation)) } "\n"
            }
            section { "\n"
                h2 { "About this report" } "\n"
                @for note in &report.notes {
                    p { (Text(note)) } "\n"
                }
            } "\n"
        } "\n"
    };
    let style = format!("{STYLE}{}", report.evaluation.as_ref().map_or("", |(_, style)| style));
    let title = format!("Layout of {}", report.title);
    HtmlPage { title: &title, style: &style, script: SCRIPT, body: &body.into_string() }.html()
}

/// Search and selection: hidden without the script, which shows it.
const PANEL: &str = include_str!("panel.html");

fn program(program: &ReportedProgram<'_>, at: usize, report: &LayoutReport<'_>, several: bool) -> Markup {
    let pages = [CodePages::of(&program.before), CodePages::of(&program.after)];
    let layouts = [&program.before, &program.after];
    let numbers = data(program);
    let of_side = [None, Some(numbers.after.as_slice())];
    let of = several.then_some(program.name.as_str());
    let label = |text: &str| tables::labelled(text, of);
    let drawn = pages.iter().map(|side| side.by_heat().len()).max().unwrap_or(0).min(report.most_pages);
    html! {
        section class="program" id=(format!("program-{at}")) { "\n"
            @if several { h2 class="name" { bdi { (Text(&program.name)) } } "\n" }
            (facts(program))
            h2 { "All pages" } "\n"
            p {
                "One square is a page of 4 KiB, one row 128 KiB. Dashed lines mark huge pages of 2 MiB. "
                span class="with-script" { "Select a page to see its functions and where the other layout has them." }
            } "\n"
            (legend())
            (sides(layouts, "map", &label("Pages"), |side| map(layouts[side], &pages[side])))
            @if let Some(picture) = flame(&numbers) {
                h2 { "Calls" } "\n"
                p {
                    "Each function is below its caller, and as wide as the calls to it and below it. The calls of a function with several "
                    "callers are split by call counts, because a profile has no stacks. Recursive calls are left out."
                } "\n"
                div class="wide" tabindex="0" role="region" aria-label=(Text(&label("Calls"))) data-kind="flame" { (PreEscaped(picture)) } "\n"
            }
            h2 { "Share of calls by number of pages" } "\n"
            p { "Each line adds pages, heaviest first. A steeper line needs fewer instruction TLB entries." } "\n"
            div class="wide" tabindex="0" role="region" aria-label=(Text(&label("Share of calls by number of pages"))) {
                (PreEscaped(curve([(&program.before.title, &pages[0]), (&program.after.title, &pages[1])])))
            } "\n"
            (tables::pages_by_share(&pages, of))
            h2 { "Heaviest functions" } "\n"
            (tables::heaviest(program, &pages, &numbers.after, of))
            h2 { "Heaviest pages, function by function" } "\n"
            p {
                @match drawn {
                    0 => "No page has calls. ",
                    1 => "The page with the most calls, by address. ",
                    _ => { "The " (drawn) " pages with the most calls, by address. " }
                }
                "Each bar is a function, from its first byte "
                "to its last. Left: offset in the code. Right: share of all calls. "
                "Dots separate pages that are not adjacent."
            } "\n"
            (sides(layouts, "zoom", &label("Heaviest pages"), |side| zoom(layouts[side], &pages[side], report.most_pages, of_side[side])))
            @if let Some(picture) = first_uses(layouts) {
                h2 { "Pages touched by first uses" } "\n"
                p { "Functions in the order of their first use, and the number of pages touched so far. Dashed: before." } "\n"
                div class="wide" tabindex="0" role="region" aria-label=(Text(&label("Pages touched by first uses"))) data-kind="uses" { (PreEscaped(picture)) } "\n"
            }
            @if let Some(picture) = treemap(program) {
                h2 { "Profiled code by library and object file" } "\n"
                p { "The size of a tile is the size of its profiled code; its colour is its share of all recorded calls." } "\n"
                div class="wide" tabindex="0" role="region" aria-label=(Text(&label("Profiled code by library and object file"))) data-kind="tree" { (PreEscaped(picture)) } "\n"
            }
            @if !program.split.is_empty() {
                h2 { "Hot and cold parts" } "\n"
                p { "Functions whose cold blocks the compiler moved to a separate part. The bar shows the sizes of both parts." } "\n"
                (tables::split(&program.split, of))
            }
            h2 { "Groups" } "\n"
            (tables::groups(&program.after, of))
            (PreEscaped(embedded("data", &numbers.json)))
        } "\n"
    }
}

/// Headline with the number of pages that contain nearly all calls, before and after, and the misses.
pub(super) fn headline(
    program: &ReportedProgram<'_>,
    pages: &[CodePages; 2],
    measured: Option<MeasuredMisses>,
) -> String {
    let [before, after] = [0, 1].map(|side: usize| pages[side].holding(0.99, 1));
    if before == 0 {
        return "The profile has no calls of this program".to_owned();
    }
    let how = if measured.is_some_and(|found| found.is_simulated) { "simulated" } else { "measured" };
    let misses: Vec<String> = [(program.misses, "predicted"), (measured.map(|found| found.ratio), how)]
        .into_iter()
        .filter_map(|(ratio, how)| Some(format!("{} {how}", change(ratio?))))
        .collect();
    let misses =
        if misses.is_empty() { String::new() } else { format!("; iTLB misses {}", misses.join(", ")) };
    let hold = if after == 1 { "holds" } else { "hold" };
    format!("{before} → {} {hold} 99 % of the calls{misses}", counted(after, "page"))
}

/// Formats a ratio as a change in per cent; a remainder is never rounded to zero.
fn change(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    // The number and its sign stay on the same line.
    match percent {
        p if ratio > 0.0 && p < -99.0 => format!("{:.1}\u{a0}%", p.max(-99.9)),
        p if p.abs() < 0.5 => "0\u{a0}%".to_owned(),
        p => format!("{p:+.0}\u{a0}%"),
    }
}

/// Names and values, collapsed.
fn facts(program: &ReportedProgram<'_>) -> Markup {
    let placed = program.placed.map(|parts| {
        let share = format!("{:.2} % of the weight placed as ordered", (parts / 100) as f64 / 100.0);
        ("verify".to_owned(), share)
    });
    let rows: Vec<&(String, String)> = placed.iter().chain(&program.facts).collect();
    html! {
        @if !rows.is_empty() {
            dl class="facts" { "\n"
                @for (name, value) in rows {
                    div { dt { (Text(name)) } dd { bdi { (Text(value)) } } } "\n"
                }
            } "\n"
        }
    }
}

/// Draws both layouts next to each other as SVG.
fn sides(layouts: [&Layout<'_>; 2], kind: &str, label: &str, draw: impl Fn(usize) -> String) -> Markup {
    html! {
        div class=(format!("sides {kind}s")) { "\n"
            @for (side, layout) in layouts.into_iter().enumerate() {
                div class="side" { "\n"
                    h3 { (Text(&layout.title)) } "\n"
                    div tabindex="0" role="region" aria-label=(Text(&format!("{label}, {}", ["before", "after"][side]))) data-kind=(kind) data-side=(side) { (PreEscaped(draw(side))) }
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
