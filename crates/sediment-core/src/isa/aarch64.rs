// SPDX-License-Identifier: MIT OR Apache-2.0
//! A64.

use super::{Beginning, Believed, CodeReference, Flow, Isa, StubTarget, signed, word};

/// A64. Instructions are little-endian even on systems with big-endian data.
pub const AARCH64: Isa = Isa {
    archs: &["aarch64", "aarch64_be"],

    landing_pad: &[0x5f, 0x24, 0x03, 0xd5], // bti c
    flow,
    stub,
    each_reference: Some(each_reference),
    call_before: Some(call_before),
    begins_with_code,
    straight,
    instruction: |code| word(code).map(|_| 4),
    ends,
    ..Isa::UNKNOWN
};

/// Decodes `b` and `bl`: 26 bits have the distance in instructions.
fn branch(word: u32, address: u64) -> Option<CodeReference> {
    let target = address.wrapping_add_signed(4 * signed(word, 26));
    match word >> 26 {
        0b00_0101 => Some(CodeReference::Jump(target)),
        0b10_0101 => Some(CodeReference::Call(target)),
        _ => None,
    }
}

/// Returns the target of `b`, `b.cond`, `bc.cond`, `cbz`, `cbnz`, `tbz` and `tbnz`.
fn jump(code: &[u8], address: u64) -> Option<u64> {
    let word = word(code)?;
    if let Some(CodeReference::Jump(target)) = branch(word, address) {
        return Some(target);
    }
    let is_conditional = word & 0xff00_0000 == 0x5400_0000;
    let distance = match word & 0x7e00_0000 {
        0x3400_0000 => signed(word >> 5, 19),
        0x3600_0000 => signed(word >> 5, 14),
        _ if is_conditional => signed(word >> 5, 19),
        _ => return None,
    };
    Some(address.wrapping_add_signed(4 * distance))
}

fn ends(code: &[u8]) -> bool {
    word(code).is_none_or(|word| {
        let jumps = matches!(branch(word, 0), Some(CodeReference::Jump(_)));
        jumps || matches!(through_register(word), Some(0 | 2)) || !begins_with_code(code)
    })
}

/// Kind of a branch to an address in a register, authenticated or not: `br` 0, `blr` 1, `ret` 2.
fn through_register(word: u32) -> Option<u32> {
    let plain = word & 0xff9f_fc1f == 0xd61f_0000;
    // Authenticating branches take a modifier from a register, or none; returns take none.
    let authenticated = word & 0xfe9f_f800 == 0xd61f_0800;
    (plain || authenticated).then_some(word >> 21 & 3)
}

fn each_reference(code: &[u8], start: u64, believed: &mut Believed) {
    for (index, bytes) in code.chunks_exact(4).enumerate() {
        let address = start.wrapping_add(4 * index as u64);
        if let Some(reference) = word(bytes).and_then(|word| branch(word, address)) {
            believed(address, reference);
        }
    }
}

fn call_before(before: &[u8], return_address: u64) -> Option<CodeReference> {
    let word = word(before.last_chunk::<4>()?)?;
    match branch(word, return_address.wrapping_sub(4)) {
        Some(CodeReference::Jump(_)) => None,
        None if through_register(word) == Some(1) => Some(CodeReference::IndirectCall),
        call => call,
    }
}

/// False for invalid encodings and for breakpoint instructions.
fn begins_with_code(function: &[u8]) -> bool {
    // Bits 28 to 25 are zero: reserved, or SVE if the bits above them are not all zero.
    word(function).is_some_and(|word| word >> 25 & 0xf != 0 && word & 0xffe0_001f != 0xd420_0000)
}

fn straight(code: &[u8], most: usize) -> usize {
    let is_call = |code: &[u8]| {
        word(code).is_some_and(|word| {
            matches!(branch(word, 0), Some(CodeReference::Call(_))) || through_register(word) == Some(1)
        })
    };
    let words = code.chunks_exact(4).take(most);
    let before = words.take_while(|word| flow(word) == Flow::Other && !is_call(word)).count();
    (4 * (before + 1).min(most)).min(code.len())
}

fn flow(code: &[u8]) -> Flow {
    match word(code).and_then(through_register) {
        Some(2) => Flow::Return,
        Some(0) => Flow::Jump,
        _ if jump(code, 0).is_some() => Flow::Jump,
        _ => Flow::Other,
    }
}

/// `[bti c]`, `adrp x16`, `ldr x17, [x16, …]`, then `br x17` up to three instructions later.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    const JUMP: u32 = 0xd61f_0220;
    let pad = if code.starts_with(AARCH64.landing_pad) { 4 } else { 0 };
    let (page, load) = (word(code.get(pad..)?)?, word(code.get(pad + 4..)?)?);
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = signed((page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3, 21) << 12;
    let base = (address.wrapping_add(pad as u64) & !0xfff).wrapping_add_signed(pages);
    let slot = base.wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
    let jump = (2..6).find(|nth| code.get(pad + 4 * nth..).and_then(word) == Some(JUMP))?;
    Some((StubTarget::Slot(slot), pad + 4 * (jump + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        let before = |word: u32| call_before(&word.to_le_bytes(), 0x1004);
        assert_eq!(before(0x9400_0002), Some(Call(0x1008)));
        assert_eq!(before(0x97ff_ffff), Some(Call(0xffc)));
        assert_eq!(before(0xd63f_0060), Some(IndirectCall), "blr x3");
        assert_eq!(before(0xd73f_0862), Some(IndirectCall), "blraa x3, x2");
        assert_eq!(before(0xd65f_03c0), None, "ret");
        assert_eq!(before(0x1400_0001), None, "b");
    }

    #[test]
    fn traps_and_reserved_words_are_no_code() {
        for (word, code) in [(0xd503_233fu32, true), (0xa9bf_7bfd, true), (0, false), (0xd420_0000, false)] {
            assert_eq!(begins_with_code(&word.to_le_bytes()), code, "{word:08x}");
        }
        assert!(!begins_with_code(&[0x3f, 0x23]));
    }
}
