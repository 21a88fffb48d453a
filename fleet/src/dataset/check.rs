// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsck`: whether all files of a dataset are there and say what their manifest says.

use super::manifest::{File, Table};
use super::rewrite::schema_of;
use super::tables;
use super::writer::lock;
use super::{Dataset, LENT};
use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int32Type;
use sediment_core::Result;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

/// Result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Files that are as they must be.
    pub sound: usize,
    /// Faults, one line each.
    pub faults: Vec<String>,
    /// Files that no manifest lists: left by programs that were ended.
    pub strays: Vec<String>,
}

/// Checks all files of a dataset; with `repair`, strays are removed.
///
/// # Errors
/// When there is no dataset, or the store fails.
pub async fn check(place: &str, repair: bool) -> Result<Checked> {
    let dataset = Dataset::open(place).await?;
    let _lock = if repair { dataset.store.folder().map(lock).transpose()? } else { None };
    let mut checked = Checked::default();
    let subjects: u64 = dataset.manifest.of(Table::Subjects).map(|file| file.rows).sum();
    let submitters: u64 = dataset.manifest.of(Table::Submitters).map(|file| file.rows).sum();
    let mut identities = HashSet::new();
    for file in &dataset.manifest.files {
        match check_file(&dataset, file, subjects, submitters, &mut identities).await {
            Ok(faults) if faults.is_empty() => checked.sound += 1,
            Ok(faults) => {
                checked.faults.extend(faults.into_iter().map(|fault| format!("{}: {fault}", file.name)))
            }
            Err(error) => checked.faults.push(error.to_string()),
        }
    }
    if let Err(error) = dataset.dictionary().await {
        checked.faults.push(error.to_string());
    }
    let listed: HashSet<&str> = dataset.manifest.files.iter().map(|file| file.name.as_str()).collect();
    for folder in Table::ALL.map(Table::name).into_iter().chain([LENT]) {
        for (name, _) in dataset.store.list(folder).await? {
            if !listed.contains(name.as_str()) {
                if repair {
                    dataset.store.remove(&name).await?;
                }
                checked.strays.push(name);
            }
        }
    }
    Ok(checked)
}

async fn check_file(
    dataset: &Dataset,
    file: &File,
    subjects: u64,
    submitters: u64,
    identities: &mut HashSet<u128>,
) -> Result<Vec<String>> {
    let bytes = dataset.store.read(&file.name).await?;
    let mut faults = Vec::new();
    if bytes.len() as u64 != file.bytes || sha256(&bytes) != file.sha256 {
        faults.push(format!("{} bytes with another checksum than its {} had", bytes.len(), file.bytes));
        return Ok(faults);
    }
    let rows = tables::rows_of(bytes.clone())?;
    if rows != file.rows {
        faults.push(format!("{rows} rows instead of {}", file.rows));
    }
    let batches = tables::batches_of(bytes, &schema_of(file.table))
        .map_err(|error| error.with_input(file.name.clone()))?;
    let below = |column: &str, limit: u64, faults: &mut Vec<String>| {
        for batch in &batches {
            let Some(numbers) = batch.column_by_name(column) else { continue };
            let beyond = numbers
                .as_primitive::<Int32Type>()
                .values()
                .iter()
                .any(|number| *number < 0 || *number as u64 >= limit);
            if beyond {
                faults.push(format!("a number of {column} that stands for nothing"));
                return;
            }
        }
    };
    match file.table {
        Table::Facts | Table::Blocks => {
            below("subject", subjects, &mut faults);
            below("submitter", submitters, &mut faults);
            below("submission", dataset.manifest.next_submission as u64, &mut faults);
        }
        Table::Submissions => {
            below("submitter", submitters, &mut faults);
            for batch in &batches {
                for row in 0..batch.num_rows() {
                    let identity =
                        tables::text_at(batch, 11, row).and_then(|text| u128::from_str_radix(text, 16).ok());
                    if !identity.is_some_and(|identity| identities.insert(identity)) {
                        faults.push("a submission that is there twice".to_owned());
                    }
                }
            }
        }
        Table::Subjects | Table::Submitters => {}
    }
    Ok(faults)
}

/// SHA-256 in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
