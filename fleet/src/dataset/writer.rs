// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Writer`]: adds submissions to a dataset. [`Writer::commit`] makes all added submissions part of it at once.
//!
//! Several programs can write at the same time. Separate commits assign the numbers of subjects, submitters and submissions before a file contains them.
//! If another writer's commit comes first, the numbers are assigned again.

use super::catalog::{Committed, FORGOTTEN, File, Table};
use super::dictionary::{Dictionary, Moved};
use super::maintenance::is_late;
use super::prepared::Prepared;
use super::tables::{self, Facts, Shared, SubmissionRow};
use super::{Dataset, Logs, bucket_of, name_in_bucket, random, rows, write as write_file};
use crate::secret::Keys;
use crate::submission::{LARGEST_NUMBER, Origin, Submission};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::SystemTime;

/// Rows that a bucket collects before they are written to a file.
const ROWS_OF_FILE: usize = 2_000_000;
/// Rows that all buckets together collect.
const ROWS_AT_ONCE: usize = 5_000_000;
/// Maximum number of attempts to reserve numbers, if other writers come first.
const TRIES: usize = 1000;
/// Number in commits of submitters: the number of the next submission.
const NEXT_SUBMISSION: &str = "sediment-submissions";

/// Adds submissions to a dataset.
#[derive(Debug)]
pub struct Writer {
    logs: Logs,
    id: String,
    keys: Keys,
    dictionary: Arc<RwLock<Dictionary>>,
    known: HashSet<u128>,
    /// Name of the next commit.
    batch: String,
    pending: BTreeMap<u64, Pending>,
    submissions: Vec<SubmissionRow>,
    /// Packages, versions and days; blocks are summed by them.
    parts: HashMap<(String, String, i32), u32>,
    rows: usize,
    written: BTreeMap<Table, Vec<File>>,
    next_submission: i32,
    /// Submissions below this number have their final number.
    numbered: i32,
    /// How often names were forgotten when the dictionary was read.
    forgotten: Option<i64>,
}

/// Rows of a bucket that are not in a file yet.
#[derive(Debug, Default)]
struct Pending {
    facts: Facts,
    blocks: HashMap<BlockKey, BlockSum, foldhash::fast::RandomState>,
}

/// Blocks with the same package, version, day, build, submitter, class of hosts and unit are summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BlockKey {
    subject: i32,
    submitter: i32,
    /// Number of the package, version and day.
    part: u32,
    host_class: String,
    build_id: Option<String>,
    source: String,
    /// Executions and samples are not added to each other.
    unit: Option<String>,
}

#[derive(Debug, Default)]
struct BlockSum {
    weight: Option<i64>,
    /// The newest submission in the sum.
    submission: i32,
}

/// Result of adding a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was added.
    New,
    /// The dataset already contains the same bytes of the same submitter.
    Duplicate,
}

/// True for the error of a commit that became invalid by another program's commit. The submissions must be added again, with a new writer.
#[must_use]
pub fn is_to_be_tried_again(error: &Error) -> bool {
    error.code() == ErrorCode::IncompatibleInputs && error.to_string().contains(AGAIN)
}

const AGAIN: &str = "another program added the same submissions, or forgot some, at this moment";

impl Writer {
    /// Opens a dataset for writing; makes an empty dataset if there is none.
    ///
    /// # Errors
    /// Fails if the dataset is damaged, its secret is missing, or the store fails.
    pub async fn open(place: &str, secret: Option<&Path>) -> Result<Self> {
        let (logs, keys) = Logs::open_or_create(place, secret).await?;
        let dataset = logs.dataset()?;
        let dictionary = Arc::new(RwLock::new(dataset.dictionary().await?));
        let next_submission = next_submission(&logs).await?;
        let forgotten = logs.submissions.number(FORGOTTEN).await?;
        let mut writer = Self {
            id: dataset.id.clone(),
            logs,
            keys,
            dictionary,
            known: HashSet::new(),
            batch: random(),
            pending: BTreeMap::new(),
            submissions: Vec::new(),
            parts: HashMap::new(),
            rows: 0,
            written: BTreeMap::new(),
            next_submission,
            numbered: next_submission,
            forgotten,
        };
        let files: Vec<&File> = dataset.of(Table::Submissions).iter().collect();
        writer.known.extend(writer.identities(&files).await?);
        Ok(writer)
    }

    /// Text that identifies the dataset.
    #[must_use]
    pub fn dataset_id(&self) -> &str {
        &self.id
    }

    /// The dataset as of the last commit.
    ///
    /// # Errors
    /// Fails if the dataset does not exist any more.
    pub fn dataset(&self) -> Result<Dataset> {
        self.logs.dataset()
    }

