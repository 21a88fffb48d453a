// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file mapped at one place of an address space, and the breakpoints in it.
//!
//! Memory is read in runs of pages, but a write covers the bytes of one breakpoint, never more, so that anything the
//! program stores next to it meanwhile stays. The bytes are compared again just before the write. Neighbouring pages
//! are written at once only while all threads of a program are stopped.

use super::budget::{BreakpointPurpose, OwnPages, PAGE};
use super::changes::{CodeChange, LONGEST_CHANGE, PAGES_AT_ONCE, write_at_rest};
use super::modules::{CodeEntry, Module};
use super::pairing::leave_pair;
use crate::tracing::machine::{TRAP, replace, restore};
use crate::tracing::memory::TraceeMemory;
use sediment_core::isa::JUMP;
use std::collections::BTreeSet;
use std::ops::Range;

/// Number of bytes after a breakpoint that are checked to see if the code around it belongs to the module.
const NEIGHBOURS: usize = 16;

/// A file mapped at one place.
#[derive(Debug, Clone)]
pub(super) struct MappedImage {
    pub(super) module: u32,
    /// Difference between addresses in memory and in the file.
    pub(super) bias: u64,
    /// Ranges in which breakpoints may be set: memory that nobody else can write to now.
    settable: Vec<Range<u64>>,
    /// Pages that the program itself writes to. Breakpoints there would race with its writes.
    left: BTreeSet<u64>,
    /// Ranges where its code is or was, including code that is not executable at the moment.
    extent: Vec<Range<u64>>,
    /// By entry of the module: true if a breakpoint was set there and has not been hit since.
    armed: Vec<bool>,
    /// Functions that have run, in order of first use, each with the processor time of the process at that moment, in
    /// nanoseconds.
    pub(super) seen: Vec<(u32, u64)>,
}

impl MappedImage {
    pub(super) fn new(module: u32, bias: u64, entries: usize) -> Self {
        Self {
            module,
            bias,
            settable: Vec::new(),
            left: BTreeSet::new(),
            extent: Vec::new(),
            armed: vec![false; entries],
            seen: Vec::new(),
        }
    }

    /// Sets the ranges of its code. The former ranges stay known.
    pub(super) fn is_mapped_at(&mut self, settable: Vec<Range<u64>>, executable: &[Range<u64>]) {
        self.settable = settable;
        for range in executable {
            if !self.extent.contains(range) {
                self.extent.push(range.clone());
            }
        }
    }

