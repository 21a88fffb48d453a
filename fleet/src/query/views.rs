// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage, drift and outliers: the contents of a dataset, the change of use since a shipped profile, and submitters that differ from all others.

use super::engine::QueryEngine;
use super::merge::{Query, marked, merge};
use super::sql;
use crate::dataset::catalog::Table;
use crate::dataset::dictionary::Names;
use crate::dataset::submissions::{KeptSubmission, Submissions};
use crate::dataset::{Dataset, Selection, tables};
use crate::day::Day;
use crate::errors::ErrorContext as _;
use datafusion::arrow::array::{ArrayRef, AsArray as _, Int32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type};
use sediment_core::Result;
use sediment_core::callgraph::FunctionId;
use sediment_core::profile::difference::difference;
use sediment_core::profile::rows::RowKind;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::order::predicted_misses;
use sediment_order::order::{OrderRequest, Selection as Functions, compute};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Submissions of one version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) package: String,
    pub(crate) version: String,
    /// First and last day.
    pub(crate) days: (Day, Day),
    pub(crate) submissions: u64,
    pub(crate) submitters: u64,
    pub(crate) host_classes: u64,
    pub(crate) recordings: u64,
}

/// Submissions by package and version.
pub(crate) fn coverage(submissions: &Submissions) -> Vec<Covered> {
    let mut covered: BTreeMap<(&str, &str), Vec<&KeptSubmission>> = BTreeMap::new();
    for one in &submissions.rows {
        let key = (submissions.text(one.package), submissions.text(one.version));
        covered.entry(key).or_default().push(one);
    }
    let of_version = |((package, version), all): ((&str, &str), Vec<&KeptSubmission>)| {
        let distinct = |of: fn(&KeptSubmission) -> u32| {
            all.iter().map(|one| of(one)).collect::<HashSet<u32>>().len() as u64
        };
        let days = || all.iter().map(|one| one.day);
        Covered {
            package: package.to_owned(),
            version: version.to_owned(),
            days: (days().min().unwrap_or(Day(0)), days().max().unwrap_or(Day(0))),
            submissions: all.len() as u64,
            submitters: distinct(|one| one.submitter as u32),
            host_classes: distinct(|one| one.host_class),
            recordings: all.iter().map(|one| one.inputs).sum(),
        }
    };
    covered.into_iter().map(of_version).collect()
}

/// Change of use since a shipped profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drift {
    /// Overlap of the two profiles in parts per million; `None` if one of them has no counts.
    pub(crate) agreement: Option<u64>,
    /// Share of current calls into functions that the shipped profile does not contain, in parts per million.
    pub(crate) unknown: u64,
    /// Ratio of estimated iTLB misses: order from the shipped profile to order from the current profile. It is the benefit of a new
    /// profile. `None` if the code fits the TLB.
    pub(crate) loss: Option<f64>,
    pub(crate) submissions: u64,
}

/// Compares a shipped profile with the merge of the selected submissions.
pub(crate) async fn drift(query: Query<'_>, shipped: &Profile) -> Result<Drift> {
    let now = merge(query).await?;
    let found = difference(shipped, &now.profile);
    let unknown = found
        .functions
        .iter()
        .filter(|moved| moved.before.is_none())
        .filter_map(|moved| moved.after)
        .sum::<u128>();
    Ok(Drift {
        agreement: found.agreement,
        unknown: u64::try_from(unknown / 1_000_000_000).unwrap_or(u64::MAX),
        loss: loss(shipped, &now.profile)?,
        submissions: now.submissions,
    })
}

/// Ratio of estimated misses: order from `shipped` to order from `now`, both for the calls in `now`.
pub(crate) fn loss(shipped: &Profile, now: &Profile) -> Result<Option<f64>> {
    let fresh = compute(now, &Functions::Everything, &OrderRequest::default())?;
    let stale = compute(shipped, &Functions::Everything, &OrderRequest::default())?;
    let ids: HashMap<&FunctionKey, FunctionId> = fresh.built.table.names().collect();
    let names: HashMap<FunctionId, &FunctionKey> =
        stale.built.table.names().map(|(key, id)| (id, key)).collect();
    let new: Vec<FunctionId> = fresh.order.functions().collect();
    let known = stale.order.functions().filter_map(|id| ids.get(names.get(&id)?).copied());
    // Functions that the shipped profile does not contain are not ordered; they follow, sorted by name.
    let mut lacking = new.clone();
    lacking.sort_unstable();
    let mut seen = HashSet::new();
    let old: Vec<FunctionId> = known.chain(lacking).filter(|id| seen.insert(*id)).collect();
    let misses = |order: &[FunctionId]| predicted_misses(&fresh.built.graph, &[], order);
    let (old, new) = (misses(&old), misses(&new));
    Ok((new > 0.0).then_some(old / new))
}

