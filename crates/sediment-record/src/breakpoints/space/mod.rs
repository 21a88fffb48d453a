// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address space: its mapped files and its breakpoints.
//!
//! A breakpoint fires once and is then removed. A removed breakpoint stays known, because another thread may have
//! executed it just before: such a thread is set back to the breakpoint's address. A forked child has its parent's
//! breakpoints. A breakpoint that was removed between the fork and the report of the fork is still in the child, so
//! only the memory itself decides.
//!
//! Functions are identified by [`Site`], never by the index of an image: mappings come and go while sites are kept
//! elsewhere.

mod jumps;

use super::budget::{BreakpointPurpose, OwnPages, PageBudget};
use super::image::MappedImage;
use super::kernel::Kernel;
use super::modules::{Module, Modules, Site, base_name};
use super::trampolines::{self, Trampolines};
use crate::tracing::machine::{TRAP, replace, restore};
use crate::tracing::mappings::ProcessMapping;
use crate::tracing::memory::TraceeMemory;
use nix::unistd::Pid;
use sediment_core::skipped::Reason;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Age up to which a processor time is used if it need not be exact.
const FRESH: Duration = Duration::from_micros(500);

/// A breakpoint of the recorder itself, not at a recorded function.
#[derive(Debug, Clone, Copy)]
struct RecorderBreakpoint {
    address: u64,
    original: [u8; TRAP.len()],
    /// True while it is set; later, threads may still report it.
    stands: bool,
}

/// Kind of the breakpoint that a thread hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakpointHit {
    /// First byte of a function or block, hit for the first time since it was armed.
    Entry(Site),
    /// A breakpoint that was removed meanwhile, or is no longer needed.
    Removed,
    /// Function by which the dynamic linker reports mappings to debuggers; the breakpoint stays.
    Mapped,
}

/// An address space.
pub(super) struct AddressSpace {
    kernel: Rc<dyn Kernel>,
    /// A process that uses it.
    pub(super) process: Pid,
    pub(super) memory: Rc<dyn TraceeMemory>,
    /// Mapped images.
    pub(super) images: Vec<MappedImage>,
    /// Unmapped images whose times are not added yet.
    pub(super) gone: Vec<MappedImage>,
    /// Images whose addresses other memory now has; their code may have been moved there.
    moved: Vec<MappedImage>,
    pages: OwnPages,
    /// The program's first instruction, and the breakpoint there if the address does not belong to a function.
    entry: Option<(u64, Option<RecorderBreakpoint>)>,
    debug_state: Option<RecorderBreakpoint>,
    /// True while the dynamic linker runs before the program's first instruction.
    pub(super) loading: bool,
    /// True while all its threads are stopped and no other process shares its memory.
    pub(super) at_rest: bool,
    /// True if all breakpoints were removed, or are about to be, and no breakpoint is to be set again.
    let_go: bool,
    /// True if they were removed while all threads were stopped: copies have none.
    cleared: bool,
    /// Processor time of the process at the last read, in nanoseconds.
    pub(super) processor_time: u64,
    /// Processor time at the first read.
    began: u64,
    /// Time of the last occasional read.
    looked: Option<Instant>,
    /// Number of blocks, among all blocks found in any process, that were already considered for this space.
    pub(super) known_blocks: usize,
    /// True if the program has asked on which processors it may run, or may have asked.
    pub(super) knows_processors: bool,
    /// Trampolines, until the program creates another thread or process.
    pub(super) trampolines: Option<Trampolines>,
    /// True if the dynamic linker stops after it has mapped code.
    pub(super) hears_of_mappings: bool,
    /// Address of the program's first instruction, which has a breakpoint if there are trampolines.
    starts_at: Option<u64>,
}

