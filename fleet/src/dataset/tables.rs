// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a dataset's tables, and their Parquet files.
//!
//! The schema is public (docs/fleet.md): other engines read these files. A change of it raises [`SCHEMA`](super::manifest::SCHEMA).

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, Date32Builder, Decimal128Builder, Int32Builder, Int64Builder,
    RecordBatch, StringBuilder, StringDictionaryBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use sediment::{Error, ErrorCode, Result};
use std::sync::Arc;

/// Decimal digits of a weight, and of its sum in the engines: 10 more.
pub const WEIGHT: DataType = DataType::Decimal128(18, 0);

/// Rows of a row group, which engines read in parallel.
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
    ]))
}

/// Columns of submitters.
#[must_use]
pub fn submitters_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("submitter", DataType::Int32, false),
        Field::new("submitter_key", DataType::Utf8, true),
    ]))
}

/// What all rows of one submission share.
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

/// The bit of a submitter. A group of rows has at least as many submitters as bits.
#[must_use]
pub fn submitter_bit(submitter: i32) -> i64 {
    1 << (submitter.rem_euclid(63))
}

/// Rows of facts or blocks that become one file.
#[derive(Default)]
pub struct Facts {
    subject: Int32Builder,
    weight: Vec<Option<i64>>,
    first: Int64Builder,
    submission: Int32Builder,
    submitter: Int32Builder,
    bit: Int64Builder,
    host_class: StringDictionaryBuilder<Int32Type>,
    build_id: StringDictionaryBuilder<Int32Type>,
    source: StringDictionaryBuilder<Int32Type>,
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
        self.weight.len()
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weight.is_empty()
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
        self.subject.append_value(subject);
        self.weight.push(weight);
        self.first.append_option(first);
        self.submission.append_value(shared.submission);
        self.submitter.append_value(shared.submitter);
        self.bit.append_value(submitter_bit(shared.submitter));
        self.host_class.append_value(&shared.host_class);
        self.build_id.append_option(build_id);
        self.source.append_value(&shared.source);
    }

    /// The rows as a batch, and none are left.
    ///
    /// # Errors
    /// When the columns do not fit, which would be a defect.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let mut weights = Decimal128Builder::with_capacity(self.weight.len()).with_data_type(WEIGHT);
        for weight in std::mem::take(&mut self.weight) {
            weights.append_option(weight.map(i128::from));
        }
        let text =
            |builder: &mut StringDictionaryBuilder<Int32Type>| cast(&builder.finish(), &DataType::Utf8);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.subject.finish()),
            Arc::new(weights.finish()),
            Arc::new(self.first.finish()),
            Arc::new(self.submission.finish()),
            Arc::new(self.submitter.finish()),
            Arc::new(self.bit.finish()),
            text(&mut self.host_class).map_err(|error| arrow(&error))?,
            text(&mut self.build_id).map_err(|error| arrow(&error))?,
            text(&mut self.source).map_err(|error| arrow(&error))?,
        ];
        RecordBatch::try_new(facts_schema(), columns).map_err(|error| arrow(&error))
    }
}

/// A row of submissions.
#[derive(Debug, Clone)]
pub struct SubmissionRow {
    /// What its facts say, too.
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
    /// Identity, by which a duplicate is known.
    pub identity: u128,
}

/// Rows of submissions as a batch.
///
/// # Errors
/// When the columns do not fit, which would be a defect.
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
    let mut days = Date32Builder::new();
    let mut totals = Decimal128Builder::new().with_data_type(WEIGHT);
    for row in rows {
        days.append_value(row.day);
        totals.append_value(i128::from(row.total));
    }
    let columns = vec![
        ints(|row| row.shared.submission),
        ints(|row| row.shared.submitter),
        texts(|row| row.shared.host_class.clone()),
        texts(|row| row.package.clone()),
        texts(|row| row.version.clone()),
        Arc::new(days.finish()),
        texts(|row| row.arch.clone()),
        texts(|row| row.shared.source.clone()),
        Arc::new(totals.finish()),
        longs(|row| row.inputs),
        longs(|row| row.functions),
        texts(|row| format!("{:032x}", row.identity)),
    ];
    RecordBatch::try_new(submissions_schema(), columns).map_err(|error| arrow(&error))
}

/// A batch of a table with a number and texts.
///
/// # Errors
/// When the columns do not fit, which would be a defect.
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
    RecordBatch::try_new(schema, std::iter::once(numbers).chain(columns).collect())
        .map_err(|error| arrow(&error))
}

/// The Parquet file of batches.
///
/// # Errors
/// When a batch is not of the schema, which would be a defect.
pub fn parquet_of(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let level = ZstdLevel::try_new(1).map_err(|error| damaged(&error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP))
        // Shares are nearly all different.
        .set_column_dictionary_enabled("weight".into(), false)
        .set_created_by("sediment-fleet".to_owned())
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Arc::clone(schema), Some(properties))
        .map_err(|error| damaged(&error))?;
    for batch in batches {
        writer.write(batch).map_err(|error| damaged(&error))?;
    }
    writer.close().map_err(|error| damaged(&error))?;
    Ok(bytes)
}

/// The batches of a Parquet file, which must have the columns of the schema.
///
/// # Errors
/// When it is damaged, or has other columns.
pub fn batches_of(bytes: bytes::Bytes, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| damaged(&error))?;
    let columns: Vec<&String> = reader.schema().fields().iter().map(|field| field.name()).collect();
    if columns != schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>() {
        return Err(Error::new(ErrorCode::Damaged, format!("a table with other columns: {columns:?}")));
    }
    let read = reader.build().map_err(|error| damaged(&error))?;
    let batches: std::result::Result<Vec<RecordBatch>, ArrowError> = read.collect();
    batches
        .map_err(|error| arrow(&error))?
        .iter()
        .map(|batch| {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| cast(column, field.data_type()));
            let columns =
                columns.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| arrow(&error))?;
            RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| arrow(&error))
        })
        .collect()
}

/// Number of rows that a Parquet file has by its footer.
///
/// # Errors
/// When it is damaged.
pub fn rows_of(bytes: bytes::Bytes) -> Result<u64> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| damaged(&error))?;
    Ok(reader.metadata().file_metadata().num_rows() as u64)
}

/// A text of a column of texts.
#[must_use]
pub fn text_at(batch: &RecordBatch, column: usize, row: usize) -> Option<&str> {
    let column = batch.column(column);
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row))
}

fn damaged(error: &parquet::errors::ParquetError) -> Error {
    Error::new(ErrorCode::Damaged, format!("not a table of a dataset: {error}"))
}

fn arrow(error: &ArrowError) -> Error {
    Error::new(ErrorCode::Damaged, format!("not a table of a dataset: {error}"))
}
