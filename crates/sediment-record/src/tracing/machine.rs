// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers and system calls of stopped threads, which differ between processors.

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;

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
    /// Returns the address of the path if the system call executes a program.
    pub(crate) fn becomes(self) -> Option<u64> {
        match self.number as i64 {
            libc::SYS_execve => Some(self.arguments[0]),
            libc::SYS_execveat => Some(self.arguments[1]),
            _ => None,
        }
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
    pub(crate) fn shares_memory(self, memory: &File) -> bool {
        let mut first = [0; 8];
        let flags = match self.number as i64 {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_vfork => return true,
            libc::SYS_clone => Some(self.arguments[0]),
            libc::SYS_clone3 => {
                memory.read_exact_at(&mut first, self.arguments[0]).ok().map(|()| u64::from_le_bytes(first))
            }
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
    use super::{Registers, SystemCall};
    use nix::libc;
    use std::fs::File;

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

    /// `syscall`.
    const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
    /// Segment of 64-bit code.
    const USER_CODE: u64 = 0x33;

    impl Registers {
        /// Registers of a thread that stopped at a signal or was interrupted, if tracing alone ended its system call:
        /// the call is restarted, unless a handler runs. `is_filtered` answers whether a seccomp filter may forbid
        /// `restart_syscall`, which the kernel uses for that.
        pub(crate) fn calling_again(mut self, is_filtered: impl FnOnce() -> bool) -> Option<Self> {
            // From the kernel's include/linux/errno.h; a handler turns it into EINTR.
            const ERESTARTNOHAND: i64 = -514;
            const ERESTART_RESTARTBLOCK: i64 = -516;
            const EINTR: i64 = -(libc::EINTR as i64);
            if self.0.cs != USER_CODE {
                return None;
            }
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
        pub(crate) fn calling_by_itself(self, is_filtered: bool) -> Self {
            // From the kernel's include/linux/errno.h.
            const ERESTARTSYS: i64 = -512;
            const ERESTARTNOINTR: i64 = -513;
            const ERESTARTNOHAND: i64 = -514;
            const ERESTART_RESTARTBLOCK: i64 = -516;
            let mut registers = self.calling_again(|| is_filtered).unwrap_or(self).0;
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
            Self(registers)
        }

        /// Registers of a thread that makes its last system call again; the first argument was lost.
        #[allow(dead_code, reason = "of AArch64")]
        pub(crate) fn repeating(mut self, first: u64) -> Self {
            (self.0.rip, self.0.rdi) = (self.0.rip.wrapping_sub(SYSTEM_CALL.len() as u64), first);
            self.0.rax = self.0.orig_rax;
            self
        }

        /// Address of the instruction that the thread executes next.
        pub(crate) fn program_counter(self) -> u64 {
            self.0.rip
        }

        /// The same registers after the thread has returned.
        pub(crate) fn returned(mut self) -> Self {
            self.0.rsp += 8;
            self
        }

        /// Top of the stack.
        pub(crate) fn stack(self) -> u64 {
            self.0.rsp
        }

        /// Result of the last system call.
        #[allow(dead_code, reason = "of AArch64")]
        pub(crate) fn result(self) -> i64 {
            self.0.rax as i64
        }

        /// The same registers, after which no system call is repeated.
        pub(crate) fn without_call(mut self) -> Self {
            self.0.orig_rax = u64::MAX;
            self
        }

        /// What the thread loses if it does something else first: 1 in a system call, which begins again, else 0.
        pub(crate) fn loses_by_leaving(self, _: &File) -> u8 {
            u8::from(self.0.orig_rax as i64 >= 0)
        }

        /// The same registers at another instruction.
        pub(crate) fn going_to(mut self, address: u64) -> Self {
            self.0.rip = address;
            self
        }

        /// The same registers before a call of another number.
        pub(crate) fn calling(mut self, number: u64) -> Self {
            self.0.rax = number;
            self
        }

        /// The same registers with another top of the stack.
        pub(crate) fn with_stack(mut self, address: u64) -> Self {
            self.0.rsp = address;
            self
        }

        /// Register in which the code that maps memory marks its success.
        pub(crate) fn mark(self) -> u64 {
            self.0.r15
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
#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::{Registers, SystemCall};
    use nix::libc;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    impl Registers {
        /// Registers of a thread that makes its last system call again; the first argument was lost.
        pub(crate) fn repeating(mut self, first: u64) -> Self {
            const SYSTEM_CALL: u64 = 4;
            (self.0.pc, self.0.regs[0]) = (self.0.pc.wrapping_sub(SYSTEM_CALL), first);
            self
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

        /// The same registers: before it stops the thread, the kernel takes it back to the call that it restarts.
        pub(crate) fn calling_by_itself(self, _: bool) -> Self {
            self
        }

        /// The same registers: the kernel has decided already.
        pub(crate) fn without_call(self) -> Self {
            self
        }

        /// What the thread loses if it does something else first: 1 before a system call, to which the kernel may have
        /// taken it back; 2 if that call sleeps, because it may sleep again for its whole time; else 0.
        pub(crate) fn loses_by_leaving(self, memory: &File) -> u8 {
            const CALL: [u8; 4] = 0xd400_0001u32.to_le_bytes(); // svc #0
            const SLEEP: [i64; 4] =
                [libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_futex, libc::SYS_restart_syscall];
            let mut bytes = [0; 4];
            let is_in_call = memory.read_exact_at(&mut bytes, self.0.pc).is_ok() && bytes == CALL;
            u8::from(is_in_call) + u8::from(is_in_call && SLEEP.contains(&(self.0.regs[8] as i64)))
        }

        /// The same registers at another instruction, which need not be a landing pad.
        pub(crate) fn going_to(mut self, address: u64) -> Self {
            /// Set after an indirect branch (BTYPE).
            const BRANCHED: u64 = 3 << 10;
            (self.0.pc, self.0.pstate) = (address, self.0.pstate & !BRANCHED);
            self
        }

        /// The same registers before a call of another number.
        pub(crate) fn calling(mut self, number: u64) -> Self {
            self.0.regs[8] = number;
            self
        }

        /// The same registers with another top of the stack.
        pub(crate) fn with_stack(mut self, address: u64) -> Self {
            self.0.sp = address;
            self
        }

        /// x0 to x30, the top of the stack, the address of the next instruction, and the state of the processor.
        pub(crate) fn all(self) -> ([u64; 31], u64, u64, u64) {
            (self.0.regs, self.0.sp, self.0.pc, self.0.pstate)
        }

        /// Register in which the code that maps memory marks its success.
        pub(crate) fn mark(self) -> u64 {
            self.0.regs[15]
        }

        /// `None`: no later stop restarts a call.
        pub(crate) fn called(self) -> Option<Self> {
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
