// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences between processors: the breakpoint instruction, the program counter after it, and the return address
//! of a function.
//!
//! aarch64 was tested only in a virtual machine, with `scripts/prove aarch64`.

use super::memory::TraceeMemory;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::ops::Range;

/// Registers of a stopped thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers(libc::user_regs_struct);

/// A system call at its beginning or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SystemCall {
    /// Number of the system call.
    pub(crate) number: u64,
    /// Its first three arguments.
    pub(crate) arguments: [u64; 3],
    /// True once it has ended.
    pub(crate) ended: bool,
}

impl SystemCall {
    /// Returns the memory that a thread makes writable if it is at `mprotect`, `pkey_mprotect` or `syscall` of the C
    /// library with these arguments.
    pub(crate) fn makes_writable(self) -> Option<Range<u64>> {
        const LARGEST_PAGE: u64 = 64 << 10;
        let [first, second, third] = self.arguments;
        let calls = [libc::SYS_mprotect, libc::SYS_pkey_mprotect].contains(&(first as i64));
        // The third argument of the system call is the fourth argument of `syscall`.
        let (start, length, writes) =
            if calls { (second, third, true) } else { (first, second, third & libc::PROT_WRITE as u64 != 0) };
        // The kernel rounds up to its pages.
        writes.then(|| {
            start..start.saturating_add(length).checked_next_multiple_of(LARGEST_PAGE).unwrap_or(u64::MAX)
        })
    }

    /// Returns the address of the action that a thread sets for a signal if it is at `sigaction` or `syscall` of the C
    /// library with these arguments.
    pub(crate) fn action_of(self, signal: i32) -> Option<u64> {
        let [first, second, third] = self.arguments;
        let calls = first as i64 == libc::SYS_rt_sigaction;
        let (of, action) = if calls { (second, third) } else { (first, second) };
        (of as i32 == signal && action != 0).then_some(action)
    }

    /// True if the system call may map code.
    pub(crate) fn maps_code(self) -> bool {
        let executable = self.arguments[2] & libc::PROT_EXEC as u64 != 0;
        executable && matches!(self.number as i64, libc::SYS_mmap | libc::SYS_mprotect)
    }

    /// Returns the address of the path if the system call executes a program.
    pub(crate) fn becomes(self) -> Option<u64> {
        match self.number as i64 {
            libc::SYS_execve => Some(self.arguments[0]),
            libc::SYS_execveat => Some(self.arguments[1]),
            _ => None,
        }
    }

    /// True if the system call may change who may read the memory of the process.
    pub(crate) fn changes_rights(self) -> bool {
        let user = [libc::SYS_setuid, libc::SYS_setreuid, libc::SYS_setresuid, libc::SYS_setfsuid];
        let group = [libc::SYS_setgid, libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setfsgid];
        let other =
            [libc::SYS_setgroups, libc::SYS_capset, libc::SYS_prctl, libc::SYS_unshare, libc::SYS_setns];
        let number = self.number as i64;
        user.contains(&number) || group.contains(&number) || other.contains(&number)
    }

    /// Returns the descriptor that the system call writes to, if it writes. splice is not included: its second end is
    /// the third argument.
    pub(crate) fn writes_to(self) -> Option<u64> {
        let files = [libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev];
        let others = [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendfile];
        let number = self.number as i64;
        (files.contains(&number) || others.contains(&number)).then_some(self.arguments[0])
    }

    /// For a system call that creates a process or thread: whether the new one shares the address space.
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

    /// System calls that end with EINTR if a thread is woken for no reason, as listed in signal(7), and newer ones. All
    /// of them can be repeated. Those from `read` on end so for sockets with a timeout, for inotify, and, in older
    /// kernels, for files in memory.
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
        /// Registers of a thread that is at this address, after this system call.
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

        /// Sets the thread's program counter, and no other register.
        pub(crate) fn go_to(self, thread: Pid, address: u64) -> Result<(), Errno> {
            let place = offset_of!(libc::user, regs) + offset_of!(libc::user_regs_struct, rip);
            ptrace::write_user(thread, place as ptrace::AddressType, address as i64)
        }

        /// Return address of the function whose first byte the thread is at.
        pub(crate) fn return_address(self, memory: &dyn TraceeMemory) -> Option<u64> {
            memory.number(self.0.rsp)
        }

        /// Returns from the function whose first byte the thread is at.
        pub(crate) fn return_from_function(&mut self, memory: &dyn TraceeMemory) -> Option<()> {
            self.0.rip = memory.number(self.0.rsp)?;
            self.0.rsp = self.0.rsp.wrapping_add(8);
            Some(())
        }

