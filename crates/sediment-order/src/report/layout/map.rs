// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the overview: every page of a layout as a square, coloured by heat, in rows of 128 KiB.

use super::pages::{CodePage, CodePages, bytes, class, percent, weight};
use super::{Layout, PAGE};
use sediment_core::demangle::demangled;
use sediment_core::escape;
use std::fmt::Write as _;

/// Number of pages in a row.
const ROW: u64 = 32;
const CELL: u64 = 11;
const STEP: u64 = 12;
pub(super) const LEFT: u64 = 66;
const TOP: u64 = 26;
pub(super) const WIDTH: u64 = LEFT + ROW * STEP + 8;
/// Number of rows for 2 MiB.
const ROWS_OF_HUGE_PAGE: u64 = (2 << 20) / (PAGE * ROW);
/// Number of functions in a page's title.
const NAMED: usize = 3;
/// Number of rows that the label of a huge page takes, above and below its own.
const LABEL_ROWS: u64 = 1;

/// Draws one layout, with titles that list each page's functions.
pub(super) fn map(layout: &Layout<'_>, pages: &CodePages) -> String {
    let (shapes, height) = shapes(layout, pages, true);
    let title = escape::svg(&layout.title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Pages, {title}\">\n{shapes}</svg>\n"
    )
}

/// Returns the shapes for one layout, and their height.
pub(super) fn shapes(layout: &Layout<'_>, pages: &CodePages, is_named: bool) -> (String, u64) {
    let last = pages.pages.keys().next_back().map_or(0, |last| last / ROW);
    // Rows are aligned to memory addresses, so that lines for huge pages can be drawn.
    let skew = pages.base / PAGE % ROW;
    let mut svg = String::new();
    let mut y = TOP;
    let mut row = 0;
    while row <= last + 1 {
        let numbers = (row * ROW).saturating_sub(skew)..((row + 1) * ROW).saturating_sub(skew);
        let here: Vec<(u64, &CodePage)> =
            pages.pages.range(numbers.clone()).map(|(n, page)| (*n, page)).collect();
        if here.iter().all(|(_, page)| page.share <= 0.0) {
            let until = next_with_heat(pages, numbers.start, skew).unwrap_or(last + 2);
            if until > row + 2 || here.is_empty() {
                let bytes_joined =
                    pages.pages.range(numbers.start..(until * ROW).saturating_sub(skew)).count() as u64
                        * PAGE;
                if bytes_joined > 0 {
                    let _ = writeln!(
                        svg,
                        "<rect class=\"c\" x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{CELL}\" rx=\"2\"/><text class=\"on\" x=\"{}\" y=\"{}\">{} without calls</text>",
                        ROW * STEP - 1,
                        LEFT + 6,
                        y + 9,
                        bytes(bytes_joined)
                    );
                    y += STEP;
                }
                row = until;
                continue;
            }
        }
        mark(&mut svg, row, y, pages.base / PAGE / ROW);
        cells(&mut svg, is_named.then_some(layout), &here, skew, y);
        y += STEP;
        row += 1;
    }
    let ticks: String = (0..=4)
        .map(|quarter| {
            let x = LEFT + quarter * ROW * STEP / 4;
            let anchor = if quarter == 4 { "end" } else { "start" };
            format!(
                "<text class=\"tick\" x=\"{x}\" y=\"16\" text-anchor=\"{anchor}\">{} KiB</text>\n",
                quarter * ROW
            )
        })
        .collect();
    (ticks + &svg, y + 6)
}

/// Returns the first row from this page on with heat.
fn next_with_heat(pages: &CodePages, from: u64, skew: u64) -> Option<u64> {
    let hot = pages.pages.range(from..).find(|(_, page)| page.share > 0.0);
    hot.map(|(number, _)| (number + skew) / ROW)
}

/// Draws the label to the left of a row, and the line above it if a huge page begins there.
fn mark(svg: &mut String, row: u64, y: u64, first_row: u64) {
    let at = row * ROW * PAGE;
    if (first_row + row) % ROWS_OF_HUGE_PAGE == 0 {
        let _ = writeln!(
            svg,
            "<line class=\"huge\" x1=\"{}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"><title>start of a huge page of 2 MiB</title></line>",
            LEFT - 58,
            y as f64 - 0.5,
            LEFT + ROW * STEP
        );
    }
    // There is no room for another label next to the label of a huge page.
    let is_huge = |row: u64| (first_row + row) % ROWS_OF_HUGE_PAGE == 0;
    let near_huge =
        (row.saturating_sub(LABEL_ROWS)..=row + LABEL_ROWS).any(|near| near != row && is_huge(near));
    if is_huge(row) || row % 4 == 0 && !near_huge {
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 6,
            y + 10,
            bytes(at)
        );
    }
}