    /// Makes keys of submitters and identities.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Identities of all submissions.
    #[must_use]
    pub fn known(&self) -> &HashSet<u128> {
        &self.known
    }

    /// Numbers of all subjects, for preparing submissions.
    #[must_use]
    pub fn dictionary(&self) -> &Arc<RwLock<Dictionary>> {
        &self.dictionary
    }

    /// Looks up the subjects of a submission, so that it can be added.
    #[must_use]
    pub fn prepare(&self, submission: Submission) -> Prepared {
        prepare(&self.dictionary, submission)
    }

    async fn identities(&self, files: &[&File]) -> Result<Vec<u128>> {
        let mut found = Vec::new();
        for batch in rows(&self.logs.store, files, &tables::submissions_schema()).await? {
            let texts = (0..batch.num_rows()).filter_map(|row| tables::text_at(&batch, 11, row));
            found.extend(texts.filter_map(|text| u128::from_str_radix(text, 16).ok()));
        }
        Ok(found)
    }

    /// Adds a submission. The identity is a digest of its bytes.
    ///
    /// # Errors
    /// Fails if there are no more numbers for submissions.
    pub fn add(&mut self, prepared: &Prepared, origin: &Origin, identity: u128) -> Result<Added> {
        if !self.known.insert(identity) {
            return Ok(Added::Duplicate);
        }
        let number = self.next_submission;
        self.next_submission = number.checked_add(1).ok_or_else(used_up)?;
        let next = self.parts.len() as u32;
        let part = (prepared.package.clone(), prepared.version.clone(), origin.day.0);
        let part = *self.parts.entry(part).or_insert(next);
        let mut dictionary = write(&self.dictionary);
        let shared = Shared {
            submission: number,
            submitter: dictionary.submitter(&origin.submitter),
            host_class: origin.host_class.clone(),
            source: prepared.source.clone(),
        };
        let pending = self.pending.entry(bucket_of(&prepared.package)).or_default();
        for fact in &prepared.facts {
            let subject = fact.subject(&mut dictionary, prepared.epoch);
            let build_id = fact.build_id.and_then(|id| prepared.build_ids.get(id)).map(String::as_str);
            if fact.is_of_blocks {
                let key = BlockKey {
                    subject,
                    submitter: shared.submitter,
                    part,
                    host_class: shared.host_class.clone(),
                    build_id: build_id.map(str::to_owned),
                    source: shared.source.clone(),
                    unit: prepared.block_unit.clone(),
                };
                pending.add_block(&shared, key, fact.weight);
            } else {
                pending.facts.add(&shared, subject, fact.weight, fact.first, build_id);
            }
        }
        self.rows += prepared.facts.len();
        self.submissions.push(SubmissionRow {
            shared,
            package: prepared.package.clone(),
            version: prepared.version.clone(),
            day: origin.day.0,
            arch: prepared.arch.clone(),
            total: prepared.total,
            inputs: prepared.inputs,
            functions: prepared.functions as i64,
            identity,
            sums: prepared.sums,
            block_unit: prepared.block_unit.clone(),
            nameless: prepared.nameless.clone(),
        });
        Ok(Added::New)
    }

