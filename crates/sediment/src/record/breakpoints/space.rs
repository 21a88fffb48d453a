// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address space: which files are mapped where, and where traps stand.
//!
//! A trap fires once: whoever meets it takes it out. What is known of a trap survives its being taken out, as another thread may
//! have run it just before: such a thread is set back to where the trap was. A forked child has its parent's traps; one that was
//! taken out between the fork and the telling of it still stands in the child, so the memory itself has the last word.

use super::machine::TRAP;
use super::mappings::{Mapping, auxiliary_value, content, mappings_with_code};
use super::memory::Memory;
use super::modules::{Module, Modules};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of a page of memory, or of a part of one.
const PAGE: u64 = 4096;
/// Pages that are read and written at once.
const PAGES_AT_ONCE: u64 = 64;
/// How old a processor time may be where it need not be exact.
const FRESH: Duration = Duration::from_micros(500);

/// One function of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Site {
    /// Of [`Modules`].
    pub(super) module: u32,
    /// Index into its entries.
    pub(super) entry: u32,
}

/// A file mapped at one place.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) module: u32,
    /// What is added to addresses of the file.
    pub(super) bias: u64,
    /// Where it can be executed.
    ranges: Vec<Range<u64>>,
    /// By entry of the module: whether a trap stands there.
    armed: Vec<bool>,
    /// The functions that have run, in their order, and the processor time of the process then, in nanoseconds.
    pub(super) seen: Vec<(u32, u64)>,
}

impl Image {
    fn holds(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// A trap of our own that stands at no function that is recorded.
#[derive(Debug, Clone, Copy)]
struct Watch {
    address: u64,
    original: [u8; TRAP.len()],
}

/// What a thread met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// A function's first byte, for the first time since it was armed.
    Function(Site),
    /// A trap that was taken out meanwhile, or one of ours that has done its work.
    TakenOut,
    /// The function by which the dynamic linker tells debuggers that something was mapped; the trap stays.
    Mapped,
}

/// An address space.
#[derive(Debug)]
pub(super) struct Space {
    /// A process in it.
    pub(super) process: Pid,
    pub(super) memory: Rc<Memory>,
    pub(super) images: Vec<Image>,
    /// Those that were unmapped.
    pub(super) gone: Vec<Image>,
    /// The program's first instruction, and what stood there where a trap of its own was needed.
    entry: Option<(u64, Option<Watch>)>,
    debug_state: Option<Watch>,
    /// Whether the dynamic linker is at work before the program's first instruction.
    pub(super) loading: bool,
    /// Processor time of the process when it was last looked at, in nanoseconds.
    pub(super) processor_time: u64,
    clock: Option<ClockId>,
    /// Processor time when it was first looked at.
    began: u64,
    /// When it was last looked at now and then.
    looked: Option<Instant>,
}

impl Space {
    /// The address space of a process, without traps.
    pub(super) fn of(process: Pid) -> io::Result<Self> {
        Ok(Self {
            process,
            memory: Rc::new(Memory::of(process)?),
            images: Vec::new(),
            gone: Vec::new(),
            entry: None,
            debug_state: None,
            loading: false,
            processor_time: 0,
            clock: clock_getcpuclockid(process).ok(),
            began: 0,
            looked: None,
        })
    }

    /// The copy of this one that a forked child has.
    pub(super) fn forked(&self, child: Pid) -> io::Result<Self> {
        let mut images = self.images.clone();
        for (_, since) in images.iter_mut().flat_map(|image| &mut image.seen) {
            *since = 0;
        }
        Ok(Self {
            process: child,
            memory: Rc::new(Memory::of(child)?),
            images,
            gone: Vec::new(),
            entry: self.entry,
            debug_state: self.debug_state,
            loading: self.loading,
            processor_time: 0,
            clock: clock_getcpuclockid(child).ok(),
            began: 0,
            looked: None,
        })
    }

