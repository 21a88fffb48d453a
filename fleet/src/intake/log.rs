// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Log`]: received submissions that are not in partitions yet, in segments in a local folder. A record is on the disk before its
//! submission is acknowledged.
//!
//! A record is `SFL2`, the lengths of its head and its body, the CRC-32 of both (each little-endian, four bytes), a head in JSON, and the rows of the
//! submission ([`Contents`](crate::dataset::contents::Contents)), so that it is parsed only once. A record that is incomplete or has a wrong checksum ends its segment, because it was never acknowledged.

use crate::day::Day;
use crate::submission::Origin;
use nix::fcntl::{Flock, FlockArg};
use sediment_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 4] = b"SFL2";
/// Begins a record of a version that stored the received bytes.
const EARLIER: &[u8; 4] = b"SFL1";
const HEADER: usize = 16;
/// Suffix of segments.
const SEGMENT: &str = ".log";
/// Suffix of requests to forget a submitter.
const FORGET: &str = ".forget";
/// Maximum size of a head in bytes.
const LONGEST_HEAD: usize = 4096;

/// A submission with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Submitter and day.
    pub origin: Origin,
    /// Key by which the client may repeat its request, if it gave one.
    pub idempotency_key: Option<String>,
    /// Digest of the received bytes.
    pub identity: u128,
    /// Rows of the submission, as bytes.
    pub contents: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    submitter: String,
    host_class: String,
    day: i32,
    identity: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    key: Option<String>,
}

/// Segments in a folder. The last segment grows.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    number: u64,
    file: File,
    /// Bytes of complete records in the growing segment.
    length: u64,
}

impl Log {
    /// Begins a new segment in a folder, with a number above all existing segments.
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn open(folder: &Path, above: u64) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| io(&error, folder))?;
        let last = segments(folder)?.last().map_or(0, |number| number + 1);
        let number = last.max(above);
        Ok(Self { folder: folder.to_owned(), number, file: begin(folder, number)?, length: 0 })
    }

    /// Writes records, and waits until they are durable. If that fails, none of them counts, and the segment ends before them.
    ///
    /// # Errors
    /// Fails if the disk is full or fails.
    pub fn append(&mut self, records: &[Record]) -> Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            encode(record, &mut bytes)?;
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // A partial record would hide the records after it.
            let cut = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
            if cut.is_err() {
                self.begin_next()?;
            }
            return Err(io(&error, &path(&self.folder, self.number)));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Size of the growing segment in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Ends the segment and begins the next one. Returns the number of the new segment.
    ///
    /// # Errors
    /// Fails if the folder is not writable.
    pub fn begin_next(&mut self) -> Result<u64> {
        self.file = begin(&self.folder, self.number + 1)?;
        self.number += 1;
        self.length = 0;
        Ok(self.number)
    }
}

/// Lock of a folder for one program and one dataset.
#[derive(Debug)]
pub struct Claim {
    _lock: Flock<File>,
}

/// Name of the file that contains the dataset's identity.
const OWNER: &str = "dataset";

/// Locks a folder for the log of a dataset. Makes the folder if it does not exist.
///
/// # Errors
/// Fails if another program uses the folder, if it belongs to another dataset, or if it is not writable.
pub fn claim(folder: &Path, dataset: &str) -> Result<Claim> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| io(&error, folder))?;
    let path = folder.join(OWNER);
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| io(&error, &path))?;
    let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
        Error::new(ErrorCode::IncompatibleInputs, format!("another intake has this log: {error}"))
            .with_input(folder.display().to_string())
            .with_hint("give each intake a different folder: --log DIR")
    })?;
    let mut owner = String::new();
    lock.read_to_string(&mut owner).map_err(|error| io(&error, &path))?;
    if owner.is_empty() {
        lock.write_all(dataset.as_bytes())
            .and_then(|()| lock.sync_all())
            .map_err(|error| io(&error, &path))?;
    } else if owner != dataset {
        return Err(Error::new(ErrorCode::IncompatibleInputs, "this log is of another dataset")
            .with_input(folder.display().to_string())
            .with_hint("give each dataset a different folder: --log DIR"));
    }
    Ok(Claim { _lock: lock })
}

/// Numbers of the segments in a folder, ascending.
///
/// # Errors
/// Fails if the folder is not readable.
pub fn segments(folder: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| io(&error, folder))? {
        let name = entry.map_err(|error| io(&error, folder))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SEGMENT));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The complete records of a segment, one after the other.
///
/// # Errors
/// Fails if the file is not readable.
pub fn records(folder: &Path, number: u64) -> Result<Records> {
    Records::open(path(folder, number))
}

/// Records of a file. Only one is in memory at a time.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: BufReader<File>,
    /// Remaining bytes of the file.
    left: u64,
}

