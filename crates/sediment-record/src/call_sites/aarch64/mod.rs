// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call sites of AArch64: `find` chooses them; `stubs` has the code that counts, with `shared_code`, `notice` and `writer`; `entrance` has
//! the code that maps memory, with the `signal_frame` by which it ends in a running thread, and `threads` tells a thread its counters.

pub(super) mod copied_code;
pub(super) mod entrance;
pub(super) mod find;
mod notice;
mod shared_code;
mod signal_frame;
pub(super) mod stubs;
#[cfg(test)]
mod tests;
pub(super) mod threads;
mod writer;

use super::frames::Bare;
use super::room::{GUARD, Reach};
use gimli::AArch64;
use object::elf;
use std::ops::Range;
use std::path::Path;

/// Architecture as `uname -m` spells it.
pub(super) const NAME: &str = "aarch64";
/// Architecture of ELF files.
pub(super) const ELF: elf::Machine = elf::EM_AARCH64;
/// Where the frame of a function is before its first instruction.
pub(super) const BARE: Bare = Bare { register: AArch64::SP, offset: 0, vendor: gimli::Vendor::AArch64 };
/// Bytes of the return address that a call puts on the stack; and least distance of the stack pointers of a function and
/// of its caller, at calls that they make.
pub(super) const RETURN_ADDRESS: u32 = 0;
pub(super) const LEAST_FRAME: u32 = 16;
/// Bytes of the table before each room of stubs, by which threads find their counters.
pub(super) const TABLE: u64 = 4096;
/// Bytes of the room for stubs near the libraries.
pub(super) const LIBRARY_STUBS: u64 = 48 << 20;
/// Distance of the room below its program.
pub(super) const BELOW_PROGRAM: u64 = 8 << 20;
/// Branches must reach from one end of the code to the other end of the room.
pub(super) const REACH: Reach =
    Reach { most: BRANCH - (1 << 20), step: 4 << 20, highest: (1 << 48) - (16 << 20) };
/// Distance that a branch reaches.
const BRANCH: u64 = 128 << 20;

/// Address near which the stubs of libraries are wanted: above the dynamic linker, because the kernel places libraries
/// below it.
pub(super) fn wanted_near_libraries(linker: &Range<u64>) -> u64 {
    linker.end + GUARD
}

/// Address near which the stubs of a program are wanted that is too low for a room below it.
pub(super) fn wanted_above(program: &Range<u64>) -> u64 {
    const HEAP: u64 = 16 << 20;
    program.end + HEAP
}

/// Returns why this processor or its kernel does not suit.
pub(super) fn lacks() -> Option<&'static str> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    if page != Some(super::sites::PAGE as i64) {
        return Some("the kernel's pages are larger than 4 KiB");
    }
    has_huge_files().then_some("files in memory have huge pages (transparent_hugepage/shmem_enabled)")
}

/// True if the kernel may put stubs that are written later into a page that programs execute already. It makes the
/// caches of instructions coherent only when a page is first executed.
fn has_huge_files() -> bool {
    let folder = Path::new("/sys/kernel/mm/transparent_hugepage");
    let sizes = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let settings = sizes.chain([folder.to_owned()]).map(|folder| folder.join("shmem_enabled"));
    let chosen = ["[always]", "[within_size]", "[force]"];
    settings
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .any(|setting| chosen.iter().any(|chosen| setting.contains(chosen)))
}
