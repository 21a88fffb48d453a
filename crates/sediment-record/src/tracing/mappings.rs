// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads data on a process from /proc: its mappings of code, the mapped files, its threads and its tracer.

use super::groups::memory_left_to;
use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Size of the largest file whose functions are read, in bytes.
pub(crate) const LARGEST_FILE: u64 = 4 << 30;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessMapping {
    pub(crate) range: Range<u64>,
    pub(crate) executable: bool,
    /// True if anybody except us may write to it: the process, or another that shares it.
    pub(crate) writable: bool,
    /// Offset of its beginning in the file.
    pub(crate) offset: u64,
    /// Inode of the file; 0 without a file.
    pub(crate) inode: u64,
    /// Path of the file; without a file, empty or a name in brackets.
    pub(crate) path: String,
}

impl ProcessMapping {
    fn is_of_file(&self) -> bool {
        self.path.starts_with('/') && self.inode != 0
    }
}

/// The mappings of files, by address.
pub(crate) fn mappings(thread: Pid) -> io::Result<Vec<ProcessMapping>> {
    let mut all = all_mappings(thread)?;
    all.retain(ProcessMapping::is_of_file);
    Ok(all)
}

/// All mappings, by address.
pub(crate) fn all_mappings(thread: Pid) -> io::Result<Vec<ProcessMapping>> {
    Ok(mappings_in(&fs::read(format!("/proc/{thread}/maps"))?))
}

/// Parses the text of /proc/ID/maps.
pub(crate) fn mappings_in(text: &[u8]) -> Vec<ProcessMapping> {
    String::from_utf8_lossy(text).lines().filter_map(mapping).collect()
}

/// Parses a line of /proc/ID/maps.
fn mapping(line: &str) -> Option<ProcessMapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?.as_bytes();
    let (offset, _, inode) = (words.next()?, words.next()?, words.next()?);
    let path = words.next().unwrap_or_default().trim_start();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    Some(ProcessMapping {
        range,
        executable: permissions.get(2) == Some(&b'x'),
        writable: permissions.get(1) == Some(&b'w') || permissions.get(3) == Some(&b's'),
        offset: number(offset)?,
        inode: inode.parse().ok()?,
        path: path.to_owned(),
    })
}

/// Reads a file that a process has mapped: from its path as the process sees it or, if that file was replaced, through
/// the kernel's link to the mapped file. Empty if a program that we trace may serve the file, because that program
/// waits for us.
pub(crate) fn content(process: Pid, mapping: &ProcessMapping) -> Option<Vec<u8>> {
    let ProcessMapping { path, range, inode, .. } = mapping;
    if is_served(process, range.start) && we_trace_a_server() {
        return Some(Vec::new());
    }
    let kept = format!("/proc/{process}/map_files/{:x}-{:x}", range.start, range.end);
    let candidates = [
        PathBuf::from(format!("/proc/{process}/root{path}")),
        PathBuf::from(kept),
        PathBuf::from(format!("/proc/{process}/exe")),
    ];
    let same = |place: &&PathBuf| fs::metadata(place).is_ok_and(|found| found.ino() == *inode);
    // On some file systems, the mapping and the path have different inodes; a later check compares the code.
    let place =
        candidates.iter().find(same).or_else(|| candidates[..1].iter().find(|place| place.is_file()))?;
    let fits = fs::metadata(place).is_ok_and(|found| found.is_file() && found.len() <= LARGEST_FILE);
    fits.then(|| fs::read(place).ok()).flatten()
}

/// File systems that the kernel serves by itself. Others may be layered on one that a program serves.
const OF_KERNEL: [&str; 16] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "rootfs", "squashfs", "erofs", "f2fs", "vfat",
    "zfs", "devtmpfs", "iso9660", "bcachefs",
];

/// True if a program may serve the file that a process has mapped at this address, with FUSE or below another file
/// system.
fn is_served(process: Pid, address: u64) -> bool {
    let bytes = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    let text = |file: &str| String::from_utf8_lossy(&bytes(file)).into_owned();
    let (maps, mounts) = (text("maps"), text("mountinfo"));
    let start = format!("{address:x}-");
    let line = maps.lines().find(|line| line.starts_with(&start));
    let device = line.and_then(|line| line.split(' ').nth(3)?.split_once(':'));
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let device = device.and_then(|(major, minor)| Some(format!("{}:{}", number(major)?, number(minor)?)));
    mounts.lines().any(|line| {
        let here = device.as_deref().is_some_and(|device| line.split(' ').nth(2) == Some(device));
        let kind = line.split_once(" - ").map_or("", |(_, kind)| kind);
        here && !OF_KERNEL.contains(&kind.split(' ').next().unwrap_or_default())
    })
}

/// True if a process that this thread traces serves files.
fn we_trace_a_server() -> bool {
    let us = nix::unistd::gettid().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    processes.any(|process| {
        let is_ours = status_field(process, "TracerPid").is_some_and(|by| by == us);
        let files = is_ours.then(|| fs::read_dir(format!("/proc/{process}/fd")).ok()).flatten();
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|file| file == Path::new("/dev/fuse")))
    })
}

