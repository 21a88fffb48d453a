// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads processes from /proc: parents and children, traced and stopped ones; compares code in memory with the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A process in /proc/PID/stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) name: String,
    state: char,
    parent: i32,
}

impl Process {
    fn read(id: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some(Self { id, name: name.to_owned(), state, parent: fields.next()?.parse().ok()? })
    }

    /// True for a zombie. If only its first thread has ended, its other threads are still listed, or one has since
    /// taken its place.
    pub(crate) fn has_ended(&self) -> bool {
        let is_over = |process: &Self| matches!(process.state, 'Z' | 'X');
        is_over(self)
            && numbers_in(&format!("/proc/{}/task", self.id)).len() < 2
            && Self::read(self.id).as_ref().is_none_or(is_over)
    }

    /// Formats a line for a report on hanging processes.
    pub(crate) fn describe(&self) -> String {
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.id)).unwrap_or_default();
        let tracer = field(&read("status"), "TracerPid").unwrap_or_default();
        format!(
            "{} {} below {}: state {}, tracer {tracer}, in {}",
            self.id,
            self.name,
            self.parent,
            self.state,
            read("wchan")
        )
    }
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn field(status: &str, name: &str) -> Option<String> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Returns the descendants of a process, parents before children. Ids wrap around, so a child's may be smaller.
pub(crate) fn below(root: i32) -> Vec<Process> {
    let all: BTreeMap<i32, Process> =
        numbers_in("/proc").into_iter().filter_map(|id| Some((id, Process::read(id)?))).collect();
    let depth = |process: &Process| {
        let mut parent = process.parent;
        for depth in 0..all.len() {
            if parent == root {
                return Some(depth);
            }
            parent = all.get(&parent)?.parent;
        }
        None
    };
    let mut found: Vec<(usize, &Process)> =
        all.values().filter_map(|process| Some((depth(process)?, process))).collect();
    found.sort_by_key(|(depth, process)| (*depth, process.id));
    found.into_iter().map(|(_, process)| process.clone()).collect()
}

/// True if a process runs this program.
pub(crate) fn runs(process: i32, program: &Path) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| exe == program)
}

/// Returns the tracer of any of a process's threads.
pub(crate) fn tracer(process: i32) -> Option<i32> {
    threads(process)
        .into_iter()
        .find_map(|status| field(&status, "TracerPid")?.parse().ok().filter(|id| *id != 0))
}

/// True if one of its threads is stopped, by a signal or a tracer.
pub(crate) fn is_stopped(process: i32) -> bool {
    threads(process)
        .iter()
        .any(|status| field(status, "State").is_some_and(|state| state.starts_with(['T', 't'])))
}

fn threads(process: i32) -> Vec<String> {
    let folder = format!("/proc/{process}/task");
    let threads = numbers_in(&folder).into_iter();
    threads.filter_map(|thread| std::fs::read_to_string(format!("{folder}/{thread}/status")).ok()).collect()
}

/// Sends a signal by number to a process or, if the id is negative, to a group. The process may have ended already.
pub(crate) fn signal(process: i32, number: i32) {
    let mut kill = Command::new("kill");
    kill.args([&format!("-{number}"), "--", &process.to_string()]);
    kill.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

/// Ends all descendants of a process.
pub(crate) fn end_below(root: i32) {
    for _ in 0..50 {
        let left = below(root);
        if left.iter().all(Process::has_ended) {
            return;
        }
        for process in left.iter().filter(|process| !process.has_ended()) {
            signal(process.id, 9);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of code in memory that differ from the file, by address.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(crate) changed: BTreeSet<u64>,
    /// Description of the first difference.
    pub(crate) first: String,
    /// Number of bytes compared.
    pub(crate) compared: u64,
}

/// Compares all non-writable code of a process with the mapped files. Ignores files that are loaded or unloaded
/// meanwhile: a difference counts if it is found three times, in a mapping that exists before and after.
pub(crate) fn differences(process: i32) -> Differences {
    let mut found = compare(process);
    for _ in 0..2 {
        if found.changed.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(15));
        let again = compare(process);
        found.changed.retain(|address| again.changed.contains(address));
    }
    found
}

fn compare(process: i32) -> Differences {
    let mut found = Differences::default();
    let maps = || std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let Ok(memory) = File::open(format!("/proc/{process}/mem")) else { return found };
    for line in maps().lines() {
        let mut here = Differences::default();
        let _ = compare_mapping(process, line, &memory, &mut here);
        let differs = !here.changed.is_empty();
        if differs && !maps().lines().any(|now| now == line) {
            continue;
        }
        found.changed.append(&mut here.changed);
        found.compared += here.compared;
        found.first = if found.first.is_empty() { here.first } else { found.first };
    }
    found
}

fn compare_mapping(process: i32, line: &str, memory: &File, found: &mut Differences) -> Option<()> {
    const PIECE: usize = 1 << 20;
    let mut words = line.split_whitespace();
    let range = words.next()?;
    let rights = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let inode: u64 = words.nth(1)?.parse().ok()?;
    if inode == 0 || !rights.contains('x') || rights.contains('w') {
        return None;
    }
    let path = line.split_once('/').map(|(_, path)| format!("/{path}"))?;
    let file = mapped_file(process, range, Path::new(&path), inode)?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut at = start;
    while at < end {
        let length = PIECE.min((end - at) as usize);
        let (mut here, mut there) = (vec![0; length], vec![0; length]);
        memory.read_exact_at(&mut here, at).ok()?;
        // After the end of the file, memory is zero.
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut there[filled..], offset + (at - start) + filled as u64).ok()? {
                0 => break,
                more => filled += more,
            }
        }
        found.compared += length as u64;
        let differ = here != there;
        for (index, (here, there)) in here
            .iter()
            .take(if differ { length } else { 0 })
            .zip(&there)
            .enumerate()
            .filter(|(_, (here, there))| here != there)
        {
            if found.first.is_empty() {
                found.first = format!(
                    "{path} at {:#x}: {here:02x} instead of {there:02x}",
                    offset + (at - start) + index as u64
                );
            }
            found.changed.insert(at + index as u64);
        }
        at += length as u64;
    }
    Some(())
}

/// Opens exactly the mapped file, which may have been deleted or replaced.
fn mapped_file(process: i32, range: &str, path: &Path, inode: u64) -> Option<File> {
    let start_and_end: Vec<&str> = range.split('-').map(|number| number.trim_start_matches('0')).collect();
    if let Ok(file) = File::open(format!("/proc/{process}/map_files/{}", start_and_end.join("-"))) {
        return Some(file);
    }
    let within: PathBuf = format!("/proc/{process}/root{}", path.display()).into();
    let file = File::open(within).ok()?;
    (file.metadata().ok()?.ino() == inode).then_some(file)
}
