// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies frames by the name of the function or object, for profilers that print nothing else.

/// Prefixes of the kernel's entry functions, for calls and interrupts. No program has functions with these names.
const KERNEL_ENTRIES: [&[u8]; 61] = [
    // x86, since Linux 4.1 and 5.8.
    b"entry_SYSCALL",
    b"entry_INT80",
    b"entry_FRED",
    b"entry_SYSENTER",
    b"asm_exc_",
    b"asm_sysvec_",
    b"asm_common_interrupt",
    b"asm_fred_",
    b"asm_call_",
    // x86 before that.
    b"system_call_fastpath",
    b"system_call_after_swapgs",
    b"int_ret_from_sys_call",
    b"apic_timer_interrupt",
    b"reschedule_interrupt",
    b"call_function_interrupt",
    b"call_function_single_interrupt",
    b"irq_work_interrupt",
    b"ia32_sysenter_target",
    b"ia32_cstar_target",
    b"ia32_syscall",
    b"sysenter_past_esp",
    b"sysenter_do_call",
    b"async_page_fault",
    b"trace_page_fault",
    b"hypervisor_callback",
    b"xen_hypervisor_callback",
    b"xen_do_hypervisor_callback",
    b"stub_clone",
    b"stub_execve",
    b"stub_fork",
    b"stub_rt_sigreturn",
    b"stub_vfork",
    // AArch64 and 32-bit Arm.
    b"el0t_64_",
    b"el0t_32_",
    b"el0_svc",
    b"el0_sync",
    b"el0_irq",
    b"vector_swi",
    // All architectures.
    b"ret_from_fork",
    b"ret_to_user",
    b"ret_from_intr",
    b"ret_from_exception",
    b"ret_from_syscall",
    b"ret_fast_syscall",
    b"ret_slow_syscall",
    b"retint_",
    b"sysret_check",
    b"sysret_careful",
    b"sysret_signal",
    b"sysret_audit",
    b"sysexit_audit",
    b"sysexit_from_sys_call",
    b"syscall_return_via_sysret",
    b"swapgs_restore_regs_and_return_to_user",
    b"invalidate_interrupt",
    b"interrupt_return_srr_",
    b"fast_interrupt_return_srr",
    b"tlb_do_page_fault_",
    b"el1h_64_",
    b"el1_irq",
    b"el1_sync",
];
/// Complete names of entry functions: 32-bit Arm, POWER, s390x, RISC-V, MIPS.
const WHOLE_KERNEL_ENTRIES: [&[u8]; 30] = [
    b"el0_da",
    b"el0_ia",
    b"el0_undef",
    b"el0_error",
    b"__irq_usr",
    b"__dabt_usr",
    b"__pabt_usr",
    b"__und_usr",
    b"system_call_common",
    b"system_call_vectored_common",
    b"hardware_interrupt_common",
    b"hardware_interrupt_common_virt",
    b"data_access_common",
    b"data_access_common_virt",
    b"decrementer_common",
    b"decrementer_common_virt",
    b"instruction_access_common",
    b"pgm_check_handler",
    b"io_int_handler",
    b"ext_int_handler",
    b"handle_sys64",
    b"handle_syscall",
    b"handle_adel_int",
    b"handle_ades_int",
    b"kernel_thread_helper",
    b"kernel_thread_starter",
    b"child_rip",
    b"call_softirq",
    b"int_with_check",
    b"int_careful",
];
/// Functions inside the kernel, whatever the name of its entry function: all their callees also belong to the kernel.
const INSIDE_KERNEL: [&[u8]; 42] = [
    b"do_syscall_64",
    b"do_fast_syscall_32",
    b"do_int80_syscall_32",
    b"do_syscall_32_irqs_on",
    b"__x64_sys_",
    b"__ia32_sys_",
    b"__arm64_sys_",
    b"__s390x_sys_",
    b"__riscv_sys_",
    b"__se_sys_",
    b"__do_sys_",
    b"SyS_",
    b"ksys_",
    b"invoke_syscall",
    b"exc_page_fault",
    b"__do_page_fault",
    b"handle_mm_fault",
    b"smp_apic_timer_interrupt",
    b"__sysvec_",
    b"do_mem_abort",
    b"syscall_trace_enter",
    b"exit_to_user_mode_",
    b"x64_sys_call",
    b"ia32_sys_call",
    b"do_notify_resume",
    b"do_work_pending",
    b"do_softirq",
    b"__do_softirq",
    b"do_IRQ",
    b"irq_exit",
    b"irq_enter",
    b"irqentry_e",
    b"plat_irq_dispatch",
    b"gic_handle_irq",
    b"system_call_exception",
    b"interrupt_exit_user_prepare",
    b"prepare_exit_to_usermode",
    b"syscall_return_slowpath",
    b"syscall_exit_to_user_mode",
    b"do_el0_svc",
    b"el0t_",
    b"trace_do_page_fault",
];
/// Names that a program may use too: they are entry functions only if the kernel's handler of the same name follows.
const UNSURE_ENTRIES: [&[u8]; 30] = [
    b"page_fault",
    b"system_call",
    b"sysenter_entry",
    b"common_interrupt",
    b"general_protection",
    b"divide_error",
    b"invalid_op",
    b"device_not_available",
    b"double_fault",
    b"stack_segment",
    b"segment_not_present",
    b"alignment_check",
    b"coprocessor_error",
    b"simd_coprocessor_error",
    b"overflow",
    b"bounds",
    b"debug",
    b"int3",
    b"nmi",
    b"error_entry",
    b"tracesys",
    b"thermal_interrupt",
    b"machine_check",
    b"handle_exception",
    b"handle_sys",
    b"spurious_interrupt",
    b"error_interrupt",
    b"work_pending",
    b"slow_work_pending",
    b"int_signal",
];