impl AddressSpace {
    /// Opens the address space of a process through one of its threads; it has no breakpoints.
    pub(super) fn of(
        kernel: &Rc<dyn Kernel>,
        process: Pid,
        thread: Pid,
        budget: &Rc<PageBudget>,
    ) -> io::Result<Self> {
        Ok(Self {
            kernel: Rc::clone(kernel),
            process,
            memory: kernel.memory(thread)?,
            images: Vec::new(),
            gone: Vec::new(),
            moved: Vec::new(),
            pages: OwnPages::new(budget),
            entry: None,
            debug_state: None,
            loading: false,
            at_rest: false,
            let_go: false,
            cleared: false,
            processor_time: 0,
            began: 0,
            looked: None,
            known_blocks: 0,
            knows_processors: false,
            trampolines: None,
            hears_of_mappings: false,
            starts_at: None,
        })
    }

    /// Makes the copy that a forked child has.
    pub(super) fn forked(&self, child: Pid) -> io::Result<Self> {
        Ok(self.copied_to(child, self.kernel.memory(child)?))
    }

    /// Makes the copy in this memory of a forked child.
    pub(super) fn copied_to(&self, child: Pid, memory: Rc<dyn TraceeMemory>) -> Self {
        let mut images = self.images.clone();
        for (_, since) in images.iter_mut().flat_map(|image| &mut image.seen) {
            *since = 0;
        }
        Self {
            kernel: Rc::clone(&self.kernel),
            process: child,
            memory,
            images,
            gone: Vec::new(),
            moved: self.moved.clone(),
            pages: self.pages.of_copy(),
            entry: self.entry,
            debug_state: self.debug_state,
            loading: self.loading,
            at_rest: false,
            let_go: self.let_go,
            cleared: self.cleared,
            processor_time: 0,
            began: 0,
            looked: None,
            known_blocks: self.known_blocks,
            knows_processors: self.knows_processors,
            trampolines: None,
            hears_of_mappings: false,
            starts_at: None,
        }
    }

    /// Arms the files that a program has mapped at its start, and watches the dynamic linker until the program's first
    /// instruction.
    pub(super) fn begin(&mut self, modules: &mut Modules<'_>) -> io::Result<()> {
        const LINKER_BASE: u64 = 7;
        const ENTRY: u64 = 9;
        let dynamic = self.kernel.auxiliary(self.process, LINKER_BASE).is_some_and(|base| base != 0);
        let entry = self.kernel.auxiliary(self.process, ENTRY).filter(|_| dynamic);
        if let Some(entry) = entry.filter(|_| modules.want_trampolines()) {
            self.lay_trampolines(modules, entry);
        }
        self.at_rest = true;
        let looked = self.look_at_mappings(self.process, modules);
        self.at_rest = false;
        self.hear_of_mappings();
        if self.trampolines.is_some() && !self.hears_of_writable_code(modules) {
            // No function has run yet, so there are no notes.
            self.settle(true);
        }
        looked?;
        if let Some(address) = entry {
            let function =
                self.find(modules, address).is_some_and(|(image, entry)| self.images[image].is_armed(entry));
            let watch = if function { None } else { self.watch(modules, address) };
            self.loading = function || watch.is_some();
            self.entry = Some((address, watch));
        }
        Ok(())
    }

    /// Sets a breakpoint in the code of an image, at an address that is not a function's.
    fn watch(&mut self, modules: &Modules<'_>, address: u64) -> Option<RecorderBreakpoint> {
        let image = self.images.iter().find(|image| image.is_settable(address) && !self.let_go)?;
        let inside = address.wrapping_sub(image.bias);
        let expected = modules.get(image.module).bytes_at(inside)?.first_chunk::<{ TRAP.len() }>()?;
        let mut original = [0; TRAP.len()];
        self.memory.read(address, &mut original).ok()?;
        if original != *expected || original == TRAP || !self.pages.has_room(address, BreakpointPurpose::Rate)
        {
            return None;
        }
        if !replace(&*self.memory, address, original, TRAP) {
            return None;
        }
        self.pages.wrote(address);
        Some(RecorderBreakpoint { address, original, stands: true })
    }

