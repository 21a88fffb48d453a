// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of files in memory, as far as the log has them.
//!
//! valgrind prints for each file the address of its `.text` as linked (`svma`) and in memory (`avma`); the difference
//! is the bias of the file. Files do not overlap, so an address belongs to the file with the closest beginning before
//! it. The log does not have the ends of files; for an address after the end, no function is found later.

use sediment_core::error::{Error, Result};

/// A file that is, or was, mapped.
#[derive(Debug)]
struct LoadedFile {
    path: Vec<u8>,
    /// First address that may belong to it.
    start: u64,
    /// Address of its `.text`.
    code: u64,
    /// Difference between addresses in memory and in the file.
    bias: u64,
    mapped: bool,
    /// Highest address of a block that was executed while it belonged to this file; `None` if there was none.
    highest: Option<u64>,
}

/// Files by address.
#[derive(Debug, Default)]
pub(super) struct AddressSpaceFiles {
    /// Sorted by `start`.
    objects: Vec<LoadedFile>,
    /// File of the previous line, whose address comes next.
    next: Option<Vec<u8>>,
    /// True if a process has begun and its mappings are not known yet.
    fresh: bool,
}

/// Result of looking up an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObjectLookup<'a> {
    /// A file, and the address in that file.
    Object { path: &'a [u8], address: u64 },
    /// No named file.
    Nothing,
}

/// More files than any process maps: the number of its mappings is limited.
const MOST_OBJECTS: usize = 4096;
/// Executables at their linked address begin at a multiple of this.
const ALIGNMENT: u64 = 4 << 20;

impl AddressSpaceFiles {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// A process begins. If it lists its own files, the former ones belong to another process; if not, it was forked
    /// with all of them.
    pub(super) fn process_started(&mut self) {
        self.fresh = true;
        self.next = None;
    }

    /// Names the file whose address may be in the next line.
    pub(super) fn named(&mut self, path: &[u8]) {
        self.next = Some(path.to_vec());
    }

    /// Sets the address of the last named file. True if addresses of earlier blocks now denote something else.
    pub(super) fn loaded(&mut self, linked: u64, loaded: u64, line: u64) -> Result<bool> {
        let Some(path) = self.next.take() else { return Ok(false) };
        let mut changed = false;
        if std::mem::take(&mut self.fresh) {
            changed = self.objects.iter().any(|object| object.highest.is_some());
            self.objects.clear();
        }
        let bias = loaded.wrapping_sub(linked);
        // For a file at its linked address, the log does not have the beginning. valgrind's own file does not belong to
        // the program, and is the only named one if a program has no data by which valgrind recognises it.
        let own = path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(b"lackey-"));
        let start = match bias {
            0 if !own && self.objects.iter().all(|object| object.start > loaded) => 0,
            0 => loaded & !(ALIGNMENT - 1),
            bias if bias > loaded => loaded & !(ALIGNMENT - 1),
            bias => bias,
        };
        let object = LoadedFile { path, start, code: loaded, bias, mapped: true, highest: None };
        let at = self.objects.partition_point(|other| other.start < start);
        match self.objects.get_mut(at) {
            Some(same) if same.start == start => {
                changed |= same.highest.is_some();
                *same = object;
            }
            _ => {
                let before = at.checked_sub(1).and_then(|before| self.objects[before].highest);
                changed |= before.is_some_and(|highest| highest >= start);
                if self.objects.len() >= MOST_OBJECTS {
                    return Err(Error::at_line(
                        line,
                        format!("more than {MOST_OBJECTS} programs and libraries at a time"),
                    ));
                }
                self.objects.insert(at, object);
            }
        }
        Ok(changed)
    }

    /// Unmaps the file with code at this address. True if addresses of earlier blocks now denote something else.
    pub(super) fn discarded(&mut self, code: u64) -> bool {
        let after = self.objects.partition_point(|object| object.start <= code);
        match after.checked_sub(1).map(|at| &mut self.objects[at]) {
            Some(object) if object.code == code => {
                object.mapped = false;
                object.highest.is_some()
            }
            _ => false,
        }
    }

    /// Records that a block at this address was executed.
    pub(super) fn touch(&mut self, address: u64) {
        let after = self.objects.partition_point(|object| object.start <= address);
        if let Some(object) = after.checked_sub(1).map(|at| &mut self.objects[at]) {
            object.highest = object.highest.max(Some(address));
        }
    }

    pub(super) fn at(&self, address: u64) -> ObjectLookup<'_> {
        let after = self.objects.partition_point(|object| object.start <= address);
        match after.checked_sub(1).map(|at| &self.objects[at]) {
            Some(object) if object.mapped => {
                ObjectLookup::Object { path: &object.path, address: address.wrapping_sub(object.bias) }
            }
            _ => ObjectLookup::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(objects: &AddressSpaceFiles, address: u64) -> Option<(String, u64)> {
        match objects.at(address) {
            ObjectLookup::Object { path, address } => {
                Some((String::from_utf8_lossy(path).into_owned(), address))
            }
            ObjectLookup::Nothing => None,
        }
    }

    fn load(objects: &mut AddressSpaceFiles, path: &str, linked: u64, loaded: u64) -> bool {
        objects.named(path.as_bytes());
        objects.loaded(linked, loaded, 1).unwrap()
    }

    #[test]
    fn an_address_belongs_to_the_file_that_begins_last_before_it() {
        let mut objects = AddressSpaceFiles::default();
        // As in valgrind's log: a program at its linked address, the loader, valgrind's own file, a library.
        load(&mut objects, "program", 0x40_1040, 0x40_1040);
        load(&mut objects, "ld.so", 0x1060, 0x400_1060);
        load(&mut objects, "lackey", 0x5800_1000, 0x5800_1000);
        load(&mut objects, "libc", 0x2_6380, 0x486_c380);
        assert_eq!(at(&objects, 0x40_1020), Some(("program".into(), 0x40_1020)));
        assert_eq!(at(&objects, 0x401_ab70), Some(("ld.so".into(), 0x1_ab70)));
        assert_eq!(at(&objects, 0x486_c380), Some(("libc".into(), 0x2_6380)));
        assert_eq!(at(&objects, 0x5807_dbf4), Some(("lackey".into(), 0x5807_dbf4)));
    }

    #[test]
    fn unmapped_ranges_belong_to_no_file_until_mapped_again() {
        let mut objects = AddressSpaceFiles::default();
        load(&mut objects, "ld.so", 0x1000, 0x400_1000);
        load(&mut objects, "libm", 0x1_0230, 0x5a3_d230);
        objects.touch(0x5a4_0000);
        assert!(objects.discarded(0x5a3_d230), "a block ran there");
        assert_eq!(at(&objects, 0x5a4_0000), None);
        assert!(load(&mut objects, "libz", 0x3340, 0x5a3_0340));
        assert_eq!(at(&objects, 0x5a3_0340), Some(("libz".into(), 0x3340)));
        assert!(!objects.discarded(0x5a3_0340), "nothing ran there");
    }

    #[test]
    fn a_process_that_tells_of_no_files_was_forked_with_them() {
        let mut objects = AddressSpaceFiles::default();
        load(&mut objects, "program", 0x1000, 0x10_1000);
        objects.touch(0x10_1000);
        objects.process_started();
        assert!(at(&objects, 0x10_1000).is_some());
        assert!(load(&mut objects, "other", 0x1000, 0x400_1000), "it began anew after all");
        assert_eq!(at(&objects, 0x10_1000), None);
    }
}
