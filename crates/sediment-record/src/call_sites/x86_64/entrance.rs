// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code that maps the memory of stubs and counters.

use crate::call_sites::entrance::{DONE, LAST_CALL, LAST_SIGNAL, Moment, Region, RegionKind};
use crate::tracing::system::FilteredCall;
use nix::libc;

/// The call that opens the file.
pub(in crate::call_sites) const OPEN: FilteredCall = FilteredCall {
    number: libc::SYS_open,
    arguments: [0, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0, 0, 0, 0],
};

fn save(moment: Moment, code: &mut Vec<u8>) {
    if moment == Moment::Running {
        code.extend([0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c]); // lea rsp, [rsp-128]; pushfq
        code.extend([0x50, 0x51, 0x52, 0x56, 0x57]); // push rax, rcx, rdx, rsi, rdi
        code.extend([0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, 0x41, 0x57]); // push r8 to r11, r15
    }
}

fn set_back(moment: Moment, code: &mut Vec<u8>) {
    match moment {
        Moment::Beginning => {
            // xor of eax, ecx, edx, esi, edi, r8d to r11d, r15d
            code.extend([0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff, 0x45, 0x31, 0xc0]);
            code.extend([0x45, 0x31, 0xc9, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb, 0x45, 0x31, 0xff]);
        }
        Moment::Running => {
            code.extend([0x41, 0x5f, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58]);
            code.extend([0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x9d]);
            code.extend([0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp+128]
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

/// Returns code that unmaps regions and continues at an address.
pub(in crate::call_sites) fn unmapping(regions: &[Region], _: u64, go_on: u64) -> Vec<u8> {
    let mut code = Vec::new();
    save(Moment::Running, &mut code);
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
    set_back(Moment::Running, &mut code);
    jump(&mut code, go_on);
    code
}

/// Returns code that maps regions of a file and continues at an address.
pub(in crate::call_sites) fn mapping(
    (path, regions): (&str, &[Region]),
    moment: Moment,
    _: u64,
    go_on: u64,
) -> Vec<u8> {
    let mut code = Vec::new();
    let mut failures = Vec::new();
    save(moment, &mut code);
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
        let (access, flags) = region.access();
        code.extend([0x48, 0xbf]); // mov rdi, address
        code.extend(region.address.to_le_bytes());
        code.extend([0x48, 0xbe]); // mov rsi, length
        code.extend(region.length.to_le_bytes());
        code.push(0xba); // mov edx, access
        code.extend(access.to_le_bytes());
        code.extend([0x41, 0xba]); // mov r10d, flags
        code.extend(flags.to_le_bytes());
        code.extend([0x49, 0xb9]); // mov r9, offset
        code.extend(region.offset.to_le_bytes());
        system_call(&mut code, libc::SYS_mmap);
        code.extend([0x48, 0x39, 0xf8, 0x0f, 0x85]); // cmp rax, rdi; jne
        failures.push(code.len());
        code.extend([0; 4]);
        if region.kind == RegionKind::Data {
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
    set_back(moment, &mut code);
    jump(&mut code, go_on);
    let distance = (code.len() - path_place - 4) as u32;
    code[path_place..path_place + 4].copy_from_slice(&distance.to_le_bytes());
    code.extend(path.as_bytes());
    code.push(0);
    code
}
