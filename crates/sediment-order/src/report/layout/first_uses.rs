// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws first uses of functions on a time line: the number of pages that a start has touched after each.

use super::{Layout, PAGE};
use sediment_core::escape;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 42.0;
/// Number of points of a line; more would not be visible.
const MOST_POINTS: usize = 600;

/// Number of pages touched after each first use.
fn touched(layout: &Layout<'_>) -> Vec<usize> {
    let mut uses: Vec<(u64, u64)> = layout
        .functions
        .iter()
        .filter_map(|function| Some((function.seen?.first?, function.address / PAGE)))
        .collect();
    uses.sort_unstable();
    let mut pages = BTreeSet::new();
    uses.into_iter()
        .map(|(_, page)| {
            pages.insert(page);
            pages.len()
        })
        .collect()
}

/// Number of pages touched by first uses in both layouts; `None` if fewer than two first uses are known.
pub(super) fn pages_touched(sides: [&Layout<'_>; 2]) -> Option<[usize; 2]> {
    let lines = sides.map(touched);
    let last = lines.each_ref().map(|line| line.last().copied().unwrap_or(0));
    (lines.iter().map(Vec::len).max() > Some(1)).then_some(last)
}

/// Draws both layouts; `None` if fewer than two first uses are known.
pub(super) fn first_uses(sides: [&Layout<'_>; 2]) -> Option<String> {
    let lines = sides.map(touched);
    let functions = lines.iter().map(Vec::len).max().filter(|functions| *functions > 1)?;
    let most = lines.iter().flatten().copied().max().unwrap_or(1).max(1);
    let x = |function: usize| LEFT + (WIDTH - LEFT - RIGHT) * function as f64 / functions as f64;
    let y = |pages: usize| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * pages as f64 / most as f64;
    let mut svg = String::new();
    for pages in (0..=most).step_by(super::curve::tick(most as u64) as usize) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\
             <text class=\"tick\" x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{pages}</text>",
            y(pages),
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(pages) + 4.0
        );
    }
    for function in (0..=functions).step_by(super::curve::tick(functions as u64) as usize) {
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{function}</text>",
            x(function),
            HEIGHT - BOTTOM + 18.0
        );
    }
    for ((line, class), layout) in lines.iter().zip(["before", "after"]).zip(sides) {
        let step = line.len().div_ceil(MOST_POINTS).max(1);
        let mut points = format!("{:.1},{:.1}", x(0), y(0));
        let shown = (0..line.len()).filter(|at| at % step == 0 || at + 1 == line.len());
        for at in shown {
            let _ = write!(points, " {:.1},{:.1}", x(at + 1), y(line[at]));
        }
        let _ = writeln!(
            svg,
            "<polyline class=\"{class}\" points=\"{points}\"><title>{}</title></polyline>",
            escape::svg(&layout.title)
        );
    }
    svg += "<line class=\"cursor\" x1=\"-9\" y1=\"0\" x2=\"-9\" y2=\"1\"/>\n";
    let last = lines.each_ref().map(|line| line.last().copied().unwrap_or(0));
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Pages touched by first uses: {} before, {} after\" data-left=\"{LEFT}\" data-right=\"{}\" data-top=\"{TOP}\" data-bottom=\"{}\" data-functions=\"{functions}\">\n\
         {svg}<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">functions, by first use</text>\n</svg>\n",
        last[0],
        last[1],
        WIDTH - RIGHT,
        HEIGHT - BOTTOM,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0
    ))
}
