// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Writer`]: adds submissions to a dataset. What was added is part of it after [`Writer::commit`], as a whole.

use super::dictionary::Dictionary;
use super::manifest::{File, Partition, Table};
use super::prepared::Prepared;
use super::tables::{self, Facts, Shared, SubmissionRow};
use super::{Dataset, Selection};
use crate::submission::{LARGEST_NUMBER, Origin, Submission, identity};
use nix::fcntl::{Flock, FlockArg};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// Rows that a partition gathers before they become a file.
const ROWS_OF_FILE: usize = 2_000_000;
/// Rows that all partitions gather.
const ROWS_AT_ONCE: usize = 5_000_000;

/// Adds submissions to a dataset. Only one writer of a folder exists at a time.
#[derive(Debug)]
pub struct Writer {
    dataset: Dataset,
    dictionary: Arc<RwLock<Dictionary>>,
    known: HashSet<u128>,
    pending: BTreeMap<Partition, Pending>,
    rows: usize,
    written: Vec<File>,
    next_submission: i32,
    _lock: Option<Flock<std::fs::File>>,
}

/// Rows of a partition that have no file yet.
#[derive(Debug, Default)]
struct Pending {
    facts: Facts,
    blocks: HashMap<BlockKey, BlockSum, foldhash::fast::RandomState>,
    submissions: Vec<SubmissionRow>,
}

/// Blocks of one build, submitter and class of hosts are added up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BlockKey {
    subject: i32,
    submitter: i32,
    host_class: String,
    build_id: Option<String>,
    source: String,
}

#[derive(Debug, Default)]
struct BlockSum {
    weight: Option<i64>,
    /// The newest submission in it.
    submission: i32,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was added.
    New,
    /// The same bytes of the same submitter are there already.
    Duplicate,
}

impl Writer {
    /// Opens a dataset for writing; an empty one is made where there is none.
    ///
    /// # Errors
    /// When another program writes to it, when it is damaged, or the store fails.
    pub async fn open(place: &str) -> Result<Self> {
        let store = super::store::Store::open(place)?;
        let lock = store.folder().map(lock).transpose()?;
        let dataset = Dataset::open_or_create(place).await?;
        let dictionary = Arc::new(RwLock::new(dataset.dictionary().await?));
        let files = dataset.files(Table::Submissions, &Selection::default());
        let mut known = HashSet::new();
        for batch in dataset.rows(&files, &tables::submissions_schema()).await? {
            let identities = (0..batch.num_rows()).filter_map(|row| tables::text_at(&batch, 11, row));
            known.extend(identities.filter_map(|text| u128::from_str_radix(text, 16).ok()));
        }
        let next_submission = dataset.manifest.next_submission;
        Ok(Self {
            dataset,
            dictionary,
            known,
            pending: BTreeMap::new(),
            rows: 0,
            written: Vec::new(),
            next_submission,
            _lock: lock,
        })
    }

    /// The dataset as of the last commit.
    #[must_use]
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// True if the dataset has these bytes of this submitter, or they were added.
    #[must_use]
    pub fn has(&self, submitter: &str, bytes: &[u8]) -> bool {
        self.known.contains(&identity(submitter, bytes))
    }

    /// Identities of all submissions.
    #[must_use]
    pub fn known(&self) -> &HashSet<u128> {
        &self.known
    }

    /// Numbers of all subjects, by which submissions are prepared.
    #[must_use]
    pub fn dictionary(&self) -> &Arc<RwLock<Dictionary>> {
        &self.dictionary
    }

    /// Looks the subjects of a submission up, so that it can be added.
    #[must_use]
    pub fn prepare(&self, submission: Submission) -> Prepared {
        prepare(&self.dictionary, submission)
    }

    /// Adds a submission, whose identity is of its bytes.
    ///
    /// # Errors
    /// When the numbers of submissions are used up.
    pub fn add(&mut self, prepared: &Prepared, origin: &Origin, identity: u128) -> Result<Added> {
        if !self.known.insert(identity) {
            return Ok(Added::Duplicate);
        }
        let number = self.next_submission;
        self.next_submission = number.checked_add(1).ok_or_else(|| {
            Error::new(ErrorCode::Overflow, "a dataset has at most 2^31 submissions")
                .with_hint("begin another dataset")
        })?;
        let mut dictionary = write(&self.dictionary);
        let shared = Shared {
            submission: number,
            submitter: dictionary.submitter(&origin.submitter),
            host_class: origin.host_class.clone(),
            source: prepared.source.clone(),
        };
        let partition = Partition {
            package: prepared.package.clone(),
            version: prepared.version.clone(),
            day: origin.day.0,
        };
        let pending = self.pending.entry(partition).or_default();
        for fact in &prepared.facts {
            let subject = fact.subject(&mut dictionary);
            let build_id = fact.build_id.and_then(|id| prepared.build_ids.get(id)).map(String::as_str);
            if fact.is_of_blocks {
                pending.add_block(&shared, subject, fact.weight, build_id);
            } else {
                pending.facts.add(&shared, subject, fact.weight, fact.first, build_id);
            }
        }
        self.rows += prepared.facts.len();
        pending.submissions.push(SubmissionRow {
            shared,
            package: prepared.package.clone(),
            version: prepared.version.clone(),
            day: origin.day.0,
            arch: prepared.arch.clone(),
            total: prepared.total,
            inputs: prepared.inputs,
            functions: prepared.functions as i64,
            identity,
        });
        Ok(Added::New)
    }