    /// Writes files for buckets that have collected many rows. The next commit makes them part of the dataset.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn spill(&mut self) -> Result<()> {
        let size = |pending: &Pending| pending.facts.len() + pending.blocks.len();
        let mut due: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, pending)| size(pending) >= ROWS_OF_FILE)
            .map(|(bucket, _)| *bucket)
            .collect();
        if due.is_empty() && self.rows > ROWS_AT_ONCE {
            due.extend(
                self.pending.iter().max_by_key(|(_, pending)| size(pending)).map(|(bucket, _)| *bucket),
            );
        }
        if !due.is_empty() {
            self.settle().await?;
        }
        for bucket in due {
            self.write(bucket).await?;
        }
        Ok(())
    }

    /// Makes all added submissions part of the dataset. If this fails, none of them is.
    ///
    /// # Errors
    /// Fails if the store fails, or if another writer added some of them meanwhile ([`is_to_be_tried_again`]).
    pub async fn commit(&mut self) -> Result<()> {
        if self.submissions.is_empty() {
            return Ok(());
        }
        self.settle().await?;
        let buckets: Vec<u64> = self.pending.keys().copied().collect();
        for bucket in buckets {
            self.write(bucket).await?;
        }
        let written = std::mem::take(&mut self.written);
        let of = |table| written.get(&table).map_or(&[][..], Vec::as_slice);
        let (facts, blocks) = (of(Table::Facts), of(Table::Blocks));
        let batch = std::mem::replace(&mut self.batch, random());
        let rows = tables::submissions(&std::mem::take(&mut self.submissions))?;
        let name = format!("{}/{batch}-{}-{}.parquet", Table::Submissions.name(), facts.len(), blocks.len());
        let store = self.logs.store.clone();
        let file = write_file(&store, name, std::slice::from_ref(&rows), Some(&batch)).await?;
        // Files must be durable before a log lists them.
        store.settle()?;
        let begun = SystemTime::now();
        self.logs.facts.commit_always(facts, &[]).await?;
        self.logs.blocks.commit_always(blocks, &[]).await?;
        let mut known: HashSet<String> =
            self.logs.submissions.files().into_iter().map(|file| file.name).collect();
        let own: HashSet<u128> = (0..rows.num_rows())
            .filter_map(|row| u128::from_str_radix(tables::text_at(&rows, 11, row)?, 16).ok())
            .collect();
        loop {
            let now = self.logs.submissions.files();
            let others: Vec<&File> = now.iter().filter(|file| !known.contains(&file.name)).collect();
            let added = self.identities(&others).await?;
            let is_outdated = self.logs.submissions.number(FORGOTTEN).await? != self.forgotten;
            if is_outdated || is_late(begun) || added.iter().any(|identity| own.contains(identity)) {
                self.logs.facts.commit_always(&[], facts).await?;
                self.logs.blocks.commit_always(&[], blocks).await?;
                return Err(again());
            }
            self.known.extend(added);
            known.extend(now.iter().map(|file| file.name.clone()));
            if self.logs.submissions.commit(std::slice::from_ref(&file), &[], None).await? == Committed::Done
            {
                break;
            }
        }
        self.parts.clear();
        Ok(())
    }

    /// Assigns final numbers to everything that was added.
    async fn settle(&mut self) -> Result<()> {
        self.settle_submitters().await?;
        self.settle_subjects().await
    }

    /// Stores new submitters and reserves the numbers of submissions, in one commit.
    async fn settle_submitters(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let (news, kept) = {
                let dictionary = write(&self.dictionary);
                (dictionary.new_submitters()?, dictionary.kept().1)
            };
            let taken = self.next_submission - self.numbered;
            if news.is_none() && taken == 0 {
                return Ok(());
            }
            let first = next_submission(&self.logs).await?;
            let end = first.checked_add(taken).ok_or_else(used_up)?;
            let mut added = Vec::new();
            if let Some(rows) = news {
                let name = format!("{}/{kept:010}-{}.parquet", Table::Submitters.name(), random());
                added.push(write_file(&self.logs.store, name, &[rows], None).await?);
                self.logs.store.settle()?;
            }
            let before = self.logs.submitters.files();
            let number = (NEXT_SUBMISSION, i64::from(end));
            if self.logs.submitters.commit(&added, &[], Some(number)).await? == Committed::Done {
                write(&self.dictionary).submitters_are_kept();
                let from = self.numbered;
                self.renumber(&Moved::default(), &Moved::default(), (from, first - from));
                (self.next_submission, self.numbered) = (end, end);
                return Ok(());
            }
            for file in added {
                self.logs.store.remove(&file.name).await?;
            }
            let now = self.logs.submitters.files();
            let others = self.rows_of_others(&before, &now, &tables::submitters_schema()).await?;
            // Gaps in the numbers are forgotten submitters.
            let moved = write(&self.dictionary).give_way_to_submitters(&others).map_err(|_| again())?;
            self.renumber(&Moved::default(), &moved, (0, 0));
        }
        Err(always_faster())
    }

    async fn settle_subjects(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let (news, kept) = {
                let dictionary = write(&self.dictionary);
                (dictionary.new_subjects()?, dictionary.kept().0)
            };
            let Some(rows) = news else { return Ok(()) };
            let name = format!("{}/{kept:010}-{}.parquet", Table::Subjects.name(), random());
            let file = write_file(&self.logs.store, name, &[rows], None).await?;
            self.logs.store.settle()?;
            let before = self.logs.subjects.files();
            if self.logs.subjects.commit(std::slice::from_ref(&file), &[], None).await? == Committed::Done {
                write(&self.dictionary).subjects_are_kept();
                return Ok(());
            }
            self.logs.store.remove(&file.name).await?;
            let now = self.logs.subjects.files();
            let others = self.rows_of_others(&before, &now, &tables::subjects_schema()).await?;
            let moved = write(&self.dictionary).give_way_to_subjects(&others).map_err(|_| again())?;
            self.renumber(&moved, &Moved::default(), (0, 0));
        }
        Err(always_faster())
    }

    /// Rows after the ones that were known: rows of new files, which may be combined from older files.
    async fn rows_of_others(
        &self,
        before: &[File],
        now: &[File],
        schema: &datafusion::arrow::datatypes::SchemaRef,
    ) -> Result<Vec<datafusion::arrow::array::RecordBatch>> {
        let fresh: Vec<&File> = now.iter().filter(|file| !before.contains(file)).collect();
        rows(&self.logs.store, &fresh, schema).await
    }

    /// Gives final numbers to rows that are not in a file yet.
    fn renumber(&mut self, subjects: &Moved, submitters: &Moved, (from, by): (i32, i32)) {
        let submission = |number: i32| if number >= from { number + by } else { number };
        for pending in self.pending.values_mut() {
            pending.facts.renumber(|number| subjects.of(number), |number| submitters.of(number), submission);
            let blocks = std::mem::take(&mut pending.blocks);
            for (mut key, mut sum) in blocks {
                (key.subject, key.submitter) = (subjects.of(key.subject), submitters.of(key.submitter));
                sum.submission = submission(sum.submission);
                pending.blocks.insert(key, sum);
            }
        }
        for row in &mut self.submissions {
            row.shared.submission = submission(row.shared.submission);
            row.shared.submitter = submitters.of(row.shared.submitter);
        }
    }

    async fn write(&mut self, bucket: u64) -> Result<()> {
        let Some(mut pending) = self.pending.remove(&bucket) else { return Ok(()) };
        self.rows = self.rows.saturating_sub(pending.facts.len() + pending.blocks.len());
        let mut tables = Vec::new();
        if !pending.facts.is_empty() {
            tables.push((Table::Facts, pending.facts.finish()?));
        }
        if !pending.blocks.is_empty() {
            tables.push((Table::Blocks, pending.blocks_batch()?));
        }
        for (table, rows) in tables {
            let files = self.written.entry(table).or_default();
            let name = name_in_bucket(table, bucket, &self.batch, files.len());
            files.push(write_file(&self.logs.store, name, &[rows], Some(&self.batch)).await?);
        }
        if self.pending.is_empty() {
            self.rows = 0;
        }
        Ok(())
    }
}

