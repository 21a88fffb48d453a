// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment-fleet ingest` adds profiles from files and folders to a dataset. Profiles that an interrupted run has already added are skipped without
//! being parsed.

use clap::Args;
use nix::time::ClockId;
use sediment_core::{Error, ErrorCode, Result};
use sediment_fleet::dataset::contents::Contents;
use sediment_fleet::dataset::writer::{Added, Writer, is_to_be_tried_again};
use sediment_fleet::day::Day;
use sediment_fleet::say::warning;
use sediment_fleet::secret::Keys;
use sediment_fleet::submission::{LONGEST_WORD, Named, Origin, Submission};
use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Number of submissions after which the added ones are committed to the dataset.
const COMMIT: usize = 25_000;
/// Maximum number of attempts to add the files, if other programs add the same submissions or forget names.
const TRIES: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
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
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::day)]
    day: Option<Day>,
    /// Meaning of each folder between DIR and a file, separated by slashes: submitter, host-class, day or `-`
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// Package, in place of the profile's
    #[arg(long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Version, in place of the profile's
    #[arg(long, value_name = "VERSION", requires = "package")]
    version: Option<String>,
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

/// A file with its submitter, class and day.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    submitter: String,
    host_class: String,
    day: Day,
}

/// Result of reading a file in a thread.
struct Read {
    at: usize,
    origin: Origin,
    identity: u128,
    bytes: usize,
    spent: Duration,
    had_counters: bool,
    /// The file is already in the dataset.
    contents: Result<Option<Contents>>,
}

/// Data about the dataset for the threads that parse.
struct Context {
    keys: Keys,
    named: Named,
    known: HashSet<u128>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let inputs = inputs(options)?;
    // Submissions that another writer added at the same moment are found at the next attempt.
    for _ in 1..TRIES {
        match add_all(options, &inputs) {
            Err(error) if is_to_be_tried_again(&error) => {}
            done => return done,
        }
    }
    add_all(options, &inputs)
}

fn add_all(options: &Options, inputs: &[Input]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?;
    let mut writer = runtime.block_on(Writer::open(&options.dataset, options.secret.as_deref()))?;
    let context = Context {
        keys: writer.keys().clone(),
        named: Named { package: options.package.clone(), version: options.version.clone() },
        known: writer.known().clone(),
    };
    let begun = Instant::now();
    let mut told = Told::default();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = sync_channel::<Read>(64);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            let (sender, inputs, next, context) = (sender.clone(), inputs, &next, &context);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(input) = inputs.get(at) else { return };
                    if sender.send(read(at, input, context)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Files are added in their order, so that the numbers of subjects do not depend on threads.
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for read in &receiver {
            early.insert(read.at, read);
            while let Some(mut read) = early.remove(&expected) {
                expected += 1;
                let path =
                    inputs.get(read.at).map(|input| input.path.display().to_string()).unwrap_or_default();
                read.contents = read.contents.map_err(|error| error.with_input(path));
                add(&mut writer, read, options.keep_going, &mut told)?;
                runtime.block_on(writer.spill())?;
                if expected % COMMIT == 0 {
                    runtime.block_on(writer.commit())?;
                }
                told.progress(expected, inputs.len(), begun);
            }
        }
        Ok::<(), Error>(())
    })?;
    runtime.block_on(writer.commit())?;
    told.summary(begun.elapsed());
    Ok(())
}

fn read(at: usize, input: &Input, context: &Context) -> Read {
    let origin = Origin {
        submitter: context.keys.submitter(&input.submitter),
        host_class: input.host_class.clone(),
        day: input.day,
    };
    let mut read = Read {
        at,
        origin,
        identity: 0,
        bytes: 0,
        spent: Duration::ZERO,
        had_counters: false,
        contents: Ok(None),
    };
    let bytes = match std::fs::read(&input.path) {
        Ok(bytes) => bytes,
        Err(error) => {
            read.contents = Err(Error::new(ErrorCode::Io, error.to_string()));
            return read;
        }
    };
    read.bytes = bytes.len();
    read.identity = context.keys.identity(&read.origin.submitter, &bytes);
    if context.known.contains(&read.identity) {
        return read;
    }
    let begun = processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let submission = Submission::read(&bytes, &context.named);
    read.spent = processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begun);
    read.contents = submission.map(|submission| {
        read.had_counters = submission.had_counters;
        Some(Contents::new(submission))
    });
    read
}

/// CPU time of this thread or program.
fn processor_time(of: ClockId) -> Duration {
    of.now().map(Duration::from).unwrap_or_default()
}

fn add(writer: &mut Writer, read: Read, keep_going: bool, told: &mut Told) -> Result<()> {
    told.parsing += read.spent;
    let contents = match read.contents {
        Ok(Some(contents)) => contents,
        Ok(None) => {
            told.duplicates += 1;
            return Ok(());
        }
        Err(error) if keep_going => {
            told.refused += 1;
            told.reason.get_or_insert_with(|| error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    told.counters += usize::from(read.had_counters);
    match writer.add(&contents, &read.origin, read.identity)? {
        Added::New => {
            told.added += 1;
            told.bytes += read.bytes;
        }
        Added::Duplicate => told.duplicates += 1,
    }
    Ok(())
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
fn inputs(options: &Options) -> Result<Vec<Input>> {
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
            inputs.push(input(options, place, path)?);
        }
    }
    Ok(inputs)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::Io, error.to_string()).with_input(folder.display().to_string())
    };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if kind.is_dir() {
            walk(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "gv" || end == "prof") {
            files.push(path);
        }
    }
    Ok(())
}

fn input(options: &Options, place: &Path, path: PathBuf) -> Result<Input> {
    let today = Day::today();
    let mut input = Input {
        submitter: options.submitter.clone().unwrap_or_else(|| path.display().to_string()),
        host_class: options.host_class.clone(),
        day: options.day.unwrap_or(today),
        path,
    };
    if let Some(layout) = &options.layout {
        let inside = input.path.strip_prefix(place).unwrap_or(&input.path).to_path_buf();
        let folders: Vec<String> = inside
            .parent()
            .into_iter()
            .flat_map(Path::iter)
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = layout.split('/').collect();
        if parts.len() != folders.len() {
            return Err(Error::new(
                ErrorCode::Usage,
                format!("{} folders, but the layout has {}", folders.len(), parts.len()),
            )
            .with_input(input.path.display().to_string()));
        }
        for (part, folder) in parts.iter().zip(folders) {
            match *part {
                "submitter" => input.submitter = folder,
                "host-class" => input.host_class = folder,
                "day" => {
                    input.day = Day::parse(&folder)
                        .map_err(|error| error.with_input(input.path.display().to_string()))?
                }
                "-" => {}
                other => {
                    return Err(Error::new(
                        ErrorCode::Usage,
                        "a layout has submitter, host-class, day and `-`",
                    )
                    .with_found(other.as_bytes()));
                }
            }
        }
    }
    input.day =
        input.day.not_in_future(today).map_err(|error| error.with_input(input.path.display().to_string()))?;
    Ok(input)
}
