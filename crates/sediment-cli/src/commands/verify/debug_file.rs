// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two files after they are stripped to separate debug files, as in packages of distributions.

use crate::files::{self, TemporaryFolder};
use sediment_core::Result;
use sediment_core::binary::{Binary, Files, SymbolSource, build_id, debug_link_checksum};
use sediment_order::verify::same::Check;
use sediment_process::command::{Command, run};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Name of this check.
pub(super) const WHAT: &str = "stripped, with a separate debug file";

const TIMEOUT: Duration = Duration::from_secs(120);

/// Result of stripping one file.
struct Apart {
    /// Number of functions of the stripped file that are found through its debug link.
    functions: Option<usize>,
    /// Number of functions of the linked file.
    linked: usize,
    same_build_id: bool,
}

/// Strips both files in separate folders and compares the results.
pub(super) fn compare(base: &Path, other: &Path) -> Result<Check> {
    let base = apart(base)?;
    let other = apart(other);
    let in_words = |found: &Apart| {
        let functions = match found.functions {
            Some(count) => format!("{count} of {} functions found through the debug link", found.linked),
            None => "no functions found through the debug link".to_owned(),
        };
        functions + if found.same_build_id { "" } else { ", which has another build-id" }
    };
    Ok(Check {
        what: WHAT,
        same: other.as_ref().is_ok_and(|other| in_words(other) == in_words(&base)),
        base: in_words(&base),
        other: other.as_ref().map_or_else(ToString::to_string, in_words),
    })
}

fn apart(file: &Path) -> Result<Apart> {
    let folder = TemporaryFolder::new()?;
    let linked = files::read(file)?;
    let path = |name: &str| folder.path().join(name);
    folder.write("linked", &linked)?;
    let tool = |name: &str, arguments: &[&str]| -> Result<()> {
        let command =
            Command::new(name, folder.path(), TIMEOUT).with_arguments(arguments.iter().map(OsStr::new));
        run(&command, 0)?.successful(&command)?;
        Ok(())
    };
    tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"])?;
    tool("strip", &["--strip-all", "-o", "stripped", "linked"])?;
    tool("objcopy", &["--add-gnu-debuglink=linked.debug", "stripped"])?;
    let debug = files::read(&path("linked.debug"))?;
    let stripped = files::read(&path("stripped"))?;
    let found = Binary::parse(&stripped, &ByLink(&debug))?;
    Ok(Apart {
        functions: (found.symbols_from == SymbolSource::DebugFile).then_some(found.functions.len()),
        linked: Binary::parse(&linked, &ByLink(&debug))?.functions.len(),
        same_build_id: build_id(&debug) == build_id(&stripped) && build_id(&debug) == build_id(&linked),
    })
}

/// A debug file that is found only by its debug link.
struct ByLink<'a>(&'a [u8]);

impl Files for ByLink<'_> {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, name: &[u8], crc: u32) -> Option<Vec<u8>> {
        (name == b"linked.debug" && debug_link_checksum(self.0) == crc).then(|| self.0.to_vec())
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}
