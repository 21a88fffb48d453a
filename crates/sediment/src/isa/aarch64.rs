// SPDX-License-Identifier: MIT OR Apache-2.0
//! A64.

use super::{Before, Flow, signed, words};

/// Whether a function of these bytes (or the first of them) begins with code: not with one of the encodings that are no
/// instruction, nor with a trap.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(crate) fn begins_with_code(function: &[u8]) -> bool {
    let Some(word) = function.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return false;
    };
    // Bits 28 to 25 zero: reserved, and SVE's where not all are zero above.
    word >> 25 & 0xf != 0 && word & 0xffe0_001f != 0xd420_0000
}

/// Bytes of the whole instructions among the first `most` bytes of this code; None if not all are instructions.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(crate) fn whole_instructions(code: &[u8], most: usize) -> Option<usize> {
    (most <= code.len()).then_some(most & !3)
}

/// What ends at `return_address`, of which `before` are the bytes before it.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
pub(crate) fn before_return_address(before: &[u8], return_address: u64) -> Before {
    let Some(word) = before.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return Before::NoCall;
    };
    if word >> 26 == 0b10_0101 {
        let distance = i64::from((word << 6) as i32 >> 6) * 4;
        return Before::CallOf(return_address.wrapping_sub(4).wrapping_add_signed(distance));
    }
    // blr, and its forms that authenticate the address.
    if word & 0xfeff_f800 == 0xd63f_0800 || word & 0xffff_fc1f == 0xd63f_0000 {
        return Before::IndirectCall;
    }
    Before::NoCall
}

pub(super) fn flow(word: u32) -> Flow {
    // ret, with any register; retaa, retab.
    if word & 0xffff_fc1f == 0xd65f_0000 || matches!(word, 0xd65f_0bff | 0xd65f_0fff) {
        return Flow::Return;
    }
    let jump = word & 0xfc00_0000 == 0x1400_0000 // b
        || word & 0xffff_fc1f == 0xd61f_0000 // br
        || word & 0xfeff_f800 == 0xd61f_0800 // braa and its kin
        || word & 0xff00_0000 == 0x5400_0000 // b.cond, bc.cond
        || word & 0x7c00_0000 == 0x3400_0000; // cbz, cbnz, tbz, tbnz
    if jump { Flow::Jump } else { Flow::Other }
}

/// `[bti c]`, `adrp x16`, `ldr x17, [x16, …]`, and on to `br x17`, up to three instructions later.
pub(crate) fn stub(address: u64, code: &[u8]) -> Option<(u64, usize)> {
    const LANDING_PAD: u32 = 0xd503_245f;
    const JUMP: u32 = 0xd61f_0220;
    let pad = if words::<1>(code)? == [LANDING_PAD] { 4 } else { 0 };
    let [page, load] = words::<2>(code.get(pad..)?)?;
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = signed((page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3, 21) << 12;
    let base = (address.wrapping_add(pad as u64) & !0xfff).wrapping_add_signed(pages);
    let slot = base.wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
    let jump = (2..6)
        .find(|nth| code.get(pad + 4 * nth..).and_then(words::<1>).is_some_and(|word| word == [JUMP]))?;
    Some((slot, pad + 4 * (jump + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        let before = |word: u32| before_return_address(&word.to_le_bytes(), 0x1004);
        assert_eq!(before(0x9400_0002), Before::CallOf(0x1008));
        assert_eq!(before(0x97ff_ffff), Before::CallOf(0xffc));
        assert_eq!(before(0xd63f_0060), Before::IndirectCall, "blr x3");
        assert_eq!(before(0xd73f_0862), Before::IndirectCall, "blraa x3, x2");
        assert_eq!(before(0xd65f_03c0), Before::NoCall, "ret");
        assert_eq!(before(0x1400_0001), Before::NoCall, "b");
    }

    #[test]
    fn traps_and_reserved_words_are_no_code() {
        for (word, code) in [(0xd503_233fu32, true), (0xa9bf_7bfd, true), (0, false), (0xd420_0000, false)] {
            assert_eq!(begins_with_code(&word.to_le_bytes()), code, "{word:08x}");
        }
        assert!(!begins_with_code(&[0x3f, 0x23]));
    }
}
