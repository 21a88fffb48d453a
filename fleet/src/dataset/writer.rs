// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Writer`]: adds submissions to a dataset. [`Writer::commit`] makes all added submissions part of it at once.
//!
//! Until rows are written to a file, they contain positions: the writer's own numbers of subjects, submitters and submissions. Separate commits then assign
//! the numbers of the dataset. Several programs can write at the same time: if another writer's commit comes first, the numbers are looked up again.

use super::catalog::{Committed, FORGOTTEN, File, Table};
use super::contents::{Contents, ContentsRow};
use super::dictionary::{SubjectDictionary, SubjectKey, Words};
use super::maintenance::is_late;
use super::tables::{self, Facts, Shared, SubmissionRow};
use super::{Dataset, Logs, bucket_of, each_batch, name_in_bucket, random, write_rows};
use crate::secret::Keys;
use crate::submission::{LARGEST_NUMBER, Origin};
use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{Decimal128Type, Int32Type};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::SystemTime;

/// Rows that a bucket collects before they are written to a file.
const ROWS_OF_FILE: usize = 2_000_000;
/// Rows that all buckets together collect.
const ROWS_AT_ONCE: usize = 5_000_000;
/// Names that are kept for the next submissions.
pub const NAMES: usize = 250_000;
/// Rows after which a writer with little memory should commit.
const ROWS_OF_COMMIT: usize = 1_000_000;
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
    known: HashSet<u128>,
    dictionary: SubjectDictionary,
    /// Numbers of the first subjects in the dictionary; the others have none yet.
    subject_numbers: Vec<i32>,
    submitters: Words,
    submitter_numbers: Vec<i32>,
    submission_numbers: Vec<i32>,
    /// Name of the next commit.
    batch: String,
    pending: BTreeMap<u64, Pending>,
    submissions: Vec<SubmissionRow>,
    /// Packages, versions and days; blocks are summed by them.
    parts: HashMap<(String, String, i32), u32>,
    rows: usize,
    written: BTreeMap<Table, Vec<File>>,
    /// How often names were forgotten when the first number was looked up.
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
        let forgotten = logs.submissions.number(FORGOTTEN).await?;
        let mut writer = Self {
            id: dataset.id.clone(),
            logs,
            keys,
            known: HashSet::new(),
            dictionary: SubjectDictionary::default(),
            subject_numbers: Vec::new(),
            submitters: Words::default(),
            submitter_numbers: Vec::new(),
            submission_numbers: Vec::new(),
            batch: random(),
            pending: BTreeMap::new(),
            submissions: Vec::new(),
            parts: HashMap::new(),
            rows: 0,
            written: BTreeMap::new(),
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

    async fn identities(&self, files: &[&File]) -> Result<Vec<u128>> {
        let mut found = Vec::new();
        let schema = tables::only(&tables::submissions_schema(), &["identity"]);
        for file in files {
            each_batch(&self.logs.store, file, &schema, None, |batch| {
                found.extend(identities_of(&batch, 0));
                Ok(())
            })
            .await?;
        }
        Ok(found)
    }

    /// Adds a submission. The identity is a digest of its bytes.
    ///
    /// # Errors
    /// Fails if the contents are damaged.
    pub fn add(&mut self, contents: &Contents, origin: &Origin, identity: u128) -> Result<Added> {
        if self.known.contains(&identity) {
            return Ok(Added::Duplicate);
        }
        let damaged = || Error::new(ErrorCode::Damaged, "not the rows of a submission");
        let dictionary = &mut self.dictionary;
        let numbers = |words: &mut Words, own: &[String]| -> Vec<u32> {
            own.iter().map(|word| words.number(word)).collect()
        };
        let functions = numbers(&mut dictionary.functions, &contents.functions);
        let details = numbers(&mut dictionary.details, &contents.details);
        let place = |places: &[u32], at: Option<u32>| match at {
            None => Some(None),
            Some(at) => places.get(at as usize).copied().map(Some),
        };
        let key = |row: Option<ContentsRow>| {
            let row = row?;
            let [function, callee] = [row.function, row.callee].map(|at| place(&functions, at));
            Some((SubjectKey::new(row.kind, function?, callee?, place(&details, row.detail)?), row))
        };
        if !contents.rows().all(|row| key(row).is_some()) {
            return Err(damaged());
        }
        self.known.insert(identity);
        let next = self.parts.len() as u32;
        let part = (contents.package.clone(), contents.version.clone(), origin.day.0);
        let part = *self.parts.entry(part).or_insert(next);
        let shared = Shared {
            submission: self.submissions.len() as i32,
            submitter: self.submitters.number(&origin.submitter) as i32,
            host_class: origin.host_class.clone(),
            source: contents.source.clone(),
        };
        let pending = self.pending.entry(bucket_of(&contents.package)).or_default();
        for (key, row) in contents.rows().filter_map(key) {
            let subject = self.dictionary.subject(key) as i32;
            let build_id =
                row.build_id.and_then(|at| contents.build_ids.get(at as usize)).map(String::as_str);
            if row.kind.is_of_blocks() {
                let key = BlockKey {
                    subject,
                    submitter: shared.submitter,
                    part,
                    host_class: shared.host_class.clone(),
                    build_id: build_id.map(str::to_owned),
                    source: shared.source.clone(),
                    unit: contents.block_unit.clone(),
                };
                pending.add_block(&shared, key, row.weight);
            } else {
                pending.facts.add(&shared, subject, row.weight, row.first, build_id);
            }
        }
        self.rows += contents.len();
        self.submissions.push(SubmissionRow {
            shared,
            package: contents.package.clone(),
            version: contents.version.clone(),
            day: origin.day.0,
            arch: contents.arch.clone(),
            total: contents.total,
            inputs: contents.inputs,
            functions: contents.functions.len() as i64,
            identity,
            sums: contents.sums(),
            block_unit: contents.block_unit.clone(),
            nameless: contents.nameless.clone(),
        });
        Ok(Added::New)
    }

    /// True if a commit now would keep the memory of the writer small.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS_OF_COMMIT || self.dictionary.len() >= NAMES && !self.submissions.is_empty()
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
        let mut rows = std::mem::take(&mut self.submissions);
        for row in &mut rows {
            row.shared.submission = number_at(&self.submission_numbers, row.shared.submission);
            row.shared.submitter = number_at(&self.submitter_numbers, row.shared.submitter);
        }
        let rows = tables::submissions(&rows)?;
        let name = format!("{}/{batch}-{}-{}.parquet", Table::Submissions.name(), facts.len(), blocks.len());
        let store = self.logs.store.clone();
        let file = write_rows(&store, name, &rows, Some(&batch)).await?;
        // Files must be durable before a log lists them.
        store.settle()?;
        let begun = SystemTime::now();
        self.logs.facts.commit_always(facts, &[]).await?;
        self.logs.blocks.commit_always(blocks, &[]).await?;
        let mut known: HashSet<String> =
            self.logs.submissions.files().into_iter().map(|file| file.name).collect();
        let own: HashSet<u128> = identities_of(&rows, 11).collect();
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
        self.submission_numbers.clear();
        if self.dictionary.len() > NAMES {
            self.dictionary = SubjectDictionary::default();
            self.subject_numbers.clear();
        }
        Ok(())
    }

    /// Assigns numbers of the dataset to everything that was added.
    async fn settle(&mut self) -> Result<()> {
        self.settle_submitters().await?;
        self.settle_subjects().await
    }

    /// Stores new submitters and reserves the numbers of submissions, in one commit.
    async fn settle_submitters(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let taken = (self.submissions.len() - self.submission_numbers.len()) as i32;
            let open = self.submitter_numbers.len() as u32..self.submitters.len() as u32;
            if open.is_empty() && taken == 0 {
                return Ok(());
            }
            let word = |at| self.submitters.get(at).unwrap_or_default();
            let mut found: HashMap<&str, i32> = open.clone().map(|at| (word(at), -1)).collect();
            let mut next = 0;
            let files = if found.is_empty() { Vec::new() } else { self.logs.submitters.files() };
            for file in files {
                each_batch(&self.logs.store, &file, &tables::submitters_schema(), None, |batch| {
                    for (row, number) in
                        batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate()
                    {
                        next = next.max(number + 1);
                        if let Some(place) =
                            tables::text_at(&batch, 1, row).and_then(|key| found.get_mut(key))
                        {
                            *place = *number;
                        }
                    }
                    Ok(())
                })
                .await?;
            }
            let (mut numbers, mut news) = (Vec::new(), Vec::new());
            for key in open.map(word) {
                numbers.push(match found.get(key) {
                    Some(number) if *number >= 0 => *number,
                    _ => {
                        news.push((next + news.len() as i32, [Some(key)]));
                        next + news.len() as i32 - 1
                    }
                });
            }
            let first = next_submission(&self.logs).await?;
            let end = first.checked_add(taken).ok_or_else(used_up)?;
            let mut added = Vec::new();
            if !news.is_empty() {
                let rows = tables::texts(tables::submitters_schema(), news.into_iter())?;
                let name = format!("{}/{next:010}-{}.parquet", Table::Submitters.name(), random());
                added.push(write_rows(&self.logs.store, name, &rows, None).await?);
                self.logs.store.settle()?;
            }
            let number = (NEXT_SUBMISSION, i64::from(end));
            if self.logs.submitters.commit(&added, &[], Some(number)).await? == Committed::Done {
                self.submitter_numbers.extend(numbers);
                self.submission_numbers.extend(first..end);
                return Ok(());
            }
            for file in added {
                self.logs.store.remove(&file.name).await?;
            }
        }
        Err(always_faster())
    }

    /// Finds the numbers of subjects that the dataset has, and stores the others. Reads digests of the dataset's subjects, but not their names.
    async fn settle_subjects(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let open = self.subject_numbers.len() as u32..self.dictionary.len() as u32;
            if open.is_empty() {
                return Ok(());
            }
            let digests: Vec<i128> = open
                .clone()
                .filter_map(|at| Some(self.keys.subject(&self.dictionary.texts_at(at)?)))
                .collect();
            let mut found: HashMap<i128, i32> = digests.iter().map(|digest| (*digest, -1)).collect();
            let next = self.find_subjects(&mut found).await?;
            let (mut numbers, mut news, mut of_news) = (Vec::new(), Vec::new(), Vec::new());
            for (at, digest) in open.zip(digests) {
                numbers.push(match found.get(&digest) {
                    Some(number) if *number >= 0 => *number,
                    _ => {
                        let number = next + news.len() as i32;
                        news.push(at);
                        of_news.push(digest);
                        number
                    }
                });
            }
            if news.is_empty() {
                self.subject_numbers.extend(numbers);
                return Ok(());
            }
            let texts =
                (next..).zip(news).filter_map(|(number, at)| Some((number, self.dictionary.texts_at(at)?)));
            let rows = tables::texts(tables::subjects_schema(), texts)?;
            let rows = tables::with_digests(&rows, of_news)?;
            let name = format!("{}/{next:010}-{}.parquet", Table::Subjects.name(), random());
            let file = write_rows(&self.logs.store, name, &rows, None).await?;
            self.logs.store.settle()?;
            if self.logs.subjects.commit(std::slice::from_ref(&file), &[], None).await? == Committed::Done {
                self.subject_numbers.extend(numbers);
                return Ok(());
            }
            self.logs.store.remove(&file.name).await?;
        }
        Err(always_faster())
    }

    /// Fills in the numbers of subjects by their digests. Returns the number of the next subject.
    async fn find_subjects(&self, found: &mut HashMap<i128, i32>) -> Result<i32> {
        let all = tables::subjects_schema();
        let short = tables::only(&all, &["subject", tables::FORGOTTEN, "digest"]);
        let mut next = 0;
        for file in self.logs.subjects.files() {
            let mut lacks_digests = false;
            each_batch(&self.logs.store, &file, &short, None, |batch| {
                let (marks, digests) =
                    (batch.column(1).as_boolean(), batch.column(2).as_primitive::<Decimal128Type>());
                lacks_digests |= digests.null_count() > 0;
                for (row, number) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
                    next = next.max(number + 1);
                    // Numbers of names that are being forgotten are not assigned again.
                    let is_valid = digests.is_valid(row) && !(marks.is_valid(row) && marks.value(row));
                    if let Some(place) = found.get_mut(&digests.value(row)).filter(|_| is_valid) {
                        *place = *number;
                    }
                }
                Ok(())
            })
            .await?;
            if lacks_digests {
                // Earlier versions did not write digests; forgotten names have none.
                each_batch(&self.logs.store, &file, &all, None, |batch| {
                    self.find_by_names(&batch, found);
                    Ok(())
                })
                .await?;
            }
        }
        Ok(next)
    }

    fn find_by_names(&self, batch: &RecordBatch, found: &mut HashMap<i128, i32>) {
        let (marks, digests) = (batch.column(9).as_boolean(), batch.column(10));
        for (row, number) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
            let texts = [1, 2, 3, 4, 5, 6, 7, 8].map(|column| tables::text_at(batch, column, row));
            let is_valid = digests.is_null(row) && !(marks.is_valid(row) && marks.value(row));
            let has_name = texts.iter().skip(1).any(Option::is_some);
            if let Some(place) = found.get_mut(&self.keys.subject(&texts)).filter(|_| is_valid && has_name) {
                *place = *number;
            }
        }
    }

    async fn write(&mut self, bucket: u64) -> Result<()> {
        let Some(mut pending) = self.pending.remove(&bucket) else { return Ok(()) };
        pending.number(&self.subject_numbers, &self.submitter_numbers, &self.submission_numbers);
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
            files.push(write_rows(&self.logs.store, name, &rows, Some(&self.batch)).await?);
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

/// The number of a position.
fn number_at(numbers: &[i32], position: i32) -> i32 {
    numbers.get(position as usize).copied().unwrap_or(-1)
}

fn identities_of(submissions: &RecordBatch, column: usize) -> impl Iterator<Item = u128> {
    (0..submissions.num_rows())
        .filter_map(move |row| u128::from_str_radix(tables::text_at(submissions, column, row)?, 16).ok())
}

impl Pending {
    /// Replaces positions by numbers.
    fn number(&mut self, subjects: &[i32], submitters: &[i32], submissions: &[i32]) {
        let [subjects, submitters, submissions] =
            [subjects, submitters, submissions].map(|numbers| move |at| number_at(numbers, at));
        self.facts.renumber(subjects, submitters, submissions);
        let numbered = std::mem::take(&mut self.blocks).into_iter().map(|(mut key, mut sum)| {
            (key.subject, key.submitter) = (subjects(key.subject), submitters(key.submitter));
            sum.submission = submissions(sum.submission);
            (key, sum)
        });
        self.blocks = numbered.collect();
    }

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
