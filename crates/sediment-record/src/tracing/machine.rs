// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences between processors: the breakpoint instruction, the program counter after it, and the return address
//! of a function.
//!
//! aarch64 has run in a virtual machine alone, by `scripts/prove aarch64`.

use super::memory::TraceeMemory;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::ops::Range;

/// The registers of a stopped thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers(libc::user_regs_struct);

/// A system call that begins or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SystemCall {
    /// Its number.
    pub(crate) number: u64,
    /// The first three arguments.
    pub(crate) arguments: [u64; 3],
    /// True once it has ended.
    pub(crate) ended: bool,
}

impl SystemCall {
    /// Memory that a thread makes writable, which stands at `mprotect`, `pkey_mprotect` or `syscall` of the C library with these arguments.
    pub(crate) fn makes_writable(self) -> Option<Range<u64>> {
        const LARGEST_PAGE: u64 = 64 << 10;
        let [first, second, third] = self.arguments;
        let calls = [libc::SYS_mprotect, libc::SYS_pkey_mprotect].contains(&(first as i64));
        // What `syscall` wants to have there is its fourth argument.
        let (start, length, writes) =
            if calls { (second, third, true) } else { (first, second, third & libc::PROT_WRITE as u64 != 0) };
        // The kernel rounds up to its pages.
        writes.then(|| {
            start..start.saturating_add(length).checked_next_multiple_of(LARGEST_PAGE).unwrap_or(u64::MAX)
        })
    }

    /// Where the action stands that a thread sets for a signal, which stands at `sigaction` or `syscall` of the C library with these arguments.
    pub(crate) fn action_of(self, signal: i32) -> Option<u64> {
        let [first, second, third] = self.arguments;
        let calls = first as i64 == libc::SYS_rt_sigaction;
        let (of, action) = if calls { (second, third) } else { (first, second) };
        (of as i32 == signal && action != 0).then_some(action)
    }

    /// True if it may map code.
    pub(crate) fn maps_code(self) -> bool {
        let executable = self.arguments[2] & libc::PROT_EXEC as u64 != 0;
        executable && matches!(self.number as i64, libc::SYS_mmap | libc::SYS_mprotect)
    }

    /// Where the path stands of the program that the process becomes by it.
    pub(crate) fn becomes(self) -> Option<u64> {
        match self.number as i64 {
            libc::SYS_execve => Some(self.arguments[0]),
            libc::SYS_execveat => Some(self.arguments[1]),
            _ => None,
        }
    }

    /// True if it may change who may read the memory of the process.
    pub(crate) fn changes_rights(self) -> bool {
        let user = [libc::SYS_setuid, libc::SYS_setreuid, libc::SYS_setresuid, libc::SYS_setfsuid];
        let group = [libc::SYS_setgid, libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setfsgid];
        let other =
            [libc::SYS_setgroups, libc::SYS_capset, libc::SYS_prctl, libc::SYS_unshare, libc::SYS_setns];
        let number = self.number as i64;
        user.contains(&number) || group.contains(&number) || other.contains(&number)
    }

    /// The descriptor that it writes to, if it writes. splice is not included: its second end is the third argument.
    pub(crate) fn writes_to(self) -> Option<u64> {
        let files = [libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev];
        let others = [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendfile];
        let number = self.number as i64;
        (files.contains(&number) || others.contains(&number)).then_some(self.arguments[0])
    }

    /// For a system call that makes a process or thread: whether it shares the address space.
    pub(crate) fn shares_memory(self, memory: &dyn TraceeMemory) -> bool {
        let flags = match self.number as i64 {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_vfork => return true,
            libc::SYS_clone => Some(self.arguments[0]),
            libc::SYS_clone3 => memory.number(self.arguments[0]),
            _ => None,
        };
        flags.is_some_and(|flags| flags & libc::CLONE_VM as u64 != 0)
    }
}

impl Registers {
    pub(crate) fn of(thread: Pid) -> Result<Self, Errno> {
        ptrace::getregs(thread).map(Self)
    }

