// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which functions of a program call each other: [`RECORDERS`], the best one first.
//!
//! ```text
//! Target, Settings ─ Recorder ─► a recorder's files in a folder ─► Recording (of sediment-read)
//! ```
//!
//! Each recorder runs a program, or attaches to a running one. `call_sites` needs no tool, and follows processes with
//! [`tracing`]; the others run perf or valgrind. A recording contains paths and command lines, so only their owner can read
//! its files, and they are removed once read.
//!
//! To add a recorder, add a file here, a row in [`RECORDERS`] and a case in the program's tests.

// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod attend;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod call_sites;
mod perf;
pub mod tracing;
pub mod valgrind;

use sediment_core::binary::Files;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::{Outcome, Stop};
use sediment_read::read::{Recording, Step};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One way to record a program.
#[derive(Debug, Clone, Copy)]
pub struct Recorder {
    /// Name by which the user chooses it.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Data that it does not record, as words that complete "without".
    pub lacks: &'static str,
    /// True if it traces the recorded program. Then a separate process records, which survives the end of the front
    /// process.
    pub traces: bool,
    /// True if it can count all calls.
    pub counts_all: bool,
    /// True if it can record addresses inside functions, from which blocks are counted.
    pub tells_addresses: bool,
    /// Checks that it works on this machine. Otherwise returns an error with the code [`ErrorCode::Unsupported`] and
    /// the steps that would allow it.
    pub available: fn() -> Result<()>,
    /// Checks that it can record this target and end as requested. Otherwise returns an error that names a recorder
    /// that can.
    pub suits: fn(&RecordingTarget, &RecordSettings) -> Result<()>,
    /// If the user names no recorder: checks that no later one suits this target better. The error gives the reason.
    pub serves_best: fn(&RecordingTarget, &RecordSettings) -> Result<()>,
    /// Records until the recording is over.
    pub record: fn(&mut RecordingJob<'_>) -> Result<Recorded>,
}

impl Recorder {
    /// Checks that it counts all calls if the settings require that.
    ///
    /// # Errors
    /// If it does not.
    pub fn is_exact_if_asked(&self, settings: &RecordSettings) -> Result<()> {
        if !settings.exact || self.counts_all {
            return Ok(());
        }
        let exact: Vec<_> =
            RECORDERS.iter().filter(|other| other.counts_all).map(|other| other.name).collect();
        Err(Error::new(ErrorCode::Usage, format!("{} does not count all calls", self.name))
            .with_hint(format!("use --method {}", exact.join(" or "))))
    }
}

/// Program or processes to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingTarget {
    /// A program to start, with its arguments: a path, or a name for the search path. It gets our standard streams.
    Program(Vec<OsString>),
    /// Running processes, with all their threads and everything that they start later.
    Processes(Vec<i32>),
    /// Everything that runs on this machine.
    System,
}

/// Settings of a recording.
#[derive(Debug, Clone, Default)]
pub struct RecordSettings {
    /// Base names or sonames of files whose code is not changed, because it checks itself.
    pub exclude: BTreeSet<String>,
    /// Memory that the recording may cost, in bytes: changed pages of code, stubs, counters and cached plans. `None` for no
    /// limit.
    pub max_memory: Option<u64>,
    /// Record only first uses, without counts.
    pub first_uses: bool,
    /// Share of the programs' time that the recording may take, such as 0.05; `None` for the recorder's own choice.
    pub overhead: Option<f64>,
    /// Count all calls, however long that takes.
    pub exact: bool,
    /// Record which functions run close in time, by call sites.
    pub affinity: bool,
    /// Record addresses inside functions, from which blocks or lines are counted.
    pub addresses: bool,
    /// Event of perf's samples or branch records, in perf's notation, such as `instructions:u`; `None` for the
    /// recorder's own choice.
    pub event: Option<String>,
    /// Number of perf's samples per second of processor time; `None` for the recorder's own choice.
    pub frequency: Option<u32>,
    /// End of the recording, if nothing ends it earlier.
    pub until: Until,
    /// Ends the recording; the data recorded so far is kept.
    pub stop: Stop,
}

