// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the hot block begins: at a multiple of a page, huge or not, in the dialects that can say it.
//!
//! In the languages of GNU ld an assignment to the location counter, `. = ALIGN(N);`, stands in front of the block's first
//! statement ("Builtin Functions" in its manual). Lists of names have no word for it.

use super::{Linker, Placement};
use crate::error::{Error, ErrorKind, Result};
use crate::escape;

/// The dialects that can.
const CAN: [&str; 2] = ["gnu-ld", "gnu-ld-script"];

/// The text of an ordering file with the first of these functions that it lists at a multiple of `bytes`.
///
/// # Errors
/// When the dialect cannot say it, `bytes` is no power of two, or the text lists none of the functions.
pub fn aligned<'a>(
    linker: &Linker,
    text: &str,
    mut functions: impl Iterator<Item = &'a Placement>,
    bytes: u64,
) -> Result<String> {
    if !CAN.contains(&linker.name) {
        let message = format!("an ordering file for {} lists names alone and cannot align", linker.name);
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("--linker gnu-ld and gnu-ld-script can; lld reads the latter, too: -Wl,-T,FILE"));
    }
    if !bytes.is_power_of_two() {
        return Err(Error::new(ErrorKind::Usage, format!("an alignment is a power of two, not {bytes}")));
    }
    let statement = functions.find_map(|function| {
        let patterns = function.sections.iter().filter_map(|section| escape::gnu_ld(section));
        let places = patterns.filter_map(|pattern| text.find(&format!("*({pattern})\n")));
        places.min()
    });
    let Some(at) = statement else {
        return Err(Error::failed("the order has no hot block that could be aligned"));
    };
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let indent = &text[line..at];
    Ok(format!("{}{indent}. = ALIGN({bytes:#x});\n{}", &text[..line], &text[line..]))
}
