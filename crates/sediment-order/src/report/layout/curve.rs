// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the share of all calls in the heaviest pages, with a line for each layout.

use super::pages::CodePages;
use sediment_core::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;
/// Numbers of entries of common instruction TLBs.
const ENTRIES: [u64; 3] = [32, 64, 128];

/// Largest number of pages for a linear scale: on a longer one, the lines would be at its left edge.
const LINEAR: u64 = 400;
/// The scale is logarithmic if the total number of pages is more than this multiple of the hot pages, which would fill
/// less than a fifth of a linear scale.
const SMALL_PART: u64 = 5;

/// Draws both lines.
pub(super) fn curve(sides: [(&str, &CodePages); 2]) -> String {
    let most = sides.iter().map(|(_, pages)| pages.holding(0.9999, 1)).max().unwrap_or(0).max(8);
    let hot = sides.iter().map(|(_, pages)| pages.holding(0.99, 1)).min().unwrap_or(0);
    let is_log = most > LINEAR || most > SMALL_PART * hot.max(4);
    let part = |pages: f64| if is_log { pages.ln_1p() / (most as f64).ln_1p() } else { pages / most as f64 };
    let x = |pages: f64| LEFT + (WIDTH - LEFT - RIGHT) * part(pages);
    let y = |share: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share;
    let mut svg = String::new();
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\
             <text class=\"tick\" x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4} %</text>",
            y(share),
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(share) + 4.0,
            25 * quarter
        );
    }
    let drawn: Vec<u64> = ENTRIES.into_iter().filter(|entries| *entries < most).collect();
    for (place, &entries) in drawn.iter().enumerate() {
        let at = x(entries as f64);
        // Narrow ones would overlap, so only the last has the unit.
        let (name, anchor) = if place + 1 == drawn.len() {
            (format!("{entries} TLB entries"), "start")
        } else {
            (entries.to_string(), "middle")
        };
        let text_x = if anchor == "start" { at - 8.0 } else { at };
        let _ = writeln!(
            svg,
            "<line class=\"entries\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{text_x:.1}\" y=\"16\" text-anchor=\"{anchor}\">{name}</text>",
            y(0.0)
        );
    }
    let step = tick(most);
    let marks: Vec<u64> = match is_log {
        true => {
            [0].into_iter().chain((0..10).flat_map(|power| [1, 3].map(|m| m * 10u64.pow(power)))).collect()
        }
        false => (0..=most).step_by(step as usize).collect(),
    };
    for at in marks.into_iter().filter(|at| *at <= most) {
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at}</text>",
            x(at as f64),
            y(0.0) + 18.0
        );
    }
    for ((title, pages), class) in sides.iter().zip(["before", "after"]) {
        let mut points = format!("{:.1},{:.1}", x(0.0), y(0.0));
        let mut sum = 0.0;
        for (at, (_, page)) in pages.by_heat().into_iter().take(most as usize).enumerate() {
            sum += page.share;
            let _ = write!(points, " {:.1},{:.1}", x((at + 1) as f64), y(sum.min(1.0)));
        }
        let _ = write!(points, " {:.1},{:.1}", x(most as f64), y(sum.min(1.0)));
        let _ = writeln!(
            svg,
            "<polyline class=\"{class}\" points=\"{points}\"><title>{}</title></polyline>",
            escape::svg(title)
        );
    }
    svg += &key(sides.map(|(title, _)| title), y(0.0));
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Share of all calls by number of pages\">\n{svg}<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">pages of 4 KiB, heaviest first{}</text>\n</svg>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        if is_log { " (logarithmic scale)" } else { "" }
    )
}

/// Draws the legend of the lines, above the bottom of the picture.
fn key(titles: [&str; 2], bottom: f64) -> String {
    let mut svg = String::new();
    let (key_x, key_y) = (WIDTH - RIGHT - 260.0, bottom - 52.0);
    let _ = writeln!(
        svg,
        "<rect class=\"key\" x=\"{}\" y=\"{}\" width=\"264\" height=\"46\"/>",
        key_x - 8.0,
        key_y
    );
    for (row, (title, class)) in titles.into_iter().zip(["before", "after"]).enumerate() {
        let at = key_y + 16.0 + 20.0 * row as f64;
        let _ = writeln!(
            svg,
            "<polyline class=\"{class}\" points=\"{0:.1},{at:.1} {1:.1},{at:.1}\"/><text x=\"{2:.1}\" y=\"{3:.1}\">{4}</text>",
            key_x,
            key_x + 28.0,
            key_x + 36.0,
            at + 4.0,
            escape::svg(&super::map::short(title))
        );
    }
    svg
}

/// Round distance between ticks, of which at most eight fit.
pub(super) fn tick(most: u64) -> u64 {
    let mut power = 1;
    loop {
        if let Some(step) = [1, 2, 5].map(|m| m * power).into_iter().find(|step| most / step <= 8) {
            return step;
        }
        power *= 10;
    }
}
