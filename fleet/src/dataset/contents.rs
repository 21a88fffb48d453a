// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Contents`]: the rows of a submission, with its own numbers for functions, details and build-ids. It does not depend on a dataset, so other threads
//! than the writer's can make it, and the intake's log stores it.

use super::dictionary::{Words, spell};
use crate::errors::damaged;
use crate::submission::Submission;
use prost::Message as _;
use sediment_core::Result;
use sediment_core::profile::Profile;
use sediment_core::profile::rows::{ProfileRow, RowKind};
use std::collections::HashMap;

/// What a submission says about itself: the row of the table of submissions, without origin.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct SubmissionHead {
    #[prost(string, tag = "1")]
    pub(crate) package: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) arch: String,
    /// Recorders.
    #[prost(string, tag = "4")]
    pub(super) source: String,
    /// Total of its shares.
    #[prost(int64, tag = "5")]
    pub(super) total: i64,
    /// Number of recordings.
    #[prost(int64, tag = "6")]
    pub(super) inputs: i64,
    /// Sums of calls, affinities, samples and counts of blocks.
    #[prost(int64, repeated, tag = "7")]
    pub(super) sums: Vec<i64>,
    /// Unit of its block counts, if it has any.
    #[prost(string, optional, tag = "8")]
    pub(super) block_unit: Option<String>,
    /// Builds of libraries that have functions without names (addresses only), as a JSON object; `None` without such functions.
    #[prost(string, optional, tag = "9")]
    pub(super) nameless: Option<String>,
}

/// A submission for a writer. The rows are columns of equal length; a number is 0 if a row does not have it, else one more than the value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Contents {
    #[prost(message, required, tag = "1")]
    pub(crate) head: SubmissionHead,
    /// Functions, in the spelling of [`spell`].
    #[prost(string, repeated, tag = "10")]
    pub(super) functions: Vec<String>,
    /// Details of subjects.
    #[prost(string, repeated, tag = "11")]
    pub(super) details: Vec<String>,
    /// Build-ids of libraries.
    #[prost(string, repeated, tag = "12")]
    pub(super) build_ids: Vec<String>,
    /// Positions in [`RowKind::ALL`].
    #[prost(bytes = "vec", tag = "13")]
    kind: Vec<u8>,
    /// The function, or the caller, and the callee.
    #[prost(uint32, repeated, tag = "14")]
    function: Vec<u32>,
    #[prost(uint32, repeated, tag = "15")]
    callee: Vec<u32>,
    #[prost(uint32, repeated, tag = "16")]
    detail: Vec<u32>,
    /// Shares, or numbers of recordings.
    #[prost(uint64, repeated, tag = "17")]
    weight: Vec<u64>,
    /// Ranks of first use.
    #[prost(uint64, repeated, tag = "18")]
    first: Vec<u64>,
    /// Build-ids of the DSOs of functions.
    #[prost(uint32, repeated, tag = "19")]
    build_id: Vec<u32>,
}

/// A row. Functions, detail and build-id are positions in the lists of the submission.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentsRow {
    pub(super) kind: RowKind,
    pub(super) function: Option<u32>,
    pub(super) callee: Option<u32>,
    pub(super) detail: Option<u32>,
    pub(super) weight: Option<i64>,
    pub(super) first: Option<i64>,
    pub(super) build_id: Option<u32>,
}

