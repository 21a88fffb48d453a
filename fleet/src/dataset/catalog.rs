// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`TableLog`]: the Delta table that lists the files of one of a dataset's tables. Delta is only used as a catalogue: [`Store`] writes the files, and queries
//! read exactly the files of a snapshot.
//!
//! A commit adds one new file to the log, completely or not at all. If two writers try the same commit, the store decides which one succeeds.

use super::store::Store;
use super::tables;
use crate::day::since_1970;
use crate::errors::ErrorContext as _;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use deltalake_core::kernel::engine::arrow_conversion::TryIntoKernel as _;
use deltalake_core::kernel::transaction::{
    CommitBuilder, CommitProperties, TableReference, TransactionError,
};
use deltalake_core::kernel::{Action, Add, Remove, StructField, Transaction};
use deltalake_core::logstore::{StorageConfig, default_logstore};
use deltalake_core::operations::create::CreateBuilder;
use deltalake_core::operations::vacuum::VacuumMode;
use deltalake_core::protocol::{DeltaOperation, SaveMode};
use deltalake_core::{DeltaTable, DeltaTableError};
use object_store::prefix::PrefixStore;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Version of the columns and names that this program writes, and the newest version that it reads. Earlier versions had no Delta log.
pub(crate) const SCHEMA: u32 = 3;

/// Properties of the table of submissions.
pub(crate) const PROPERTY_SCHEMA: &str = "sediment.schema";
/// Random text that identifies a dataset.
pub(crate) const PROPERTY_DATASET: &str = "sediment.dataset";
/// Digest of that text with the secret of the dataset's keys.
pub(crate) const PROPERTY_CHECK: &str = "sediment.check";

/// Number in commits of submissions: how often names were forgotten. A writer that began before the last time cannot commit.
pub(crate) const FORGOTTEN: &str = "sediment-forgotten";

/// Maximum number of attempts of a commit, if other writers come first.
pub(super) const TRIES: usize = 1000;

/// Partition column of the tables: the commit that wrote a file.
pub(crate) const BATCH: &str = "batch";

/// A table of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// Functions, calls and affinity of each submission.
    Facts,
    /// Counts inside functions.
    Blocks,
    /// One row for each submission.
    Submissions,
    Subjects,
    Submitters,
}

impl Table {
    /// All tables. The table of submissions is the last, because its existence means that the dataset exists.
    pub(crate) const ALL: [Self; 5] =
        [Self::Facts, Self::Blocks, Self::Subjects, Self::Submitters, Self::Submissions];

    /// Name of the table, and of its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Blocks => "blocks",
            Self::Submissions => "submissions",
            Self::Subjects => "subjects",
            Self::Submitters => "submitters",
        }
    }

    /// Columns of the table's files.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            Self::Facts | Self::Blocks => tables::facts_schema(),
            Self::Submissions => tables::submissions_schema(),
            Self::Subjects => tables::subjects_schema(),
            Self::Submitters => tables::submitters_schema(),
        }
    }

    fn has_batches(self) -> bool {
        matches!(self, Self::Facts | Self::Blocks | Self::Submissions)
    }
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableFile {
    /// Name, relative to the root of the dataset.
    pub(crate) name: String,
    /// Commit that wrote the file; none for subjects and submitters.
    pub(crate) batch: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// Time of the commit, in milliseconds since 1970.
    pub(crate) written: i64,
}

impl TableFile {
    pub(crate) fn stem(&self) -> &str {
        stem(&self.name)
    }
}

/// Last part of a file's name, without the suffix.
fn stem(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or_default();
    last.strip_suffix(".parquet").unwrap_or(last)
}

/// The log of a table, at one of its versions.
#[derive(Clone)]
pub(crate) struct TableLog {
    table: Table,
    store: Store,
    delta: DeltaTable,
}

impl std::fmt::Debug for TableLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableLog").field("table", &self.table).field("version", &self.version()).finish()
    }
}

impl TableLog {
    /// Newest state of a table's log; `None` if there is no log.
    pub(crate) async fn open(store: &Store, table: Table) -> Result<Option<Self>> {
        let mut log = Self::unloaded(store, table)?;
        // Delta reports a missing folder as an error.
        if store.folder().is_some_and(|folder| !folder.join(table.name()).join("_delta_log").is_dir()) {
            return Ok(None);
        }
        match log.delta.load().await {
            Ok(()) => Ok(Some(log)),
            Err(DeltaTableError::NotATable(_)) => Ok(None),
            Err(error) => Err(log.failed(&error)),
        }
    }

    fn unloaded(store: &Store, table: Table) -> Result<Self> {
        let url = url::Url::parse(&format!("{}/", store.url(table.name())?));
        let url = url.map_err(|error| Error::new(ErrorCode::Usage, error.to_string()))?;
        let root = store.inner();
        let inside = Arc::new(PrefixStore::new(Arc::clone(&root), store.full(table.name())?));
        let log = default_logstore(inside, root, &url, &StorageConfig::default());
        Ok(Self { table, store: store.clone(), delta: DeltaTable::new(log) })
    }

