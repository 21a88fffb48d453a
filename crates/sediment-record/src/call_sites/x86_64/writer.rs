// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes machine code for an address, with distances to code and data elsewhere.

use crate::call_sites::counters::SHARED;
use crate::call_sites::placement::TooFar;
use crate::call_sites::sites::RelocatedCode;
use std::ops::Range;

/// Machine code for an address.
pub(super) struct CodeWriter {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// Range of the stubs.
    room: Range<u64>,
    /// Positions of distances that lead out of the stubs.
    pub(super) outside: Vec<u32>,
}

/// Position of a short jump's distance, which is not yet known.
pub(super) struct Hole(usize);

impl CodeWriter {
    pub(super) fn new(room: Range<u64>) -> Self {
        Self { start: room.start, bytes: Vec::new(), room, outside: Vec::new() }
    }

    pub(super) fn here(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an instruction that ends with the distance to an address.
    pub(super) fn relative(&mut self, opcode: &[u8], target: u64) -> Result<(), TooFar> {
        self.put(opcode);
        let next = self.here() + 4;
        if !self.room.contains(&target) {
            self.outside.push(self.bytes.len() as u32);
        }
        self.put(&distance(target, next)?);
        Ok(())
    }

    pub(super) fn jump(&mut self, target: u64) -> Result<(), TooFar> {
        self.relative(&[0xe9], target)
    }

    pub(super) fn call(&mut self, target: u64) -> Result<(), TooFar> {
        self.relative(&[0xe8], target)
    }

    /// Writes a short jump forward, by its opcode.
    pub(super) fn ahead(&mut self, opcode: u8) -> Hole {
        self.put(&[opcode, 0]);
        Hole(self.bytes.len() - 1)
    }

    /// Makes the jump lead here.
    pub(super) fn land(&mut self, hole: &Hole) {
        let distance = self.bytes.len() - hole.0 - 1;
        assert!(distance < 128, "a short jump reaches less than 128 bytes");
        self.bytes[hole.0] = distance as u8;
    }

    /// Writes a short jump back to an offset.
    pub(super) fn back(&mut self, opcode: u8, offset: usize) {
        let distance = offset as i64 - (self.bytes.len() as i64 + 2);
        self.put(&[opcode, distance as i8 as u8]);
    }

    pub(super) fn moved(&mut self, moved: &RelocatedCode, bias: u64) -> Result<(), TooFar> {
        let (start, first) = (self.here(), self.bytes.len());
        self.put(&moved.bytes);
        for (place, end, target) in &moved.relative {
            let bytes = distance(target.wrapping_add(bias), start + *end as u64)?;
            self.bytes[first + place..first + place + 4].copy_from_slice(&bytes);
            self.outside.push((first + place) as u32);
        }
        Ok(())
    }

    /// Rounds up with instructions that do nothing.
    pub(super) fn align(&mut self, to: usize) {
        while self.bytes.len() % to != 0 {
            self.bytes.push(0x90);
        }
    }
}

pub(super) fn distance(target: u64, next: u64) -> Result<[u8; 4], TooFar> {
    let distance = target.wrapping_sub(next) as i64;
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| TooFar)
}

/// An offset in a block, in the form of an instruction.
pub(super) fn offset(at: u64) -> [u8; 4] {
    (at as u32).to_le_bytes()
}

/// Opcodes of short jumps.
pub(super) const JUMP_SHORT: u8 = 0xeb;
pub(super) const JUMP_EQUAL: u8 = 0x74;
pub(super) const JUMP_NOT_EQUAL: u8 = 0x75;
pub(super) const JUMP_CARRY: u8 = 0x72;

/// Loads the address of the page that the recording shares; the opcode chooses the register.
pub(super) fn load_shared(code: &mut CodeWriter, register: u8) {
    code.put(&[0x65, 0x48, 0x8b, register, 0x25]); // mov reg, gs:[SHARED]
    code.put(&offset(SHARED));
}

pub(super) const RAX: u8 = 0x04;
pub(super) const RCX: u8 = 0x0c;
