// SPDX-License-Identifier: MIT OR Apache-2.0
//! New threads and processes, and processes whose memory may not be read.

use super::{Ending, TaskState, Tracer, ignore_gone, unreadable};
use crate::tracing::system::{Resume, Status};
use nix::errno::Errno;
use nix::unistd::Pid;
use sediment_core::error::Result;
use sediment_core::skipped::Reason;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Instant;

impl Tracer<'_> {
    /// Handles a new thread or process that a thread has made.
    pub(super) fn has_a_child(&mut self, parent: Pid) -> Result<()> {
        let child = ignore_gone(self.kernel.event_about(parent))?;
        self.kernel.part();
        let Some(child) = child else { return Ok(()) };
        self.kernel.widen(child);
        if self.tasks.was_abandoned(child) {
            return Ok(());
        }
        let Some(task) = self.tasks.get(parent).copied() else { return Ok(()) };
        let jumps = self.spaces.get(&task.space).and_then(|space| space.trampolines.clone());
        self.settle(parent);
        let Some(space) = self.spaces.get(&task.space) else { return Ok(()) };
        let shares = ignore_gone(self.kernel.registers(parent))?
            .is_some_and(|registers| registers.system_call().shares_memory(&*space.memory));
        let process = self.kernel.process_of(child).unwrap_or(child);
        let (mut state, leaves) = (task.state, self.is_to_leave(task));
        let id = if shares || process == task.process {
            task.space
        } else {
            match space.forked(child) {
                Ok(mut copy) => {
                    copy.trampolines = jumps;
                    copy.settle(true);
                    if let Some(windows) = &self.windows {
                        windows.leave(task.space, &mut copy, &self.modules);
                    }
                    let found = self.log.blocks_since(&mut copy.known_blocks);
                    copy.disarm(&self.modules, &found);
                    if let Some(space) = self.spaces.get_mut(&task.space) {
                        space.known_blocks = copy.known_blocks;
                        space.disarm(&self.modules, &found);
                    }
                    if leaves {
                        copy.let_go(&self.modules, true);
                        state = TaskState::Leaving;
                    } else if copy.may_have_breakpoints_left() {
                        copy.let_go(&self.modules, true);
                    }
                    let id = self.add_space(copy);
                    if self.unarmed.contains(&task.space) {
                        self.unarmed.insert(id);
                    } else if !leaves && self.is_to_be_armed(task.space) {
                        self.to_arm.push_back(id);
                    }
                    id
                }
                // It was killed before it ran.
                Err(_) if self.kernel.has_ended(child) => return Ok(()),
                Err(error) => {
                    let mut copy = space.copied_to(child, Rc::clone(&space.memory));
                    copy.trampolines = jumps;
                    self.unreadable.insert(child, copy);
                    if self.tasks.is_born(child) {
                        self.free_unreadable(child);
                    }
                    return Err(unreadable(error));
                }
            }
        };
        // It does not have to join, because it has stopped at its beginning.
        let state = if state == TaskState::Joining { TaskState::Following } else { state };
        let stopped = self.tasks.announced(child, process, id, state);
        // A new process calls exec after a few system calls, or almost never.
        if process != task.process {
            self.look_at_system_calls(child);
        }
        if stopped {
            self.go_on(child, 0);
        }
        Ok(())
    }

    /// Handles a thread that is about to end. The last thread of a process is detached first, so that its parent is
    /// notified as soon as it can wait for the process. A pidfd of a traced process is notified while the parent cannot
    /// wait for it yet.
    pub(super) fn ends(&mut self, thread: Pid) {
        let process = self.tasks.get(thread).map(|task| task.process);
        let is_last =
            process.is_some_and(|process| process == thread && self.tasks.of_process(process).len() == 1);
        let ending = match self.kernel.end_of(thread).ok().filter(|_| is_last) {
            Some(Status::Exited(code)) => Ending::Exited(code),
            Some(Status::Killed(signal)) => Ending::Killed(signal),
            _ => {
                self.tasks.joined(thread);
                // If it was killed meanwhile, its end is reported later.
                let _ = self.kernel.resume(thread, Resume::Run, 0);
                return;
            }
        };
        let space = self.tasks.get(thread).map(|task| task.space);
        if let Some(space) = space.and_then(|id| self.spaces.get_mut(&id)) {
            space.look_at_clock();
        }
        if self.kernel.resume(thread, Resume::Detach, 0) != Err(Errno::ESRCH) {
            self.ended(thread, ending);
        }
    }

    /// Removes the breakpoints from a new process that may not be read, now that it has stopped, and detaches it.
    pub(super) fn free_unreadable(&mut self, child: Pid) {
        let Some(mut copy) = self.unreadable.remove(&child) else { return };
        let freed = self.kernel.force_memory(child).and_then(|memory| {
            copy.memory = memory;
            copy.settle(false);
            copy.let_go(&self.modules, false);
            self.kernel.close_memory(child)
        });
        if let Err(error) = freed {
            self.modules.skipped.add(Reason::UnfreedProcess, 0, error.to_string());
        }
        self.tasks.forget(child);
        let _ = self.kernel.resume(child, Resume::Detach, 0);
    }

    /// Handles children whose parents were killed before reporting them.
    pub(super) fn adopt_orphans(&mut self) {
        let Some(before) = Instant::now().checked_sub(self.orphan_timeout) else { return };
        for child in self.tasks.orphans(before) {
            self.kernel.widen(child);
            let process = self.kernel.process_of(child).unwrap_or(child);
            let kin =
                self.tasks.of_process(process).first().and_then(|thread| self.tasks.get(*thread)).copied();
            let space = match kin {
                Some(task) => task.space,
                None => match self.new_space(process, child) {
                    Ok(mut space) => {
                        if let Err(error) = space.find_breakpoints(child, &mut self.modules) {
                            self.modules.skipped.add(Reason::LeftProcess, 0, error.to_string());
                        }
                        space.let_go(&self.modules, false);
                        self.add_space(space)
                    }
                    Err(error) => {
                        self.modules.skipped.add(Reason::LeftProcess, 0, error.to_string());
                        self.tasks.abandon(child);
                        let _ = self.kernel.resume(child, Resume::Detach, 0);
                        continue;
                    }
                },
            };
            let leaves = kin.is_none_or(|task| task.state == TaskState::Leaving);
            self.tasks.abandon(child);
            self.tasks.add(
                child,
                process,
                space,
                if leaves { TaskState::Leaving } else { TaskState::Following },
            );
            self.go_on(child, 0);
        }
    }

    /// Detaches processes whose memory can no longer be opened. Breakpoints could not be removed from their future
    /// children.
    pub(super) fn let_unreadable_go(&mut self) {
        let spaces = if self.is_limited { self.tasks.spaces() } else { BTreeSet::new() };
        for id in spaces {
            let thread = self.tasks.of_space(id).into_iter().find(|thread| !self.kernel.has_ended(*thread));
            let Some(Err(error)) = thread.map(|thread| self.kernel.memory(thread)) else { continue };
            if error.kind() == io::ErrorKind::PermissionDenied {
                self.give_up(id, &unreadable(error));
            }
        }
    }
}
