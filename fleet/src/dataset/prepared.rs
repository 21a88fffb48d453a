// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Prepared`]: a submission whose rows contain numbers instead of names, if the dataset knows the names.

use super::dictionary::Dictionary;
use crate::submission::{Submission, Sums};
use sediment_core::profile::rows::{ProfileRow, RowKind};
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};

/// Contents of a submission for a writer. Threads other than the writer's can prepare it.
#[derive(Debug)]
pub struct Prepared {
    /// Name of the package.
    pub(super) package: String,
    /// Its version.
    pub(super) version: String,
    /// Architectures.
    pub(super) arch: String,
    /// Recorders.
    pub(super) source: String,
    /// Number of functions.
    pub(super) functions: usize,
    /// Total of its shares.
    pub(super) total: i64,
    /// Number of recordings.
    pub(super) inputs: i64,
    /// Sums of the counted events.
    pub(super) sums: Sums,
    /// Unit of its block counts, if it has any.
    pub(super) block_unit: Option<String>,
    /// Builds of libraries that have functions without names (addresses only), as a JSON object; `None` without such functions.
    pub(super) nameless: Option<String>,
    /// Mark of the dictionary when the subjects were looked up.
    pub(super) epoch: usize,
    /// Its rows.
    pub(super) facts: Vec<Fact>,
    /// Build-ids, by the numbers in its rows.
    pub(super) build_ids: Vec<String>,
}

/// A row.
#[derive(Debug)]
pub(super) struct Fact {
    /// Its subject.
    subject: FactSubject,
    /// Shares, or a number of recordings.
    pub(super) weight: Option<i64>,
    /// Rank of first use.
    pub(super) first: Option<i64>,
    /// Build-id of the DSO of its function.
    pub(super) build_id: Option<usize>,
    /// True for counts inside functions.
    pub(super) is_of_blocks: bool,
}

/// A subject: its number, or its parts if the dataset did not know it when it was looked up.
#[derive(Debug)]
enum FactSubject {
    Known(i32),
    New { kind: RowKind, function: Option<FunctionKey>, callee: Option<FunctionKey>, detail: String },
}

impl Fact {
    /// The number of its subject; assigns one if it has none. The subject was looked up at a mark.
    pub(super) fn subject(&self, dictionary: &mut Dictionary, epoch: usize) -> i32 {
        match &self.subject {
            FactSubject::Known(number) => dictionary.number_now(*number, epoch),
            FactSubject::New { kind, function, callee, detail } => {
                dictionary.number(*kind, function.as_ref(), callee.as_ref(), detail)
            }
        }
    }
}

impl Prepared {
    /// Looks up the subjects of a submission.
    #[must_use]
    pub fn new(submission: Submission, dictionary: &Dictionary) -> Self {
        let Submission { profile, rows, package, version, sums, .. } = submission;
        let subjects = dictionary.find(&profile, &rows);
        let mut build_ids = BuildIds { profile: &profile, last: None, all: Vec::new() };
        let key = |index: Option<FunctionIndex>| Some(profile.key(index?).clone());
        let subject = |row: &ProfileRow| FactSubject::New {
            kind: row.kind,
            function: key(row.function),
            callee: key(row.callee),
            detail: row.detail.clone(),
        };
        let fact = |(row, known): (&ProfileRow, Option<i32>)| Fact {
            subject: known.map_or_else(|| subject(row), FactSubject::Known),
            // Cannot fail: numbers of a submission are below LARGEST_NUMBER.
            weight: row.weight.map(|weight| weight as i64),
            first: row.first.map(|first| first as i64),
            build_id: build_ids.of(row),
            is_of_blocks: row.kind.is_of_blocks(),
        };
        let facts: Vec<Fact> = rows.iter().zip(subjects).map(fact).collect();
        let build_ids = build_ids.all;
        let of =
            |kind| rows.iter().find(|row| row.kind == kind).and_then(|row| row.weight).unwrap_or(0) as i64;
        let joined = |words: &mut dyn Iterator<Item = &String>| {
            words.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        Self {
            package,
            version,
            arch: joined(&mut profile.arch.iter()),
            source: joined(&mut profile.source.iter()),
            functions: profile.function_count(),
            total: of(RowKind::Total),
            inputs: of(RowKind::Inputs),
            sums,
            block_unit: rows
                .iter()
                .find(|row| row.kind == RowKind::BlocksTotal)
                .map(|row| row.detail.clone()),
            nameless: nameless(&profile),
            epoch: dictionary.epoch(),
            facts,
            build_ids,
        }
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

/// Build-ids of the DSOs of the rows' functions.
struct BuildIds<'p> {
    profile: &'p Profile,
    /// The last label, with the number of its build-id.
    last: Option<(&'p str, Option<usize>)>,
    all: Vec<String>,
}

impl BuildIds<'_> {
    fn of(&mut self, row: &ProfileRow) -> Option<usize> {
        let dso = self.profile.key(row.function?).dso.as_deref()?;
        match self.last {
            Some((label, id)) if label == dso => id,
            _ => {
                let id = self.profile.dsos().get(dso).and_then(|facts| facts.build_id.as_ref());
                let number = id.map(|id| {
                    self.all.iter().position(|known| known == id).unwrap_or_else(|| {
                        self.all.push(id.clone());
                        self.all.len() - 1
                    })
                });
                self.last = Some((dso, number));
                number
            }
        }
    }
}