/// End of a recording. Every recording ends when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When the program ends.
    #[default]
    Exit,
    /// When it first writes to standard output or standard error.
    Output,
    /// After this time.
    After(Duration),
}

/// One recording to make.
pub struct RecordingJob<'a> {
    /// Program or processes to record.
    pub target: &'a RecordingTarget,
    /// Settings.
    pub settings: &'a RecordSettings,
    /// Folder in which files may be written. Anybody who can read it can read the recording.
    pub folder: &'a Path,
    /// Debug files of the recorded files.
    pub files: &'a (dyn Files + Sync),
    /// Callback that receives the progress of the recording now and then.
    pub watch: &'a mut (dyn FnMut(RecordingProgress) + Send),
    /// Connection to the front process that has started the program, for recorders that trace; `None` to start it here.
    pub link: Option<&'a mut tracing::apart::FrontLink>,
}

/// Progress of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Time since the beginning of the recording.
    pub elapsed: Duration,
    /// True if the recording is over but the program still runs.
    pub waiting: bool,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The recording itself.
    pub kept: RecordedData,
    /// Outcome of the program that was started; `None` if it was already running.
    pub outcome: Option<Outcome>,
}

/// Place of a recording.
#[derive(Debug)]
pub enum RecordedData {
    /// In these files, which are the parts of one recording, each in a format of [`sediment_read::read::READERS`].
    Files(Vec<PathBuf>),
    /// In memory: the recording, and short sequences as steps that refer to its addresses.
    Here(Box<Recording>, Vec<Step>),
}

/// All recorders, the best first.
pub const RECORDERS: &[Recorder] = &[
    perf::BRANCHES,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    call_sites::RECORDER,
    perf::STACKS,
    valgrind::RECORDER,
];

/// True if this machine has the cycle counter that is best for samples; false without perf.
#[must_use]
pub fn counts_cycles() -> bool {
    perf::counts_cycles()
}

/// Removes the files that recordings keep in the user's cache. Returns their number and their size in bytes.
///
/// # Errors
/// If the folder cannot be read, or other users can access it.
pub fn clear_cache() -> Result<(usize, u64)> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return call_sites::clear_cache();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Ok((0, 0))
}

/// For a recorder that is the best choice for every target that suits it.
fn always(_: &RecordingTarget, _: &RecordSettings) -> Result<()> {
    Ok(())
}

/// Returns the recorder with this name.
#[must_use]
pub fn recorder(name: &str) -> Option<&'static Recorder> {
    RECORDERS.iter().find(|recorder| recorder.name == name)
}

/// Chooses the best recorder that suits and works here. Also returns the reason against each better one.
///
/// # Errors
/// If there is none; lists for each recorder the steps that would allow it. If there is no such process.
pub fn best(
    target: &RecordingTarget,
    settings: &RecordSettings,
) -> Result<(&'static Recorder, Vec<(&'static Recorder, Error)>)> {
    let mut passed = Vec::new();
    for recorder in RECORDERS {
        let suits = recorder
            .is_exact_if_asked(settings)
            .and_then(|()| (recorder.suits)(target, settings))
            .and_then(|()| (recorder.serves_best)(target, settings));
        match suits.and_then(|()| (recorder.available)()) {
            Ok(()) => return Ok((recorder, passed)),
            // No recorder finds a process that has ended.
            Err(why) if why.code() == ErrorCode::NotFound => return Err(why),
            Err(why) => passed.push((recorder, why)),
        }
    }
    let reasons: Vec<String> = passed
        .iter()
        .map(|(recorder, why)| match why.hint() {
            Some(hint) => format!("{}: {why}; {hint}", recorder.name),
            None => format!("{}: {why}", recorder.name),
        })
        .collect();
    Err(Error::new(ErrorCode::Unsupported, "no recording method works here").with_hint(reasons.join("\n")))
}
