// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters: the same queries on Ballista, which runs DataFusion's plans in executors on other machines.
//!
//! [`connect`] makes an engine that uses a scheduler. [`schedule`] and [`execute`] are the processes of a cluster. Ballista's own processes of the
//! same release also work, because plans do not call functions of this program.

use crate::dataset::Dataset;
use crate::dataset::store::Store;
use crate::errors::ErrorContext as _;
use crate::query::engine::{QueryEngine, processors};
use ballista_core::error::BallistaError;
use ballista_core::extension::{SessionConfigExt as _, SessionStateExt as _};
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use sediment_core::{Error, ErrorCode, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a message between the processes of a cluster, in bytes.
const MESSAGE: u32 = 256 << 20;

/// Makes an engine whose queries run on a cluster, in this number of tasks. A query without an answer after a time is sent again. If the scheduler does
/// not answer, the first query reports it.
pub(crate) fn connect(
    scheduler: &str,
    tasks: usize,
    store: &Store,
    retry_after: Duration,
) -> Result<QueryEngine> {
    let config = SessionConfig::new_with_ballista()
        .with_target_partitions(tasks)
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let state = state
        .upgrade_for_ballista(format!("http://{scheduler}"))
        .map_err(|error| Error::new(ErrorCode::Usage, format!("no cluster: {error}")))?;
    QueryEngine::of(SessionContext::new_with_state(state), store, Some(retry_after))
}

#[derive(Debug, clap::Args)]
pub(crate) struct Scheduler {
    /// Folder that all machines of the cluster see, or s3://BUCKET/PREFIX
    dataset: String,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    /// Name by which executors reach this machine
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// An executor that sends nothing for this number of seconds counts as dead, and its tasks run elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..))]
    patience: u64,
}

/// Plans queries and distributes their tasks, until the process is ended.
pub(crate) async fn schedule(settings: &Scheduler) -> Result<()> {
    let store = Dataset::open(&settings.dataset).await?.store;
    let config = SchedulerConfig {
        bind_host: settings.listen.ip().to_string(),
        bind_port: settings.listen.port(),
        external_host: settings.host.clone(),
        executor_timeout_seconds: settings.patience,
        no_executors_grace_period_seconds: settings.patience * 2,
        expire_dead_executor_interval_seconds: (settings.patience / 4).max(1),
        grpc_server_max_decoding_message_size: MESSAGE,
        grpc_server_max_encoding_message_size: MESSAGE,
        grpc_client_max_message_size: MESSAGE,
        override_session_builder: Some(Arc::new(move |config| {
            let state = default_session_builder(config)?;
            store.register(state.runtime_env()).map_err(|error| told(&error))?;
            Ok(state)
        })),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(|error| failed(&error))?;
    start_server(cluster, settings.listen, Arc::new(config)).await.map_err(|error| failed(&error))
}

#[derive(Debug, clap::Args)]
pub(crate) struct Executor {
    /// Folder that all machines of the cluster see, or s3://BUCKET/PREFIX
    dataset: String,
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050", value_parser = host_and_port)]
    scheduler: (String, u16),
    /// Address from which other executors fetch intermediate results
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// Port on which the scheduler distributes tasks
    #[arg(long, value_name = "PORT", default_value_t = 50052)]
    task_port: u16,
    /// Host name by which other machines reach this machine
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// Number of parallel tasks [default: number of processors]
    #[arg(long, value_name = "COUNT")]
    tasks: Option<usize>,
    /// Memory of all tasks in MiB; further data is spilled to disk
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: u64,
    /// Folder for intermediate results [default: a folder in the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

fn host_and_port(text: &str) -> std::result::Result<(String, u16), &'static str> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or("the scheduler must be HOST:PORT")
}

/// Runs tasks of a scheduler, until the process is ended.
pub(crate) async fn execute(settings: &Executor) -> Result<()> {
    let store = Dataset::open(&settings.dataset).await?.store;
    let own = tempfile::tempdir().io()?;
    let work = settings.work.clone().unwrap_or_else(|| own.path().to_path_buf());
    let (scheduler_host, scheduler_port) = settings.scheduler.clone();
    let config = ExecutorProcessConfig {
        bind_host: settings.listen.ip().to_string(),
        port: settings.listen.port(),
        grpc_port: settings.task_port,
        external_host: Some(settings.host.clone()),
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        vcores: settings.tasks.unwrap_or_else(processors),
        memory_pool_size: Some(settings.memory << 20),
        work_dir: Some(work.display().to_string()),
        executor_heartbeat_interval_seconds: 1,
        grpc_max_decoding_message_size: MESSAGE,
        grpc_max_encoding_message_size: MESSAGE,
        override_runtime_producer: Some(Arc::new(move |_| {
            let environment = RuntimeEnvBuilder::new().with_temp_file_path(work.clone()).build_arc()?;
            store.register(&environment).map_err(|error| told(&error))?;
            Ok(environment)
        })),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.map_err(|error| failed(&error))
}

fn told(error: &Error) -> DataFusionError {
    DataFusionError::Configuration(error.to_string())
}

fn failed(error: &BallistaError) -> Error {
    Error::new(ErrorCode::Io, format!("the cluster failed: {error}"))
}
