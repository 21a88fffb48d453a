// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions whose calls the recorder must see, and properties of a file that decide how its program is treated.

use super::needed;
use sediment_core::binary::Binary;

/// C library names of the system calls that exec another program or change who may read the process.
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

/// Functions that may make code writable. The last one makes any system call.
pub(super) const MAKE_WRITABLE: [&str; 3] = ["mprotect", "pkey_mprotect", "syscall"];

/// Functions that set the handler of a signal. Functions with other names call the first of these.
pub(super) const HANDLE_SIGNALS: [&str; 3] = ["sigaction", "__sigaction", "syscall"];

/// Addresses of the functions with these names.
pub(super) fn addresses_of(binary: &Binary, names: &[&str]) -> Vec<u64> {
    let named = binary.functions.iter().filter(|function| names.contains(&function.name.as_str()));
    named.map(|function| function.address).collect()
}

/// True if a file contains the Go runtime, which makes system calls without the C library.
pub(super) fn has_runtime_of_go(bytes: &[u8]) -> bool {
    use object::{Object as _, ObjectSection as _};
    let Ok(file) = object::File::parse(bytes) else { return false };
    file.sections().any(|section| {
        section.name().is_ok_and(|name| name.ends_with(".gopclntab") || name == ".go.buildinfo")
    })
}

/// True if a program searches for memory leaks when it ends: LeakSanitizer traces all threads for that, and cannot
/// trace threads that are traced already.
pub(super) fn looks_for_leaks(bytes: &[u8], binary: &Binary) -> bool {
    let needed = needed::names_of(bytes);
    let needs = needed.iter().any(|name| name.starts_with("libasan.") || name.starts_with("liblsan."));
    needs || !addresses_of(binary, &["__lsan_init"]).is_empty()
}

/// True if the dynamic linker changes the file's code when it loads the file.
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
