// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a dataset's tables, and their Parquet files.
//!
//! The schema is public (docs/background/fleet-tables.md), because other engines read these files. A change increases [`SCHEMA`](super::catalog::SCHEMA).

use super::contents::SubmissionHead;
use super::dictionary::Words;
use crate::errors::ErrorContext as _;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array,
    Int32Builder, Int64Array, Int64Builder, RecordBatch, StringArray, StringBuilder, StringDictionaryBuilder,
    new_null_array,
};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, Int32Type, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use sediment_core::Result;
use std::sync::Arc;

/// Decimal digits of a weight. Its sum in the engines has 10 more.
pub(crate) const WEIGHT: DataType = DataType::Decimal128(18, 0);

/// Digits of the digests of subjects.
pub(crate) const DIGEST: DataType = DataType::Decimal128(38, 0);

/// Column that marks subjects whose numbers must not be assigned again, because their names are being forgotten.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// Rows of a row group; engines read row groups in parallel.
const GROUP: usize = 512 * 1024;

pub(crate) fn facts_schema() -> SchemaRef {
    columns(&[
        ("subject", DataType::Int32, false),
        ("weight", WEIGHT, true),
        ("first_use", DataType::Int64, true),
        ("submission", DataType::Int32, false),
        ("submitter", DataType::Int32, false),
        ("submitter_bit", DataType::Int64, false),
        ("host_class", DataType::Utf8, true),
        ("build_id", DataType::Utf8, true),
        ("source", DataType::Utf8, true),
    ])
}

pub(crate) fn submissions_schema() -> SchemaRef {
    columns(&[
        ("submission", DataType::Int32, false),
        ("submitter", DataType::Int32, false),
        ("host_class", DataType::Utf8, true),
        ("package", DataType::Utf8, true),
        ("version", DataType::Utf8, true),
        ("day", DataType::Date32, false),
        ("arch", DataType::Utf8, true),
        ("source", DataType::Utf8, true),
        ("total", WEIGHT, false),
        ("inputs", DataType::Int64, false),
        ("functions", DataType::Int64, false),
        ("identity", DataType::Utf8, true),
        ("calls", WEIGHT, false),
        ("near", WEIGHT, false),
        ("samples", WEIGHT, false),
        ("blocks", WEIGHT, false),
        ("block_unit", DataType::Utf8, true),
        ("nameless", DataType::Utf8, true),
    ])
}

pub(crate) fn subjects_schema() -> SchemaRef {
    columns(&[
        ("subject", DataType::Int32, false),
        ("kind", DataType::Utf8, true),
        ("dso", DataType::Utf8, true),
        ("name", DataType::Utf8, true),
        ("file", DataType::Utf8, true),
        ("callee_dso", DataType::Utf8, true),
        ("callee_name", DataType::Utf8, true),
        ("callee_file", DataType::Utf8, true),
        ("detail", DataType::Utf8, true),
        (FORGOTTEN, DataType::Boolean, true),
        ("digest", DIGEST, true),
    ])
}

pub(crate) fn submitters_schema() -> SchemaRef {
    columns(&[("submitter", DataType::Int32, false), ("submitter_key", DataType::Utf8, true)])
}

fn columns(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, of, can_be_null)| Field::new(*name, of.clone(), *can_be_null));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of a schema with these names.
pub(crate) fn only(schema: &SchemaRef, names: &[&str]) -> SchemaRef {
    let fields = names.iter().filter_map(|name| schema.field_with_name(name).ok().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Values that all rows of one submission share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) submission: i32,
    pub(crate) submitter: i32,
    pub(crate) host_class: String,
    pub(crate) source: String,
}

/// The bit of a submitter. The number of submitters in a group of rows is at least the number of its bits.
pub(crate) fn submitter_bit(submitter: i32) -> i64 {
    1 << (submitter.rem_euclid(63))
}

/// Rows of facts or blocks for one file. Numbers are positions in a writer until [`Facts::finish`].
#[derive(Default)]
pub(crate) struct Facts {
    subject: Vec<i32>,
    weight: Int64Builder,
    first: Int64Builder,
    build_id: Int32Builder,
    build_ids: Words,
    /// Values that consecutive rows share, with the number of these rows.
    shared: Vec<(Shared, usize)>,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("rows", &self.len()).finish_non_exhaustive()
    }
}

