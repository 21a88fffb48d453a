// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forgetting and compaction: files of a partition are written anew, and the old ones removed once no manifest lists them.

use super::manifest::{File, Partition, Table};
use super::writer::lock;
use super::{Dataset, tables};
use crate::day::Day;
use datafusion::arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int32Type, SchemaRef};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;

/// Submissions to forget: those for which all that is given holds.
#[derive(Debug, Clone, Default)]
pub struct Forgotten {
    /// Submissions of this submitter, by key.
    pub submitter: Option<String>,
    /// Submissions of days before this one.
    pub before: Option<Day>,
}

/// Sums of a rewriting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewritten {
    /// Submissions that are gone.
    pub submissions: u64,
    /// Rows of all tables that are gone.
    pub rows: u64,
    /// Files that were replaced or removed.
    pub files: usize,
}

/// Removes submissions from a dataset for good.
///
/// # Errors
/// When nothing says which, when no submission is meant, when another program writes, or the store fails.
pub async fn forget(place: &str, what: &Forgotten) -> Result<Rewritten> {
    if what.submitter.is_none() && what.before.is_none() {
        return Err(Error::new(ErrorCode::Usage, "nothing says what to forget")
            .with_hint("give --submitter, --before or both"));
    }
    let mut dataset = Dataset::open(place).await?;
    let _lock = dataset.store.folder().map(lock).transpose()?;
    let dictionary = dataset.dictionary().await?;
    let submitter = match &what.submitter {
        None => None,
        Some(key) => Some(dictionary.find_submitter(key).ok_or_else(|| {
            Error::new(ErrorCode::NotFound, format!("no submitter has the key {key}")).with_input(place)
        })?),
    };
    let is_meant = |file: &File| {
        let day = file.partition.as_ref().map(|partition| partition.day);
        day.is_some_and(|day| what.before.is_none_or(|before| day < before.0))
    };
    let mut changes = Vec::new();
    let mut done = Rewritten::default();
    for file in dataset.manifest.files.iter().filter(|file| is_meant(file)) {
        let schema = schema_of(file.table);
        let batches = match submitter {
            None => Vec::new(),
            Some(number) => {
                let without = dataset.rows(&[file], &schema).await?;
                let without = without.iter().map(|batch| without_submitter(batch, number));
                without
                    .collect::<Result<Vec<_>>>()?
                    .into_iter()
                    .filter(|batch| batch.num_rows() > 0)
                    .collect()
            }
        };
        let left: u64 = batches.iter().map(|batch: &RecordBatch| batch.num_rows() as u64).sum();
        if left == file.rows {
            continue;
        }
        done.rows += file.rows - left;
        done.submissions += if file.table == Table::Submissions { file.rows - left } else { 0 };
        changes.push((file.clone(), batches));
    }
    if changes.is_empty() {
        return Err(Error::new(ErrorCode::NotFound, "no submission is meant").with_input(place));
    }
    done.files = changes.len();
    if let (Some(number), None) = (submitter, what.before) {
        // The key goes as well; the number stays, as rows of others count on theirs.
        let files: Vec<File> = dataset.manifest.of(Table::Submitters).cloned().collect();
        let key = |at: i32| dictionary.submitter_at(at).unwrap_or_default();
        let gone = format!("forgotten-{number}");
        let count = (0..).take_while(|at| dictionary.submitter_at(*at).is_some());
        let rows = count.map(|at| (at, [Some(if at == number { gone.as_str() } else { key(at) })]));
        let batch = tables::texts(tables::submitters_schema(), rows)?;
        for (at, file) in files.into_iter().enumerate() {
            changes.push((file, if at == 0 { vec![batch.clone()] } else { Vec::new() }));
        }
    }
    replace(&mut dataset, changes).await?;
    Ok(done)
}

/// Joins the files of each table and partition that has at least `files` of them.
///
/// # Errors
/// When another program writes, or the store fails.
pub async fn compact(place: &str, files: usize) -> Result<Rewritten> {
    let mut dataset = Dataset::open(place).await?;
    let _lock = dataset.store.folder().map(lock).transpose()?;
    let mut groups: BTreeMap<(Table, Option<Partition>), Vec<File>> = BTreeMap::new();
    for file in &dataset.manifest.files {
        groups.entry((file.table, file.partition.clone())).or_default().push(file.clone());
    }
    let mut done = Rewritten::default();
    for ((table, _), group) in groups.into_iter().filter(|(_, group)| group.len() >= files.max(2)) {
        let all: Vec<&File> = group.iter().collect();
        let batches = dataset.rows(&all, &schema_of(table)).await?;
        done.files += group.len();
        let changes = group.into_iter().enumerate();
        let changes =
            changes.map(|(at, file)| (file, if at == 0 { batches.clone() } else { Vec::new() })).collect();
        // One generation for each group: an interruption loses one group's work.
        replace(&mut dataset, changes).await?;
    }
    Ok(done)
}

/// Replaces files by ones with other rows; a file without rows is removed.
async fn replace(dataset: &mut Dataset, changes: Vec<(File, Vec<RecordBatch>)>) -> Result<()> {
    let mut manifest = dataset.manifest.clone();
    let mut gone = Vec::new();
    for (old, batches) in changes {
        let at = manifest.files.iter().position(|file| file.name == old.name);
        let Some(at) = at else { continue };
        if batches.is_empty() {
            manifest.files.remove(at);
        } else {
            manifest.files[at] = dataset.write(old.table, old.partition.as_ref(), &batches).await?;
        }
        gone.push(old.name);
    }
    manifest.commit(&dataset.store).await?;
    dataset.manifest = manifest;
    // The manifest before this one lists them; it is not the newest any more.
    for name in gone {
        dataset.store.remove(&name).await?;
    }
    Ok(())
}

fn without_submitter(batch: &RecordBatch, number: i32) -> Result<RecordBatch> {
    let position = batch.schema().index_of("submitter").map_err(|error| defect(&error))?;
    let submitters = batch.column(position).as_primitive::<Int32Type>();
    let kept: BooleanArray = submitters.values().iter().map(|other| Some(*other != number)).collect();
    filter_record_batch(batch, &kept).map_err(|error| defect(&error))
}

fn defect(error: &datafusion::arrow::error::ArrowError) -> Error {
    Error::new(ErrorCode::Damaged, error.to_string())
}

/// Columns of a table.
#[must_use]
pub fn schema_of(table: Table) -> SchemaRef {
    match table {
        Table::Facts | Table::Blocks => tables::facts_schema(),
        Table::Submissions => tables::submissions_schema(),
        Table::Subjects => tables::subjects_schema(),
        Table::Submitters => tables::submitters_schema(),
    }
}