    /// True if an address lies in its code.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.extent.iter().any(|range| range.contains(&address))
    }

    /// Returns the entry whose first byte is at this address.
    pub(super) fn entry_at(&self, module: &Module, address: u64) -> Option<usize> {
        self.holds(address).then(|| module.entry_at(address.wrapping_sub(self.bias)))?
    }

    /// Records that the breakpoint at an entry was hit; returns whether it was armed.
    pub(super) fn met(&mut self, entry: usize) -> bool {
        std::mem::take(&mut self.armed[entry])
    }

    /// True if a breakpoint is set at an entry and was not hit yet.
    pub(super) fn is_armed(&self, entry: usize) -> bool {
        self.armed[entry]
    }

    /// Finds the entries with breakpoints that another part of the recorder has set.
    pub(super) fn find_set(&mut self, module: &Module, memory: &dyn TraceeMemory) {
        for index in self.standing(module, memory, 0..module.entries.len(), &|_| true) {
            self.armed[index] = true;
        }
    }

    /// True if memory and file agree at every entry.
    pub(super) fn agrees(&self, module: &Module, memory: &dyn TraceeMemory) -> bool {
        let mut agrees = true;
        self.look_at(module, memory, self.settable_entries(module), |index, now| {
            agrees &= now.starts_with(&module.entries[index].original);
        });
        agrees
    }

    /// Sets breakpoints at these ascending entries if memory has the file's bytes there; calls `set` for each. Returns
    /// how many are missing because the budget is used up.
    pub(super) fn arm(
        &mut self,
        module: &Module,
        memory: &dyn TraceeMemory,
        (pages, purpose): (&mut OwnPages, BreakpointPurpose),
        entries: impl IntoIterator<Item = usize>,
        mut set: impl FnMut(usize),
    ) -> usize {
        let (mut fitting, mut missing, mut changed) = (Vec::new(), 0, Vec::new());
        let settable = |index: &usize| self.is_settable(self.address(&module.entries[*index]));
        self.look_at(module, memory, entries.into_iter().filter(settable), |index, now| {
            if now.starts_with(&module.entries[index].original) {
                fitting.push(index);
            } else if !now.starts_with(&TRAP) {
                changed.push(index);
            }
        });
        self.leave(module, &changed);
        for index in fitting {
            let address = self.address(&module.entries[index]);
            if !pages.has_room(address, purpose) {
                missing += 1;
            } else if replace(memory, address, module.entries[index].original, TRAP) {
                pages.wrote(address);
                self.armed[index] = true;
                set(index);
            }
        }
        missing
    }

    /// As [`Self::agrees`], for a process whose threads are stopped. Returns whether all pages with entries have the
    /// file's content, or `None` if an entry differs.
    pub(super) fn agrees_at_rest(&self, module: &Module, memory: &dyn TraceeMemory) -> Option<bool> {
        let entries =
            self.settable_entries(module).map(|index| (index, self.address(&module.entries[index])));
        let entries: Vec<(usize, u64)> = entries.collect();
        let found = by_halves(&entries, memory, |half, memory| self.agrees_in(module, memory, half));
        found.into_iter().try_fold(true, |whole, half| Some(half? && whole))
    }

    /// Compares memory and file at these entries.
    fn agrees_in(
        &self,
        module: &Module,
        memory: &dyn TraceeMemory,
        entries: &[(usize, u64)],
    ) -> Option<bool> {
        let (mut run, mut whole) = (Vec::new(), true);
        for (pages, here) in runs(entries, LONGEST_CHANGE as u64) {
            run.resize((pages.end - pages.start) as usize, 0);
            let read = memory.read_at_rest(pages.start, &mut run).unwrap_or(0);
            let first = here.first()?.1;
            // Its segment may begin or end inside a page.
            let before = module
                .bytes_at(pages.start.wrapping_sub(self.bias))
                .map_or(first - pages.start, |_| 0) as usize;
            let file = module.bytes_at((pages.start + before as u64).wrapping_sub(self.bias))?;
            let there = run.get(before..read).unwrap_or_default();
            let needed = here.last()?.1 + TRAP.len() as u64 - pages.start;
            let common = file.len().min(there.len());
            if (before + common) as u64 >= needed && there[..common] == file[..common] {
                continue;
            }
            whole = false;
            for (index, address) in here {
                let now = run[..read].get((address - pages.start) as usize..)?;
                now.starts_with(&module.entries[*index].original).then_some(())?;
            }
        }
        Some(whole)
    }

    /// As [`Self::arm`] for the first uses of all functions, for a process whose threads are stopped and whose pages
    /// with entries [are the file's][Self::agrees_at_rest]: writes neighbouring pages at once. `jump` may return a jump
    /// and its address, to be set at an entry instead of a breakpoint.
    pub(super) fn arm_at_rest(
        &mut self,
        module: &Module,
        memory: &dyn TraceeMemory,
        pages: &mut OwnPages,
        entries: impl IntoIterator<Item = usize>,
        jump: impl Fn(usize) -> Option<(u64, [u8; JUMP])>,
    ) -> usize {
        let (mut planned, mut missing, mut end) = (Vec::new(), 0, 0);
        for entry in entries {
            let own = self.address(&module.entries[entry]);
            let (address, jump) = jump(entry).map_or((own, None), |(at, jump)| (at, Some(jump)));
            let change = Planned { entry, address, jump };
            let last = address + change.bytes().len() as u64 - 1;
            if !self.is_settable(address) || !self.is_settable(last) || address < end {
                continue;
            }
            if !pages.has_room(address, BreakpointPurpose::FirstUse)
                || !pages.has_room(last, BreakpointPurpose::FirstUse)
            {
                missing += 1;
                continue;
            }
            pages.wrote(address);
            pages.wrote(last);
            end = last + 1;
            planned.push(change);
        }
        let written = by_halves(&planned, memory, |half, memory| self.write_runs(module, memory, half));
        for entry in written.into_iter().flatten() {
            self.armed[entry] = true;
        }
        missing
    }

    /// Makes these changes with one write for neighbouring pages. Returns the entries that were changed.
    fn write_runs(&self, module: &Module, memory: &dyn TraceeMemory, planned: &[Planned]) -> Vec<usize> {
        let (mut run, mut armed) = (PageWrite::default(), Vec::with_capacity(planned.len()));
        for change in planned {
            let address = change.address;
            let between = run.gap(address).and_then(|gap| {
                let length = usize::try_from(gap.end - gap.start).ok()?;
                module.bytes_at(gap.start.wrapping_sub(self.bias))?.get(..length)
            });
            if between.is_none() {
                run.write(memory, &mut armed);
            }
            run.add(change.entry, address, between.unwrap_or_default(), change.bytes());
        }
        run.write(memory, &mut armed);
        armed
    }

    /// Records whether a breakpoint is set at an entry.
    pub(super) fn is_armed_now(&mut self, entry: usize, armed: bool) {
        self.armed[entry] = armed;
    }

    /// True if a breakpoint may be set at this address.
    pub(super) fn is_settable(&self, address: u64) -> bool {
        self.settable.iter().any(|range| range.contains(&address)) && !self.left.contains(&(address / PAGE))
    }

    fn settable_entries(&self, module: &Module) -> impl Iterator<Item = usize> {
        (0..module.entries.len()).filter(|index| self.is_settable(self.address(&module.entries[*index])))
    }

    /// True if any memory is mapped at the addresses of its code.
    pub(super) fn is_readable(&self, memory: &dyn TraceeMemory) -> bool {
        self.extent.iter().any(|range| memory.read(range.start, &mut [0]).is_ok())
    }

    /// Removes the breakpoints at these ascending entries, if they are still there. `may_be_ours` answers whether the
    /// module's code can be at an address; it is asked if the code around a breakpoint is not the module's.
    pub(super) fn disarm(
        &mut self,
        module: &Module,
        memory: &dyn TraceeMemory,
        pages: &mut OwnPages,
        may_be_ours: &dyn Fn(u64) -> bool,
        entries: impl IntoIterator<Item = usize>,
    ) {
        let entries: Vec<usize> = entries.into_iter().collect();
        let mut changed = Vec::new();
        self.look_at(module, memory, entries.iter().copied(), |index, now| {
            let known = now.starts_with(&TRAP) || now.starts_with(&module.entries[index].original);
            if self.armed[index] && !known {
                changed.push(index);
            }
        });
        self.leave(module, &changed);
        for index in self.standing(module, memory, entries, may_be_ours) {
            let entry = &module.entries[index];
            self.armed[index] = false;
            if restore(memory, self.address(entry), entry.original) {
                pages.wrote(self.address(entry));
            }
        }
    }

    /// Removes the breakpoints from pages that a stopped thread is about to write to. No breakpoint is set there again.
    pub(super) fn leave_to_program(
        &mut self,
        module: &Module,
        memory: &dyn TraceeMemory,
        pages: &mut OwnPages,
        written: &Range<u64>,
    ) {
        if !self.extent.iter().any(|code| code.start < written.end && written.start < code.end) {
            return;
        }
        let inside = |index: &usize| written.contains(&self.address(&module.entries[*index]));
        let entries: Vec<usize> = (0..module.entries.len()).filter(inside).collect();
        self.disarm(module, memory, pages, &|_| true, entries.iter().copied());
        self.leave(module, &entries);
    }

    /// Leaves the pages of these entries to the program.
    fn leave(&mut self, module: &Module, entries: &[usize]) {
        let pages = entries.iter().map(|index| self.address(&module.entries[*index]) / PAGE);
        let pages: Vec<u64> = pages.collect();
        self.left.extend(pages);
    }

    /// Removes all breakpoints that are still there. `at_rest`: all threads of the program are stopped, so neighbouring
    /// pages are written at once.
    pub(super) fn disarm_all(
        &mut self,
        module: &Module,
        memory: &dyn TraceeMemory,
        pages: &mut OwnPages,
        may_be_ours: &dyn Fn(u64) -> bool,
        at_rest: bool,
    ) {
        let all = 0..module.entries.len();
        if !at_rest {
            return self.disarm(module, memory, pages, may_be_ours, all);
        }
        let standing = self.standing(module, memory, all, may_be_ours);
        let changes = standing.iter().map(|index| {
            let entry = &module.entries[*index];
            let mut change = CodeChange::new(self.address(entry), &entry.original);
            change.expects(change.address(), &TRAP);
            change
        });
        let changes: Vec<CodeChange> = changes.collect();
        for ((index, change), made) in
            standing.iter().zip(&changes).zip(write_at_rest(memory, &changes, true))
        {
            self.armed[*index] = false;
            if made || restore(memory, change.address(), module.entries[*index].original) {
                pages.wrote(change.address());
            }
        }
    }

    /// Returns those of these ascending entries that have a breakpoint in memory. Equal bytes are not a breakpoint if
    /// neither the code around them nor (by `may_be_ours`) the memory belongs to the module, because the program may
    /// have unmapped its code, and may now have data there.
    fn standing(
        &self,
        module: &Module,
        memory: &dyn TraceeMemory,
        entries: impl IntoIterator<Item = usize>,
        may_be_ours: &dyn Fn(u64) -> bool,
    ) -> Vec<usize> {
        let mut standing = Vec::new();
        self.look_at(module, memory, entries, |index, now| {
            if let Some(behind) = now.strip_prefix(&TRAP) {
                let behind = &behind[..behind.len().min(NEIGHBOURS)];
                if is_code_behind(module, index, behind) || may_be_ours(self.address(&module.entries[index]))
                {
                    standing.push(index);
                }
            }
        });
        standing
    }

    /// Removes all breakpoints from a copy of its code, because a thread may move its code to other memory.
    pub(super) fn disarm_copy(&mut self, module: &Module, memory: &dyn TraceeMemory, pages: &mut OwnPages) {
        let armed = (0..self.armed.len()).filter(|index| self.armed[*index]);
        let copied: Vec<usize> = armed.filter(|index| self.is_copy_at(module, memory, *index)).collect();
        self.disarm(module, memory, pages, &|_| true, copied);
    }

    /// True if the code after an entry is the module's, apart from breakpoints.
    pub(super) fn is_copy_at(&self, module: &Module, memory: &dyn TraceeMemory, index: usize) -> bool {
        let from = module.entries[index].address + TRAP.len() as u64;
        let Some(expected) = module.bytes_at(from) else { return false };
        let mut found = [0; NEIGHBOURS];
        let found = &mut found[..expected.len().min(NEIGHBOURS)];
        memory.read(from.wrapping_add(self.bias), found).is_ok() && is_code_behind(module, index, found)
    }

    /// Restores the file's bytes at an entry.
    pub(super) fn put_back(
        &self,
        module: &Module,
        memory: &dyn TraceeMemory,
        pages: &mut OwnPages,
        index: usize,
    ) {
        let entry = &module.entries[index];
        let address = self.address(entry);
        // A process that has just ended has no memory left to write to.
        if memory.restore(address, &entry.original).is_ok() {
            pages.wrote(address);
        }
    }

    fn address(&self, entry: &CodeEntry) -> u64 {
        entry.address.wrapping_add(self.bias)
    }

    /// Reads memory at and after these ascending entries, as far as it can be read.
    fn look_at(
        &self,
        module: &Module,
        memory: &dyn TraceeMemory,
        entries: impl IntoIterator<Item = usize>,
        mut show: impl FnMut(usize, &[u8]),
    ) {
        let entries_of_page: Vec<(usize, u64)> = entries
            .into_iter()
            .map(|index| (index, self.address(&module.entries[index])))
            .filter(|(_, address)| self.holds(*address))
            .collect();
        let mut run = Vec::with_capacity((PAGES_AT_ONCE * PAGE) as usize);
        // A breakpoint is never longer than its alignment, so it lies in one page.
        for (pages, here) in runs(&entries_of_page, 0) {
            run.clear();
            run.resize((pages.end - pages.start) as usize, 0);
            let read = memory.read_some(pages.start, &mut run).unwrap_or(0);
            for (index, address) in here {
                let bytes = run[..read].get((address - pages.start) as usize..);
                if let Some(bytes) = bytes.filter(|bytes| bytes.len() >= TRAP.len()) {
                    show(*index, bytes);
                }
            }
        }
    }
}

