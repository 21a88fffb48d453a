// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stub of the dynamic linker's function for notices of new libraries. It waits until the recorder has handled
//! them. At the first notice of a program, before the program itself has run, the thread stops itself by a signal, and
//! maps the copies of code that the recorder lists. Later it makes no system calls.

use super::writer::{CodeWriter, JUMP_EQUAL, JUMP_NOT_EQUAL, JUMP_SHORT, RAX, load_shared, offset};
use crate::call_sites::counters::{
    COPIES, COPIES_PATH, MAP_COPIES, MAPPED_COPIES, NOTICES, OWN_ADDRESS, STOPS_ITSELF, UNANSWERED, WAITS,
};
use crate::call_sites::entrance::LAST_SIGNAL;
use crate::call_sites::placement::TooFar;
use nix::libc;

/// Number of repetitions while it waits for the recorder: less than a second.
const PATIENCE: u32 = 10_000_000;

/// Emits the stub with its routines, and returns its address. `state`: address of the linker's state, which is 0 after
/// libraries have been loaded or unloaded.
pub(super) fn emit(code: &mut CodeWriter, notice: u64, state: Option<u64>) -> Result<u64, TooFar> {
    let stop = code.here();
    stop_itself(code);
    code.align(16);
    let map = code.here();
    map_copies(code);
    code.align(16);
    let at = code.here();
    wait(code, notice, state, (stop, map))?;
    Ok(at)
}

