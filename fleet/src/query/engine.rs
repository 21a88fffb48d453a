// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`QueryEngine`]: DataFusion with the files of a dataset as tables. Runs queries in this process, or on a cluster.

use crate::dataset::catalog::TableFile;
use crate::dataset::store::Store;
use crate::dataset::submissions::none_selected;
use crate::dataset::{LENT, random, tables};
use crate::errors::ErrorContext as _;
use datafusion::arrow::array::{ArrayRef, AsArray as _, Decimal128Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parking_lot::Mutex;
use sediment_core::{Error, ErrorCode, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Limits of the query engine.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineOptions {
    /// Memory of the query engine in MiB; further data is spilled to disk
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    /// Folder for spilled data [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Scheduler of a cluster that runs the query, in one task for each thread [default: this process runs the query]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<String>,
    /// Send a query again if the cluster has not answered after this number of seconds, for example because an executor died; three attempts in all
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    retry_after: u64,
}

impl EngineOptions {
    pub(crate) fn engine(&self, store: &Store) -> Result<QueryEngine> {
        let threads = self.threads.unwrap_or_else(processors);
        #[cfg(feature = "cluster")]
        if let Some(scheduler) = &self.cluster {
            let retry_after = Duration::from_secs(self.retry_after);
            return crate::cluster::connect(scheduler, threads, store, retry_after);
        }
        QueryEngine::embedded(self.memory << 20, self.spill.as_deref(), threads, store)
    }
}

/// Number of processors.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Maximum number of times that a query is sent to a cluster, if it gets no answer or fails.
const TRIES: u32 = 3;
/// Maximum time between a failure and the next attempt.
const PAUSE: Duration = Duration::from_secs(10);

/// A session of a query engine.
pub(crate) struct QueryEngine {
    context: SessionContext,
    store: Store,
    /// Time after which a query without an answer is sent again; `None`: queries run in this process, and can call its functions.
    retry_after: Option<Duration>,
    /// Files that were written for queries on other machines.
    lent: Mutex<Vec<String>>,
}

impl std::fmt::Debug for QueryEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueryEngine")
    }
}

impl QueryEngine {
    /// An engine inside this process, with this number of bytes and threads.
    pub(crate) fn embedded(
        memory: usize,
        spill: Option<&Path>,
        threads: usize,
        store: &Store,
    ) -> Result<Self> {
        let mode = spill.map_or(DiskManagerMode::OsTmpDirectory, |folder| {
            DiskManagerMode::Directories(vec![folder.to_owned()])
        });
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
            .build_arc()
            .map_err(|error| failed(&error))?;
        let config = SessionConfig::new().with_target_partitions(threads).with_batch_size(16_384);
        let context = SessionContext::new_with_config_rt(config, runtime);
        Self::of(context, store, None)
    }

    /// An engine with a session. With a time, its queries run elsewhere, such as on a cluster, and a query without an answer after this time is sent
    /// again, for example because an executor died.
    pub(crate) fn of(context: SessionContext, store: &Store, retry_after: Option<Duration>) -> Result<Self> {
        store.register(&context.runtime_env())?;
        Ok(Self { context, store: store.clone(), retry_after, lent: Mutex::default() })
    }

    /// True if queries can call functions of this program.
    pub(crate) fn is_embedded(&self) -> bool {
        self.retry_after.is_none()
    }

    /// Registers files as a table.
    pub(crate) async fn table(&self, name: &str, files: &[&TableFile], schema: &SchemaRef) -> Result<()> {
        if files.is_empty() {
            return Err(none_selected());
        }
        let files = files.iter().map(|file| self.store.url(&file.name)).collect::<Result<Vec<String>>>()?;
        self.view(name, files, schema).await
    }

    async fn view(&self, name: &str, files: Vec<String>, schema: &SchemaRef) -> Result<()> {
        let options = ParquetReadOptions::default().schema(schema);
        let frame = self.context.read_parquet(files, options).await.map_err(|error| failed(&error))?;
        self.context.register_table(name, frame.into_view()).map(drop).map_err(|error| failed(&error))
    }

    /// Registers rows as a table. For a cluster, they are a file in the dataset's store until [`Self::take_back`].
    pub(crate) async fn lend(&self, name: &str, columns: Vec<(&str, ArrayRef)>) -> Result<()> {
        let rows = RecordBatch::try_from_iter(columns).damaged()?;
        if self.is_embedded() {
            return self.context.register_batch(name, rows).map(drop).map_err(|error| failed(&error));
        }
        let file = format!("{LENT}/{}.parquet", random());
        self.lent.lock().push(file.clone());
        self.store.create(&file, tables::ParquetBytes::of(&rows)?.finish()?).await?;
        self.view(name, vec![self.store.url(&file)?], &rows.schema()).await
    }

    /// Removes the files that were written for tables of a cluster.
    pub(crate) async fn take_back(&self) -> Result<()> {
        let lent = std::mem::take(&mut *self.lent.lock());
        for file in lent {
            self.store.remove(&file).await?;
        }
        Ok(())
    }

    /// Registers a function of two columns of numbers.
    pub(crate) fn function(
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
    pub(crate) fn weighing(
        &self,
        of: impl Fn(Option<i128>, i32, i32) -> Option<i128> + Send + Sync + 'static,
    ) {
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
        let function = create_udf("weighed", inputs, returns, Volatility::Immutable, Arc::new(work));
        self.context.register_udf(function);
    }

    /// Runs a query, and returns its rows.
    pub(crate) async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
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
            let message = format!("the cluster did not answer within {waited} s in {TRIES} attempts");
            let hint = "check that its executors are running; for longer queries, increase --retry-after";
            Error::new(ErrorCode::Io, message).with_hint(hint)
        }))
    }

    /// The plan that the query engine executes for a query.
    pub(crate) async fn explain(&self, sql: &str) -> Result<String> {
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