/// Draws the pages of a row; neighbours without heat are one shape. With a layout, pages with heat get titles with
/// their functions.
fn cells(svg: &mut String, names: Option<&Layout<'_>>, here: &[(u64, &CodePage)], skew: u64, y: u64) {
    let of_one_shape =
        |a: &(u64, &CodePage), b: &(u64, &CodePage)| a.1.share <= 0.0 && b.1.share <= 0.0 && a.0 + 1 == b.0;
    for run in here.chunk_by(of_one_shape) {
        let x = LEFT + (run[0].0 + skew) % ROW * STEP;
        let width = STEP * run.len() as u64 - (STEP - CELL);
        let (number, page) = run[0];
        let class = class(page.share);
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL}\" rx=\"2\""
        );
        match names {
            Some(layout) if page.share > 0.0 => {
                let title = title(layout, number, page);
                let _ = writeln!(svg, " data-p=\"{number}\"><title>{title}</title></rect>");
            }
            _ => svg.push_str("/>\n"),
        }
    }
}

fn title(layout: &Layout<'_>, number: u64, page: &CodePage) -> String {
    let mut functions: Vec<&super::LayoutFunction<'_>> =
        page.functions.iter().map(|at| &layout.functions[*at as usize]).collect();
    let count = functions.len();
    functions.sort_by(|a, b| weight(b).cmp(&weight(a)).then(a.address.cmp(&b.address)));
    functions.truncate(NAMED);
    let names: Vec<String> = functions.iter().map(|function| escape::svg(&short(function.name))).collect();
    let more = if count > names.len() { format!(" and {} more", count - names.len()) } else { String::new() };
    format!(
        "page at {}: {} of all calls\n{}{more}",
        bytes(number * PAGE),
        percent(page.share),
        names.join(", ")
    )
}

/// Returns a function's name for titles: demangled, and cut.
pub(super) fn short(name: &str) -> String {
    const LONGEST: usize = 60;
    cut(&demangled(name), LONGEST)
}

/// As [`short`], for data of the script: invisible characters become `\u{hex}`.
pub(super) fn shown(name: &str, longest: usize) -> String {
    cut(&escape::terminal(&cut(&demangled(name), longest)), longest)
}

/// As [`short`], cut to a number of characters: names of C++ and Rust lose parameters and namespaces before their last
/// characters, because most functions of a program have the same beginning.
pub(super) fn tail(name: &str, longest: usize) -> String {
    let name = shown(name, usize::MAX);
    if name.chars().count() <= longest {
        return name;
    }
    let (mut depth, mut begin, mut end) = (0_usize, 0, name.len());
    let bytes = name.as_bytes();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'{' => depth += 1,
            b'>' | b'}' => depth = depth.saturating_sub(1),
            // The parentheses of an anonymous namespace are not parameters.
            b'(' if depth == 0 && at > begin => {
                end = at;
                break;
            }
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => begin = at + 1,
            _ => {}
        }
    }
    match &name[begin..end] {
        "" => cut(&name, longest),
        last if begin == 0 => cut(last, longest),
        // Such names differ more at their ends than at their beginnings.
        last => {
            let left_out = last.chars().count().saturating_sub(longest);
            format!("…{}", last.chars().skip(left_out).collect::<String>())
        }
    }
}

fn cut(name: &str, longest: usize) -> String {
    let mut shown: String = name.chars().take(longest).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn labels_of_long_names_have_their_ends() {
        let rows = [
            ("main", 10, "main"),
            ("_ZN3srv6mod1006HandleEPKci", 60, "srv::mod100::Handle(char const*, int)"),
            ("_ZN3srv6mod1006HandleEPKci", 12, "…Handle"),
            ("_ZN3srv6mod1006HandleEPKci", 4, "…ndle"),
            ("_ZN12_GLOBAL__N_13fooEi", 10, "…foo"),
            ("a::map<b::key, c::value>::find(d::key)", 12, "…find"),
            ("f::{lambda(int)#1}::operator()(int) const", 14, "…operator"),
            ("plain_name_of_c_that_is_long", 8, "plain_na…"),
            ("(anonymous)", 4, "(ano…"),
        ];
        for (name, longest, expected) in rows {
            assert_eq!(tail(name, longest), expected, "{name}");
        }
    }
}
