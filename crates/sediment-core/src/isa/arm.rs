// SPDX-License-Identifier: MIT OR Apache-2.0
//! A32 and T32.

use super::{Beginning, CodeReference, Isa, StubTarget, signed, word};

/// A32, with the stubs that Thumb code calls.
pub(crate) const ARM: Isa =
    Isa { archs: &["armv7l", "armv7b"], stub, call_before: Some(call_before), ..Isa::UNKNOWN };

/// Decodes `bl` and `blx` of both instruction sets.
fn call_before(before: &[u8], return_address: u64) -> Option<CodeReference> {
    use CodeReference::{Call, IndirectCall};
    let word = before.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let half = u16::from_le_bytes(*before.last_chunk::<2>()?);
    let always = word >> 28 == 0xf;
    match word {
        _ if half & 0xff87 == 0x4780 || word & 0x0fff_fff0 == 0x012f_ff30 => Some(IndirectCall),
        // T32: two halfwords; the first one has the upper bits.
        _ if word & 0xf800 == 0xf000 && word & 0xc000_0000 == 0xc000_0000 => {
            let bit = |at: u32| word >> at & 1;
            let sign = bit(10);
            let upper = [sign, 1 ^ bit(29) ^ sign, 1 ^ bit(27) ^ sign];
            let upper = upper.into_iter().fold(0, |sum, bit| sum << 1 | bit);
            let distance = signed(upper << 22 | (word & 0x3ff) << 12 | (word >> 16 & 0x7ff) << 1, 25);
            let target = return_address.wrapping_add_signed(distance);
            Some(Call(if bit(28) == 1 { target } else { target & !3 }))
        }
        _ if word >> 24 & 0xf == 0xb && !always || word >> 25 == 0x7d => {
            // The program counter reads as two instructions after the call.
            let half = if always { i64::from(word >> 23 & 2) } else { 0 };
            Some(Call(return_address.wrapping_add(4).wrapping_add_signed(4 * signed(word, 24) + half)))
        }
        _ => None,
    }
}

/// `[bx pc; nop]` for callers in Thumb code, `add ip, pc, …`, one or two `add ip, ip, …`, `ldr pc, [ip, …]!`.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    const FROM_THUMB: &[u8] = b"\x78\x47\xc0\x46";
    let immediate = |word: u32| (word & 0xff).rotate_right((word >> 8 & 0xf) * 2);
    let start = if code.starts_with(FROM_THUMB) { 4 } else { 0 };
    let first = word(code.get(start..)?)?;
    if first & 0xffff_f000 != 0xe28f_c000 {
        return None;
    }
    // The program counter reads as two instructions after this one.
    let mut slot = (address as u32).wrapping_add(start as u32 + 8).wrapping_add(immediate(first));
    for nth in 1..4 {
        let word = word(code.get(start + 4 * nth..)?)?;
        match word & 0xffff_f000 {
            0xe28c_c000 => slot = slot.wrapping_add(immediate(word)),
            0xe5bc_f000 => {
                let slot = u64::from(slot.wrapping_add(word & 0xfff));
                return Some((StubTarget::Slot(slot), start + 4 * (nth + 1)));
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        let before = |bytes: [u8; 4]| call_before(&bytes, 0x1004);
        let word = |word: u32| before(word.to_le_bytes());
        assert_eq!(word(0xeb00_0002), Some(Call(0x1010)), "bl");
        assert_eq!(word(0x0bff_ffff), Some(Call(0x1004)), "bleq");
        assert_eq!(word(0xfb00_0002), Some(Call(0x1012)), "blx");
        assert_eq!(word(0xe12f_ff33), Some(IndirectCall), "blx r3");
        assert_eq!(word(0xea00_0002), None, "b");
        // The first halfword, then the second.
        let halves = |first: u16, second: u16| word(u32::from(second) << 16 | u32::from(first));
        assert_eq!(halves(0xf000, 0xf806), Some(Call(0x1010)), "bl");
        assert_eq!(halves(0xf7ff, 0xfffc), Some(Call(0xffc)), "bl");
        assert_eq!(halves(0xf000, 0xe806), Some(Call(0x1010)), "blx");
        assert_eq!(halves(0xbf00, 0x4798), Some(IndirectCall), "blx r3");
        assert_eq!(halves(0xf000, 0xb806), None, "b.w");
    }
}
