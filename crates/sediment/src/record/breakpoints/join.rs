// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes on processes that run already: all their threads, and all that descends from them.

use super::mappings::{status_field, threads};
use super::refusal;
use super::start::FOLLOW;
use super::tracer::Tracer;
use crate::error::{Error, Result};
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::Duration;

/// Takes on these processes, then their descendants. A descendant that may not be traced is left alone, and counted.
///
/// # Errors
/// When one of the processes is not there, or may not be traced.
pub(super) fn join(ids: &[i32], tracer: &mut Tracer<'_>) -> Result<()> {
    let mut joined = BTreeSet::new();
    for id in ids {
        if joined.insert(Pid::from_raw(*id)) {
            join_one(Pid::from_raw(*id), tracer)?;
        }
    }
    // What a process makes from now on is followed by the kernel, so the search ends.
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
                    let what = "running processes below those given that may not be traced, not recorded";
                    tracer.modules.losses.add(what, 0, &why.to_string());
                }
            }
        }
    }
}

/// How often a thread that may not be traced is tried, and when again: a process that becomes another program may not for a moment.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_millis(10);

fn join_one(process: Pid, tracer: &mut Tracer<'_>) -> Result<()> {
    let gone = || Error::failed(format!("there is no process {process}"));
    let by = status_field(process, "TracerPid").ok_or_else(gone)?.parse().unwrap_or(0);
    if by != 0 {
        return Err(refusal::traced_already(process, by));
    }
    let mut seized = BTreeSet::new();
    let (mut tries, mut refusal) = (0, None);
    // Threads may be made meanwhile; those of a seized thread are seized by the kernel.
    loop {
        let Ok(all) = threads(process) else { return Err(refusal.unwrap_or_else(gone)) };
        let new: Vec<Pid> = all.into_iter().filter(|thread| !seized.contains(thread)).collect();
        let none_is_new = new.is_empty();
        let mut refused = None;
        for thread in new {
            match ptrace::seize(thread, FOLLOW) {
                Ok(()) => drop(seized.insert(thread)),
                Err(_) if traced_by_us(thread) => drop(seized.insert(thread)),
                Err(error) => refused = Some((thread, error)),
            }
        }
        let Some((thread, error)) = refused else { if none_is_new { break } else { continue } };
        // One that has ended may be the first thread of a process that runs on, or is about to be another program's.
        tries += 1;
        if !ended(thread) {
            refusal = Some(refusal::not_allowed(process, false, error));
        }
        if tries < TRIES {
            std::thread::sleep(AGAIN);
        } else if ended(thread) && !seized.is_empty() {
            break;
        } else {
            return Err(refusal.unwrap_or_else(gone));
        }
    }
    if seized.is_empty() {
        return Err(refusal.unwrap_or_else(gone));
    }
    tracer
        .join(process, &seized)
        .map_err(|error| Error::failed(format!("process {process} cannot be read: {error}")))
}

/// The processes whose parent is one of these.
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
