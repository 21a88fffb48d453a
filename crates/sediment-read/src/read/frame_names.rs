// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies frames by the name of the function or object, where a profiler prints nothing else.

/// Functions by which the kernel is entered, on x86-64 and AArch64, from a call or by an interrupt.
const KERNEL_ENTRIES: [&[u8]; 14] = [
    b"entry_SYSCALL",
    b"entry_INT80",
    b"entry_FRED",
    b"entry_SYSENTER",
    b"asm_exc_",
    b"asm_sysvec_",
    b"asm_common_interrupt",
    b"asm_fred_",
    b"el0t_64_",
    b"el0t_32_",
    b"el0_svc",
    b"ret_from_fork",
    b"ret_to_user",
    b"ret_from_intr",
];

/// Functions that nothing else calls than the kernel, the dynamic linker or the C library, at the start of a process or thread.
const BEGINNINGS: [&[u8]; 13] = [
    b"_start",
    b"main",
    b"start_thread",
    b"_dl_start",
    b"_dl_start_user",
    b"clone",
    b"clone3",
    b"__clone",
    b"__clone3",
    b"__GI___clone",
    b"__GI___clone3",
    b"thread_start",
    b"__uClibc_main",
];
const BEGINNINGS_START: [&[u8]; 3] = [b"__libc_start_", b"libc_start_main_", b"generic_start_main"];

/// True for a function by which a program enters the kernel: all its callees are the kernel's.
pub(super) fn enters_kernel(name: &[u8]) -> bool {
    KERNEL_ENTRIES.iter().any(|start| name.starts_with(start))
}

/// True for the first function of a process or thread.
pub(super) fn begins_thread(name: &[u8]) -> bool {
    BEGINNINGS.contains(&name) || BEGINNINGS_START.iter().any(|start| name.starts_with(start))
}

/// True for a function of an interpreted program: Python's perf support, py-spy.
pub(super) fn is_interpreted(name: &[u8]) -> bool {
    name.starts_with(b"py::") || memchr::memmem::find(name, b".py:").is_some() || name.ends_with(b".py)")
}

/// True where a profiler found no symbol: an address, or an object in brackets.
pub(super) fn is_no_symbol(name: &[u8]) -> bool {
    let digits = name.strip_prefix(b"0x");
    name.is_empty()
        || digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
        || name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
        || name.starts_with(b"[") && name.ends_with(b"]")
}

/// True for the kernel or a part of it.
pub(super) fn is_kernel_object(object: &[u8]) -> bool {
    let bracketed = object.starts_with(b"[") && object != b"[vdso]" && object != b"[unknown]";
    let memory: [&[u8]; 4] = [b"[heap]", b"[stack", b"[anon", b"[JIT]"];
    let modules = [&b".ko"[..], b".ko.xz", b".ko.zst", b".ko.gz"];
    let file = object.rsplit(|b| *b == b'/').next().unwrap_or_default();
    bracketed && !memory.iter().any(|start| object.starts_with(start))
        || modules.iter().any(|ending| object.ends_with(ending))
        // Distributions put the release behind it.
        || object.contains(&b'/') && (file == b"vmlinux" || file.starts_with(b"vmlinux-"))
}

/// True for a file whose functions a linker placed; not for memory or the code of a run-time compiler.
pub(super) fn is_linked_file(path: &[u8]) -> bool {
    let file = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let compiled = (file.starts_with(b"perf-") && file.ends_with(b".map"))
        || (file.starts_with(b"jitted-") && file.ends_with(b".so"));
    let elsewhere: [&[u8]; 6] = [b"[", b"//", b"/memfd:", b"/dev/", b"/SYSV", b"anon_inode:"];
    !path.is_empty() && !compiled && !elsewhere.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_they_are_of() {
        assert!(enters_kernel(b"entry_SYSCALL_64_after_hwframe") && enters_kernel(b"asm_exc_page_fault"));
        assert!(!enters_kernel(b"entry_point") && !enters_kernel(b"do_work"));
        assert!(
            begins_thread(b"__libc_start_call_main")
                && begins_thread(b"main")
                && !begins_thread(b"main_loop")
        );
        assert!(is_interpreted(b"py::<module>:/x.py") && is_interpreted(b"f (a.py:12)"));
        assert!(!is_interpreted(b"happy::f") && !is_interpreted(b"copy"));
        assert!(is_no_symbol(b"0x7f12") && is_no_symbol(b"[libc.so.6]") && is_no_symbol(b"[unknown]"));
        assert!(!is_no_symbol(b"0x12_is_a_name") && !is_no_symbol(b"["));
        assert!(is_kernel_object(b"[kernel.kallsyms]") && is_kernel_object(b"[nf_tables]"));
        assert!(is_kernel_object(b"/boot/vmlinux") && is_kernel_object(b"/boot/vmlinux-6.1.0-13-amd64"));
        assert!(!is_kernel_object(b"vmlinux-to-elf") && !is_kernel_object(b"/usr/bin/vmlinuxd"));
        assert!(!is_kernel_object(b"[vdso]") && !is_kernel_object(b"[heap]") && !is_kernel_object(b"/x"));
        assert!(is_linked_file(b"/tmp/my prog (deleted)") && is_linked_file(b"prog"));
        assert!(
            !is_linked_file(b"/tmp/perf-12.map") && !is_linked_file(b"//anon") && !is_linked_file(b"[heap]")
        );
    }
}
