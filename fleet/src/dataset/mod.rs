// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Dataset`]: submissions as rows in Parquet files, in a folder or an object store. Delta tables list the files.
//!
//! [`catalog`] is the log of a table, [`tables`] defines the columns, and [`dictionary`] contains names of subjects. [`contents`] are
//! the rows of a submission, and [`writer`] adds them. [`maintenance`] combines, forgets and removes files; [`check`] is `fsck`.
//!
//! A commit of submissions is a batch: its facts and blocks are committed first, its submissions last. The facts of a batch count only if its submissions
//! are committed, so a submission is in all tables or in none. Batches are also replaced by a single commit.

pub mod catalog;
pub mod check;
pub mod contents;
pub mod dictionary;
pub mod maintenance;
pub mod store;
pub mod submissions;
pub mod tables;
pub mod writer;

use crate::day::Day;
use crate::secret::{self, Keys};
use catalog::{File, Log, PROPERTY_CHECK, PROPERTY_DATASET, PROPERTY_SCHEMA, SCHEMA, Table, by_batch};
use datafusion::arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{Int32Type, SchemaRef};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    DefaultParquetFileReaderFactory, ParquetFileReaderFactory as _,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use dictionary::Names;
use futures::StreamExt as _;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, RowFilter};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStream};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tables::ParquetBytes;

/// Folder of a dataset for tables that are written for a query of a cluster, and removed afterwards.
pub(crate) const LENT: &str = "queries";
/// Number of buckets of facts and blocks; a hash of the package's name selects the bucket.
pub const BUCKETS: u64 = 16;
/// Maximum number of attempts to read a snapshot, if files are replaced meanwhile.
const TRIES: usize = 100;

/// A snapshot of a dataset.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Store of its files.
    pub store: Store,
    /// Text that identifies the dataset.
    pub id: String,
    /// Number of the commit of submissions.
    pub version: u64,
    files: BTreeMap<Table, Vec<File>>,
}

/// The part of a dataset that a query selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// This package; `None`: all packages.
    pub package: Option<String>,
    /// These versions; empty: all versions.
    pub versions: Vec<String>,
    /// Days from this one on.
    pub since: Option<Day>,
    /// Days before this one.
    pub before: Option<Day>,
    /// Only submissions of this architecture.
    pub arch: Option<String>,
}

impl Selection {
    /// True if it selects all submissions.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// True for a submission that it selects.
    #[must_use]
    pub fn has(&self, package: &str, version: &str, arch: &str, day: Day) -> bool {
        self.package.as_ref().is_none_or(|selected| selected == package)
            && (self.versions.is_empty() || self.versions.iter().any(|selected| selected == version))
            && self.arch.as_ref().is_none_or(|selected| selected == arch)
            && self.since.is_none_or(|since| since.0 <= day.0)
            && self.before.is_none_or(|before| day.0 < before.0)
    }
}

