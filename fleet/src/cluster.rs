// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters: the same queries on Ballista, which has DataFusion's plans run by executors on other machines.
//!
//! [`connect`] makes an engine of a scheduler. [`schedule`] and [`execute`] are the processes of a cluster; those of Ballista itself, of
//! the same release, do as well, since plans call no function of this program.

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

/// The largest message between the processes of a cluster, in bytes.
const MESSAGE: u32 = 256 << 20;

/// An engine whose queries a cluster runs, in this number of tasks; one without an answer after a time is sent again.
///
/// # Errors
/// When the store has no URL; a scheduler that does not answer is told by the first query.
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
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Name by which executors reach it.
    pub host: String,
    /// Time without a sign of life after which an executor counts as dead, and its tasks run elsewhere.
    pub patience: Duration,
}

/// Plans queries and hands out their tasks, until the process is ended.
///
/// # Errors
/// When the address cannot be used.
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
    /// Its port.
    pub scheduler_port: u16,
    /// Address at which other executors fetch intermediate results.
    pub listen: SocketAddr,
    /// Port at which the scheduler hands out tasks.
    pub task_port: u16,
    /// Name by which others reach it.
    pub host: String,
    /// Tasks at the same time.
    pub tasks: usize,
    /// Memory of all tasks in bytes; more is spilled to the disk.
    pub memory: u64,
    /// Folder for intermediate results.
    pub work: PathBuf,
}

/// Runs tasks of a scheduler, until the process is ended.
///
/// # Errors
/// When the scheduler does not answer, or an address cannot be used.
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
