// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a dataset's tables, and their Parquet files.
//!
//! The schema is public (docs/background/fleet-tables.md), because other engines read these files. A change increases [`SCHEMA`](super::catalog::SCHEMA).

use super::dictionary::Words;
use crate::submission::Sums;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Date32Builder, Decimal128Array, Decimal128Builder,
    DictionaryArray, Int32Array, Int32Builder, Int64Array, Int64Builder, RecordBatch, StringArray,
    StringBuilder, new_null_array,
};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use sediment_core::{Error, ErrorCode, Result};
use std::sync::Arc;

/// Decimal digits of a weight. Its sum in the engines has 10 more.
pub const WEIGHT: DataType = DataType::Decimal128(18, 0);

/// Digits of the digests of subjects.
pub const DIGEST: DataType = DataType::Decimal128(38, 0);

/// Column that marks subjects whose numbers must not be assigned again, because their names are being forgotten.
pub const FORGOTTEN: &str = "forgotten";

/// Rows of a row group; engines read row groups in parallel.
const GROUP: usize = 512 * 1024;

/// Columns of facts and blocks.
#[must_use]
pub fn facts_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![
        Field::new("subject", DataType::Int32, false),
        Field::new("weight", WEIGHT, true),
        Field::new("first_use", DataType::Int64, true),
        Field::new("submission", DataType::Int32, false),
        Field::new("submitter", DataType::Int32, false),
        Field::new("submitter_bit", DataType::Int64, false),
        text("host_class"),
        text("build_id"),
        text("source"),
    ]))
}

/// Columns of submissions.
#[must_use]
pub fn submissions_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![
        Field::new("submission", DataType::Int32, false),
        Field::new("submitter", DataType::Int32, false),
        text("host_class"),
        text("package"),
        text("version"),
        Field::new("day", DataType::Date32, false),
        text("arch"),
        text("source"),
        Field::new("total", WEIGHT, false),
        Field::new("inputs", DataType::Int64, false),
        Field::new("functions", DataType::Int64, false),
        text("identity"),
        Field::new("calls", WEIGHT, false),
        Field::new("near", WEIGHT, false),
        Field::new("samples", WEIGHT, false),
        Field::new("blocks", WEIGHT, false),
        text("block_unit"),
        text("nameless"),
    ]))
}

/// Columns of subjects.
#[must_use]
pub fn subjects_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![
        Field::new("subject", DataType::Int32, false),
        text("kind"),
        text("dso"),
        text("name"),
        text("file"),
        text("callee_dso"),
        text("callee_name"),
        text("callee_file"),
        text("detail"),
        Field::new(FORGOTTEN, DataType::Boolean, true),
        Field::new("digest", DIGEST, true),
    ]))
}

/// The columns of a schema with these names.
#[must_use]
pub fn only(schema: &SchemaRef, names: &[&str]) -> SchemaRef {
    let fields = names.iter().filter_map(|name| schema.field_with_name(name).ok().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Columns of submitters.
#[must_use]
pub fn submitters_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("submitter", DataType::Int32, false),
        Field::new("submitter_key", DataType::Utf8, true),
    ]))
}

/// Values that all rows of one submission share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Number of the submission.
    pub submission: i32,
    /// Number of the submitter.
    pub submitter: i32,
    /// Class of the host.
    pub host_class: String,
    /// Recorders.
    pub source: String,
}

impl Shared {
    fn is_of(&self, other: &Self) -> bool {
        self.submission == other.submission
            && self.submitter == other.submitter
            && self.host_class == other.host_class
            && self.source == other.source
    }
}

/// The bit of a submitter. The number of submitters in a group of rows is at least the number of its bits.
#[must_use]
pub fn submitter_bit(submitter: i32) -> i64 {
    1 << (submitter.rem_euclid(63))
}

/// Rows of facts or blocks for one file.
#[derive(Default)]
pub struct Facts {
    subject: Vec<i32>,
    weight: Int64Builder,
    first: Int64Builder,
    build_id: Int32Builder,
    build_ids: WordColumn,
    /// Values that consecutive rows share, with the number of these rows.
    shared: Vec<(Shared, usize)>,
}

/// Words of a column; each word is stored once.
#[derive(Default)]
struct WordColumn {
    words: Words,
    last: u32,
}

impl WordColumn {
    fn number(&mut self, word: &str) -> i32 {
        // Consecutive rows usually contain the same word.
        if self.words.get(self.last) != Some(word) {
            self.last = self.words.number(word);
        }
        self.last as i32
    }

    fn column(&self, numbers: Int32Array) -> Result<ArrayRef> {
        let words: Vec<&str> = (0..).map_while(|number| self.words.get(number)).collect();
        let words = Arc::new(StringArray::from_iter_values(words));
        let column = DictionaryArray::try_new(numbers, words).map_err(|error| arrow(&error))?;
        Ok(Arc::new(column))
    }
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("rows", &self.len()).finish_non_exhaustive()
    }
}

