// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maintenance: combines batches, and forgets submissions. Batches are rewritten as one, and one commit of submissions replaces them.
//!
//! Readers of earlier snapshots continue to read the old files, which are removed from the store after a retention time. Writers are not stopped: the
//! writer whose commit comes second starts again from the new state.

use super::catalog::{FORGOTTEN, Table, TableFile, TableLog};
use super::store::Store;
use super::tables::{self, ParquetBytes};
use super::{
    ABANDONED, Dataset, Files, Logs, each_batch, name_in_bucket, name_of_submissions, random, write,
};
use crate::day::{Day, since_1970};
use crate::errors::{ErrorContext as _, damaged};
use datafusion::arrow::array::{Array as _, AsArray as _, BooleanArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Date32Type, Int32Type};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashSet};

/// Maximum bytes of batches that are combined, because the new files are in memory until they are complete.
const JOINED: u64 = 64 << 20;
/// Maximum number of names in files that are combined.
const NAMES_JOINED: u64 = 1 << 20;

/// Submissions to forget: those that meet all given conditions.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Forgotten {
    /// Key of the submitter, as `outliers` prints it [default: all submitters]
    #[arg(long, value_name = "KEY")]
    pub(crate) submitter: Option<String>,
    /// Only submissions from before this day [default: all days]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) before: Option<Day>,
}

/// Sums of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rewritten {
    pub(crate) submissions: u64,
    /// Number of removed rows, of all tables.
    pub(crate) rows: u64,
    /// Number of replaced or removed files.
    pub(crate) files: usize,
}

/// Combines small batches, if there are at least `files` of them, and small files of subjects and submitters. Returns the number of replaced files.
pub(crate) async fn compact(place: &str, files: usize) -> Result<usize> {
    let (mut logs, mut joined) = (Logs::open_existing(place).await?, 0);
    loop {
        let batches = small_batches(&logs);
        if batches.len() < files.max(2) {
            break;
        }
        match replace(&mut logs, &batches, None).await? {
            Some(rewritten) => joined += rewritten.files,
            // Another program combines them.
            None => break,
        }
    }
    for table in [Table::Subjects, Table::Submitters] {
        joined += join_numbers(&mut logs, table, files).await?;
    }
    remove_abandoned(&mut logs).await?;
    Ok(joined)
}

/// Removes files from the store that no snapshot of the last hours needs.
pub(crate) async fn vacuum(place: &str, hours: u32) -> Result<usize> {
    let mut removed = 0;
    // A writer may be writing files that its next commit will list, so new files are kept for an hour.
    let all = hours >= 1;
    for log in Logs::open_existing(place).await?.logs.values_mut() {
        removed += log.vacuum(hours, all).await?;
    }
    Ok(removed)
}

/// Removes submissions from the newest snapshot. [`vacuum`] removes their files.
pub(crate) async fn forget(place: &str, what: &Forgotten) -> Result<Rewritten> {
    let mut logs = Logs::open_existing(place).await?;
    let submitter = match &what.submitter {
        None => None,
        Some(key) => {
            let keys = logs.dataset()?.submitters().await?;
            let number = keys.iter().position(|known| known == key).map(|number| number as i32);
            Some(number.ok_or_else(|| {
                Error::new(ErrorCode::NotFound, format!("no submitter has the key {key}")).with_input(place)
            })?)
        }
    };
    let mut done = Rewritten::default();
    // Each replacement changes the state, so the files are listed again.
    'state: for _ in 0..100_000 {
        for file in logs[Table::Submissions].files() {
            let meant = meant(&logs.store, &file, submitter, what.before).await?;
            if let Some(batch) = file.batch.filter(|_| !meant.is_empty()) {
                if let Some(rewritten) = replace(&mut logs, &[batch], Some(&meant)).await? {
                    done.submissions += rewritten.submissions;
                    done.rows += rewritten.rows;
                    done.files += rewritten.files;
                }
                continue 'state;
            }
        }
        break;
    }
    // An interrupted run may have left names.
    done.files += forget_names(&mut logs, submitter.filter(|_| what.before.is_none())).await?;
    match done.submissions {
        0 => Err(Error::new(ErrorCode::NotFound, "no submission meets the conditions").with_input(place)),
        _ => Ok(done),
    }
}

