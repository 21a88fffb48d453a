// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room for stubs in the shared memory. Stubs depend only on distances. So programs with the same distance between a
//! file and its room map the same stubs, which are made and written once.

use super::counters::{FILES, FileCounters};
use super::entrance::{Region, RegionKind};
use super::machine::LIBRARY_STUBS;
use super::modules::PlannedModule;
use super::placement::StubPlacement;
use super::plan::SitePlan;
use super::shared::SharedMemory;
use super::sites::PAGE;
use super::stubs::{Stubs, size};
use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a block for the counters of libraries.
pub(super) const LIBRARY_COUNTERS: u64 = 48 << 20;
/// Number of rooms of programs that are kept for the next process.
const KEPT: usize = 32;

/// The function that the dynamic linker calls when libraries have been loaded or unloaded.
pub(super) const NOTICE: &str = "_dl_debug_state";
/// The dynamic linker's data for it (struct r_debug of the C library's link.h), and the offset of its state.
const STATE: &str = "_r_debug";
const STATE_AT: u64 = 24;

/// Bytes of memory that a process needs for the changes of a file: pages that become copies, stubs, and counters of a
/// thread.
pub(super) fn memory_of(plan: &SitePlan) -> u64 {
    let direct = plan.direct.iter().map(|site| site.at);
    let indirect = plan.indirect.iter().map(|site| site.window.start);
    let pages: HashSet<u64> = direct.chain(indirect).map(|at| at / PAGE).collect();
    pages.len() as u64 * PAGE + size(plan) + FileCounters::of(plan.numbers(), 0).end()
}

/// Room that programs share.
#[derive(Debug)]
pub(super) struct StubRoom {
    /// Its offset in the shared memory.
    offset: u64,
    length: u64,
    used: u64,
    /// Offsets in a block for the counters of the next file, and their end.
    counters: Range<u64>,
    stubs: Vec<PlacedStubs>,
    /// True if its stubs can note calls.
    is_traced: bool,
}

/// Stubs of a file that were found in a room, or made there.
pub(super) struct FoundStubs {
    pub(super) counters: FileCounters,
    pub(super) address: u64,
    pub(super) stubs: Rc<Stubs>,
}

/// Stubs of a file in a room.
#[derive(Debug)]
struct PlacedStubs {
    module: usize,
    /// Offset in the room.
    at: u64,
    /// Distance of the stubs from the file.
    distance: u64,
    counters: FileCounters,
    stubs: Rc<Stubs>,
}

/// A file that needs stubs.
pub(super) struct StubRequest<'a> {
    /// Its number.
    pub(super) module: usize,
    pub(super) planned: &'a PlannedModule,
    /// Difference between addresses in memory and addresses as linked.
    pub(super) bias: u64,
    /// Counters of other copies of it in the same program.
    pub(super) taken: Vec<u64>,
}

impl StubRoom {
    fn new(
        (length, is_traced): (u64, bool),
        counters: Range<u64>,
        shared: &mut SharedMemory,
    ) -> io::Result<Self> {
        let offset = shared.take(length)?;
        Ok(Self { offset, length, used: 0, counters, stubs: Vec::new(), is_traced })
    }

    /// Returns the room for a mapping at an address.
    pub(super) fn region(&self, address: u64) -> Region {
        Region { address, length: self.length, offset: self.offset, kind: RegionKind::Code }
    }

    /// Returns the stubs of a file for programs that have this room at an address; None if there is no room left.
    pub(super) fn stubs(
        &mut self,
        address: u64,
        request: &StubRequest<'_>,
        shared: &SharedMemory,
    ) -> io::Result<Option<FoundStubs>> {
        let StubRequest { module, planned, bias, taken } = request;
        let fits = |placed: &&PlacedStubs| placed.module == *module && !taken.contains(&placed.counters.at);
        let distance = |at: u64| (address + at).wrapping_sub(*bias);
        let mut known = self.stubs.iter().filter(fits);
        if let Some(same) = known.clone().find(|placed| placed.distance == distance(placed.at)) {
            let (counters, stubs) = (same.counters, Rc::clone(&same.stubs));
            return Ok(Some(FoundStubs { counters, address: address + same.at, stubs }));
        }
        let elsewhere = known.next();
        let counters = match elsewhere {
            Some(placed) => placed.counters,
            None => FileCounters::of(planned.plan.numbers(), self.counters.start),
        };
        let length = size(&planned.plan);
        if self.used + length > self.length || counters.end() > self.counters.end {
            return Ok(None);
        }
        let at = self.used;
        let moved = elsewhere
            .and_then(|placed| placed.stubs.moved(distance(at).wrapping_sub(placed.distance) as i64));
        let stubs = moved.unwrap_or_else(|| {
            let address_of = |name| planned.plan.exports.get(name).copied();
            let placement = StubPlacement {
                bias: *bias,
                stubs: address + at,
                room: address,
                counters,
                notice: address_of(NOTICE),
                state: address_of(STATE).map(|about| about.wrapping_add(STATE_AT)),
                is_traced: self.is_traced,
            };
            Stubs::emit(&planned.plan, &placement)
        });
        debug_assert!(stubs.made.code.len() as u64 <= length, "stubs are too long");
        if stubs.made.code.len() as u64 > length {
            return Ok(None);
        }
        shared.write(self.offset + at, &stubs.made.code)?;
        self.counters.start = self.counters.start.max(counters.end());
        self.used += length;
        let stubs = Rc::new(stubs);
        let placed =
            PlacedStubs { module: *module, at, distance: distance(at), counters, stubs: Rc::clone(&stubs) };
        self.stubs.push(placed);
        Ok(Some(FoundStubs { counters, address: address + at, stubs }))
    }

