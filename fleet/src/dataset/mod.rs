// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Dataset`]: submissions as rows in Parquet files, in a folder or an object store. Delta tables list the files.
//!
//! [`catalog`] is the log of a table, [`tables`] defines the columns, and [`dictionary`] contains names of subjects. [`contents`] are
//! the rows of a submission, and [`writer`] adds them. [`maintenance`] combines, forgets and removes files; [`check`] is `fsck`.
//!
//! A commit of submissions is a batch: its facts and blocks are committed first, its submissions last. The facts of a batch count only if its submissions
//! are committed, so a submission is in all tables or in none. Batches are also replaced by a single commit.

pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod contents;
pub(crate) mod dictionary;
pub(crate) mod maintenance;
pub(crate) mod store;
pub(crate) mod submissions;
pub(crate) mod tables;
pub(crate) mod writer;

use crate::day::{Day, since_1970};
use crate::errors::{ErrorContext as _, damaged};
use crate::secret::{self, Keys};
use catalog::{
    PROPERTY_CHECK, PROPERTY_DATASET, PROPERTY_SCHEMA, SCHEMA, Table, TableFile, TableLog, by_batch,
};
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
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::ops::{Index, IndexMut};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::Store;
use tables::ParquetBytes;

/// Folder of a dataset for tables that are written for a query of a cluster, and removed afterwards.
pub(crate) const LENT: &str = "queries";
/// Number of buckets of facts and blocks; a hash of the package's name selects the bucket.
const BUCKETS: u64 = 16;
/// Maximum number of attempts to read a snapshot, if files are replaced meanwhile.
const TRIES: usize = 100;
/// Facts without submissions that are older than this belong to a writer that was ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A snapshot of a dataset.
#[derive(Debug, Clone)]
pub struct Dataset {
    pub(crate) store: Store,
    /// Random text that identifies the dataset.
    pub(crate) id: String,
    /// Number of the commit of submissions.
    pub(crate) version: u64,
    files: Files,
}

/// Files by table.
type Files = BTreeMap<Table, Vec<TableFile>>;

/// The part of a dataset that a query selects.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Selection {
    /// Package [default: all]
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) package: Option<String>,
    /// Version of the package; repeatable [default: all]
    #[arg(long = "version-of-package", value_name = "VERSION")]
    pub(crate) versions: Vec<String>,
    /// First day [default: the first]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) since: Option<Day>,
    /// First day that is not included [default: none]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) before: Option<Day>,
    /// Architecture [default: all]
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch: Option<String>,
}

impl Selection {
    pub(crate) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// True for a submission that it selects.
    fn has(&self, package: &str, version: &str, arch: &str, day: Day) -> bool {
        self.package.as_ref().is_none_or(|selected| selected == package)
            && (self.versions.is_empty() || self.versions.iter().any(|selected| selected == version))
            && self.arch.as_ref().is_none_or(|selected| selected == arch)
            && self.since.is_none_or(|since| since <= day)
            && self.before.is_none_or(|before| day < before)
    }
}

