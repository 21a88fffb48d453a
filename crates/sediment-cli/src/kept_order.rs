// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads an older ordering file from which a new order should differ little.

use crate::files;
use sediment_core::Result;
use sediment_order::link;
use sediment_order::order::Older;
use std::path::Path;

/// Reads an older order; `threshold` is the gain below which it stays. `None` for an order without functions: there is
/// nothing to keep.
pub(crate) fn read(path: &Path, bytes: &[u8], threshold: f64) -> Result<Option<Older>> {
    let file = files::display(path);
    let text = String::from_utf8_lossy(bytes);
    if link::lists_no_function(&text) {
        return Ok(None);
    }
    let (_, asked) = link::read(&text).map_err(|error| error.with_input(file.clone()))?;
    let names = asked.into_iter().map(|asked| asked.name).collect();
    Ok(Some(Older { file, names, threshold }))
}
