// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Submissions`]: rows of the table of submissions in memory, with numbers instead of words. There are few submissions compared with their facts.

use super::catalog::Table;
use super::dictionary::Words;
use super::{Dataset, Selection, each_batch, tables};
use crate::day::Day;
use crate::submission::Sums;
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use sediment_core::{Error, ErrorCode, Result};

/// A submission of a dataset. Classes, packages, versions, units and builds are numbers in [`Submissions::text`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeptSubmission {
    pub(crate) number: i32,
    pub(crate) submitter: i32,
    pub(crate) host_class: u32,
    pub(crate) package: u32,
    pub(crate) version: u32,
    pub(crate) day: Day,
    pub(crate) total: u128,
    pub(crate) inputs: u64,
    pub(crate) sums: Sums,
    pub(crate) block_unit: Option<u32>,
    /// Builds of libraries that have functions without names, as JSON.
    pub(crate) nameless: Option<u32>,
}

/// The submissions of a selection; at least one.
#[derive(Debug, Default)]
pub(crate) struct Submissions {
    pub(crate) words: Words,
    pub(crate) rows: Vec<KeptSubmission>,
}

impl Submissions {
    /// Reads the submissions of a selection.
    pub(crate) async fn of(dataset: &Dataset, selection: &Selection) -> Result<Self> {
        let mut found = Self::default();
        for file in dataset.of(Table::Submissions) {
            let schema = tables::submissions_schema();
            let read = |batch| {
                found.read(&batch, selection);
                Ok(())
            };
            each_batch(&dataset.store, file, &schema, None, read).await?;
        }
        match found.rows.is_empty() {
            false => Ok(found),
            true => Err(none_selected()),
        }
    }

    fn read(&mut self, batch: &RecordBatch, selection: &Selection) {
        let ints = |column: usize| batch.column(column).as_primitive::<Int32Type>();
        let days = batch.column(5).as_primitive::<Date32Type>();
        let inputs = batch.column(9).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let text = |column: usize| tables::text_at(batch, column, row);
            let [package, version, arch] = [3, 4, 6].map(|column| text(column).unwrap_or_default());
            let day = Day(days.value(row));
            if !selection.has(package, version, arch, day) {
                continue;
            }
            let sum = |column: usize| {
                let sum = batch.column(column).as_primitive::<Decimal128Type>().value(row);
                u128::try_from(sum).unwrap_or(0)
            };
            let mut word = |column: usize| text(column).map(|word| self.words.number(word));
            let [host_class, package, version] = [2, 3, 4].map(|column| word(column).unwrap_or_default());
            self.rows.push(KeptSubmission {
                number: ints(0).value(row),
                submitter: ints(1).value(row),
                host_class,
                package,
                version,
                day,
                total: sum(8),
                inputs: u64::try_from(inputs.value(row)).unwrap_or(0),
                sums: Sums { calls: sum(12), near: sum(13), samples: sum(14), blocks: sum(15) },
                block_unit: word(16),
                nameless: word(17),
            });
        }
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        self.words.get(number).unwrap_or_default()
    }
}

/// The error for an empty selection.
pub(crate) fn none_selected() -> Error {
    Error::new(ErrorCode::EmptyInput, "no submission is selected")
        .with_hint("sediment-fleet coverage DATASET lists packages, versions and days")
}
