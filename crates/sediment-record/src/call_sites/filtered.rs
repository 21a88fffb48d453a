// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of the code that maps and unmaps memory, which a filter may forbid.

use super::entrance::{LAST_SIGNAL, Region, RegionKind};
use super::machine;
use super::sites::PAGE;
use crate::tracing::filters;
use crate::tracing::system::FilteredCall;
use nix::libc;

/// The system calls of the code that maps and unmaps memory, and of the stubs in a program that begins, with harmless arguments where
/// a filter would not look at them.
pub(super) fn calls(regions: &[Region]) -> Vec<FilteredCall> {
    let call = |number, arguments| FilteredCall { number, arguments };
    /// No file has this descriptor.
    const FILE: u64 = 1 << 30;
    let mut all = vec![
        machine::entrance::OPEN,
        call(libc::SYS_close, [FILE, 0, 0, 0, 0, 0]),
        call(libc::SYS_getpid, [0; 6]),
        call(libc::SYS_gettid, [0; 6]),
        call(libc::SYS_tgkill, [u64::MAX, u64::MAX, LAST_SIGNAL as u64, 0, 0, 0]),
    ];
    for region in regions {
        let (access, flags) = region.access();
        let Region { address, length, offset, .. } = *region;
        all.extend([
            call(libc::SYS_mmap, [address, length, access as u64, flags as u64, FILE, offset]),
            call(libc::SYS_madvise, [address, length, libc::MADV_DONTDUMP as u64, 0, 0, 0]),
            call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]),
        ]);
    }
    all
}

/// The same, and the call by which a thread of a running program goes on afterwards. Nobody can try it.
pub(super) fn calls_of_running(regions: &[Region]) -> Vec<FilteredCall> {
    let mut all = calls(regions);
    if cfg!(target_arch = "aarch64") {
        all.push(FilteredCall { number: libc::SYS_rt_sigreturn, arguments: [0; 6] });
    }
    all
}

/// True if a filter forbids us one of these calls: then it also forbids it to programs that we start.
pub(super) fn is_forbidden_to_us() -> bool {
    /// Nothing can be there.
    const NOWHERE: Region = Region { address: 0, length: PAGE, offset: 0, kind: RegionKind::Code };
    filters::end_us(&calls(&[NOWHERE]))
}
