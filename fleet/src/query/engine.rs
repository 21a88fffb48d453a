// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Engine`]: DataFusion with the files of a dataset as tables. Runs queries in this process, or on a cluster.

use crate::dataset::catalog::File;
use crate::dataset::store::Store;
use crate::dataset::submissions::none_selected;
use crate::dataset::{LENT, random, tables};
use datafusion::arrow::array::{ArrayRef, AsArray as _, Decimal128Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use sediment_core::{Error, ErrorCode, Result};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Memory that queries take by default, in bytes.
pub const MEMORY: usize = 1 << 30;

/// Limits of an engine.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Memory in bytes; further data is spilled to disk.
    pub memory: usize,
    /// Folder for spilled data; `None`: the system's temporary folder.
    pub spill: Option<PathBuf>,
    /// Number of threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self { memory: MEMORY, spill: None, threads }
    }
}

/// Maximum number of times that a query is sent to a cluster, if it gets no answer or fails.
const TRIES: u32 = 3;
/// Maximum time between a failure and the next attempt.
const PAUSE: Duration = Duration::from_secs(10);

/// A session of a query engine.
pub struct Engine {
    context: SessionContext,
    /// Time after which a query without an answer is sent again; `None`: never.
    retry_after: Option<Duration>,
    /// True if queries run in this process, and can call its functions.
    is_embedded: bool,
    /// Files that were written for queries on other machines.
    lent: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// An engine inside this process.
    ///
    /// # Errors
    /// Fails if the limits cannot be set.
    pub fn embedded(limits: &Limits, store: &Store) -> Result<Self> {
        let mode = match &limits.spill {
            Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(limits.memory)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
            .build_arc()
            .map_err(|error| failed(&error))?;
        let config = SessionConfig::new().with_target_partitions(limits.threads).with_batch_size(16_384);
        let context = SessionContext::new_with_config_rt(config, runtime);
        Self::of(context, store)
    }

    /// An engine whose queries run elsewhere, such as on a cluster. A query without an answer after a time is sent again, for example because an executor
    /// died.
    ///
    /// # Errors
    /// Fails if the store has no URL.
    pub fn elsewhere(context: SessionContext, store: &Store, retry_after: Duration) -> Result<Self> {
        Ok(Self { retry_after: Some(retry_after), is_embedded: false, ..Self::of(context, store)? })
    }

    fn of(context: SessionContext, store: &Store) -> Result<Self> {
        store.register(&context.runtime_env())?;
        Ok(Self { context, retry_after: None, is_embedded: true, lent: Mutex::default() })
    }

    /// True if queries can call functions of this program.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Registers files as a table.
    ///
    /// # Errors
    /// Fails if there are no files, or if the query engine rejects them.
    pub async fn table(&self, name: &str, store: &Store, files: &[&File], schema: &SchemaRef) -> Result<()> {
        if files.is_empty() {
            return Err(none_selected());
        }
        let names = files.iter().map(|file| store.url(&file.name)).collect::<Result<Vec<String>>>()?;
        let options = ParquetReadOptions::default().schema(schema);
        let frame = self.context.read_parquet(names, options).await.map_err(|error| failed(&error))?;
        self.context.register_table(name, frame.into_view()).map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Registers rows as a table. For a cluster, they are a file in the dataset's store until [`Self::take_back`].
    ///
    /// # Errors
    /// Fails if the store fails, or if the query engine rejects the rows.
    pub async fn lend(&self, name: &str, store: &Store, rows: &RecordBatch) -> Result<()> {
        if self.is_embedded {
            let done = self.context.register_batch(name, rows.clone());
            return done.map(drop).map_err(|error| failed(&error));
        }
        let file = format!("{LENT}/{}.parquet", random());
        let mut bytes = tables::ParquetBytes::new(&rows.schema())?;
        bytes.add(rows)?;
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(file.clone());
        store.create(&file, bytes.finish()?).await?;
        let schema = rows.schema();
        let options = ParquetReadOptions::default().schema(&schema);
        let frame = self.context.read_parquet(store.url(&file)?, options).await;
        let view = frame.map_err(|error| failed(&error))?.into_view();
        self.context.register_table(name, view).map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Removes the files that were written for tables of a cluster.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub async fn take_back(&self, store: &Store) -> Result<()> {
        let lent = std::mem::take(&mut *self.lent.lock().unwrap_or_else(PoisonError::into_inner));
        for file in lent {
            store.remove(&file).await?;
        }
        Ok(())
    }

    /// Registers a function of two columns of numbers.
    pub fn function(
        &self,
        name: &str,
        returns: DataType,
        of: impl Fn(&[i32], &[i32]) -> ArrayRef + Send + Sync + 'static,
    ) {
        let work = move |arguments: &[ColumnarValue]| {
            let columns = ColumnarValue::values_to_arrays(arguments)?;
            let [one, other] = columns.as_slice() else {
                return Err(DataFusionError::Plan("a function of two columns".to_owned()));
            };
            let numbers = |column: &ArrayRef| column.as_primitive::<Int32Type>().values().clone();
            Ok(ColumnarValue::Array(of(&numbers(one), &numbers(other))))
        };
        let inputs = vec![DataType::Int32, DataType::Int32];
        self.context.register_udf(create_udf(name, inputs, returns, Volatility::Immutable, Arc::new(work)));
    }

    /// Registers the function `weighed` of a weight and two columns of numbers. Its sums fit 38 digits.
    pub fn weighing(&self, of: impl Fn(Option<i128>, i32, i32) -> Option<i128> + Send + Sync + 'static) {
        let returns = DataType::Decimal128(38, 0);
        let work = move |arguments: &[ColumnarValue]| {
            let columns = ColumnarValue::values_to_arrays(arguments)?;
            let [weights, one, other] = columns.as_slice() else {
                return Err(DataFusionError::Plan("a function of a weight and two columns".to_owned()));
            };
            let weights = weights.as_primitive::<Decimal128Type>();
            let (one, other) = (one.as_primitive::<Int32Type>(), other.as_primitive::<Int32Type>());
            let rows = weights.iter().zip(one.values().iter().zip(other.values()));
            let weighed: Decimal128Array =
                rows.map(|(weight, (one, other))| of(weight, *one, *other)).collect();
            Ok(ColumnarValue::Array(Arc::new(weighed.with_precision_and_scale(38, 0)?)))
        };
        let inputs = vec![tables::WEIGHT, DataType::Int32, DataType::Int32];
        self.context.register_udf(create_udf(
            "weighed",
            inputs,
            returns,
            Volatility::Immutable,
            Arc::new(work),
        ));
    }

    /// Runs a query, and returns its rows.
    ///
    /// # Errors
    /// Fails if the query fails; the error reports insufficient memory and a full disk.
    pub async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        // An error in the query itself is reported here, without another attempt.
        let frame = self.context.sql(sql).await.map_err(|error| failed(&error))?;
        let Some(longest) = self.retry_after else {
            return frame.collect().await.map_err(|error| failed(&error));
        };
        let mut last = None;
        for _ in 0..TRIES {
            match tokio::time::timeout(longest, frame.clone().collect()).await {
                Ok(Ok(answer)) => return Ok(answer),
                // The lost executor may have had intermediate results, and the scheduler may not know yet that it is gone.
                Ok(Err(error)) => {
                    last = Some(failed(&error));
                    tokio::time::sleep(longest.min(PAUSE)).await;
                }
                Err(_) => {}
            }
        }
        let waited = longest.as_secs();
        Err(last.unwrap_or_else(|| {
            Error::new(
                ErrorCode::Io,
                format!("the cluster did not answer within {waited} s in {TRIES} attempts"),
            )
            .with_hint("check that its executors are running; for longer queries, increase --retry-after")
        }))
    }

    /// The plan that the query engine executes for a query.
    ///
    /// # Errors
    /// Fails if the query engine refuses the query.
    pub async fn explain(&self, sql: &str) -> Result<String> {
        let frame = self.context.sql(sql).await.map_err(|error| failed(&error))?;
        let plan = frame.create_physical_plan().await.map_err(|error| failed(&error))?;
        Ok(datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string())
    }
}

fn failed(error: &DataFusionError) -> Error {
    let error = error.find_root();
    let made = Error::new(ErrorCode::Io, format!("the query failed: {error}"));
    match error {
        DataFusionError::ResourcesExhausted(_) => {
            made.with_hint("give it more memory (--memory), or a folder with more space (--spill)")
        }
        _ => made.with_hint("sediment-fleet fsck DATASET checks its files"),
    }
}
