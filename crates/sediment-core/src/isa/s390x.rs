// SPDX-License-Identifier: MIT OR Apache-2.0
//! z/Architecture.

use super::{Beginning, CodeReference, Flow, Isa, StubTarget};

/// z/Architecture.
pub(crate) const S390X: Isa =
    Isa { archs: &["s390x"], flow, stub_step: 2, stub, call_before: Some(call_before), ..Isa::UNKNOWN };

/// Decodes `brasl`, `bras` and `basr`; distances are in halfwords.
fn call_before(before: &[u8], return_address: u64) -> Option<CodeReference> {
    let call = |length: u64, halfwords: i64| {
        CodeReference::Call(return_address.wrapping_sub(length).wrapping_add_signed(2 * halfwords))
    };
    match before {
        [.., 0xc0, second, a, b, c, d] if second & 15 == 5 => {
            Some(call(6, i32::from_be_bytes([*a, *b, *c, *d]).into()))
        }
        [.., 0xa7, second, a, b] if second & 15 == 5 => Some(call(4, i16::from_be_bytes([*a, *b]).into())),
        [.., 0x0d, registers] if registers & 15 != 0 => Some(CodeReference::IndirectCall),
        _ => None,
    }
}

fn flow(code: &[u8]) -> Flow {
    match code {
        [0x07, registers, ..] if registers & 15 == 14 && registers >> 4 != 0 => Flow::Return, // br %r14
        [0x07, registers, ..] if registers & 15 != 0 && registers >> 4 != 0 => Flow::Jump,
        [0xa7 | 0xc0, second, ..] if second & 15 == 4 => Flow::Jump, // brc, brcl
        _ => Flow::Other,
    }
}

/// `larl %r1, …`, `lg %r1, 0(%r1)`, `br %r1`, and instructions for the lazy loader, 32 bytes in all.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    let distance = i32::from_be_bytes(*code.strip_prefix(b"\xc0\x10")?.first_chunk::<4>()?);
    code.get(6..)?.starts_with(b"\xe3\x10\x10\x00\x00\x04\x07\xf1").then_some(())?;
    Some((StubTarget::Slot(address.wrapping_add_signed(2 * i64::from(distance))), 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        let before = |bytes: &[u8]| call_before(bytes, 0x1006);
        assert_eq!(before(&[0xc0, 0xe5, 0, 0, 0, 8]), Some(Call(0x1010)), "brasl %r14");
        assert_eq!(before(&[0, 0xc0, 0xe5, 0xff, 0xff, 0xff, 0xfe]), Some(Call(0xffc)), "brasl %r14");
        assert_eq!(before(&[0xa7, 0xe5, 0, 1]), Some(Call(0x1004)), "bras %r14");
        assert_eq!(before(&[0x0d, 0xe1]), Some(IndirectCall), "basr %r14, %r1");
        assert_eq!(before(&[0x0d, 0xe0]), None, "basr %r14, 0 stays");
        assert_eq!(before(&[0xc0, 0xf4, 0, 0, 0, 8]), None, "jg");
    }
}