/// A submitter that differs from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outlier {
    pub(crate) submitter: String,
    /// Overlap of the submitter's calls with the calls of all others, in parts per million.
    pub(crate) agreement: u64,
    /// Share of the submitter in all calls of all recordings, in parts per million.
    pub(crate) share: u64,
    /// True if its agreement with all others is less than half of the usual agreement.
    pub(crate) is_marked: bool,
}

/// Submitters by their agreement with all others, lowest first.
pub(crate) async fn outliers(
    dataset: &Dataset,
    engine: &QueryEngine,
    selection: &Selection,
) -> Result<Vec<Outlier>> {
    let files = dataset.files(Table::Facts, selection);
    engine.table("facts", &files, &tables::facts_schema()).await?;
    let submissions = Submissions::of(dataset, selection).await?;
    let numbers: ArrayRef =
        Arc::new(Int32Array::from_iter_values(submissions.rows.iter().map(|one| one.number)));
    engine.lend("counted", vec![("submission", numbers)]).await?;
    let mut of_submitter: BTreeMap<i32, HashMap<Call, u128>> = BTreeMap::new();
    let sums = engine.run(sql::BY_SUBMITTER).await;
    engine.take_back().await?;
    let sums = sums?;
    let subjects = sums.iter().flat_map(|batch| batch.column(1).as_primitive::<Int32Type>().values());
    let names = dataset.names(Some(marked(subjects.copied()))).await?;
    for batch in &sums {
        let weights = cast(batch.column(2), &DataType::Decimal128(38, 0)).damaged()?;
        let numbers = |column: usize| batch.column(column).as_primitive::<Int32Type>().values();
        let weights = weights.as_primitive::<Decimal128Type>().values();
        for ((submitter, subject), weight) in numbers(0).iter().zip(numbers(1)).zip(weights) {
            if let Some(call) = call_of(&names, *subject) {
                let sum = of_submitter.entry(*submitter).or_default().entry(call).or_default();
                *sum += u128::try_from(*weight).damaged()?;
            }
        }
    }
    Ok(by_agreement(&dataset.submitters().await?, &of_submitter))
}

/// Caller and callee, by number. A submitter that knows only the functions of a program does not know these pairs.
type Call = (Option<u32>, Option<u32>);

fn call_of(names: &Names, subject: i32) -> Option<Call> {
    let subject = names.subject_at(subject)?;
    (subject.kind == RowKind::Call).then_some((subject.function, subject.callee))
}

/// The weights of all other submitters; each counts once, no matter how much it sent.
fn by_agreement(keys: &[String], of_submitter: &BTreeMap<i32, HashMap<Call, u128>>) -> Vec<Outlier> {
    let own = |weights: &HashMap<Call, u128>| weights.values().sum::<u128>();
    let total: u128 = of_submitter.values().map(own).sum();
    let mut all: HashMap<Call, u128> = HashMap::new();
    for weights in of_submitter.values() {
        let sum = own(weights);
        for (call, weight) in weights {
            *all.entry(*call).or_default() += u128::from(parts(*weight, sum));
        }
    }
    let others = of_submitter.len().saturating_sub(1) as u128;
    let mut outliers: Vec<Outlier> = of_submitter
        .iter()
        .map(|(submitter, weights)| {
            let sum = own(weights);
            let overlap = weights.iter().map(|(call, weight)| {
                let part = parts(*weight, sum);
                let elsewhere = all.get(call).copied().unwrap_or(0).saturating_sub(u128::from(part));
                part.min(elsewhere.checked_div(others).unwrap_or(0) as u64)
            });
            Outlier {
                submitter: keys.get(*submitter as usize).map_or("unknown", String::as_str).to_owned(),
                agreement: overlap.sum::<u64>() / 1000,
                share: parts(sum, total) / 1000,
                is_marked: false,
            }
        })
        .collect();
    outliers.sort_by(|one, other| (one.agreement, &one.submitter).cmp(&(other.agreement, &other.submitter)));
    let median = outliers.get(outliers.len() / 2).map_or(0, |outlier| outlier.agreement);
    for outlier in &mut outliers {
        outlier.is_marked = outlier.agreement * 2 < median;
    }
    outliers
}

/// Ratio in parts of 10^9; 0 if the total is 0.
fn parts(part: u128, whole: u128) -> u64 {
    // Cannot overflow: sums have at most 28 digits, so a product with 10^9 has at most 37.
    part.saturating_mul(1_000_000_000)
        .checked_div(whole)
        .and_then(|parts| u64::try_from(parts).ok())
        .unwrap_or(0)
}
