// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attaches to running processes: to all their threads and all their descendants.

use super::mappings::{status_field, threads};
use super::refusal;
use super::system::FOLLOW;
use nix::sys::ptrace;
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Tracer that attaches to processes.
pub(crate) trait Joining {
    /// Prepares for a process, which meanwhile runs untraced.
    fn prepare(&mut self, _process: Pid) -> io::Result<()> {
        Ok(())
    }
    /// Adds a process whose seized threads, which are all its threads, are `threads`.
    fn join(&mut self, process: Pid, threads: &BTreeSet<Pid>) -> io::Result<()>;
    /// Detaches seized threads that were not added.
    fn leave(&mut self, process: Pid, threads: &BTreeSet<Pid>);
    fn skipped(&mut self) -> &mut Skipped;
}

/// Attaches to these processes, then to their descendants. One of several processes that cannot be recorded is skipped and
/// counted, for example a worker of a service that has ended meanwhile.
///
/// # Errors
/// If none of the processes can be recorded; has the reason of the first.
pub(crate) fn join(ids: &[i32], tracer: &mut dyn Joining) -> Result<()> {
    // A traced process must not wait until others are prepared.
    let mut all: BTreeSet<Pid> = ids.iter().map(|id| Pid::from_raw(*id)).collect();
    while let Some(new) = Some(children(&all)).filter(|new| new.iter().any(|process| !all.contains(process)))
    {
        all.extend(new);
    }
    for process in &all {
        // An error is reported when the process is attached.
        let _ = tracer.prepare(*process);
    }
    let (mut joined, mut refused) = (BTreeSet::new(), Vec::new());
    for id in ids {
        if joined.insert(Pid::from_raw(*id)) {
            refused.extend(join_one(Pid::from_raw(*id), tracer).err());
        }
    }
    if refused.len() == joined.len() {
        refused.into_iter().next().map_or(Ok(()), Err)?;
    } else {
        for why in refused {
            tracer.skipped().add(Reason::UntraceableProcess, 0, why.to_string());
        }
    }
    // The kernel follows everything that an attached process creates, so the search ends.
    loop {
        let new: Vec<Pid> =
            children(&joined).into_iter().filter(|process| !joined.contains(process)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for process in new {
            joined.insert(process);
            if traced_by_us(process) || ended(process) {
                continue;
            }
            if let Err(why) = join_one(process, tracer) {
                if !ended(process) {
                    tracer.skipped().add(Reason::UntraceableProcess, 0, why.to_string());
                }
            }
        }
    }
}

/// Number of attempts to trace a thread, with pauses: a process cannot be traced for a moment while it calls exec.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_millis(10);

fn join_one(process: Pid, tracer: &mut dyn Joining) -> Result<()> {
    let by = status_field(process, "TracerPid").ok_or_else(|| gone(process))?.parse().unwrap_or(0);
    if by != 0 {
        return Err(refusal::traced_already(process, by));
    }
    let failed = |error: io::Error| {
        Error::new(ErrorCode::TracingFailed, format!("cannot record process {process}: {error}"))
    };
    let mut seized = BTreeSet::new();
    let joined = seize_all(process, &mut seized).and_then(|()| tracer.join(process, &seized).map_err(failed));
    if joined.is_err() {
        tracer.leave(process, &seized);
    }
    joined
}

fn gone(process: Pid) -> Error {
    Error::new(ErrorCode::NotFound, format!("no process {process}"))
}

/// Seizes every thread of a process. The first breakpoint that an unseized thread hits would kill it. The kernel's list
/// of threads can miss one while another ends, so the process counts as seized only if the list was the same twice, has
/// as many threads as the kernel reports, and all of them are seized.
fn seize_all(process: Pid, seized: &mut BTreeSet<Pid>) -> Result<()> {
    let (mut before, mut ended_first, mut tries) = (None, BTreeSet::new(), 0);
    let mut refused: Option<(Pid, Error)> = None;
    // Threads may be created meanwhile; the kernel seizes new threads of a seized thread.
    loop {
        let all: BTreeSet<Pid> = threads(process).into_iter().flatten().collect();
        let mut failed = None;
        let is_new = |thread: &Pid| !seized.contains(thread) && !ended_first.contains(thread);
        for thread in all.iter().copied().filter(is_new).collect::<Vec<Pid>>() {
            match ptrace::seize(thread, FOLLOW) {
                Ok(()) => drop(seized.insert(thread)),
                Err(_) if traced_by_us(thread) => drop(seized.insert(thread)),
                Err(error) => failed = Some((thread, error)),
            }
        }
        refused = refused.filter(|(thread, _)| !seized.contains(thread));
        match failed {
            Some((thread, error)) => {
                // An ended thread may be the first thread of a process that runs on, or its id may soon be another
                // program's.
                let has_ended = ended(thread);
                if !has_ended && refused.is_none() {
                    refused = Some((thread, refusal::not_allowed(process, false, error)));
                }
                tries += 1;
                if tries < TRIES {
                    std::thread::sleep(AGAIN);
                } else if has_ended {
                    ended_first.insert(thread);
                } else {
                    break;
                }
            }
            None if all.is_empty() || refused.is_some() => break,
            None if before.as_ref() == Some(&all) && all.len() >= thread_count(process) => break,
            None => {}
        }
        before = Some(all);
    }
    match refused {
        Some((_, refusal)) => Err(refusal),
        None if seized.is_empty() => Err(gone(process)),
        None => Ok(()),
    }
}

/// Number of threads that the kernel reports; 0 if the process is gone.
fn thread_count(process: Pid) -> usize {
    status_field(process, "Threads").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Returns the processes whose parent is one of these.
fn children(parents: &BTreeSet<Pid>) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    let parent = |process: Pid| status_field(process, "PPid")?.parse().ok().map(Pid::from_raw);
    ids.filter(|process| parent(*process).is_some_and(|parent| parents.contains(&parent))).collect()
}

fn ended(process: Pid) -> bool {
    status_field(process, "State").is_none_or(|state| state.starts_with(['Z', 'X']))
}

fn traced_by_us(thread: Pid) -> bool {
    status_field(thread, "TracerPid").is_some_and(|by| by == nix::unistd::gettid().to_string())
}
