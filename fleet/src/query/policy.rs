// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Policy`]: which submissions count, and how much.
//!
//! The engine leaves out what a cap does not let count. All others belong to a weight class: one for each product of the weights
//! of their version and host class and of their age. The library weighs classes after the query engine has added them up.

use super::engine::Engine;
use super::sql;
use crate::dataset::manifest::Table;
use crate::dataset::{Dataset, Selection, tables};
use crate::day::Day;
use datafusion::arrow::array::{ArrayRef, AsArray as _, Int32Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Date32Type, Int32Type};
use sediment_core::profile::SHARE_TOTAL;
use sediment_core::profile::merge::Weight;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One, in the billionths of a weight.
const ONE: u128 = 1_000_000_000;

/// What counts, and how much.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Weights of versions; others have 1.
    pub versions: BTreeMap<String, Weight>,
    /// Weights of host classes; others have 1.
    pub host_classes: BTreeMap<String, Weight>,
    /// Days after which a submission counts half.
    pub half_life: Option<u32>,
    /// The day from which ages are counted; None: the newest day of the selection.
    pub until: Option<Day>,
    /// Recordings of one submitter that count at most, the newest.
    pub cap_submitter: Option<u32>,
    /// Recordings of one class of hosts that count at most, the newest.
    pub cap_host_class: Option<u32>,
    /// Submitters that must have executed a function, so that it is published.
    pub min_submitters: u32,
}

impl Policy {
    /// True if every submission counts once.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.versions.is_empty()
            && self.host_classes.is_empty()
            && self.half_life.is_none()
            && self.cap_submitter.is_none()
            && self.cap_host_class.is_none()
            && self.min_submitters <= 1
    }
}

/// The submissions that count.
#[derive(Debug)]
pub struct Counted {
    /// True if all of the selection's files count once: no query has to ask which.
    pub is_all: bool,
    /// Their number.
    pub submissions: u64,
    /// Number of those that caps exclude.
    pub capped: u64,
    /// Weights, by class.
    pub classes: Vec<Weight>,
    /// Submissions, by class.
    pub of_class: Vec<u64>,
    rows: Vec<(i32, i32)>,
}

/// What a row of submissions says of its class.
#[derive(Debug)]
struct Submission {
    number: i32,
    host_class: String,
    version: String,
    day: i32,
}

