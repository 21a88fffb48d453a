// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which functions of a program call each other: [`RECORDERS`], the best one first.
//!
//! ```text
//! Target, Settings ─ Recorder ─► a recorder's files in a folder ─► Recording (of sediment-read)
//! ```
//!
//! Each recorder runs a program, or watches one that runs. [`breakpoints`] and `call_sites` need no tool, and follow processes by [`tracing`]; the others run perf or valgrind.
//! A recording has paths and command lines in it: its files are readable by their owner alone, and are removed once read.
//!
//! To add a recorder: one file here, one row in [`RECORDERS`], a case in the program's tests.

// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod attend;
pub mod breakpoints;
#[cfg(target_arch = "x86_64")]
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
use std::sync::Arc;
use std::time::Duration;

/// One way to record a program.
#[derive(Debug, Clone, Copy)]
pub struct Recorder {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Data that it does not record, in words that complete "without".
    pub lacks: &'static str,
    /// True if it stops what it records: then a process of its own does, which nothing that ends the front takes along.
    pub traces: bool,
    /// True if it can count all calls.
    pub counts_all: bool,
    /// True if its files have addresses inside functions, by which blocks are counted.
    pub tells_addresses: bool,
    /// Checks that it works on this machine; otherwise an error with the code [`ErrorCode::Unsupported`] with what would
    /// allow it.
    pub available: fn() -> Result<()>,
    /// Checks that it can record such a target, ended so; otherwise an error that names one that can.
    pub suits: fn(&RecordingTarget, &RecordSettings) -> Result<()>,
    /// Where nobody names a recorder: checks that no later one does better with a target that suits. The error says why.
    pub serves_best: fn(&RecordingTarget, &RecordSettings) -> Result<()>,
    /// Records until the recording is over.
    pub record: fn(&mut RecordingJob<'_>) -> Result<Recorded>,
}

impl Recorder {
    /// Checks that it counts all calls if that is wanted.
    ///
    /// # Errors
    /// When it does not.
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
    /// A program to start, with its arguments: a path, or a name for the search path. It has our standard streams.
    Program(Vec<OsString>),
    /// Running processes, with all their threads and what they start from now on.
    Processes(Vec<i32>),
    /// All that this machine runs.
    System,
}

/// Settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// Files that breakpoints leave alone, by base name or soname: code that looks at its own bytes does not bear them.
    pub exclude: BTreeSet<String>,
    /// Programs and libraries that breakpoints record. In others they stand only at functions of the C library by which a
    /// process changes what it is or may do.
    pub recorded: FileFilter,
    /// Bytes of memory that the recording may cost: pages of code become copies of each process's own, and call sites have stubs and counters, and
    /// keep plans. None: 32 MiB for breakpoints, no bound for call sites.
    pub max_memory: Option<u64>,
    /// Put a started program of one thread on the recorder's processor while it hits many breakpoints.
    pub share_processor: bool,
    /// Where first uses alone are recorded: let a started program of one thread note them by itself, by jumps in its code.
    pub trampolines: bool,
    /// Estimate of call rates by breakpoints; None: first uses alone.
    pub rates: Option<breakpoints::Rates>,
    /// Share of the programs' time that the recording may take, such as 0.05; None for the recorder's own choice.
    pub overhead: Option<f64>,
    /// True if all calls are to be counted, however long that takes.
    pub exact: bool,
    /// Record which functions run close in time, by call sites.
    pub affinity: bool,
    /// Search for executed blocks by breakpoints, where a compiler has left a map of them.
    pub blocks: BlockCoverage,
    /// Search for them in every program with a line table, for executions by line.
    pub lines: bool,
    /// Event of perf's samples or branch records, in perf's words, such as `instructions:u`; None for the recorder's own choice.
    pub event: Option<String>,
    /// Samples of perf in a second of processor time; None for the recorder's own choice.
    pub frequency: Option<u32>,
    /// When the recording is over, if nothing ends it before.
    pub until: Until,
    /// Ends the recording; what was recorded is kept.
    pub stop: Stop,
}

/// Choice among the programs and libraries that a process maps.
#[derive(Clone)]
pub struct FileFilter(Arc<Passes>);

/// Answer to whether a file of this path and soname passes.
type Passes = dyn Fn(&str, Option<&str>) -> bool + Send + Sync;

