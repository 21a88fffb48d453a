// SPDX-License-Identifier: MIT OR Apache-2.0
//! `scheduler` and `executor`: the processes of a cluster.

use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_fleet::cluster::{Executor, Scheduler, execute, schedule};
use sediment_fleet::dataset::Dataset;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Stack size of the threads that plan queries. Plans are trees, so planning is recursive.
const STACK: usize = 32 << 20;

#[derive(Debug, Args)]
pub(crate) struct SchedulerOptions {
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

#[derive(Debug, Args)]
pub(crate) struct ExecutorOptions {
    /// Folder that all machines of the cluster see, or s3://BUCKET/PREFIX
    dataset: String,
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    scheduler: String,
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

pub(crate) fn scheduler(options: &SchedulerOptions) -> Result<()> {
    let settings = Scheduler {
        listen: options.listen,
        host: options.host.clone(),
        patience: Duration::from_secs(options.patience),
    };
    block_on(async { schedule(&settings, Dataset::open(&options.dataset).await?.store).await })
}

pub(crate) fn executor(options: &ExecutorOptions) -> Result<()> {
    let (scheduler, port) = host_and_port(&options.scheduler)?;
    let own = tempfile::tempdir().map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?;
    let settings = Executor {
        scheduler,
        scheduler_port: port,
        listen: options.listen,
        task_port: options.task_port,
        host: options.host.clone(),
        tasks: options.tasks.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from)),
        memory: options.memory << 20,
        work: options.work.clone().unwrap_or_else(|| own.path().to_path_buf()),
    };
    block_on(async { execute(&settings, Dataset::open(&options.dataset).await?.store).await })
}

fn host_and_port(text: &str) -> Result<(String, u16)> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or_else(|| {
        Error::new(ErrorCode::Usage, "the scheduler must be HOST:PORT").with_found(text.as_bytes())
    })
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build();
    runtime.map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?.block_on(work)
}