    /// Reads the current mappings as a thread of the process sees them: arms new files, forgets unmapped ones.
    pub(super) fn look_at_mappings(&mut self, thread: Pid, modules: &mut Modules<'_>) -> io::Result<()> {
        self.arrange_images(thread, modules, |space, mut image, modules| {
            space.arm_all(&mut image, modules);
            space.images.push(image);
        })?;
        let image = self.images.iter().find(|image| modules.get(image.module).debug_state().is_some());
        if let (None, Some(image)) = (self.debug_state, image) {
            let address = modules.get(image.module).debug_state();
            let address = address.map(|address| address.wrapping_add(image.bias));
            self.debug_state = address.and_then(|address| self.watch(modules, address));
        }
        Ok(())
    }

    /// Arms the file whose code a thread has just mapped at this address, as [`Self::look_at_mappings`] does. Returns
    /// `None` and does nothing if there is no file, or if it is known already.
    pub(super) fn arm_mapped(&mut self, thread: Pid, address: u64, modules: &mut Modules<'_>) -> Option<()> {
        let kernel = Rc::clone(&self.kernel);
        let mapping = kernel.mapping_at(thread, address).ok()??;
        if !mapping.executable || self.images.iter().any(|image| image.holds(address)) {
            return None;
        }
        let module = modules.of(&mapping, || kernel.content(thread, &mapping))?;
        let length = mapping.range.end - mapping.range.start;
        let first = modules.get(module).address_of_mapping(mapping.offset, length)?;
        let bias = mapping.range.start.wrapping_sub(first);
        if self.images.iter().any(|image| (image.module, image.bias) == (module, bias)) {
            return None;
        }
        let mut mapped = Mapped::of(module, bias);
        mapped.add(&mapping);
        let mut image = mapped.image(modules);
        self.arm_all(&mut image, modules);
        self.images.push(image);
        Some(())
    }

    /// Finds the breakpoints in a process of unknown origin, which is a copy of one that has ended.
    pub(super) fn find_breakpoints(&mut self, thread: Pid, modules: &mut Modules<'_>) -> io::Result<()> {
        self.arrange_images(thread, modules, |space, mut image, modules| {
            let module = modules.get(image.module);
            image.find_set(module, &*space.memory);
            space.restore_jumps(&image, modules);
            let place = module.debug_state().map(|address| address.wrapping_add(image.bias));
            let watch = place.and_then(|address| space.watch_that_stands(modules, &image, address));
            space.debug_state = space.debug_state.or(watch);
            space.images.push(image);
        })?;
        const ENTRY: u64 = 9;
        let entry = self.kernel.auxiliary(self.process, ENTRY);
        let image =
            entry.and_then(|address| Some((address, self.images.iter().find(|image| image.holds(address))?)));
        self.entry = image.map(|(address, image)| (address, self.watch_that_stands(modules, image, address)));
        Ok(())
    }

    fn watch_that_stands(
        &self,
        modules: &Modules<'_>,
        image: &MappedImage,
        address: u64,
    ) -> Option<RecorderBreakpoint> {
        let module = modules.get(image.module);
        let inside = address.wrapping_sub(image.bias);
        let original = *module.bytes_at(inside)?.first_chunk::<{ TRAP.len() }>()?;
        let mut now = [0; TRAP.len()];
        self.memory.read(address, &mut now).ok()?;
        let stands = now == TRAP && original != TRAP && module.entry_at(inside).is_none();
        stands.then_some(RecorderBreakpoint { address, original, stands })
    }

