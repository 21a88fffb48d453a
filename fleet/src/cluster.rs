// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters: the same queries on Ballista, which runs DataFusion's plans in executors on other machines.
//!
//! [`connect`] makes an engine that uses a scheduler. [`schedule`] and [`execute`] are the processes of a cluster. Ballista's own processes of the
//! same release also work, because plans do not call functions of this program.

use crate::dataset::store::Store;
use crate::query::engine::Engine;
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

/// Makes an engine whose queries run on a cluster, in this number of tasks. A query without an answer after a time is sent again.
///
/// # Errors
/// Fails if the store has no URL. If the scheduler does not answer, the first query reports it.
pub fn connect(scheduler: &str, tasks: usize, store: &Store, retry_after: Duration) -> Result<Engine> {
    let config = SessionConfig::new_with_ballista()
        .with_target_partitions(tasks)
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let state = state.upgrade_for_ballista(format!("http://{scheduler}")).map_err(|error| failed(&error))?;
    Engine::elsewhere(SessionContext::new_with_state(state), store, retry_after)
}

/// Settings of a scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Host name by which executors reach the scheduler.
    pub host: String,
    /// An executor that sends nothing for this time counts as dead, and its tasks run elsewhere.
    pub patience: Duration,
}

/// Plans queries and distributes their tasks, until the process is ended.
///
/// # Errors
/// Fails if the address is not usable.
pub async fn schedule(settings: &Scheduler, store: Store) -> Result<()> {
    let config = SchedulerConfig {
        bind_host: settings.listen.ip().to_string(),
        bind_port: settings.listen.port(),
        external_host: settings.host.clone(),
        executor_timeout_seconds: settings.patience.as_secs(),
        no_executors_grace_period_seconds: settings.patience.as_secs() * 2,
        expire_dead_executor_interval_seconds: (settings.patience.as_secs() / 4).max(1),
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
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(|error| ballista(&error))?;
    start_server(cluster, settings.listen, Arc::new(config)).await.map_err(|error| ballista(&error))
}

/// Settings of an executor.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Host of the scheduler.
    pub scheduler: String,
    /// Port of the scheduler.
    pub scheduler_port: u16,
    /// Address from which other executors fetch intermediate results.
    pub listen: SocketAddr,
    /// Port on which the scheduler distributes tasks.
    pub task_port: u16,
    /// Host name by which other machines reach the executor.
    pub host: String,
    /// Number of parallel tasks.
    pub tasks: usize,
    /// Memory of all tasks in bytes; further data is spilled to disk.
    pub memory: u64,
    /// Folder for intermediate results.
    pub work: PathBuf,
}

/// Runs tasks of a scheduler, until the process is ended.
///
/// # Errors
/// Fails if the scheduler does not answer, or an address is not usable.
pub async fn execute(settings: &Executor, store: Store) -> Result<()> {
    let work = settings.work.clone();
    let config = ExecutorProcessConfig {
        bind_host: settings.listen.ip().to_string(),
        port: settings.listen.port(),
        grpc_port: settings.task_port,
        external_host: Some(settings.host.clone()),
        scheduler_host: settings.scheduler.clone(),
        scheduler_port: settings.scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        vcores: settings.tasks,
        memory_pool_size: Some(settings.memory),
        work_dir: Some(settings.work.display().to_string()),
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
    start_executor_process(Arc::new(config)).await.map_err(|error| ballista(&error))
}

fn told(error: &Error) -> DataFusionError {
    DataFusionError::Configuration(error.to_string())
}

fn failed(error: &DataFusionError) -> Error {
    Error::new(ErrorCode::Usage, format!("no cluster: {error}"))
}

fn ballista(error: &BallistaError) -> Error {
    Error::new(ErrorCode::Io, format!("the cluster failed: {error}"))
}