/// True if these bytes after the breakpoint at an entry are the module's, apart from breakpoints.
fn is_code_behind(module: &Module, index: usize, found: &[u8]) -> bool {
    let from = module.entries[index].address + TRAP.len() as u64;
    let Some(expected) = module.bytes_at(from) else { return false };
    let expected = &expected[..expected.len().min(found.len())];
    let mut compared = false;
    let mut entries = module.entries[index + 1..].iter().peekable();
    let mut at = 0;
    while at < expected.len() {
        let address = from + at as u64;
        while entries.next_if(|entry| entry.address < address).is_some() {}
        let begins = entries.peek().is_some_and(|entry| entry.address == address);
        if begins && found[at..].starts_with(&TRAP) {
            at += TRAP.len();
            continue;
        }
        if found[at] != expected[at] {
            return false;
        }
        compared = true;
        at += 1;
    }
    compared
}

/// Number of items from which on two threads share the work.
pub(super) const MANY: usize = 1000;

/// Returns the results of `work` for both halves of a list, by two threads, or for the whole list if it is short.
fn by_halves<Item: Sync, Done: Send>(
    items: &[Item],
    memory: &dyn TraceeMemory,
    work: impl Fn(&[Item], &dyn TraceeMemory) -> Done + Sync,
) -> Vec<Done> {
    let Some(memory) = memory.shared().filter(|_| items.len() >= MANY) else {
        return vec![work(items, memory)];
    };
    let (first, second) = items.split_at(items.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            leave_pair();
            work(second, memory)
        });
        let first = work(first, memory);
        // A panic of that thread is passed on.
        vec![first, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
    })
}