/// Waits until the recorder has handled the libraries, for a limited time and without the kernel, and continues with
/// the function. After a wait in vain, no thread waits until the recorder looks again.
fn wait(
    code: &mut CodeWriter,
    notice: u64,
    state: Option<u64>,
    (stop, map): (u64, u64),
) -> Result<(), TooFar> {
    let mut early = None;
    if let Some(state) = state {
        // The last byte follows the distance.
        code.relative(&[0x83, 0x3d], state.wrapping_sub(1))?; // cmp dword [state], 0
        code.put(&[0]);
        early = Some(code.ahead(JUMP_NOT_EQUAL));
    }
    code.put(&[0x50, 0x51]); // push rax; push rcx
    code.put(&[0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[WAITS], 1
    code.put(&offset(WAITS));
    code.put(&1u32.to_le_bytes());
    load_shared(code, RAX);
    code.put(&[0xf0, 0xff, 0x40, NOTICES as u8]); // lock inc dword [rax+NOTICES]
    code.put(&[0x65, 0x83, 0x3c, 0x25]); // cmp dword gs:[STOPS_ITSELF], 0
    code.put(&offset(STOPS_ITSELF));
    code.put(&[0]);
    let waits = code.ahead(JUMP_EQUAL);
    code.call(stop)?;
    code.land(&waits);
    load_shared(code, RAX);
    code.put(&[0x83, 0x78, UNANSWERED as u8, 0]); // cmp dword [rax+UNANSWERED], 0
    let in_vain = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0xb9]); // mov ecx, PATIENCE
    code.put(&PATIENCE.to_le_bytes());
    let again = code.bytes.len();
    code.put(&[0xf3, 0x90]); // pause
    code.put(&[0x65, 0x83, 0x3c, 0x25]); // cmp dword gs:[WAITS], 1
    code.put(&offset(WAITS));
    code.put(&[1]);
    let seen = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0xff, 0xc9]); // dec ecx
    code.back(JUMP_NOT_EQUAL, again);
    code.put(&[0xc7, 0x40, UNANSWERED as u8]); // mov dword [rax+UNANSWERED], 1
    code.put(&1u32.to_le_bytes());
    code.land(&seen);
    code.land(&in_vain);
    code.put(&[0x65, 0x83, 0x3c, 0x25]); // cmp dword gs:[WAITS], MAP_COPIES
    code.put(&offset(WAITS));
    code.put(&[MAP_COPIES as u8]);
    let none = code.ahead(JUMP_NOT_EQUAL);
    code.call(map)?;
    code.land(&none);
    code.put(&[0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[WAITS], 0
    code.put(&offset(WAITS));
    code.put(&0u32.to_le_bytes());
    code.put(&[0x59, 0x58]); // pop rcx; pop rax
    early.iter().for_each(|early| code.land(early));
    code.jump(notice)
}

fn system_call(code: &mut CodeWriter, number: i64) {
    code.put(&[0xb8]); // mov eax, number
    code.put(&(number as u32).to_le_bytes());
    code.put(&[0x0f, 0x05]); // syscall
}

/// Sends a signal to the only thread of a program that begins. The recorder stops the thread at this signal; without a
/// recorder it has no effect. All registers except rax and rcx are kept.
fn stop_itself(code: &mut CodeWriter) {
    code.put(&[0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[STOPS_ITSELF], 0
    code.put(&offset(STOPS_ITSELF));
    code.put(&0u32.to_le_bytes());
    code.put(&[0x52, 0x56, 0x57, 0x41, 0x53]); // push rdx, rsi, rdi, r11
    system_call(code, libc::SYS_getpid);
    code.put(&[0x89, 0xc7]); // mov edi, eax
    system_call(code, libc::SYS_gettid);
    code.put(&[0x89, 0xc6, 0xba]); // mov esi, eax; mov edx, signal
    code.put(&LAST_SIGNAL.to_le_bytes());
    system_call(code, libc::SYS_tgkill);
    code.put(&[0x41, 0x5b, 0x5f, 0x5e, 0x5a, 0xc3]); // pop r11, rdi, rsi, rdx; ret
}

/// Maps the copies of code that the block lists. All registers except rax and rcx are kept. Without a copy, the code
/// stays as it is.
fn map_copies(code: &mut CodeWriter) {
    code.put(&[0x53, 0x52, 0x56, 0x57]); // push rbx, rdx, rsi, rdi
    code.put(&[0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53]); // push r8 to r11
    code.put(&[0x65, 0x48, 0x8b, 0x1c, 0x25]); // mov rbx, gs:[OWN_ADDRESS]
    code.put(&offset(OWN_ADDRESS));
    code.put(&[0x48, 0x8d, 0x7b, COPIES_PATH as u8]); // lea rdi, [rbx+COPIES_PATH]
    code.put(&[0xbe]); // mov esi, flags
    code.put(&(libc::O_RDONLY | libc::O_CLOEXEC).to_le_bytes());
    code.put(&[0x31, 0xd2]); // xor edx, edx
    system_call(code, libc::SYS_open);
    code.put(&[0x85, 0xc0]); // test eax, eax
    let unopened = code.ahead(0x78); // js
    code.put(&[0x41, 0x89, 0xc0]); // mov r8d, eax
    code.put(&[0x48, 0x81, 0xc3]); // add rbx, COPIES
    code.put(&offset(COPIES));
    let again = code.bytes.len();
    code.put(&[0x48, 0x8b, 0x3b, 0x48, 0x85, 0xff]); // mov rdi, [rbx]; test rdi, rdi
    let last = code.ahead(JUMP_EQUAL);
    code.put(&[0x48, 0x8b, 0x73, 8]); // mov rsi, [rbx+8]
    code.put(&[0xba]); // mov edx, access
    code.put(&(libc::PROT_READ | libc::PROT_EXEC).to_le_bytes());
    code.put(&[0x41, 0xba]); // mov r10d, flags
    code.put(&(libc::MAP_PRIVATE | libc::MAP_FIXED).to_le_bytes());
    code.put(&[0x4c, 0x8b, 0x4b, 16]); // mov r9, [rbx+16]
    system_call(code, libc::SYS_mmap);
    code.put(&[0x48, 0x39, 0xf8]); // cmp rax, rdi
    let failed = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0x65, 0xff, 0x04, 0x25]); // inc dword gs:[MAPPED_COPIES]
    code.put(&offset(MAPPED_COPIES));
    code.put(&[0x48, 0x83, 0xc3, 24]); // add rbx, 24
    code.back(JUMP_SHORT, again);
    code.land(&last);
    code.land(&failed);
    code.put(&[0x44, 0x89, 0xc7]); // mov edi, r8d
    system_call(code, libc::SYS_close);
    code.land(&unopened);
    code.put(&[0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58]); // pop r11 to r8
    code.put(&[0x5f, 0x5e, 0x5a, 0x5b, 0xc3]); // pop rdi, rsi, rdx, rbx; ret
}
