// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program in memory, from its exec on. The processes that it forks share it. It has room for stubs near its code,
//! and blocks of counters.

use super::changes::{Changes, SiteChange};
use super::code::{CodeState, NewCode, write_changes};
use super::copies::{CodeCopy, MappedCopy};
use super::counters::{
    BurstWeight, COPIES, COPIES_PATH, EVENT_BYTES, EVENTS, FILES, FileCounters, FurtherTarget, MAP_COPIES,
    MAPPED_COPIES, MOST_COPIES, MOST_EVENTS, OWN_ADDRESS, SEEN, SHARED, STOPS_ITSELF, SiteCounts, SiteMarks,
    TARGETS, TARGETS_BYTES, TO_NOTE, WAITS,
};
use super::entrance::{Region, RegionKind};
use super::machine;
use super::modules::{PlannedModule, PlannedModules};
use super::places::Places;
use super::rooms::{FoundStubs, LIBRARY_COUNTERS, NOTICE, SharedRoom, StubRequest, StubRooms, memory_of};
use super::sequence::{CallEvent, NotedCall};
use super::shared::{SHARED_PAGE, SharedMemory};
use super::sites::{DirectSite, PAGE, SlotCallee, TextSegment, Trait};
use super::stubs::{Stubs, size};
use super::tally::CallTally;
use crate::tracing::mappings::ProcessMapping;
use nix::unistd::Pid;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Number of blocks of counters; if there are more threads, they share blocks.
const BLOCKS: u64 = 64;
/// Number of blocks for a program that locks all its memory, because all of them must then be in memory.
const BLOCKS_OF_LOCKED: u64 = 2;

/// Room for stubs, mapped by a program.
#[derive(Debug)]
struct MappedRoom {
    address: u64,
    room: SharedRoom,
}

impl MappedRoom {
    fn region(&self) -> Region {
        self.room.borrow().region(self.address)
    }

    /// Address of the table by which threads find their counters.
    fn table(&self) -> u64 {
        self.address - machine::TABLE
    }
}

/// A file mapped by a program.
#[derive(Debug)]
pub(super) struct FileInMemory {
    module: usize,
    inode: u64,
    /// Difference between addresses in memory and addresses as linked.
    pub(super) bias: u64,
    /// Where it is in memory.
    pub(super) range: Range<u64>,
    /// Counters of its call sites; `None` if none of its code is changed.
    counters: Option<FileCounters>,
    /// Its stubs, and the changes of its code that lead to them.
    stubs: Rc<Stubs>,
    /// Address of the stubs.
    stubs_at: u64,
    /// Addresses in slots of the global offset table, as last seen.
    resolved: HashMap<u64, u64>,
    pub(super) is_mapped: bool,
    /// True if its code always leads to stubs, because it is the dynamic linker, which gives notice of new libraries.
    is_always_counted: bool,
    /// Sites that are counted only in bursts.
    sampled: SiteMarks,
    /// Counts of sampled sites from before they were sampled.
    before: SiteCounts,
}

impl FileInMemory {
    /// Changes of its code that lead to the stubs.
    pub(super) fn changes(&self) -> &Changes {
        &self.stubs.made.changes
    }

    /// True if this site is counted only in bursts.
    pub(super) fn is_sampled(&self, site: u32) -> bool {
        self.sampled.has(site as usize)
    }

    /// True if a process with these mappings has the file at this place, whatever its path or access rights are now.
    pub(super) fn is_mapped_among(&self, mapped: &[ProcessMapping]) -> bool {
        mapped.iter().any(|mapping| mapping.inode == self.inode && self.range.contains(&mapping.range.start))
    }
}