    /// Arms what a program has mapped when it begins, and watches the dynamic linker until its first instruction.
    pub(super) fn begin(&mut self, modules: &mut Modules<'_>) -> io::Result<()> {
        const LINKER_BASE: u64 = 7;
        const ENTRY: u64 = 9;
        self.look_at_mappings(modules)?;
        let auxiliary = std::fs::read(format!("/proc/{}/auxv", self.process))?;
        let dynamic = auxiliary_value(&auxiliary, LINKER_BASE).is_some_and(|base| base != 0);
        if let (true, Some(address)) = (dynamic, auxiliary_value(&auxiliary, ENTRY)) {
            let function =
                self.find(modules, address).is_some_and(|(image, entry)| self.images[image].armed[entry]);
            let watch = if function { None } else { self.watch(address) };
            self.loading = function || watch.is_some();
            self.entry = Some((address, watch));
        }
        Ok(())
    }

    fn watch(&self, address: u64) -> Option<Watch> {
        let mut original = [0; TRAP.len()];
        self.memory.read(address, &mut original).ok()?;
        if original == TRAP {
            return None;
        }
        self.memory.write(address, &TRAP).ok()?;
        Some(Watch { address, original })
    }

    /// Looks at what is mapped now: arms what is new, forgets what is gone.
    pub(super) fn look_at_mappings(&mut self, modules: &mut Modules<'_>) -> io::Result<()> {
        let mut there: Vec<(u32, u64, Vec<Range<u64>>)> = Vec::new();
        for mapping in mappings_with_code(self.process)? {
            let Mapping { range, offset, inode, path } = mapping;
            let Some(module) = modules.of(&path, inode, || content(self.process, &path, &range, inode))
            else {
                continue;
            };
            let Some(address) = modules.get(module).address_of_mapping(offset, range.end - range.start)
            else {
                continue;
            };
            let bias = range.start.wrapping_sub(address);
            match there.iter_mut().find(|(m, b, _)| (*m, *b) == (module, bias)) {
                Some((_, _, ranges)) => ranges.push(range),
                None => there.push((module, bias, vec![range])),
            }
        }
        let mut before = std::mem::take(&mut self.images);
        for (module, bias, ranges) in there {
            let known = before.iter().position(|image| (image.module, image.bias) == (module, bias));
            if let Some(known) = known {
                let image = before.swap_remove(known);
                self.images.push(Image { ranges, ..image });
                continue;
            }
            let armed = vec![false; modules.get(module).entries.len()];
            let mut image = Image { module, bias, ranges, armed, seen: Vec::new() };
            self.arm(&mut image, modules);
            self.images.push(image);
        }
        self.gone.append(&mut before);
        let image = self.images.iter().find(|image| modules.get(image.module).debug_state().is_some());
        if let (None, Some(image)) = (self.debug_state, image) {
            let address =
                modules.get(image.module).debug_state().map(|address| address.wrapping_add(image.bias));
            self.debug_state = address.and_then(|address| self.watch(address));
        }
        if self.debug_state.is_some_and(|watch| !self.images.iter().any(|image| image.holds(watch.address))) {
            self.debug_state = None;
        }
        Ok(())
    }

    /// Puts a trap at every function of an image, unless the memory is not what the file holds.
    fn arm(&self, image: &mut Image, modules: &mut Modules<'_>) {
        let Module { entries, path, .. } = modules.get(image.module);
        if entries.is_empty() {
            return;
        }
        let (mut strange, mut changed) = (0usize, Vec::new());
        self.pages(
            image,
            entries.len(),
            |index| entries[index].address,
            |index, bytes| {
                if *bytes == entries[index].original {
                    *bytes = TRAP;
                    changed.push(index);
                } else {
                    strange += 1;
                }
                strange == 0
            },
        );
        for index in changed {
            image.armed[index] = true;
        }
        if strange > 0 {
            let path = path.clone();
            modules.losses.add("files whose code is not that of the memory, not recorded", 0, &path);
        }
    }

