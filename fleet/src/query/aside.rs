// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LeftOutData`]: data that does not fit the rest of a selection. It is left out of a merge, so that it does not prevent the merge.
//!
//! Functions without names are addresses, which are valid only in one build. Block counts are executions or samples. For each library, the build that
//! most submitters have is kept; for blocks, the unit that most submitters have. Other data is left out, and reported.

use crate::dataset::Dataset;
use crate::dataset::submissions::{KeptSubmission, Submissions};
use crate::dataset::tables::{only, subjects_schema, text_at};
use datafusion::arrow::array::RecordBatch;
use sediment_core::Result;
use sediment_core::profile::address_of_nameless;
use sediment_core::profile::rows::RowKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bit for blocks in another unit.
const BLOCKS: u32 = 1;
/// Number of libraries with a separate bit. Functions without names in further libraries are all left out.
const LABELS: usize = 30;
const OTHERS: u32 = 1 << 31;

/// Data of a selection that is left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOutData {
    /// The unit of blocks that is kept, if there are several.
    unit: Option<String>,
    /// The builds that are kept, for libraries with several.
    builds: BTreeMap<String, String>,
    /// Builds of libraries that have functions without names, by their number in the submissions.
    nameless: HashMap<u32, BTreeMap<String, String>>,
    /// Number of submissions whose blocks are left out.
    of_blocks: u64,
    /// Number of submissions whose functions without names are left out.
    of_nameless: u64,
}

impl LeftOutData {
    /// Chooses the unit and the builds that are kept.
    pub(crate) fn of(submissions: &Submissions) -> Self {
        let mut units: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
        let mut nameless: HashMap<u32, (BTreeMap<String, String>, BTreeSet<i32>)> = HashMap::new();
        for one in &submissions.rows {
            if let Some(unit) = one.block_unit {
                units.entry(submissions.text(unit)).or_default().insert(one.submitter);
            }
            if let Some(number) = one.nameless {
                // Only this program writes the text; other text has no builds.
                let parse = || serde_json::from_str(submissions.text(number)).unwrap_or_default();
                nameless.entry(number).or_insert_with(|| (parse(), BTreeSet::new())).1.insert(one.submitter);
            }
        }
        let mut builds: BTreeMap<&str, BTreeMap<&str, BTreeSet<i32>>> = BTreeMap::new();
        for (own, submitters) in nameless.values() {
            for (label, build) in own {
                builds.entry(label).or_default().entry(build).or_default().extend(submitters);
            }
        }
        let several = builds.iter().filter(|(_, of_label)| of_label.len() > 1);
        Self {
            unit: (units.len() > 1).then(|| most(&units)).flatten(),
            builds: several
                .filter_map(|(label, of_label)| Some(((*label).to_owned(), most(of_label)?)))
                .collect(),
            nameless: nameless.into_iter().map(|(number, (own, _))| (number, own)).collect(),
            ..Self::default()
        }
    }

    /// True if everything fits.
    pub(crate) fn is_nothing(&self) -> bool {
        self.unit.is_none() && self.builds.is_empty()
    }

    /// Bits of a submission's data that is left out. Counts the submission.
    pub(crate) fn meet(&mut self, submissions: &Submissions, one: &KeptSubmission) -> u32 {
        let unit = one.block_unit.map(|unit| submissions.text(unit));
        let other_unit = unit.is_some() && self.unit.is_some() && unit != self.unit.as_deref();
        let own = one.nameless.and_then(|number| self.nameless.get(&number));
        let labels = self.builds.iter().enumerate().filter(|(at, (label, build))| {
            own.and_then(|own| own.get(*label)).is_some_and(|own| own != *build || *at >= LABELS)
        });
        let nameless = labels.fold(0, |bits, (at, _)| bits | bit_of_label(at));
        self.of_blocks += u64::from(other_unit);
        self.of_nameless += u64::from(nameless != 0);
        nameless | if other_unit { BLOCKS } else { 0 }
    }

