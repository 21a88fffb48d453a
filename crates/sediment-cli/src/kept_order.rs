// SPDX-License-Identifier: MIT OR Apache-2.0
//! An older ordering file that a new order keeps to.

use crate::files;
use sediment::order::Older;
use sediment::{Result, link};
use std::path::Path;

/// Reads an older order; `threshold` is the share of gain below which it stays.
pub(crate) fn read(path: &Path, bytes: &[u8], threshold: f64) -> Result<Older> {
    let file = files::display(path);
    let asked = link::read(&String::from_utf8_lossy(bytes)).map_err(|error| error.with_input(file.clone()));
    let names = asked?.1.into_iter().map(|asked| asked.name).collect();
    Ok(Older { file, names, threshold })
}