    /// Shows the bytes at every entry of an image, in runs of pages, and writes the runs back while `change` says so. The addresses
    /// rise; every page of a run has one.
    fn pages(
        &self,
        image: &Image,
        count: usize,
        address_of: impl Fn(usize) -> u64,
        mut change: impl FnMut(usize, &mut [u8; TRAP.len()]) -> bool,
    ) {
        let place = |index: usize| address_of(index).wrapping_add(image.bias);
        let page_of = |index: usize| place(index) & !(PAGE - 1);
        let mut run: Vec<u8> = Vec::with_capacity((PAGES_AT_ONCE * PAGE) as usize);
        let mut index = 0;
        while index < count {
            let Some(range) = image.ranges.iter().find(|range| range.contains(&place(index))) else {
                index += 1;
                continue;
            };
            let start = page_of(index);
            let (mut next, mut last) = (index + 1, start);
            while next < count && range.contains(&place(next)) {
                let page = page_of(next);
                if page - last > PAGE || page - start >= PAGES_AT_ONCE * PAGE {
                    break;
                }
                last = page;
                next += 1;
            }
            run.clear();
            run.resize((last - start + PAGE) as usize, 0);
            if self.memory.read(start, &mut run).is_ok() {
                let mut changed = false;
                for entry in index..next {
                    let inside = (place(entry) - start) as usize;
                    // A trap is never longer than its alignment, so it ends in the page.
                    let Some(bytes) = run.get_mut(inside..).and_then(|rest| rest.first_chunk_mut()) else {
                        continue;
                    };
                    let before = *bytes;
                    if !change(entry, bytes) {
                        return;
                    }
                    changed |= *bytes != before;
                }
                if changed {
                    // A process that has just ended has no memory left to write to.
                    let _ = self.memory.write(start, &run);
                }
            }
            index = next;
        }
    }

    /// The image and entry whose first byte is at this address.
    fn find(&self, modules: &Modules<'_>, address: u64) -> Option<(usize, usize)> {
        let image = self.images.iter().position(|image| image.holds(address))?;
        let inside = address.wrapping_sub(self.images[image].bias);
        Some((image, modules.get(self.images[image].module).entry_at(inside)?))
    }

    /// The file, and the address in it, that this address belongs to.
    pub(super) fn place(&self, address: u64) -> Option<(u32, u64)> {
        let image = self.images.iter().find(|image| image.holds(address))?;
        Some((image.module, address.wrapping_sub(image.bias)))
    }

    /// Takes out the trap at this address and says what it was; None if it is none of ours.
    pub(super) fn meet(&mut self, modules: &Modules<'_>, address: u64) -> Option<Met> {
        if self.debug_state.is_some_and(|watch| watch.address == address) {
            return Some(Met::Mapped);
        }
        if let Some((entry, watch)) = self.entry.filter(|(entry, _)| *entry == address) {
            self.loading = false;
            if let Some(watch) = watch {
                self.restore(entry, watch.original);
                return Some(Met::TakenOut);
            }
        }
        let (image, entry) = self.find(modules, address)?;
        let module = self.images[image].module;
        let original = modules.get(module).entries[entry].original;
        let armed = &mut self.images[image].armed[entry];
        if !std::mem::take(armed) {
            self.restore(address, original);
            return Some(Met::TakenOut);
        }
        // It was met, so it is there. A process that has just ended has no memory left to write to.
        let _ = self.memory.write(address, &original);
        Some(Met::Function(Site { module, entry: entry as u32 }))
    }

    /// Puts back what was at a trap, if the trap is there.
    fn restore(&self, address: u64, original: [u8; TRAP.len()]) {
        let mut bytes = [0; TRAP.len()];
        if self.memory.read(address, &mut bytes).is_ok() && bytes == TRAP {
            let _ = self.memory.write(address, &original);
        }
    }

    /// Counts from now on.
    pub(super) fn start_clock(&mut self) {
        self.look_at_clock();
        self.began = self.processor_time;
    }