impl Records {
    fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).map_err(|error| io(&error, &path))?;
        let left = file.metadata().map_err(|error| io(&error, &path))?.len();
        Ok(Self { path, file: BufReader::with_capacity(1 << 18, file), left })
    }

    /// Reads bytes of the file; `None` if the file is too short.
    fn next_bytes(&mut self, length: usize) -> std::io::Result<Option<Vec<u8>>> {
        let Some(left) = self.left.checked_sub(length as u64) else { return Ok(None) };
        self.left = left;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// The next record; `None` at the end, or at an incomplete record.
    fn read(&mut self) -> std::io::Result<Option<Record>> {
        let Some(header) = self.next_bytes(HEADER)? else { return Ok(None) };
        if header.starts_with(EARLIER) {
            return Err(std::io::Error::other(
                "submissions that an earlier sediment-fleet received: start that version once and end it, then the log is empty",
            ));
        }
        let Some(header) = header_of(&header) else { return Ok(None) };
        let (Some(head), Some(contents)) = (self.next_bytes(header.head)?, self.next_bytes(header.body)?)
        else {
            return Ok(None);
        };
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head);
        checksum.update(&contents);
        let head: Option<Head> = serde_json::from_slice(&head).ok();
        let Some(head) = head.filter(|_| checksum.finalize() == header.checksum) else { return Ok(None) };
        let Ok(identity) = u128::from_str_radix(&head.identity, 16) else { return Ok(None) };
        let origin = Origin { submitter: head.submitter, host_class: head.host_class, day: Day(head.day) };
        Ok(Some(Record { origin, idempotency_key: head.key, identity, contents }))
    }
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let read = self.read().map_err(|error| io(&error, &self.path)).transpose();
        if !matches!(read, Some(Ok(_))) {
            // Everything after an incomplete record is ignored.
            self.left = 0;
        }
        read
    }
}

/// Removes all records of a submitter: at once if no intake uses the log, else before the records are added to the dataset. Returns the number of records
/// that were removed at once.
///
/// # Errors
/// Fails if the folder is not writable.
pub fn forget(folder: &Path, submitter: &str) -> Result<u64> {
    if !folder.join(OWNER).exists() {
        return Ok(0);
    }
    let newest = segments(folder)?.last().copied().unwrap_or(0);
    let Some(_claim) = claim_again(folder)? else {
        let path = folder.join(format!("{submitter}{FORGET}"));
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(newest.to_string().as_bytes())?;
            file.sync_all()
        });
        return written.map(|()| 0).map_err(|error| io(&error, &path));
    };
    let mut removed = 0;
    for path in segments(folder)?.into_iter().map(|number| path(folder, number)) {
        let (mut kept, mut found) = (Vec::new(), 0);
        for record in Records::open(path.clone())? {
            let record = record?;
            if record.origin.submitter == submitter {
                found += 1;
            } else {
                encode(&record, &mut kept)?;
            }
        }
        if found > 0 {
            let new = path.with_extension("new");
            let written = File::create(&new).and_then(|mut file| {
                file.write_all(&kept)?;
                file.sync_all()?;
                std::fs::rename(&new, &path)?;
                File::open(folder)?.sync_all()
            });
            written.map_err(|error| io(&error, &path))?;
        }
        removed += found;
    }
    Ok(removed)
}

/// Locks an existing folder for its dataset; `None` if an intake uses it.
fn claim_again(folder: &Path) -> Result<Option<Claim>> {
    let path = folder.join(OWNER);
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| io(&error, &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(Claim { _lock: lock })),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => {
            Err(Error::new(ErrorCode::Io, error.to_string()).with_input(path.display().to_string()))
        }
    }
}

/// Submitters whose records are to be forgotten, with the last segment that can contain some.
///
/// # Errors
/// Fails if the folder is not readable.
pub fn forgotten(folder: &Path) -> Result<HashMap<String, u64>> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(folder).map_err(|error| io(&error, folder))? {
        let name = entry.map_err(|error| io(&error, folder))?.file_name();
        if let Some(submitter) = name.to_str().and_then(|name| name.strip_suffix(FORGET)) {
            let text = std::fs::read_to_string(folder.join(&name)).map_err(|error| io(&error, folder))?;
            // The number is not written yet, so all existing segments count.
            found.insert(submitter.to_owned(), text.trim().parse().unwrap_or(u64::MAX));
        }
    }
    Ok(found)
}

/// Records that no segment contains records of a submitter any more.
///
/// # Errors
/// Fails if the file cannot be removed.
pub fn is_forgotten(folder: &Path, submitter: &str) -> Result<()> {
    let path = folder.join(format!("{submitter}{FORGET}"));
    std::fs::remove_file(&path).map_err(|error| io(&error, &path))
}

/// Removes a segment.
///
/// # Errors
/// Fails if it cannot be removed.
pub fn remove(folder: &Path, number: u64) -> Result<()> {
    let path = path(folder, number);
    std::fs::remove_file(&path).map_err(|error| io(&error, &path))
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}{SEGMENT}"))
}

