// SPDX-License-Identifier: MIT OR Apache-2.0
//! z/Architecture.

use super::{Beginning, Flow, Isa, StubTarget};

/// z/Architecture.
pub(crate) const S390X: Isa =
    Isa { archs: &["s390x"], alignment: 2, flow, stub_step: 2, stub, ..Isa::UNKNOWN };

fn flow(code: &[u8]) -> Flow {
    match code {
        [0x07, registers, ..] if registers & 15 == 14 && registers >> 4 != 0 => Flow::Return, // br %r14
        [0x07, registers, ..] if registers & 15 != 0 && registers >> 4 != 0 => Flow::Jump,
        [0xa7 | 0xc0, second, ..] if second & 15 == 4 => Flow::Jump, // brc, brcl
        _ => Flow::Other,
    }
}

/// `larl %r1, …`, `lg %r1, 0(%r1)`, `br %r1`, and what the lazy loader needs, 32 bytes in all.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    let distance = i32::from_be_bytes(*code.strip_prefix(b"\xc0\x10")?.first_chunk::<4>()?);
    code.get(6..)?.starts_with(b"\xe3\x10\x10\x00\x00\x04\x07\xf1").then_some(())?;
    Some((StubTarget::Slot(address.wrapping_add_signed(2 * i64::from(distance))), 32))
}