    pub(crate) fn put(&self, thread: Pid) -> Result<(), Errno> {
        ptrace::setregs(thread, self.0)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Registers, SystemCall, TraceeMemory};
    use nix::errno::Errno;
    use nix::libc;
    use nix::sys::ptrace;
    use nix::unistd::Pid;
    pub(crate) use sediment_core::isa::X86_64 as ISA;
    use std::mem::offset_of;

    /// System calls that end with EINTR where a thread is woken for nothing, as signal(7) lists them, and newer ones. All can be called again. Those
    /// from `read` on do so of sockets with a timeout, of inotify, and, in older kernels, of files in memory.
    const INTERRUPTED: [libc::c_long; 28] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_msgrcv,
        libc::SYS_msgsnd,
        libc::SYS_io_uring_enter,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_preadv2,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwritev2,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_splice,
        libc::SYS_sendfile,
        libc::SYS_fallocate,
    ];

    /// Architecture as `uname -m` spells it.
    pub(crate) const ARCH: &str = "x86_64";
    /// `int3`.
    pub(crate) const TRAP: [u8; 1] = [0xcc];
    /// `syscall`.
    pub(crate) const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

    /// Segment of 64-bit code.
    const USER_CODE: u64 = 0x33;

    impl Registers {
        /// Those of a thread that stands here, behind this system call.
        #[cfg(test)]
        pub(crate) fn standing_at(program_counter: u64, system_call: u64) -> Self {
            let mut registers = Self(libc::user_regs_struct {
                r15: 0,
                r14: 0,
                r13: 0,
                r12: 0,
                rbp: 0,
                rbx: 0,
                r11: 0,
                r10: 0,
                r9: 0,
                r8: 0,
                rax: 0,
                rcx: 0,
                rdx: 0,
                rsi: 0,
                rdi: 0,
                orig_rax: 0,
                rip: 0,
                cs: 0,
                eflags: 0,
                rsp: 0,
                ss: 0,
                fs_base: 0,
                gs_base: 0,
                ds: 0,
                es: 0,
                fs: 0,
                gs: 0,
            });
            (registers.0.rip, registers.0.orig_rax) = (program_counter, system_call);
            registers
        }

        /// Address of the breakpoint that stopped the thread: `int3` was executed.
        pub(crate) fn trap_address(self) -> u64 {
            self.0.rip.wrapping_sub(1)
        }

        /// Sets the thread to this address, and nothing else.
        pub(crate) fn go_to(self, thread: Pid, address: u64) -> Result<(), Errno> {
            let place = offset_of!(libc::user, regs) + offset_of!(libc::user_regs_struct, rip);
            ptrace::write_user(thread, place as ptrace::AddressType, address as i64)
        }

        /// Where the function returns to at whose first byte the thread is.
        pub(crate) fn return_address(self, memory: &dyn TraceeMemory) -> Option<u64> {
            memory.number(self.0.rsp)
        }

        /// Returns from the function at whose first byte the thread is.
        pub(crate) fn return_from_function(&mut self, memory: &dyn TraceeMemory) -> Option<()> {
            self.0.rip = memory.number(self.0.rsp)?;
            self.0.rsp = self.0.rsp.wrapping_add(8);
            Some(())
        }

        /// As of a thread that is about to make this system call, from where it made the one before; None where it made that as a
        /// 32-bit program.
        pub(crate) fn about_to_call(self, number: u64, [one, two]: [u64; 2]) -> Option<Self> {
            let at = self.0.rip.wrapping_sub(SYSTEM_CALL.len() as u64);
            let [three, four, five, six] = [self.0.rdx, self.0.r10, self.0.r8, self.0.r9];
            self.calling(at, number, [one, two, three, four, five, six])
        }

        /// As of a thread that is about to make this system call by the instruction at an address; None where it is of a 32-bit program.
        pub(crate) fn calling(mut self, at: u64, number: u64, arguments: [u64; 6]) -> Option<Self> {
            if self.0.cs != USER_CODE {
                return None;
            }
            self.0.rip = at;
            // No call is to be made again in its place.
            self.0.orig_rax = u64::MAX;
            self.0.rax = number;
            [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10, self.0.r8, self.0.r9] = arguments;
            Some(self)
        }

        /// Address of the instruction that the thread executes next.
        pub(crate) fn program_counter(self) -> u64 {
            self.0.rip
        }

        /// Top of the stack.
        pub(crate) fn stack(self) -> u64 {
            self.0.rsp
        }

        /// Result of the last system call.
        pub(crate) fn result(self) -> i64 {
            self.0.rax as i64
        }

        /// The same for a thread that stands at a signal, or was interrupted, if tracing alone ended its system call: the call begins again, unless
        /// a handler runs. `is_filtered`: whether a seccomp filter may forbid `restart_syscall`, by which the kernel does so.
        pub(crate) fn calling_again(mut self, is_filtered: impl FnOnce() -> bool) -> Option<Self> {
            // As the kernel has it (include/linux/errno.h); a handler makes it EINTR.
            const ERESTARTNOHAND: i64 = -514;
            const ERESTART_RESTARTBLOCK: i64 = -516;
            const EINTR: i64 = -(libc::EINTR as i64);
            let call = self.0.orig_rax as i64;
            let again = match self.0.rax as i64 {
                EINTR => INTERRUPTED.contains(&call),
                ERESTART_RESTARTBLOCK => is_filtered(),
                _ => false,
            };
            (call >= 0 && again).then(|| {
                self.0.rax = ERESTARTNOHAND as u64;
                self
            })
        }

        /// Those of a stopped thread that is to do something else first: the instruction of a system call that our stop has ended is executed
        /// again, as the kernel would have it do where nothing comes between.
        pub(crate) fn calling_by_itself(
            registers: libc::user_regs_struct,
            is_filtered: bool,
        ) -> libc::user_regs_struct {
            // As the kernel has it (include/linux/errno.h).
            const ERESTARTSYS: i64 = -512;
            const ERESTARTNOINTR: i64 = -513;
            const ERESTARTNOHAND: i64 = -514;
            const ERESTART_RESTARTBLOCK: i64 = -516;
            let mut registers = Self(registers).calling_again(|| is_filtered).unwrap_or(Self(registers)).0;
            if registers.orig_rax as i64 >= 0 {
                let call = match registers.rax as i64 {
                    ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => Some(registers.orig_rax),
                    ERESTART_RESTARTBLOCK => Some(libc::SYS_restart_syscall as u64),
                    _ => None,
                };
                if let Some(call) = call {
                    registers.rax = call;
                    registers.rip -= SYSTEM_CALL.len() as u64;
                }
            }
            registers
        }

        /// The same for a thread whose process a signal stops, if that has ended its system call, as it does untraced: no later stop begins it again.
        pub(crate) fn called(mut self) -> Option<Self> {
            const NONE: u64 = u64::MAX;
            let ended = self.0.orig_rax as i64 >= 0 && self.0.rax as i64 == -(libc::EINTR as i64);
            ended.then(|| {
                self.0.orig_rax = NONE;
                self
            })
        }

        pub(crate) fn system_call(self) -> SystemCall {
            const ENOSYS: u64 = 38;
            SystemCall {
                number: self.0.orig_rax,
                arguments: [self.0.rdi, self.0.rsi, self.0.rdx],
                ended: self.0.rax != ENOSYS.wrapping_neg(),
            }
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ARCH, ISA, SYSTEM_CALL, TRAP};

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::{Registers, SystemCall, TraceeMemory};
    use nix::errno::Errno;
    use nix::unistd::Pid;
    pub(crate) use sediment_core::isa::AARCH64 as ISA;

    /// Architecture as `uname -m` spells it.
    pub(crate) const ARCH: &str = "aarch64";
    /// `brk #0`.
    pub(crate) const TRAP: [u8; 4] = [0x00, 0x00, 0x20, 0xd4];
    /// `svc #0`.
    pub(crate) const SYSTEM_CALL: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];

    impl Registers {
        /// Address of the breakpoint that stopped the thread: `brk` was not executed.
        pub(crate) fn trap_address(self) -> u64 {
            self.0.pc
        }

        /// Sets the thread to this address, and nothing else.
        pub(crate) fn go_to(mut self, thread: Pid, address: u64) -> Result<(), Errno> {
            self.0.pc = address;
            self.put(thread)
        }

        /// Where the function returns to at whose first byte the thread is.
        pub(crate) fn return_address(self, _: &dyn TraceeMemory) -> Option<u64> {
            Some(self.0.regs[30])
        }

        /// Returns from the function at whose first byte the thread is.
        pub(crate) fn return_from_function(&mut self, _: &dyn TraceeMemory) -> Option<()> {
            self.0.pc = self.0.regs[30];
            Some(())
        }

        /// As of a thread that is about to make this system call, from where it made the one before.
        pub(crate) fn about_to_call(self, number: u64, [one, two]: [u64; 2]) -> Option<Self> {
            let at = self.0.pc.wrapping_sub(SYSTEM_CALL.len() as u64);
            let [_, _, three, four, five, six, ..] = self.0.regs;
            self.calling(at, number, [one, two, three, four, five, six])
        }

        /// As of a thread that is about to make this system call by the instruction at an address.
        pub(crate) fn calling(mut self, at: u64, number: u64, arguments: [u64; 6]) -> Option<Self> {
            self.0.pc = at;
            self.0.regs[8] = number;
            self.0.regs[..arguments.len()].copy_from_slice(&arguments);
            Some(self)
        }

        /// Address of the instruction that the thread executes next.
        pub(crate) fn program_counter(self) -> u64 {
            self.0.pc
        }

        /// Top of the stack.
        pub(crate) fn stack(self) -> u64 {
            self.0.sp
        }

        /// Result of the last system call.
        pub(crate) fn result(self) -> i64 {
            self.0.regs[0] as i64
        }

        /// None: nothing begins a call again.
        pub(crate) fn called(self) -> Option<Self> {
            None
        }

        /// None: the kernel decides before it stops the thread whether a call begins again, and keeps the first argument to itself.
        pub(crate) fn calling_again(self, _: impl FnOnce() -> bool) -> Option<Self> {
            None
        }

        pub(crate) fn system_call(self) -> SystemCall {
            SystemCall {
                number: self.0.regs[8],
                arguments: [self.0.regs[0], self.0.regs[1], self.0.regs[2]],
                // While the thread is stopped, this register says which end of the call it is at.
                ended: self.0.regs[7] == 1,
            }
        }
    }
}
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{ARCH, ISA, SYSTEM_CALL, TRAP};

