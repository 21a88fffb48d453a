// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Keeper`]: stores received submissions. One thread writes many submissions to the log at a time, and answers when they are durable. Another thread
//! makes partitions from complete segments of the log.

use super::health::{Health, Part};
use super::log::{self, IntakeLog, Record};
use super::metrics::Metrics;
use super::server::Settings;
use super::{LARGE, LARGE_ONES};
use crate::dataset::contents::Contents;
use crate::dataset::maintenance::{compact, vacuum};
use crate::dataset::writer::{Writer, is_to_be_tried_again};
use crate::day::Day;
use crate::errors::ErrorContext as _;
use crate::secret::Keys;
use crate::submission::Origin;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Maximum number of submissions that wait for the log.
const WAITING: usize = 1024;
/// Maximum number of submissions that are written at once.
const AT_ONCE: usize = 256;
/// Number of idempotency keys that are remembered.
const KEYS: usize = 100_000;
/// Time before a failed compaction is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Minimum number of small commits that are combined.
const JOINED: usize = 8;
/// Niceness of the thread that makes partitions.
const BACKGROUND: i32 = 10;

/// Bytes after which a segment of the log becomes partitions.
const SEGMENT: u64 = 64 << 20;

/// Result of storing a record.
#[derive(Debug)]
pub(crate) enum RecordOutcome {
    New,
    /// The same bytes of this submitter were received before.
    Duplicate,
    /// The idempotency key was used with other bytes before.
    KeyReused,
    Failed(Error),
}

struct Job {
    record: Record,
    answer: oneshot::Sender<RecordOutcome>,
}

/// The threads that store submissions.
#[derive(Debug)]
pub(crate) struct Keeper {
    jobs: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

/// Handle for sending records to a keeper.
#[derive(Debug, Clone)]
pub(crate) struct Handle(SyncSender<Job>);

impl Handle {
    /// Stores a record. `None`: too many records are waiting.
    pub(crate) async fn keep(&self, record: Record) -> Option<RecordOutcome> {
        let (answer, kept) = oneshot::channel();
        match self.0.try_send(Job { record, answer }) {
            Ok(()) => Some(kept.await.unwrap_or_else(|_| RecordOutcome::Failed(stopped()))),
            Err(TrySendError::Full(_)) => None,
            Err(TrySendError::Disconnected(_)) => Some(RecordOutcome::Failed(stopped())),
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorCode::Io, "the intake is stopping")
}

impl Keeper {
    /// Opens the dataset and the log. Continues with records that an earlier run received but did not add to the dataset.
    pub(crate) fn start(
        settings: &Settings,
        folder: &Path,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
    ) -> Result<(Self, Keys)> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().io()?;
        let writer = runtime.block_on(Writer::open(&settings.dataset, settings.secret.as_deref()))?;
        let keys = writer.keys().clone();
        let claim = log::claim(folder, &writer.dataset()?.id)?;
        let mut known = writer.known().clone();
        for number in log::segments(folder)? {
            for record in log::records(folder, number)? {
                known.insert(record?.identity());
            }
        }
        let (jobs, waiting) = sync_channel(WAITING);
        let (full, ended) = std::sync::mpsc::channel();
        // Segments of earlier runs.
        let _ = full.send(());
        let logging = Logging {
            log: IntakeLog::open(folder)?,
            known,
            tries: Tries::default(),
            age: Duration::from_secs(settings.every.max(1)),
            metrics: Arc::clone(&metrics),
        };
        let compaction =
            Compaction { settings: settings.clone(), folder: folder.to_owned(), runtime, metrics, health };
        let threads = vec![
            spawn("log", move || logging.run(&waiting, &full))?,
            // This process owns the log until the last segment is in the dataset.
            spawn("compaction", move || {
                let _claim = claim;
                compaction.run(writer, &ended);
            })?,
        ];
        Ok((Self { jobs, threads }, keys))
    }

    /// A handle to the keeper.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.jobs.clone())
    }

