// SPDX-License-Identifier: MIT OR Apache-2.0
//! A32.

use super::{Beginning, Isa, StubTarget, word};

/// A32, with the stubs that Thumb code enters.
pub(crate) const ARM: Isa = Isa { alignment: 2, stub, ..Isa::UNKNOWN };

/// `[bx pc; nop]` for callers in Thumb code, `add ip, pc, …`, one or two `add ip, ip, …`, `ldr pc, [ip, …]!`.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    const FROM_THUMB: &[u8] = b"\x78\x47\xc0\x46";
    let immediate = |word: u32| (word & 0xff).rotate_right((word >> 8 & 0xf) * 2);
    let start = if code.starts_with(FROM_THUMB) { 4 } else { 0 };
    let first = word(code.get(start..)?)?;
    if first & 0xffff_f000 != 0xe28f_c000 {
        return None;
    }
    // The program counter reads as two instructions ahead.
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