/// The bucket of facts and blocks that a package belongs to. File names do not contain package names.
fn bucket_of(package: &str) -> u64 {
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
    /// Opens the newest snapshot of a dataset. Fails if there is none, or if another version of this program wrote it.
    pub async fn open(place: &str) -> Result<Self> {
        Logs::open_existing(place).await?.dataset()
    }

    pub(crate) fn of(&self, table: Table) -> &[TableFile] {
        self.files.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Files of a table that can contain rows of a selection.
    pub(crate) fn files(&self, table: Table, selection: &Selection) -> Vec<&TableFile> {
        let package = selection.package.as_ref().filter(|_| matches!(table, Table::Facts | Table::Blocks));
        let inside = package.map(|package| format!("{}/b{:02}/", table.name(), bucket_of(package)));
        let is_meant = |file: &&TableFile| inside.as_ref().is_none_or(|inside| file.name.starts_with(inside));
        self.of(table).iter().filter(is_meant).collect()
    }

    /// Names of the subjects whose numbers are marked; without marks, all names.
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
    pub(crate) async fn submitters(&self) -> Result<Vec<String>> {
        let (mut keys, schema) = (Vec::new(), tables::submitters_schema());
        for file in self.of(Table::Submitters) {
            each_batch(&self.store, file, &schema, None, |batch| {
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
    file: &TableFile,
    schema: &SchemaRef,
    only: Option<&Arc<Vec<bool>>>,
    mut each: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let read = async {
        let place = PartitionedFile::new(store.full(&file.name)?.to_string(), file.bytes);
        let reader: Box<dyn AsyncFileReader> = DefaultParquetFileReaderFactory::new(store.inner())
            .create_reader(0, place, None, &ExecutionPlanMetricsSet::new())
            .io()?;
        let mut builder = ParquetRecordBatchStreamBuilder::new(reader).await.damaged()?.with_batch_size(8192);
        let columns = schema.fields().iter().map(|field| field.name().as_str());
        let projection = ProjectionMask::columns(builder.parquet_schema(), columns);
        if let Some(only) = only.cloned() {
            let subjects = ProjectionMask::columns(builder.parquet_schema(), ["subject"]);
            let is_marked = ArrowPredicateFn::new(subjects, move |batch: RecordBatch| {
                let numbers = batch.column(0).as_primitive::<Int32Type>().values().iter();
                let marks = numbers.map(|number| Some(only.get(*number as usize).copied().unwrap_or(false)));
                Ok(marks.collect::<BooleanArray>())
            });
            builder = builder.with_row_filter(RowFilter::new(vec![Box::new(is_marked)]));
        }
        let mut batches = builder.with_projection(projection).build().damaged()?.boxed();
        while let Some(batch) = batches.next().await {
            each(tables::fit(&batch.damaged()?, schema)?)?;
        }
        Ok(())
    };
    read.await.map_err(|error: Error| error.with_input(file.name.clone()))
}

/// Writes a new file, which is not in a log yet.
async fn write(store: &Store, name: String, rows: ParquetBytes, batch: Option<&str>) -> Result<TableFile> {
    let count = rows.rows();
    let bytes = rows.finish()?;
    let size = bytes.len() as u64;
    store.create(&name, bytes).await?;
    let written = since_1970().as_millis() as i64;
    Ok(TableFile { name, batch: batch.map(str::to_owned), bytes: size, rows: count, written })
}

/// The logs of all tables of a dataset.
#[derive(Debug, Clone)]
struct Logs {
    store: Store,
    logs: BTreeMap<Table, TableLog>,
}

impl Index<Table> for Logs {
    type Output = TableLog;

    fn index(&self, table: Table) -> &TableLog {
        &self.logs[&table]
    }
}

impl IndexMut<Table> for Logs {
    fn index_mut(&mut self, table: Table) -> &mut TableLog {
        self.logs.get_mut(&table).expect("all tables have logs")
    }
}

impl Logs {
    /// Newest state of all logs that are consistent with each other; `None` if there is no dataset.
    async fn open(store: &Store) -> Result<Option<Self>> {
        // The other logs contain everything that submissions refer to, so they are read after the log of submissions.
        let Some(submissions) = TableLog::open(store, Table::Submissions).await? else {
            return if store.has_files("manifest").await? { Err(earlier()) } else { Ok(None) };
        };
        check_schema(&submissions)?;
        let others = Table::ALL.into_iter().filter(|table| *table != Table::Submissions);
        let others = others.map(|table| async move {
            let log = TableLog::open(store, table).await?;
            log.map(|log| (table, log)).ok_or_else(|| damaged("a table of the dataset has no log"))
        });
        let mut logs: BTreeMap<Table, TableLog> =
            futures::future::try_join_all(others).await?.into_iter().collect();
        logs.insert(Table::Submissions, submissions);
        let mut logs = Self { store: store.clone(), logs };
        logs.settle().await?;
        Ok(Some(logs))
    }

    /// The logs of a dataset, which is not made if it does not exist.
    async fn open_existing(place: &str) -> Result<Self> {
        let no_dataset = || {
            let hint = "sediment-fleet ingest DATASET FILE... makes one";
            Error::new(ErrorCode::NotFound, "no dataset").with_input(place).with_hint(hint)
        };
        if !place.starts_with("s3://") && !Path::new(place).is_dir() {
            return Err(no_dataset());
        }
        let logs = Self::open(&Store::open(place)?).await.map_err(|error| error.with_input(place))?;
        logs.ok_or_else(no_dataset)
    }

    /// Opens the logs of a dataset with its secret, or makes the logs of an empty dataset.
    async fn open_or_create(place: &str, secret: Option<&Path>) -> Result<(Self, Keys)> {
        let store = Store::open(place)?;
        let secret = secret::file_of(place, secret)?;
        let opened = Self::open(&store).await.map_err(|error| error.with_input(place))?;
        let mut logs = match opened {
            Some(logs) => logs,
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
                    TableLog::create(&store, table, properties)
                        .await
                        .map_err(|error| error.with_input(place))?;
                }
                Self::open_existing(place).await?
            }
        };
        for log in logs.logs.values_mut() {
            log.evolve().await?;
        }
        let keys = Keys::open(&secret, false)?;
        let submissions = &logs[Table::Submissions];
        let id = submissions.property(PROPERTY_DATASET).unwrap_or_default();
        if submissions.property(PROPERTY_CHECK) != Some(keys.check(&id)) {
            return Err(Error::new(ErrorCode::IncompatibleInputs, "the secret is of another dataset")
                .with_input(secret.display().to_string())
                .with_hint("give the secret with which the dataset was made: --secret FILE"));
        }
        Ok((logs, keys))
    }

    /// Updates all logs to their newest state.
    async fn refresh(&mut self) -> Result<()> {
        self.refresh_all().await?;
        self.settle().await
    }

    async fn refresh_all(&mut self) -> Result<()> {
        // Submissions first, because the other logs contain everything that they refer to.
        for table in Table::ALL.into_iter().rev() {
            self[table].refresh().await?;
        }
        Ok(())
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
            Some(batch) => Err(damaged(format!("files of batch {batch} are missing"))
                .with_hint("sediment-fleet fsck DATASET lists other errors")),
        }
    }

    /// A batch without all files of its facts or blocks. Names of submission files contain the numbers of both.
    fn incomplete(&self) -> Option<String> {
        let [facts, blocks] = [Table::Facts, Table::Blocks].map(|table| by_batch(self[table].files()));
        self[Table::Submissions].files().into_iter().find_map(|file| {
            let mut parts = file.stem().split('-');
            let batch = parts.next()?.to_owned();
            let mut number = || parts.next().and_then(|number| number.parse::<usize>().ok());
            let counts = [number()?, number()?];
            (counts != [&facts, &blocks].map(|files| files.get(&batch).map_or(0, Vec::len))).then_some(batch)
        })
    }

    /// The snapshot that these logs define.
    fn dataset(&self) -> Result<Dataset> {
        let id = self[Table::Submissions].property(PROPERTY_DATASET).ok_or_else(no_part)?;
        let mut files: Files = self.logs.iter().map(|(table, log)| (*table, log.files())).collect();
        let batches: BTreeSet<String> =
            files[&Table::Submissions].iter().filter_map(|file| file.batch.clone()).collect();
        for table in [Table::Facts, Table::Blocks] {
            let counts = |file: &TableFile| file.batch.as_ref().is_some_and(|batch| batches.contains(batch));
            files.entry(table).or_default().retain(counts);
        }
        let version = self[Table::Submissions].version();
        Ok(Dataset { store: self.store.clone(), id, version, files })
    }

    /// Commits the facts and blocks of a batch, and then its submissions in place of others, as soon as no other writer comes first. Before each attempt,
    /// `is_valid` checks the newest state. If it is not valid, or too late, nothing is changed.
    async fn commit_batch(
        &mut self,
        new: &Files,
        old: &[TableFile],
        mut is_valid: impl AsyncFnMut(&TableLog) -> Result<bool>,
    ) -> Result<bool> {
        // Files must be durable before a log lists them.
        self.store.settle()?;
        let begun = SystemTime::now();
        let none = Files::new();
        self.commit_rows(new, &none).await?;
        let submissions = new.get(&Table::Submissions).map_or(&[][..], Vec::as_slice);
        loop {
            // Facts of this age will soon count as abandoned, for example after a suspend.
            let is_late = begun.elapsed().is_ok_and(|elapsed| elapsed >= ABANDONED / 2);
            if is_late || !is_valid(&self[Table::Submissions]).await? {
                self.commit_rows(&none, new).await?;
                return Ok(false);
            }
            if self[Table::Submissions].commit(submissions, old, None).await? {
                return Ok(true);
            }
        }
    }

    /// Replaces files of subjects or submitters by a file with rows from a number on, if there are any, and stores a number in the log. `false`: another
    /// writer came first.
    async fn commit_numbered(
        &mut self,
        table: Table,
        (first, rows): (i32, Option<ParquetBytes>),
        old: &[TableFile],
        number: Option<(&str, i64)>,
    ) -> Result<bool> {
        let mut new = Vec::new();
        if let Some(rows) = rows {
            let name = format!("{}/{first:010}-{}.parquet", table.name(), random());
            new.push(write(&self.store, name, rows, None).await?);
            self.store.settle()?;
        }
        let is_done = self[table].commit(&new, old, number).await?;
        if !is_done {
            for file in new {
                self.store.remove(&file.name).await?;
            }
        }
        Ok(is_done)
    }

    /// Adds and removes files of facts and blocks.
    async fn commit_rows(&mut self, added: &Files, removed: &Files) -> Result<()> {
        for table in [Table::Facts, Table::Blocks] {
            let [added, removed] =
                [added, removed].map(|files| files.get(&table).map_or(&[][..], Vec::as_slice));
            self[table].commit_always(added, removed).await?;
        }
        Ok(())
    }
}

/// Name of the file of a batch's submissions, with the numbers of its other files.
fn name_of_submissions(batch: &str, files: &Files) -> String {
    let [facts, blocks] = [Table::Facts, Table::Blocks].map(|table| files.get(&table).map_or(0, Vec::len));
    format!("{}/{batch}-{facts}-{blocks}.parquet", Table::Submissions.name())
}

/// Rejects a dataset of another version of this program.
fn check_schema(submissions: &TableLog) -> Result<()> {
    let schema = submissions.property(PROPERTY_SCHEMA).and_then(|schema| schema.parse::<u32>().ok());
    match schema.ok_or_else(no_part)? {
        schema if schema <= SCHEMA => Ok(()),
        schema => {
            let message = format!("schema {schema}, but this program reads up to {SCHEMA}");
            Err(Error::new(ErrorCode::NewerVersion, message).with_hint("use a newer sediment-fleet"))
        }
    }
}

fn no_part() -> Error {
    damaged("the table does not belong to a dataset")
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
        let buckets: BTreeSet<u64> = (0..200).map(|number| bucket_of(&format!("package{number}"))).collect();
        assert_eq!(buckets.len() as u64, BUCKETS);
    }
}
