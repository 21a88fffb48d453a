// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64-bit Power.

use super::{CodeReference, Flow, Isa, signed, word};

pub(super) const LITTLE_ENDIAN: Isa = Isa {
    archs: &["ppc64le"],
    flow: |code| word(code).map_or(Flow::Other, flow),
    call_before: Some(|before, address| call(word(before.last_chunk::<4>()?)?, address)),
    ..Isa::UNKNOWN
};

pub(super) const BIG_ENDIAN: Isa = Isa {
    archs: &["ppc64"],
    flow: |code| word(code).map_or(Flow::Other, |word| flow(word.swap_bytes())),
    call_before: Some(|before, address| call(word(before.last_chunk::<4>()?)?.swap_bytes(), address)),
    ..LITTLE_ENDIAN
};

/// Bit of branches that leave a return address.
const LINK: u32 = 1;

/// Decodes `bl`, `bctrl` and `blrl`.
fn call(word: u32, return_address: u64) -> Option<CodeReference> {
    match (word >> 26, word >> 1 & 0x3ff) {
        _ if word & LINK == 0 => None,
        (18, _) => {
            let distance = signed(word & 0x03ff_fffc, 26);
            Some(CodeReference::Call(return_address.wrapping_sub(4).wrapping_add_signed(distance)))
        }
        (19, 16 | 528) => Some(CodeReference::IndirectCall),
        _ => None,
    }
}

fn flow(word: u32) -> Flow {
    if word & LINK != 0 {
        return Flow::Other;
    }
    match (word >> 26, word >> 1 & 0x3ff) {
        (19, 16) => Flow::Return,               // bclr
        (19, 528) | (18 | 16, _) => Flow::Jump, // bcctr; b, bc
        _ => Flow::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        assert_eq!(call(0x4800_0011, 0x1004), Some(Call(0x1010)), "bl");
        assert_eq!(call(0x4bff_fffd, 0x1004), Some(Call(0xffc)), "bl");
        assert_eq!(call(0x4e80_0421, 0x1004), Some(IndirectCall), "bctrl");
        assert_eq!(call(0x4800_0010, 0x1004), None, "b");
        assert_eq!(call(0x429f_0005, 0x1004), None, "bcl 20, 31 reads the address");
    }
}
