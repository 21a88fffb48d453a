// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merging: the query engine sums, and the library makes the profile.
//!
//! Without a policy, the result equals `sediment merge` of the same profiles byte for byte: shares are computed when a submission is added, and sums of
//! integers do not depend on order, engine or number of threads.

use super::engine::QueryEngine;
use super::factors::{Scale, divided};
use super::policy::{Counted, Policy};
use super::sql;
use crate::dataset::catalog::Table;
use crate::dataset::dictionary::{Names, Subject};
use crate::dataset::writer::NAMES;
use crate::dataset::{Dataset, Selection, tables};
use crate::errors::{ErrorContext as _, damaged};
use datafusion::arrow::array::{ArrayRef, AsArray as _, BooleanArray, Int32Array, Int64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use foldhash::fast::RandomState;
use sediment_core::profile::merge::{Weight, merge as add_up};
use sediment_core::profile::rows::{Assembly, ProfileRow, RowKind};
use sediment_core::profile::{FunctionIndex, Profile};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// With fewer submissions than this, sums always fit the engines' decimals of 28 digits, because each number has at most 18 digits.
pub(crate) const MOST_SUBMISSIONS: u64 = 10_000_000_000;

/// A merged profile, with data about its submissions.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) profile: Profile,
    /// Submissions that count.
    pub(crate) submissions: u64,
    /// Submissions that the policy's caps exclude.
    pub(crate) capped: u64,
    /// Number of functions that too few submitters executed.
    pub(crate) rare: usize,
    pub(crate) classes: usize,
    /// Lines that report the left-out data.
    pub(crate) aside: Vec<String>,
}

/// Sum of a subject in one weight class.
#[derive(Debug, Clone, Copy)]
struct Sum {
    subject: i32,
    class: i32,
    weight: Option<u128>,
    first: Option<u64>,
    bits: i64,
}

/// A dataset, the part of it that counts, and the engine that reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'q> {
    pub(crate) dataset: &'q Dataset,
    pub(crate) engine: &'q QueryEngine,
    pub(crate) selection: &'q Selection,
    pub(crate) policy: &'q Policy,
}

/// Merges the selected submissions under a policy.
pub(crate) async fn merge(query: Query<'_>) -> Result<Merged> {
    let merged = merged(query).await;
    query.engine.take_back().await?;
    merged
}

async fn merged(query: Query<'_>) -> Result<Merged> {
    let Query { dataset, engine, policy, .. } = query;
    let early = names_of_few(dataset);
    let counted = register(query).await?;
    let sums = sums(&engine.run(&text_of(query, &counted)).await?, &counted)?;
    let names = match early {
        Some(early) => early.await.damaged()??,
        None => dataset.names(Some(marked(sums.iter().map(|sum| sum.subject)))).await?,
    };
    let rare = match policy.min_submitters {
        0 | 1 => HashSet::new(),
        least => rare_functions(engine, &names, &sums, &counted, least).await?,
    };
    Ok(Merged {
        profile: assemble(&names, &sums, &rare, &counted)?,
        submissions: counted.submissions,
        capped: counted.capped,
        rare: rare.len(),
        classes: counted.classes.len(),
        aside: counted.aside.told(),
    })
}

/// Reads all names while the engine works, if there are few. Otherwise the names of the result are read after the query, because strangers may have sent
/// many others.
fn names_of_few(dataset: &Dataset) -> Option<tokio::task::JoinHandle<Result<Names>>> {
    let count: u64 = dataset.of(Table::Subjects).iter().map(|file| file.rows).sum();
    let dataset = dataset.clone();
    (count <= NAMES as u64).then(|| tokio::spawn(async move { dataset.names(None).await }))
}

/// Marks of numbers.
pub(super) fn marked(numbers: impl Iterator<Item = i32>) -> Vec<bool> {
    let mut marks = Vec::new();
    for number in numbers {
        let at = number as usize;
        if marks.len() <= at {
            marks.resize(at + 1, false);
        }
        if let Some(mark) = marks.get_mut(at) {
            *mark = true;
        }
    }
    marks
}

/// The plan of a merge.
pub(crate) async fn explain(query: Query<'_>) -> Result<String> {
    let text = text_of(query, &register(query).await?);
    let plan = query.engine.explain(&text).await;
    query.engine.take_back().await?;
    Ok(format!("{text}\n\n{}", plan?))
}

