// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of stubs and counters in a program that begins.
//!
//! A program that has just become of a process has executed nothing: all its registers are 0 but the stack pointer. A short piece of code
//! lies for a moment where its code is padded by zeros, maps the memory, sets the registers back to 0 and goes on to the program's first
//! instruction. The recorder follows it by its system calls, and does nothing that has to be undone: if the recorder is killed, the code
//! runs to its end by itself.

use nix::libc;
use std::ops::Range;

/// Memory to map, all of it shared with the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) length: u64,
    /// Offset in the file of the recording.
    pub(super) offset: u64,
    pub(super) is_code: bool,
}

impl Region {
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.length
    }
}

/// What `r15` holds at the last system call if all memory is mapped.
pub(super) const DONE: u64 = 1;
/// The last system call.
pub(super) const LAST_CALL: i64 = libc::SYS_close;

/// Code that maps regions of a file and goes on at an address.
pub(super) fn code(path: &str, regions: &[Region], go_on: u64) -> Vec<u8> {
    let mut code = Vec::new();
    let mut failures = Vec::new();
    let system_call = |code: &mut Vec<u8>, number: i64| {
        code.push(0xb8); // mov eax, number
        code.extend((number as u32).to_le_bytes());
        code.extend([0x0f, 0x05]); // syscall
    };
    code.extend([0x48, 0x8d, 0x3d]); // lea rdi, [path]
    let path_place = code.len();
    code.extend([0; 4]);
    code.push(0xbe); // mov esi, flags
    code.extend((libc::O_RDWR | libc::O_CLOEXEC).to_le_bytes());
    code.extend([0x31, 0xd2]); // xor edx, edx
    system_call(&mut code, libc::SYS_open);
    code.extend([0x49, 0x89, 0xc0]); // mov r8, rax
    code.extend([0x85, 0xc0, 0x0f, 0x88]); // test eax, eax; js
    failures.push(code.len());
    code.extend([0; 4]);
    for region in regions {
        let access = if region.is_code {
            libc::PROT_READ | libc::PROT_EXEC
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        code.extend([0x48, 0xbf]); // mov rdi, address
        code.extend(region.address.to_le_bytes());
        code.extend([0x48, 0xbe]); // mov rsi, length
        code.extend(region.length.to_le_bytes());
        code.push(0xba); // mov edx, access
        code.extend(access.to_le_bytes());
        code.extend([0x41, 0xba]); // mov r10d, flags
        code.extend((libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE).to_le_bytes());
        code.extend([0x49, 0xb9]); // mov r9, offset
        code.extend(region.offset.to_le_bytes());
        system_call(&mut code, libc::SYS_mmap);
        code.extend([0x48, 0x39, 0xf8, 0x0f, 0x85]); // cmp rax, rdi; jne
        failures.push(code.len());
        code.extend([0; 4]);
        if !region.is_code {
            // A core file is not to have it.
            code.push(0xba);
            code.extend(libc::MADV_DONTDUMP.to_le_bytes());
            system_call(&mut code, libc::SYS_madvise);
        }
    }
    code.extend([0x41, 0xbf]); // mov r15d, DONE
    code.extend((DONE as u32).to_le_bytes());
    for place in failures {
        let distance = (code.len() - place - 4) as u32;
        code[place..place + 4].copy_from_slice(&distance.to_le_bytes());
    }
    code.extend([0x4c, 0x89, 0xc7]); // mov rdi, r8
    system_call(&mut code, LAST_CALL);
    // xor of eax, ecx, edx, esi, edi, r8d to r11d, r15d
    code.extend([0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff]);
    code.extend([0x45, 0x31, 0xc0, 0x45, 0x31, 0xc9, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb, 0x45, 0x31, 0xff]);
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp *[next bytes]
    code.extend(go_on.to_le_bytes());
    let distance = (code.len() - path_place - 4) as u32;
    code[path_place..path_place + 4].copy_from_slice(&distance.to_le_bytes());
    code.extend(path.as_bytes());
    code.push(0);
    code
}

/// Memory that may be taken near code, by the ranges that are mapped: `wanted` first, then further away, on both sides.
pub(super) fn find_room(mapped: &[Range<u64>], near: &Range<u64>, length: u64, wanted: u64) -> Option<u64> {
    const LOWEST: u64 = 1 << 20;
    const HIGHEST: u64 = (1 << 47) - (1 << 30);
    const STEP: u64 = 64 << 20;
    /// Displacements of 4 bytes reach from one end of the code to the other end of the room.
    const REACH: u64 = (1 << 31) - (64 << 20);
    const GUARD: u64 = 1 << 20;
    let fits = |at: u64| {
        let range = at..at.checked_add(length)?;
        let reaches = range.end.max(near.end) - range.start.min(near.start) < REACH;
        let is_free = !mapped.iter().any(|other| {
            other.start < range.end.saturating_add(GUARD) && range.start < other.end.saturating_add(GUARD)
        });
        (at >= LOWEST && range.end <= HIGHEST && reaches && is_free).then_some(at)
    };
    let steps = (0..REACH / STEP).map(|step| step * STEP);
    let below = steps.clone().filter_map(|step| fits(wanted.checked_sub(step)?));
    let above = steps.filter_map(|step| fits(wanted.checked_add(step)?));
    below.chain(above).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_found_in_reach() {
        const MIB: u64 = 1 << 20;
        let code = 0x5555_5555_4000..0x5555_5555_9000;
        let wanted = (code.start - 64 * MIB) & !0xfff;
        assert_eq!(find_room(std::slice::from_ref(&code), &code, MIB, wanted), Some(wanted));
        let below = 0..code.end;
        let above = find_room(std::slice::from_ref(&below), &code, MIB, wanted).unwrap();
        assert!(above > code.end && above < code.end + (1 << 31));
        assert_eq!(find_room(std::slice::from_ref(&(0..u64::MAX)), &code, MIB, wanted), None);
        let low = 0x40_0000..0x50_0000;
        assert_eq!(
            find_room(std::slice::from_ref(&low), &low, MIB, low.end + 1024 * MIB),
            Some(low.end + 1024 * MIB)
        );
    }
}