/// The bucket of facts and blocks that a package belongs to. File names do not contain package names.
#[must_use]
pub fn bucket_of(package: &str) -> u64 {
    let hash = package.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The hashes of similar names differ in few bits; the multiplication spreads these.
    ((hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % BUCKETS
}

/// Name of a file of facts or blocks.
fn name_in_bucket(table: Table, bucket: u64, batch: &str, number: usize) -> String {
    format!("{}/b{bucket:02}/{batch}-{number}.parquet", table.name())
}

impl Dataset {
    /// Opens the newest snapshot of a dataset.
    ///
    /// # Errors
    /// Fails if there is no dataset, if another version of this program wrote it, or if the store fails.
    pub async fn open(place: &str) -> Result<Self> {
        if !place.starts_with("s3://") && !Path::new(place).is_dir() {
            return Err(no_dataset(place));
        }
        let store = Store::open(place)?;
        let logs = Logs::open(&store).await.map_err(|error| within(error, place))?;
        logs.ok_or_else(|| no_dataset(place))?.dataset()
    }

    /// Files of a table.
    #[must_use]
    pub fn of(&self, table: Table) -> &[File] {
        self.files.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Files of a table that can contain rows of a selection.
    #[must_use]
    pub fn files(&self, table: Table, selection: &Selection) -> Vec<&File> {
        let has_buckets = matches!(table, Table::Facts | Table::Blocks);
        let bucket = selection.package.as_ref().filter(|_| has_buckets).map(|package| bucket_of(package));
        let inside = bucket.map(|bucket| format!("{}/b{bucket:02}/", table.name()));
        let is_meant = |file: &&File| inside.as_ref().is_none_or(|inside| file.name.starts_with(inside));
        self.of(table).iter().filter(is_meant).collect()
    }

    /// Names of the subjects whose numbers are marked; without marks, all names.
    ///
    /// # Errors
    /// Fails if a file is missing or damaged, or if the store fails.
    pub async fn names(&self, only: Option<Vec<bool>>) -> Result<Names> {
        let (mut names, only) = (Names::default(), only.map(Arc::new));
        let schema = tables::subjects_schema();
        self.each_subject(&schema, only.as_ref(), |batch| names.read(&batch)).await?;
        Ok(names)
    }

    /// Passes on rows of subjects, some at a time, in the order of their numbers.
    pub(crate) async fn each_subject(
        &self,
        schema: &SchemaRef,
        only: Option<&Arc<Vec<bool>>>,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        // File names begin with the first number in the file.
        for file in self.of(Table::Subjects) {
            each_batch(&self.store, file, schema, only, &mut each).await?;
        }
        Ok(())
    }

    /// Keys of all submitters, by number.
    ///
    /// # Errors
    /// Fails if a file is missing or damaged, or if the store fails.
    pub async fn submitters(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for file in self.of(Table::Submitters) {
            each_batch(&self.store, file, &tables::submitters_schema(), None, |batch| {
                let key = |row| tables::text_at(&batch, 1, row).unwrap_or_default().to_owned();
                keys.extend((0..batch.num_rows()).map(key));
                Ok(())
            })
            .await?;
        }
        Ok(keys)
    }
}

/// Passes on the columns of a schema of a file's rows, some at a time. With marks, only the rows of marked subjects.
async fn each_batch(
    store: &Store,
    file: &File,
    schema: &SchemaRef,
    only: Option<&Arc<Vec<bool>>>,
    mut each: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let named = |error: Error| error.with_input(file.name.clone());
    let failed = |error: parquet::errors::ParquetError| named(tables::damaged(&error));
    let place = PartitionedFile::new(store.full(&file.name)?.to_string(), file.bytes);
    let reader: Box<dyn AsyncFileReader> = DefaultParquetFileReaderFactory::new(store.inner())
        .create_reader(0, place, None, &ExecutionPlanMetricsSet::new())
        .map_err(|error| named(Error::new(ErrorCode::Io, error.to_string())))?;
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(failed)?;
    let mut batches = rows_of(builder, schema, only).map_err(failed)?.boxed();
    while let Some(batch) = batches.next().await {
        let batch = tables::fit(&batch.map_err(failed)?, schema).map_err(named)?;
        each(batch).map_err(named)?;
    }
    Ok(())
}

/// The columns of a schema, with marks only of marked subjects.
fn rows_of(
    builder: ParquetRecordBatchStreamBuilder<Box<dyn AsyncFileReader>>,
    schema: &SchemaRef,
    only: Option<&Arc<Vec<bool>>>,
) -> parquet::errors::Result<ParquetRecordBatchStream<Box<dyn AsyncFileReader>>> {
    let columns = schema.fields().iter().map(|field| field.name().as_str());
    let projection = ProjectionMask::columns(builder.parquet_schema(), columns);
    let subjects = ProjectionMask::columns(builder.parquet_schema(), ["subject"]);
    let builder = builder.with_projection(projection).with_batch_size(8192);
    let Some(only) = only.cloned() else { return builder.build() };
    let is_marked = move |batch: RecordBatch| {
        let numbers = batch.column(0).as_primitive::<Int32Type>().values().iter();
        let marks = numbers.map(|number| Some(only.get(*number as usize).copied().unwrap_or(false)));
        Ok(marks.collect::<BooleanArray>())
    };
    builder
        .with_row_filter(RowFilter::new(vec![Box::new(ArrowPredicateFn::new(subjects, is_marked))]))
        .build()
}

/// Writes a new file, which is not in a log yet.
async fn write(store: &Store, name: String, rows: ParquetBytes, batch: Option<&str>) -> Result<File> {
    let count = rows.rows();
    let bytes = rows.finish()?;
    let size = bytes.len() as u64;
    store.create(&name, bytes).await?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let written = now.map_or(0, |since| since.as_millis() as i64);
    Ok(File { name, batch: batch.map(str::to_owned), bytes: size, rows: count, written })
}

/// Writes a new file of these rows.
async fn write_rows(store: &Store, name: String, rows: &RecordBatch, batch: Option<&str>) -> Result<File> {
    let mut bytes = ParquetBytes::new(&rows.schema())?;
    bytes.add(rows)?;
    write(store, name, bytes, batch).await
}

/// The logs of all tables of a dataset.
#[derive(Debug, Clone)]
pub struct Logs {
    store: Store,
    facts: Log,
    blocks: Log,
    subjects: Log,
    submitters: Log,
    submissions: Log,
}

impl Logs {
    /// Newest state of all logs that are consistent with each other; `None` if there is no dataset.
    ///
    /// # Errors
    /// Returns the errors of [`Dataset::open`].
    pub async fn open(store: &Store) -> Result<Option<Self>> {
        let Some(submissions) = Log::open(store, Table::Submissions).await? else {
            return if store.list("manifest").await?.is_empty() { Ok(None) } else { Err(earlier()) };
        };
        check_schema(&submissions)?;
        // The other logs contain everything that submissions refer to, so they are read after the log of submissions.
        let (facts, blocks, subjects, submitters) = tokio::try_join!(
            Log::open(store, Table::Facts),
            Log::open(store, Table::Blocks),
            Log::open(store, Table::Subjects),
            Log::open(store, Table::Submitters),
        )?;
        let missing = || Error::new(ErrorCode::Damaged, "a table of the dataset has no log");
        let mut logs = Self {
            store: store.clone(),
            facts: facts.ok_or_else(missing)?,
            blocks: blocks.ok_or_else(missing)?,
            subjects: subjects.ok_or_else(missing)?,
            submitters: submitters.ok_or_else(missing)?,
            submissions,
        };
        logs.settle().await?;
        Ok(Some(logs))
    }

    /// Opens the logs of a dataset with its secret, or makes the logs of an empty dataset.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`]. Fails if the secret is missing or different.
    pub async fn open_or_create(place: &str, secret: Option<&Path>) -> Result<(Self, Keys)> {
        let store = Store::open(place)?;
        let secret = secret::file_of(place, secret)?;
        let is_there = Self::open(&store).await.map_err(|error| within(error, place))?;
        let logs = match is_there {
            Some(mut logs) => {
                for log in logs.all_mut() {
                    log.evolve().await?;
                }
                logs
            }
            None => {
                let keys = Keys::open(&secret, true)?;
                let id = format!("{}{}", random(), random());
                let properties = [
                    (PROPERTY_SCHEMA, SCHEMA.to_string()),
                    (PROPERTY_CHECK, keys.check(&id)),
                    (PROPERTY_DATASET, id),
                ];
                for table in Table::ALL {
                    let properties: &[_] = if table == Table::Submissions { &properties } else { &[] };
                    Log::create(&store, table, properties).await.map_err(|error| within(error, place))?;
                }
                let made = Self::open(&store).await.map_err(|error| within(error, place))?;
                made.ok_or_else(|| no_dataset(place))?
            }
        };
        let keys = Keys::open(&secret, false)?;
        let id = logs.submissions.property(PROPERTY_DATASET).unwrap_or_default();
        if logs.submissions.property(PROPERTY_CHECK) != Some(keys.check(&id)) {
            return Err(Error::new(ErrorCode::IncompatibleInputs, "the secret is of another dataset")
                .with_input(secret.display().to_string())
                .with_hint("give the secret with which the dataset was made: --secret FILE"));
        }
        Ok((logs, keys))
    }

    /// Updates all logs to their newest state.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub async fn refresh(&mut self) -> Result<()> {
        self.refresh_all().await?;
        self.settle().await
    }

    /// Updates the other logs, which contain everything that submissions refer to.
    async fn refresh_all(&mut self) -> Result<()> {
        self.submissions.refresh().await?;
        self.facts.refresh().await?;
        self.blocks.refresh().await?;
        self.subjects.refresh().await?;
        self.submitters.refresh().await
    }

    /// Reads the logs again until each batch has all its files, because other programs may be replacing some.
    async fn settle(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            if self.incomplete().is_none() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.refresh_all().await?;
        }
        match self.incomplete() {
            None => Ok(()),
            Some(batch) => Err(Error::new(ErrorCode::Damaged, format!("files of batch {batch} are missing"))
                .with_hint("sediment-fleet fsck DATASET lists other errors")),
        }
    }

    /// A batch without all files of its facts or blocks. Names of submission files contain the numbers of both.
    fn incomplete(&self) -> Option<String> {
        let (facts, blocks) = (by_batch(self.facts.files()), by_batch(self.blocks.files()));
        self.submissions.files().into_iter().find_map(|file| {
            let mut parts = file.stem().split('-');
            let batch = parts.next()?.to_owned();
            let mut number = || parts.next().and_then(|number| number.parse::<usize>().ok());
            let (of_facts, of_blocks) = (number()?, number()?);
            let has = |files: &BTreeMap<String, Vec<File>>| files.get(&batch).map_or(0, Vec::len);
            (has(&facts) != of_facts || has(&blocks) != of_blocks).then_some(batch)
        })
    }

    /// All logs; the log of submissions is the first.
    fn all_mut(&mut self) -> [&mut Log; 5] {
        [&mut self.submissions, &mut self.facts, &mut self.blocks, &mut self.subjects, &mut self.submitters]
    }

    /// The snapshot that these logs define.
    ///
    /// # Errors
    /// Fails if the table of submissions lacks the dataset's identity.
    pub fn dataset(&self) -> Result<Dataset> {
        let id = self.submissions.property(PROPERTY_DATASET);
        let id =
            id.ok_or_else(|| Error::new(ErrorCode::Damaged, "the table does not belong to a dataset"))?;
        let submissions = self.submissions.files();
        let batches: std::collections::BTreeSet<&str> =
            submissions.iter().filter_map(|file| file.batch.as_deref()).collect();
        let counts = |files: Vec<File>| -> Vec<File> {
            let is_there = |file: &File| file.batch.as_deref().is_some_and(|batch| batches.contains(batch));
            files.into_iter().filter(is_there).collect()
        };
        let (facts, blocks) = (counts(self.facts.files()), counts(self.blocks.files()));
        let files = BTreeMap::from([
            (Table::Facts, facts),
            (Table::Blocks, blocks),
            (Table::Subjects, self.subjects.files()),
            (Table::Submitters, self.submitters.files()),
            (Table::Submissions, submissions),
        ]);
        Ok(Dataset { store: self.store.clone(), id, version: self.submissions.version(), files })
    }
}

/// Rejects a dataset of another version of this program.
fn check_schema(submissions: &Log) -> Result<()> {
    let schema = submissions.property(PROPERTY_SCHEMA).and_then(|schema| schema.parse::<u32>().ok());
    match schema {
        Some(schema) if schema <= SCHEMA => Ok(()),
        Some(schema) => {
            let message = format!("schema {schema}, but this program reads up to {SCHEMA}");
            Err(Error::new(ErrorCode::NewerVersion, message).with_hint("use a newer sediment-fleet"))
        }
        None => Err(Error::new(ErrorCode::Damaged, "the table does not belong to a dataset")),
    }
}

fn earlier() -> Error {
    Error::new(
        ErrorCode::IncompatibleInputs,
        "a dataset with a manifest, of sediment-fleet 0.1.0 before its tables were Delta tables",
    )
    .with_hint("that version reads it; or add its profiles to a new dataset: sediment-fleet ingest")
}

/// Random name of sixteen hexadecimal digits, unique among files.
pub(crate) fn random() -> String {
    format!("{:016x}", std::hash::RandomState::new().hash_one(std::process::id()))
}

fn within(error: Error, place: &str) -> Error {
    if error.location().is_none() { error.with_input(place) } else { error }
}

fn no_dataset(place: &str) -> Error {
    Error::new(ErrorCode::NotFound, "no dataset")
        .with_input(place)
        .with_hint("sediment-fleet ingest DATASET FILE... makes one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_are_in_no_name_of_a_file() {
        let long = "\u{e9}".repeat(59);
        for package in ["nginx", "../a b", &long] {
            let name = name_in_bucket(Table::Facts, bucket_of(package), "00ff", 1);
            assert!(name.len() < 40 && name.starts_with("facts/b") && !name.contains(package), "{name}");
        }
        let buckets: std::collections::BTreeSet<u64> =
            (0..200).map(|number| bucket_of(&format!("package{number}"))).collect();
        assert_eq!(buckets.len() as u64, BUCKETS);
    }
}
