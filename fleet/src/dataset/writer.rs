// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Writer`]: adds submissions to a dataset. [`Writer::commit`] makes all added submissions part of it at once.
//!
//! Until rows are written to a file, they contain positions: the writer's own numbers of subjects, submitters and submissions. Separate commits then assign
//! the numbers of the dataset. Several programs can write at the same time: if another writer's commit comes first, the numbers are looked up again.

use super::catalog::{FORGOTTEN, TRIES, Table, TableFile, always_faster};
use super::contents::{Contents, ContentsRow};
use super::dictionary::{SubjectDictionary, SubjectKey, Words};
use super::store::Store;
use super::tables::{self, Facts, ParquetBytes, Shared, SubmissionRow, number_at};
use super::{
    Dataset, Files, Logs, bucket_of, each_batch, name_in_bucket, name_of_submissions, random, write,
};
use crate::errors::damaged;
use crate::secret::Keys;
use crate::submission::Origin;
use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{Decimal128Type, Int32Type};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::path::Path;

/// Rows that a bucket collects before they are written to a file.
const ROWS_OF_FILE: usize = 2_000_000;
/// Rows that all buckets together collect.
const ROWS_AT_ONCE: usize = 5_000_000;
/// Names that are kept for the next submissions.
pub(crate) const NAMES: usize = 250_000;
/// Rows after which a writer with little memory should commit.
const ROWS_OF_COMMIT: usize = 1_000_000;
/// Number in commits of submitters: the number of the next submission.
const NEXT_SUBMISSION: &str = "sediment-submissions";

/// Adds submissions to a dataset.
#[derive(Debug)]
pub struct Writer {
    logs: Logs,
    keys: Keys,
    /// Identities of all submissions.
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
    rows: usize,
    written: Files,
    /// How often names were forgotten when the first number was looked up.
    forgotten: Option<i64>,
}

/// Rows of a bucket that are not in a file yet.
#[derive(Debug, Default)]
struct Pending {
    facts: Facts,
    blocks: Facts,
}

impl Pending {
    fn len(&self) -> usize {
        self.facts.len() + self.blocks.len()
    }
}

/// True for the error of a commit that became invalid by another program's commit. The submissions must be added again, with a new writer.
pub(crate) fn is_to_be_tried_again(error: &Error) -> bool {
    error.code() == ErrorCode::IncompatibleInputs && error.to_string().contains(AGAIN)
}

const AGAIN: &str = "another program added the same submissions, or forgot some, at this moment";

impl Writer {
    /// Opens a dataset for writing; makes an empty dataset if there is none.
    pub async fn open(place: &str, secret: Option<&Path>) -> Result<Self> {
        let (logs, keys) = Logs::open_or_create(place, secret).await?;
        let submissions = &logs[Table::Submissions];
        let known = identities(&logs.store, &submissions.files()).await?.into_iter().collect();
        let forgotten = submissions.number(FORGOTTEN).await?;
        Ok(Self {
            logs,
            keys,
            known,
            dictionary: SubjectDictionary::default(),
            subject_numbers: Vec::new(),
            submitters: Words::default(),
            submitter_numbers: Vec::new(),
            submission_numbers: Vec::new(),
            batch: random(),
            pending: BTreeMap::new(),
            submissions: Vec::new(),
            rows: 0,
            written: Files::new(),
            forgotten,
        })
    }

    /// The dataset as of the last commit.
    pub(crate) fn dataset(&self) -> Result<Dataset> {
        self.logs.dataset()
    }

    /// Makes keys of submitters and identities.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Identities of all submissions.
    pub(crate) fn known(&self) -> &HashSet<u128> {
        &self.known
    }

