// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsck`: checks that all files of a snapshot exist and are not damaged.

use super::catalog::Table;
use super::{Dataset, tables};
use sediment_core::Result;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

/// Result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Number of files without errors.
    pub sound: usize,
    /// Errors, one on each line.
    pub faults: Vec<String>,
}

/// Reads all files of a dataset's newest snapshot.
///
/// # Errors
/// Fails if there is no dataset, or if its logs are damaged.
pub async fn check(place: &str) -> Result<Checked> {
    let dataset = Dataset::open(place).await?;
    let mut checked = Checked::default();
    let mut identities = HashSet::new();
    for table in Table::ALL {
        for file in dataset.of(table) {
            let batches = match dataset.rows(&[file], &table.schema()).await {
                Ok(batches) => batches,
                Err(error) => {
                    checked.faults.push(error.to_string());
                    continue;
                }
            };
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            let before = checked.faults.len();
            if file.rows > 0 && rows as u64 != file.rows {
                checked.faults.push(format!("{}: {rows} rows instead of {}", file.name, file.rows));
            }
            for batch in batches.iter().filter(|_| table == Table::Submissions) {
                let all = (0..batch.num_rows()).filter_map(|row| tables::text_at(batch, 11, row));
                if !all.map(str::to_owned).all(|identity| identities.insert(identity)) {
                    checked.faults.push(format!("{}: a submission occurs twice", file.name));
                }
            }
            checked.sound += usize::from(checked.faults.len() == before);
        }
    }
    if let Err(error) = dataset.dictionary().await {
        checked.faults.push(error.to_string());
    }
    Ok(checked)
}

/// SHA-256 in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
