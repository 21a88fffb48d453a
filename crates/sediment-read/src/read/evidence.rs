// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of a recording on its machine, its time and its files, which identifies files without a build-id.

use std::collections::BTreeSet;

/// Machine and time of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingOrigin {
    /// Name of the machine (`uname -n`).
    pub host: Option<String>,
    /// Beginning, in nanoseconds since 1970.
    pub began: Option<u128>,
    /// Duration in nanoseconds; 0 if unknown.
    pub duration: u64,
}

impl RecordingOrigin {
    /// Combines it with another part of the same recording: keeps the earlier beginning, and the machine if both agree.
    pub(super) fn append(&mut self, part: &Self) {
        if self.host != part.host {
            self.host = None;
        }
        self.began = self.began.zip(part.began).map(|(one, other)| one.min(other));
        self.duration = self.duration.max(part.duration);
    }

    /// Sets the beginning from the end of the recording, in nanoseconds since 1970, if the beginning is unknown.
    pub fn ended(&mut self, end: u128) {
        self.began.get_or_insert(end.saturating_sub(u128::from(self.duration)));
    }
}

/// Inodes of a file that was mapped under one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Inode {
    /// Not recorded.
    #[default]
    Unknown,
    /// Device, as `major << 32 | minor`, and inode.
    One(u64, u64),
    /// Several files, one after the other.
    Several,
}

impl Inode {
    fn append(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Unknown, other) => other,
            (one, Self::Unknown) => one,
            (one, other) if one == other => one,
            _ => Self::Several,
        };
    }
}

/// Data of a recording on one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileEvidence {
    /// Its inode.
    pub inode: Inode,
    /// Offset and length of its executable mappings, the first ones found.
    pub mapped: BTreeSet<(u64, u64)>,
}

impl FileEvidence {
    /// Largest number of mappings that are kept for a file. A linker makes one or two.
    const MOST: usize = 16;

    /// Adds an executable mapping.
    pub fn add_mapped(&mut self, offset: u64, length: u64) {
        if self.mapped.len() < Self::MOST {
            self.mapped.insert((offset, length));
        }
    }

    /// Adds further data on the same file.
    pub fn append(&mut self, other: &Self) {
        self.inode.append(other.inode);
        for (offset, length) in &other.mapped {
            self.add_mapped(*offset, *length);
        }
    }
}