/// Returns a value of a program's auxiliary vector.
pub(crate) fn auxiliary_value(vector: &[u8], key: u64) -> Option<u64> {
    const WORD: usize = size_of::<u64>();
    vector.chunks_exact(2 * WORD).find_map(|pair| {
        let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        (number(pair)? == key).then(|| number(&pair[WORD..])).flatten()
    })
}

/// Returns a field of /proc/ID/status, trimmed.
pub(crate) fn status_field(id: Pid, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// True if a thread has ended. False if its state cannot be read for another reason, such as too many open files: it
/// may still run.
pub(crate) fn has_ended(thread: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(text) => text.lines().any(|line| {
            line.strip_prefix("State:").is_some_and(|state| state.trim_start().starts_with(['Z', 'X']))
        }),
        Err(error) => error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH),
    }
}

/// True if the process of a thread ignores this signal.
pub(crate) fn ignores(thread: Pid, signal: i32) -> bool {
    let mask = status_field(thread, "SigIgn").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// True if a thread has a seccomp filter.
pub(crate) fn is_filtered(thread: Pid) -> bool {
    status_field(thread, "Seccomp").is_some_and(|mode| mode != "0")
}

/// True if a limit of a process could prevent the growth of its memory, or of our memory in a file that it maps.
pub(crate) fn is_limited(process: Pid) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let soft =
        |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    ["Max address space", "Max file size"].iter().any(|name| soft(name) != Some("unlimited"))
}

/// True if the control groups of a process leave it little memory compared with its code: changed pages of code become
/// copies.
pub(crate) fn has_little_memory(process: Pid) -> bool {
    const LEAST: u64 = 64 << 20;
    const COPIES: u64 = 4;
    memory_left_to(process).is_some_and(|left| {
        let mapped =
            if left < COPIES * LARGEST_FILE { mappings(process).unwrap_or_default() } else { Vec::new() };
        let code = mapped.iter().filter(|mapping| mapping.executable);
        let bytes: u64 = code.map(|mapping| mapping.range.end - mapping.range.start).sum();
        left < LEAST.max(COPIES * bytes)
    })
}

/// True if a thread has the same seccomp filters as we have: then we may do anything that it may do.
pub(crate) fn is_filtered_as_we_are(thread: Pid) -> bool {
    let filters = |id| ["Seccomp", "Seccomp_filters"].map(|field| status_field(id, field));
    filters(thread) == filters(Pid::this())
}

/// Returns the user with whose rights a process opens files.
pub(crate) fn user_of(process: Pid) -> Option<u32> {
    status_field(process, "Uid")?.split_whitespace().nth(3)?.parse().ok()
}

/// The process that a thread belongs to.
pub(crate) fn process_of(thread: Pid) -> Option<Pid> {
    status_field(thread, "Tgid")?.parse().ok().map(Pid::from_raw)
}

/// The threads of a process.
pub(crate) fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    let numbers = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
    Ok(numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw).collect())
}

/// Returns a thread of a process that has not ended, because the first thread may have ended; `None` if the process is
/// gone.
pub(crate) fn running_thread(process: Pid) -> Option<Pid> {
    threads(process).ok()?.into_iter().find(|thread| !has_ended(*thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read() {
        let line =
            "55d0c0a2b000-55d0c0a2f000 r-xp 00002000 fe:01 1234                       /usr/bin/a b (deleted)";
        let expected = ProcessMapping {
            range: 0x55d0_c0a2_b000..0x55d0_c0a2_f000,
            executable: true,
            writable: false,
            offset: 0x2000,
            inode: 1234,
            path: "/usr/bin/a b (deleted)".to_owned(),
        };
        assert_eq!(mapping(line), Some(expected));
        for (permissions, executable, writable) in
            [("rw-p", false, true), ("rwxp", true, true), ("r-xs", true, true), ("r--p", false, false)]
        {
            let line = format!("55d0c0a2b000-55d0c0a2f000 {permissions} 00002000 fe:01 1234    /usr/bin/a");
            let found = mapping(&line).unwrap();
            assert_eq!((found.executable, found.writable), (executable, writable), "{line}");
        }
        for (other, executable) in [
            ("7ffd1c5f2000-7ffd1c5f4000 r-xp 00000000 00:00 0       [vdso]", true),
            ("7ffd1c5f2000-7ffd1c5f4000 rwxp 00000000 00:00 0 ", true),
            ("7ffd1c5f2000-7ffd1c5f4000 rw-p 00000000 00:00 0", false),
        ] {
            let found = mapping(other).unwrap();
            assert_eq!((found.is_of_file(), found.executable), (false, executable), "{other}");
        }
        assert_eq!(mapping(""), None);
    }

    #[test]
    fn the_auxiliary_vector_is_read() {
        let vector: Vec<u8> =
            [9u64, 77, 7, 88, 0, 0].iter().flat_map(|number| number.to_ne_bytes()).collect();
        assert_eq!(auxiliary_value(&vector, 7), Some(88));
        assert_eq!(auxiliary_value(&vector, 3), None);
    }
}