    /// Updates the images to the current mappings; returns the new ones.
    fn arrange_images(
        &mut self,
        thread: Pid,
        modules: &mut Modules<'_>,
        mut new: impl FnMut(&mut Self, MappedImage, &mut Modules<'_>),
    ) -> io::Result<()> {
        let kernel = Rc::clone(&self.kernel);
        let mappings = kernel.mappings(thread)?;
        let mut there: Vec<Mapped> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.path != trampolines::SHOWN) {
            let Some(module) = modules.of(mapping, || kernel.content(thread, mapping)) else { continue };
            let length = mapping.range.end - mapping.range.start;
            let Some(address) = modules.get(module).address_of_mapping(mapping.offset, length) else {
                continue;
            };
            let bias = mapping.range.start.wrapping_sub(address);
            let known = there.iter().position(|mapped| (mapped.module, mapped.bias) == (module, bias));
            let known = known.unwrap_or_else(|| {
                there.push(Mapped::of(module, bias));
                there.len() - 1
            });
            there[known].add(mapping);
        }
        let mut before = std::mem::take(&mut self.images);
        for Mapped { module, bias, executable, settable } in there {
            let known = before.iter().position(|image| (image.module, image.bias) == (module, bias));
            if let Some(known) = known {
                let mut image = before.swap_remove(known);
                image.is_mapped_at(settable, &executable);
                self.images.push(image);
            } else if !executable.is_empty() {
                let image = Mapped { module, bias, executable, settable }.image(modules);
                new(self, image, modules);
            }
        }
        // Other memory at the address of a former image may hold its code with our breakpoints: some programs move
        // themselves to huge pages.
        self.moved.clear();
        for image in before.iter().filter(|image| image.is_readable(&*self.memory)) {
            let mut image = image.clone();
            image.disarm_copy(modules.get(image.module), &*self.memory, &mut self.pages);
            self.moved.push(image);
        }
        self.gone.append(&mut before);
        Ok(())
    }

    /// Sets a breakpoint at every function of an image, unless its memory differs from the file.
    fn arm_all(&mut self, image: &mut MappedImage, modules: &mut Modules<'_>) {
        let module = modules.get(image.module);
        if self.let_go || module.entries.is_empty() {
            return;
        }
        let name = base_name(&module.path).to_owned();
        let (agrees, made) = if self.at_rest {
            self.make_trampolines(image, module)
        } else {
            (image.agrees(module, &*self.memory).then_some(false), Vec::new())
        };
        if agrees != Some(true) {
            self.leave_trampolines(&made);
        }
        let missing = match agrees {
            None => {
                modules.skipped.add(Reason::ChangedCode, 0, &name);
                return;
            }
            Some(true) => self.arm_at_rest(image, module, &made),
            Some(false) => {
                let entries = (0..module.entries.len()).filter(|entry| module.entries[*entry].is_function);
                let purpose = (&mut self.pages, BreakpointPurpose::FirstUse);
                image.arm(module, &*self.memory, purpose, entries, |_| {})
            }
        };
        modules.skipped.add_many(Reason::FunctionBeyondBudget, missing as u64, 0, &name);
    }

    /// Finds the image and entry whose first byte is at this address.
    fn find(&self, modules: &Modules<'_>, address: u64) -> Option<(usize, usize)> {
        self.images
            .iter()
            .enumerate()
            .find_map(|(index, image)| Some((index, image.entry_at(modules.get(image.module), address)?)))
    }

    /// Returns the file, and the address in it, for an address in memory.
    pub(super) fn place(&self, address: u64) -> Option<(u32, u64)> {
        let image = self.images.iter().find(|image| image.holds(address))?;
        Some((image.module, address.wrapping_sub(image.bias)))
    }

