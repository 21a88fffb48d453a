// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the code of a binary says of calls: where functions call each other by name, whose address it takes, and what a call
//! costs at its target.
//!
//! No instruction set is decoded as a whole. A call is looked for where it can begin and believed when it leads to the first
//! byte of a function or into the linkage table, which other bytes hardly ever do by chance. Encodings: Intel's manual,
//! volume 2 (`e8`, `e9`, `8d /r`), and Arm's A64 manual (`bl`, `b`). Elsewhere nothing is known, and said so.

use super::{Binary, BinaryFunction};
use object::{Object as _, RelocationTarget};
use std::collections::BTreeSet;

/// A direct call in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectCall {
    /// Address of the function that it leads to.
    pub target: u64,
    /// Address of the instruction.
    pub address: u64,
    /// A jump that calls at the end of its function.
    pub tail: bool,
    /// It leads there through a linkage stub, so that another library may put its own function in place.
    pub through_stub: bool,
}

/// What the code says of calls.
#[derive(Debug, Clone, Default)]
pub struct DirectCalls {
    /// The calls, sorted.
    pub calls: Vec<DirectCall>,
    /// Calls of functions of other files: address of the instruction, and of the linkage stub.
    pub outside: Vec<(u64, u64)>,
    /// Addresses of functions that are taken other than to call them: by code, or for data in a position-independent file.
    pub taken: BTreeSet<u64>,
    /// Whether this architecture's code can be read; otherwise nothing is known, not even that there are no calls.
    pub known: bool,
}

impl DirectCalls {
    /// Looks through the code of a binary, of which these are the bytes.
    #[must_use]
    pub fn of(bytes: &[u8], binary: &Binary) -> Self {
        let scan = match binary.arch.as_deref() {
            Some("x86_64") => scan_x86_64,
            Some("aarch64") => scan_aarch64,
            _ => return Self::default(),
        };
        let aims = Aims::of(binary);
        let mut found = Self { known: true, ..Self::default() };
        let mut end = 0;
        for function in &binary.functions {
            // Aliases and parts of functions lie in what was looked through already.
            let start = function.address.max(end);
            end = end.max(function.address.saturating_add(function.size));
            if let Some(code) = code_at(bytes, binary, start, end.saturating_sub(start)) {
                scan(code, start, &aims, &mut found);
            }
        }
        found.calls.sort_unstable();
        found.taken.extend(in_data(bytes).filter(|address| aims.functions.binary_search(address).is_ok()));
        found
    }

    /// All calls that lead to the function at this address.
    #[must_use]
    pub fn to(&self, target: u64) -> &[DirectCall] {
        let from = self.calls.partition_point(|call| call.target < target);
        let to = self.calls.partition_point(|call| call.target <= target);
        &self.calls[from..to]
    }
}

/// Where a call can lead.
struct Aims {
    functions: Vec<u64>,
    /// Stubs, and the function of this same binary that each leads to.
    stubs: Vec<(u64, u64)>,
    /// Stubs that lead elsewhere.
    outside: Vec<u64>,
}

impl Aims {
    fn of(binary: &Binary) -> Self {
        let functions: Vec<u64> = binary.functions.iter().map(|function| function.address).collect();
        let defined = |name: &str| binary.functions.iter().find(|f| !f.local && f.name == name);
        let (mut stubs, mut outside) = (Vec::new(), Vec::new());
        for stub in &binary.plt_stubs {
            match defined(&stub.target) {
                Some(function) => stubs.push((stub.address, function.address)),
                None => outside.push(stub.address),
            }
        }
        Self { functions, stubs, outside }
    }

    fn take(&self, address: u64, aim: u64, tail: bool, found: &mut DirectCalls) -> bool {
        if self.functions.binary_search(&aim).is_ok() {
            found.calls.push(DirectCall { target: aim, address, tail, through_stub: false });
            return true;
        }
        match self.stubs.binary_search_by_key(&aim, |(stub, _)| *stub) {
            Ok(index) => {
                let target = self.stubs[index].1;
                found.calls.push(DirectCall { target, address, tail, through_stub: true });
                true
            }
            Err(_) if self.outside.binary_search(&aim).is_ok() => {
                found.outside.push((address, aim));
                true
            }
            Err(_) => false,
        }
    }
}