/// Registers the tables of the query, and finds out which submissions count.
async fn register(Query { dataset, engine, selection, policy }: Query<'_>) -> Result<Counted> {
    let mut files = dataset.files(Table::Facts, selection);
    files.extend(dataset.files(Table::Blocks, selection));
    engine.table("facts", &files, &tables::facts_schema()).await?;
    let counted = Counted::of(dataset, selection, policy).await?;
    if counted.submissions >= MOST_SUBMISSIONS {
        return Err(Error::new(
            ErrorCode::Overflow,
            "sums of 10^10 submissions may have more than 28 digits",
        )
        .with_hint("merge parts of the dataset, and then their profiles: sediment merge"));
    }
    if counted.is_all {
        return Ok(counted);
    }
    let (scales, marks) = (scales_of(dataset).await?, counted.aside.of_subjects(dataset).await?);
    if engine.is_embedded() {
        give_functions(engine, &counted, scales, marks);
        return Ok(counted);
    }
    engine.lend("counted", counted.table()?).await?;
    // The kinds of numbers of all subjects, with the bits by which subjects are left out.
    let mark = |at: usize| marks.get(at).copied().unwrap_or(0) as i32;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("subject", Arc::new(Int32Array::from_iter_values(0..scales.len() as i32))),
        ("scale", Arc::new(Int32Array::from_iter_values(scales.iter().map(|scale| *scale as i32)))),
        ("aside", Arc::new(Int32Array::from_iter_values((0..scales.len()).map(mark)))),
    ];
    engine.lend("scales", columns).await?;
    Ok(counted)
}

/// Registers functions in an engine of this process. They compute where a row counts, and how much.
fn give_functions(engine: &QueryEngine, counted: &Counted, scales: Vec<Scale>, marks: Vec<u32>) {
    let rows = Arc::new(counted.by_number());
    let count = counted.classes.len() as i64;
    engine.function("slot_of", DataType::Int64, {
        let rows = Arc::clone(&rows);
        move |subjects: &[i32], submissions: &[i32]| -> ArrayRef {
            let slots = subjects.iter().zip(submissions).map(|(subject, submission)| {
                let row = rows.get(*submission as usize).copied().flatten()?;
                let mark =
                    if row.aside == 0 { 0 } else { marks.get(*subject as usize).copied().unwrap_or(0) };
                (row.aside & mark == 0).then(|| i64::from(*subject) * count + i64::from(row.class))
            });
            Arc::new(slots.collect::<Int64Array>())
        }
    });
    if counted.is_by_submitter() {
        let factors = counted.factors.clone();
        engine.weighing(move |weight, subject, submission| {
            let row = rows.get(submission as usize).copied().flatten()?;
            let scale = scales.get(subject as usize).copied().unwrap_or(Scale::Recordings);
            let factor = factors.get(row.group as usize)?.of_scale(scale);
            // At most 10^27, because the sum by which a factor divides includes the weight.
            weight?.checked_mul(i128::try_from(factor).ok()?)
        });
    }
}

/// The kinds of numbers of all subjects.
async fn scales_of(dataset: &Dataset) -> Result<Vec<Scale>> {
    let mut scales = Vec::new();
    let schema = tables::only(&tables::subjects_schema(), &["kind"]);
    let read = |batch: RecordBatch| {
        let kinds = (0..batch.num_rows()).map(|row| tables::text_at(&batch, 0, row).and_then(RowKind::parse));
        scales.extend(kinds.map(|kind| kind.map_or(Scale::Recordings, Scale::of)));
        Ok(())
    };
    dataset.each_subject(&schema, None, read).await?;
    Ok(scales)
}

fn text_of(Query { engine, policy, .. }: Query<'_>, counted: &Counted) -> String {
    if counted.is_all {
        return sql::SUMS.to_owned();
    }
    if !engine.is_embedded() {
        return sql::joined_sums_by_class(counted.classes.len(), counted.is_by_submitter());
    }
    let weight = if counted.is_by_submitter() { sql::WEIGHED } else { sql::WEIGHT };
    sql::sums_by_class(weight, policy.min_submitters > 1)
}

/// Sums from rows of a slot, a weight, a first use and perhaps bits. A slot is a number for subject and class.
fn sums(batches: &[RecordBatch], counted: &Counted) -> Result<Vec<Sum>> {
    let count = counted.classes.len().max(1) as i64;
    let mut sums = Vec::new();
    for batch in batches {
        let column = |at: usize, to: DataType| cast(batch.column(at), &to).damaged();
        let slots = column(0, DataType::Int64)?;
        let (weights, firsts) = (column(1, DataType::Decimal128(38, 0))?, column(2, DataType::Int64)?);
        let bits = (batch.num_columns() > 3).then(|| column(3, DataType::Int64)).transpose()?;
        let firsts = firsts.as_primitive::<Int64Type>().iter();
        let rows = slots
            .as_primitive::<Int64Type>()
            .iter()
            .zip(weights.as_primitive::<Decimal128Type>())
            .zip(firsts);
        for (row, ((slot, weight), first)) in rows.enumerate() {
            // The submission does not count.
            let Some(slot) = slot else { continue };
            let weight = weight.map(u128::try_from).transpose().damaged()?;
            sums.push(Sum {
                subject: (slot / count) as i32,
                class: (slot % count) as i32,
                weight: if counted.is_by_submitter() { weight.map(divided) } else { weight },
                first: first.map(u64::try_from).transpose().damaged()?,
                bits: bits.as_ref().map_or(0, |bits| bits.as_primitive::<Int64Type>().value(row)),
            });
        }
    }
    Ok(sums)
}

