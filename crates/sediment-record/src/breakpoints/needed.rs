// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the libraries that a program needs before the dynamic linker maps them. They are read in advance, so that the
//! program does not have to stop for them.
//!
//! It is only a guess: a library read in vain costs time, and a library not found is read when it is mapped.

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use std::path::{Path, PathBuf};

/// Folders that the dynamic linker searches, in addition to the folders of the libraries that the recorder itself has
/// loaded.
const USUAL: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Returns the paths of the libraries that a file names. Searches the file's own folders first, then `folders`. Skips
/// names without a file.
pub(super) fn libraries(bytes: &[u8], path: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
    let Some((names, own)) = names(bytes) else { return Vec::new() };
    let here = path.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let own = own.iter().flat_map(|folders| folders.split(':'));
    let own = own.map(|folder| folder.replace("${ORIGIN}", &here).replace("$ORIGIN", &here));
    let own: Vec<PathBuf> = own.map(PathBuf::from).filter(|folder| folder.is_absolute()).collect();
    let usual = USUAL.iter().map(PathBuf::from);
    let all: Vec<PathBuf> = own.into_iter().chain(folders.iter().cloned()).chain(usual).collect();
    let find = |name: &String| all.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    names.iter().filter(|name| !name.contains('/')).filter_map(find).collect()
}

/// Names of the libraries that a file needs.
pub(super) fn names_of(bytes: &[u8]) -> Vec<String> {
    names(bytes).map(|(names, _)| names).unwrap_or_default()
}

/// Reads DT_NEEDED, and the folders of DT_RPATH and DT_RUNPATH.
fn names(bytes: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for entry in entries {
        let text = || {
            let text = strings.get(u32::try_from(entry.d_val(endian)).ok()?).ok()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        match entry.d_tag(endian) {
            DT_NEEDED => names.extend(text()),
            DT_RPATH | DT_RUNPATH => folders.extend(text()),
            _ => {}
        }
    }
    Some((names, folders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_found() {
        // This test is linked with the C library, as is every program with Rust's standard library for GNU systems.
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let (names, _) = names(&bytes).unwrap();
        assert!(names.iter().any(|name| name.starts_with("libc.so")), "{names:?}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libc.so.6"), "").unwrap();
        let found = libraries(&bytes, &own, &[folder.path().to_path_buf()]);
        assert!(found.contains(&folder.path().join("libc.so.6")), "{found:?}");
        assert!(libraries(b"#!/bin/sh\n", &own, &[]).is_empty());
        assert!(libraries(&bytes[..100], &own, &[]).is_empty());
    }
}
