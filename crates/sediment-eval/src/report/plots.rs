// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws pictures of a workload, as SVG inside a page: the interval of every build, and its paired differences block by
//! block. Colours are classes; the page's style defines them for light, dark and print.

use crate::Analysis;
use crate::comparison::{Comparison, EffectScale, percent};
use crate::findings::WorkloadAnalysis;
use sediment_core::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 190.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 30.0;
const SERIES_HEIGHT: f64 = 100.0;
const SERIES_GAP: f64 = 24.0;
/// Characters of a name that fit next to a plot.
const LONGEST_LABEL: usize = 24;

/// Converts per cent to positions along an axis.
struct Axis {
    least: f64,
    greatest: f64,
    step: f64,
}

impl Axis {
    /// Makes an axis that covers all these values, with round ticks.
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut greatest) = (0.0_f64, 0.0_f64);
        for value in values.filter(|value| value.is_finite()) {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        let span = (greatest - least).max(1e-6);
        let power = 10.0_f64.powi((span / 6.0).log10().floor() as i32);
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| span / s <= 7.0).unwrap_or(span);
        Self { least: (least / step).floor() * step, greatest: (greatest / step).ceil() * step, step }
    }

    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value - self.least) / (self.greatest - self.least) * (to - from)
    }

    fn ticks(&self) -> Vec<f64> {
        let count = ((self.greatest - self.least) / self.step).round() as i32;
        (0..=count.min(50)).map(|k| self.least + f64::from(k) * self.step).collect()
    }

    fn label(&self, value: f64) -> String {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        let shown = if value.abs() < self.step / 2.0 { 0.0 } else { value };
        format!("{shown:+.decimals$}").replace("+0", if shown == 0.0 { "0" } else { "+0" })
    }
}

/// Draws both pictures of a workload; nothing if there is no interval to draw.
pub(super) fn plots(analysis: &Analysis, workload: &WorkloadAnalysis) -> String {
    let comparisons: Vec<&Comparison> = (0..analysis.variants.len())
        .filter_map(|variant| workload.headline_comparison(variant))
        .filter(|found| found.scale == EffectScale::Logarithm)
        .collect();
    if comparisons.iter().all(|found| found.effect.is_none()) {
        return String::new();
    }
    intervals(analysis, workload, &comparisons) + &series(analysis, &comparisons)
}

fn label(analysis: &Analysis, variant: usize) -> String {
    let name = &analysis.variants[variant].name;
    let mut short: String = name.chars().take(LONGEST_LABEL).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    escape::svg(&short)
}

