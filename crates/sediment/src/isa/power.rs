// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64-bit Power.

use super::Flow;

pub(super) fn flow(word: u32) -> Flow {
    const LINK: u32 = 1;
    if word & LINK != 0 {
        return Flow::Other;
    }
    match (word >> 26, word >> 1 & 0x3ff) {
        (19, 16) => Flow::Return,               // bclr
        (19, 528) | (18 | 16, _) => Flow::Jump, // bcctr; b, bc
        _ => Flow::Other,
    }
}
