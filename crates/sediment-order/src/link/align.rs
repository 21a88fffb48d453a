// SPDX-License-Identifier: MIT OR Apache-2.0
//! Aligns the beginning of the hot block to a page or huge page, in the dialects that support it.
//!
//! In the languages of GNU ld, an assignment to the location counter, `. = ALIGN(N);`, comes before the block's first
//! statement ("Builtin Functions" in its manual). Lists of names cannot express it.

use super::{Linker, Placement, sections};
use sediment_core::error::{Error, ErrorCode, Result};

/// The dialects that support it.
const CAN: [&str; 2] = ["gnu-ld", "gnu-ld-script"];

/// Returns the text of an ordering file in which the first listed one of these functions is at a multiple of `bytes`.
///
/// # Errors
/// If the dialect does not support it, `bytes` is not a power of two, or the text lists none of the functions.
pub fn aligned<'a>(
    linker: &Linker,
    text: &str,
    mut functions: impl Iterator<Item = &'a Placement>,
    bytes: u64,
) -> Result<String> {
    if !CAN.contains(&linker.name) {
        let message = format!("ordering files for {} list names only and cannot align", linker.name);
        return Err(Error::new(ErrorCode::Usage, message)
            .with_hint("use --linker gnu-ld or gnu-ld-script; lld reads gnu-ld-script too: -Wl,-T,FILE"));
    }
    if !bytes.is_power_of_two() {
        return Err(Error::new(ErrorCode::Usage, format!("the alignment {bytes} is not a power of two")));
    }
    let begins = |wanted: &str| {
        let lines = text.split_inclusive('\n').scan(0, |start, line| {
            *start += line.len();
            Some((*start - line.len(), line))
        });
        lines.filter(|(_, line)| line.trim() == wanted).map(|(start, _)| start).next()
    };
    let statement = functions.find_map(|function| {
        let statements = sections::statements_of(&function.sections, &function.files).unwrap_or_default();
        statements.iter().filter_map(|statement| begins(statement)).min()
    });
    let Some(at) = statement else {
        return Err(Error::new(ErrorCode::EmptyInput, "the order has no hot functions to align"));
    };
    let indent: String = text[at..].chars().take_while(|c| *c == ' ').collect();
    Ok(format!("{}{indent}. = ALIGN({bytes:#x});\n{}", &text[..at], &text[at..]))
}
