// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code of one trampoline, for x86-64.
//!
//! ```text
//!         lea  rsp, [rsp - 128]      keeps the red zone of the caller
//!         push rcx
//!         movzx ecx, byte [seen]
//!         jrcxz first                changes no flags
//! done:   pop  rcx
//!         lea  rsp, [rsp + 128]
//!         the function's first instructions
//!         jmp  to the next instruction
//! first:  lea  rcx, [done]; push rcx; push id; jmp writer
//!
//! writer: pushfq; push rax           for all trampolines of an area: seen[id] = 1; index = number++;
//!         …                          log[index] = return address, id
//!         pop rax; popfq; lea rsp, [rsp + 16]; jmp [rsp - 8]
//! ```
//!
//! When the function's instructions begin, every register and flag has its former value, and so has all memory that the
//! program may use.

use sediment_core::isa::Detour;

/// Bytes of a record in the log: the id of a trampoline from 1 on, and the return address.
pub(super) const RECORD: u64 = 16;

/// First byte of every trampoline: of `lea rsp, [rsp - 128]`.
pub(super) const FIRST: [u8; 1] = [0x48];
/// `nop`.
pub(super) const NOTHING: [u8; 1] = [0x90];
/// Number of bytes before the function's own instructions.
pub(super) const OWN: u64 = DONE + 9;
/// Number of bytes before `done`.
const DONE: u64 = 15;

/// Addresses to which trampolines write, as the program sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct StubTargets {
    /// Bytes by id: whether the function has run.
    pub(super) seen: u64,
    /// Number of records.
    pub(super) number: u64,
    /// Records, and the number of records that fit.
    pub(super) log: u64,
    pub(super) most: u32,
}

/// Instructions that a trampoline executes in place of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisplacedCode<'a> {
    /// Their bytes.
    pub(super) code: &'a [u8],
    /// Address of the first instruction.
    pub(super) address: u64,
    /// True if the function does not go on after them.
    pub(super) ends: bool,
    /// True if they have the same bytes at any address.
    pub(super) plain: bool,
}

/// Appends the trampoline at this address, which writes this id (from 1 on) with the writer at another address. Returns
/// `None` if an address is too far away.
pub(super) fn stub(
    out: &mut Vec<u8>,
    address: u64,
    (id, seen, writer): (u32, u64, u64),
    displaced: DisplacedCode<'_>,
    detour: &Detour,
) -> Option<()> {
    let mut code = Assembler::at(address, out);
    code.put(&[0x48, 0x8d, 0x64, 0x24, 0x80]); // lea rsp, [rsp - 128]
    code.put(&[0x51]); // push rcx
    code.relative(&[0x0f, 0xb6, 0x0d], seen + u64::from(id), &[])?; // movzx ecx, byte [seen]
    code.put(&[0xe3, 0]); // jrcxz first
    let to_first = code.out.len();
    code.put(&[0x59]); // pop rcx
    code.put(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp + 128]
    if displaced.plain {
        code.out.extend_from_slice(displaced.code);
    } else {
        let here = code.here();
        (detour.moved)(displaced.code, displaced.address, here, code.out)?;
    }
    if !displaced.ends {
        let behind = displaced.address.wrapping_add(displaced.code.len() as u64);
        code.put(&(detour.jump)(code.here(), behind)?);
    }
    let first = code.out.len();
    code.out[to_first - 1] = i8::try_from(first - to_first).ok()? as u8;
    code.relative(&[0x48, 0x8d, 0x0d], address.wrapping_add(DONE), &[])?; // lea rcx, [done]
    code.put(&[0x51]); // push rcx
    code.put(&[0x68]); // push id
    code.put(&id.to_le_bytes());
    code.put(&(detour.jump)(code.here(), writer)?);
    Some(())
}