impl Facts {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.subject.len()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subject.is_empty()
    }

    /// Adds a row.
    pub fn add(
        &mut self,
        shared: &Shared,
        subject: i32,
        weight: Option<i64>,
        first: Option<i64>,
        build_id: Option<&str>,
    ) {
        self.subject.push(subject);
        self.weight.append_option(weight);
        self.first.append_option(first);
        self.build_id.append_option(build_id.map(|id| self.build_ids.number(id)));
        match self.shared.last_mut() {
            Some((last, rows)) if last.is_of(shared) => *rows += 1,
            _ => self.shared.push((shared.clone(), 1)),
        }
    }

    /// Replaces the numbers in rows.
    pub fn renumber(
        &mut self,
        subject: impl Fn(i32) -> i32,
        submitter: impl Fn(i32) -> i32,
        submission: impl Fn(i32) -> i32,
    ) {
        self.subject.iter_mut().for_each(|number| *number = subject(*number));
        for (shared, _) in &mut self.shared {
            shared.submitter = submitter(shared.submitter);
            shared.submission = submission(shared.submission);
        }
    }

    /// Returns the rows as a batch, and removes them.
    ///
    /// # Errors
    /// Fails if the columns do not fit, which would be a bug.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let Self { subject, mut weight, mut first, mut build_id, build_ids, shared } = std::mem::take(self);
        let weight = weight.finish().unary::<_, Decimal128Type>(i128::from);
        let weight = weight.with_precision_and_scale(18, 0).map_err(|error| arrow(&error))?;
        let (mut host_classes, mut sources) = (WordColumn::default(), WordColumn::default());
        let ints = |of: fn(&Shared) -> i32| -> ArrayRef {
            Arc::new(Int32Array::from_iter_values(repeated(
                shared.iter().map(|(one, rows)| (of(one), *rows)),
            )))
        };
        let bits = shared.iter().map(|(one, rows)| (submitter_bit(one.submitter), *rows));
        let text = |words: &mut WordColumn, of: fn(&Shared) -> &str| {
            let numbers: Vec<_> = shared.iter().map(|(one, rows)| (words.number(of(one)), *rows)).collect();
            words.column(Int32Array::from_iter_values(repeated(numbers.into_iter())))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(subject)),
            Arc::new(weight),
            Arc::new(first.finish()),
            ints(|one| one.submission),
            ints(|one| one.submitter),
            Arc::new(Int64Array::from_iter_values(repeated(bits))),
            text(&mut host_classes, |one| &one.host_class)?,
            build_ids.column(build_id.finish())?,
            text(&mut sources, |one| &one.source)?,
        ];
        // In memory each word of a column is stored once; in files, columns have the types of facts_schema().
        let fields = facts_schema();
        let fields = fields
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns).map_err(|error| arrow(&error))
    }
}

/// Expands values by their repeat counts.
fn repeated<T: Clone>(values: impl Iterator<Item = (T, usize)>) -> impl Iterator<Item = T> {
    values.flat_map(|(value, rows)| std::iter::repeat_n(value, rows))
}

/// A row of submissions.
#[derive(Debug, Clone)]
pub struct SubmissionRow {
    /// Values that its facts also contain.
    pub shared: Shared,
    /// Name of the package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Days since 1970-01-01.
    pub day: i32,
    /// Architectures.
    pub arch: String,
    /// Total of its shares.
    pub total: i64,
    /// Number of recordings.
    pub inputs: i64,
    /// Number of functions.
    pub functions: i64,
    /// Identity, which detects duplicates.
    pub identity: u128,
    /// Sums of the counted events.
    pub sums: Sums,
    /// Unit of its block counts.
    pub block_unit: Option<String>,
    /// Builds of libraries that have functions without names, as a JSON object.
    pub nameless: Option<String>,
}

