// SPDX-License-Identifier: MIT OR Apache-2.0
//! RISC-V.

use super::{Beginning, CodeReference, Flow, Isa, StubTarget, signed, word};

/// RISC-V with 32 and 64 bits.
pub(crate) const RISCV: Isa =
    Isa { archs: &["riscv64", "riscv32"], flow, stub, call_before: Some(call_before), ..Isa::UNKNOWN };

/// Registers that hold return addresses.
const LINKS: [u32; 2] = [1, 5];

/// Decodes `jal`, `jalr` and `c.jalr`.
fn call_before(before: &[u8], return_address: u64) -> Option<CodeReference> {
    let word = before.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let links = LINKS.contains(&(word >> 7 & 31));
    let bits = |from: u32, count: u32, to: u32| (word >> from & ((1 << count) - 1)) << to;
    match word & 0x7f {
        0x6f if links => {
            let distance = bits(31, 1, 20) | bits(12, 8, 12) | bits(20, 1, 11) | bits(21, 10, 1);
            let target = return_address.wrapping_sub(4).wrapping_add_signed(signed(distance, 21));
            Some(CodeReference::Call(target))
        }
        0x67 if links && word & 0x7000 == 0 => Some(CodeReference::IndirectCall),
        _ => {
            let half = u16::from_le_bytes(*before.last_chunk::<2>()?);
            (half & 0xf07f == 0x9002 && half != 0x9002).then_some(CodeReference::IndirectCall)
        }
    }
}

fn flow(code: &[u8]) -> Flow {
    let Some(half) = code.first_chunk::<2>().map(|half| u32::from(u16::from_le_bytes(*half))) else {
        return Flow::Other;
    };
    let through = |register: u32| if LINKS.contains(&register) { Flow::Return } else { Flow::Jump };
    if half & 3 != 3 {
        return match (half & 0xe003, half & 0xf07f) {
            (_, 0x8002) if half >> 7 & 31 != 0 => through(half >> 7 & 31), // c.jr
            (0xa001 | 0xc001 | 0xe001, _) => Flow::Jump,                   // c.j, c.beqz, c.bnez
            _ => Flow::Other,
        };
    }
    let Some(word) = word(code) else { return Flow::Other };
    match (word & 0x7f, word >> 7 & 31) {
        (0x67, 0) => through(word >> 15 & 31), // jalr x0
        (0x6f, 0) | (0x63, _) => Flow::Jump,   // jal x0; branches
        _ => Flow::Other,
    }
}

/// `auipc t3, …`, `ld t3, …(t3)` (`lw` with 32 bits), `jalr t1, t3`, `nop`.
fn stub(code: &[u8], address: u64, _: u64) -> Beginning<StubTarget> {
    let (upper, load, jump) = (word(code)?, word(code.get(4..)?)?, word(code.get(8..)?)?);
    let wide = match load & 0xf_ffff {
        0xe_3e03 => true,
        0xe_2e03 => false,
        _ => return None,
    };
    if upper & 0xfff != 0xe17 || jump != 0x000e_0367 {
        return None;
    }
    let slot = address
        .wrapping_add_signed(i64::from((upper & 0xffff_f000) as i32))
        .wrapping_add_signed(signed(load >> 20, 12));
    Some((StubTarget::Slot(if wide { slot } else { slot & 0xffff_ffff }), 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        let before = |word: u32| call_before(&word.to_le_bytes(), 0x1004);
        assert_eq!(before(0x0100_00ef), Some(Call(0x1010)), "jal 0x10");
        assert_eq!(before(0xffdf_f0ef), Some(Call(0xffc)), "jal -4");
        assert_eq!(before(0x0000_80e7), Some(IndirectCall), "jalr ra");
        assert_eq!(before(0x9782_0001), Some(IndirectCall), "c.jalr a5");
        assert_eq!(before(0x9002_0001), None, "c.ebreak");
        assert_eq!(before(0x0000_8067), None, "ret");
        assert_eq!(before(0x0100_006f), None, "j");
    }
}