impl Contents {
    /// Takes the rows of a submission.
    pub fn new(submission: Submission) -> Self {
        let Submission { profile, rows, package, version, sums, .. } = submission;
        let joined = |words: &mut dyn Iterator<Item = &String>| {
            words.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        let row_of = |kind| rows.iter().find(|row| row.kind == kind);
        let number_of = |kind| row_of(kind).and_then(|row| row.weight).unwrap_or(0) as i64;
        // Each function has a row, in the order of their indexes.
        let functions = rows.iter().filter(|row| row.kind == RowKind::Function);
        let keys = || functions.clone().filter_map(|row| Some(profile.key(row.function?)));
        let mut build_ids = Words::default();
        let builds =
            profile.dsos().iter().filter_map(|(label, facts)| Some((label, facts.build_id.as_ref()?)));
        let builds: HashMap<&str, u32> =
            builds.map(|(label, id)| (label.as_str(), build_ids.number(id))).collect();
        let of_functions: Vec<Option<u32>> =
            keys().map(|key| builds.get(key.dso.as_deref()?).copied()).collect();
        let head = SubmissionHead {
            package,
            version,
            arch: joined(&mut profile.arch.iter()),
            source: joined(&mut profile.source.iter()),
            total: number_of(RowKind::Total),
            inputs: number_of(RowKind::Inputs),
            // Cannot overflow: numbers of a submission are below LARGEST_NUMBER.
            sums: [sums.calls, sums.near, sums.samples, sums.blocks].map(|sum| sum as i64).to_vec(),
            block_unit: row_of(RowKind::BlocksTotal).map(|row| row.detail.clone()),
            nameless: nameless(&profile),
        };
        let functions = keys().map(spell).collect();
        let mut contents = Self {
            head,
            functions,
            build_ids: build_ids.iter().map(str::to_owned).collect(),
            ..Self::default()
        };
        // Both would take much memory together.
        drop(profile);
        let mut details = Words::default();
        for ProfileRow { kind, function, callee, detail, weight, first } in rows {
            let detail = (!detail.is_empty()).then(|| details.number(&detail));
            let [function, callee] = [function, callee].map(|index| Some(index?.index() as u32));
            contents.kind.push(RowKind::ALL.iter().position(|(known, _)| *known == kind).unwrap_or(0) as u8);
            contents.function.push(function.map_or(0, |at| at + 1));
            contents.callee.push(callee.map_or(0, |at| at + 1));
            contents.detail.push(detail.map_or(0, |at| at + 1));
            contents.weight.push(weight.map_or(0, |weight| weight as u64 + 1));
            contents.first.push(first.map_or(0, |first| first + 1));
            let build_id = function.and_then(|at| of_functions.get(at as usize).copied().flatten());
            contents.build_id.push(build_id.map_or(0, |at| at + 1));
        }
        contents.details = details.iter().map(str::to_owned).collect();
        contents
    }

    /// The contents from bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let contents =
            Self::decode(bytes).map_err(|error| damaged(format!("not the rows of a submission: {error}")))?;
        let Self { kind, function, callee, detail, weight, first, build_id, .. } = &contents;
        let lengths = [function.len(), callee.len(), detail.len(), weight.len(), first.len(), build_id.len()];
        if lengths.iter().any(|length| *length != kind.len()) {
            return Err(damaged("not the rows of a submission: columns of different lengths"));
        }
        Ok(contents)
    }

    pub(super) fn len(&self) -> usize {
        self.kind.len()
    }

    /// The rows; `None` for a row of an unknown kind.
    pub(super) fn rows(&self) -> impl Iterator<Item = Option<ContentsRow>> {
        let small = |column: &[u32], at: usize| column.get(at)?.checked_sub(1);
        let large = |column: &[u64], at: usize| column.get(at)?.checked_sub(1).map(|number| number as i64);
        (0..self.len()).map(move |at| {
            let (kind, _) = RowKind::ALL.get(usize::from(*self.kind.get(at)?))?;
            Some(ContentsRow {
                kind: *kind,
                function: small(&self.function, at),
                callee: small(&self.callee, at),
                detail: small(&self.detail, at),
                weight: large(&self.weight, at),
                first: large(&self.first, at),
                build_id: small(&self.build_id, at),
            })
        })
    }
}

/// Builds of libraries that have functions without names, by label.
fn nameless(profile: &Profile) -> Option<String> {
    let unresolved = profile.dsos().iter().filter(|(_, facts)| facts.unresolved);
    let builds: serde_json::Map<String, serde_json::Value> = unresolved
        .map(|(label, facts)| (label.clone(), facts.build_id.clone().unwrap_or_default().into()))
        .collect();
    (!builds.is_empty()).then(|| serde_json::Value::Object(builds).to_string())
}