impl Facts {
    pub(crate) fn len(&self) -> usize {
        self.subject.len()
    }

    /// Numbers of build-ids, for the rows that are added.
    pub(crate) fn build_ids(&mut self, ids: &[String]) -> Vec<i32> {
        ids.iter().map(|id| self.build_ids.number(id) as i32).collect()
    }

    pub(crate) fn add(
        &mut self,
        shared: &Shared,
        subject: i32,
        weight: Option<i64>,
        first: Option<i64>,
        build_id: Option<i32>,
    ) {
        self.subject.push(subject);
        self.weight.append_option(weight);
        self.first.append_option(first);
        self.build_id.append_option(build_id);
        match self.shared.last_mut() {
            Some((last, rows)) if last == shared => *rows += 1,
            _ => self.shared.push((shared.clone(), 1)),
        }
    }

    /// Returns the rows as a batch, with the numbers that positions have in the dataset.
    pub(crate) fn finish(
        mut self,
        subjects: &[i32],
        submitters: &[i32],
        submissions: &[i32],
    ) -> Result<RecordBatch> {
        self.subject.iter_mut().for_each(|at| *at = number_at(subjects, *at));
        let weight = self.weight.finish().unary::<_, Decimal128Type>(i128::from).with_data_type(WEIGHT);
        let build_ids = Arc::new(StringArray::from_iter_values(self.build_ids.iter()));
        let (mut submission, mut submitter, mut bits) = (Vec::new(), Vec::new(), Vec::new());
        let (mut host_class, mut source) = (StringDictionaryBuilder::new(), StringDictionaryBuilder::new());
        for (shared, rows) in &self.shared {
            let number = number_at(submitters, shared.submitter);
            submission.extend(std::iter::repeat_n(number_at(submissions, shared.submission), *rows));
            submitter.extend(std::iter::repeat_n(number, *rows));
            bits.extend(std::iter::repeat_n(submitter_bit(number), *rows));
            word(&mut host_class, &shared.host_class, *rows)?;
            word(&mut source, &shared.source, *rows)?;
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(self.subject)),
            Arc::new(weight),
            Arc::new(self.first.finish()),
            Arc::new(Int32Array::from(submission)),
            Arc::new(Int32Array::from(submitter)),
            Arc::new(Int64Array::from(bits)),
            Arc::new(host_class.finish()),
            Arc::new(DictionaryArray::try_new(self.build_id.finish(), build_ids).damaged()?),
            Arc::new(source.finish()),
        ];
        // In memory each word of a column is stored once; in files, columns have the types of facts_schema().
        let schema = facts_schema();
        let fields = schema.fields().iter().zip(&columns);
        let fields =
            fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
        RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).damaged()
    }
}

fn word(column: &mut StringDictionaryBuilder<Int32Type>, word: &str, rows: usize) -> Result<()> {
    column.append_n(word, rows).map(drop).damaged()
}

/// The number of a position.
pub(crate) fn number_at(numbers: &[i32], position: i32) -> i32 {
    numbers.get(position as usize).copied().unwrap_or(-1)
}

/// A row of submissions.
#[derive(Debug, Clone)]
pub(crate) struct SubmissionRow {
    /// Values that its facts also contain.
    pub(crate) shared: Shared,
    /// Days since 1970-01-01.
    pub(crate) day: i32,
    /// Detects duplicates.
    pub(crate) identity: u128,
    /// Number of functions.
    pub(crate) functions: i64,
    pub(crate) head: SubmissionHead,
}

