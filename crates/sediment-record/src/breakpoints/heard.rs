// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that the recorder must hear of, and what a file tells of how its program must be treated.

use super::needed;
use sediment_core::binary::Binary;

/// The C library's names of the system calls by which a process execs another program, or changes who may read it.
pub(super) const CHANGES: [&str; 18] = [
    "execve",
    "execveat",
    "prctl",
    "capset",
    "unshare",
    "setns",
    "setuid",
    "seteuid",
    "setreuid",
    "setresuid",
    "setfsuid",
    "setgid",
    "setegid",
    "setregid",
    "setresgid",
    "setfsgid",
    "setgroups",
    "initgroups",
];

/// Functions by which a program may make its code writable. The last makes any system call.
pub(super) const MAKE_WRITABLE: [&str; 3] = ["mprotect", "pkey_mprotect", "syscall"];

/// Functions by which a program sets how it handles a signal. Those that set it by another name call the first.
pub(super) const HANDLE_SIGNALS: [&str; 3] = ["sigaction", "__sigaction", "syscall"];

/// Where functions of these names are.
pub(super) fn addresses_of(binary: &Binary, names: &[&str]) -> Vec<u64> {
    let named = binary.functions.iter().filter(|function| names.contains(&function.name.as_str()));
    named.map(|function| function.address).collect()
}

/// True if a file has the runtime of Go, which needs no C library for system calls.
pub(super) fn has_runtime_of_go(bytes: &[u8]) -> bool {
    use object::{Object as _, ObjectSection as _};
    let Ok(file) = object::File::parse(bytes) else { return false };
    file.sections().any(|section| {
        section.name().is_ok_and(|name| name.ends_with(".gopclntab") || name == ".go.buildinfo")
    })
}

/// True if a program looks for leaks of memory at its end: LeakSanitizer traces all threads for that, which cannot be where they are traced.
pub(super) fn looks_for_leaks(bytes: &[u8], binary: &Binary) -> bool {
    let needed = needed::names_of(bytes);
    let needs = needed.iter().any(|name| name.starts_with("libasan.") || name.starts_with("liblsan."));
    needs || !addresses_of(binary, &["__lsan_init"]).is_empty()
}

/// True if the dynamic linker changes a file's code when it loads it.
pub(super) fn has_text_relocations(bytes: &[u8]) -> bool {
    use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, FileHeader64};
    use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
    let Ok(header) = FileHeader64::<object::Endianness>::parse(bytes) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let segments = header.program_headers(endian, bytes).unwrap_or_default();
    let mut entries =
        segments.iter().filter_map(|segment| segment.dynamic(endian, bytes).ok().flatten()).flatten();
    entries.any(|entry| {
        let (tag, value) = (entry.d_tag(endian), entry.d_val(endian));
        tag == DT_TEXTREL || tag == DT_FLAGS && value & DF_TEXTREL.0 != 0
    })
}
