// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`IntakeLog`]: received submissions that are not in partitions yet, in segments in a local folder. A record is on the disk before its
//! submission is acknowledged.
//!
//! A record is `SFL3`, the length of its message, the CRC-32 of the message (each little-endian, four bytes), and the message. It contains the rows of the
//! submission ([`Contents`](crate::dataset::contents::Contents)), so that it is parsed only once. A record that is incomplete or has a wrong checksum ends
//! its segment, because it was never acknowledged.

use crate::errors::{ErrorContext as _, write_file};
use bytes::Bytes;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use prost::Message as _;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 4] = b"SFL3";
/// Begin records of versions that stored other bytes.
const EARLIER: [&[u8; 4]; 2] = [b"SFL1", b"SFL2"];
const HEADER: usize = 12;
/// Suffix of segments.
const SEGMENT: &str = ".log";
/// Suffix of requests to forget a submitter.
const FORGET: &str = ".forget";

/// A submission with its origin.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Record {
    #[prost(string, tag = "1")]
    pub(super) submitter: String,
    #[prost(string, tag = "2")]
    pub(super) host_class: String,
    #[prost(int32, tag = "3")]
    pub(super) day: i32,
    /// Key by which the client may repeat its request, if it gave one.
    #[prost(string, optional, tag = "4")]
    pub(super) idempotency_key: Option<String>,
    /// Digest of the received bytes: a number of 16 bytes, the highest first.
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) identity: Bytes,
    /// Rows of the submission.
    #[prost(bytes = "bytes", tag = "6")]
    pub(super) contents: Bytes,
}

impl Record {
    pub(super) fn identity(&self) -> u128 {
        self.identity.as_ref().try_into().map_or(0, u128::from_be_bytes)
    }
}

/// Segments in a folder. The last segment grows.
#[derive(Debug)]
pub(crate) struct IntakeLog {
    folder: PathBuf,
    number: u64,
    file: File,
    /// Bytes of complete records in the growing segment.
    length: u64,
}

impl IntakeLog {
    /// Begins a new segment in a folder, with a number above all existing segments.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let number = segments(folder)?.last().map_or(0, |number| number + 1);
        Ok(Self { folder: folder.to_owned(), number, file: begin(folder, number)?, length: 0 })
    }

    /// Writes records, and waits until they are durable. If that fails, none of them counts, and the segment ends before them.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<()> {
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
            return Err(error).at(&path(&self.folder, self.number));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Size of the growing segment in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Ends the segment and begins the next one.
    pub(crate) fn begin_next(&mut self) -> Result<()> {
        self.file = begin(&self.folder, self.number + 1)?;
        self.number += 1;
        self.length = 0;
        Ok(())
    }
}

/// Folder of a dataset's log, if no other is given.
pub(crate) fn folder_of(place: &str) -> Option<PathBuf> {
    (!place.starts_with("s3://")).then(|| Path::new(place).join("log"))
}

/// Lock of a folder for one program and one dataset.
pub(crate) type Claim = Flock<File>;

/// Name of the file that contains the dataset's identity.
const OWNER: &str = "dataset";

/// Locks a folder for the log of a dataset. Makes the folder if it does not exist.
pub(crate) fn claim(folder: &Path, dataset: &str) -> Result<Claim> {
    let hint = "give each intake and each dataset a different folder: --log DIR";
    let other = |message: &str| {
        Error::new(ErrorCode::IncompatibleInputs, message)
            .with_input(folder.display().to_string())
            .with_hint(hint)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).at(folder)?;
    let mut lock = lock(folder)?.ok_or_else(|| other("another intake has this log"))?;
    let mut owner = String::new();
    lock.read_to_string(&mut owner).at(folder)?;
    if owner.is_empty() {
        lock.write_all(dataset.as_bytes()).and_then(|()| lock.sync_all()).at(folder)?;
    } else if owner != dataset {
        return Err(other("this log is of another dataset"));
    }
    Ok(lock)
}

/// Locks an existing folder; `None` if an intake uses it.
fn lock(folder: &Path) -> Result<Option<Claim>> {
    let path = folder.join(OWNER);
    let mut options = OpenOptions::new();
    let file =
        options.create(true).truncate(false).read(true).write(true).mode(0o600).open(&path).at(&path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error).at(&path),
    }
}

/// Names of files in a folder that end with this, without this end.
fn names(folder: &Path, end: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).at(folder)? {
        let name = entry.at(folder)?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(end)).map(str::to_owned));
    }
    Ok(names)
}

