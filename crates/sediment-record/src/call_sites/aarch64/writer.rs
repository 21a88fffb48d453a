// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes A64 instructions for an address, with distances to code and data elsewhere.
//!
//! Only instructions are written that change no flag.

use crate::call_sites::placement::TooFar;

/// A register, by its number.
pub(super) type Register = u32;
/// The stack pointer, or zero, as the instruction has it.
pub(super) const SP: Register = 31;
pub(super) const ZERO: Register = 31;

/// Machine code for an address.
pub(super) struct A64Writer {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// True if the processor has atomic instructions (LSE).
    pub(super) has_atomics: bool,
}

/// Position of a branch whose distance is not yet known.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardBranch(usize);

impl A64Writer {
    pub(super) fn new(start: u64, has_atomics: bool) -> Self {
        Self { start, bytes: Vec::new(), has_atomics }
    }

    pub(super) fn here(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn put(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn with(&mut self, word: u32, source: Register, to: Register) {
        self.put(word | source << 5 | to);
    }

    /// Rounds up with instructions that do nothing.
    pub(super) fn align(&mut self, to: usize) {
        while self.bytes.len() % to != 0 {
            self.put(NOP);
        }
    }

    // Branches

    fn far(&mut self, opcode: u32, target: u64) -> Result<(), TooFar> {
        let word = branch(opcode, self.here(), target).ok_or(TooFar)?;
        self.put(word);
        Ok(())
    }

    /// `b`.
    pub(super) fn jump(&mut self, target: u64) -> Result<(), TooFar> {
        self.far(B, target)
    }

    /// `bl`.
    pub(super) fn call(&mut self, target: u64) -> Result<(), TooFar> {
        self.far(BL, target)
    }

    /// `br`.
    pub(super) fn jump_to(&mut self, register: Register) {
        self.put(0xd61f_0000 | register << 5);
    }

    /// A branch forward, by its opcode.
    pub(super) fn ahead(&mut self, opcode: u32) -> ForwardBranch {
        self.put(opcode);
        ForwardBranch(self.bytes.len() - 4)
    }

    /// Makes the branch lead here.
    pub(super) fn land(&mut self, hole: ForwardBranch) {
        self.lead(hole.0, self.bytes.len());
    }

    /// A branch back to an offset, by its opcode.
    pub(super) fn back(&mut self, opcode: u32, offset: usize) {
        let from = self.bytes.len();
        self.put(opcode);
        self.lead(from, offset);
    }

    fn lead(&mut self, from: usize, to: usize) {
        let Some(place) = self.bytes.get_mut(from..).and_then(|bytes| bytes.first_chunk_mut::<4>()) else {
            return;
        };
        let word = u32::from_le_bytes(*place);
        let distance = (to as i64 - from as i64) / 4;
        let bits = if word >> 26 == B >> 26 {
            distance as u32 & 0x03ff_ffff
        } else {
            (distance as u32 & 0x7_ffff) << 5
        };
        *place = (word | bits).to_le_bytes();
    }

    // Addresses and numbers

    /// Loads an address in the same code: `adr`.
    pub(super) fn address(&mut self, register: Register, offset: usize) {
        let distance = (offset as i64 - self.bytes.len() as i64) as u32;
        self.put(0x1000_0000 | (distance & 3) << 29 | (distance >> 2 & 0x7_ffff) << 5 | register);
    }

    /// Loads the address of a page: `adrp`.
    pub(super) fn page(&mut self, register: Register, page: u64) -> Result<(), TooFar> {
        let distance = (page >> 12) as i64 - (self.here() >> 12) as i64;
        let word = with_pages(ADRP | register, distance).ok_or(TooFar)?;
        self.put(word);
        Ok(())
    }

    /// `mov` of a number, in one instruction for each 16 bits that are not 0.
    pub(super) fn number(&mut self, register: Register, number: u64) {
        let parts = (0..4).map(|part| (part, (number >> (16 * part)) as u32 & 0xffff));
        let mut parts = parts.filter(|(_, bits)| *bits != 0);
        let (first, bits) = parts.next().unwrap_or((0, 0));
        self.put(0xd280_0000 | first << 21 | bits << 5 | register);
        parts.for_each(|(part, bits)| self.put(0xf280_0000 | part << 21 | bits << 5 | register));
    }

    /// `mov` of a number of 32 bits, always in two instructions.
    pub(super) fn number_of_4(&mut self, register: Register, number: u64) {
        self.put(0x5280_0000 | (number as u32 & 0xffff) << 5 | register);
        self.put(0x72a0_0000 | (number as u32 >> 16) << 5 | register);
    }

    pub(super) fn minus_one(&mut self, register: Register) {
        self.put(0x9280_0000 | register);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.put(0xaa00_03e0 | from << 16 | to);
    }

    // Arithmetic, without flags

    pub(super) fn add(&mut self, to: Register, one: Register, other: Register) {
        self.with(0x8b00_0000 | other << 16, one, to);
    }

    /// `add` of a register that is shifted left.
    pub(super) fn add_shifted(&mut self, to: Register, one: Register, (other, shift): (Register, u32)) {
        self.with(0x8b00_0000 | other << 16 | shift << 10, one, to);
    }

    pub(super) fn subtract(&mut self, to: Register, one: Register, other: Register) {
        self.with(0xcb00_0000 | other << 16, one, to);
    }

    pub(super) fn subtract_of_4(&mut self, to: Register, one: Register, other: Register) {
        self.with(0x4b00_0000 | other << 16, one, to);
    }

    /// `add` of a number below 4096.
    pub(super) fn add_number(&mut self, to: Register, one: Register, number: u64) {
        self.with(0x9100_0000 | (number as u32) << 10, one, to);
    }

    /// `add` of a number of whole pages, below 16 MiB.
    pub(super) fn add_pages(&mut self, to: Register, one: Register, number: u64) {
        self.with(0x9140_0000 | (number as u32 >> 12) << 10, one, to);
    }

    pub(super) fn subtract_number(&mut self, to: Register, one: Register, number: u64) {
        self.with(0xd100_0000 | (number as u32) << 10, one, to);
    }

    pub(super) fn multiply_of_4(&mut self, to: Register, one: Register, other: Register) {
        self.with(0x1b00_7c00 | other << 16, one, to);
    }

    /// `add` of a register that is shifted right.
    pub(super) fn add_shifted_right(&mut self, to: Register, one: Register, (other, shift): (Register, u32)) {
        self.with(0x8b40_0000 | other << 16 | shift << 10, one, to);
    }

    /// Takes bits of a register: `ubfx`.
    pub(super) fn bits(&mut self, to: Register, from: Register, lowest: u32, number: u32) {
        self.with(0xd340_0000 | lowest << 16 | (lowest + number - 1) << 10, from, to);
    }

    /// `and` with the lowest bits of 4 bytes.
    pub(super) fn lowest_of_4(&mut self, to: Register, from: Register, number: u32) {
        self.with(0x1200_0000 | (number - 1) << 10, from, to);
    }

    // Memory

    /// Loads 8 bytes at an offset that is a multiple of 8.
    pub(super) fn load(&mut self, to: Register, from: Register, offset: u64) {
        self.with(0xf940_0000 | (offset as u32 / 8) << 10, from, to);
    }

    pub(super) fn load_of_4(&mut self, to: Register, from: Register, offset: u64) {
        self.with(0xb940_0000 | (offset as u32 / 4) << 10, from, to);
    }

    pub(super) fn store_of_4(&mut self, of: Register, to: Register, offset: u64) {
        self.with(0xb900_0000 | (offset as u32 / 4) << 10, to, of);
    }

    /// Loads 8 bytes, then adds to the address.
    pub(super) fn load_then_add(&mut self, to: Register, from: Register, number: u32) {
        self.with(0xf840_0400 | number << 12, from, to);
    }

    /// Loads from a table of 8 bytes, by the number of the entry.
    pub(super) fn load_entry(&mut self, to: Register, table: Register, entry: Register) {
        self.with(0xf860_7800 | entry << 16, table, to);
    }

    /// Stores 4 bytes at the sum of two registers.
    pub(super) fn store_of_4_at(&mut self, of: Register, to: Register, offset: Register) {
        self.with(0xb820_6800 | offset << 16, to, of);
    }

    /// Makes room on the stack for pairs of registers, and stores them there.
    pub(super) fn push(&mut self, pairs: &[(Register, Register)]) {
        let bytes = 16 * pairs.len() as i32;
        for (place, (one, other)) in pairs.iter().enumerate() {
            let (opcode, offset) =
                if place == 0 { (0xa980_0000, -bytes / 8) } else { (0xa900_0000, 2 * place as i32) };
            self.put(opcode | (offset as u32 & 0x7f) << 15 | other << 10 | SP << 5 | one);
        }
    }

    /// Loads them again, and gives the room back.
    pub(super) fn pop(&mut self, pairs: &[(Register, Register)]) {
        for (place, (one, other)) in pairs.iter().enumerate().rev() {
            let (opcode, offset) = if place == 0 {
                (0xa8c0_0000, 2 * pairs.len() as u32)
            } else {
                (0xa940_0000, 2 * place as u32)
            };
            self.put(opcode | (offset & 0x7f) << 15 | other << 10 | SP << 5 | one);
        }
    }

    // Memory that other threads change

    /// Adds a number to 8 bytes (or 4) at once, and loads what was there before. The other register is changed.
    pub(super) fn fetch_add(&mut self, add: Add, at: Register, before: Register, other: Register) {
        let Add { number, is_of_4 } = add;
        let size = if is_of_4 { 0 } else { 1 << 30 };
        if number < 0 {
            self.minus_one(other);
        } else {
            self.number(other, number as u64);
        }
        if self.has_atomics {
            self.with(0xb820_0000 | size | other << 16, at, before);
            return;
        }
        // The sum and the result of the store are in one register.
        let retry = self.bytes.len();
        self.with(0x885f_7c00 | size, at, before);
        self.add(before, before, other);
        self.with(0x8800_7c00 | size | other << 16, at, before);
        let done = self.ahead(CBZ_4 | other);
        if number < 0 {
            self.minus_one(other);
        } else {
            self.number(other, number as u64);
        }
        self.back(B, retry);
        self.land(done);
        if number < 0 {
            self.add_number(before, before, number.unsigned_abs());
        } else {
            self.subtract_number(before, before, number as u64);
        }
    }

    /// Adds 1 to 8 bytes at once. The other registers are changed.
    pub(super) fn count(&mut self, at: Register, one: Register, other: Register) {
        if self.has_atomics {
            self.number(one, 1);
            self.with(0xf820_0000 | one << 16, at, ZERO);
            return;
        }
        let retry = self.bytes.len();
        self.with(0xc85f_7c00, at, one);
        self.add_number(one, one, 1);
        self.with(0xc800_7c00 | other << 16, at, one);
        self.back(CBNZ_4 | other, retry);
    }

    /// Stores a register if 8 bytes are 0, and loads what was there before. The other register is changed.
    pub(super) fn claim(&mut self, of: Register, at: Register, before: Register, other: Register) {
        if self.has_atomics {
            self.number(before, 0);
            self.with(0xc8a0_7c00 | before << 16, at, of);
            return;
        }
        let retry = self.bytes.len();
        self.with(0xc85f_7c00, at, before);
        let taken = self.ahead(CBNZ | before);
        self.with(0xc800_7c00 | other << 16, at, of);
        self.back(CBNZ_4 | other, retry);
        self.land(taken);
    }
}

/// What is added to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Add {
    pub(super) number: i64,
    pub(super) is_of_4: bool,
}

pub(super) const B: u32 = 0x1400_0000;
pub(super) const BL: u32 = 0x9400_0000;
pub(super) const CBZ: u32 = 0xb400_0000;
pub(super) const CBNZ: u32 = 0xb500_0000;
pub(super) const CBZ_4: u32 = 0x3400_0000;
pub(super) const CBNZ_4: u32 = 0x3500_0000;
const ADRP: u32 = 0x9000_0000;
pub(super) const NOP: u32 = 0xd503_201f;
pub(super) const ISB: u32 = 0xd503_3fdf;
/// `dmb ish`.
pub(super) const BARRIER: u32 = 0xd503_3bbf;
/// `svc #0`.
pub(super) const SVC: u32 = 0xd400_0001;
/// `mrs x0, tpidr_el0`.
pub(super) const THREAD: u32 = 0xd53b_d040;

/// Encodes `b` or `bl` to an address; None if it is too far.
pub(super) fn branch(opcode: u32, from: u64, to: u64) -> Option<u32> {
    with_words(opcode, to.wrapping_sub(from) as i64)
}

fn with_words(opcode: u32, distance: i64) -> Option<u32> {
    const REACH: i64 = 1 << 27;
    let fits = distance % 4 == 0 && (-REACH..REACH).contains(&distance);
    fits.then_some(opcode & 0xfc00_0000 | (distance >> 2) as u32 & 0x03ff_ffff)
}

fn with_pages(opcode: u32, pages: i64) -> Option<u32> {
    const REACH: i64 = 1 << 20;
    let bits = pages as u32;
    let word = opcode & 0x9f00_001f | (bits & 3) << 29 | (bits >> 2 & 0x7_ffff) << 5;
    (-REACH..REACH).contains(&pages).then_some(word)
}

/// Target of `b` or `bl` at an address.
pub(super) fn target(word: u32, at: u64) -> u64 {
    at.wrapping_add_signed(4 * i64::from((word << 6) as i32 >> 6))
}