/// Puts a breakpoint in the place of an instruction, or the other way round, if that stands there now; whether it has done so.
pub(crate) fn replace(
    memory: &dyn TraceeMemory,
    address: u64,
    before: [u8; TRAP.len()],
    after: [u8; TRAP.len()],
) -> bool {
    let mut now = [0; TRAP.len()];
    memory.read(address, &mut now).is_ok() && now == before && memory.write(address, &after).is_ok()
}

/// Puts an instruction back in the place of a breakpoint, if that stands there now; whether it has done so.
pub(crate) fn restore(memory: &dyn TraceeMemory, address: u64, original: [u8; TRAP.len()]) -> bool {
    let mut now = [0; TRAP.len()];
    memory.read(address, &mut now).is_ok() && now == TRAP && memory.restore(address, &original).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_becomes_writable_is_of_whole_pages() {
        let writable = |arguments| SystemCall { number: 0, arguments, ended: false }.makes_writable();
        let [read, write] = [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE].map(|rights| rights as u64);
        assert_eq!(writable([0x11000, 10, write]), Some(0x11000..0x20000));
        assert_eq!(writable([0x11000, 10, read]), None);
        assert_eq!(writable([libc::SYS_mprotect as u64, 0x11000, 0x1000]), Some(0x11000..0x20000));
        assert_eq!(writable([0x11000, u64::MAX, write]), Some(0x11000..u64::MAX));
    }
}
