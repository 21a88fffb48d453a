// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the maps of pages in a report as one SVG file, for places that show pictures but not HTML: a README, a
//! comment, a slide.
//!
//! It has no script, font or link. Its colours follow the viewer's preference for light or dark. The rules contain
//! literal colours, because viewers other than browsers do not support custom properties.

use super::html::headline;
use super::map::{LEFT, WIDTH, shapes};
use super::pages::{CodePages, STEPS};
use super::{LayoutReport, ReportedProgram};
use sediment_core::escape;
use sediment_core::page::PALETTE;
use std::fmt::Write as _;

/// Distance between the two maps of a program.
const GAP: u64 = 24;
/// Distance from a program's headline to its maps, with the legend in between.
const HEAD: u64 = 96;
/// Longest headline that fits, in characters: a character of 17 px is about 9 px wide.
const LONGEST_HEADLINE: usize = 100;

/// CSS rules, with the names of colours in the palette.
const RULES: &str = ".h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}.h6{fill:var(--h6)}\
.c{fill:var(--cold)}text{fill:var(--ink)}.tick,.on{fill:var(--soft)}.huge{stroke:var(--soft)}.paper{fill:var(--paper)}";

/// Draws the pages of each program before and after as an SVG file.
#[must_use]
pub fn picture(report: &LayoutReport<'_>) -> String {
    let mut drawn = String::new();
    let mut titles = Vec::new();
    let mut y = 0;
    for program in &report.programs {
        let (title, shapes, height) = maps(program, report);
        let _ = writeln!(drawn, "<g transform=\"translate(0 {y})\">\n{shapes}</g>");
        titles.push(title);
        y += height;
    }
    let (title, width) = (titles.join("; "), 2 * WIDTH + GAP);
    let (light, dark) = (resolved(Scheme::Light), resolved(Scheme::Dark));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n\
         <style>text{{font:11px system-ui,sans-serif}}.headline{{font-size:17px;font-weight:600}}.side{{font-weight:600}}\
         .on{{font-size:9px}}.huge{{stroke-dasharray:4 3}}\n{light}\n\
         @media(prefers-color-scheme:dark){{{dark}}}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{drawn}</svg>\n"
    )
}

/// Draws a program's headline and maps; returns them with their height.
fn maps(program: &ReportedProgram<'_>, report: &LayoutReport<'_>) -> (String, String, u64) {
    let sides = [(&program.before, "before"), (&program.after, "after")];
    let pages = sides.map(|(layout, _)| CodePages::of(layout));
    let measured = report.measured.filter(|_| report.programs.len() == 1);
    let mut title = format!("{}: {}", program.name, headline(program, &pages, measured));
    if title.chars().count() > LONGEST_HEADLINE {
        title = title.chars().take(LONGEST_HEADLINE - 1).chain(['…']).collect();
    }
    let title = escape::svg(&title);
    let mut svg = format!("<text class=\"headline\" x=\"{LEFT}\" y=\"32\">{title}</text>\n{}\n", legend());
    let mut height = 0;
    for (side, (layout, name)) in (0..).zip(sides) {
        let (shapes, below) = shapes(layout, &pages[side as usize], false);
        let x = side * (WIDTH + GAP);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({x} {HEAD})\"><text class=\"side\" x=\"{LEFT}\" y=\"-4\">{name}</text>\n{shapes}</g>"
        );
        height = height.max(HEAD + below + 8);
    }
    (title, svg, height)
}

/// Draws the meanings of the colours in a row.
fn legend() -> String {
    let steps = (1..=STEPS.len()).rev().zip(STEPS).map(|(step, (_, meaning))| (format!("h{step}"), meaning));
    let mut x = LEFT;
    let entries = steps.chain([("c".to_owned(), "no calls")]).map(|(class, meaning)| {
        let entry = format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"54\" width=\"11\" height=\"11\" rx=\"2\"/><text class=\"tick\" x=\"{}\" y=\"63\">{meaning}</text>",
            x + 17
        );
        x += 40 + 6 * meaning.len() as u64;
        entry
    });
    entries.collect()
}

#[derive(Clone, Copy)]
enum Scheme {
    Light,
    Dark,
}

/// Returns the rules with the colours of a scheme.
fn resolved(scheme: Scheme) -> String {
    let mut rules = String::new();
    let mut parts = RULES.split("var(--");
    rules.extend(parts.next());
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        rules += colour(name, scheme);
        rules += rest;
    }
    rules
}

/// Returns a colour of the palette, in which dark colours come after light ones.
fn colour(name: &str, scheme: Scheme) -> &'static str {
    let (light, dark) = PALETTE.split_once("@media").unwrap_or((PALETTE, PALETTE));
    let text = match scheme {
        Scheme::Light => light,
        Scheme::Dark => dark,
    };
    let value = text.split_once(&format!("--{name}:")).map_or("", |(_, value)| value);
    value.split([';', '}']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Scheme, resolved};

    /// A name that is not in the palette would leave an empty colour, which viewers show as black.
    #[test]
    fn every_colour_is_of_the_palette() {
        let [light, dark] = [Scheme::Light, Scheme::Dark].map(resolved);
        assert_ne!(light, dark);
        for rules in [light, dark] {
            let values: Vec<&str> = rules.split([':', '}']).filter(|part| part.starts_with('#')).collect();
            assert_eq!(values.len(), rules.matches('{').count(), "{rules}");
            assert!(values.iter().all(|value| value.len() == 4 || value.len() == 7), "{values:?}");
        }
    }
}