/// A program in memory.
#[derive(Debug)]
pub(super) struct ProgramImage {
    /// Room near the program, and near the libraries if it can have any.
    own_room: MappedRoom,
    library_room: Option<MappedRoom>,
    /// Offset in the shared memory of the table by which threads find their counters, as it is at the beginning.
    table: u64,
    blocks: Region,
    block_length: u64,
    /// By block: the threads that use it.
    users: Vec<u32>,
    /// Number of blocks that a thread has used; the others contain nothing.
    used_blocks: u32,
    /// Place of the program's own file.
    program: Range<u64>,
    /// Address of the page that the whole recording shares.
    shared: u64,
    files: Vec<FileInMemory>,
    /// Bytes of memory that it needs: copies of pages, stubs, and counters of a thread; 0 without a bound.
    pub(super) memory: u64,
    /// Number of threads of all its processes.
    pub(super) threads: u32,
    /// True if it ran before it was recorded.
    pub(super) was_running: bool,
    /// True if its code stays changed between bursts.
    pub(super) counts_always: bool,
    /// True until the first notice of libraries.
    pub(super) has_just_begun: bool,
    /// True if it may look at its own mappings.
    reads_mappings: bool,
    /// Copies for a waiting thread to map, with the number announced and the block.
    copies: Vec<MappedCopy>,
    told_copies: Option<(u32, u32)>,
}

/// Parts that all programs of a recording have in common.
#[derive(Debug)]
pub(super) struct CommonParts {
    pub(super) modules: PlannedModules,
    pub(super) shared: SharedMemory,
    pub(super) rooms: StubRooms,
    /// Remaining bytes of memory; None without a bound.
    pub(super) memory_left: Option<u64>,
    pub(super) skipped: Skipped,
}

/// Description of a program that begins, for which memory is reserved.
#[derive(Debug)]
pub(super) struct NewProgram<'a> {
    pub(super) mapped: &'a [Range<u64>],
    /// Number of the program's file, and its range.
    pub(super) program: (usize, Range<u64>),
    /// Range of the dynamic linker; None for a static program.
    pub(super) linker: Option<Range<u64>>,
}

impl ProgramImage {
    /// Reserves memory for a program; None if there is no room near it.
    pub(super) fn plan(wanted: &NewProgram<'_>, common: &mut CommonParts) -> io::Result<Option<Self>> {
        let (module, place) = &wanted.program;
        let planned = common.modules.get(*module).clone();
        let own = FileCounters::of(planned.plan.numbers(), 0).end();
        let block_length = (FILES + LIBRARY_COUNTERS + own).next_multiple_of(PAGE);
        let is_locked = planned.plan.traits.contains(&Trait::LocksMemory);
        let count = if is_locked { BLOCKS_OF_LOCKED } else { BLOCKS };
        let lengths = (size(&planned.plan).max(PAGE), SHARED_PAGE + block_length * count);
        let near = (place, wanted.linker.as_ref());
        let Some(places) = Places::choose(wanted.mapped, near, lengths) else { return Ok(None) };
        let Places { own_stubs, library_stubs, data } = places;
        let distance = own_stubs.wrapping_sub(place.start);
        let program = (*module, planned.as_ref());
        let own_room = common.rooms.of_program(program, distance, &mut common.shared)?;
        let library_room = match library_stubs {
            Some(address) => {
                Some(MappedRoom { address, room: common.rooms.of_libraries(&mut common.shared)? })
            }
            None => None,
        };
        let blocks = block_length * count;
        let offset = common.shared.take(blocks)?;
        let first_table = machine::threads::table(data + SHARED_PAGE);
        let table = common.shared.take(machine::TABLE)?;
        common.shared.write(table, &first_table)?;
        Ok(Some(Self {
            own_room: MappedRoom { address: own_stubs, room: own_room },
            library_room,
            table,
            blocks: Region { address: data + SHARED_PAGE, length: blocks, offset, kind: RegionKind::Data },
            block_length,
            users: vec![0; count as usize],
            used_blocks: 0,
            program: place.clone(),
            shared: data,
            files: Vec::new(),
            memory: 0,
            threads: 0,
            was_running: false,
            counts_always: false,
            has_just_begun: false,
            reads_mappings: false,
            copies: Vec::new(),
            told_copies: None,
        }))
    }

    /// Memory that the program must map.
    pub(super) fn regions(&self) -> Vec<Region> {
        let shared = Region { address: self.shared, length: SHARED_PAGE, offset: 0, kind: RegionKind::Data };
        let rooms = self.rooms().map(MappedRoom::region).chain([shared, self.blocks]);
        let table =
            |address| Region { address, length: machine::TABLE, offset: self.table, kind: RegionKind::Table };
        rooms.chain(self.tables().into_iter().map(table)).filter(|region| region.length > 0).collect()
    }

