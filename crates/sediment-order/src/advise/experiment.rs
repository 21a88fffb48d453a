// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment that tells whether advice was right: a plan for `sediment eval`, to be completed by hand.

use super::inline::{Advice, InlineCandidate};
use sediment_core::escape;
use std::fmt::Write;

/// Inputs of an evaluation plan beside the advice.
#[derive(Debug, Clone, Copy)]
pub struct AdviceExperiment<'a> {
    /// Base name of the program.
    pub program: &'a str,
    /// Shell command that builds it: `{flags}` in it are compiler and linker flags, `{output}` the file to make.
    pub build: &'a str,
    /// Shell command to be measured; `{program}` in it is the program.
    pub run: &'a str,
    /// Number of candidates that are meant to be inlined by hand.
    pub inlined: usize,
}

/// Flags of each variant, beside those that its name says. The order comes from GNU ld's ordering file; other linkers take
/// it by other flags.
const VARIANTS: [(&str, &str); 8] = [
    ("base", "-O2"),
    ("inline", "-O2 -DINLINE_BY_HAND"),
    ("lto", "-O2 -flto"),
    ("lto and inline", "-O2 -flto -DINLINE_BY_HAND"),
    ("order", "-O2 -ffunction-sections -Wl,--section-ordering-file,{folder}/program.order"),
    (
        "order and inline",
        "-O2 -DINLINE_BY_HAND -ffunction-sections -Wl,--section-ordering-file,{folder}/inline.order",
    ),
    ("Os", "-Os"),
    ("O3", "-O3"),
];

/// The plan's text: TOML, with the changes to be made as comments.
#[must_use]
pub fn plan(advice: &Advice, experiment: &AdviceExperiment<'_>) -> String {
    let mut text = String::from(
        "# Is the program faster with inlining by hand, and is that better than flags and an order of the functions?\n\
         # Written by `sediment advise inline`. Run it by `sediment eval run` with this file's name; docs/measuring.md says\n\
         # what every key means.\n#\n",
    );
    let chosen = &advice.candidates[..experiment.inlined.min(advice.candidates.len())];
    if chosen.is_empty() {
        text.push_str("# Nothing worth inlining by hand: the variants for it are missing.\n");
    } else {
        text.push_str("# To do first, each change behind `#ifdef INLINE_BY_HAND`:\n");
        for candidate in chosen {
            let InlineCandidate { caller, callee, change, .. } = candidate;
            let names = escape::terminal(&format!("{} -> {}", caller.name, callee.name));
            let _ = writeln!(text, "#   {names}: {change}");
        }
    }
    text.push_str(
        "#\n# The variants with an order need the ordering file of this program (and of the program with the changes): record,\n\
         # then `sediment order p.gv --binary PROGRAM --linker gnu-ld -o program.order`. Flags for other linkers: docs/linkers.md.\n",
    );
    let title = escape::toml(&format!("{}: inlining by hand, LTO, order and -O levels", experiment.program));
    let _ = write!(
        text,
        "sediment-eval = 1\nname = {title}\n\n[build]\ncommand = {}\n",
        escape::toml(experiment.build)
    );
    for (name, flags) in VARIANTS {
        if chosen.is_empty() && flags.contains("INLINE_BY_HAND") {
            continue;
        }
        let _ =
            write!(text, "\n[[variant]]\nname = {}\nflags = {}\n", escape::toml(name), escape::toml(flags));
    }
    let _ = write!(text, "\n[[workload]]\nname = \"run\"\ncommand = {}\n", escape::toml(experiment.run));
    text
}
