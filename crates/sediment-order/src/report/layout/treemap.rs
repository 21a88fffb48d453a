// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws profiled code by library and object file: a tile for each, whose area is the size of its code and whose heat
//! is its share of all calls.
//!
//! **Tiles** are laid out in rows that are as square as possible (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000), first the libraries, then
//! the object files of each. Both are sorted by size and, on a tie, by name.

use super::ReportedProgram;
use super::calls::parts;
use super::map::shown;
use super::pages::{bytes, class, percent};
use sediment_core::escape;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
/// Height for a library's name.
const TITLE: f64 = 16.0;
/// Largest number of tiles in a library; the rest is one tile.
const MOST: usize = 240;
/// Name of the tile for the rest, which is marked because a file may have the same name.
const REST: &str = "smaller files";
/// Assumed size in bytes of a function whose size is not in the profile.
const UNKNOWN: u64 = 64;
/// Width of a character.
const LETTER: f64 = 6.2;

#[derive(Debug, Clone, Copy, Default)]
struct Tile {
    bytes: u64,
    calls: u128,
    functions: u64,
}

impl Tile {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.calls = self.calls.saturating_add(other.calls);
        self.functions += other.functions;
    }
}

#[derive(Debug, Clone, Copy)]
struct TileArea {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// A library or program with the sum of its tiles, and its object files; the one without a name combines small files.
type LibraryTiles<'a> = (&'a str, Tile, Vec<(Option<&'a str>, Tile)>);

/// Returns libraries with profiled code, the largest first.
fn libraries<'a>(program: &'a ReportedProgram<'_>) -> Vec<LibraryTiles<'a>> {
    let mut libraries: BTreeMap<&str, BTreeMap<&str, Tile>> = BTreeMap::new();
    for function in &program.before.functions {
        let Some(seen) = function.seen else { continue };
        let calls = function.id.and_then(|id| program.calls.weights.get(id as usize)).copied();
        let object = program.objects.get(&function.address).map_or("", String::as_str);
        libraries.entry(&program.name).or_default().entry(object).or_default().add(Tile {
            bytes: function.size,
            calls: calls.unwrap_or(u128::from(seen.weight)),
            functions: 1,
        });
    }
    for function in &program.calls.elsewhere {
        let size = if function.size == 0 { UNKNOWN } else { function.size.min(super::LARGEST) };
        let tile = Tile { bytes: size, calls: function.weight, functions: 1 };
        libraries.entry(function.dso).or_default().entry("").or_default().add(tile);
    }
    let mut rows: Vec<_> = libraries
        .into_iter()
        .map(|(name, objects)| {
            let objects = largest(objects.into_iter().map(|(name, tile)| (Some(name), tile)).collect());
            let mut sum = Tile::default();
            objects.iter().for_each(|(_, tile)| sum.add(*tile));
            (name, sum, objects)
        })
        .filter(|(_, sum, _)| sum.bytes > 0)
        .collect();
    rows.sort_by_key(|(_, sum, _)| std::cmp::Reverse(sum.bytes));
    rows
}

/// Draws the tiles; `None` if nothing was profiled.
pub(super) fn treemap(program: &ReportedProgram<'_>) -> Option<String> {
    let rows = libraries(program);
    if rows.is_empty() {
        return None;
    }
    let total = program.calls.total.max(1);
    let whole = TileArea { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    let mut svg = String::new();
    let sizes: Vec<f64> = rows.iter().map(|(_, sum, _)| sum.bytes as f64).collect();
    for ((name, sum, objects), area) in rows.iter().zip(squarified(&sizes, whole)) {
        let dso = if name.is_empty() { "no library" } else { name };
        let has_title = area.height > 2.5 * TITLE && area.width > 40.0 && objects.len() > 1;
        let inner = match has_title {
            true => TileArea { y: area.y + TITLE, height: area.height - TITLE, ..area },
            false => area,
        };
        if has_title {
            let text =
                format!("{dso}, {} of all recorded calls", percent(parts(sum.calls, total) as f64 / 1e9));
            label(&mut svg, "library", &text, area.x + 3.0, area.y + 12.0, area.width - 6.0);
        }
        let sizes: Vec<f64> = objects.iter().map(|(_, tile)| tile.bytes.max(1) as f64).collect();
        for ((object, tile), at) in objects.iter().zip(squarified(&sizes, inner)) {
            let share = parts(tile.calls, total) as f64 / 1e9;
            let unknown = if objects.len() > 1 { "object file unknown" } else { dso };
            let what = match *object {
                None => REST,
                Some("") => unknown,
                Some(object) => object,
            };
            let class = class(share);
            let file = match object {
                Some(object) => format!("data-o=\"{}\"", escape::svg(&shown(object, 240))),
                None => format!("data-o=\"{REST}\" data-rest=\"\""),
            };
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" data-l=\"{}\" {file} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"><title>{}: {} of code in {} functions, {} of all recorded calls</title></rect>",
                escape::svg(&shown(name, 240)),
                at.x,
                at.y,
                (at.width - 1.0).max(0.5),
                (at.height - 1.0).max(0.5),
                escape::svg(&shown(what, 120)),
                bytes(tile.bytes),
                tile.functions,
                percent(share)
            );
            if at.height > 15.0 {
                label(&mut svg, &format!("on-{class}"), what, at.x + 4.0, at.y + 12.5, at.width - 8.0);
            }
        }
    }
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Profiled code by library and object file\">\n{svg}</svg>\n"
    ))
}

