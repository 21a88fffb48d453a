// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that are not where other code expects them, so that the linked file may crash.

use super::{LinkedFile, objects};
use crate::inputs::read_binary_below;
use crate::ui::Ui;
use sediment_core::binary::objects::InputObjects;
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::verify::ranges::{self, DisplacedFunction, RequiredPlace};

/// Returns the functions of a linked file that are not where other code expects them. Reads the objects of the link if
/// the file has labels that mark ranges, or functions that run on into others.
pub(super) fn displaced(place: LinkedFile<'_>) -> Result<Vec<DisplacedFunction>> {
    let binary = read_binary_below(place.root, place.path)?;
    let objects = match place.objects {
        _ if binary.label_ranges.is_empty() && binary.fixed.is_empty() => InputObjects::default(),
        Some(folder) => objects::below(folder)?,
        None => objects::beside(place.path),
    };
    Ok(ranges::displaced(&binary, &objects))
}

/// Prints an error for each kind of displaced function; true if there are any.
pub(super) fn tell(displaced: &[DisplacedFunction], file_name: &str, ui: &Ui) -> bool {
    let mut left: Vec<&DisplacedFunction> = displaced.iter().collect();
    while let [first, ..] = left[..] {
        let (same, others): (Vec<&DisplacedFunction>, Vec<&DisplacedFunction>) =
            left.into_iter().partition(|function| function.place == first.place);
        ui.error(&at_risk(file_name, first, same.len()));
        left = others;
    }
    !displaced.is_empty()
}

fn at_risk(file_name: &str, example: &DisplacedFunction, count: usize) -> Error {
    let (functions, name) = (counted(count, "function"), &example.name);
    let lie = if count == 1 { "lies" } else { "lie" };
    let (what, hint) = match &example.place {
        RequiredPlace::OcamlUnit => (
            format!(
                "{functions} of OCaml {lie} outside of the address range of their unit, for example {name}"
            ),
            "remove the functions of OCaml from the order: sediment order leaves them out",
        ),
        RequiredPlace::Between { begin, end } => (
            format!("{functions} {lie} outside of the range from {begin} to {end}, for example {name}"),
            "remove the functions between these labels from the order: sediment order leaves them out",
        ),
        RequiredPlace::Behind(before) => (
            format!("{before} runs on into {name}, which does not follow it"),
            "remove both functions from the order: sediment order leaves them out",
        ),
    };
    Error::new(ErrorCode::BelowThreshold, format!("{file_name} may crash: {what}")).with_hint(hint)
}
