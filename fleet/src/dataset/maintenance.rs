// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maintenance: combines batches, and forgets submissions. Batches are rewritten as one, and one commit of submissions replaces them.
//!
//! Readers of earlier snapshots continue to read the old files, which are removed from the store after a retention time. Writers are not stopped: the
//! writer whose commit comes second starts again from the new state.

use super::catalog::{Committed, FORGOTTEN, File, Log, Table, by_batch};
use super::store::Store;
use super::tables::{self, ParquetBytes};
use super::{Dataset, Logs, each_batch, name_in_bucket, no_dataset, random, write, write_rows};
use crate::day::Day;
use datafusion::arrow::array::{Array as _, AsArray as _, BooleanArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Date32Type, Int32Type};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum bytes of batches that are combined, because the new files are in memory until they are complete.
const JOINED: u64 = 64 << 20;
/// Maximum number of names in files that are combined.
const NAMES_JOINED: u64 = 1 << 20;
/// Facts without submissions that are older than this belong to a writer that was ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// True if facts of this age will soon count as abandoned. Their submissions then come too late, for example after a suspend.
pub(super) fn is_late(committed: SystemTime) -> bool {
    committed.elapsed().is_ok_and(|elapsed| elapsed >= ABANDONED / 2)
}

/// Submissions to forget: those that meet all given conditions.
#[derive(Debug, Clone, Default)]
pub struct Forgotten {
    /// Submissions of this submitter, by key.
    pub submitter: Option<String>,
    /// Submissions from before this day.
    pub before: Option<Day>,
}

/// Sums of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewritten {
    /// Number of removed submissions.
    pub submissions: u64,
    /// Number of removed rows, of all tables.
    pub rows: u64,
    /// Number of replaced or removed files.
    pub files: usize,
}

async fn open(place: &str) -> Result<Logs> {
    // Does not make the dataset if it does not exist.
    let store = Dataset::open(place).await?.store;
    Logs::open(&store).await?.ok_or_else(|| no_dataset(place))
}

/// Combines small batches, if there are at least `files` of them, and small files of subjects and submitters.
///
/// # Errors
/// Fails if the store fails.
pub async fn compact(place: &str, files: usize) -> Result<Rewritten> {
    let mut logs = open(place).await?;
    let mut done = Rewritten::default();
    loop {
        let batches = small_batches(&logs);
        if batches.len() < files.max(2) {
            break;
        }
        match replace(&mut logs, &batches, None).await? {
            Some(rewritten) => done.files += rewritten.files,
            // Another program combines them.
            None => break,
        }
    }
    let store = logs.store.clone();
    for (log, table) in [(&mut logs.subjects, Table::Subjects), (&mut logs.submitters, Table::Submitters)] {
        done.files += join_numbers(log, table, &store, files).await?;
    }
    remove_abandoned(&mut logs).await?;
    Ok(done)
}

/// Removes files from the store that no snapshot of the last hours needs.
///
/// # Errors
/// Fails if the store fails.
pub async fn vacuum(place: &str, hours: u32) -> Result<usize> {
    let mut logs = open(place).await?;
    let mut removed = 0;
    // A writer may be writing files that its next commit will list, so new files are kept for an hour.
    let all = hours >= 1;
    for log in logs.all_mut() {
        removed += log.vacuum(hours, all).await?;
    }
    Ok(removed)
}

/// Removes submissions from the newest snapshot. [`vacuum`] removes their files.
///
/// # Errors
/// Fails if there is no condition, if no submission meets the conditions, or if the store fails.
pub async fn forget(place: &str, what: &Forgotten) -> Result<Rewritten> {
    if what.submitter.is_none() && what.before.is_none() {
        return Err(Error::new(ErrorCode::Usage, "the submissions to forget need a condition")
            .with_hint("give --submitter, --before or both"));
    }
    let mut logs = open(place).await?;
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
    let mut tries = 0;
    loop {
        let mut is_clean = true;
        for file in logs.submissions.files() {
            let meant = meant(&logs.store, &file, submitter, what.before).await?;
            if meant.is_empty() {
                continue;
            }
            is_clean = false;
            let Some(batch) = file.batch else { continue };
            if let Some(rewritten) = replace(&mut logs, &[batch], Some(&meant)).await? {
                done.submissions += rewritten.submissions;
                done.rows += rewritten.rows;
                done.files += rewritten.files;
            }
            // The state has changed.
            break;
        }
        tries += 1;
        if is_clean || tries > 100_000 {
            break;
        }
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
    file: &File,
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
        logs.submissions.count_up(FORGOTTEN).await?;
    }
    Ok(of_keys + if marked > 0 { rewrite_subjects(logs, true).await? } else { 0 })
}