/// Numbers of the submissions in a file that meet the conditions.
async fn meant(
    store: &Store,
    file: &TableFile,
    submitter: Option<i32>,
    before: Option<Day>,
) -> Result<HashSet<i32>> {
    let mut found = HashSet::new();
    let schema = tables::only(&tables::submissions_schema(), &["submission", "submitter", "day"]);
    each_batch(store, file, &schema, None, |batch| {
        let numbers = |column: usize| batch.column(column).as_primitive::<Int32Type>().values();
        let days = batch.column(2).as_primitive::<Date32Type>().values();
        for ((number, who), day) in numbers(0).iter().zip(numbers(1)).zip(days) {
            if submitter.is_none_or(|submitter| submitter == *who)
                && before.is_none_or(|before| *day < before.0)
            {
                found.insert(*number);
            }
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Removes names that no submission uses any more, and the key of a submitter; their numbers are not used again. Returns the number of replaced
/// files.
///
/// Another writer may be about to use one of these numbers. The numbers are therefore marked first, and writers that begin afterwards do not assign them.
/// Then the commits of writers that began before are prevented. Numbers that are still unused after that lose their names.
async fn forget_names(logs: &mut Logs, submitter: Option<i32>) -> Result<usize> {
    let marked = rewrite_subjects(logs, false).await?;
    let of_keys = match submitter {
        Some(number) => forget_key(logs, number).await?,
        None => 0,
    };
    if marked + of_keys > 0 {
        logs[Table::Submissions].count_up(FORGOTTEN).await?;
    }
    Ok(of_keys + if marked > 0 { rewrite_subjects(logs, true).await? } else { 0 })
}

/// Marks subjects that are not used, or removes the names of marked subjects. Returns the number of replaced files.
async fn rewrite_subjects(logs: &mut Logs, is_blank: bool) -> Result<usize> {
    loop {
        logs.refresh().await?;
        let used = used_subjects(&logs.dataset()?).await?;
        let old = logs[Table::Subjects].files();
        let schema = tables::subjects_schema();
        let (mut new, mut count) = (ParquetBytes::new(&schema)?, 0);
        for file in &old {
            each_batch(&logs.store, file, &schema, None, |batch| {
                let numbers = batch.column(0).as_primitive::<Int32Type>().values();
                let marked = batch.column(9).as_boolean();
                let has_name = |row: usize| (2..9).any(|column| !batch.column(column).is_null(row));
                let marks: BooleanArray = numbers
                    .iter()
                    .enumerate()
                    .map(|(row, number)| {
                        let is_unused = !used.get(*number as usize).copied().unwrap_or(false);
                        let was_marked = !marked.is_null(row) && marked.value(row);
                        Some(is_unused && if is_blank { was_marked } else { has_name(row) })
                    })
                    .collect();
                count += marks.true_count();
                new.add(&tables::forgotten(&batch, marks, is_blank)?)
            })
            .await?;
        }
        if count == 0 && !is_blank {
            return Ok(0);
        }
        if logs.commit_numbered(Table::Subjects, (0, Some(new)), &old, None).await? {
            return Ok(old.len());
        }
    }
}

/// True if rows of a snapshot contain this subject's number.
async fn used_subjects(dataset: &Dataset) -> Result<Vec<bool>> {
    let mut used = Vec::new();
    let schema = tables::only(&tables::facts_schema(), &["subject"]);
    for file in [Table::Facts, Table::Blocks].iter().flat_map(|table| dataset.of(*table)) {
        each_batch(&dataset.store, file, &schema, None, |batch| {
            for subject in batch.column(0).as_primitive::<Int32Type>().values() {
                let subject = *subject as usize;
                if used.len() <= subject {
                    used.resize(subject + 1, false);
                }
                if let Some(place) = used.get_mut(subject) {
                    *place = true;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(used)
}

/// Removes the key of a submitter. The number is kept, because rows of other submitters depend on the sequence of numbers.
async fn forget_key(logs: &mut Logs, number: i32) -> Result<usize> {
    loop {
        let old = logs[Table::Submitters].files();
        let keys = logs.dataset()?.submitters().await?;
        let gone = format!("forgotten-{number}");
        let rows =
            (0..).zip(&keys).map(|(at, key)| (at, [Some(if at == number { gone.as_str() } else { key })]));
        let rows = tables::texts(tables::submitters_schema(), rows)?;
        let rows = (0, Some(ParquetBytes::of(&rows)?));
        if logs.commit_numbered(Table::Submitters, rows, &old, None).await? {
            return Ok(old.len());
        }
    }
}

/// The batches to combine: the smallest, up to a total size.
fn small_batches(logs: &Logs) -> Vec<String> {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for table in [Table::Submissions, Table::Facts, Table::Blocks] {
        for file in logs[table].files() {
            let batch = file.batch.unwrap_or_default();
            // Facts and blocks count only if there are submissions.
            if table == Table::Submissions || sizes.contains_key(&batch) {
                *sizes.entry(batch).or_default() += file.bytes;
            }
        }
    }
    let mut sizes: Vec<(u64, String)> = sizes.into_iter().map(|(batch, size)| (size, batch)).collect();
    sizes.sort();
    let mut sum = 0;
    let small = sizes.into_iter().take_while(|(size, _)| {
        sum += size;
        sum <= JOINED
    });
    small.map(|(_, batch)| batch).collect()
}

/// Rewrites batches as one, without some submissions. `None`: another program replaced some of them meanwhile, and nothing was changed.
async fn replace(
    logs: &mut Logs,
    batches: &[String],
    without: Option<&HashSet<i32>>,
) -> Result<Option<Rewritten>> {
    let store = logs.store.clone();
    let is_meant = |file: &TableFile| file.batch.as_ref().is_some_and(|batch| batches.contains(batch));
    let of = |table| logs[table].files().into_iter().filter(is_meant).collect::<Vec<TableFile>>();
    let mut old: Files =
        [Table::Facts, Table::Blocks, Table::Submissions].map(|table| (table, of(table))).into();
    let submissions = old.remove(&Table::Submissions).unwrap_or_default();
    if submissions.len() != batches.len() {
        logs.refresh().await?;
        return Ok(None);
    }
    let batch = random();
    let files = submissions.len() + old.values().map(Vec::len).sum::<usize>();
    let mut done = Rewritten { files, ..Rewritten::default() };
    let mut new = Files::new();
    for (table, old) in &old {
        let mut buckets: BTreeMap<u64, Vec<&TableFile>> = BTreeMap::new();
        for file in old {
            buckets.entry(bucket_in(&file.name)).or_default().push(file);
        }
        for (bucket, files) in buckets {
            let kept = without_submissions(&store, &files, *table, without, &mut done.rows).await?;
            if kept.rows() > 0 {
                let files = new.entry(*table).or_default();
                let name = name_in_bucket(*table, bucket, &batch, files.len());
                files.push(write(&store, name, kept, Some(&batch)).await?);
            }
        }
    }
    let all: Vec<&TableFile> = submissions.iter().collect();
    let kept = without_submissions(&store, &all, Table::Submissions, without, &mut done.submissions).await?;
    done.rows += done.submissions;
    if kept.rows() > 0 {
        let name = name_of_submissions(&batch, &new);
        new.insert(Table::Submissions, vec![write(&store, name, kept, Some(&batch)).await?]);
    }
    // If a batch is empty afterwards, a commit whose answer was lost looks like another program's; checking again does no harm.
    let are_there = async |log: &TableLog| {
        let now = log.files();
        Ok(submissions.iter().all(|file| now.contains(file)))
    };
    if !logs.commit_batch(&new, &submissions, are_there).await? {
        logs.refresh().await?;
        return Ok(None);
    }
    // These facts do not count any more.
    logs.commit_rows(&Files::new(), &old).await?;
    Ok(Some(done))
}

/// The bucket of a file, from its name.
fn bucket_in(name: &str) -> u64 {
    let folder = name.split('/').nth(1).and_then(|folder| folder.strip_prefix('b'));
    folder.and_then(|bucket| bucket.parse().ok()).unwrap_or(0)
}

/// The rows of files, without those of some submissions. Adds the number of removed rows.
async fn without_submissions(
    store: &Store,
    files: &[&TableFile],
    table: Table,
    without: Option<&HashSet<i32>>,
    removed: &mut u64,
) -> Result<ParquetBytes> {
    let mut kept = ParquetBytes::new(&table.schema())?;
    for file in files {
        each_batch(store, file, &table.schema(), None, |batch| {
            let Some(without) = without else { return kept.add(&batch) };
            let column = batch.column_by_name("submission").ok_or_else(|| damaged("no submission"))?;
            let numbers = column.as_primitive::<Int32Type>().values();
            let stays: BooleanArray = numbers.iter().map(|number| Some(!without.contains(number))).collect();
            *removed += (stays.len() - stays.true_count()) as u64;
            kept.add(&filter_record_batch(&batch, &stays).damaged()?)
        })
        .await?;
    }
    Ok(kept)
}

/// Combines small files of subjects or submitters. Files with consecutive numbers are combined, because the order of files is that of the numbers.
async fn join_numbers(logs: &mut Logs, table: Table, files: usize) -> Result<usize> {
    let (mut joined, schema) = (0, table.schema());
    loop {
        let (old, mut rows) = (logs[table].files(), 0);
        let runs = old.chunk_by(|_, next| {
            rows += next.rows;
            let is_of_run = rows <= NAMES_JOINED;
            if !is_of_run {
                rows = next.rows;
            }
            is_of_run
        });
        let Some(old) = runs.filter(|run| run.len() >= files.max(2)).max_by_key(|run| run.len()) else {
            return Ok(joined);
        };
        let mut new = ParquetBytes::new(&schema)?;
        for file in old {
            each_batch(&logs.store, file, &schema, None, |batch| new.add(&batch)).await?;
        }
        let first = old.first().and_then(|file| file.stem().split('-').next()?.parse().ok()).unwrap_or(0);
        if logs.commit_numbered(table, (first, Some(new)), old, None).await? {
            joined += old.len();
        }
    }
}

/// Removes facts and blocks without submissions from their logs. Interrupted writers left them.
async fn remove_abandoned(logs: &mut Logs) -> Result<()> {
    let until = since_1970().saturating_sub(ABANDONED).as_millis() as i64;
    logs[Table::Submissions].refresh().await?;
    let batches: HashSet<Option<String>> =
        logs[Table::Submissions].files().into_iter().map(|file| file.batch).collect();
    for table in [Table::Facts, Table::Blocks] {
        let mut abandoned = logs[table].files();
        abandoned.retain(|file| file.written < until && !batches.contains(&file.batch));
        logs[table].commit_always(&[], &abandoned).await?;
    }
    Ok(())
}
