// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `advise`.

use crate::output::{Digits, FunctionOutput, Schema};
use sediment_core::binary::source_lines::SourceLine;
use sediment_order::advise::inline::{Advice, InlineCandidate};
use serde::Serialize;

/// Output of `advise inline --json`: calls to inline by hand.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AdviseOutput<'a> {
    schema: Schema<1>,
    /// Instructions of the whole run; null if the profile does not count them.
    instructions: Option<Digits>,
    /// Calls worth inlining, largest savings first.
    candidates: Vec<CandidateOutput<'a>>,
    /// Savings of the first candidate, of the first two, and so on: shares of all instructions, or of all calls if instructions are not counted.
    cumulative: Vec<f64>,
    /// Calls that are not worth it or cannot be inlined, heaviest first.
    left_out: Vec<CandidateOutput<'a>>,
}

/// A call, and the largest effect of inlining it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CandidateOutput<'a> {
    caller: FunctionOutput<'a>,
    callee: FunctionOutput<'a>,
    /// Number of calls.
    calls: Digits,
    /// Share of all calls, 0 to 1.
    share_of_calls: f64,
    /// Share of the callee's calls, 0 to 1.
    share_of_callee: f64,
    /// Bytes of the callee; 0 if unknown.
    size: u64,
    /// Calls of the callee in the caller's code; null if the code cannot be read.
    sites: Option<usize>,
    /// Definition of the callee; null without debug information.
    definition: Option<LineOutput<'a>>,
    /// Lines of the calls.
    lines: Vec<LineOutput<'a>>,
    /// Instructions of the call itself.
    instructions_per_call: u32,
    /// Share of all instructions, 0 to 1; null if the profile does not count them.
    largest_saving: Option<f64>,
    /// Growth of the code in bytes.
    largest_growth: i64,
    /// Obstacles to inlining, as text for people.
    obstacles: Vec<&'a str>,
    /// Change to make, as text for people.
    change: &'a str,
    /// Message of the compiler about why it did not inline; null without `--compiler-notes`.
    compiler_reason: Option<&'a str>,
}

/// A source line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LineOutput<'a> {
    /// Base name of the file.
    file: &'a str,
    /// Line, from 1.
    line: u32,
}

impl<'a> AdviseOutput<'a> {
    pub(super) fn new(advice: &'a Advice, top: usize) -> Self {
        Self {
            schema: Schema,
            instructions: advice.instructions.map(Digits),
            candidates: advice.candidates.iter().take(top).map(CandidateOutput::new).collect(),
            cumulative: advice.cumulative(),
            left_out: advice.others.iter().take(top).map(CandidateOutput::new).collect(),
        }
    }
}

impl<'a> CandidateOutput<'a> {
    fn new(candidate: &'a InlineCandidate) -> Self {
        let line = |line: &'a SourceLine| LineOutput { file: &line.file, line: line.line };
        Self {
            caller: FunctionOutput::new(&candidate.caller),
            callee: FunctionOutput::new(&candidate.callee),
            calls: Digits(candidate.calls),
            share_of_calls: candidate.share,
            share_of_callee: candidate.share_of_callee,
            size: candidate.size,
            sites: candidate.sites,
            definition: candidate.definition.as_ref().map(line),
            lines: candidate.lines.iter().map(line).collect(),
            instructions_per_call: candidate.instructions_per_call,
            largest_saving: candidate.saving,
            largest_growth: candidate.growth,
            obstacles: candidate.obstacles.iter().map(|obstacle| obstacle.words()).collect(),
            change: &candidate.change,
            compiler_reason: candidate.compiler_reason.as_deref(),
        }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<AdviseOutput<'_>>("advise");
}
