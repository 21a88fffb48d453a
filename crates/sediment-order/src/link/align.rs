// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the hot block begins: at a multiple of a page, huge or not, in the dialects that can say it.
//!
//! In the languages of GNU ld an assignment to the location counter, `. = ALIGN(N);`, stands in front of the block's first
//! statement ("Builtin Functions" in its manual). Lists of names have no word for it.

use super::{Linker, Placement, sections};
use sediment_core::error::{Error, ErrorCode, Result};

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