/// Functions that only the kernel, the dynamic linker or the C library calls, at the start of a process or thread.
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

/// True for a function that enters the kernel, or is inside it: all its callees belong to the kernel. `callee` is the
/// function that it calls in the stack.
pub(super) fn enters_kernel(name: &[u8], callee: Option<&[u8]>) -> bool {
    // perf before Linux 4.1 prints the dot before POWER's functions.
    let name = name.strip_prefix(b".").unwrap_or(name);
    let begins = |starts: &[&[u8]]| starts.iter().any(|start| name.starts_with(start));
    begins(&KERNEL_ENTRIES)
        || WHOLE_KERNEL_ENTRIES.contains(&name)
        || begins(&INSIDE_KERNEL)
        || is_interrupt_handler(name)
        || callee.is_some_and(|callee| callee.strip_prefix(b"smp_") == Some(name))
        || UNSURE_ENTRIES.contains(&name) && callee.is_some_and(|callee| handles(callee, name))
}

/// True for a callee of the entry of an inter-processor interrupt: `smp_reboot_interrupt`, `smp_x86_platform_ipi`.
fn is_interrupt_handler(name: &[u8]) -> bool {
    name.starts_with(b"smp_") && (name.ends_with(b"_interrupt") || name.ends_with(b"_ipi"))
}

/// True for the kernel's own handler of an entry.
fn handles(callee: &[u8], entry: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 6] = [b"do_", b"__do_", b"trace_do_", b"smp_", b"exc_", b"fixup_"];
    const OTHERS: [&[u8]; 13] = [
        b"do_notify_resume",
        b"do_work_pending",
        b"__do_syscall",
        b"sys_",
        b"SyS_",
        b"do_IRQ",
        b"do_trap",
        b"do_softirq",
        b"irq_exit",
        b"do_syscall",
        b"do_page_fault",
        b"__x64_sys_",
        b"schedule_user",
    ];
    let by_name = PREFIXES.iter().any(|prefix| callee.strip_prefix(*prefix) == Some(entry));
    by_name || OTHERS.iter().any(|start| callee.starts_with(start))
}

/// True for the first function of a process or thread.
pub(super) fn begins_thread(name: &[u8]) -> bool {
    BEGINNINGS.contains(&name) || BEGINNINGS_START.iter().any(|start| name.starts_with(start))
}

/// True for a function of an interpreted program: Python's perf support, py-spy.
pub(super) fn is_interpreted(name: &[u8]) -> bool {
    name.starts_with(b"py::") || memchr::memmem::find(name, b".py:").is_some() || name.ends_with(b".py)")
}

/// True if a profiler found no symbol: an address, or an object in brackets.
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
        // Distributions append the release.
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
        let enters = |name: &[u8], callee: Option<&'static [u8]>| enters_kernel(name, callee);
        assert!(enters(b"entry_SYSCALL_64_after_hwframe", None) && enters(b"asm_exc_page_fault", None));
        assert!(!enters(b"entry_point", None) && !enters(b"do_work", None));
        // Red Hat Enterprise Linux 7 and 8, AArch64, POWER.
        assert!(enters(b"system_call_fastpath", None) && enters(b"apic_timer_interrupt", None));
        assert!(enters(b"el0_sync", None) && enters(b".system_call_common", None));
        assert!(enters(b"page_fault", Some(b"do_page_fault")) && enters(b"system_call", Some(b"sys_read")));
        assert!(!enters(b"page_fault", Some(b"read_page")) && !enters(b"page_fault", None));
        assert!(enters(b"__x64_sys_read", None) && !enters(b"overflow", Some(b"do_work")));
        // Functions at the exit of the kernel, softirqs, and interrupts whose entry is in no list.
        for name in ["sysret_signal", "call_softirq", "do_IRQ", "smp_reboot_interrupt"] {
            assert!(enters(name.as_bytes(), None), "{name}");
        }
        assert!(enters(b"x86_platform_ipi", Some(b"smp_x86_platform_ipi")));
        assert!(enters(b"work_pending", Some(b"do_notify_resume")) && !enters(b"work_pending", None));
        assert!(enters(b"system_call", Some(b"__do_syscall")) && !enters(b"smp_lock", None));
        assert!(
            begins_thread(b"__libc_start_call_main")
                && begins_thread(b"main")
                && !begins_thread(b"main_loop")
        );
        assert!(is_interpreted(b"py::<module>:/x.py") && is_interpreted(b"f (a.py:12)"));
        assert!(!is_interpreted(b"happy::f") && !is_interpreted(b"copy"));
        assert!(is_no_symbol(b"0x7f12") && is_no_symbol(b"[libc.so.6]") && is_no_symbol(b"[unknown]"));
        assert!(is_no_symbol(b"0x4") && is_no_symbol(b"") && !is_no_symbol(b"0x"));
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