    /// Makes the log of an empty table, unless there is a log.
    pub(crate) async fn create(store: &Store, table: Table, properties: &[(&str, String)]) -> Result<()> {
        let new = Self::unloaded(store, table)?;
        let mut columns = delta_columns(table.schema().fields())?;
        let mut create = CreateBuilder::new()
            .with_log_store(new.delta.log_store())
            .with_table_name(table.name())
            .with_raise_if_key_not_exists(false)
            .with_commit_properties(CommitProperties::default().with_max_retries(0))
            .with_configuration([
                ("delta.checkpointInterval", Some("20".to_owned())),
                ("delta.logRetentionDuration", Some("interval 1 days".to_owned())),
                ("delta.deletedFileRetentionDuration", Some("interval 1 days".to_owned())),
            ])
            .with_configuration(properties.iter().map(|(key, value)| (*key, Some(value.clone()))));
        if table.has_batches() {
            columns.extend(delta_columns(&[FieldRef::new(Field::new(BATCH, DataType::Utf8, true))])?);
            create = create.with_partition_columns([BATCH]);
        }
        let made = create.with_columns(columns).await;
        new.settle(0)?;
        match made {
            // Otherwise another program made it at this moment.
            Err(error) if Self::open(store, table).await?.is_none() => Err(new.failed(&error)),
            _ => Ok(()),
        }
    }

    /// Updates to the newest state.
    pub(crate) async fn refresh(&mut self) -> Result<()> {
        let done = self.delta.update_state().await;
        done.map_err(|error| self.failed(&error))
    }

