// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands: they parse options, call the library, and print lines.

#[cfg(feature = "cluster")]
mod cluster;
mod ingest;
mod queries;
mod serve;

use clap::{Args, Parser, Subcommand};
use nix::sys::stat::{Mode, umask};
use sediment_core::{ErrorCode, Result};
use sediment_fleet::dataset::catalog::Table;
use sediment_fleet::dataset::check::check;
use sediment_fleet::dataset::maintenance::{Forgotten, Rewritten, compact, forget, vacuum};
use sediment_fleet::dataset::{Dataset, Selection};
use sediment_fleet::day::Day;
use sediment_fleet::intake::log;
use std::path::PathBuf;

/// Exit code of a check that found errors.
const FAULTS: u8 = 5;

/// Stores and queries profiles of many machines and versions, and receives submissions over HTTP
#[derive(Debug, Parser)]
#[command(name = "sediment-fleet", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add profiles to a dataset
    Ingest(ingest::Options),
    /// Merge selected submissions into a profile
    Merge(queries::MergeOptions),
    /// List packages and versions with their submissions
    Coverage(queries::CoverageOptions),
    /// Compare a shipped profile with current use
    Drift(queries::DriftOptions),
    /// List submitters by their agreement with all others, lowest first
    Outliers(queries::OutlierOptions),
    /// Receive submissions over HTTP
    Serve(serve::Options),
    /// Make a token for a submitter
    Token(serve::TokenOptions),
    /// Check all files of a dataset
    Fsck(FsckOptions),
    /// Remove submissions; `vacuum` removes their files
    Forget(ForgetOptions),
    /// Combine small files
    Compact(CompactOptions),
    /// Remove files that no snapshot of the last hours needs
    Vacuum(VacuumOptions),
    /// List the files of a table, for other engines
    Files(FilesOptions),
    /// Plan queries of a cluster and distribute their tasks
    #[cfg(feature = "cluster")]
    Scheduler(cluster::SchedulerOptions),
    /// Run tasks of a cluster's scheduler
    #[cfg(feature = "cluster")]
    Executor(cluster::ExecutorOptions),
}

#[derive(Debug, Args)]
struct FsckOptions {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
}

#[derive(Debug, Args)]
struct ForgetOptions {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    /// Key of the submitter, as `outliers` prints it [default: all submitters]
    #[arg(long, value_name = "KEY")]
    submitter: Option<String>,
    /// Only submissions from before this day [default: all days]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    before: Option<Day>,
    /// Folder of the intake's log; removes a submitter's records there, too [default: the folder log of the dataset]
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CompactOptions {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    /// Combine commits if at least this number of them are small
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    files: usize,
}

#[derive(Debug, Args)]
struct VacuumOptions {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    /// Keep the files that snapshots of this number of hours need; 0 if nobody reads an earlier snapshot
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    retention: u32,
}

#[derive(Debug, Args)]
struct FilesOptions {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    /// Table: facts, blocks, submissions, subjects or submitters
    table: String,
    #[command(flatten)]
    selection: SelectionOptions,
}

/// Selection of submissions for a query.
#[derive(Debug, Clone, Args)]
struct SelectionOptions {
    /// Package [default: all]
    #[arg(long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Version of the package; repeatable [default: all]
    #[arg(long = "version-of-package", value_name = "VERSION")]
    versions: Vec<String>,
    /// First day [default: the first]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    since: Option<Day>,
    /// First day that is not included [default: none]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    before: Option<Day>,
    /// Architecture [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
}

impl SelectionOptions {
    fn selection(&self) -> Selection {
        Selection {
            package: self.package.clone(),
            versions: self.versions.clone(),
            since: self.since,
            before: self.before,
            arch: self.arch.clone(),
        }
    }
}

fn day(text: &str) -> std::result::Result<Day, String> {
    Day::parse(text).map_err(|error| error.to_string())
}

/// Runs async work to its end.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| sediment_core::Error::new(sediment_core::ErrorCode::Io, error.to_string()))?;
    runtime.block_on(work)
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let is_reading = matches!(
        arguments.command,
        Command::Merge(_)
            | Command::Coverage(_)
            | Command::Drift(_)
            | Command::Outliers(_)
            | Command::Files(_)
    );
    if !is_reading {
        // Only its user may read the files that it writes.
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
    }
    match &arguments.command {
        Command::Ingest(options) => ingest::run(options)?,
        Command::Merge(options) => block_on(queries::merge(options))?,
        Command::Coverage(options) => block_on(queries::coverage(options))?,
        Command::Drift(options) => block_on(queries::drift(options))?,
        Command::Outliers(options) => block_on(queries::outliers(options))?,
        Command::Serve(options) => serve::run(options)?,
        Command::Token(options) => serve::token(options)?,
        Command::Fsck(options) => return block_on(fsck(options)),
        Command::Forget(options) => forget_all(options)?,
        Command::Compact(options) => {
            let done = block_on(compact(&options.dataset, options.files))?;
            println!("joined {} files", done.files);
        }
        Command::Vacuum(options) => {
            println!("removed {} files", block_on(vacuum(&options.dataset, options.retention))?);
        }
        Command::Files(options) => block_on(files(options))?,
        #[cfg(feature = "cluster")]
        Command::Scheduler(options) => cluster::scheduler(options)?,
        #[cfg(feature = "cluster")]
        Command::Executor(options) => cluster::executor(options)?,
    }
    Ok(0)
}

/// Removes submissions from the dataset, and a submitter's records from the log of an intake.
fn forget_all(options: &ForgetOptions) -> Result<()> {
    let what = Forgotten { submitter: options.submitter.clone(), before: options.before };
    let log = match &options.log {
        Some(log) => Some(log.clone()),
        None if options.dataset.starts_with("s3://") => None,
        None => Some(PathBuf::from(&options.dataset).join("log")),
    };
    let mut of_log = 0;
    // The log comes first, because its records would otherwise be added after the removal.
    if let (Some(submitter), None, Some(log)) = (&what.submitter, what.before, log) {
        of_log = log::forget(&log, submitter)?;
    }
    let done = match block_on(forget(&options.dataset, &what)) {
        Err(error) if of_log > 0 && error.code() == ErrorCode::NotFound => Rewritten::default(),
        done => done?,
    };
    println!("forgot {} submissions: {} rows in {} files", done.submissions, done.rows, done.files);
    if of_log > 0 {
        println!("forgot {of_log} submissions of the log");
    }
    Ok(())
}

async fn fsck(options: &FsckOptions) -> Result<u8> {
    let checked = check(&options.dataset).await?;
    for fault in &checked.faults {
        println!("fault: {fault}");
    }
    println!("{} files sound, {} faults", checked.sound, checked.faults.len());
    Ok(if checked.faults.is_empty() { 0 } else { FAULTS })
}

async fn files(options: &FilesOptions) -> Result<()> {
    let table = Table::ALL.into_iter().find(|table| table.name() == options.table).ok_or_else(|| {
        sediment_core::Error::new(sediment_core::ErrorCode::Usage, "there is no table with this name")
            .with_found(options.table.as_bytes())
            .with_hint("tables are facts, blocks, submissions, subjects and submitters")
    })?;
    let dataset = Dataset::open(&options.dataset).await?;
    for file in dataset.files(table, &options.selection.selection()) {
        println!("{}", dataset.store.for_programs(&file.name));
    }
    Ok(())
}