/// Functions that fewer than `least` submitters executed. For most functions the bits decide; for the others the submitters are counted.
async fn rare_functions(
    engine: &QueryEngine,
    names: &Names,
    sums: &[Sum],
    counted: &Counted,
    least: u32,
) -> Result<HashSet<u32>> {
    let function_of = |subject: i32| {
        let subject = names.subject_at(subject)?;
        if subject.kind == RowKind::Function { subject.function } else { None }
    };
    let mut bits: Vec<Option<i64>> = vec![None; names.function_count()];
    for sum in sums {
        if let Some(bits) = function_of(sum.subject).and_then(|function| bits.get_mut(function as usize)) {
            *bits.get_or_insert(0) |= sum.bits;
        }
    }
    let open: HashSet<u32> = (0..)
        .zip(&bits)
        .filter(|(_, bits)| bits.is_some_and(|bits| bits.count_ones() < least))
        .map(|(function, _)| function)
        .collect();
    if open.is_empty() {
        return Ok(HashSet::new());
    }
    let open_subjects: HashSet<i32, RandomState> = sums
        .iter()
        .map(|sum| sum.subject)
        .filter(|subject| function_of(*subject).is_some_and(|function| open.contains(&function)))
        .collect();
    let text = if engine.is_embedded() {
        let (classes, is_all) = (counted.by_number(), counted.is_all);
        engine.function("is_open", DataType::Boolean, move |subjects, submissions| {
            let counts =
                |submission: i32| is_all || classes.get(submission as usize).is_some_and(Option::is_some);
            let open = subjects.iter().zip(submissions);
            let open =
                open.map(|(subject, submission)| counts(*submission) && open_subjects.contains(subject));
            Arc::new(open.map(Some).collect::<BooleanArray>())
        });
        sql::SUBMITTERS
    } else {
        let subjects: BTreeSet<i32> = open_subjects.into_iter().collect();
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(subjects));
        engine.lend("open_subjects", vec![("subject", column)]).await?;
        sql::JOINED_SUBMITTERS
    };
    let mut submitters: BTreeMap<u32, HashSet<i32>> = BTreeMap::new();
    for batch in engine.run(text).await? {
        let numbers = |column: usize| batch.column(column).as_primitive::<Int32Type>().values();
        for (subject, submitter) in numbers(0).iter().zip(numbers(1)) {
            if let Some(function) = function_of(*subject) {
                submitters.entry(function).or_default().insert(*submitter);
            }
        }
    }
    let enough = |function: &u32| submitters.get(function).is_some_and(|found| found.len() >= least as usize);
    Ok(open.into_iter().filter(|function| !enough(function)).collect())
}

/// The profile of the sums: the library makes one profile for each weight class, and adds them with their weights. Several subjects can be the same
/// function, so the sums of a class are added before they are weighted.
fn assemble(names: &Names, sums: &[Sum], rare: &HashSet<u32>, counted: &Counted) -> Result<Profile> {
    let mut classes: BTreeMap<i32, (Assembly, Vec<Option<FunctionIndex>>)> = BTreeMap::new();
    let is_rare = |subject: &Subject<'_>| {
        [subject.function, subject.callee].into_iter().flatten().any(|function| rare.contains(&function))
    };
    // A library that contains only rare functions reveals as much as these functions.
    let common: HashSet<&str> = sums
        .iter()
        .filter(|_| !rare.is_empty())
        .filter_map(|sum| names.subject_at(sum.subject))
        .filter(|subject| subject.kind == RowKind::Function && !is_rare(subject))
        .filter_map(|subject| names.function_at(subject.function?)?.dso)
        .collect();
    for sum in sums {
        let subject = names.subject_at(sum.subject).ok_or_else(|| damaged("a subject without a number"))?;
        let label = subject.detail.rsplit('\t').next().unwrap_or_default();
        let is_rare_library = subject.kind == RowKind::Library && !rare.is_empty() && !common.contains(label);
        let is_other_build = !counted.aside.keeps_library(subject.kind, subject.detail);
        if is_rare_library || is_other_build || !rare.is_empty() && is_rare(&subject) {
            continue;
        }
        let (assembly, functions) = classes
            .entry(sum.class)
            .or_insert_with(|| (Assembly::default(), vec![None; names.function_count()]));
        let mut index = |function: Option<u32>| {
            let number = function?;
            let known = functions.get_mut(number as usize)?;
            if known.is_none() {
                *known = Some(assembly.profile().function(names.function_at(number)?.key()));
            }
            *known
        };
        let (function, callee) = (index(subject.function), index(subject.callee));
        let row = ProfileRow {
            kind: subject.kind,
            function,
            callee,
            detail: subject.detail.to_owned(),
            weight: sum.weight,
            first: sum.first,
        };
        assembly.add(&row)?;
    }
    let mut profiles = Vec::new();
    for (class, (assembly, _)) in classes {
        let weight = counted.classes.get(usize::try_from(class).unwrap_or(usize::MAX)).copied();
        profiles
            .push((assembly.finish()?, weight.ok_or_else(|| damaged("a weight class without a weight"))?));
    }
    match profiles.as_slice() {
        [(_, weight)] if *weight == Weight::ONE => Ok(profiles.remove(0).0),
        _ => add_up(&profiles.iter().map(|(profile, weight)| (profile, *weight)).collect::<Vec<_>>(), false),
    }
}