    /// Removes the breakpoint at this address and returns its kind; `None` if it is not ours.
    pub(super) fn meet(&mut self, modules: &Modules<'_>, address: u64) -> Option<BreakpointHit> {
        if let Some(watch) = self.debug_state.filter(|watch| watch.address == address) {
            if watch.stands {
                return Some(BreakpointHit::Mapped);
            }
            self.restore(watch);
            return Some(BreakpointHit::Removed);
        }
        if let Some((_, watch)) = self.entry.filter(|(entry, _)| *entry == address) {
            self.loading = false;
            if let Some(watch) = watch {
                self.restore(watch);
                return Some(BreakpointHit::Removed);
            }
        }
        let stands = self.stands(address);
        let Self { images, moved, memory, pages, .. } = self;
        for image in images.iter_mut() {
            let module = modules.get(image.module);
            let Some(entry) = image.entry_at(module, address) else { continue };
            // The processor executed it, so it was set; another thread may have caused its removal since.
            if stands {
                image.put_back(module, &**memory, pages, entry);
            }
            let site = Site { module: image.module, entry: entry as u32 };
            return Some(if image.met(entry) { BreakpointHit::Entry(site) } else { BreakpointHit::Removed });
        }
        for image in moved.iter() {
            let module = modules.get(image.module);
            let Some(entry) = image.entry_at(module, address) else { continue };
            if image.is_copy_at(module, &**memory, entry) {
                if stands {
                    image.put_back(module, &**memory, pages, entry);
                }
                return Some(BreakpointHit::Removed);
            }
        }
        None
    }

    /// True if a breakpoint instruction is at this address.
    fn stands(&self, address: u64) -> bool {
        let mut now = [0; TRAP.len()];
        self.memory.read(address, &mut now).is_ok() && now == TRAP
    }

    /// Restores the bytes under a breakpoint, if it is set.
    fn restore(&mut self, watch: RecorderBreakpoint) {
        if restore(&*self.memory, watch.address, watch.original) {
            self.pages.wrote(watch.address);
        }
    }

    /// True if the program must hit a breakpoint before it can ask on which processors it may run.
    pub(super) fn hides_processors(&self, modules: &Modules<'_>) -> bool {
        let mut known = self.loading;
        for image in &self.images {
            let module = modules.get(image.module);
            let told = module.tell_processors().map(|entry| entry.is_some_and(|entry| image.is_armed(entry)));
            let told: Vec<bool> = told.collect();
            if module.calls_kernel() || told.contains(&false) {
                return false;
            }
            known |= !told.is_empty();
        }
        known && !self.knows_processors
    }

    /// Starts counting processor time.
    pub(super) fn start_clock(&mut self) {
        self.look_at_clock();
        self.began = self.processor_time;
    }

    /// Processor time of the process since it was first followed, in nanoseconds.
    pub(super) fn worked(&self) -> u64 {
        self.processor_time - self.began
    }

    /// Reads the processor time of the process. For an ended process, the last value stays.
    pub(super) fn look_at_clock(&mut self) {
        if let Some(time) = self.kernel.processor_time(self.process) {
            self.processor_time = self.processor_time.max(time);
        }
    }