/// Returns code that writes for all trampolines near this address; `None` if an address is too far away.
pub(super) fn writer(address: u64, written: StubTargets) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut code = Assembler::at(address, &mut bytes);
    code.put(&[0x9c, 0x50]); // pushfq; push rax
    // Above rsp: rax, flags, id, where to go on, rcx, the red zone, the return address.
    code.put(&[0x48, 0x8b, 0x4c, 0x24, 0x10]); // mov rcx, [rsp + 16]
    code.relative(&[0x48, 0x8d, 0x05], written.seen, &[])?; // lea rax, [seen]
    code.put(&[0xc6, 0x04, 0x08, 0x01]); // mov byte [rax + rcx], 1
    code.put(&[0xb8, 1, 0, 0, 0]); // mov eax, 1
    code.relative(&[0xf0, 0x48, 0x0f, 0xc1, 0x05], written.number, &[])?; // lock xadd [number], rax
    code.put(&[0x48, 0x3d]); // cmp rax, most
    code.put(&written.most.to_le_bytes());
    code.put(&[0x73, 0]); // jae full
    let to_full = code.out.len();
    code.put(&[0x48, 0xc1, 0xe0, RECORD.trailing_zeros() as u8]); // shl rax, 4
    code.put(&[0x51]); // push rcx
    code.relative(&[0x48, 0x8d, 0x0d], written.log, &[])?; // lea rcx, [log]
    code.put(&[0x48, 0x01, 0xc8]); // add rax, rcx
    code.put(&[0x48, 0x8b, 0x8c, 0x24, 0xb0, 0, 0, 0]); // mov rcx, [rsp + 0xb0]
    code.put(&[0x48, 0x89, 0x48, 0x08]); // mov [rax + 8], rcx
    code.put(&[0x59]); // pop rcx
    code.put(&[0x48, 0x89, 0x08]); // mov [rax], rcx
    let full = code.out.len();
    code.out[to_full - 1] = (full - to_full) as u8;
    code.put(&[0x58, 0x9d]); // pop rax; popfq
    code.put(&[0x48, 0x8d, 0x64, 0x24, 0x10]); // lea rsp, [rsp + 16]
    code.put(&[0xff, 0x64, 0x24, 0xf8]); // jmp [rsp - 8]: a signal leaves memory this close to rsp alone
    Some(bytes)
}

/// Instructions of the dynamic linker that map files: load the number of the system call, and make it.
pub(super) const MAPS: [u8; 7] = [0xb8, 9, 0, 0, 0, 0x0f, 0x05];
/// Offset of the breakpoint in [`mapping`].
pub(super) const MAPPED: u64 = 12;

/// Code at this address that maps memory in place of the [`MAPS`] at `replaced`, stops if the memory is executable, and
/// returns there.
pub(super) fn mapping(address: u64, replaced: u64, detour: &Detour) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut code = Assembler::at(address, &mut bytes);
    code.put(&MAPS); // mov eax, 9; syscall
    code.put(&[0xf6, 0xc2, 0x04]); // test dl, PROT_EXEC
    code.put(&[0x74, 0x01, 0xcc]); // jz to the instruction after int3
    code.put(&(detour.jump)(code.here(), replaced.wrapping_add(MAPS.len() as u64))?);
    Some(bytes)
}

/// Code that is appended from an address on.
struct Assembler<'a> {
    out: &'a mut Vec<u8>,
    start: u64,
}

impl<'a> Assembler<'a> {
    /// Makes an assembler that appends at this address, after the existing code.
    fn at(address: u64, out: &'a mut Vec<u8>) -> Self {
        Self { start: address.wrapping_sub(out.len() as u64), out }
    }

    fn here(&self) -> u64 {
        self.start.wrapping_add(self.out.len() as u64)
    }

    /// Appends bytes whose number the compiler knows, which is faster.
    fn put<const LENGTH: usize>(&mut self, bytes: &[u8; LENGTH]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends an opcode, the distance from the end of the instruction to this address, and the bytes that follow.
    fn relative<const LENGTH: usize, const BEHIND: usize>(
        &mut self,
        opcode: &[u8; LENGTH],
        to: u64,
        behind: &[u8; BEHIND],
    ) -> Option<()> {
        let end = self.here().wrapping_add((LENGTH + size_of::<i32>() + BEHIND) as u64);
        let distance = i32::try_from(to.wrapping_sub(end) as i64).ok()?;
        self.put(opcode);
        self.put(&distance.to_le_bytes());
        self.put(behind);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::isa::X86_64;

    #[test]
    fn the_functions_instructions_stand_where_they_are_looked_for() {
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53];
        let displaced = DisplacedCode { code: &code, address: 0x9000, ends: false, plain: true };
        let (mut alone, mut behind) = (Vec::new(), vec![0; 3]);
        let detour = X86_64.detour.unwrap();
        stub(&mut alone, 0x1000, (1, 0x2000, 0x800), displaced, &detour).unwrap();
        stub(&mut behind, 0x1000, (1, 0x2000, 0x800), displaced, &detour).unwrap();
        assert_eq!(alone[OWN as usize..][..code.len()], code);
        assert_eq!(alone[..], behind[3..], "what stands in front changes nothing");
        let mut moved = Vec::new();
        stub(&mut moved, 0x1000, (1, 0x2000, 0x800), DisplacedCode { plain: false, ..displaced }, &detour)
            .unwrap();
        assert_eq!(alone, moved);
        let far = DisplacedCode { address: 1 << 40, ..displaced };
        assert_eq!(stub(&mut Vec::new(), 0x1000, (1, 0x2000, 0x800), far, &detour), None);
    }
}