    /// Processor time of the process since it is followed, in nanoseconds.
    pub(super) fn worked(&self) -> u64 {
        self.processor_time - self.began
    }

    /// Reads the processor time of the process; one that has ended keeps what was read last.
    pub(super) fn look_at_clock(&mut self) {
        if let Some(time) = self.clock.and_then(|clock| clock_gettime(clock).ok()) {
            let nanoseconds = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
            self.processor_time = self.processor_time.max(nanoseconds);
        }
    }

    /// As [`Self::look_at_clock`], if it was not looked at just now.
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

    /// Puts a trap at a function again; whether it stands there.
    pub(super) fn arm_again(&mut self, modules: &Modules<'_>, image: usize, entry: u32) -> bool {
        let image = &mut self.images[image];
        let known = modules.get(image.module).entries[entry as usize];
        let address = known.address.wrapping_add(image.bias);
        let mut bytes = [0; TRAP.len()];
        let fits = self.memory.read(address, &mut bytes).is_ok() && bytes == known.original;
        let armed = fits && self.memory.write(address, &TRAP).is_ok();
        image.armed[entry as usize] |= armed;
        armed
    }

    /// As [`Self::arm_again`], wherever the file is mapped.
    pub(super) fn arm_site_again(&mut self, modules: &Modules<'_>, site: Site) {
        if let Some(image) = self.images.iter().position(|image| image.module == site.module) {
            self.arm_again(modules, image, site.entry);
        }
    }

    /// Puts traps at functions of one image again, which are given by their entries in rising order, and keeps those that stand.
    pub(super) fn arm_many_again(&mut self, modules: &Modules<'_>, image: usize, entries: &mut Vec<u32>) {
        let known = &modules.get(self.images[image].module).entries;
        let mut armed = Vec::with_capacity(entries.len());
        self.pages(
            &self.images[image],
            entries.len(),
            |index| known[entries[index] as usize].address,
            |index, bytes| {
                if *bytes == known[entries[index] as usize].original {
                    *bytes = TRAP;
                    armed.push(entries[index]);
                }
                true
            },
        );
        for entry in &armed {
            self.images[image].armed[*entry as usize] = true;
        }
        *entries = armed;
    }

    /// Takes the traps at functions out again, where they still stand. The functions rise.
    pub(super) fn disarm(&mut self, modules: &Modules<'_>, sites: &[Site]) {
        for image in 0..self.images.len() {
            let module = self.images[image].module;
            let armed: Vec<u32> = sites
                .iter()
                .filter(|site| site.module == module)
                .map(|site| site.entry)
                .filter(|entry| std::mem::take(&mut self.images[image].armed[*entry as usize]))
                .collect();
            let known = &modules.get(module).entries;
            self.pages(
                &self.images[image],
                armed.len(),
                |index| known[armed[index] as usize].address,
                |index, bytes| {
                    if *bytes == TRAP {
                        *bytes = known[armed[index] as usize].original;
                    }
                    true
                },
            );
        }
    }

    /// Takes every trap out.
    pub(super) fn disarm_all(&mut self, modules: &Modules<'_>) {
        for image in &self.images {
            let entries = &modules.get(image.module).entries;
            self.pages(
                image,
                entries.len(),
                |index| entries[index].address,
                |index, bytes| {
                    if *bytes == TRAP {
                        *bytes = entries[index].original;
                    }
                    true
                },
            );
        }
        let watches = [self.debug_state.take(), self.entry.and_then(|(_, watch)| watch)];
        for watch in watches.into_iter().flatten() {
            self.restore(watch.address, watch.original);
        }
        for image in &mut self.images {
            image.armed.fill(false);
        }
    }

    /// Whether an address is one at which a trap of ours stood or stands.
    pub(super) fn is_ours(&self, modules: &Modules<'_>, address: u64) -> bool {
        self.debug_state.is_some_and(|watch| watch.address == address)
            || self.entry.is_some_and(|(entry, watch)| entry == address && watch.is_some())
            || self.find(modules, address).is_some()
    }
}
