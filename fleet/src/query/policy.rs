// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Policy`]: which submissions count, and how much.
//!
//! Unless all recordings count alike, everything that one submitter sent for a version counts as one: the engine multiplies by the submitter's
//! [`Factors`]. The engine leaves out submissions that a cap excludes. Each other submission belongs to a weight class: one class for each product of the
//! weights of its version, host class and age. The query engine sums each class, and then the library multiplies the sums by the classes' weights.

use super::aside::LeftOutData;
use super::factors::{Factors, Scale};
use crate::dataset::submissions::{KeptSubmission, Submissions};
use crate::dataset::{Dataset, Selection};
use crate::day::Day;
use crate::errors::ErrorContext as _;
use crate::submission::Sums;
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int32Array};
use indexmap::IndexMap;
use sediment_core::profile::SHARE_TOTAL;
use sediment_core::profile::merge::Weight;
use sediment_core::{Error, ErrorCode, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The weight 1, in billionths.
const ONE: u128 = 1_000_000_000;

/// Which submissions count, and how much.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct Policy {
    /// Give all recordings the same weight, like `sediment merge` [default: all submitters have the same weight, once for each version]
    #[arg(long)]
    pub(crate) by_recordings: bool,
    /// Weight of a version; repeatable [default: 1]
    #[arg(long, value_name = "VERSION=WEIGHT", value_parser = weighed)]
    pub(crate) weigh_version: Vec<(String, Weight)>,
    /// Weight of a host class; repeatable [default: 1]
    #[arg(long, value_name = "CLASS=WEIGHT", value_parser = weighed)]
    pub(crate) weigh_host_class: Vec<(String, Weight)>,
    /// Halve the weight of a submission after this number of days [default: age does not matter]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) half_life: Option<u32>,
    /// Day from which ages are counted [default: the newest selected day]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) until: Option<Day>,
    /// Count at most this number of recordings of each submitter, the newest [default: all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) cap: Option<u32>,
    /// Count at most this number of recordings of each class of hosts, the newest [default: all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) cap_host_class: Option<u32>,
    /// Skip functions that fewer submitters executed
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) min_submitters: u32,
}

fn weighed(text: &str) -> std::result::Result<(String, Weight), String> {
    let (name, weight) = text.rsplit_once('=').ok_or("no `=` in it")?;
    Ok((name.to_owned(), Weight::parse(weight).map_err(|error| error.to_string())?))
}

impl Policy {
    /// True if every submission counts once.
    fn is_none(&self) -> bool {
        let counts_once = Self { by_recordings: true, until: self.until, ..Self::default() };
        self.min_submitters <= 1 && Self { min_submitters: 0, ..self.clone() } == counts_once
    }
}

/// The submissions that count.
#[derive(Debug)]
pub(crate) struct Counted {
    /// True if every submission in the selection's files counts once, so that queries do not need a filter.
    pub(crate) is_all: bool,
    pub(crate) submissions: u64,
    pub(crate) capped: u64,
    pub(crate) classes: Vec<Weight>,
    /// Factors of the submitters of each version, if submitters count alike.
    pub(crate) factors: Vec<Factors>,
    /// Data that is left out because it does not fit the rest.
    pub(crate) aside: LeftOutData,
    rows: Vec<Row>,
}

/// A submission that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) number: i32,
    pub(crate) class: i32,
    pub(crate) group: u32,
    /// Bits of [`LeftOutData`] for its left-out data.
    pub(crate) aside: u32,
}

impl Counted {
    /// Finds out which submissions count.
    pub(crate) async fn of(dataset: &Dataset, selection: &Selection, policy: &Policy) -> Result<Self> {
        let submissions = Submissions::of(dataset, selection).await?;
        let aside = LeftOutData::of(&submissions);
        if policy.is_none() && selection.is_everything() && aside.is_nothing() {
            let all = submissions.rows.len() as u64;
            return Ok(Self {
                is_all: true,
                submissions: all,
                capped: 0,
                classes: vec![Weight::ONE],
                factors: Vec::new(),
                aside: LeftOutData::default(),
                rows: Vec::new(),
            });
        }
        Self::under(policy, &submissions, aside)
    }