/// Numbers of the segments in a folder, ascending.
pub fn segments(folder: &Path) -> Result<Vec<u64>> {
    let names = names(folder, SEGMENT)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The complete records of a segment, one after the other. Only one is in memory at a time.
pub(crate) fn records(folder: &Path, number: u64) -> Result<Records> {
    let path = path(folder, number);
    let file = File::open(&path).at(&path)?;
    let left = file.metadata().at(&path)?.len();
    Ok(Records { path, file: BufReader::with_capacity(1 << 18, file), left })
}

/// Records of a file.
#[derive(Debug)]
pub(crate) struct Records {
    path: PathBuf,
    file: BufReader<File>,
    /// Remaining bytes of the file.
    left: u64,
}

impl Records {
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
        let (magic, numbers) = header.split_at(MAGIC.len());
        if EARLIER.iter().any(|earlier| magic == *earlier) {
            return Err(std::io::Error::other(
                "submissions that an earlier sediment-fleet received: start that version once and end it, then the log is empty",
            ));
        }
        let number = |at: usize| numbers[at..at + 4].iter().rfold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let message = if magic == MAGIC { self.next_bytes(number(0) as usize)? } else { None };
        let message = message.filter(|message| crc32fast::hash(message) == number(4));
        Ok(message.and_then(|message| Record::decode(Bytes::from(message)).ok()))
    }
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let read = self.read().at(&self.path).transpose();
        if !matches!(read, Some(Ok(_))) {
            // Everything after an incomplete record is ignored.
            self.left = 0;
        }
        read
    }
}

/// Removes all records of a submitter: at once if no intake uses the log, else before the records are added to the dataset. Returns the number of records
/// that were removed at once.
pub(crate) fn forget(folder: &Path, submitter: &str) -> Result<u64> {
    if !folder.join(OWNER).exists() {
        return Ok(0);
    }
    let newest = segments(folder)?.last().copied().unwrap_or(0);
    let Some(_claim) = lock(folder)? else {
        let path = folder.join(format!("{submitter}{FORGET}"));
        return write_file(&path, newest.to_string().as_bytes()).map(|()| 0);
    };
    let mut removed = 0;
    for number in segments(folder)? {
        let (mut kept, mut found) = (Vec::new(), 0);
        for record in records(folder, number)? {
            let record = record?;
            if record.submitter == submitter {
                found += 1;
            } else {
                encode(&record, &mut kept)?;
            }
        }
        if found > 0 {
            write_file(&path(folder, number), &kept)?;
        }
        removed += found;
    }
    Ok(removed)
}

/// Submitters whose records are to be forgotten, with the last segment that can contain some.
pub(crate) fn forgotten(folder: &Path) -> Result<HashMap<String, u64>> {
    let last = |submitter: String| {
        let text = std::fs::read_to_string(folder.join(format!("{submitter}{FORGET}"))).at(folder)?;
        Ok((submitter, text.trim().parse().unwrap_or(u64::MAX)))
    };
    names(folder, FORGET)?.into_iter().map(last).collect()
}

/// Records that no segment contains records of a submitter any more.
pub(crate) fn is_forgotten(folder: &Path, submitter: &str) -> Result<()> {
    let path = folder.join(format!("{submitter}{FORGET}"));
    std::fs::remove_file(&path).at(&path)
}

/// Removes a segment.
pub(crate) fn remove(folder: &Path, number: u64) -> Result<()> {
    let path = path(folder, number);
    std::fs::remove_file(&path).at(&path)
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
    made.at(&path)
}

fn encode(record: &Record, bytes: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(record.encoded_len());
    let length = length.map_err(|_| Error::new(ErrorCode::TooLarge, "a record of 4 GiB or more"))?;
    bytes.extend(MAGIC);
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    let begin = bytes.len();
    record.encode(bytes).io()?;
    let checksum = crc32fast::hash(&bytes[begin..]);
    bytes[begin - 4..begin].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: &'static [u8]) -> Record {
        Record {
            submitter: "aa".to_owned(),
            host_class: "desktop".to_owned(),
            day: 7,
            idempotency_key: Some("k".to_owned()),
            identity: Bytes::from(5u128.to_be_bytes().to_vec()),
            contents: Bytes::from(bytes),
        }
    }

    #[test]
    fn whole_records_come_back_and_cut_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = IntakeLog::open(folder.path()).unwrap();
        log.append(&[record(b"one"), record(b"")]).unwrap();
        log.append(&[record(b"three")]).unwrap();
        let read = || records(folder.path(), 0).unwrap().collect::<Result<Vec<_>>>().unwrap();
        let whole = read();
        assert_eq!(whole, [record(b"one"), record(b""), record(b"three")]);
        let path = path(folder.path(), 0);
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
        let error = records(folder.path(), 0).unwrap().next().unwrap().unwrap_err();
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
        let of = |submitter: &'static str| Record { submitter: submitter.to_owned(), ..record(b"rows") };
        let held = claim(folder.path(), "a").unwrap();
        IntakeLog::open(folder.path()).unwrap().append(&[of("x"), of("y"), of("x")]).unwrap();
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
        drop(IntakeLog::open(folder.path()).unwrap());
        let mut log = IntakeLog::open(folder.path()).unwrap();
        log.begin_next().unwrap();
        assert_eq!(segments(folder.path()).unwrap(), [0, 1, 2]);
        remove(folder.path(), 1).unwrap();
        assert_eq!(segments(folder.path()).unwrap(), [0, 2]);
    }
}
