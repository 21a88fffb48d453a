// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the heaviest pages, each as a line of 4 KiB with its functions.

use super::map::{short, tail};
use super::pages::{CodePages, bytes, class, percent, weight};
use super::{Layout, LayoutFunction, PAGE};
use sediment_core::callgraph::GroupKind;
use sediment_core::escape;
use std::fmt::Write as _;

const LEFT: f64 = 66.0;
const WIDE: f64 = 512.0;
const RIGHT: f64 = 66.0;
const STEP: f64 = 18.0;
const HEIGHT: f64 = 15.0;
const TOP: f64 = 26.0;
/// A narrower shape is merged with its neighbour of the same heat.
const NARROWEST: f64 = 1.0;
/// Width of a character in the names on shapes.
const LETTER: f64 = 6.2;
/// Fewest characters of a name that are useful.
const LEAST_LETTERS: usize = 5;

/// Draws the heaviest pages of a layout, at most `most`, by address. `numbers`: the numbers of its functions in the
/// data of the script, if they differ from their indices.
pub(super) fn zoom(layout: &Layout<'_>, pages: &CodePages, most: usize, numbers: Option<&[u32]>) -> String {
    let total = layout.functions.iter().map(|function| weight(function) as f64).sum::<f64>().max(1.0);
    let mut chosen: Vec<u64> = pages.by_heat().into_iter().take(most).map(|(number, _)| number).collect();
    chosen.sort_unstable();
    let mut svg = String::new();
    for (line, number) in chosen.iter().enumerate() {
        let y = TOP + STEP * line as f64;
        let gap = line > 0 && chosen[line - 1] + 1 != *number;
        if gap {
            let _ = writeln!(
                svg,
                "<line class=\"gap\" x1=\"{LEFT}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>",
                y - 1.5,
                LEFT + WIDE
            );
        }
        let page = &pages.pages[number];
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <text class=\"tick\" x=\"{}\" y=\"{1}\">{}</text>\
             <rect class=\"paper\" x=\"{LEFT}\" y=\"{y}\" width=\"{WIDE}\" height=\"{HEIGHT}\"/>",
            LEFT - 6.0,
            y + 11.5,
            bytes(number * PAGE),
            LEFT + WIDE + 6.0,
            if page.share >= 0.0001 { percent(page.share) } else { "< 0.01 %".to_owned() },
        );
        let line = PageLine { start: pages.base + number * PAGE, y, total };
        functions(&mut svg, layout, &page.functions, line, numbers);
    }
    let ticks: String = (0..=4)
        .map(|kib| {
            let x = LEFT + WIDE * f64::from(kib) / 4.0;
            let anchor = if kib == 4 { "end" } else { "middle" };
            format!("<text class=\"tick\" x=\"{x}\" y=\"16\" text-anchor=\"{anchor}\">{kib} KiB</text>\n")
        })
        .collect();
    format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Heaviest pages, {}\">\n{ticks}{svg}</svg>\n",
        LEFT + WIDE + RIGHT,
        TOP + STEP * chosen.len() as f64 + 6.0,
        escape::svg(&layout.title)
    )
}

/// A page drawn as a line.
#[derive(Clone, Copy)]
struct PageLine {
    start: u64,
    y: f64,
    total: f64,
}

fn functions(
    svg: &mut String,
    layout: &Layout<'_>,
    on_page: &[u32],
    line: PageLine,
    numbers: Option<&[u32]>,
) {
    let PageLine { start, y, total } = line;
    let place =
        |address: u64| LEFT + WIDE * (address.clamp(start, start + PAGE) - start) as f64 / PAGE as f64;
    let mut drawn_to = LEFT;
    for &at in on_page {
        let function = &layout.functions[at as usize];
        let (from, to) =
            (place(function.address), place(function.address.saturating_add(function.size.max(1))));
        let from = from.max(drawn_to);
        if to - from < NARROWEST && weight(function) == 0 {
            continue;
        }
        let share = weight(function) as f64 / total;
        let class = if function.seen.is_none() { "c" } else { class(share) };
        // A thin gap between neighbours.
        let width = (to - from - 0.6).max(0.6);
        let number = numbers.map_or(at, |numbers| numbers[at as usize]);
        let _ = write!(
            svg,
            "<rect class=\"{class}\" data-f=\"{number}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{HEIGHT}\""
        );
        if function.seen.is_none() {
            svg.push_str("/>\n");
        } else {
            let _ = writeln!(svg, "><title>{}</title></rect>", title(function, share));
        }
        let letters = (width / LETTER) as usize;
        if letters > LEAST_LETTERS && function.seen.is_some() {
            let _ = writeln!(
                svg,
                "<text class=\"on-{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                from + 3.0,
                y + 11.0,
                escape::svg(&tail(function.name, letters - 2))
            );
        }
        drawn_to = from + width;
    }
}

fn title(function: &LayoutFunction<'_>, share: f64) -> String {
    let mut text = format!("{}, {}", short(function.name), bytes(function.size));
    match function.seen {
        None => text += ", not in the profile",
        Some(seen) => {
            let _ = write!(text, ", {}, {}", percent(share), group_name(seen.group));
            if let Some(first) = seen.first {
                let _ = write!(text, ", first use {first}");
            }
        }
    }
    escape::svg(&text)
}

/// Name of a group in pictures and tables.
pub(super) fn group_name(group: GroupKind) -> &'static str {
    match group {
        GroupKind::Startup => "start-up",
        GroupKind::Hot => "hot",
        GroupKind::Warm => "warm",
        GroupKind::Unprofiled => "unprofiled",
    }
}
