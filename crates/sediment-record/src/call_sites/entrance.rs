// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps the memory of stubs and counters in a program that begins.
//!
//! Right after exec, a program has executed nothing, and all its registers except the stack pointer are 0. For a
//! moment, a short piece of code is written into the zero padding after the program's code. It maps the memory, sets
//! the registers back to 0 and jumps to the program's first instruction. At its end it sends itself a signal without
//! effect, at which the recorder stops it. The recorder does nothing that would have to be undone: if it is killed, the
//! code runs to its end by itself.
//!
//! In a program that already runs, one thread does this while the others are stopped; at the end it restores its
//! registers from its stack. The memory is unmapped in the same way.

use super::sites::PAGE;
use crate::tracing::filters;
use crate::tracing::system::FilteredCall;
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

/// Value of `r15` at the last system call if all memory is mapped.
pub(super) const DONE: u64 = 1;
/// The last system call in a program that already runs.
pub(super) const LAST_CALL: i64 = libc::SYS_close;
/// The signal that a program that begins sends to itself at the end, at which the recorder stops it. Without a recorder
/// it has no effect: a program that begins has no handlers, and without a handler the signal is ignored.
pub(super) const LAST_SIGNAL: i32 = libc::SIGURG;

/// Moment at which a thread runs the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the first instruction of a program.
    Beginning,
    /// Between two instructions.
    Running,
}

impl Moment {
    fn save(self, code: &mut Vec<u8>) {
        if self == Self::Running {
            code.extend([0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c]); // lea rsp, [rsp-128]; pushfq
            code.extend([0x50, 0x51, 0x52, 0x56, 0x57]); // push rax, rcx, rdx, rsi, rdi
            code.extend([0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, 0x41, 0x57]); // push r8 to r11, r15
        }
    }

    fn set_back(self, code: &mut Vec<u8>) {
        match self {
            Self::Beginning => {
                // xor of eax, ecx, edx, esi, edi, r8d to r11d, r15d
                code.extend([0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff, 0x45, 0x31, 0xc0]);
                code.extend([0x45, 0x31, 0xc9, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb, 0x45, 0x31, 0xff]);
            }
            Self::Running => {
                code.extend([0x41, 0x5f, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58]);
                code.extend([0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x9d]);
                code.extend([0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp+128]
            }
        }
    }
}

fn system_call(code: &mut Vec<u8>, number: i64) {
    code.push(0xb8); // mov eax, number
    code.extend((number as u32).to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
}

fn jump(code: &mut Vec<u8>, address: u64) {
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp *[next bytes]
    code.extend(address.to_le_bytes());
}

/// The system calls of [`mapping`] and [`unmapping`], and of the stubs in a program that begins, with harmless arguments where
/// a filter would not look at them.
pub(super) fn calls(regions: &[Region]) -> Vec<FilteredCall> {
    let call = |number, arguments| FilteredCall { number, arguments };
    /// No file has this descriptor.
    const FILE: u64 = 1 << 30;
    let mut all = vec![
        call(libc::SYS_open, [0, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0, 0, 0, 0]),
        call(libc::SYS_close, [FILE, 0, 0, 0, 0, 0]),
        call(libc::SYS_getpid, [0; 6]),
        call(libc::SYS_gettid, [0; 6]),
        call(libc::SYS_tgkill, [u64::MAX, u64::MAX, LAST_SIGNAL as u64, 0, 0, 0]),
    ];
    for region in regions {
        let access = access(region) as u64;
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        let Region { address, length, offset, .. } = *region;
        all.extend([
            call(libc::SYS_mmap, [address, length, access, flags, FILE, offset]),
            call(libc::SYS_madvise, [address, length, libc::MADV_DONTDUMP as u64, 0, 0, 0]),
            call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]),
        ]);
    }
    all
}

/// True if a filter forbids us one of these calls: then it also forbids it to programs that we start.
pub(super) fn is_forbidden_to_us() -> bool {
    /// Nothing can be there.
    const NOWHERE: Region = Region { address: 0, length: PAGE, offset: 0, is_code: true };
    filters::end_us(&calls(&[NOWHERE]))
}

fn access(region: &Region) -> i32 {
    libc::PROT_READ | if region.is_code { libc::PROT_EXEC } else { libc::PROT_WRITE }
}

/// Returns code that unmaps regions and continues at an address.
pub(super) fn unmapping(regions: &[Region], go_on: u64) -> Vec<u8> {
    let mut code = Vec::new();
    Moment::Running.save(&mut code);
    for region in regions {
        code.extend([0x48, 0xbf]); // mov rdi, address
        code.extend(region.address.to_le_bytes());
        code.extend([0x48, 0xbe]); // mov rsi, length
        code.extend(region.length.to_le_bytes());
        system_call(&mut code, libc::SYS_munmap);
    }
    code.extend([0x41, 0xbf]); // mov r15d, DONE
    code.extend((DONE as u32).to_le_bytes());
    code.extend([0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff]); // mov rdi, -1: no file
    system_call(&mut code, LAST_CALL);
    Moment::Running.set_back(&mut code);
    jump(&mut code, go_on);
    code
}

/// Returns code that maps regions of a file and continues at an address.
pub(super) fn mapping(path: &str, regions: &[Region], moment: Moment, go_on: u64) -> Vec<u8> {
    let mut code = Vec::new();
    let mut failures = Vec::new();
    moment.save(&mut code);
    // 0 as after exec, and different from DONE.
    code.extend([0x45, 0x31, 0xff]); // xor r15d, r15d
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
        code.extend([0x48, 0xbf]); // mov rdi, address
        code.extend(region.address.to_le_bytes());
        code.extend([0x48, 0xbe]); // mov rsi, length
        code.extend(region.length.to_le_bytes());
        code.push(0xba); // mov edx, access
        code.extend(access(region).to_le_bytes());
        code.extend([0x41, 0xba]); // mov r10d, flags
        code.extend((libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE).to_le_bytes());
        code.extend([0x49, 0xb9]); // mov r9, offset
        code.extend(region.offset.to_le_bytes());
        system_call(&mut code, libc::SYS_mmap);
        code.extend([0x48, 0x39, 0xf8, 0x0f, 0x85]); // cmp rax, rdi; jne
        failures.push(code.len());
        code.extend([0; 4]);
        if !region.is_code {
            // Core files must not contain this memory.
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
    if moment == Moment::Beginning {
        system_call(&mut code, libc::SYS_getpid);
        code.extend([0x89, 0xc7, 0x89, 0xc6, 0xba]); // mov edi, eax; mov esi, eax; mov edx, signal
        code.extend(LAST_SIGNAL.to_le_bytes());
        system_call(&mut code, libc::SYS_tgkill);
    }
    moment.set_back(&mut code);
    jump(&mut code, go_on);
    let distance = (code.len() - path_place - 4) as u32;
    code[path_place..path_place + 4].copy_from_slice(&distance.to_le_bytes());
    code.extend(path.as_bytes());
    code.push(0);
    code
}