/// Sorts tiles by size; if there are many, the small ones become one without a name.
fn largest(mut tiles: Vec<(Option<&str>, Tile)>) -> Vec<(Option<&str>, Tile)> {
    tiles.sort_by_key(|(_, tile)| std::cmp::Reverse(tile.bytes));
    if tiles.len() > MOST {
        let rest = tiles.split_off(MOST - 1);
        let mut sum = Tile::default();
        rest.iter().for_each(|(_, tile)| sum.add(*tile));
        tiles.push((None, sum));
        tiles.sort_by_key(|(_, tile)| std::cmp::Reverse(tile.bytes));
    }
    tiles
}

fn label(svg: &mut String, class: &str, text: &str, x: f64, y: f64, width: f64) {
    let fits = (width / LETTER) as usize;
    if fits < 4 {
        return;
    }
    let name = text.rsplit('/').next().unwrap_or(text);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape::svg(&shown(name, fits - 1))
    );
}

/// Returns an area for each size, in rows along the shorter side. Sizes must descend.
fn squarified(sizes: &[f64], whole: TileArea) -> Vec<TileArea> {
    let mut areas = Vec::with_capacity(sizes.len());
    let mut left = whole;
    let mut rest: f64 = sizes.iter().sum();
    let mut at = 0;
    while at < sizes.len() && rest > 0.0 {
        let scale = left.width * left.height / rest;
        let side = left.width.min(left.height).max(1e-9);
        let worst = |row: &[f64]| {
            let sum: f64 = row.iter().sum::<f64>() * scale;
            let of = |size: f64| side * side * size * scale / (sum * sum).max(1e-9);
            let (most, least) = (of(row[0]), of(row[row.len() - 1]));
            most.max(1.0 / least.max(1e-12))
        };
        let mut end = at + 1;
        while end < sizes.len() && worst(&sizes[at..=end]) <= worst(&sizes[at..end]) {
            end += 1;
        }
        let sum: f64 = sizes[at..end].iter().sum();
        let thick = sum * scale / side;
        let mut along = 0.0;
        for size in &sizes[at..end] {
            let length = size / sum * side;
            areas.push(match left.width < left.height {
                true => TileArea { x: left.x + along, y: left.y, width: length, height: thick },
                false => TileArea { x: left.x, y: left.y + along, width: thick, height: length },
            });
            along += length;
        }
        match left.width < left.height {
            true => (left.y, left.height) = (left.y + thick, (left.height - thick).max(0.0)),
            false => (left.x, left.width) = (left.x + thick, (left.width - thick).max(0.0)),
        }
        rest -= sum;
        at = end;
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::{TileArea, squarified};

    #[test]
    fn tiles_have_the_areas_of_their_sizes_and_fill_the_whole() {
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let areas = squarified(&sizes, TileArea { x: 0.0, y: 0.0, width: 6.0, height: 4.0 });
        for (size, area) in sizes.iter().zip(&areas) {
            assert!((area.width * area.height - size).abs() < 1e-9, "{area:?}");
            assert!(area.x + area.width < 6.0 + 1e-9 && area.y + area.height < 4.0 + 1e-9);
        }
        // The example from the paper: the first two areas are 3 by 2.
        let first: Vec<[f64; 2]> = areas[..2].iter().map(|area| [area.width, area.height]).collect();
        assert_eq!(first, [[3.0, 2.0]; 2]);
        assert_eq!(areas.len(), sizes.len());
    }
}
