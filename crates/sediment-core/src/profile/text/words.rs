// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that are allowed in attributes of version 2.

use crate::profile::blocks::BlockUnit;
use crate::profile::{CallKind, Heat, WeightUnit};

/// Values with their spelling in a file.
pub(in crate::profile) type Spellings<T, const N: usize> = [(T, &'static str); N];

pub(in crate::profile) const UNITS: Spellings<WeightUnit, 2> =
    [(WeightUnit::Calls, "calls"), (WeightUnit::Share, "share")];
pub(in crate::profile) const BLOCK_UNITS: Spellings<BlockUnit, 2> =
    [(BlockUnit::Executions, "executions"), (BlockUnit::Samples, "samples")];
pub(in crate::profile) const HEATS: Spellings<Heat, 4> =
    [(Heat::Hot, "hot"), (Heat::Startup, "startup"), (Heat::Exit, "exit"), (Heat::Cold, "cold")];
pub(in crate::profile) const KINDS: Spellings<CallKind, 4> = [
    (CallKind::Direct, "direct"),
    (CallKind::Indirect, "indirect"),
    (CallKind::Thunk, "thunk"),
    (CallKind::Uncertain, "uncertain"),
];

/// Spelling of a value.
pub(in crate::profile) fn spelling<T: PartialEq, const N: usize>(
    words: &Spellings<T, N>,
    value: T,
) -> &'static str {
    words.iter().find(|(known, _)| *known == value).map_or("", |(_, spelling)| spelling)
}

/// Returns the value with this spelling, or an error message.
pub(in crate::profile) fn value<T: Copy, const N: usize>(
    words: &Spellings<T, N>,
    attribute: &str,
    text: &[u8],
) -> Result<T, String> {
    let found = words.iter().find(|(_, spelling)| spelling.as_bytes() == text);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(_, spelling)| *spelling).collect();
        format!("`{attribute}` must be one of {}", known.join(", "))
    })
}
