// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment-fleet ingest` adds profiles from files and folders to a dataset. Profiles that an interrupted run has already added are skipped without
//! being parsed.

use crate::dataset::contents::Contents;
use crate::dataset::writer::{Writer, is_to_be_tried_again};
use crate::day::Day;
use crate::errors::{ErrorContext as _, warning};
use crate::secret::Keys;
use crate::submission::{LONGEST_WORD, Named, Origin, Submission};
use futures::StreamExt as _;
use nix::time::ClockId;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Number of submissions after which the added ones are committed to the dataset.
const COMMIT: usize = 25_000;
/// Maximum number of files that are read before they are added.
const AHEAD: usize = 64;
/// Maximum number of attempts to add the files, if other programs add the same submissions or forget names.
const TRIES: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct IngestOptions {
    /// Folder, or s3://BUCKET/PREFIX; made if it does not exist
    dataset: String,
    /// Profiles, or folders with profiles (*.gv, *.prof)
    #[arg(required = true, value_name = "FILE|DIR")]
    inputs: Vec<PathBuf>,
    /// Submitter of all files [default: a different submitter for each file, from its name]
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,
    /// Class of the hosts
    #[arg(long, value_name = "CLASS", default_value = "unknown")]
    host_class: String,
    /// Day of receipt [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<Day>,
    /// Meaning of each folder between DIR and a file, separated by slashes: submitter, host-class, day or `-`
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    #[command(flatten)]
    named: Named,
    /// File of the secret for keys of submitters; made with the dataset [default: DATASET.secret]
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Number of threads that parse
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    threads: usize,
    /// Continue if a file is not a profile, and print the number of such files
    #[arg(long)]
    keep_going: bool,
}

/// A file with its origin; the submitter is a name, not a key.
#[derive(Debug, Clone)]
struct Input {
    path: PathBuf,
    origin: Origin,
}

/// Data about the dataset for the threads that parse.
struct KnownDataset {
    keys: Keys,
    named: Named,
    known: HashSet<u128>,
}

/// Result of reading a file in a thread.
struct Read {
    origin: Origin,
    identity: u128,
    bytes: usize,
    spent: Duration,
    had_counters: bool,
    /// `None`: the file is already in the dataset.
    contents: Option<Contents>,
}

pub(super) fn run(options: &IngestOptions) -> Result<()> {
    let inputs = inputs(options)?;
    // Submissions that another writer added at the same moment are found at the next attempt.
    for _ in 1..TRIES {
        match super::block_on(add_all(options, &inputs)) {
            Err(error) if is_to_be_tried_again(&error) => {}
            done => return done,
        }
    }
    super::block_on(add_all(options, &inputs))
}

async fn add_all(options: &IngestOptions, inputs: &[Input]) -> Result<()> {
    let mut writer = Writer::open(&options.dataset, options.secret.as_deref()).await?;
    let (keys, known) = (writer.keys().clone(), writer.known().clone());
    let context = Arc::new(KnownDataset { keys, named: options.named.clone(), known });
    let begun = Instant::now();
    let mut told = Told::default();
    // Files are added in their order, so that the numbers of subjects do not depend on threads.
    let parsing = Arc::new(Semaphore::new(options.threads.max(1)));
    let reading = futures::stream::iter(inputs).map(|input| {
        let (input, context, parsing) = (input.clone(), Arc::clone(&context), Arc::clone(&parsing));
        // Other threads parse while this one adds.
        tokio::spawn(async move {
            let _turn = parsing.acquire().await;
            tokio::task::spawn_blocking(move || {
                read(&input, &context).map_err(|error| error.with_input(input.path.display().to_string()))
            })
            .await
        })
    });
    let mut reading = reading.buffered(AHEAD);
    let mut done = 0;
    while let Some(read) = reading.next().await {
        done += 1;
        match read.io()?.io()? {
            Ok(read) => told.add(&mut writer, read)?,
            Err(error) if options.keep_going => {
                told.refused += 1;
                told.reason.get_or_insert_with(|| error.to_string());
            }
            Err(error) => return Err(error),
        }
        writer.spill().await?;
        if done % COMMIT == 0 {
            writer.commit().await?;
        }
        told.progress(done, inputs.len(), begun);
    }
    writer.commit().await?;
    told.summary(begun.elapsed());
    Ok(())
}

fn read(input: &Input, context: &KnownDataset) -> Result<Read> {
    let submitter = context.keys.submitter(&input.origin.submitter);
    let bytes = std::fs::read(&input.path).io()?;
    let mut read = Read {
        identity: context.keys.identity(&submitter, &bytes),
        origin: Origin { submitter, ..input.origin.clone() },
        bytes: bytes.len(),
        spent: Duration::ZERO,
        had_counters: false,
        contents: None,
    };
    if !context.known.contains(&read.identity) {
        let begun = processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let submission = Submission::read(&bytes, &context.named)?;
        read.spent = processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begun);
        read.had_counters = submission.had_counters;
        read.contents = Some(Contents::new(submission));
    }
    Ok(read)
}