impl Counted {
    /// Finds out what counts.
    ///
    /// # Errors
    /// When nothing does, or the query engine fails.
    pub async fn of(
        dataset: &Dataset,
        engine: &Engine,
        selection: &Selection,
        policy: &Policy,
    ) -> Result<Self> {
        let files = dataset.files(Table::Submissions, selection);
        let all: u64 = files.iter().map(|file| file.rows).sum();
        if policy.is_none() && selection.arch.is_none() {
            return Ok(Self {
                is_all: true,
                submissions: all,
                capped: 0,
                classes: vec![Weight::ONE],
                of_class: vec![all],
                rows: Vec::new(),
            });
        }
        engine.table("submissions", &dataset.store, &files, &tables::submissions_schema()).await?;
        let found = submissions(engine, selection, policy).await?;
        let meant = match &selection.arch {
            Some(arch) => engine.count(&format!("submissions WHERE arch = {}", quoted(arch))).await?,
            None => all,
        };
        let newest = found.iter().map(|submission| submission.day).max();
        let newest = newest.ok_or_else(|| {
            Error::new(ErrorCode::EmptyInput, "no submission counts")
                .with_hint("select more, or raise the caps")
        })?;
        let until = policy.until.unwrap_or(Day(newest));
        let mut weights: BTreeMap<u64, i32> = BTreeMap::new();
        let (mut classes, mut of_class, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for submission in &found {
            let weight = weight(policy, submission, until)?;
            let class = *weights.entry(weight.billionths()).or_insert_with(|| {
                classes.push(weight);
                of_class.push(0u64);
                classes.len() as i32 - 1
            });
            if let Some(count) = of_class.get_mut(class as usize) {
                *count += 1;
            }
            rows.push((submission.number, class));
        }
        let submissions = rows.len() as u64;
        Ok(Self {
            is_all: false,
            submissions,
            capped: meant.saturating_sub(submissions),
            classes,
            of_class,
            rows,
        })
    }

    /// The submissions that count, with their classes, as a table.
    ///
    /// # Errors
    /// When the columns do not fit, which would be a defect.
    pub fn table(&self) -> Result<RecordBatch> {
        let columns: [(&str, ArrayRef); 2] = [
            ("submission", Arc::new(self.rows.iter().map(|(number, _)| *number).collect::<Int32Array>())),
            ("class", Arc::new(self.rows.iter().map(|(_, class)| *class).collect::<Int32Array>())),
        ];
        RecordBatch::try_from_iter(columns).map_err(|error| defect(&error))
    }

    /// Class of each submission by its number; None of those that do not count.
    #[must_use]
    pub fn by_number(&self) -> Vec<Option<i32>> {
        let most = self.rows.iter().map(|(number, _)| *number as usize + 1).max().unwrap_or(0);
        let mut classes = vec![None; most];
        for (number, class) in &self.rows {
            if let Some(place) = classes.get_mut(*number as usize) {
                *place = Some(*class);
            }
        }
        classes
    }
}

/// The submissions that caps let count.
async fn submissions(engine: &Engine, selection: &Selection, policy: &Policy) -> Result<Vec<Submission>> {
    let mut conditions = Vec::new();
    for (column, cap) in [("submitter_total", policy.cap_submitter), ("class_total", policy.cap_host_class)] {
        if let Some(cap) = cap {
            conditions.push(format!("{column} <= {}", u128::from(cap) * SHARE_TOTAL));
        }
    }
    let arch =
        selection.arch.as_ref().map(|arch| format!(" WHERE arch = {}", quoted(arch))).unwrap_or_default();
    let condition =
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let text = format!(
        "SELECT submission, host_class, version, day FROM ({}{arch}) AS capped{condition} ORDER BY submission",
        sql::CAPPED
    );
    let mut found = Vec::new();
    for batch in engine.run(&text).await? {
        let texts =
            |column: usize| cast(batch.column(column), &DataType::Utf8).map_err(|error| defect(&error));
        let (classes, versions) = (texts(1)?, texts(2)?);
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        let days = batch.column(3).as_primitive::<Date32Type>();
        for row in 0..batch.num_rows() {
            found.push(Submission {
                number: numbers.value(row),
                host_class: classes.as_string::<i32>().value(row).to_owned(),
                version: versions.as_string::<i32>().value(row).to_owned(),
                day: days.value(row),
            });
        }
    }
    Ok(found)
}

/// Weight of a submission: that of its version, its host class and its age multiplied, each product rounded down to billionths.
fn weight(policy: &Policy, submission: &Submission, until: Day) -> Result<Weight> {
    let billionths = |weight: Option<&Weight>| weight.map_or(ONE, |weight| u128::from(weight.billionths()));
    let version = billionths(policy.versions.get(&submission.version));
    let class = billionths(policy.host_classes.get(&submission.host_class));
    let age = u32::try_from(until.0.saturating_sub(submission.day)).unwrap_or(0);
    let decayed = policy.half_life.map_or(ONE, |half_life| decayed(age, half_life));
    let product = version * class / ONE * decayed / ONE;
    Weight::parse(&format!("{}.{:09}", product / ONE, product % ONE))
}

/// Weight of an age in billionths: half for each half-life, and between these on straight lines, so that integers suffice.
fn decayed(age: u32, half_life: u32) -> u128 {
    let half_life = half_life.max(1);
    let whole = ONE.checked_shr(age / half_life).unwrap_or(0);
    whole - whole / 2 * u128::from(age % half_life) / u128::from(half_life)
}

/// A text in a query.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn defect(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::Damaged, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_halve_with_age() {
        assert_eq!([0, 10, 20, 40].map(|age| decayed(age, 10)), [ONE, ONE / 2, ONE / 4, ONE / 16]);
        assert_eq!(decayed(5, 10), 750_000_000);
        assert!((0..100).all(|age| decayed(age, 7) >= decayed(age + 1, 7)));
        assert_eq!(decayed(4_000_000_000, 1), 0);
    }

    #[test]
    fn texts_in_queries_are_quoted() {
        assert_eq!(quoted("x86_64' OR 1=1"), "'x86_64'' OR 1=1'");
    }
}
