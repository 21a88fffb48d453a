// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment that tests advice: a plan for `sediment eval`, to be completed by hand.

use super::inline::{Advice, InlineCandidate};
use sediment_core::escape;
use std::fmt::Write;

/// Inputs of an evaluation plan in addition to the advice.
#[derive(Debug, Clone, Copy)]
pub struct AdviceExperiment<'a> {
    /// Base name of the program.
    pub program: &'a str,
    /// Shell command that builds it: `{flags}` in it represents compiler and linker flags, `{output}` the output file.
    pub build: &'a str,
    /// Shell command to measure; `{program}` in it represents the program.
    pub run: &'a str,
    /// Number of candidates that are to be inlined by hand.
    pub inlined: usize,
}

/// Flags of each variant. The order is for GNU ld's ordering file; other linkers need other flags.
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

/// Returns the plan in TOML, with the necessary changes as comments.
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
        text.push_str("# To do first, each change under `#ifdef INLINE_BY_HAND`:\n");
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