/// Converts rows of submissions to a batch.
pub(crate) fn submissions(rows: &[SubmissionRow]) -> Result<RecordBatch> {
    fn column<A: Array + FromIterator<Option<V>> + 'static, V>(
        rows: &[SubmissionRow],
        of: impl Fn(&SubmissionRow) -> V,
    ) -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<A>())
    }
    let texts = |of: fn(&SubmissionRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let weights = |of: &dyn Fn(&SubmissionHead) -> Option<i64>| -> ArrayRef {
        let weights = rows.iter().map(|row| i128::from(of(&row.head).unwrap_or(0)));
        Arc::new(Decimal128Array::from_iter_values(weights).with_data_type(WEIGHT))
    };
    let sum = |at: usize| weights(&move |head| head.sums.get(at).copied());
    let columns = vec![
        column::<Int32Array, _>(rows, |row| row.shared.submission),
        column::<Int32Array, _>(rows, |row| row.shared.submitter),
        texts(|row| Some(&row.shared.host_class)),
        texts(|row| Some(&row.head.package)),
        texts(|row| Some(&row.head.version)),
        column::<Date32Array, _>(rows, |row| row.day),
        texts(|row| Some(&row.head.arch)),
        texts(|row| Some(&row.shared.source)),
        weights(&|head| Some(head.total)),
        column::<Int64Array, _>(rows, |row| row.head.inputs),
        column::<Int64Array, _>(rows, |row| row.functions),
        column::<StringArray, _>(rows, |row| format!("{:032x}", row.identity)),
        sum(0),
        sum(1),
        sum(2),
        sum(3),
        texts(|row| row.head.block_unit.as_deref()),
        texts(|row| row.head.nameless.as_deref()),
    ];
    RecordBatch::try_new(submissions_schema(), columns).damaged()
}

/// A batch of a table with a number and texts; its other columns are null.
pub(crate) fn texts<'t, const N: usize>(
    schema: SchemaRef,
    rows: impl Iterator<Item = (i32, [Option<&'t str>; N])>,
) -> Result<RecordBatch> {
    let mut numbers = Vec::new();
    let mut columns: Vec<StringBuilder> = (0..N).map(|_| StringBuilder::new()).collect();
    for (number, texts) in rows {
        numbers.push(number);
        for (column, text) in columns.iter_mut().zip(texts) {
            column.append_option(text);
        }
    }
    let mut all: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(numbers))];
    all.extend(columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    let count = all[0].len();
    all.extend(schema.fields()[all.len()..].iter().map(|field| new_null_array(field.data_type(), count)));
    RecordBatch::try_new(schema, all).damaged()
}

/// Subjects with marks. If `is_blank` and the mark are true, the subject's name is removed.
pub(crate) fn forgotten(subjects: &RecordBatch, marks: BooleanArray, is_blank: bool) -> Result<RecordBatch> {
    let columns = subjects.columns().iter().enumerate().map(|(at, column)| match at {
        // Number and kind are kept.
        0 | 1 => Ok(Arc::clone(column)),
        9 if is_blank => Ok(new_null_array(&DataType::Boolean, marks.len())),
        9 => Ok(Arc::new(marks.clone()) as ArrayRef),
        _ if is_blank => nullif(column, &marks),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().damaged()?;
    RecordBatch::try_new(subjects.schema(), columns).damaged()
}

/// Subjects with digests.
pub(crate) fn with_digests(subjects: &RecordBatch, digests: Vec<i128>) -> Result<RecordBatch> {
    let mut columns = subjects.columns().to_vec();
    columns.truncate(10);
    columns.push(Arc::new(Decimal128Array::from(digests).with_data_type(DIGEST)));
    RecordBatch::try_new(subjects.schema(), columns).damaged()
}

/// A Parquet file that grows by batches. Only its compressed bytes are in memory.
pub(crate) struct ParquetBytes {
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
}

impl ParquetBytes {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let level = ZstdLevel::try_new(1).damaged()?;
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
        Ok(Self { writer: writer.damaged()?, rows: 0 })
    }

    /// A file of these rows.
    pub(crate) fn of(rows: &RecordBatch) -> Result<Self> {
        let mut file = Self::new(&rows.schema())?;
        file.add(rows)?;
        Ok(file)
    }

    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).damaged()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.writer.into_inner().damaged()
    }
}

impl std::fmt::Debug for ParquetBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetBytes").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// The batch with the columns of a schema.
pub(crate) fn fit(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => cast(column, field.data_type()),
        // An earlier version did not have this column.
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().damaged()?;
    RecordBatch::try_new(Arc::clone(schema), columns).damaged()
}

/// A value in a column of texts.
pub(crate) fn text_at(batch: &RecordBatch, column: usize, row: usize) -> Option<&str> {
    let column = batch.column(column);
    (!column.is_null(row)).then(|| column.as_string::<i32>().value(row))
}