    /// Adds a submission. Returns false if the dataset already contains the identity: the same bytes of the same submitter.
    pub fn add(&mut self, contents: &Contents, origin: &Origin, identity: u128) -> Result<bool> {
        if self.known.contains(&identity) {
            return Ok(false);
        }
        let numbers = |words: &mut Words, own: &[String]| -> Vec<u32> {
            own.iter().map(|word| words.number(word)).collect()
        };
        let functions = numbers(&mut self.dictionary.functions, &contents.functions);
        let details = numbers(&mut self.dictionary.details, &contents.details);
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
            return Err(damaged("not the rows of a submission"));
        }
        self.known.insert(identity);
        let shared = Shared {
            submission: self.submissions.len() as i32,
            submitter: self.submitters.number(&origin.submitter) as i32,
            host_class: origin.host_class.clone(),
            source: contents.head.source.clone(),
        };
        let Pending { facts, blocks } = self.pending.entry(bucket_of(&contents.head.package)).or_default();
        let build_ids = [&mut *facts, &mut *blocks].map(|rows| rows.build_ids(&contents.build_ids));
        for (key, row) in contents.rows().filter_map(key) {
            let subject = self.dictionary.subject(key) as i32;
            let [of_facts, of_blocks] = &build_ids;
            let (rows, ids) =
                if row.kind.is_of_blocks() { (&mut *blocks, of_blocks) } else { (&mut *facts, of_facts) };
            let build_id = row.build_id.and_then(|at| ids.get(at as usize)).copied();
            rows.add(&shared, subject, row.weight, row.first, build_id);
        }
        self.rows += contents.len();
        self.submissions.push(SubmissionRow {
            shared,
            day: origin.day.0,
            identity,
            functions: contents.functions.len() as i64,
            head: contents.head.clone(),
        });
        Ok(true)
    }

    /// True if a commit now would keep the memory of the writer small.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= ROWS_OF_COMMIT || self.dictionary.len() >= NAMES && !self.submissions.is_empty()
    }

    /// Writes files for buckets that have collected many rows. The next commit makes them part of the dataset.
    pub async fn spill(&mut self) -> Result<()> {
        let all = self.pending.iter().map(|(bucket, pending)| (pending.len(), *bucket));
        let mut due: Vec<u64> =
            all.clone().filter(|(rows, _)| *rows >= ROWS_OF_FILE).map(|(_, bucket)| bucket).collect();
        if due.is_empty() && self.rows > ROWS_AT_ONCE {
            due.extend(all.max().map(|(_, bucket)| bucket));
        }
        self.write(due).await
    }

    /// Makes all added submissions part of the dataset. If this fails, none of them is, for example because another writer added some of them
    /// meanwhile ([`is_to_be_tried_again`]).
    pub async fn commit(&mut self) -> Result<()> {
        if self.submissions.is_empty() {
            return Ok(());
        }
        self.assign_numbers().await?;
        self.write(self.pending.keys().copied().collect()).await?;
        let batch = std::mem::replace(&mut self.batch, random());
        let mut new = std::mem::take(&mut self.written);
        let mut rows = std::mem::take(&mut self.submissions);
        for row in &mut rows {
            row.shared.submission = number_at(&self.submission_numbers, row.shared.submission);
            row.shared.submitter = number_at(&self.submitter_numbers, row.shared.submitter);
        }
        let own: HashSet<u128> = rows.iter().map(|row| row.identity).collect();
        let store = self.logs.store.clone();
        let name = name_of_submissions(&batch, &new);
        let file = write(&store, name, ParquetBytes::of(&tables::submissions(&rows)?)?, Some(&batch)).await?;
        new.insert(Table::Submissions, vec![file]);
        let mut seen: HashSet<TableFile> = self.logs[Table::Submissions].files().into_iter().collect();
        let is_valid = async |submissions: &super::catalog::TableLog| {
            let others = submissions.files().into_iter().filter(|file| !seen.contains(file));
            let others: Vec<TableFile> = others.collect();
            let added = identities(&store, &others).await?;
            seen.extend(others);
            let is_valid = submissions.number(FORGOTTEN).await? == self.forgotten
                && !added.iter().any(|identity| own.contains(identity));
            self.known.extend(added);
            Ok(is_valid)
        };
        if !self.logs.commit_batch(&new, &[], is_valid).await? {
            return Err(Error::new(ErrorCode::IncompatibleInputs, AGAIN).with_hint("run it again"));
        }
        self.submission_numbers.clear();
        if self.dictionary.len() > NAMES {
            self.dictionary = SubjectDictionary::default();
            self.subject_numbers.clear();
        }
        Ok(())
    }

    /// Assigns numbers of the dataset to everything that was added.
    async fn assign_numbers(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            if self.assign_submitters().await? && self.assign_subjects().await? {
                return Ok(());
            }
        }
        Err(always_faster())
    }

    /// Stores new submitters and reserves the numbers of submissions, in one commit. `false`: another writer came first.
    async fn assign_submitters(&mut self) -> Result<bool> {
        let taken = (self.submissions.len() - self.submission_numbers.len()) as i32;
        let open = self.submitter_numbers.len() as u32..self.submitters.len() as u32;
        if open.is_empty() && taken == 0 {
            return Ok(true);
        }
        let keys: Vec<&str> = open.filter_map(|at| self.submitters.get(at)).collect();
        let (mut found, mut next) = (keys.iter().map(|key| (*key, -1)).collect::<HashMap<_, _>>(), 0);
        let log = &self.logs[Table::Submitters];
        for file in if keys.is_empty() { Vec::new() } else { log.files() } {
            each_batch(&self.logs.store, &file, &tables::submitters_schema(), None, |batch| {
                for (row, number) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
                    next = next.max(number + 1);
                    if let Some(place) = tables::text_at(&batch, 1, row).and_then(|key| found.get_mut(key)) {
                        *place = *number;
                    }
                }
                Ok(())
            })
            .await?;
        }
        found.retain(|_, number| *number >= 0);
        let (numbers, new) = numbered(keys, &found, next);
        let used_up = || {
            Error::new(ErrorCode::Overflow, "a dataset has at most 2^31 submissions")
                .with_hint("begin another dataset")
        };
        let first = log.number(NEXT_SUBMISSION).await?.unwrap_or(0);
        let first = i32::try_from(first).map_err(|_| used_up())?;
        let end = first.checked_add(taken).ok_or_else(used_up)?;
        let is_empty = new.is_empty();
        let rows = (next..).zip(new).map(|(number, key)| (number, [Some(key)]));
        let rows = tables::texts(tables::submitters_schema(), rows)?;
        let rows = if is_empty { None } else { Some(ParquetBytes::of(&rows)?) };
        let end_of = Some((NEXT_SUBMISSION, i64::from(end)));
        let is_done = self.logs.commit_numbered(Table::Submitters, (next, rows), &[], end_of).await?;
        if is_done {
            self.submitter_numbers.extend(numbers);
            self.submission_numbers.extend(first..end);
        }
        Ok(is_done)
    }

    /// Finds the numbers of subjects that the dataset has, and stores the others. Reads digests of the dataset's subjects, but not their names. `false`:
    /// another writer came first.
    async fn assign_subjects(&mut self) -> Result<bool> {
        let open = self.subject_numbers.len() as u32..self.dictionary.len() as u32;
        if open.is_empty() {
            return Ok(true);
        }
        let texts = |at| self.dictionary.texts_at(at).unwrap_or_default();
        let digests: Vec<i128> = open.clone().map(|at| self.keys.subject(&texts(at))).collect();
        let mut found: HashMap<i128, i32> = digests.iter().map(|digest| (*digest, -1)).collect();
        let next = self.find_subjects(&mut found).await?;
        found.retain(|_, number| *number >= 0);
        let (numbers, new) = numbered(digests.clone(), &found, next);
        let mut is_done = true;
        if !new.is_empty() {
            let is_new = |(_, digest): &(u32, i128)| !found.contains_key(digest);
            let rows = (next..).zip(open.zip(digests).filter(is_new));
            let rows = rows.map(|(number, (at, _))| (number, texts(at)));
            let rows = tables::with_digests(&tables::texts(tables::subjects_schema(), rows)?, new)?;
            let rows = (next, Some(ParquetBytes::of(&rows)?));
            is_done = self.logs.commit_numbered(Table::Subjects, rows, &[], None).await?;
        }
        if is_done {
            self.subject_numbers.extend(numbers);
        }
        Ok(is_done)
    }

    /// Fills in the numbers of subjects by their digests. Returns the number of the next subject.
    async fn find_subjects(&self, found: &mut HashMap<i128, i32>) -> Result<i32> {
        let schema = tables::only(&tables::subjects_schema(), &["subject", tables::FORGOTTEN, "digest"]);
        let mut next = 0;
        for file in self.logs[Table::Subjects].files() {
            each_batch(&self.logs.store, &file, &schema, None, |batch| {
                let (marks, digests) =
                    (batch.column(1).as_boolean(), batch.column(2).as_primitive::<Decimal128Type>());
                for (row, number) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
                    next = next.max(number + 1);
                    // Numbers of names that are being forgotten are not assigned again. Forgotten names have no digest.
                    let is_valid = digests.is_valid(row) && !(marks.is_valid(row) && marks.value(row));
                    if let Some(place) = found.get_mut(&digests.value(row)).filter(|_| is_valid) {
                        *place = *number;
                    }
                }
                Ok(())
            })
            .await?;
        }
        Ok(next)
    }

    /// Writes the rows of buckets.
    async fn write(&mut self, buckets: Vec<u64>) -> Result<()> {
        if !buckets.is_empty() {
            self.assign_numbers().await?;
        }
        for bucket in buckets {
            let Some(pending) = self.pending.remove(&bucket) else { continue };
            self.rows = self.rows.saturating_sub(pending.len());
            for (table, rows) in [(Table::Facts, pending.facts), (Table::Blocks, pending.blocks)] {
                if rows.len() > 0 {
                    let rows = rows.finish(
                        &self.subject_numbers,
                        &self.submitter_numbers,
                        &self.submission_numbers,
                    )?;
                    let files = self.written.entry(table).or_default();
                    let name = name_in_bucket(table, bucket, &self.batch, files.len());
                    files.push(
                        write(&self.logs.store, name, ParquetBytes::of(&rows)?, Some(&self.batch)).await?,
                    );
                }
            }
        }
        Ok(())
    }
}

/// Numbers of keys: those that were found; the others are new and get the next numbers.
fn numbered<K: Hash + Eq + Copy>(keys: Vec<K>, found: &HashMap<K, i32>, next: i32) -> (Vec<i32>, Vec<K>) {
    let mut new = Vec::new();
    let numbers = keys.into_iter().map(|key| {
        found.get(&key).copied().unwrap_or_else(|| {
            new.push(key);
            next + new.len() as i32 - 1
        })
    });
    (numbers.collect(), new)
}

/// Identities of the submissions in files.
async fn identities(store: &Store, files: &[TableFile]) -> Result<Vec<u128>> {
    let mut found = Vec::new();
    let schema = tables::only(&tables::submissions_schema(), &["identity"]);
    for file in files {
        each_batch(store, file, &schema, None, |batch: RecordBatch| {
            let identity = |row| u128::from_str_radix(tables::text_at(&batch, 0, row)?, 16).ok();
            found.extend((0..batch.num_rows()).filter_map(identity));
            Ok(())
        })
        .await?;
    }
    Ok(found)
}
