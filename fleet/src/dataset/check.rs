// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsck`: checks that all files of a snapshot exist and are not damaged.

use super::catalog::Table;
use super::dictionary::Names;
use super::{Dataset, each_batch, tables};
use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int32Type;
use sediment_core::Result;
use std::collections::HashSet;

/// Result of a check.
#[derive(Debug, Default)]
pub(crate) struct DatasetCheck {
    pub(crate) sound: usize,
    /// Errors, one on each line.
    pub(crate) faults: Vec<String>,
}

/// Reads all files of a dataset's newest snapshot.
pub(crate) async fn check(place: &str) -> Result<DatasetCheck> {
    let dataset = Dataset::open(place).await?;
    let mut checked = DatasetCheck::default();
    let mut identities = HashSet::new();
    let (mut names, mut next) = (Names::default(), 0);
    for (table, file) in
        Table::ALL.into_iter().flat_map(|table| dataset.of(table).iter().map(move |file| (table, file)))
    {
        let (before, mut rows) = (checked.faults.len(), 0);
        let (faults, schema) = (&mut checked.faults, table.schema());
        let read = each_batch(&dataset.store, file, &schema, None, |batch| {
            rows += batch.num_rows() as u64;
            match table {
                Table::Submissions => {
                    let all = (0..batch.num_rows()).filter_map(|row| tables::text_at(&batch, 11, row));
                    if !all.map(str::to_owned).all(|identity| identities.insert(identity)) {
                        faults.push(format!("{}: a submission occurs twice", file.name));
                    }
                }
                Table::Subjects => {
                    for number in batch.column(0).as_primitive::<Int32Type>().values() {
                        if *number != next {
                            faults.push(format!("{}: subject {number} instead of {next}", file.name));
                        }
                        next = number + 1;
                    }
                    names.read(&batch)?;
                }
                _ => {}
            }
            Ok(())
        });
        match read.await {
            Err(error) => checked.faults.push(error.to_string()),
            Ok(()) if file.rows > 0 && rows != file.rows => {
                checked.faults.push(format!("{}: {rows} rows instead of {}", file.name, file.rows));
            }
            Ok(()) => {}
        }
        checked.sound += usize::from(checked.faults.len() == before);
    }
    Ok(checked)
}