/// The number of the next submission.
async fn next_submission(logs: &Logs) -> Result<i32> {
    let number = logs.submitters.number(NEXT_SUBMISSION).await?.unwrap_or(0);
    i32::try_from(number).map_err(|_| used_up())
}

fn again() -> Error {
    Error::new(ErrorCode::IncompatibleInputs, AGAIN).with_hint("run it again")
}

fn used_up() -> Error {
    Error::new(ErrorCode::Overflow, "a dataset has at most 2^31 submissions")
        .with_hint("begin another dataset")
}

fn always_faster() -> Error {
    Error::new(ErrorCode::Io, "the commit failed because other writers always came first")
        .with_hint("try again")
}

impl Pending {
    fn add_block(&mut self, shared: &Shared, key: BlockKey, weight: Option<i64>) {
        let (subject, build_id) = (key.subject, key.build_id.clone());
        let sum = self.blocks.entry(key).or_default();
        let added = match (sum.weight, weight) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        if added.is_some_and(|added| i128::from(added) >= LARGEST_NUMBER as i128) {
            // Too large for one row, so this sum becomes a separate row of the facts.
            self.facts.add(shared, subject, weight, None, build_id.as_deref());
            return;
        }
        (sum.weight, sum.submission) = (added, sum.submission.max(shared.submission));
    }

    /// Sums of blocks, sorted.
    fn blocks_batch(&mut self) -> Result<datafusion::arrow::array::RecordBatch> {
        let mut sums: Vec<(BlockKey, BlockSum)> = self.blocks.drain().collect();
        sums.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut rows = Facts::default();
        for (key, sum) in sums {
            let shared = Shared {
                submission: sum.submission,
                submitter: key.submitter,
                host_class: key.host_class,
                source: key.source,
            };
            rows.add(&shared, key.subject, sum.weight, None, key.build_id.as_deref());
        }
        rows.finish()
    }
}

/// Looks up the subjects of a submission; threads other than the writer's can call it.
#[must_use]
pub fn prepare(dictionary: &RwLock<Dictionary>, submission: Submission) -> Prepared {
    Prepared::new(submission, &dictionary.read().unwrap_or_else(PoisonError::into_inner))
}

/// Locks the dictionary to assign numbers. No thread panics while it holds the lock.
fn write(dictionary: &RwLock<Dictionary>) -> RwLockWriteGuard<'_, Dictionary> {
    dictionary.write().unwrap_or_else(PoisonError::into_inner)
}
