// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `show`: for a profile, for its calls between DSOs, and for a folder.

use super::ProfileSummary;
use super::cross_dso::CrossCalls;
use crate::output::{Digits, FunctionOutput, Schema};
use sediment_core::profile::source::Unknown;
use sediment_core::profile::{WeightUnit, knowledge};
use serde::Serialize;
use std::collections::BTreeSet;

/// Output of `show PROFILE --json`: figures of a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ShowOutput<'a> {
    schema: Schema<1>,
    /// Recorders, each with the data that it lacks.
    source: &'a BTreeSet<String>,
    /// Unit of the counts: calls of one recording, or shares in units of 10^-15.
    #[serde(with = "UnitOutput")]
    unit: WeightUnit,
    /// All calls.
    total: Digits,
    /// Machine architectures.
    arch: &'a BTreeSet<String>,
    /// Number of recordings.
    inputs: u64,
    /// Data that the profile lacks.
    not_known: Vec<Gap>,
    /// Interpreter that most of the profile belongs to; null without one.
    interpreter: Option<InterpreterOutput>,
    functions: usize,
    functions_with_blocks: usize,
    functions_with_counters: usize,
    functions_without_names: usize,
    edges: usize,
    calls_between_named_functions: Digits,
    /// Programs and libraries, by label.
    dsos: Vec<DsoOutput<'a>>,
    /// Most frequent calls.
    top_calls: Vec<TopCall<'a>>,
    /// Most called functions.
    top_functions: Vec<TopFunction<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(remote = "WeightUnit", rename_all = "lowercase")]
enum UnitOutput {
    Calls,
    Share,
}

/// Data that a source lacks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Gap {
    /// The source; null for data that the whole profile lacks.
    source: Option<String>,
    /// The data, as text for people.
    what: Vec<String>,
    /// The data, as codes for programs.
    codes: Vec<String>,
}

/// An interpreter or emulator.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InterpreterOutput {
    /// Label of the program or library with the most weight.
    dso: String,
    /// Language, or `emulated`.
    runs: &'static str,
    /// Weight in the interpreter.
    weight: Digits,
    /// Weight of the whole profile.
    of: Digits,
}

/// A program or library.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DsoOutput<'a> {
    /// Null for functions without a program or library.
    label: Option<&'a str>,
    build_id: Option<&'a str>,
    package: Option<&'a str>,
    functions: u64,
    /// Calls into its functions.
    calls_in: Digits,
}

/// Calls between two functions.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TopCall<'a> {
    caller: FunctionOutput<'a>,
    callee: FunctionOutput<'a>,
    count: Digits,
}

/// Calls into a function.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TopFunction<'a> {
    function: FunctionOutput<'a>,
    calls_in: Digits,
}

impl<'a> ShowOutput<'a> {
    pub(super) fn new(summary: &ProfileSummary<'a>) -> Self {
        let ProfileSummary { profile, calls, dsos, top_calls, top_functions, inside } = summary;
        let function = |index| FunctionOutput::new(profile.key(index));
        let gaps = knowledge::not_known(profile).into_iter().map(|gap| Gap {
            source: gap.source,
            what: gap.what.iter().map(Unknown::to_string).collect(),
            codes: gap.what.iter().map(|unknown| unknown.code()).collect(),
        });
        let interpreter = knowledge::interpreter(profile).map(|found| InterpreterOutput {
            dso: found.label,
            runs: found.runs,
            weight: Digits(found.weight.0),
            of: Digits(found.weight.1),
        });
        let dsos = dsos.iter().map(|(label, dso)| {
            let facts = label.and_then(|label| profile.dsos().get(label));
            DsoOutput {
                label: *label,
                build_id: facts.and_then(|facts| facts.build_id.as_deref()),
                package: facts.and_then(|facts| facts.package.as_deref()),
                functions: dso.functions,
                calls_in: Digits(dso.calls_in),
            }
        });
        let top_calls = top_calls.iter().map(|(caller, callee, count)| TopCall {
            caller: function(*caller),
            callee: function(*callee),
            count: Digits(*count),
        });
        let top_functions = top_functions
            .iter()
            .map(|(index, count)| TopFunction { function: function(*index), calls_in: Digits(*count) });
        Self {
            schema: Schema,
            source: &profile.source,
            unit: profile.unit,
            total: Digits(profile.total),
            arch: &profile.arch,
            inputs: profile.inputs.unwrap_or(1),
            not_known: gaps.collect(),
            interpreter,
            functions: profile.function_count(),
            functions_with_blocks: inside.with_blocks,
            functions_with_counters: inside.with_counters,
            functions_without_names: inside.nameless,
            edges: profile.edge_count(),
            calls_between_named_functions: Digits(*calls),
            dsos: dsos.collect(),
            top_calls: top_calls.collect(),
            top_functions: top_functions.collect(),
        }
    }
}

/// Output of `show PROFILE --cross-dso --json`: calls between programs and libraries.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CrossDsoOutput<'a> {
    schema: Schema<1>,
    /// Calls whose caller and callee both have a known program or library.
    calls: Digits,
    /// Calls between different ones.
    crossing: Digits,
    /// Pairs of programs and libraries, most calls first.
    pairs: Vec<DsoPair<'a>>,
    /// Most frequent calls.
    top: Vec<CrossCall<'a>>,
}

/// Calls from one program or library to another.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DsoPair<'a> {
    from: &'a str,
    to: &'a str,
    count: Digits,
}

/// Calls from a function to a function in another program or library.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CrossCall<'a> {
    from: FunctionOutput<'a>,
    to: FunctionOutput<'a>,
    count: Digits,
}

impl<'a> CrossDsoOutput<'a> {
    pub(super) fn new(found: &CrossCalls<'a>) -> Self {
        let function = |index| FunctionOutput::new(found.profile.key(index));
        let pairs = found.pairs.iter().map(|((from, to), count)| DsoPair { from, to, count: Digits(*count) });
        let top = found.calls.iter().map(|(caller, callee, count)| CrossCall {
            from: function(*caller),
            to: function(*callee),
            count: Digits(*count),
        });
        Self {
            schema: Schema,
            calls: Digits(found.total),
            crossing: Digits(found.crossing()),
            pairs: pairs.collect(),
            top: top.collect(),
        }
    }
}

/// Output of `show DIR --json`: the profiles of a folder.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ShowDirOutput<'a> {
    pub(super) schema: Schema<1>,
    pub(super) profiles: Vec<ProfileFile>,
    /// Programs with a profile in several files.
    pub(super) in_several_files: Vec<RepeatedPrograms<'a>>,
}

/// A file of a folder.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ProfileFile {
    pub(super) file: String,
    /// Only for files that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) functions: Option<usize>,
    /// Only for files that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) edges: Option<usize>,
    /// Reason why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
}

/// Programs with a profile in two files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RepeatedPrograms<'a> {
    /// File that is used.
    pub(super) counts: String,
    /// File that is ignored.
    pub(super) other: String,
    pub(super) programs: &'a [&'a str],
}

#[cfg(test)]
#[test]
fn outputs_are_documented() {
    support::documented_schema::<ShowOutput<'_>>("show");
    support::documented_schema::<CrossDsoOutput<'_>>("show-cross-dso");
    support::documented_schema::<ShowDirOutput<'_>>("show-dir");
}