/// Planned change at an entry: a breakpoint or a jump.
#[derive(Debug, Clone, Copy)]
struct Planned {
    entry: usize,
    address: u64,
    jump: Option<[u8; JUMP]>,
}

impl Planned {
    fn bytes(&self) -> &[u8] {
        self.jump.as_ref().map_or(&TRAP, |jump| jump)
    }
}

/// Groups these ascending entries into runs of neighbouring pages of limited length, with `reach` bytes after the first
/// byte of each entry.
fn runs(entries: &[(usize, u64)], reach: u64) -> impl Iterator<Item = (Range<u64>, &[(usize, u64)])> {
    let page_of = |address: u64| address & !(PAGE - 1);
    let mut rest = entries;
    std::iter::from_fn(move || {
        let start = page_of(rest.first()?.1);
        let mut last = start;
        let together = rest.iter().take_while(|(_, address)| {
            let page = page_of(*address);
            let near = page <= last + PAGE && page < start + PAGES_AT_ONCE * PAGE;
            last = if near { page_of(address + reach) } else { last };
            near
        });
        let (here, others) = rest.split_at(together.count());
        rest = others;
        Some((start..last + PAGE, here))
    })
}

/// Breakpoints and jumps in neighbouring pages, and the bytes between them, to be written at once.
#[derive(Debug, Default)]
struct PageWrite {
    start: u64,
    bytes: Vec<u8>,
    /// Changed entries, and the range of each change in the bytes.
    changes: Vec<(usize, Range<usize>)>,
}

