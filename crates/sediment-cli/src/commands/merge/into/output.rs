// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `merge --into`.

use super::MergeReport;
use crate::output::{Schema, SkippedItems};
use crate::ui::Ui;
use sediment_core::profile::submissions::BuildCoverage;
use serde::Serialize;
use std::borrow::Cow;

/// Output of `merge --into FILE --json`: what submissions add to the profile of a package.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MergeIntoOutput<'a> {
    schema: Schema<1>,
    /// The profile's file.
    output: Cow<'a, str>,
    /// False with `--dry-run`.
    written: bool,
    /// The profile before the merge; null if it is new.
    kept: Option<KeptProfile>,
    added: Vec<AddedFile<'a>>,
    /// Files below `--min-coverage`.
    files_skipped: Vec<SkippedFile>,
    /// Agreement between two halves of the files, each with every other file; null for fewer than two files.
    halves_agreement_percent: Option<f64>,
    /// Recordings of the new profile.
    recordings: u64,
    /// Functions of the new profile.
    functions: usize,
    /// Edges of the new profile.
    edges: usize,
    /// Coverage of the new profile; null without `--against`.
    coverage: Option<CoverageOutput>,
    skipped: Vec<SkippedItems>,
}

/// The profile before the merge.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KeptProfile {
    /// Its share of the new profile.
    percent: f64,
    recordings: u64,
    functions: usize,
}

/// A submitted file in the new profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AddedFile<'a> {
    file: Cow<'a, str>,
    submitter: Option<&'a str>,
    /// Its share of the new profile.
    percent: f64,
    /// Weight, a decimal number.
    weight: String,
    /// True if `--cap` lowered the weight.
    capped: bool,
    /// Functions in no other file.
    new_functions: usize,
    /// Their share of the new profile's calls.
    new_percent: f64,
    /// Agreement with all other files; null if there are none.
    agreement_percent: Option<f64>,
    /// Null without `--against`.
    coverage: Option<CoverageOutput>,
}

/// A submitted file below the threshold.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SkippedFile {
    pub(super) file: String,
    pub(super) coverage: Option<CoverageOutput>,
}

/// Share of a profile that belongs to a build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CoverageOutput {
    /// Weight that belongs to the build's files.
    belongs_percent: f64,
    /// Share of that weight in functions that the build defines; null if no weight belongs to the build.
    defined_percent: Option<f64>,
}

impl CoverageOutput {
    pub(super) fn new(coverage: BuildCoverage) -> Self {
        Self { belongs_percent: percent(coverage.belongs), defined_percent: coverage.there.map(percent) }
    }
}

impl<'a> MergeIntoOutput<'a> {
    pub(super) fn new(
        answer: &MergeReport<'a>,
        files_skipped: Vec<SkippedFile>,
        is_dry: bool,
        ui: &Ui,
    ) -> Self {
        let MergeReport { path, kept, grown, sent, build } = answer;
        let added = sent.iter().zip(&grown.added).map(|(sent, added)| AddedFile {
            file: sent.path.to_string_lossy(),
            submitter: sent.who.as_deref(),
            percent: percent(added.part),
            weight: added.weight.to_string(),
            capped: added.capped,
            new_functions: added.new_functions,
            new_percent: percent(added.new_share),
            agreement_percent: added.agreement.map(percent),
            coverage: sent.coverage.map(CoverageOutput::new),
        });
        let kept = kept.map(|kept| KeptProfile {
            percent: percent(grown.kept),
            recordings: kept.inputs.unwrap_or(1),
            functions: kept.function_count(),
        });
        Self {
            schema: Schema,
            output: path.to_string_lossy(),
            written: !is_dry,
            kept,
            added: added.collect(),
            files_skipped,
            halves_agreement_percent: grown.halves.map(percent),
            recordings: grown.profile.inputs.unwrap_or(1),
            functions: grown.profile.function_count(),
            edges: grown.profile.edge_count(),
            coverage: build.coverage(&grown.profile).map(CoverageOutput::new),
            skipped: ui.skipped_items(),
        }
    }
}

/// Converts parts per million to per cent.
fn percent(parts_per_million: u64) -> f64 {
    parts_per_million as f64 / 10_000.0
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<MergeIntoOutput<'_>>("merge-into");
}