/// Addresses that the dynamic linker writes into data, such as those of functions in tables.
fn in_data(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let file = object::File::parse(bytes).ok();
    let relocations: Vec<u64> = file
        .as_ref()
        .and_then(|file| file.dynamic_relocations())
        .into_iter()
        .flatten()
        .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
        .map(|(_, relocation)| relocation.addend() as u64)
        .collect();
    relocations.into_iter()
}

fn code_at<'a>(bytes: &'a [u8], binary: &Binary, address: u64, size: u64) -> Option<&'a [u8]> {
    let offset = usize::try_from(binary.file_offset_of_address(address)?).ok()?;
    bytes.get(offset..offset.checked_add(usize::try_from(size).ok()?)?)
}

fn scan_x86_64(code: &[u8], start: u64, aims: &Aims, found: &mut DirectCalls) {
    let mut at = 0;
    while at + 5 <= code.len() {
        let relative = |skip: usize| {
            let four = code.get(at + skip..at + skip + 4)?;
            let distance = i32::from_le_bytes(four.try_into().ok()?);
            Some(start.wrapping_add((at + skip + 4) as u64).wrapping_add_signed(i64::from(distance)))
        };
        let address = start.wrapping_add(at as u64);
        let length = match code[at] {
            opcode @ (0xe8 | 0xe9) => {
                relative(1).filter(|aim| aims.take(address, *aim, opcode == 0xe9, found)).map(|_| 5)
            }
            // lea register, [rip + distance]
            0x48 | 0x4c if code[at + 1] == 0x8d && code[at + 2] & 0xc7 == 0x05 => relative(3)
                .filter(|aim| aims.functions.binary_search(aim).is_ok())
                .map(|aim| found.taken.insert(aim))
                .map(|_| 7),
            _ => None,
        };
        at += length.unwrap_or(1);
    }
}

fn scan_aarch64(code: &[u8], start: u64, aims: &Aims, found: &mut DirectCalls) {
    /// Bits of `b` and `bl` that are the same in all of them.
    const BRANCH: u32 = 0x7c00_0000;
    for (index, word) in code.chunks_exact(4).enumerate() {
        let instruction = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if instruction & BRANCH != 0x1400_0000 {
            continue;
        }
        let address = start.wrapping_add(4 * index as u64);
        // 26 bits with a sign, in instructions of four bytes.
        let distance = i64::from((instruction << 6) as i32 >> 4);
        aims.take(address, address.wrapping_add_signed(distance), instruction >> 31 == 0, found);
    }
}

/// How many instructions a call of this function costs beside its own work: the call, the return, and what saves and restores
/// registers and the stack at its two ends. None where the architecture's code is not read.
#[must_use]
pub fn instructions_per_call(bytes: &[u8], binary: &Binary, function: &BinaryFunction) -> Option<u32> {
    const CALL_AND_RETURN: u32 = 2;
    if binary.arch.as_deref() != Some("x86_64") {
        return None;
    }
    let mut code = code_at(bytes, binary, function.address, function.size)?;
    let mut count = CALL_AND_RETURN;
    loop {
        let (length, cost) = match code {
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => (4, 1), // endbr64
            [0x50..=0x57, ..] => (1, 2),            // push, and the pop for it
            [0x41, 0x50..=0x57, ..] => (2, 2),      // the same for r8 to r15
            [0x48, 0x89, 0xe5, ..] => (3, 1),       // mov rbp, rsp
            [0x48, 0x83, 0xec, _, ..] => (4, 2),    // sub rsp, and the add for it
            [0x48, 0x81, 0xec, _, _, _, _, ..] => (7, 2),
            // Moves of arguments stand between the pushes.
            [0x41 | 0x44 | 0x45 | 0x48 | 0x49 | 0x4c | 0x4d, 0x89, 0xc0..=0xff, ..] => (3, 0),
            [0x89, 0xc0..=0xff, ..] => (2, 0),
            _ => return Some(count),
        };
        count += cost;
        code = &code[length..];
    }
}