impl PageWrite {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Range from its end to a nearby address; `None` if that address needs another write.
    fn gap(&self, address: u64) -> Option<Range<u64>> {
        let page = address / PAGE;
        let near = page <= self.end() / PAGE + 1 && page < self.start / PAGE + PAGES_AT_ONCE;
        (near && !self.changes.is_empty()).then(|| self.end()..address)
    }

    /// Appends the bytes to write at an address, and the bytes between that address and the current end. An empty write
    /// begins at the address.
    fn add(&mut self, entry: usize, address: u64, between: &[u8], bytes: &[u8]) {
        if self.changes.is_empty() {
            self.start = address;
        }
        self.bytes.extend_from_slice(between);
        let begun = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.changes.push((entry, begun..self.bytes.len()));
    }

    /// Writes it, piece by piece if that is not possible at once, and records which entries are armed. Then it is
    /// empty.
    fn write(&mut self, memory: &dyn TraceeMemory, armed: &mut Vec<usize>) {
        let together = !self.changes.is_empty() && memory.write(self.start, &self.bytes).is_ok();
        for (entry, range) in self.changes.drain(..) {
            let at = self.start + range.start as u64;
            if together || memory.write(at, &self.bytes[range]).is_ok() {
                armed.push(entry);
            }
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breakpoints::budget::PageBudget;
    use std::cell::{Cell, RefCell};
    use std::io;
    use std::rc::Rc;

    /// Memory at address 0 that counts writes and refuses those longer than `longest`.
    #[derive(Debug)]
    struct CountingMemory {
        bytes: RefCell<Vec<u8>>,
        writes: Cell<usize>,
        longest: usize,
    }

    impl TraceeMemory for CountingMemory {
        fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.bytes.borrow();
            let rest = &bytes[bytes.len().min(address as usize)..];
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }

        fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
            if bytes.len() > self.longest {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.writes.set(self.writes.get() + 1);
            self.bytes.borrow_mut()[address as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    /// Two neighbouring pages with functions, and two apart.
    const FUNCTIONS: [u64; 5] = [0x10, 0xff0, 0x1010, 0x3000, 0x5000];

    fn armed(budget: u64, longest: usize) -> (Vec<u64>, usize, usize, u64) {
        let code: Vec<u8> = (0..6 * PAGE).map(|address| (address % 251) as u8 & 0x7f).collect();
        let module = Module::of_code("program", &code, &FUNCTIONS, None);
        let mut image = MappedImage::new(0, 0, module.entries.len());
        let mapped = 0..6 * PAGE;
        image.is_mapped_at(vec![mapped.clone()], &[mapped]);
        let budget = Rc::new(PageBudget::new(budget, true));
        let memory = CountingMemory { bytes: RefCell::new(code.clone()), writes: Cell::new(0), longest };
        let mut pages = OwnPages::new(&budget);
        assert_eq!(image.agrees_at_rest(&module, &memory), Some(true));
        let missing = image.arm_at_rest(&module, &memory, &mut pages, 0..module.entries.len(), |_| None);
        let changed: Vec<u64> = memory
            .bytes
            .borrow()
            .iter()
            .zip(&code)
            .zip(0..)
            .filter(|((now, before), _)| now != before)
            .map(|(_, address)| address)
            .collect();
        assert!(changed.iter().all(|address| memory.bytes.borrow()[*address as usize] == TRAP[0]));
        let set = (0..FUNCTIONS.len()).filter(|entry| image.is_armed(*entry)).map(|entry| FUNCTIONS[entry]);
        assert_eq!(set.collect::<Vec<_>>(), changed);
        (changed, memory.writes.get(), missing, budget.peak())
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_program_at_rest_is_armed_by_one_write_for_neighbouring_pages() {
        let all = FUNCTIONS.to_vec();
        assert_eq!(armed(8 * PAGE, usize::MAX), (all.clone(), 3, 0, 4 * PAGE));
        assert_eq!(
            armed(8 * PAGE, TRAP.len()),
            (all, 5, 0, 4 * PAGE),
            "one by one where that cannot be done"
        );
        assert_eq!(
            armed(4 * PAGE, usize::MAX),
            (FUNCTIONS[..4].to_vec(), 2, 1, 3 * PAGE),
            "the budget is kept"
        );
    }
}
