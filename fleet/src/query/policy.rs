// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Policy`]: which submissions count, and how much.
//!
//! Unless recordings count alike, all that one submitter sent of a version counts as one: the engine multiplies by the submitter's
//! [`Factors`]. It leaves out what a cap does not let count. All others belong to a weight class: one for each product of the weights
//! of their version and host class and of their age. The library weighs classes after the query engine has added them up.

use super::aside::{Aside, Said};
use super::engine::Engine;
use super::factors::{Factors, Scale};
use super::sql;
use crate::dataset::{Dataset, Selection};
use crate::day::Day;
use crate::submission::Sums;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, Decimal128Array, Int32Array, RecordBatch,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type};
use sediment_core::profile::SHARE_TOTAL;
use sediment_core::profile::merge::Weight;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One, in the billionths of a weight.
const ONE: u128 = 1_000_000_000;

/// What counts, and how much.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// True if recordings count alike, however many one submitter sent; else submitters do, each once for a version of a package.
    pub by_recordings: bool,
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
        self.by_recordings
            && self.versions.is_empty()
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
    /// Factors of the submitters of each version, where these count alike.
    pub factors: Vec<Factors>,
    /// What does not fit the rest.
    pub aside: Aside,
    rows: Vec<Row>,
}

/// A submission that counts.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its number.
    pub number: i32,
    /// Its weight class.
    pub class: i32,
    /// Its factors.
    pub group: u32,
    /// What of it is set aside: bits of [`Aside`].
    pub aside: u32,
}

/// What a row of submissions says of its class.
#[derive(Debug)]
struct Submission {
    number: i32,
    submitter: i32,
    host_class: String,
    package: String,
    version: String,
    day: i32,
    total: u128,
    sums: Sums,
    block_unit: Option<String>,
    nameless: Option<String>,
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
        engine.submissions("submissions", dataset, selection).await?;
        let all = engine.count("submissions").await?;
        let is_plain = policy.is_none() && selection.is_everything() && all > 0;
        if is_plain && Aside::of(&kinds(engine).await?).is_nothing() {
            return Ok(Self {
                is_all: true,
                submissions: all,
                capped: 0,
                classes: vec![Weight::ONE],
                of_class: vec![all],
                factors: Vec::new(),
                aside: Aside::default(),
                rows: Vec::new(),
            });
        }
        let found = submissions(engine, policy).await?;
        let newest = found.iter().map(|submission| submission.day).max();
        let newest = newest.ok_or_else(|| {
            Error::new(ErrorCode::EmptyInput, "no submission counts")
                .with_hint("select more, or raise the caps")
        })?;
        Self::of_found(policy, &found, policy.until.unwrap_or(Day(newest)), all)
    }

    fn of_found(policy: &Policy, found: &[Submission], until: Day, meant: u64) -> Result<Self> {
        let said = found.iter().map(Submission::kind).collect::<Vec<_>>();
        let mut aside = Aside::of(&said);
        let mut weights: BTreeMap<u64, i32> = BTreeMap::new();
        let (mut classes, mut of_class, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups: HashMap<(i32, &str, &str), u32> = HashMap::new();
        let mut totals: Vec<(u128, Sums)> = Vec::new();
        for (submission, kind) in found.iter().zip(&said) {
            let weight = weight(policy, submission, until)?;
            let class = *weights.entry(weight.billionths()).or_insert_with(|| {
                classes.push(weight);
                of_class.push(0u64);
                classes.len() as i32 - 1
            });
            if let Some(count) = of_class.get_mut(class as usize) {
                *count += 1;
            }
            let key = (submission.submitter, submission.package.as_str(), submission.version.as_str());
            let next = groups.len() as u32;
            let group = *groups.entry(key).or_insert(next);
            if group as usize == totals.len() {
                totals.push((0, Sums::default()));
            }
            if let Some((total, sums)) = totals.get_mut(group as usize) {
                *total += submission.total;
                sums.add(&submission.sums);
            }
            rows.push(Row { number: submission.number, class, group, aside: aside.meet(kind) });
        }
        let factors = totals.iter().map(|(total, sums)| Factors::of(*total, sums));
        let factors = if policy.by_recordings { Vec::new() } else { factors.collect() };
        let submissions = rows.len() as u64;
        let capped = meant.saturating_sub(submissions);
        Ok(Self { is_all: false, submissions, capped, classes, of_class, factors, aside, rows })
    }

    /// True if the weights of rows are multiplied by factors.
    #[must_use]
    pub fn is_by_submitter(&self) -> bool {
        !self.factors.is_empty()
    }

    /// The submissions that count, with their classes and factors, as a table.
    ///
    /// # Errors
    /// When the columns do not fit, which would be a defect.
    pub fn table(&self) -> Result<RecordBatch> {
        let ints =
            |of: fn(&Row) -> i32| -> ArrayRef { Arc::new(self.rows.iter().map(of).collect::<Int32Array>()) };
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("submission", ints(|row| row.number)),
            ("class", ints(|row| row.class)),
            ("aside", ints(|row| row.aside as i32)),
        ];
        for (scale, name) in Scale::ALL {
            let factor = |row: &Row| {
                let factors = self.factors.get(row.group as usize);
                factors.map_or(1, |factors| factors.of_scale(scale)) as i128
            };
            let factors = Decimal128Array::from_iter_values(self.rows.iter().map(factor));
            let factors = factors.with_precision_and_scale(38, 0).map_err(|error| defect(&error))?;
            columns.push((name, Arc::new(factors)));
        }
        RecordBatch::try_from_iter(columns).map_err(|error| defect(&error))
    }

    /// Submissions that count by their numbers.
    #[must_use]
    pub fn by_number(&self) -> Vec<Option<Row>> {
        let most = self.rows.iter().map(|row| row.number as usize + 1).max().unwrap_or(0);
        let mut rows = vec![None; most];
        for row in &self.rows {
            if let Some(place) = rows.get_mut(row.number as usize) {
                *place = Some(*row);
            }
        }
        rows
    }
}