/// Converts rows of submissions to a batch.
///
/// # Errors
/// Fails if the columns do not fit, which would be a bug.
pub fn submissions(rows: &[SubmissionRow]) -> Result<RecordBatch> {
    let ints = |of: fn(&SubmissionRow) -> i32| {
        let mut builder = Int32Builder::new();
        rows.iter().for_each(|row| builder.append_value(of(row)));
        Arc::new(builder.finish()) as ArrayRef
    };
    let longs = |of: fn(&SubmissionRow) -> i64| {
        let mut builder = Int64Builder::new();
        rows.iter().for_each(|row| builder.append_value(of(row)));
        Arc::new(builder.finish()) as ArrayRef
    };
    let texts = |of: fn(&SubmissionRow) -> String| {
        let mut builder = StringBuilder::new();
        rows.iter().for_each(|row| builder.append_value(of(row)));
        Arc::new(builder.finish()) as ArrayRef
    };
    let optional = |of: fn(&SubmissionRow) -> Option<&str>| {
        Arc::new(rows.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let decimals = |of: fn(&SubmissionRow) -> u128| {
        let mut builder = Decimal128Builder::new().with_data_type(WEIGHT);
        rows.iter().for_each(|row| builder.append_value(of(row) as i128));
        Arc::new(builder.finish()) as ArrayRef
    };
    let mut days = Date32Builder::new();
    rows.iter().for_each(|row| days.append_value(row.day));
    let columns = vec![
        ints(|row| row.shared.submission),
        ints(|row| row.shared.submitter),
        texts(|row| row.shared.host_class.clone()),
        texts(|row| row.package.clone()),
        texts(|row| row.version.clone()),
        Arc::new(days.finish()),
        texts(|row| row.arch.clone()),
        texts(|row| row.shared.source.clone()),
        decimals(|row| row.total as u128),
        longs(|row| row.inputs),
        longs(|row| row.functions),
        texts(|row| format!("{:032x}", row.identity)),
        decimals(|row| row.sums.calls),
        decimals(|row| row.sums.near),
        decimals(|row| row.sums.samples),
        decimals(|row| row.sums.blocks),
        optional(|row| row.block_unit.as_deref()),
        optional(|row| row.nameless.as_deref()),
    ];
    RecordBatch::try_new(submissions_schema(), columns).map_err(|error| arrow(&error))
}

/// A batch of a table with a number and texts; its other columns are null.
///
/// # Errors
/// Fails if the columns do not fit, which would be a bug.
pub fn texts<'t, const N: usize>(
    schema: SchemaRef,
    rows: impl Iterator<Item = (i32, [Option<&'t str>; N])>,
) -> Result<RecordBatch> {
    let mut numbers = Int32Builder::new();
    let mut columns: Vec<StringBuilder> = (0..N).map(|_| StringBuilder::new()).collect();
    for (number, texts) in rows {
        numbers.append_value(number);
        for (column, text) in columns.iter_mut().zip(texts) {
            column.append_option(text);
        }
    }
    let numbers: ArrayRef = Arc::new(numbers.finish());
    let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
    let mut columns: Vec<ArrayRef> = std::iter::once(numbers.clone()).chain(columns).collect();
    let further = schema.fields().iter().skip(columns.len());
    let nulls: Vec<ArrayRef> =
        further.map(|field| new_null_array(field.data_type(), numbers.len())).collect();
    columns.extend(nulls);
    RecordBatch::try_new(schema, columns).map_err(|error| arrow(&error))
}

/// Subjects with marks. If `is_blank` and the mark are true, the subject's name is removed.
///
/// # Errors
/// Fails if the columns do not fit, which would be a bug.
pub fn forgotten(subjects: &RecordBatch, marks: BooleanArray, is_blank: bool) -> Result<RecordBatch> {
    let columns = subjects.columns().iter().enumerate().map(|(at, column)| match at {
        // Number and kind are kept.
        0 | 1 => Ok(Arc::clone(column)),
        9 if is_blank => Ok(new_null_array(&DataType::Boolean, marks.len())),
        9 => Ok(Arc::new(marks.clone()) as ArrayRef),
        _ if is_blank => nullif(column, &marks),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| arrow(&error))?;
    RecordBatch::try_new(subjects.schema(), columns).map_err(|error| arrow(&error))
}

/// Subjects with digests.
///
/// # Errors
/// Fails if the columns do not fit, which would be a bug.
pub fn with_digests(subjects: &RecordBatch, digests: Vec<i128>) -> Result<RecordBatch> {
    let digests = Decimal128Array::from(digests).with_precision_and_scale(38, 0);
    let mut columns = subjects.columns().to_vec();
    columns.truncate(10);
    columns.push(Arc::new(digests.map_err(|error| arrow(&error))?));
    RecordBatch::try_new(subjects.schema(), columns).map_err(|error| arrow(&error))
}

/// A Parquet file that grows by batches. Only its compressed bytes are in memory.
pub struct ParquetBytes {
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
}

impl ParquetBytes {
    /// An empty file.
    ///
    /// # Errors
    /// Fails if the schema is not possible in Parquet, which would be a bug.
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        let level = ZstdLevel::try_new(1).map_err(|error| damaged(&error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP))
            // Shares and digests are nearly all different, so a dictionary would not help.
            .set_column_dictionary_enabled("weight".into(), false)
            .set_column_dictionary_enabled("digest".into(), false)
            .set_created_by("sediment-fleet".to_owned())
            .build();
        // The file does not contain the types of columns in memory.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(schema), options);
        Ok(Self { writer: writer.map_err(|error| damaged(&error))?, rows: 0 })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Fails if the rows do not have the schema, which would be a bug.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|error| damaged(&error))
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// Fails if the rows cannot be encoded, which would be a bug.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.writer.into_inner().map_err(|error| damaged(&error))
    }
}

impl std::fmt::Debug for ParquetBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetBytes").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// The batch with the columns of a schema.
///
/// # Errors
/// Fails if it lacks a required column.
pub fn fit(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => cast(column, field.data_type()),
        // An earlier version did not have this column.
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| arrow(&error))?;
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| arrow(&error))
}

/// A value in a column of texts.
#[must_use]
pub fn text_at(batch: &RecordBatch, column: usize, row: usize) -> Option<&str> {
    let column = batch.column(column);
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row))
}

pub(super) fn damaged(error: &parquet::errors::ParquetError) -> Error {
    Error::new(ErrorCode::Damaged, format!("not a table of a dataset: {error}"))
}

fn arrow(error: &ArrowError) -> Error {
    Error::new(ErrorCode::Damaged, format!("not a table of a dataset: {error}"))
}
