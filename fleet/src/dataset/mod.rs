// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Dataset`]: submissions as rows in Parquet files, by package, version and day, in a folder or an object store.
//!
//! [`manifest`] lists the files, [`tables`] has their columns, [`dictionary`] the numbers of subjects and submitters. [`prepared`]
//! is a submission by these numbers, [`writer`] adds it, [`rewrite`] forgets and compacts, [`check`] is `fsck`.

pub mod check;
pub mod dictionary;
pub mod manifest;
pub mod prepared;
pub mod rewrite;
pub mod store;
pub mod tables;
pub mod writer;

use crate::day::Day;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use dictionary::Dictionary;
use manifest::{File, Manifest, Partition, SCHEMA, Table};
use sediment_core::{Error, ErrorCode, Result};
use std::hash::BuildHasher as _;
use store::Store;

/// Folder of a dataset with tables that are written for a query of a cluster, and removed after it.
pub(crate) const LENT: &str = "queries";

/// A generation of a dataset.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Where its files are.
    pub store: Store,
    /// Which files these are.
    pub manifest: Manifest,
}

/// The part of a dataset that a query is of.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// This package; None: all of them.
    pub package: Option<String>,
    /// These versions; empty: all of them.
    pub versions: Vec<String>,
    /// Days from this one on.
    pub since: Option<Day>,
    /// Days before this one.
    pub before: Option<Day>,
    /// Submissions of this architecture alone.
    pub arch: Option<String>,
}

impl Selection {
    /// True if the query is of this partition.
    #[must_use]
    pub fn has(&self, partition: &Partition) -> bool {
        self.package.as_ref().is_none_or(|package| *package == partition.package)
            && (self.versions.is_empty() || self.versions.contains(&partition.version))
            && self.since.is_none_or(|since| partition.day >= since.0)
            && self.before.is_none_or(|before| partition.day < before.0)
    }
}

impl Dataset {
    /// Opens a dataset.
    ///
    /// # Errors
    /// When there is none, when a newer program wrote it, and when the store fails.
    pub async fn open(place: &str) -> Result<Self> {
        if !place.starts_with("s3://") && !std::path::Path::new(place).is_dir() {
            return Err(no_dataset(place));
        }
        let store = Store::open(place)?;
        let manifest = Manifest::load(&store).await.map_err(|error| within(error, place))?;
        Ok(Self { store, manifest: manifest.ok_or_else(|| no_dataset(place))? })
    }

    /// Opens a dataset, or makes an empty one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_or_create(place: &str) -> Result<Self> {
        let store = Store::open(place)?;
        if let Some(manifest) = Manifest::load(&store).await.map_err(|error| within(error, place))? {
            return Ok(Self { store, manifest });
        }
        let mut manifest = Manifest {
            schema: SCHEMA,
            generation: 0,
            salt: format!("{}{}", random(), random()),
            next_submission: 0,
            log_segment: 0,
            files: Vec::new(),
        };
        manifest.commit(&store).await?;
        Ok(Self { store, manifest })
    }

    /// Files of a table that belong to a selection.
    #[must_use]
    pub fn files(&self, table: Table, selection: &Selection) -> Vec<&File> {
        let is_meant =
            |file: &&File| file.partition.as_ref().is_none_or(|partition| selection.has(partition));
        self.manifest.of(table).filter(is_meant).collect()
    }

    /// Rows of files.
    ///
    /// # Errors
    /// When one is missing or damaged, or the store fails.
    pub async fn rows(&self, files: &[&File], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for file in files {
            let bytes = self.store.read(&file.name).await?;
            batches.extend(
                tables::batches_of(bytes, schema).map_err(|error| error.with_input(file.name.clone()))?,
            );
        }
        Ok(batches)
    }

    /// All subjects and submitters.
    ///
    /// # Errors
    /// When a file is missing or damaged, or the store fails.
    pub async fn dictionary(&self) -> Result<Dictionary> {
        let mut dictionary = Dictionary::default();
        for file in self.manifest.of(Table::Subjects) {
            for batch in self.rows(&[file], &tables::subjects_schema()).await? {
                dictionary.read_subjects(&batch).map_err(|error| error.with_input(file.name.clone()))?;
            }
        }
        for file in self.manifest.of(Table::Submitters) {
            for batch in self.rows(&[file], &tables::submitters_schema()).await? {
                dictionary.read_submitters(&batch).map_err(|error| error.with_input(file.name.clone()))?;
            }
        }
        Ok(dictionary)
    }

    /// Writes a new file of a table, which no manifest lists yet.
    async fn write(
        &self,
        table: Table,
        partition: Option<&Partition>,
        batches: &[RecordBatch],
    ) -> Result<File> {
        let Some(first) = batches.first() else {
            return Err(Error::new(ErrorCode::EmptyInput, "no rows to write"));
        };
        let schema = first.schema();
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let bytes = tables::parquet_of(&schema, batches)?;
        let folder = partition.map(|partition| format!("/{}", partition.folder())).unwrap_or_default();
        let name =
            format!("{}{folder}/{:08}-{}.parquet", table.name(), self.manifest.generation + 1, random());
        let (size, sha256) = (bytes.len() as u64, check::sha256(&bytes));
        self.store.create(&name, bytes).await?;
        Ok(File { table, name, partition: partition.cloned(), rows, bytes: size, sha256 })
    }
}

/// Sixteen hexadecimal digits that no other file has.
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