    /// Adds columns that this program uses and a table of an earlier version lacks. They are null in the table's files.
    pub(crate) async fn evolve(&mut self) -> Result<()> {
        loop {
            let Some(state) = &self.delta.state else { return Ok(()) };
            let known = state.schema();
            let schema = self.table.schema();
            let missing = schema.fields().iter().filter(|field| known.field(field.name()).is_none());
            let missing = delta_columns(missing)?;
            if missing.is_empty() {
                return Ok(());
            }
            let add = self.delta.clone().add_columns().with_fields(missing);
            match add.with_commit_properties(CommitProperties::default().with_max_retries(0)).await {
                Ok(delta) => {
                    self.delta = delta;
                    self.settle(self.version())?;
                }
                // Another program changed the table at this moment.
                Err(error) if is_conflict(&error) => self.refresh().await?,
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Version number of the state.
    pub(crate) fn version(&self) -> u64 {
        self.delta.version().unwrap_or(0)
    }

    /// A property of the table.
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        let state = self.delta.state.as_ref()?;
        state.metadata().configuration().get(name).cloned()
    }

    /// The table's files, sorted by name.
    pub(crate) fn files(&self) -> Vec<TableFile> {
        let Some(state) = &self.delta.state else { return Vec::new() };
        let mut files: Vec<TableFile> = state
            .log_data()
            .iter()
            .map(|view| {
                let name = format!("{}/{}", self.table.name(), view.path());
                let batch = stem(&name).split('-').next().filter(|_| self.table.has_batches());
                TableFile {
                    batch: batch.map(str::to_owned),
                    name,
                    bytes: u64::try_from(view.size()).unwrap_or(0),
                    rows: view.num_records().unwrap_or(0) as u64,
                    written: view.modification_time(),
                }
            })
            .collect();
        files.sort();
        files
    }

    /// A number that commits store, by name.
    pub(crate) async fn number(&self, name: &str) -> Result<Option<i64>> {
        let Some(state) = &self.delta.state else { return Ok(None) };
        let log = self.delta.log_store();
        state.transaction_version(log.as_ref(), name).await.map_err(|error| self.failed(&error))
    }

    /// Commits the next version: adds and removes files, and sets a number. `false`: another writer came first, and the log is now at its newest state,
    /// which does not contain this commit.
    pub(crate) async fn commit(
        &mut self,
        added: &[TableFile],
        removed: &[TableFile],
        number: Option<(&str, i64)>,
    ) -> Result<bool> {
        let now = since_1970().as_millis() as i64;
        let mut actions: Vec<Action> =
            removed.iter().map(|file| Action::Remove(self.remove(file, now))).collect();
        actions.extend(added.iter().map(|file| Action::Add(self.add(file, now))));
        actions.extend(number.map(|(name, number)| Action::Txn(Transaction::new(name, number))));
        let operation = DeltaOperation::Write {
            mode: SaveMode::Append,
            partition_by: self.table.has_batches().then(|| vec![BATCH.to_owned()]),
            predicate: None,
        };
        let log = self.delta.log_store();
        let state = self.delta.state.as_ref().map(|state| state as &dyn TableReference);
        let commit = CommitBuilder::from(CommitProperties::default().with_max_retries(0))
            .with_actions(actions)
            .build(state, log, operation);
        match commit.await {
            Ok(done) => {
                let version = done.version();
                self.delta.state = Some(done.snapshot());
                self.settle(version)?;
                Ok(true)
            }
            Err(error) => {
                let before = self.version();
                self.refresh().await?;
                // The attempt succeeded although its answer was lost, or although the following checkpoint failed.
                let files = self.files();
                let is_there = |file: &TableFile| files.iter().any(|known| known.name == file.name);
                if !added.is_empty() && added.iter().all(is_there) {
                    (before + 1..=self.version()).try_for_each(|version| self.settle(version))?;
                    return Ok(true);
                }
                if is_conflict(&error) { Ok(false) } else { Err(self.failed(&error)) }
            }
        }
    }

    /// Adds and removes files, and repeats the commit if other writers come first. Ignores removals of files that do not exist.
    pub(crate) async fn commit_always(&mut self, added: &[TableFile], removed: &[TableFile]) -> Result<()> {
        for _ in 0..TRIES {
            let files = self.files();
            let known = |file: &&TableFile| files.iter().any(|known| known.name == file.name);
            let removed: Vec<TableFile> = removed.iter().filter(known).cloned().collect();
            let added: Vec<TableFile> = added.iter().filter(|file| !known(file)).cloned().collect();
            if added.is_empty() && removed.is_empty() || self.commit(&added, &removed, None).await? {
                return Ok(());
            }
        }
        Err(always_faster())
    }

    /// Increases a number that commits store, and repeats the commit if other writers come first.
    pub(crate) async fn count_up(&mut self, name: &str) -> Result<()> {
        let before = self.number(name).await?.unwrap_or(0);
        for _ in 0..TRIES {
            let now = self.number(name).await?.unwrap_or(0);
            if now > before || self.commit(&[], &[], Some((name, now + 1))).await? {
                return Ok(());
            }
        }
        Err(always_faster())
    }

    /// Removes files that no state within the retention lists. With `all`, also removes files that no commit ever listed.
    pub(crate) async fn vacuum(&mut self, hours: u32, all: bool) -> Result<usize> {
        let vacuum = self
            .delta
            .clone()
            .vacuum()
            .with_retention_period(chrono::Duration::hours(i64::from(hours)))
            .with_enforce_retention_duration(false)
            .with_mode(if all { VacuumMode::Full } else { VacuumMode::Lite });
        let (delta, done) = vacuum.await.map_err(|error| self.failed(&error))?;
        self.delta = delta;
        self.refresh().await?;
        Ok(done.files_deleted.len())
    }

    fn add(&self, file: &TableFile, now: i64) -> Add {
        Add {
            path: self.inside(file),
            partition_values: self.partition(file),
            size: file.bytes as i64,
            // The age of a file's commit decides, because the file may have been written long before.
            modification_time: now,
            data_change: true,
            stats: Some(format!("{{\"numRecords\":{}}}", file.rows)),
            tags: None,
            deletion_vector: None,
            base_row_id: None,
            default_row_commit_version: None,
            clustering_provider: None,
        }
    }

    fn remove(&self, file: &TableFile, now: i64) -> Remove {
        Remove {
            path: self.inside(file),
            data_change: true,
            deletion_timestamp: Some(now),
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition(file)),
            size: Some(file.bytes as i64),
            ..Remove::default()
        }
    }

    fn inside(&self, file: &TableFile) -> String {
        let inside = file.name.strip_prefix(self.table.name()).unwrap_or(&file.name);
        inside.trim_start_matches('/').to_owned()
    }

    fn partition(&self, file: &TableFile) -> HashMap<String, Option<String>> {
        if self.table.has_batches() {
            HashMap::from([(BATCH.to_owned(), file.batch.clone())])
        } else {
            HashMap::new()
        }
    }

    /// Waits until a commit is durable.
    fn settle(&self, version: u64) -> Result<()> {
        self.store.settle_file(&format!("{}/_delta_log/{version:020}.json", self.table.name()))
    }

    fn failed(&self, error: &DeltaTableError) -> Error {
        Error::new(ErrorCode::Io, format!("error in the table's log: {error}"))
            .with_input(self.store.for_programs(self.table.name()))
    }
}

pub(super) fn always_faster() -> Error {
    Error::new(ErrorCode::Io, "the commit failed because other writers always came first")
        .with_hint("try again")
}

fn is_conflict(error: &DeltaTableError) -> bool {
    matches!(
        error,
        DeltaTableError::VersionAlreadyExists(_)
            | DeltaTableError::Transaction {
                source: TransactionError::MaxCommitAttempts(_)
                    | TransactionError::CommitConflict(_)
                    | TransactionError::VersionAlreadyExists(_)
            }
    )
}

/// Columns of a schema as Delta's; all can be null.
fn delta_columns<'f>(fields: impl IntoIterator<Item = &'f FieldRef>) -> Result<Vec<StructField>> {
    let column = |field: &FieldRef| (&field.as_ref().clone().with_nullable(true)).try_into_kernel().damaged();
    fields.into_iter().map(column).collect()
}

/// Files of facts and blocks, by the commit that wrote them.
pub(crate) fn by_batch(files: Vec<TableFile>) -> BTreeMap<String, Vec<TableFile>> {
    let mut batches: BTreeMap<String, Vec<TableFile>> = BTreeMap::new();
    for file in files {
        batches.entry(file.batch.clone().unwrap_or_default()).or_default().push(file);
    }
    batches
}