    /// Bits of each subject: it is left out of submissions that have one of these bits.
    pub(crate) async fn of_subjects(&self, dataset: &Dataset) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        if self.is_nothing() {
            return Ok(bits);
        }
        let labels: BTreeMap<&str, u32> =
            self.builds.keys().enumerate().map(|(at, label)| (label.as_str(), bit_of_label(at))).collect();
        let schema = only(&subjects_schema(), &["kind", "dso", "name", "callee_dso", "callee_name"]);
        let read = |batch: RecordBatch| {
            let text = |column, row| text_at(&batch, column, row);
            let of_function = |dso, row| {
                let nameless = text(dso + 1, row).filter(|name| address_of_nameless(name).is_some());
                nameless.and_then(|_| labels.get(text(dso, row)?)).copied().unwrap_or(0)
            };
            bits.extend((0..batch.num_rows()).map(|row| {
                let is_of_blocks = text(0, row).and_then(RowKind::parse).is_some_and(RowKind::is_of_blocks);
                (if is_of_blocks { BLOCKS } else { 0 }) | of_function(1, row) | of_function(3, row)
            }));
            Ok(())
        };
        dataset.each_subject(&schema, None, read).await?;
        Ok(bits)
    }

    /// False for a merge's claim about a library with several builds, because the claim belongs to a build that is left out.
    pub(crate) fn keeps_library(&self, kind: RowKind, detail: &str) -> bool {
        if kind != RowKind::Library || self.builds.is_empty() {
            return true;
        }
        let label = detail.rsplit('\t').next().unwrap_or_default();
        let id = detail.split(' ').next().and_then(|first| first.strip_prefix("build_id="));
        self.builds.get(label).is_none_or(|build| build == id.unwrap_or_default())
    }

    /// Lines that report the left-out data.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(unit), true) = (&self.unit, self.of_blocks > 0) {
            lines.push(format!(
                "counts of blocks of {} submissions: most submissions count {unit}",
                self.of_blocks
            ));
        }
        if self.of_nameless > 0 {
            let labels: Vec<&str> = self.builds.keys().map(String::as_str).collect();
            lines.push(format!(
                "functions without names of {} submissions: addresses in other builds of {}",
                self.of_nameless,
                labels.join(", ")
            ));
        }
        lines
    }
}

fn bit_of_label(at: usize) -> u32 {
    if at < LABELS { 2 << at } else { OTHERS }
}

/// Value that most submitters have; if several have equally many, the first.
fn most(counts: &BTreeMap<&str, BTreeSet<i32>>) -> Option<String> {
    let most = counts.iter().max_by_key(|(name, who)| (who.len(), std::cmp::Reverse(**name)));
    most.map(|(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_most_submitters_stays() {
        let mut all = Submissions::default();
        // One stranger counts once, no matter how often it sends.
        for (submitter, unit, build) in [
            (1, "executions", "aa"),
            (2, "executions", "aa"),
            (3, "samples", "bb"),
            (3, "samples", "bb"),
            (3, "samples", "bb"),
            (4, "", ""),
        ] {
            let mut number = |text: String, is_some: bool| is_some.then(|| all.words.number(&text));
            let block_unit = number(unit.to_owned(), !unit.is_empty());
            let nameless = number(format!("{{\"gzip\":\"{build}\"}}"), !build.is_empty());
            all.rows.push(KeptSubmission { submitter, block_unit, nameless, ..KeptSubmission::default() });
        }
        let mut aside = LeftOutData::of(&all);
        let bits: Vec<u32> = all.rows.iter().map(|one| aside.meet(&all, one)).collect();
        assert_eq!(bits, [0, 0, 3, 3, 3, 0]);
        assert_eq!((aside.of_blocks, aside.of_nameless, aside.told().len()), (3, 3, 2));
        assert!(aside.keeps_library(RowKind::Library, "build_id=aa unresolved=1 package=\tgzip"));
        assert!(!aside.keeps_library(RowKind::Library, "build_id=bb unresolved=1 package=\tgzip"));
        assert!(aside.keeps_library(RowKind::Library, "build_id=bb package=\tother"));
        all.rows.truncate(2);
        assert!(LeftOutData::of(&all).is_nothing());
    }
}
