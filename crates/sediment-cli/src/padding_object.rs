// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes objects with one unused function, with which links of a program differ only in their random layout.

use crate::files;
use sediment_core::Result;
use sediment_measure::padding;
use sediment_process::command::observe;
use sediment_process::{Command, Stop};
use std::path::Path;
use std::time::Duration;

/// Makes an object whose function has this number of bytes and is in `section`.
///
/// # Errors
/// If the object cannot be written, or `cc` fails.
pub(crate) fn make(path: &Path, section: &str, bytes: usize, stop: &Stop) -> Result<()> {
    let source = path.with_extension("s");
    files::write_owned(&source, padding::assembly(section, bytes).as_bytes())?;
    let command = Command::new("cc", "/", Duration::from_secs(60))
        .with_arguments(["-c", "-x", "assembler", "-o"])
        .with_arguments([path.as_os_str(), source.as_os_str()])
        .stopped_by(stop);
    observe(&command, 0)?.successful(&command)?;
    Ok(())
}