    /// Addresses of the tables by which threads find their counters, if there are any.
    fn tables(&self) -> Vec<u64> {
        self.rooms().map(MappedRoom::table).filter(|_| machine::TABLE != 0).collect()
    }

    /// Tells a stopped thread its block; `begins_process` if its memory is its own, and has tables of another process.
    pub(super) fn set_counters(
        &self,
        (thread, memory): (Pid, &File),
        block: u32,
        begins_process: bool,
    ) -> io::Result<()> {
        let tables = self.tables();
        machine::threads::set_counters(thread, (memory, &tables, begins_process), self.block_address(block))
    }

    fn rooms(&self) -> impl Iterator<Item = &MappedRoom> {
        [&self.own_room].into_iter().chain(&self.library_room)
    }

    /// Takes a block for a thread, and returns its number.
    pub(super) fn take_block(&mut self, shared: &SharedMemory) -> io::Result<u32> {
        let least = self.users.iter().enumerate().min_by_key(|(_, users)| **users);
        let block = least.map_or(0, |(block, _)| block);
        self.users[block] += 1;
        let block = block as u32;
        self.used_blocks = self.used_blocks.max(block + 1);
        shared.write(self.block_offset(block) + SHARED, &self.shared.to_le_bytes())?;
        Ok(block)
    }

    /// Records that a further thread uses a block.
    pub(super) fn share_block(&mut self, block: u32) {
        self.users[block as usize] += 1;
    }

    pub(super) fn leave_block(&mut self, block: u32) {
        let users = &mut self.users[block as usize];
        *users = users.saturating_sub(1);
    }

    /// Address of a block.
    fn block_address(&self, block: u32) -> u64 {
        self.blocks.address + self.block_length * u64::from(block)
    }

    fn block_offset(&self, block: u32) -> u64 {
        self.blocks.offset + self.block_length * u64::from(block)
    }

    /// Makes the only thread of a program that begins stop itself at the first notice of libraries, so that the
    /// recorder need not look for it.
    pub(super) fn expect_stop(&self, block: u32, expected: bool, shared: &SharedMemory) {
        // Without this, the recorder looks for it.
        let _ = shared.write(self.block_offset(block) + STOPS_ITSELF, &u32::from(expected).to_le_bytes());
    }

    /// True if an address is in stubs.
    pub(super) fn has_stub_at(&self, address: u64) -> bool {
        self.rooms().any(|room| room.region().range().contains(&address))
    }

    /// True if a thread with this block waits for the recorder.
    pub(super) fn waits(&self, block: u32, shared: &SharedMemory) -> bool {
        shared.number(self.block_offset(block) + WAITS) == 1
    }

    /// Lets a waiting thread with this block continue, after it has mapped the copies of code that it needs.
    pub(super) fn answer(&mut self, block: u32, shared: &SharedMemory) {
        let copies = std::mem::take(&mut self.copies);
        let told = !copies.is_empty() && self.tell_copies(block, &copies, shared).is_ok();
        if !copies.is_empty() {
            self.told_copies = Some((block, copies.len() as u32));
        }
        let answer = if told { MAP_COPIES } else { SEEN };
        // Without an answer it continues later.
        let _ = shared.write(self.block_offset(block) + WAITS, &answer.to_le_bytes());
    }