impl FileFilter {
    /// A choice by the path of a file, and by its soname if it has one.
    pub fn new(passes: impl Fn(&str, Option<&str>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// True if this file is chosen.
    #[must_use]
    pub fn passes(&self, path: &str, soname: Option<&str>) -> bool {
        (self.0)(path, soname)
    }
}

/// Every file.
impl Default for FileFilter {
    fn default() -> Self {
        Self::new(|_, _| true)
    }
}

impl std::fmt::Debug for FileFilter {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("FileFilter")
    }
}

/// Default memory limit of breakpoints, in bytes.
pub(crate) const MAX_MEMORY: u64 = 32 << 20;

impl Default for RecordSettings {
    fn default() -> Self {
        Self {
            exclude: BTreeSet::new(),
            recorded: FileFilter::default(),
            max_memory: None,
            share_processor: false,
            trampolines: false,
            rates: None,
            overhead: None,
            exact: false,
            affinity: false,
            blocks: BlockCoverage::Never,
            lines: false,
            event: None,
            frequency: None,
            until: Until::default(),
            stop: Stop::default(),
        }
    }
}

/// Extent of the search for executed blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockCoverage {
    /// Blocks are not looked at.
    #[default]
    Never,
    /// For a share of the program's processor time. Functions whose turn has not come have no counts of blocks.
    WithinBudget,
    /// All blocks of all functions that run.
    Always,
}

/// When a recording is over. It always is when the program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When the program ends.
    #[default]
    Exit,
    /// When it first writes to its standard output or standard error.
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
    /// Where files may be written. Who else may look into it sees what was recorded.
    pub folder: &'a Path,
    /// Debug files of what is recorded.
    pub files: &'a (dyn Files + Sync),
    /// Callback for the progress of the recording, now and then.
    pub watch: &'a mut (dyn FnMut(RecordingProgress) + Send),
    /// The front that has started the program, for breakpoints; None to start it here.
    pub link: Option<&'a mut tracing::apart::FrontLink>,
}

/// Progress of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Since its beginning.
    pub elapsed: Duration,
    /// Functions that have run, where that is known while recording.
    pub functions: Option<u64>,
    /// True where the recording is over and the program goes on.
    pub waiting: bool,
    /// Warning for the user, to be shown at once.
    pub warning: Option<String>,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The recording itself.
    pub kept: RecordedData,
    /// Outcome of the program that was started; None where it was running already.
    pub outcome: Option<Outcome>,
    /// Processor time of what was recorded; None where that is not measured.
    pub worked: Option<Duration>,
}

/// Where a recording is.
#[derive(Debug)]
pub enum RecordedData {
    /// In these files, the parts of one recording, each in a format of [`sediment_read::read::READERS`].
    Files(Vec<PathBuf>),
    /// In memory: the recording, and short sequences as steps in terms of its addresses.
    Here(Box<Recording>, Vec<Step>),
}

/// Every recorder there is, the best first.
pub const RECORDERS: &[Recorder] = &[
    perf::BRANCHES,
    #[cfg(target_arch = "x86_64")]
    call_sites::RECORDER,
    breakpoints::RECORDER,
    perf::STACKS,
    valgrind::RECORDER,
];

/// True if this machine counts the cycles by which samples are best taken; false also without perf.
#[must_use]
pub fn counts_cycles() -> bool {
    perf::counts_cycles()
}

/// Removes what recordings keep in the user's cache: the number of files, and their bytes.
///
/// # Errors
/// When the folder cannot be read, or is not the user's alone.
pub fn clear_cache() -> Result<(usize, u64)> {
    #[cfg(target_arch = "x86_64")]
    return call_sites::clear_cache();
    #[cfg(not(target_arch = "x86_64"))]
    Ok((0, 0))
}

/// A recorder that does best with all that suits it.
fn always(_: &RecordingTarget, _: &RecordSettings) -> Result<()> {
    Ok(())
}

/// The recorder of this name.
#[must_use]
pub fn recorder(name: &str) -> Option<&'static Recorder> {
    RECORDERS.iter().find(|recorder| recorder.name == name)
}

/// A recorder that suits and works here, and for each better one why it is not taken.
///
/// # Errors
/// When there is none: what would allow each of them.
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