    /// Returns when all handles are dropped and the last segment is in partitions.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        for thread in self.threads {
            // A thread that panicked has printed a message.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).io()
}

/// The newest idempotency keys of submitters.
#[derive(Debug, Default)]
struct Tries {
    known: HashMap<(String, String), u128>,
    order: VecDeque<(String, String)>,
}

impl Tries {
    /// The identity that was received with a key before. If there is none, stores the key.
    fn meet(&mut self, record: &Record) -> Option<u128> {
        let key = (record.submitter.clone(), record.idempotency_key.clone()?);
        if let Some(before) = self.known.get(&key) {
            return Some(*before);
        }
        if self.order.len() >= KEYS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.known.insert(key, record.identity());
        None
    }

    fn forget(&mut self, record: &Record) {
        if let Some(key) = &record.idempotency_key {
            self.known.remove(&(record.submitter.clone(), key.clone()));
        }
    }
}

/// The thread that writes the log.
struct Logging {
    log: IntakeLog,
    known: HashSet<u128>,
    tries: Tries,
    /// Age of a segment with records after which it becomes partitions.
    age: Duration,
    metrics: Arc<Metrics>,
}

impl Logging {
    fn run(mut self, waiting: &Receiver<Job>, full: &Sender<()>) {
        let mut begun = Instant::now();
        loop {
            let left = self.age.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            let first = match waiting.recv_timeout(left) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(first) = first {
                if self.log.length() == 0 {
                    begun = Instant::now();
                }
                let jobs = std::iter::once(first).chain(waiting.try_iter().take(AT_ONCE - 1)).collect();
                self.keep(jobs);
            }
            let due = self.log.length() >= SEGMENT || begun.elapsed() >= self.age;
            if due && self.log.length() > 0 && self.log.begin_next().is_ok() {
                let _ = full.send(());
            }
            if due {
                begun = Instant::now();
            }
        }
        if self.log.length() > 0 && self.log.begin_next().is_ok() {
            let _ = full.send(());
        }
    }

    /// Writes new records, and answers all.
    fn keep(&mut self, jobs: Vec<Job>) {
        let (mut records, mut answers, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
        let mut again = Vec::new();
        for Job { record, answer } in jobs {
            let identity = record.identity();
            match self.tries.meet(&record) {
                Some(before) if before != identity => drop(answer.send(RecordOutcome::KeyReused)),
                _ if self.known.insert(identity) => {
                    fresh.push(identity);
                    records.push(record);
                    answers.push(answer);
                }
                // A record can be a copy of one that is being written. Its answer waits until that record is durable.
                _ => again.push(answer),
            }
        }
        match if records.is_empty() { Ok(()) } else { self.log.append(&records) } {
            Ok(()) => {
                for (record, answer) in records.iter().zip(answers) {
                    Metrics::count(&self.metrics.accepted_total);
                    self.metrics.bytes_total.fetch_add(record.contents.len() as u64, Ordering::Relaxed);
                    let _ = answer.send(RecordOutcome::New);
                }
                for answer in again {
                    Metrics::count(&self.metrics.duplicates_total);
                    let _ = answer.send(RecordOutcome::Duplicate);
                }
            }
            Err(error) => {
                for identity in fresh {
                    self.known.remove(&identity);
                }
                records.iter().for_each(|record| self.tries.forget(record));
                for answer in answers.into_iter().chain(again) {
                    Metrics::count(&self.metrics.failed_total);
                    let _ = answer.send(RecordOutcome::Failed(Error::new(error.code(), error.to_string())));
                }
            }
        }
    }
}

/// Works in a thread whose memory is free when it ends. A panic is a bug, and ends only this thread.
fn apart(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let done = std::thread::Builder::new().spawn_scoped(scope, work).io()?.join();
        done.unwrap_or_else(|_| Err(Error::new(ErrorCode::Io, "internal error: a panic")))
    })
}

/// Lowers the priority of this thread, so that making partitions does not delay answers.
fn give_way() {
    // If this fails, partitions are made with normal priority.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), BACKGROUND);
}