    /// Writes the list of copies that a thread must map.
    fn tell_copies(&self, block: u32, copies: &[MappedCopy], shared: &SharedMemory) -> io::Result<()> {
        let at = self.block_offset(block);
        let mut path = shared.path().into_bytes();
        path.push(0);
        if path.len() as u64 > COPIES - COPIES_PATH {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let numbers = copies.iter().flat_map(|copy| [copy.address, copy.length, copy.offset]).chain([0]);
        let list: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        shared.write(at + OWN_ADDRESS, &self.block_address(block).to_le_bytes())?;
        shared.write(at + MAPPED_COPIES, &[0; 4])?;
        shared.write(at + COPIES_PATH, &path)?;
        shared.write(at + COPIES, &list)
    }

    /// True if it has not mapped all copies of code in its list. In the missing files, nothing is counted.
    pub(super) fn lacks_copies(&self, shared: &SharedMemory) -> bool {
        self.told_copies
            .is_some_and(|(block, told)| shared.number(self.block_offset(block) + MAPPED_COPIES) != told)
    }

    /// Changes the code of all files that a process has mapped since the last time. The process is stopped, or runs
    /// none of this code yet.
    pub(super) fn attend(
        &mut self,
        (process, memory): (Pid, &File),
        mapped: &[ProcessMapping],
        common: &mut CommonParts,
    ) -> io::Result<Vec<Trait>> {
        let known = self.files.len();
        let traits = self.add_files(process, mapped, common)?;
        self.reads_mappings |= traits.contains(&Trait::ReadsMappings);
        let maps_copies =
            std::mem::take(&mut self.has_just_begun) && self.threads == 1 && !self.reads_mappings;
        for file in &self.files[known..] {
            let module = Rc::clone(common.modules.get(file.module));
            let PlannedModule { path, plan } = module.as_ref();
            let (bias, inode, text) = (file.bias, file.inode, &plan.text);
            let code = NewCode { process, memory, bias, path, inode, text };
            if maps_copies && file.sampled.is_empty() {
                let copies = copies_of(&code, file, mapped, common);
                let copies = copies.filter(|copies| self.copies.len() + copies.len() <= MOST_COPIES);
                if let Some(copies) = copies {
                    self.copies.extend(copies);
                    continue;
                }
            }
            let others = if file.sampled.is_empty() {
                code.change(file.changes(), (file.stubs.was_used.replace(true), &file.stubs.prepared))?
            } else {
                // The file was mapped before. Its sampled sites count from the next burst on.
                let is_counted = |change: &SiteChange<'_>| !file.is_sampled(change.site);
                write_changes(memory, (bias, file.changes()), CodeState::ToStubs, &is_counted)?
            };
            if others > 0 {
                common.skipped.add_many(Reason::ChangedCode, 1, 0, path);
            }
        }
        Ok(traits)
    }

    /// Makes stubs for all files that a process has mapped since the last time.
    pub(super) fn add_files(
        &mut self,
        process: Pid,
        mapped: &[ProcessMapping],
        common: &mut CommonParts,
    ) -> io::Result<Vec<Trait>> {
        let mut traits = Vec::new();
        for file in &mut self.files {
            let start = file.range.start;
            // A later mapping at its place is another file.
            file.is_mapped &= mapped.iter().any(|mapping| mapping.range.contains(&start));
        }
        for mapping in mapped.iter().filter(|mapping| mapping.executable && mapping.path.starts_with('/')) {
            let is_ours = |room: &MappedRoom| room.region().range().contains(&mapping.range.start);
            if mapping.inode == 0 || mapping.path.starts_with("/memfd:sediment") || self.rooms().any(is_ours)
            {
                continue;
            }
            let known =
                self.files.iter().any(|file| file.is_mapped && file.range.contains(&mapping.range.start));
            if known {
                continue;
            }
            if mapping.writable {
                common.skipped.add(Reason::WritableCode, 0, &mapping.path);
                continue;
            }
            let Some(index) = common.modules.of(process, mapping) else {
                common.skipped.add(Reason::UnreadableMapping, 0, &mapping.path);
                continue;
            };
            let module = common.modules.get(index).clone();
            let plan = &module.plan;
            let is_first = |segment: &&TextSegment| segment.file_offset & !(PAGE - 1) == mapping.offset;
            let Some(segment) = plan.text.iter().find(is_first) else { continue };
            let bias = mapping.range.start.wrapping_sub(segment.code.start & !(PAGE - 1));
            let range = plan.extent.start.wrapping_add(bias)..plan.extent.end.wrapping_add(bias);
            traits.extend(plan.traits.iter().copied());
            let mut file = FileInMemory {
                module: index,
                inode: mapping.inode,
                bias,
                range: if range.contains(&mapping.range.start) { range } else { mapping.range.clone() },
                counters: None,
                stubs: Rc::default(),
                stubs_at: 0,
                resolved: HashMap::new(),
                is_mapped: true,
                is_always_counted: plan.exports.contains_key(NOTICE),
                sampled: SiteMarks::none(plan.numbers()),
                before: SiteCounts::default(),
            };
            if plan.left_alone.is_none() {
                self.make_stubs(&mut file, module.as_ref(), common)?;
            }
            self.files.push(file);
        }
        Ok(traits)
    }

    /// Makes stubs for a file if there is room for them.
    fn make_stubs(
        &mut self,
        file: &mut FileInMemory,
        planned: &PlannedModule,
        common: &mut CommonParts,
    ) -> io::Result<()> {
        if let Some(left) = &mut common.memory_left {
            let wanted = memory_of(&planned.plan);
            if wanted > *left {
                common.skipped.add(Reason::FileBeyondBudget, 0, &planned.path);
                return Ok(());
            }
            *left -= wanted;
            self.memory += wanted;
        }
        let is_program = self.program.contains(&file.range.start);
        let room = if is_program { Some(&self.own_room) } else { self.library_room.as_ref() };
        let reaches = |room: &&MappedRoom| {
            let range = room.room.borrow().next(room.address, size(&planned.plan));
            range.end.max(file.range.end) - range.start.min(file.range.start) < machine::REACH.most
        };
        let copies = || self.files.iter().filter(|other| other.module == file.module);
        let taken = copies().filter(|other| other.is_mapped).filter_map(|other| Some(other.counters?.at));
        let request = StubRequest { module: file.module, planned, bias: file.bias, taken: taken.collect() };
        let stubs = match room.filter(reaches) {
            Some(room) => room.room.borrow_mut().stubs(room.address, &request, &common.shared)?,
            None => None,
        };
        let Some(FoundStubs { counters, address, stubs }) = stubs else {
            common.skipped.add(Reason::NoRoomForStubs, 0, &planned.path);
            return Ok(());
        };
        // A copy of the file that was unmapped has used these counters before.
        let before = self.files.iter_mut().find(|other| other.counters == Some(counters));
        if let Some(before) = before {
            before.counters = None;
            before.stubs = Rc::default();
            file.sampled = std::mem::replace(&mut before.sampled, SiteMarks::none(planned.plan.numbers()));
            file.before = std::mem::take(&mut before.before);
            file.resolved = std::mem::take(&mut before.resolved);
        }
        file.counters = Some(counters);
        (file.stubs, file.stubs_at) = (stubs, address);
        Ok(())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &FileInMemory> {
        self.files.iter()
    }

    /// Reads the slots of the global offset table, which show the callees of linkage stubs.
    pub(super) fn look_at_slots(&mut self, memory: &File, modules: &PlannedModules) {
        for file in self.files.iter_mut().filter(|file| file.counters.is_some() && file.is_mapped) {
            let slots = &modules.get(file.module).plan.slots;
            let (Some(first), Some(last)) = (slots.keys().min(), slots.keys().max()) else { continue };
            /// A longer table is read slot by slot.
            const LONGEST: u64 = 1 << 20;
            if last - first < LONGEST {
                let mut bytes = vec![0; (last - first + 8) as usize];
                if memory.read_exact_at(&mut bytes, first.wrapping_add(file.bias)).is_err() {
                    continue;
                }
                for slot in slots.keys() {
                    let at = (slot - first) as usize;
                    if let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                        file.resolved.insert(*slot, u64::from_le_bytes(*word));
                    }
                }
                continue;
            }
            for slot in slots.keys() {
                let mut word = [0; 8];
                if memory.read_exact_at(&mut word, slot.wrapping_add(file.bias)).is_ok() {
                    file.resolved.insert(*slot, u64::from_le_bytes(word));
                }
            }
        }
    }

    /// Makes the threads of a block, or the thread that uses it next, note calls; or makes them stop.
    fn must_note(&self, block: u32, calls: u64, shared: &SharedMemory) -> io::Result<()> {
        shared.write(self.block_offset(block) + TO_NOTE, &(calls as u32).to_le_bytes())
    }

    /// Makes all threads note their next calls. Returns their blocks.
    pub(super) fn begin_noting(&self, shared: &SharedMemory) -> Vec<u32> {
        let blocks = (0..self.used_blocks).filter(|block| self.users[*block as usize] > 0);
        blocks.filter(|block| self.must_note(*block, MOST_EVENTS, shared).is_ok()).collect()
    }

    /// Makes the threads of a block stop noting calls. Returns the noted ones in their order.
    pub(super) fn end_noting(&self, block: u32, shared: &SharedMemory) -> Vec<CallEvent> {
        let at = self.block_offset(block);
        let left = u64::from(shared.number(at + TO_NOTE)).min(MOST_EVENTS);
        if self.must_note(block, 0, shared).is_err() || left == MOST_EVENTS {
            return Vec::new();
        }
        let noted = shared.read(at + EVENTS + left * EVENT_BYTES..at + EVENTS + MOST_EVENTS * EVENT_BYTES);
        noted.chunks_exact(EVENT_BYTES as usize).rev().map(CallEvent::read).collect()
    }

    /// Returns call site and callee of a noted call.
    pub(super) fn noted_call(
        &self,
        event: &CallEvent,
        modules: &PlannedModules,
        tally: &mut CallTally,
    ) -> Option<NotedCall> {
        let mut with_stubs = self.files.iter().rev().filter(|file| file.counters.is_some());
        let (file, site) = with_stubs.find_map(|file| {
            let offset = event.stub.wrapping_sub(file.stubs_at as u32);
            Some((file, file.stubs.noting_site(&modules.get(file.module).plan, offset)?))
        })?;
        let plan = &modules.get(file.module).plan;
        let (at, is_jump, callee) = match plan.direct.get(site) {
            Some(site) => (site.at, !site.form.is_call(), self.callee_of(file, site, modules, tally)?),
            None => {
                let site = plan.indirect.get(site - plan.direct.len())?;
                (site.at, site.is_tail, self.linked_by_half(event.target)?)
            }
        };
        let (site, depth) = ((file.module, at), Stubs::noted_depth(plan, site));
        let [site, callee] = [site, callee].map(|place| tally.number(place));
        Some(NotedCall { site, callee, is_jump, depth })
    }

    /// Returns the file and the address as linked for the low half of an address in memory.
    fn linked_by_half(&self, address: u32) -> Option<(usize, u64)> {
        self.files.iter().rev().find_map(|file| {
            let start = file.range.start;
            let address = start.wrapping_add(address.wrapping_sub(start as u32).into());
            file.range.contains(&address).then(|| (file.module, address.wrapping_sub(file.bias)))
        })
    }

    /// Returns the file and the address as linked for an address in memory.
    fn linked(&self, address: u64) -> Option<(usize, u64)> {
        let file = self.files.iter().rev().find(|file| file.range.contains(&address))?;
        Some((file.module, address.wrapping_sub(file.bias)))
    }

    /// From now on, all sites that have counted since the last time are counted only in bursts. Other sites cost
    /// nothing, and show the first use of a function at any time.
    pub(super) fn sample(&mut self, shared: &SharedMemory) {
        for (file, counted) in self.counted(shared).into_iter().enumerate() {
            let file = &mut self.files[file];
            if !file.is_always_counted {
                counted.set_aside(&mut file.sampled, &mut file.before);
            }
        }
    }

    /// Returns the counts by file.
    fn counted(&self, shared: &SharedMemory) -> Vec<SiteCounts> {
        let used: Vec<u64> = (0..self.used_blocks)
            .map(|block| self.block_offset(block))
            .filter(|offset| shared.has_data(&(*offset..offset + self.block_length)))
            .collect();
        let mut targets = Vec::new();
        for offset in &used {
            let table = offset + TARGETS..offset + TARGETS + TARGETS_BYTES;
            if shared.has_data(&table) {
                targets.extend(FurtherTarget::all(&shared.read(table)));
            }
        }
        let by_file = self.files.iter().map(|file| {
            let mut counted = SiteCounts::default();
            let Some(counters) = &file.counters else { return counted };
            for offset in &used {
                let part = offset + counters.at..offset + counters.end();
                if shared.has_data(&part) {
                    counted.add(counters, &shared.read(part));
                }
            }
            counted.add_targets(counters, &targets);
            counted
        });
        by_file.collect()
    }

    /// Adds the counts to a tally, and releases the memory unless one of its threads still runs. `weight`: weight of a
    /// call in a burst.
    pub(super) fn retire(
        &self,
        weight: BurstWeight,
        modules: &PlannedModules,
        shared: &SharedMemory,
        tally: &mut CallTally,
    ) {
        for (file, mut counted) in self.files.iter().zip(self.counted(shared)) {
            if !self.counts_always {
                tally.uncertain += counted.weigh(&file.sampled, &file.before, weight);
            }
            self.add_to(tally, file, counted, modules);
        }
        // Released threads may still run in stubs.
        if self.threads > 0 {
            return;
        }
        shared.give_back(&(self.blocks.offset..self.blocks.offset + self.blocks.length));
        shared.give_back(&(self.table..self.table + machine::TABLE));
    }

    fn add_to(
        &self,
        tally: &mut CallTally,
        file: &FileInMemory,
        counted: SiteCounts,
        modules: &PlannedModules,
    ) {
        let plan = &modules.get(file.module).plan;
        for (index, (calls, first)) in counted.direct {
            let site = &plan.direct[index];
            let callee = self.callee_of(file, site, modules, tally);
            tally.add((file.module, site.at), callee, calls, first);
        }
        for ((index, target), (calls, first)) in counted.indirect {
            let site = &plan.indirect[index];
            let callee = self.linked(target);
            if site.is_tail && callee.is_some_and(|callee| !modules.is_function(callee)) {
                continue;
            }
            tally.add((file.module, site.at), callee, calls, first);
        }
        for calls in counted.without_target.values() {
            tally.without_target += calls;
        }
    }

    /// Returns the callee of a direct site. A slot leads to a function by the address in the program, or by its name.
    fn callee_of(
        &self,
        file: &FileInMemory,
        site: &DirectSite,
        modules: &PlannedModules,
        tally: &mut CallTally,
    ) -> Option<(usize, u64)> {
        let Some(slot) = site.slot else { return Some((file.module, site.target)) };
        let callee = modules.get(file.module).plan.slots.get(&slot)?;
        // The dynamic linker finds it at the first call. Until then the slot leads to a linkage stub of its own file.
        let resolved = file.resolved.get(&slot).filter(|address| !file.range.contains(address));
        let resolved = resolved.or_else(|| {
            let own = file.resolved.get(&slot)?;
            modules.is_function(self.linked(*own)?).then_some(own)
        });
        let found = resolved.and_then(|address| self.linked(*address));
        let by_name = match callee {
            SlotCallee::ChosenBy(resolver) => Some((file.module, *resolver)),
            SlotCallee::Named(name) => self.files.iter().find_map(|file| {
                let address = modules.get(file.module).plan.exports.get(name)?;
                Some((file.module, *address))
            }),
        };
        match (by_name, found) {
            (Some(by_name), Some(found)) => {
                tally.chosen.insert(by_name, found);
                Some(found)
            }
            (Some(by_name), None) => Some(tally.chosen.get(&by_name).copied().unwrap_or(by_name)),
            (None, found) => found,
        }
    }
}

/// Returns copies of a file's code for a process that begins, if it can map them and another process has had the same
/// file before.
fn copies_of(
    code: &NewCode<'_>,
    file: &FileInMemory,
    mapped: &[ProcessMapping],
    common: &mut CommonParts,
) -> Option<Vec<MappedCopy>> {
    let prepared = (file.stubs.prepared.get()?.as_ref()?, &code.file()?);
    let make = || CodeCopy::of(prepared, code.text, &mut common.shared, &mut common.memory_left);
    let copy = file.stubs.copy.get_or_init(make).as_ref()?;
    copy.mapped(code, mapped, prepared, &common.shared)
}