/// Marks subjects that are not used, or removes the names of marked subjects. Returns the number of replaced files.
async fn rewrite_subjects(logs: &mut Logs, is_blank: bool) -> Result<usize> {
    loop {
        logs.refresh().await?;
        let used = used_subjects(&logs.dataset()?).await?;
        let old = logs.subjects.files();
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
        let name = format!("{}/{:010}-{}.parquet", Table::Subjects.name(), 0, random());
        let file = write(&logs.store, name, new, None).await?;
        logs.store.settle()?;
        if logs.subjects.commit(&[file], &old, None).await? == Committed::Done {
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
        let old = logs.submitters.files();
        let keys = logs.dataset()?.submitters().await?;
        let gone = format!("forgotten-{number}");
        let rows =
            (0..).zip(&keys).map(|(at, key)| (at, [Some(if at == number { gone.as_str() } else { key })]));
        let rows = tables::texts(tables::submitters_schema(), rows)?;
        let name = format!("{}/{:010}-{}.parquet", Table::Submitters.name(), 0, random());
        let file = write_rows(&logs.store, name, &rows, None).await?;
        logs.store.settle()?;
        if logs.submitters.commit(&[file], &old, None).await? == Committed::Done {
            return Ok(old.len());
        }
    }
}

/// The batches to combine: the smallest, up to a total size.
fn small_batches(logs: &Logs) -> Vec<String> {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for file in logs.submissions.files() {
        *sizes.entry(file.batch.unwrap_or_default()).or_default() += file.bytes;
    }
    for file in logs.facts.files().into_iter().chain(logs.blocks.files()) {
        if let Some(size) = sizes.get_mut(&file.batch.unwrap_or_default()) {
            *size += file.bytes;
        }
    }
    let mut sizes: Vec<(u64, String)> = sizes.into_iter().map(|(batch, size)| (size, batch)).collect();
    sizes.sort();
    let mut sum = 0;
    let mut small = Vec::new();
    for (size, batch) in sizes {
        sum += size;
        if sum > JOINED {
            break;
        }
        small.push(batch);
    }
    small
}

/// Rewrites batches as one, without some submissions. `None`: another program replaced some of them meanwhile, and nothing was changed.
async fn replace(
    logs: &mut Logs,
    batches: &[String],
    without: Option<&HashSet<i32>>,
) -> Result<Option<Rewritten>> {
    let store = logs.store.clone();
    let is_meant = |file: &File| file.batch.as_ref().is_some_and(|batch| batches.contains(batch));
    let of = |log: &Log| -> Vec<File> { log.files().into_iter().filter(is_meant).collect() };
    let (submissions, facts, blocks) = (of(&logs.submissions), of(&logs.facts), of(&logs.blocks));
    if submissions.len() != batches.len() {
        logs.refresh().await?;
        return Ok(None);
    }
    let batch = random();
    let mut done =
        Rewritten { files: submissions.len() + facts.len() + blocks.len(), ..Rewritten::default() };
    let mut written: BTreeMap<Table, Vec<File>> = BTreeMap::new();
    for (table, old) in [(Table::Facts, &facts), (Table::Blocks, &blocks)] {
        let mut buckets: BTreeMap<u64, Vec<&File>> = BTreeMap::new();
        for file in old {
            buckets.entry(bucket_in(&file.name)).or_default().push(file);
        }
        for (bucket, files) in buckets {
            let kept = without_submissions(&store, &files, table, without, &mut done.rows).await?;
            if kept.rows() > 0 {
                let files = written.entry(table).or_default();
                let name = name_in_bucket(table, bucket, &batch, files.len());
                files.push(write(&store, name, kept, Some(&batch)).await?);
            }
        }
    }
    let of = |table| written.get(&table).map_or(&[][..], Vec::as_slice);
    let (new_facts, new_blocks) = (of(Table::Facts), of(Table::Blocks));
    let all: Vec<&File> = submissions.iter().collect();
    let kept = without_submissions(&store, &all, Table::Submissions, without, &mut done.submissions).await?;
    done.rows += done.submissions;
    let mut new_submissions = Vec::new();
    if kept.rows() > 0 {
        let name =
            format!("{}/{batch}-{}-{}.parquet", Table::Submissions.name(), new_facts.len(), new_blocks.len());
        new_submissions.push(write(&store, name, kept, Some(&batch)).await?);
    }
    store.settle()?;
    let begun = SystemTime::now();
    logs.facts.commit_always(new_facts, &[]).await?;
    logs.blocks.commit_always(new_blocks, &[]).await?;
    loop {
        let is_late = is_late(begun);
        if !is_late && logs.submissions.commit(&new_submissions, &submissions, None).await? == Committed::Done
        {
            break;
        }
        let now = logs.submissions.files();
        if is_late || !submissions.iter().all(|file| now.iter().any(|known| known.name == file.name)) {
            // If a batch is empty afterwards, a lost answer looks the same; checking again does no harm.
            logs.facts.commit_always(&[], new_facts).await?;
            logs.blocks.commit_always(&[], new_blocks).await?;
            logs.refresh().await?;
            return Ok(None);
        }
    }
    // These facts do not count any more.
    logs.facts.commit_always(&[], &facts).await?;
    logs.blocks.commit_always(&[], &blocks).await?;
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
    files: &[&File],
    table: Table,
    without: Option<&HashSet<i32>>,
    removed: &mut u64,
) -> Result<ParquetBytes> {
    let mut kept = ParquetBytes::new(&table.schema())?;
    for file in files {
        each_batch(store, file, &table.schema(), None, |batch| {
            let Some(without) = without else { return kept.add(&batch) };
            let column = batch.column_by_name("submission").ok_or_else(|| defect(&"no submission"))?;
            let numbers = column.as_primitive::<Int32Type>().values();
            let stays: BooleanArray = numbers.iter().map(|number| Some(!without.contains(number))).collect();
            *removed += (stays.len() - stays.true_count()) as u64;
            kept.add(&filter_record_batch(&batch, &stays).map_err(|error| defect(&error))?)
        })
        .await?;
    }
    Ok(kept)
}

/// Combines small files of subjects or submitters. Files with consecutive numbers are combined, because the order of files is that of the numbers.
async fn join_numbers(log: &mut Log, table: Table, store: &Store, files: usize) -> Result<usize> {
    let mut joined = 0;
    loop {
        let (old, mut rows) = (log.files(), 0);
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
        let mut new = ParquetBytes::new(&table.schema())?;
        for file in old {
            each_batch(store, file, &table.schema(), None, |batch| new.add(&batch)).await?;
        }
        let first = old.first().map_or("", |file| file.stem().split('-').next().unwrap_or_default());
        let file = write(store, format!("{}/{first}-{}.parquet", table.name(), random()), new, None).await?;
        store.settle()?;
        let count = old.len();
        let old = old.to_vec();
        if log.commit(&[file], &old, None).await? == Committed::Done {
            joined += count;
        }
    }
}

/// Removes facts and blocks without submissions from their logs. Interrupted writers left them.
async fn remove_abandoned(logs: &mut Logs) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = now.saturating_sub(ABANDONED).as_millis() as i64;
    logs.submissions.refresh().await?;
    let batches = by_batch(logs.submissions.files());
    for log in [&mut logs.facts, &mut logs.blocks] {
        let is_abandoned = |file: &File| {
            file.written < until && !file.batch.as_ref().is_some_and(|batch| batches.contains_key(batch))
        };
        let abandoned: Vec<File> = log.files().into_iter().filter(is_abandoned).collect();
        log.commit_always(&[], &abandoned).await?;
    }
    Ok(())
}

fn defect(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::Damaged, error.to_string())
}