/// The thread that makes partitions.
struct Compaction {
    settings: Settings,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Compaction {
    fn run(self, writer: Writer, ended: &Receiver<()>) {
        give_way();
        let mut writer = Some(writer);
        let mut last_try = false;
        let mut maintained = Instant::now();
        loop {
            let every = Duration::from_secs(self.settings.maintain_every);
            if !last_try && !every.is_zero() && maintained.elapsed() >= every {
                self.health.is(Part::Maintenance, apart(|| self.maintain()));
                maintained = Instant::now();
            }
            match ended.recv_timeout(AGAIN) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) if writer.is_some() && !last_try => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if last_try => return,
                Err(RecvTimeoutError::Disconnected) => last_try = true,
            }
            while ended.try_recv().is_ok() {}
            let compact = || {
                let done = self.compact(&mut writer, last_try);
                if !done.as_ref().is_err_and(is_to_be_tried_again) {
                    return done;
                }
                writer = None;
                self.compact(&mut writer, last_try)
            };
            match apart(compact) {
                Ok(()) => self.health.works(Part::Dataset),
                Err(error) => {
                    Metrics::count(&self.metrics.compaction_failures_total);
                    self.health.fails(Part::Dataset, &format!("the log is kept: {error}"));
                    // The writer's state differs from the dataset.
                    writer = None;
                }
            }
            if last_try {
                return;
            }
        }
    }

    /// Combines small files, and removes files that no reader needs any more.
    fn maintain(&self) -> Result<()> {
        let joined = self.runtime.block_on(compact(&self.settings.dataset, JOINED))?;
        let removed = self.runtime.block_on(vacuum(&self.settings.dataset, self.settings.retention))?;
        self.metrics.joined_files_total.fetch_add(joined as u64, Ordering::Relaxed);
        self.metrics.removed_files_total.fetch_add(removed as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Adds complete segments to the dataset. Leaves out the newest segment, which still grows, except at the end.
    fn compact(&self, kept: &mut Option<Writer>, is_last: bool) -> Result<()> {
        let writer = match kept {
            Some(writer) => writer,
            None => {
                let Settings { dataset, secret, .. } = &self.settings;
                kept.insert(self.runtime.block_on(Writer::open(dataset, secret.as_deref()))?)
            }
        };
        let mut numbers = log::segments(&self.folder)?;
        let newest = numbers.pop();
        if is_last {
            // The log's thread has ended, so its last segment is empty.
            numbers.extend(newest);
        }
        for number in numbers {
            self.add(writer, number)?;
            self.runtime.block_on(writer.commit())?;
            log::remove(&self.folder, number)?;
            Metrics::count(&self.metrics.compactions_total);
        }
        let oldest = log::segments(&self.folder)?.first().copied().unwrap_or(u64::MAX);
        for (submitter, last) in log::forgotten(&self.folder)? {
            if last < oldest {
                log::is_forgotten(&self.folder, &submitter)?;
            }
        }
        Ok(())
    }

    /// Adds the records of a segment. Commits several times if there are many: what is there already counts once if the segment is read again.
    fn add(&self, writer: &mut Writer, number: u64) -> Result<()> {
        let forgotten = log::forgotten(&self.folder)?;
        for record in log::records(&self.folder, number)? {
            let record = record?;
            let identity = record.identity();
            let Record { submitter, host_class, day, contents, .. } = record;
            if forgotten.get(&submitter).is_some_and(|last| number <= *last) {
                continue;
            }
            let origin = Origin { submitter, host_class, day: Day(day) };
            let _turn = (contents.len() > LARGE).then(|| self.runtime.block_on(LARGE_ONES.acquire()));
            let added =
                Contents::from_bytes(&contents).and_then(|contents| writer.add(&contents, &origin, identity));
            added.map_err(|error| error.with_input(format!("segment {number} of the log")))?;
            drop(contents);
            if writer.is_full() {
                self.runtime.block_on(writer.commit())?;
            }
        }
        Ok(())
    }
}