        /// Registers of a thread that is about to make this system call with the instruction of its last call; `None`
        /// if it made that call as a 32-bit program.
        pub(crate) fn about_to_call(self, number: u64, [one, two]: [u64; 2]) -> Option<Self> {
            let at = self.0.rip.wrapping_sub(SYSTEM_CALL.len() as u64);
            let [three, four, five, six] = [self.0.rdx, self.0.r10, self.0.r8, self.0.r9];
            self.calling(at, number, [one, two, three, four, five, six])
        }

        /// Registers of a thread that is about to make this system call with the instruction at this address; `None` in
        /// a 32-bit program.
        pub(crate) fn calling(mut self, at: u64, number: u64, arguments: [u64; 6]) -> Option<Self> {
            if self.0.cs != USER_CODE {
                return None;
            }
            self.0.rip = at;
            // The kernel must not restart another call instead.
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

        /// Registers of a thread that stopped at a signal or was interrupted, if tracing alone ended its system call:
        /// the call is restarted, unless a handler runs. `is_filtered` answers whether a seccomp filter may forbid
        /// `restart_syscall`, which the kernel uses for that.
        pub(crate) fn calling_again(mut self, is_filtered: impl FnOnce() -> bool) -> Option<Self> {
            // From the kernel's include/linux/errno.h; a handler turns it into EINTR.
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

        /// Registers of a stopped thread that must do something else first. If our stop has ended a system call, the
        /// thread executes the call's instruction again afterwards, as the kernel would arrange it by itself.
        pub(crate) fn calling_by_itself(
            registers: libc::user_regs_struct,
            is_filtered: bool,
        ) -> libc::user_regs_struct {
            // From the kernel's include/linux/errno.h.
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

        /// Registers of a thread whose process a signal stops, if that stop has ended its system call, as without
        /// tracing: no later stop restarts the call.
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
        /// Address of the breakpoint that stopped the thread: the program counter has not moved past `brk`.
        pub(crate) fn trap_address(self) -> u64 {
            self.0.pc
        }

        /// Sets the thread's program counter, and no other register.
        pub(crate) fn go_to(mut self, thread: Pid, address: u64) -> Result<(), Errno> {
            self.0.pc = address;
            self.put(thread)
        }

        /// Return address of the function whose first byte the thread is at.
        pub(crate) fn return_address(self, _: &dyn TraceeMemory) -> Option<u64> {
            Some(self.0.regs[30])
        }

        /// Returns from the function whose first byte the thread is at.
        pub(crate) fn return_from_function(&mut self, _: &dyn TraceeMemory) -> Option<()> {
            self.0.pc = self.0.regs[30];
            Some(())
        }

        /// Registers of a thread that is about to make this system call with the instruction of its last call.
        pub(crate) fn about_to_call(self, number: u64, [one, two]: [u64; 2]) -> Option<Self> {
            let at = self.0.pc.wrapping_sub(SYSTEM_CALL.len() as u64);
            let [_, _, three, four, five, six, ..] = self.0.regs;
            self.calling(at, number, [one, two, three, four, five, six])
        }

        /// Registers of a thread that is about to make this system call with the instruction at this address.
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

        /// `None`: no later stop restarts a call.
        pub(crate) fn called(self) -> Option<Self> {
            None
        }

        /// `None`: the kernel decides before it stops the thread whether a call is restarted, and does not show the
        /// first argument.
        pub(crate) fn calling_again(self, _: impl FnOnce() -> bool) -> Option<Self> {
            None
        }

        pub(crate) fn system_call(self) -> SystemCall {
            SystemCall {
                number: self.0.regs[8],
                arguments: [self.0.regs[0], self.0.regs[1], self.0.regs[2]],
                // While the thread is stopped, this register is 1 at the end of a call and 0 at its beginning.
                ended: self.0.regs[7] == 1,
            }
        }
    }
}
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{ARCH, ISA, SYSTEM_CALL, TRAP};

/// Replaces an instruction by a breakpoint, or the reverse, if the expected bytes are there. True if it was replaced.
pub(crate) fn replace(
    memory: &dyn TraceeMemory,
    address: u64,
    before: [u8; TRAP.len()],
    after: [u8; TRAP.len()],
) -> bool {
    let mut now = [0; TRAP.len()];
    memory.read(address, &mut now).is_ok() && now == before && memory.write(address, &after).is_ok()
}

/// Replaces a breakpoint by the original instruction, if the breakpoint is there. True if it was replaced.
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
