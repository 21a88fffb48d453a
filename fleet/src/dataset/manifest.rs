// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Manifest`]: the list of a dataset's files. A new generation of it is one new file, so what it lists is there whole or not
//! at all; files that no manifest lists do not belong to the dataset.

use super::store::Store;
use crate::day::Day;
use sediment_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

/// Version of the schema that this program writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// Folder of the manifests.
const FOLDER: &str = "manifest";

/// A table of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// Functions, calls and affinity of each submission.
    Facts,
    /// Counts inside functions, added up by build, submitter and day.
    Blocks,
    /// One row per submission.
    Submissions,
    /// Subjects by number.
    Subjects,
    /// Submitters by number.
    Submitters,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 5] =
        [Self::Facts, Self::Blocks, Self::Submissions, Self::Subjects, Self::Submitters];

    /// Name of the table, and of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Blocks => "blocks",
            Self::Submissions => "submissions",
            Self::Subjects => "subjects",
            Self::Submitters => "submitters",
        }
    }
}

/// A part of a dataset: a package, a version of it, a day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Partition {
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// Days since 1970-01-01.
    pub day: i32,
}

impl Partition {
    /// The folder of the partition below that of its table, as Hive names such folders.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("package={}/version={}/day={}", encoded(&self.package), encoded(&self.version), Day(self.day))
    }
}

/// A word of a stranger as part of a file's name: letters, digits and `._+~` stay, other bytes are `%` and two hexadecimal digits.
fn encoded(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    // No folder is `.` or `..`: a `=` stands in front.
    word.bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its table.
    pub table: Table,
    /// Its name below the root.
    pub name: String,
    /// Its partition; of subjects and submitters none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partition: Option<Partition>,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of its contents.
    pub sha256: String,
}

/// Files and numbers of one generation of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the schema.
    pub schema: u32,
    /// Number of the generation.
    pub generation: u64,
    /// Random text that keys of submitters are made with.
    pub salt: String,
    /// The number of the next submission.
    pub next_submission: i32,
    /// Segments of the intake's log below this number are in the dataset.
    #[serde(default)]
    pub log_segment: u64,
    /// The files.
    pub files: Vec<File>,
}

impl Manifest {
    /// The newest manifest; None of a store without one.
    ///
    /// # Errors
    /// When the store fails, when it is damaged, and when a newer program wrote it.
    pub async fn load(store: &Store) -> Result<Option<Self>> {
        let names = store.list(FOLDER).await?;
        let Some((name, _)) = names.iter().rfind(|(name, _)| name.ends_with(".json")) else {
            return Ok(None);
        };
        Self::parse(&store.read(name).await?).map(Some).map_err(|error| error.with_input(name.clone()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let damaged = |error: serde_json::Error| {
            Error::new(ErrorCode::Damaged, format!("not a manifest of a dataset: {error}"))
                .with_hint("sediment-fleet fsck DATASET names what else is damaged")
        };
        let Version { schema } = serde_json::from_slice(bytes).map_err(damaged)?;
        if schema > SCHEMA {
            let message = format!("schema {schema}, but this program reads up to {SCHEMA}");
            return Err(Error::new(ErrorCode::NewerVersion, message).with_hint("use a newer sediment-fleet"));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }

    /// Writes the manifest as the next generation once the files that it lists last, and removes those before the last.
    ///
    /// # Errors
    /// When another program wrote that generation, or the store fails.
    pub async fn commit(&mut self, store: &Store) -> Result<()> {
        let next = Self { generation: self.generation + 1, ..self.clone() };
        let text =
            serde_json::to_vec_pretty(&next).map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?;
        store.settle()?;
        store.create(&name(next.generation), text).await?;
        store.settle()?;
        if let Some(old) = self.generation.checked_sub(1).filter(|old| *old > 0) {
            store.remove(&name(old)).await?;
        }
        *self = next;
        Ok(())
    }

    /// Files of a table, in the manifest's order.
    pub fn of(&self, table: Table) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.table == table)
    }
}

fn name(generation: u64) -> String {
    format!("{FOLDER}/{generation:012}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_words_stay_inside_their_folder() {
        let partition = Partition { package: "../a b".to_owned(), version: "1:2~é".to_owned(), day: 0 };
        assert_eq!(partition.folder(), "package=..%2Fa%20b/version=1%3A2%7E%C3%A9/day=1970-01-01");
    }

    #[test]
    fn newer_manifests_are_refused_by_name() {
        let newer = br#"{"schema": 99, "other": true}"#;
        assert_eq!(Manifest::parse(newer).err().map(|error| error.code()), Some(ErrorCode::NewerVersion));
        assert_eq!(Manifest::parse(b"{}").err().map(|error| error.code()), Some(ErrorCode::Damaged));
    }
}