    fn under(policy: &Policy, submissions: &Submissions, mut aside: LeftOutData) -> Result<Self> {
        let found = within_caps(policy, &submissions.rows);
        let newest = found.iter().map(|submission| submission.day).max();
        let newest = newest.ok_or_else(|| {
            Error::new(ErrorCode::EmptyInput, "the policy excludes all submissions")
                .with_hint("select more submissions, or increase the caps")
        })?;
        let until = policy.until.unwrap_or(newest);
        let (mut classes, mut rows) = (Vec::new(), Vec::new());
        let mut by_weight: BTreeMap<u64, i32> = BTreeMap::new();
        let mut by_origin: HashMap<(u32, u32, Day), i32> = HashMap::new();
        let mut groups: IndexMap<(i32, u32, u32), (u128, Sums)> = IndexMap::new();
        for submission in &found {
            let origin = (submission.version, submission.host_class, submission.day);
            let class = match by_origin.get(&origin) {
                Some(class) => *class,
                None => {
                    let [version, host_class] = [origin.0, origin.1].map(|word| submissions.text(word));
                    let weight = weight(policy, version, host_class, (submission.day, until))?;
                    let class = *by_weight.entry(weight.billionths()).or_insert_with(|| {
                        classes.push(weight);
                        classes.len() as i32 - 1
                    });
                    by_origin.insert(origin, class);
                    class
                }
            };
            let group = groups.entry((submission.submitter, submission.package, submission.version));
            let number = group.index() as u32;
            let (total, sums) = group.or_default();
            *total += submission.total;
            sums.add(&submission.sums);
            let aside = aside.meet(submissions, submission);
            rows.push(Row { number: submission.number, class, group: number, aside });
        }
        let factors = groups.values().map(|(total, sums)| Factors::of(*total, sums));
        let factors = if policy.by_recordings { Vec::new() } else { factors.collect() };
        let capped = (submissions.rows.len() - rows.len()) as u64;
        Ok(Self { is_all: false, submissions: rows.len() as u64, capped, classes, factors, aside, rows })
    }

    /// True if the weights of rows are multiplied by factors.
    pub(crate) fn is_by_submitter(&self) -> bool {
        !self.factors.is_empty()
    }

    /// The submissions that count, with their classes and factors, as a table.
    pub(crate) fn table(&self) -> Result<Vec<(&'static str, ArrayRef)>> {
        let ints =
            |of: fn(&Row) -> i32| -> ArrayRef { Arc::new(self.rows.iter().map(of).collect::<Int32Array>()) };
        let mut columns: Vec<(&'static str, ArrayRef)> = vec![
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
            let factors = factors.with_precision_and_scale(38, 0).damaged()?;
            columns.push((name, Arc::new(factors)));
        }
        Ok(columns)
    }

    /// Submissions that count, by number.
    pub(crate) fn by_number(&self) -> Vec<Option<Row>> {
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

/// Numbers of the submissions that caps allow: the newest of each submitter and of each class of hosts.
fn within_caps(policy: &Policy, all: &[KeptSubmission]) -> Vec<KeptSubmission> {
    let mut rows = all.to_vec();
    rows.sort_unstable_by_key(|row| Reverse((row.day, row.number)));
    let (mut of_submitters, mut of_classes) = (HashMap::new(), HashMap::new());
    let is_within = |sum: &mut u128, total: u128, cap: Option<u32>| {
        *sum += total;
        cap.is_none_or(|cap| *sum <= u128::from(cap) * SHARE_TOTAL)
    };
    rows.retain(|row| {
        let of_submitter = of_submitters.entry(row.submitter).or_default();
        let of_class = of_classes.entry(row.host_class).or_default();
        // Both sums grow, no matter which cap excludes the submission.
        is_within(of_submitter, row.total, policy.cap) & is_within(of_class, row.total, policy.cap_host_class)
    });
    rows.sort_unstable_by_key(|row| row.number);
    rows
}

/// Weight of a submission: product of the weights of its version, host class and age; each product is rounded down to billionths.
fn weight(policy: &Policy, version: &str, host_class: &str, (day, until): (Day, Day)) -> Result<Weight> {
    let billionths = |weights: &[(String, Weight)], name: &str| {
        let weight = weights.iter().rev().find(|(known, _)| known == name);
        weight.map_or(ONE, |(_, weight)| u128::from(weight.billionths()))
    };
    let version = billionths(&policy.weigh_version, version);
    let class = billionths(&policy.weigh_host_class, host_class);
    let age = u32::try_from(until.0.saturating_sub(day.0)).unwrap_or(0);
    let decayed = policy.half_life.map_or(ONE, |half_life| decayed(age, half_life));
    let product = version * class / ONE * decayed / ONE;
    Weight::parse(&format!("{}.{:09}", product / ONE, product % ONE))
}

/// Weight of an age in billionths: halved for each half-life, and linear between these points, so that integers suffice.
fn decayed(age: u32, half_life: u32) -> u128 {
    let half_life = half_life.max(1);
    let whole = ONE.checked_shr(age / half_life).unwrap_or(0);
    whole - whole / 2 * u128::from(age % half_life) / u128::from(half_life)
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
    fn the_newest_count_within_both_caps() {
        let row = |number: i32, submitter: i32, host_class: u32, day: i32| KeptSubmission {
            number,
            submitter,
            host_class,
            day: Day(day),
            total: SHARE_TOTAL,
            ..KeptSubmission::default()
        };
        let all = [row(0, 1, 0, 5), row(1, 1, 0, 4), row(2, 2, 0, 4), row(3, 3, 1, 4), row(4, 1, 0, 5)];
        let numbers = |policy: &Policy| -> Vec<i32> {
            within_caps(policy, &all).iter().map(|row| row.number).collect()
        };
        assert_eq!(numbers(&Policy::default()), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&Policy { cap: Some(1), ..Policy::default() }), [2, 3, 4]);
        assert_eq!(numbers(&Policy { cap_host_class: Some(3), ..Policy::default() }), [0, 2, 3, 4]);
    }
}