fn begin(folder: &Path, number: u64) -> Result<File> {
    let path = path(folder, number);
    let made = OpenOptions::new().create_new(true).append(true).open(&path).and_then(|file| {
        File::open(folder)?.sync_all()?;
        Ok(file)
    });
    made.map_err(|error| io(&error, &path))
}

fn encode(record: &Record, bytes: &mut Vec<u8>) -> Result<()> {
    let head = Head {
        submitter: record.origin.submitter.clone(),
        host_class: record.origin.host_class.clone(),
        day: record.origin.day.0,
        identity: format!("{:032x}", record.identity),
        key: record.idempotency_key.clone(),
    };
    let head = serde_json::to_vec(&head).map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?;
    let length = |part: &[u8]| {
        u32::try_from(part.len()).map_err(|_| Error::new(ErrorCode::TooLarge, "a record of 4 GiB or more"))
    };
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head);
    checksum.update(&record.contents);
    bytes.extend(MAGIC);
    bytes.extend(length(&head)?.to_le_bytes());
    bytes.extend(length(&record.contents)?.to_le_bytes());
    bytes.extend(checksum.finalize().to_le_bytes());
    bytes.extend(head);
    bytes.extend(&record.contents);
    Ok(())
}

/// Lengths and checksum of a record.
struct Header {
    head: usize,
    body: usize,
    checksum: u32,
}

fn header_of(bytes: &[u8]) -> Option<Header> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let header = Header { head: number(4)? as usize, body: number(8)? as usize, checksum: number(12)? };
    (bytes.get(..4)? == MAGIC && header.head <= LONGEST_HEAD).then_some(header)
}

fn io(error: &std::io::Error, path: &Path) -> Error {
    Error::new(ErrorCode::Io, error.to_string())
        .with_input(path.display().to_string())
        .with_hint("the intake needs a folder on a disk with free space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: &[u8]) -> Record {
        let origin = Origin { submitter: "aa".to_owned(), host_class: "desktop".to_owned(), day: Day(7) };
        Record { origin, idempotency_key: Some("k".to_owned()), identity: 5, contents: bytes.to_vec() }
    }

    #[test]
    fn whole_records_come_back_and_cut_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), 3).unwrap();
        log.append(&[record(b"one"), record(b"")]).unwrap();
        log.append(&[record(b"three")]).unwrap();
        let read = || records(folder.path(), 3).unwrap().collect::<Result<Vec<_>>>().unwrap();
        let whole = read();
        assert_eq!(whole, [record(b"one"), record(b""), record(b"three")]);
        let path = path(folder.path(), 3);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let kept = read();
            assert!(kept.len() < 3 && kept == whole[..kept.len()], "cut at {cut}");
        }
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert_eq!(read().len(), 2);
        // The log of an earlier version must not be lost.
        std::fs::write(&path, [&b"SFL1"[..], &bytes[4..]].concat()).unwrap();
        let error = records(folder.path(), 3).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("an earlier sediment-fleet"), "{error}");
    }

    #[test]
    fn a_log_is_of_one_program_and_one_dataset() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let first = claim(&log, "a").unwrap();
        assert!(claim(&log, "a").unwrap_err().to_string().contains("another intake"));
        drop(first);
        assert!(claim(&log, "b").unwrap_err().to_string().contains("another dataset"));
        claim(&log, "a").unwrap();
    }

    #[test]
    fn a_submitter_is_forgotten_at_once_or_before_the_dataset() {
        let folder = tempfile::tempdir().unwrap();
        let of = |submitter: &str| {
            let mut record = record(submitter.as_bytes());
            record.origin.submitter = submitter.to_owned();
            record
        };
        let held = claim(folder.path(), "a").unwrap();
        Log::open(folder.path(), 0).unwrap().append(&[of("x"), of("y"), of("x")]).unwrap();
        assert_eq!(forget(folder.path(), "x").unwrap(), 0);
        assert_eq!(forgotten(folder.path()).unwrap(), HashMap::from([("x".to_owned(), 0)]));
        is_forgotten(folder.path(), "x").unwrap();
        drop(held);
        assert_eq!(forget(folder.path(), "x").unwrap(), 2);
        let left = records(folder.path(), 0).unwrap().collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(left, [of("y")]);
    }

    #[test]
    fn each_start_begins_a_segment() {
        let folder = tempfile::tempdir().unwrap();
        drop(Log::open(folder.path(), 0).unwrap());
        let mut log = Log::open(folder.path(), 0).unwrap();
        assert_eq!(log.begin_next().unwrap(), 2);
        assert_eq!(segments(folder.path()).unwrap(), [0, 1, 2]);
        remove(folder.path(), 1).unwrap();
        assert_eq!(segments(folder.path()).unwrap(), [0, 2]);
    }
}