    /// As [`Self::look_at_clock`], unless it was just read.
    pub(super) fn look_at_clock_now_and_then(&mut self) {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now.duration_since(looked) >= FRESH) {
            self.looked = Some(now);
            self.look_at_clock();
        }
    }

    /// Notes that a function has run.
    pub(super) fn saw(&mut self, site: Site) {
        let now = self.processor_time;
        if let Some(image) = self.images.iter_mut().find(|image| image.module == site.module) {
            image.seen.push((site.entry, now));
        }
    }

    /// Functions that have run, grouped by file.
    pub(super) fn seen(&self) -> impl Iterator<Item = Site> {
        self.images.iter().flat_map(|image| {
            let module = image.module;
            image.seen.iter().map(move |(entry, _)| Site { module, entry: *entry })
        })
    }

    /// Sets breakpoints again at these ascending functions, if their files are mapped. Returns the functions that have
    /// one afterwards.
    pub(super) fn arm_again(&mut self, modules: &Modules<'_>, sites: &BTreeSet<Site>) -> BTreeSet<Site> {
        let mut armed = BTreeSet::new();
        let Self { images, memory, pages, .. } = self;
        for image in images.iter_mut().filter(|_| !self.let_go) {
            let module = image.module;
            let entries = sites.range(Site { module, entry: 0 }..=Site { module, entry: u32::MAX });
            let entries = entries.map(|site| site.entry as usize);
            image.arm(modules.get(module), &**memory, (pages, BreakpointPurpose::Rate), entries, |entry| {
                armed.insert(Site { module, entry: entry as u32 });
            });
        }
        armed
    }

    /// Sets breakpoints at the ascending blocks of a function that no process has hit yet. Returns the number of
    /// missing ones if the budget is used up.
    pub(super) fn arm_blocks(&mut self, modules: &Modules<'_>, module: u32, blocks: &[u32]) -> usize {
        let Self { images, memory, pages, .. } = self;
        let images = images.iter_mut().filter(|image| image.module == module && !self.let_go);
        images
            .map(|image| {
                let blocks = blocks.iter().map(|entry| *entry as usize);
                let blocks: Vec<usize> = blocks.filter(|entry| !image.is_armed(*entry)).collect();
                image.arm(
                    modules.get(module),
                    &**memory,
                    (pages, BreakpointPurpose::FirstUse),
                    blocks,
                    |_| {},
                )
            })
            .sum()
    }

    /// Removes breakpoints at functions if they are still there, unless further calls must be seen.
    pub(super) fn disarm(&mut self, modules: &Modules<'_>, sites: &BTreeSet<Site>) {
        let Self { images, memory, pages, kernel, process, .. } = self;
        let mapped = MappedNow::of(&**kernel, *process, modules);
        for image in images {
            let module = image.module;
            let entries = sites.range(Site { module, entry: 0 }..=Site { module, entry: u32::MAX });
            let entries = entries.filter(|site| !modules.get(module).is_watched(site.entry));
            let entries: Vec<usize> =
                entries.map(|site| site.entry as usize).filter(|entry| image.is_armed(*entry)).collect();
            let is_ours = |address| mapped.may_have(module, address);
            image.disarm(modules.get(module), &**memory, pages, &is_ours, entries);
        }
    }

    /// Removes breakpoints from memory that a stopped thread is about to write to. No breakpoint is set there again.
    pub(super) fn leave_to_program(&mut self, modules: &Modules<'_>, written: &Range<u64>) {
        let Self { images, memory, pages, .. } = self;
        for image in images {
            image.leave_to_program(modules.get(image.module), &**memory, pages, written);
        }
    }

    /// Prevents further breakpoints.
    pub(super) fn arms_no_more(&mut self) {
        self.let_go = true;
    }

    /// True if further breakpoints are prevented.
    pub(super) fn arms_nothing(&self) -> bool {
        self.let_go
    }

    /// True if further breakpoints are prevented, but copied ones may still be there.
    pub(super) fn may_have_breakpoints_left(&self) -> bool {
        self.let_go && !self.cleared && !self.was_never_armed()
    }

    /// Files of which the process has mapped code.
    pub(super) fn code(&self, modules: &mut Modules<'_>) -> Vec<u32> {
        let mappings = self.kernel.mappings(self.process).unwrap_or_default();
        let code = mappings.iter().filter(|mapping| mapping.executable);
        code.filter_map(|mapping| modules.of(mapping, || self.kernel.content(self.process, mapping)))
            .collect()
    }

    /// Reads the files that a thread of the process has mapped, unless they are known already.
    pub(super) fn read_files(&self, thread: Pid, modules: &mut Modules<'_>) {
        let mappings = self.kernel.mappings(thread).unwrap_or_default();
        for mapping in mappings.iter().filter(|mapping| mapping.path != trampolines::SHOWN) {
            modules.of(mapping, || self.kernel.content(thread, mapping));
        }
    }

    /// True if no breakpoint was ever set.
    pub(super) fn was_never_armed(&self) -> bool {
        let watches = self.entry.is_some() || self.debug_state.is_some();
        self.images.is_empty() && self.moved.is_empty() && !watches && self.trampolines.is_none()
    }

    /// Removes all breakpoints and prevents further ones. All stay known: threads may have executed them just before.
    /// `at_rest`: all threads here are stopped.
    pub(super) fn let_go(&mut self, modules: &Modules<'_>, at_rest: bool) {
        self.arms_no_more();
        self.cleared |= at_rest;
        let Self { images, moved, memory, pages, kernel, process, .. } = self;
        let mapped = MappedNow::of(&**kernel, *process, modules);
        for image in images {
            let (id, module) = (image.module, modules.get(image.module));
            image.disarm_all(module, &**memory, pages, &|address| mapped.may_have(id, address), at_rest);
        }
        for image in moved {
            image.disarm_copy(modules.get(image.module), &**memory, pages);
        }
        for watch in self.debug_state.iter_mut().chain(self.entry.iter_mut().flat_map(|(_, watch)| watch)) {
            restore(&**memory, watch.address, watch.original);
            watch.stands = false;
        }
    }

    /// True if a breakpoint of the recorder is or was at this address.
    pub(super) fn is_ours(&self, modules: &Modules<'_>, address: u64) -> bool {
        let of_image = |image: &MappedImage| image.entry_at(modules.get(image.module), address).is_some();
        self.debug_state.is_some_and(|watch| watch.address == address)
            || self.has_trampoline_at(address)
            || self.entry.is_some_and(|(entry, watch)| entry == address && watch.is_some())
            || self.images.iter().chain(&self.moved).any(of_image)
    }
}