/// What the submissions that are selected say of blocks and of functions without names.
async fn kinds(engine: &Engine) -> Result<Vec<Said>> {
    let mut found = Vec::new();
    for batch in engine.run(sql::KINDS).await? {
        let texts =
            |column: usize| cast(batch.column(column), &DataType::Utf8).map_err(|error| defect(&error));
        let (units, builds) = (texts(1)?, texts(2)?);
        let submitters = batch.column(0).as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            found.push(Said::new(submitters.value(row), text(&units, row), text(&builds, row)));
        }
    }
    Ok(found)
}

fn text(column: &ArrayRef, row: usize) -> Option<String> {
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row).to_owned())
}

impl Submission {
    fn kind(&self) -> Said {
        Said::new(self.submitter, self.block_unit.clone(), self.nameless.clone())
    }
}

/// The submissions that caps let count.
async fn submissions(engine: &Engine, policy: &Policy) -> Result<Vec<Submission>> {
    let mut conditions = Vec::new();
    for (column, cap) in [("submitter_total", policy.cap_submitter), ("class_total", policy.cap_host_class)] {
        if let Some(cap) = cap {
            conditions.push(format!("{column} <= {}", u128::from(cap) * SHARE_TOTAL));
        }
    }
    let condition =
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let query = format!(
        "SELECT submission, submitter, host_class, package, version, day, block_unit, nameless, total, calls, near, samples, blocks \
         FROM ({}) AS capped{condition} ORDER BY submission",
        sql::CAPPED
    );
    let mut found = Vec::new();
    for batch in engine.run(&query).await? {
        let column =
            |column: usize, to: &DataType| cast(batch.column(column), to).map_err(|error| defect(&error));
        let [classes, packages, versions, units, builds] =
            [2, 3, 4, 6, 7].map(|at| column(at, &DataType::Utf8));
        let (classes, packages, versions, units, builds) = (classes?, packages?, versions?, units?, builds?);
        let numbers = |column: usize| batch.column(column).as_primitive::<Int32Type>();
        let days = batch.column(5).as_primitive::<Date32Type>();
        let counts =
            (8..13).map(|at| column(at, &DataType::Decimal128(38, 0))).collect::<Result<Vec<ArrayRef>>>()?;
        for row in 0..batch.num_rows() {
            let count = |at: usize| {
                let column = counts.get(at).map(|column| column.as_primitive::<Decimal128Type>().value(row));
                column.and_then(|count| u128::try_from(count).ok()).unwrap_or(0)
            };
            found.push(Submission {
                number: numbers(0).value(row),
                submitter: numbers(1).value(row),
                host_class: text(&classes, row).unwrap_or_default(),
                package: text(&packages, row).unwrap_or_default(),
                version: text(&versions, row).unwrap_or_default(),
                day: days.value(row),
                total: count(0),
                sums: Sums { calls: count(1), near: count(2), samples: count(3), blocks: count(4) },
                block_unit: text(&units, row),
                nameless: text(&builds, row),
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

impl Selection {
    /// The condition of a query for its submissions; None for all.
    #[must_use]
    pub fn condition(&self) -> Option<String> {
        let mut conditions = Vec::new();
        conditions.extend(self.package.as_ref().map(|package| format!("package = {}", quoted(package))));
        if !self.versions.is_empty() {
            let versions: Vec<String> = self.versions.iter().map(|version| quoted(version)).collect();
            conditions.push(format!("version IN ({})", versions.join(", ")));
        }
        conditions.extend(self.since.map(|since| format!("day >= DATE '{since}'")));
        conditions.extend(self.before.map(|before| format!("day < DATE '{before}'")));
        conditions.extend(self.arch.as_ref().map(|arch| format!("arch = {}", quoted(arch))));
        (!conditions.is_empty()).then(|| conditions.join(" AND "))
    }
}

/// A text in a query.
pub(crate) fn quoted(text: &str) -> String {
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
