// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64-bit Power.

use super::{Flow, Isa, word};

pub(super) const LITTLE_ENDIAN: Isa = Isa {
    archs: &["ppc64le"],
    alignment: 4,
    flow: |code| word(code).map_or(Flow::Other, flow),
    ..Isa::UNKNOWN
};

pub(super) const BIG_ENDIAN: Isa = Isa {
    archs: &["ppc64"],
    flow: |code| word(code).map_or(Flow::Other, |word| flow(word.swap_bytes())),
    ..LITTLE_ENDIAN
};

fn flow(word: u32) -> Flow {
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