    /// Addresses in memory of the next stubs, of this length, if the room is at an address.
    pub(super) fn next(&self, address: u64, length: u64) -> Range<u64> {
        address..address + self.used + length
    }

    /// True if a program with many libraries might need more than is left.
    fn is_scarce(&self) -> bool {
        self.used > LIBRARY_STUBS / 2 || self.counters.start > FILES + LIBRARY_COUNTERS / 2
    }
}

/// A room shared by programs.
pub(super) type SharedRoom = Rc<RefCell<StubRoom>>;

/// All rooms that programs use, or may use next.
#[derive(Debug)]
pub(super) struct StubRooms {
    /// True if stubs can note calls.
    are_traced: bool,
    /// By number of the program's file, and distance of the room from it; the most recently used one is last.
    of_programs: Vec<(usize, u64, SharedRoom)>,
    /// The last one is for programs that begin.
    of_libraries: Vec<SharedRoom>,
}

impl StubRooms {
    pub(super) fn new(are_traced: bool) -> Self {
        Self { are_traced, of_programs: Vec::new(), of_libraries: Vec::new() }
    }

    /// Returns the room for a program's own file: at this distance, with counters after those of libraries.
    pub(super) fn of_program(
        &mut self,
        (module, planned): (usize, &PlannedModule),
        distance: u64,
        shared: &mut SharedMemory,
    ) -> io::Result<SharedRoom> {
        let is_same = |(its, from, _): &(usize, u64, SharedRoom)| (*its, *from) == (module, distance);
        let room = match self.of_programs.iter().position(is_same) {
            Some(place) => self.of_programs.remove(place).2,
            None => {
                let from = FILES + LIBRARY_COUNTERS;
                let counters = from..FileCounters::of(planned.plan.numbers(), from).end();
                let length = size(&planned.plan).max(PAGE);
                Rc::new(RefCell::new(StubRoom::new((length, self.are_traced), counters, shared)?))
            }
        };
        self.of_programs.push((module, distance, Rc::clone(&room)));
        Ok(room)
    }

    /// Returns the room for the libraries of a program that begins.
    pub(super) fn of_libraries(&mut self, shared: &mut SharedMemory) -> io::Result<SharedRoom> {
        if let Some(last) = self.of_libraries.last().filter(|last| !last.borrow().is_scarce()) {
            return Ok(Rc::clone(last));
        }
        let counters = FILES..FILES + LIBRARY_COUNTERS;
        let room = StubRoom::new((LIBRARY_STUBS, self.are_traced), counters, shared)?;
        let room = Rc::new(RefCell::new(room));
        self.of_libraries.push(Rc::clone(&room));
        Ok(room)
    }

    /// Releases the memory of rooms that no program uses, except for those that the next program may use.
    pub(super) fn give_back(&mut self, shared: &SharedMemory) {
        let give_back = |room: &SharedRoom| {
            let StubRoom { offset, length, ref stubs, .. } = *room.borrow();
            shared.give_back(&(offset..offset + length));
            let copies = stubs.iter().filter_map(|placed| placed.stubs.copy.get()?.as_ref());
            copies.for_each(|copy| copy.give_back(shared));
        };
        let mut spare = self.of_programs.len().saturating_sub(KEPT);
        self.of_programs.retain(|(.., room)| {
            let goes = spare > 0 && Rc::strong_count(room) == 1;
            if goes {
                spare -= 1;
                give_back(room);
            }
            !goes
        });
        let last = self.of_libraries.len().saturating_sub(1);
        let mut place = 0;
        self.of_libraries.retain(|room| {
            let goes = place < last && Rc::strong_count(room) == 1;
            place += 1;
            if goes {
                give_back(room);
            }
            !goes
        });
    }
}