    /// Writes the files of partitions that have gathered many rows; they belong to the dataset after the next commit.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn spill(&mut self) -> Result<()> {
        let due = |pending: &Pending| pending.facts.len() + pending.blocks.len() >= ROWS_OF_FILE;
        let full: Vec<Partition> = self
            .pending
            .iter()
            .filter(|(_, pending)| due(pending))
            .map(|(partition, _)| partition.clone())
            .collect();
        for partition in full {
            self.write(&partition).await?;
        }
        while self.rows > ROWS_AT_ONCE {
            let largest =
                self.pending.iter().max_by_key(|(_, pending)| pending.facts.len() + pending.blocks.len());
            let Some((partition, _)) = largest else { break };
            let partition = partition.clone();
            self.write(&partition).await?;
        }
        Ok(())
    }

    /// Makes all that was added part of the dataset; nothing of it is, if this fails.
    ///
    /// # Errors
    /// When the store fails, or another program wrote to the dataset.
    pub async fn commit(&mut self, log_segment: Option<u64>) -> Result<()> {
        let partitions: Vec<Partition> = self.pending.keys().cloned().collect();
        for partition in partitions {
            self.write(&partition).await?;
        }
        let mut manifest = self.dataset.manifest.clone();
        let news = {
            let dictionary = write(&self.dictionary);
            [(Table::Subjects, dictionary.new_subjects()?), (Table::Submitters, dictionary.new_submitters()?)]
        };
        let mut files = std::mem::take(&mut self.written);
        for (table, batch) in news {
            if let Some(batch) = batch {
                files.push(self.dataset.write(table, None, &[batch]).await?);
            }
        }
        if files.is_empty() && log_segment.is_none_or(|segment| segment == manifest.log_segment) {
            return Ok(());
        }
        manifest.files.extend(files);
        manifest.next_submission = self.next_submission;
        manifest.log_segment = log_segment.unwrap_or(manifest.log_segment);
        manifest.commit(&self.dataset.store).await?;
        self.dataset.manifest = manifest;
        write(&self.dictionary).is_kept();
        Ok(())
    }

    async fn write(&mut self, partition: &Partition) -> Result<()> {
        let Some(mut pending) = self.pending.remove(partition) else { return Ok(()) };
        self.rows = self.rows.saturating_sub(pending.facts.len());
        let mut tables = Vec::new();
        if !pending.facts.is_empty() {
            tables.push((Table::Facts, pending.facts.finish()?));
        }
        if !pending.blocks.is_empty() {
            tables.push((Table::Blocks, pending.blocks_batch()?));
        }
        tables.push((Table::Submissions, tables::submissions(&pending.submissions)?));
        for (table, batch) in tables {
            self.written.push(self.dataset.write(table, Some(partition), &[batch]).await?);
        }
        if self.pending.is_empty() {
            self.rows = 0;
        }
        Ok(())
    }
}

impl Pending {
    fn add_block(&mut self, shared: &Shared, subject: i32, weight: Option<i64>, build_id: Option<&str>) {
        let key = BlockKey {
            subject,
            submitter: shared.submitter,
            host_class: shared.host_class.clone(),
            build_id: build_id.map(str::to_owned),
            source: shared.source.clone(),
        };
        let sum = self.blocks.entry(key).or_default();
        let added = match (sum.weight, weight) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        if added.is_some_and(|added| i128::from(added) >= LARGEST_NUMBER as i128) {
            // Too large for one row: this one stays a row of its own among the facts.
            self.facts.add(shared, subject, weight, None, build_id);
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

/// Looks the subjects of a submission up, as other threads than the writer's do.
#[must_use]
pub fn prepare(dictionary: &RwLock<Dictionary>, submission: Submission) -> Prepared {
    Prepared::new(submission, &dictionary.read().unwrap_or_else(PoisonError::into_inner))
}

/// The dictionary, to give numbers. No thread panics while it holds the lock.
fn write(dictionary: &RwLock<Dictionary>) -> RwLockWriteGuard<'_, Dictionary> {
    dictionary.write().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of a folder.
pub(super) fn lock(folder: &std::path::Path) -> Result<Flock<std::fs::File>> {
    let io = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::Io, error.to_string()).with_input(folder.join(".lock").display().to_string())
    };
    let file =
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(".lock"));
    let file = file.map_err(|error| io(&error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EWOULDBLOCK => {
            Error::new(ErrorCode::IncompatibleInputs, "another program writes to this dataset")
                .with_input(folder.display().to_string())
                .with_hint("wait until it ends, or stop the intake first")
        }
        other => io(&other),
    })
}