fn intervals(analysis: &Analysis, workload: &WorkloadAnalysis, comparisons: &[&Comparison]) -> String {
    let margin = analysis.margin * 100.0;
    let ends = comparisons
        .iter()
        .filter_map(|found| found.effect)
        .flat_map(|effect| [percent(effect.interval.lower), percent(effect.interval.upper)]);
    let axis = Axis::over(ends.chain([-margin, margin]));
    let at = |value: f64| axis.place(value, LABELS, WIDTH - RIGHT);
    let bottom = ROW * comparisons.len() as f64 + 14.0;
    let height = bottom + 42.0;
    let headline = workload.headline.map_or("", |at| analysis.metrics[at].name.as_str());
    let title =
        format!("Change of {headline} against {}, per cent", analysis.variants[analysis.baseline].name);
    let mut svg = format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n",
        escape::svg(&title)
    );
    let _ = writeln!(
        svg,
        "<rect class=\"margin\" x=\"{:.1}\" y=\"4\" width=\"{:.1}\" height=\"{:.1}\"/>",
        at(-margin),
        at(margin) - at(-margin),
        bottom - 4.0
    );
    for tick in axis.ticks() {
        let x = at(tick);
        let class = if tick.abs() < axis.step / 2.0 { "zero" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"4\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            axis.label(tick)
        );
    }
    for (row, found) in comparisons.iter().enumerate() {
        let y = ROW * row as f64 + ROW / 2.0 + 6.0;
        let verdict = workload.verdicts.iter().find(|j| j.variant == found.variant).map(|j| j.verdict.word());
        let class = verdict.unwrap_or("probe");
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LABELS - 12.0,
            y + 4.0,
            label(analysis, found.variant)
        );
        let Some(effect) = found.effect else { continue };
        let (low, middle, high) = (
            at(percent(effect.interval.lower)),
            at(percent(effect.interval.estimate)),
            at(percent(effect.interval.upper)),
        );
        let _ = writeln!(
            svg,
            "<g class=\"{class}\"><line x1=\"{low:.1}\" y1=\"{y:.1}\" x2=\"{high:.1}\" y2=\"{y:.1}\"/>"
        );
        for end in [low, high] {
            let _ = writeln!(
                svg,
                "<line x1=\"{end:.1}\" y1=\"{:.1}\" x2=\"{end:.1}\" y2=\"{:.1}\"/>",
                y - 5.0,
                y + 5.0
            );
        }
        let _ = writeln!(svg, "<circle cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"4.5\"/></g>");
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">per cent</text>\n</svg>\n\
         <figcaption>{}. Bars are {:.0} % intervals; the band is the margin of {} %.</figcaption>\n</figure>\n",
        (LABELS + WIDTH - RIGHT) / 2.0,
        bottom + 34.0,
        escape::html(&title),
        analysis.confidence * 100.0,
        margin
    );
    svg
}

fn series(analysis: &Analysis, comparisons: &[&Comparison]) -> String {
    let drawn: Vec<&&Comparison> = comparisons.iter().filter(|found| found.differences.len() > 1).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let axis = Axis::over(drawn.iter().flat_map(|found| found.differences.iter().map(|(_, d)| percent(*d))));
    let last = drawn
        .iter()
        .flat_map(|found| found.differences.iter().map(|(block, _)| *block))
        .max()
        .unwrap_or(1)
        .max(1);
    let height = (SERIES_HEIGHT + SERIES_GAP) * drawn.len() as f64 + 30.0;
    let mut svg = format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Change by block\">\n\
         <title>Change by block, per cent</title>\n"
    );
    let x = |block: u32| LABELS + 10.0 + f64::from(block) / f64::from(last) * (WIDTH - RIGHT - LABELS - 20.0);
    for (row, found) in drawn.iter().enumerate() {
        let top = (SERIES_HEIGHT + SERIES_GAP) * row as f64 + 6.0;
        let y = |value: f64| axis.place(value, top + SERIES_HEIGHT, top);
        for tick in axis.ticks() {
            let class = if tick.abs() < axis.step / 2.0 { "zero" } else { "grid" };
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{LABELS}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\"/>\n\
                 <text class=\"tick\" x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
                y(tick),
                WIDTH - RIGHT,
                LABELS - 6.0,
                y(tick) + 4.0,
                axis.label(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LABELS - 44.0,
            top + SERIES_HEIGHT / 2.0 + 4.0,
            label(analysis, found.variant)
        );
        let class = if analysis.variants[found.variant].probe.is_some() { "probe" } else { "build" };
        let mean = y(percent(found.estimate));
        let _ = writeln!(
            svg,
            "<g class=\"{class}\"><line class=\"mean\" x1=\"{LABELS}\" y1=\"{mean:.1}\" x2=\"{}\" y2=\"{mean:.1}\"/>",
            WIDTH - RIGHT
        );
        for (block, difference) in &found.differences {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                x(*block),
                y(percent(*difference))
            );
        }
        svg.push_str("</g>\n");
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">block 0 to {last}</text>\n</svg>\n\
         <figcaption>The change within every block, per cent, in the order of the blocks; the dashed line is its mean.\
         </figcaption>\n</figure>\n",
        (LABELS + WIDTH - RIGHT) / 2.0,
        height - 6.0
    );
    svg
}