/// Mappings of a process, read on first use.
struct MappedNow<'a> {
    kernel: &'a dyn Kernel,
    process: Pid,
    modules: &'a Modules<'a>,
    read: OnceCell<Vec<ProcessMapping>>,
}

impl<'a> MappedNow<'a> {
    fn of(kernel: &'a dyn Kernel, process: Pid, modules: &'a Modules<'a>) -> Self {
        Self { kernel, process, modules, read: OnceCell::new() }
    }

    /// True if this address is in a mapping of the module's file, or in executable memory without a file, to which code
    /// may have been moved. Also true if that cannot be known: the kernel shows no mappings of a process whose first
    /// thread has ended.
    fn may_have(&self, module: u32, address: u64) -> bool {
        let mappings = self.read.get_or_init(|| self.kernel.all_mappings(self.process).unwrap_or_default());
        let before = mappings.partition_point(|mapping| mapping.range.end <= address);
        let here = mappings.get(before).filter(|mapping| mapping.range.contains(&address));
        mappings.is_empty()
            || here.is_some_and(|mapping| match mapping.inode {
                0 => mapping.executable,
                inode => self.modules.is_of_inode(module, inode),
            })
    }
}

/// Where a file is mapped now.
struct Mapped {
    module: u32,
    bias: u64,
    executable: Vec<Range<u64>>,
    /// Mappings that nobody else can write to.
    settable: Vec<Range<u64>>,
}

impl Mapped {
    fn of(module: u32, bias: u64) -> Self {
        Self { module, bias, executable: Vec::new(), settable: Vec::new() }
    }

    /// Makes the image of a file that was not mapped there before.
    fn image(self, modules: &mut Modules<'_>) -> MappedImage {
        let Module { entries, path, .. } = modules.get(self.module);
        let mut image = MappedImage::new(self.module, self.bias, entries.len());
        if self.settable.len() < self.executable.len() {
            let name = base_name(path).to_owned();
            modules.skipped.add(Reason::WritableCode, 0, &name);
        }
        image.is_mapped_at(self.settable, &self.executable);
        image
    }

    fn add(&mut self, mapping: &ProcessMapping) {
        if mapping.executable {
            self.executable.push(mapping.range.clone());
            if !mapping.writable {
                self.settable.push(mapping.range.clone());
            }
        }
    }
}
