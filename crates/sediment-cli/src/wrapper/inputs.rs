// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the inputs of a link that the linker can read again.

use crate::files;
use sediment_core::binary::objects::{ArchiveUse, InputObjects};
use sediment_order::wrapper::command_line::{LinkInput, LinkLine};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Largest number of bytes read from one input, and from all inputs of a link.
const LARGEST_INPUT: u64 = 2 << 30;
const LARGEST_INPUTS: u64 = 16 << 30;

/// Finds an argument that names a pipe, a socket or a device. Reading consumes it, so it is left for the linker.
pub(super) fn read_once(line: &LinkLine) -> Option<PathBuf> {
    let inputs = line.inputs.iter().filter_map(|input| match input {
        LinkInput::Path(path) => Some(path),
        LinkInput::Library(_) => None,
    });
    let named = inputs.chain(&line.values).map(Path::new);
    let is_read_once = |path: &&Path| std::fs::metadata(path).is_ok_and(|found| is_read_once(&found));
    named.into_iter().find(is_read_once).map(Path::to_path_buf)
}

/// True if reading consumes it. /dev/null stays empty.
pub(super) fn is_read_once(found: &Metadata) -> bool {
    let kind = found.file_type();
    let is_null = || std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev());
    kind.is_fifo() || kind.is_socket() || kind.is_block_device() || (kind.is_char_device() && !is_null())
}

/// Collects the linked functions from the files that can be read.
pub(super) fn read(line: &LinkLine) -> InputObjects {
    let lto = line.plugin.is_some();
    let mut objects = InputObjects::default();
    let mut left = LARGEST_INPUTS;
    for symbol in &line.required {
        objects.require(symbol.as_bytes());
    }
    for (position, input) in line.inputs.iter().enumerate() {
        let Some(path) = path_of(input, line) else { continue };
        if files::base_name(&path).split('.').any(|part| part == "so") {
            continue;
        }
        match files::read_at_most(&path, LARGEST_INPUT.min(left)) {
            Ok(bytes) => {
                left -= bytes.len() as u64;
                let folder = path.parent().unwrap_or(Path::new(""));
                let member = |name: &str| files::read_at_most(&folder.join(name), LARGEST_INPUT).ok();
                let archive_use = match line.whole.contains(&position) {
                    true => ArchiveUse::Whole,
                    false => ArchiveUse::Needed,
                };
                objects.add_with_members(&path.to_string_lossy(), &bytes, lto, archive_use, &member);
            }
            Err(_) => objects.unknown += 1,
        }
    }
    objects
}

/// Path of an input; None for a shared library, which has no functions to place.
fn path_of(input: &LinkInput, line: &LinkLine) -> Option<PathBuf> {
    let name = match input {
        LinkInput::Path(path) => return Some(PathBuf::from(path)),
        LinkInput::Library(name) => name,
    };
    let file = |ending: &str| match name.as_bytes().strip_prefix(b":") {
        Some(exact) => OsStr::from_bytes(exact).to_owned(),
        None => {
            let mut file = OsString::from("lib");
            file.push(name);
            file.push(ending);
            file
        }
    };
    for folder in &line.search {
        let shared = Path::new(folder).join(file(".so"));
        if !line.prefers_archives && shared.is_file() {
            return None;
        }
        let archive = Path::new(folder).join(file(".a"));
        if archive.is_file() {
            return Some(archive);
        }
    }
    None
}