/// CPU time of this thread or program.
fn processor_time(of: ClockId) -> Duration {
    of.now().map(Duration::from).unwrap_or_default()
}

/// Sums of a run, and the reason of its first rejection.
#[derive(Debug, Default)]
struct Told {
    added: usize,
    duplicates: usize,
    refused: usize,
    counters: usize,
    reason: Option<String>,
    bytes: usize,
    parsing: Duration,
    last: Option<Instant>,
}

impl Told {
    fn add(&mut self, writer: &mut Writer, read: Read) -> Result<()> {
        self.parsing += read.spent;
        self.counters += usize::from(read.had_counters);
        let is_new = match &read.contents {
            Some(contents) => writer.add(contents, &read.origin, read.identity)?,
            None => false,
        };
        if is_new {
            self.added += 1;
            self.bytes += read.bytes;
        } else {
            self.duplicates += 1;
        }
        Ok(())
    }

    fn progress(&mut self, done: usize, all: usize, begun: Instant) {
        let due = self.last.is_none_or(|last| last.elapsed() > Duration::from_millis(200));
        if due && std::io::stderr().is_terminal() {
            self.last = Some(Instant::now());
            let left = begun.elapsed().as_secs_f64() * (all - done) as f64 / done.max(1) as f64;
            eprint!("\r\x1b[K{done} of {all} files, {left:.0} s left");
            if done == all {
                eprint!("\r\x1b[K");
            }
        }
    }

    fn summary(&self, elapsed: Duration) {
        println!(
            "added {} submissions in {:.1} s; {} were there before",
            self.added,
            elapsed.as_secs_f64(),
            self.duplicates
        );
        let whole = processor_time(ClockId::CLOCK_PROCESS_CPUTIME_ID).as_secs_f64();
        if self.added > 0 && whole > 0.0 {
            let rate = self.bytes as f64 / 1e6 / self.parsing.as_secs_f64().max(1e-9);
            let share = 100.0 * self.parsing.as_secs_f64() / whole;
            println!("parsing took {share:.0} % of {whole:.1} s on processors, at {rate:.0} MB/s a core");
        }
        if self.refused > 0 {
            warning(&format!(
                "skipped {} files that are not profiles; the first: {}",
                self.refused,
                self.reason.as_deref().unwrap_or("")
            ));
        }
        if self.counters > 0 {
            warning(&format!(
                "counters of instrumentation are not kept: {} profiles had some",
                self.counters
            ));
        }
    }
}

/// The files to add, sorted by name.
fn inputs(options: &IngestOptions) -> Result<Vec<Input>> {
    if options.host_class.len() > LONGEST_WORD {
        return Err(Error::new(ErrorCode::Usage, "the host class is too long"));
    }
    let mut inputs = Vec::new();
    for place in &options.inputs {
        let mut files = Vec::new();
        if place.is_dir() {
            walk(place, &mut files)?;
            files.sort();
        } else {
            files.push(place.clone());
        }
        if files.is_empty() {
            return Err(Error::new(ErrorCode::EmptyInput, "no profile (*.gv, *.prof)")
                .with_input(place.display().to_string()));
        }
        for path in files {
            let origin = origin(options, place, &path);
            let origin = origin.map_err(|error| error.with_input(path.display().to_string()))?;
            inputs.push(Input { path, origin });
        }
    }
    Ok(inputs)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).at(folder)? {
        let entry = entry.at(folder)?;
        let (kind, path) = (entry.file_type().at(folder)?, entry.path());
        if kind.is_dir() {
            walk(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "gv" || end == "prof") {
            files.push(path);
        }
    }
    Ok(())
}

fn origin(options: &IngestOptions, place: &Path, path: &Path) -> Result<Origin> {
    let usage = |message: String| Error::new(ErrorCode::Usage, message);
    let today = Day::today();
    let mut origin = Origin {
        submitter: options.submitter.clone().unwrap_or_else(|| path.display().to_string()),
        host_class: options.host_class.clone(),
        day: options.day.unwrap_or(today),
    };
    if let Some(layout) = &options.layout {
        let inside = path.strip_prefix(place).unwrap_or(path).parent().into_iter().flat_map(Path::iter);
        let folders: Vec<String> = inside.map(|part| part.to_string_lossy().into_owned()).collect();
        let parts: Vec<&str> = layout.split('/').collect();
        if parts.len() != folders.len() {
            return Err(usage(format!("{} folders, but the layout has {}", folders.len(), parts.len())));
        }
        for (part, folder) in parts.iter().zip(folders) {
            match *part {
                "submitter" => origin.submitter = folder,
                "host-class" => origin.host_class = folder,
                "day" => origin.day = folder.parse()?,
                "-" => {}
                other => {
                    return Err(usage("a layout has submitter, host-class, day and `-`".to_owned())
                        .with_found(other.as_bytes()));
                }
            }
        }
    }
    origin.day = origin.day.not_in_future(today)?;
    Ok(origin)
}
