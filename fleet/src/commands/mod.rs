// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands: they parse options, call the library, and print lines.

mod ingest;
mod queries;
mod token;

use crate::dataset::catalog::Table;
use crate::dataset::check::check;
use crate::dataset::maintenance::{Forgotten, Rewritten, compact, forget, vacuum};
use crate::dataset::{Dataset, Selection};
use crate::errors::ErrorContext as _;
use crate::intake::{log, server};
use clap::{Parser, Subcommand};
use nix::sys::stat::{Mode, umask};
use sediment_core::{Error, ErrorCode, Result};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a check that found errors.
const FAULTS: u8 = 5;
/// Stack size of the threads that plan queries of a cluster. Plans are trees, so planning is recursive.
const STACK: usize = 32 << 20;

/// Stores and queries profiles of many machines and versions, and receives submissions over HTTP
#[derive(Debug, Parser)]
#[command(name = "sediment-fleet", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add profiles to a dataset
    Ingest(ingest::IngestOptions),
    /// Merge selected submissions into a profile
    Merge(queries::FleetMergeOptions),
    /// List packages and versions with their submissions
    Coverage(queries::Source),
    /// Compare a shipped profile with current use
    Drift(queries::DriftOptions),
    /// List submitters by their agreement with all others, lowest first
    Outliers(queries::OutlierOptions),
    /// Receive submissions over HTTP
    Serve(server::Settings),
    /// Make a token for a submitter
    Token(token::TokenOptions),
    /// Check all files of a dataset
    Fsck {
        /// Folder, or s3://BUCKET/PREFIX
        dataset: String,
    },
    /// Remove submissions; `vacuum` removes their files
    Forget {
        /// Folder, or s3://BUCKET/PREFIX
        dataset: String,
        #[command(flatten)]
        what: Forgotten,
        /// Folder of the intake's log; removes a submitter's records there, too [default: the folder log of the dataset]
        #[arg(long, value_name = "DIR")]
        log: Option<PathBuf>,
    },
    /// Combine small files
    Compact {
        /// Folder, or s3://BUCKET/PREFIX
        dataset: String,
        /// Combine commits if at least this number of them are small
        #[arg(long, value_name = "COUNT", default_value_t = 4)]
        files: usize,
    },
    /// Remove files that no snapshot of the last hours needs
    Vacuum {
        /// Folder, or s3://BUCKET/PREFIX
        dataset: String,
        /// Keep the files that snapshots of this number of hours need; 0 if nobody reads an earlier snapshot
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        retention: u32,
    },
    /// List the files of a table, for other engines
    Files {
        /// Folder, or s3://BUCKET/PREFIX
        dataset: String,
        /// Table: facts, blocks, submissions, subjects or submitters
        table: String,
        #[command(flatten)]
        selection: Selection,
    },
    /// Plan queries of a cluster and distribute their tasks
    #[cfg(feature = "cluster")]
    Scheduler(crate::cluster::Scheduler),
    /// Run tasks of a cluster's scheduler
    #[cfg(feature = "cluster")]
    Executor(crate::cluster::Executor),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // Threads that use little of each huge page would take many times their memory, and half of a short query's time to clear it.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match run(&Arguments::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
            // The reader of standard error may be gone.
            let _ = write!(std::io::stderr(), "sediment-fleet: error: {error}\n{hint}");
            ExitCode::from(if error.code() == ErrorCode::Usage { 2 } else { 1 })
        }
    }
}

/// Runs async work to its end.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK).enable_all().build();
    runtime.io()?.block_on(work)
}

fn run(command: &Command) -> Result<u8> {
    use Command::{Coverage, Drift, Files, Merge, Outliers};
    if !matches!(command, Merge(_) | Coverage(_) | Drift(_) | Outliers(_) | Files { .. }) {
        // Only its user may read the files that it writes.
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
    }
    match command {
        Command::Ingest(options) => ingest::run(options)?,
        Merge(options) => block_on(queries::merge(options))?,
        Coverage(source) => block_on(queries::coverage(source))?,
        Drift(options) => block_on(queries::drift(options))?,
        Outliers(options) => block_on(queries::outliers(options))?,
        Command::Serve(settings) => server::serve(settings, |address| {
            let mut output = std::io::stdout().lock();
            let _ = writeln!(output, "listening at http://{address}").and_then(|()| output.flush());
        })?,
        Command::Token(options) => token::run(options)?,
        Command::Fsck { dataset } => {
            let checked = block_on(check(dataset))?;
            checked.faults.iter().for_each(|fault| println!("fault: {fault}"));
            println!("{} files sound, {} faults", checked.sound, checked.faults.len());
            return Ok(if checked.faults.is_empty() { 0 } else { FAULTS });
        }
        Command::Forget { dataset, what, log } => forget_all(dataset, what, log.clone())?,
        Command::Compact { dataset, files } => {
            println!("joined {} files", block_on(compact(dataset, *files))?);
        }
        Command::Vacuum { dataset, retention } => {
            println!("removed {} files", block_on(vacuum(dataset, *retention))?);
        }
        Files { dataset, table, selection } => block_on(files(dataset, table, selection))?,
        #[cfg(feature = "cluster")]
        Command::Scheduler(settings) => block_on(crate::cluster::schedule(settings))?,
        #[cfg(feature = "cluster")]
        Command::Executor(settings) => block_on(crate::cluster::execute(settings))?,
    }
    Ok(0)
}

/// Removes submissions from the dataset, and a submitter's records from the log of an intake.
fn forget_all(dataset: &str, what: &Forgotten, log: Option<PathBuf>) -> Result<()> {
    let log = log.or_else(|| log::folder_of(dataset));
    let mut of_log = 0;
    // The log comes first, because its records would otherwise be added after the removal.
    if let (Some(submitter), None, Some(log)) = (&what.submitter, what.before, log) {
        of_log = log::forget(&log, submitter)?;
    }
    let done = match block_on(forget(dataset, what)) {
        Err(error) if of_log > 0 && error.code() == ErrorCode::NotFound => Rewritten::default(),
        done => done?,
    };
    println!("forgot {} submissions: {} rows in {} files", done.submissions, done.rows, done.files);
    if of_log > 0 {
        println!("forgot {of_log} submissions of the log");
    }
    Ok(())
}

async fn files(dataset: &str, table: &str, selection: &Selection) -> Result<()> {
    let table = Table::ALL.into_iter().find(|known| known.name() == table).ok_or_else(|| {
        Error::new(ErrorCode::Usage, "there is no table with this name")
            .with_found(table.as_bytes())
            .with_hint("tables are facts, blocks, submissions, subjects and submitters")
    })?;
    let dataset = Dataset::open(dataset).await?;
    for file in dataset.files(table, selection) {
        println!("{}", dataset.store.for_programs(&file.name));
    }
    Ok(())
}
