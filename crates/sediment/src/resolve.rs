// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses to functions, once.

use crate::binary::Files;
use crate::error::{Error, Losses, Result};
use crate::profile::Profile;
use crate::read::Recording;

/// Turns places into functions: symbols are taken apart, addresses looked up in the binaries that `files` has.
///
/// # Errors
/// When nothing of the recording can be resolved, with what was missing.
pub fn resolve(recording: &Recording, files: &dyn Files, ignore_build_id: bool) -> Result<(Profile, Losses)> {
    let _ = (recording, files, ignore_build_id);
    Err(Error::failed("not written"))
}
