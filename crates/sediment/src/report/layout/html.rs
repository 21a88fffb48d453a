// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two layouts as one page.

use super::curve::curve;
use super::map::map;
use super::pages::{Pages, STEPS, bytes, percent, weight};
use super::zoom::{group_name, zoom};
use super::{Layout, PAGE};
use crate::callgraph::GroupKind;
use crate::escape;
use crate::report::page::page;
use std::fmt::Write as _;

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
    let mut body = format!("<h1>Layout of {}</h1>\n", escape::html(program));
    for note in notes {
        let _ = writeln!(body, "<p>{}</p>", escape::html(note));
    }
    body += &summary([before, after], &pages);
    let _ = write!(
        body,
        "<h2>How many pages hold the calls</h2>\n\
         <p>Each line takes pages from the heaviest on. The steeper it rises, the fewer pages an instruction TLB needs.</p>\n\
         <div class=\"wide\">{}</div>\n",
        curve([(&before.title, &pages[0]), (&after.title, &pages[1])])
    );
    body += "<h2>All pages</h2>\n<p>Each square is a page of 4 KiB, each row 128 KiB; dashed lines are where huge pages of 2 MiB begin. \
             Point at a page to see its heaviest functions.</p>\n";
    body += &legend();
    body += &sides([before, after], |side| map([before, after][side], &pages[side]));
    let _ = write!(
        body,
        "<h2>The heaviest pages, function by function</h2>\n\
         <p>The {most_pages} pages with the most calls, by address; each bar is a function, from its first byte to its last. To the left \
         stands how far into the code a page lies, to the right its share of all calls. Dots separate pages that do not follow each \
         other.</p>\n"
    );
    body += &sides([before, after], |side| zoom([before, after][side], &pages[side], most_pages));
    page(&format!("Layout of {program}"), STYLE, &body)
}

fn sides(layouts: [&Layout<'_>; 2], draw: impl Fn(usize) -> String) -> String {
    let mut text = String::from("<div class=\"sides\">\n");
    for (side, layout) in layouts.into_iter().enumerate() {
        let _ =
            write!(text, "<section>\n<h3>{}</h3>\n{}</section>\n", escape::html(&layout.title), draw(side));
    }
    text + "</div>\n"
}

fn legend() -> String {
    let square = |class: &str| {
        format!(
            "<svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>"
        )
    };
    let mut text = String::from("<ul class=\"legend\">\n");
    for (step, (_, meaning)) in (1..=STEPS.len()).rev().zip(STEPS) {
        let _ = writeln!(text, "<li>{}{meaning}</li>", square(&format!("h{step}")));
    }
    let _ = writeln!(text, "<li>{}code without any call</li>", square("c"));
    text + "</ul>\n"
}

fn summary(layouts: [&Layout<'_>; 2], pages: &[Pages; 2]) -> String {
    let mut text =
        String::from("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">share of all calls</th>");
    for size in ["4 KiB", "2 MiB"] {
        for when in ["before", "after"] {
            let _ = write!(text, "<th scope=\"col\">pages of {size}, {when}</th>");
        }
    }
    text += "</tr></thead>\n<tbody>\n";
    for share in SHARES {
        let _ = write!(text, "<tr><td>{}</td>", format!("{:.1} %", 100.0 * share).replace(".0 ", " "));
        for times in [1, (2 << 20) / PAGE] {
            for side in pages {
                let _ = write!(text, "<td>{}</td>", side.holding(share, times));
            }
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table></div>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">group</th><th scope=\"col\">functions</th>\
             <th scope=\"col\">bytes</th><th scope=\"col\">share of all calls</th></tr></thead>\n<tbody>\n";
    let after = layouts[1];
    let total = after.functions.iter().map(|function| weight(function) as f64).sum::<f64>().max(1.0);
    let groups = [GroupKind::Hot, GroupKind::Startup, GroupKind::Warm, GroupKind::Unprofiled];
    for group in groups.map(Some).into_iter().chain([None]) {
        let of_group =
            || after.functions.iter().filter(|function| function.seen.map(|seen| seen.group) == group);
        let count = of_group().count();
        if count > 0 {
            let size: u64 = of_group().map(|function| function.size).sum();
            let calls: f64 = of_group().map(|function| weight(function) as f64).sum();
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td>{count}</td><td>{}</td><td>{}</td></tr>",
                group.map_or("not in the profile", group_name),
                bytes(size),
                percent(calls / total)
            );
        }
    }
    text + "</tbody>\n</table></div>\n"
}
