// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes all functions of a file in one pass, and finds the branches that may be sites, and every address that code
//! may lead to.

use crate::call_sites::elf::PlannedFile;
use crate::call_sites::frames::{CodeUnit, UnwindTables, landing_pads};
use crate::call_sites::sites::{DirectForm, RefusedSites};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::ops::Range;

/// A direct branch to an address outside of its function.
pub(super) struct DirectBranch {
    pub(super) at: u64,
    pub(super) form: DirectForm,
    pub(super) target: u64,
}

/// An indirect call or jump, or a jump of two bytes to another function, with the instructions that run before it, the
/// nearest one last: those of its basic block, and of blocks that lead to it by a conditional jump that is not taken.
pub(super) struct IndirectBranch {
    pub(super) at: u64,
    pub(super) length: u64,
    pub(super) is_jump: bool,
    /// Number of the function.
    pub(super) unit: usize,
    pub(super) before: Vec<u64>,
    /// True if it, or an instruction before it, may read a table of addresses in its function.
    pub(super) reads_table: bool,
    /// Target of a jump of two bytes, which cannot reach a stub.
    pub(super) short_to: Option<u64>,
}

/// Result of decoding all functions.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) branches: Vec<DirectBranch>,
    pub(super) indirect: Vec<IndirectBranch>,
    /// Addresses that code may lead to.
    pub(super) targets: Vec<u64>,
    /// By function: true if it jumps by tables that were not found.
    pub(super) unknown_tables: Vec<bool>,
    pub(super) uses_gs: bool,
    pub(super) refused: RefusedSites,
}

/// Largest number of instructions before an indirect call that may move with it.
const MOST_MOVED: usize = 5;
/// Largest number of entries of a jump table.
const LONGEST_TABLE: usize = 1 << 14;

/// A function while it is decoded.
struct DecodedUnit<'a, 'b> {
    file: &'b PlannedFile<'a>,
    range: &'b Range<u64>,
    /// Ranges in which only the return address is on the stack.
    bare: &'b dyn Fn() -> Vec<Range<u64>>,
    number: usize,
    /// By byte: true if an instruction begins there.
    boundaries: Vec<bool>,
    inner: Vec<u64>,
    outer: Vec<u64>,
    /// Addresses outside code, which may be jump tables.
    tables: Vec<u64>,
    /// Instructions that run before the next one.
    block: Vec<u64>,
    /// True if one of them may read a table.
    reads_table: bool,
    /// True if data contains addresses inside the function, for example a jump table.
    has_labels: bool,
    /// True if it jumps inside itself by addresses.
    jumps: bool,
    uses_gs: bool,
    branches: Vec<DirectBranch>,
    indirect: Vec<IndirectBranch>,
    short: u64,
    unusual: u64,
}

impl Sweep {
    /// Decodes all functions; `overlaps`: functions that share bytes with another one, and are not changed.
    pub(super) fn of(
        file: &PlannedFile<'_>,
        (units, tables): (&[CodeUnit], &UnwindTables<'_>),
        overlaps: &[bool],
        words: &[u64],
    ) -> Self {
        /// Number of functions that justifies a thread.
        const FEWEST: usize = 500;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let each = units.len().div_ceil(processors).max(FEWEST);
        let decode = |units: &[CodeUnit], overlaps: &[bool]| {
            let mut sweep = Self::default();
            for (unit, overlaps) in units.iter().zip(overlaps) {
                let done = if *overlaps {
                    sweep.unknown_tables.push(true);
                    Err("functions that overlap")
                } else {
                    sweep.unit(file, (unit, tables), words)
                };
                if let Err(why) = done {
                    sweep.refuse(why, 1);
                }
            }
            sweep
        };
        let parts: Vec<_> = units.chunks(each).zip(overlaps.chunks(each)).collect();
        let Some(((first, first_overlaps), others)) = parts.split_first() else { return Self::default() };
        std::thread::scope(|scope| {
            let begin = |(units, overlaps): &(_, _)| {
                let (units, overlaps): (&[CodeUnit], &[bool]) = (*units, *overlaps);
                std::thread::Builder::new().spawn_scoped(scope, move || decode(units, overlaps))
            };
            let others: Vec<_> = others.iter().map(|part| (part, begin(part))).collect();
            let mut all = decode(first, first_overlaps);
            for ((units, overlaps), thread) in others {
                // If no further thread can be started, this one does the work.
                let sweep = match thread.map(std::thread::ScopedJoinHandle::join) {
                    Ok(Ok(sweep)) => sweep,
                    Ok(Err(why)) => std::panic::resume_unwind(why),
                    Err(_) => decode(units, overlaps),
                };
                all.append(sweep);
            }
            all
        })
    }

    /// Appends the results of the following functions.
    fn append(&mut self, mut other: Self) {
        let before = self.unknown_tables.len();
        other.indirect.iter_mut().for_each(|indirect| indirect.unit += before);
        self.branches.append(&mut other.branches);
        self.indirect.append(&mut other.indirect);
        self.targets.append(&mut other.targets);
        self.unknown_tables.append(&mut other.unknown_tables);
        self.uses_gs |= other.uses_gs;
        for (why, count) in other.refused {
            *self.refused.entry(why).or_default() += count;
        }
    }

    /// Decodes one function. `words`: addresses of code in data, in ascending order. The error says why none of its
    /// sites changes.
    fn unit(
        &mut self,
        file: &PlannedFile<'_>,
        (unwound, tables): (&CodeUnit, &UnwindTables<'_>),
        words: &[u64],
    ) -> Result<(), &'static str> {
        let range = &unwound.code;
        let number = self.unknown_tables.len();
        self.unknown_tables.push(true);
        let code = file.code(range).ok_or("functions outside code")?;
        let first = words.partition_point(|word| *word <= range.start);
        let has_labels = words.get(first).is_some_and(|word| *word < range.end);
        let bare = || tables.bare(unwound);
        let mut unit = DecodedUnit::new(file, range, &bare, number, has_labels);
        let decoded = unit.decode(code);
        self.targets.append(&mut unit.inner);
        self.targets.append(&mut unit.outer);
        decoded?;
        self.uses_gs |= unit.uses_gs;
        self.refuse("short jumps to other functions", unit.short);
        self.refuse("calls in an unusual form", unit.unusual);
        let mut unknown = false;
        if !unit.indirect.is_empty() {
            unknown = unit.jumps && !self.read_tables(file, range, &unit.tables) && !has_labels;
            match unwound.exceptions.map(|table| pads(file, table, range.start)) {
                Some(Some(pads)) => self.targets.extend(pads),
                Some(None) => unknown = true,
                None => {}
            }
        }
        self.unknown_tables[number] = unknown;
        self.branches.append(&mut unit.branches);
        self.indirect.append(&mut unit.indirect);
        Ok(())
    }

    /// Adds the targets of a function's jump tables; true if one was found.
    fn read_tables(&mut self, file: &PlannedFile<'_>, function: &Range<u64>, tables: &[u64]) -> bool {
        let mut found = false;
        for table in tables {
            let Some(bytes) = file.data_at(*table) else { continue };
            for (index, entry) in bytes.chunks_exact(4).take(LONGEST_TABLE).enumerate() {
                let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let target = table.wrapping_add(distance as i64 as u64);
                if !file.is_code(target) {
                    break;
                }
                found |= index == 0 && function.contains(&target);
                self.targets.push(target);
            }
        }
        found
    }

    pub(super) fn refuse(&mut self, why: &'static str, count: u64) {
        if count > 0 {
            *self.refused.entry(why.into()).or_default() += count;
        }
    }
}

impl<'a, 'b> DecodedUnit<'a, 'b> {
    fn new(
        file: &'b PlannedFile<'a>,
        range: &'b Range<u64>,
        bare: &'b dyn Fn() -> Vec<Range<u64>>,
        number: usize,
        has_labels: bool,
    ) -> Self {
        Self {
            file,
            range,
            bare,
            number,
            boundaries: Vec::new(),
            inner: Vec::new(),
            outer: Vec::new(),
            tables: Vec::new(),
            block: Vec::new(),
            reads_table: false,
            has_labels,
            jumps: false,
            uses_gs: false,
            branches: Vec::new(),
            indirect: Vec::new(),
            short: 0,
            unusual: 0,
        }
    }

    fn decode(&mut self, code: &[u8]) -> Result<(), &'static str> {
        self.boundaries = vec![false; code.len()];
        let mut decoder = Decoder::with_ip(64, code, self.range.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return Err("functions with bytes that are not code");
            }
            self.boundaries[(instruction.ip() - self.range.start) as usize] = true;
            self.uses_gs |= uses_gs(&instruction);
            match instruction.flow_control() {
                _ if instruction.code() == Code::Syscall => self.plain(&instruction),
                FlowControl::Next => self.plain(&instruction),
                FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    self.direct(&instruction)?;
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => self.indirect(&instruction)?,
                FlowControl::XbeginXabortXend => return Err("functions with transactions"),
                FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => self.end_block(),
            }
        }
        if decoder.ip() != self.range.end {
            return Err("functions that end inside an instruction");
        }
        let begins = |target: &u64| self.boundaries[(*target - self.range.start) as usize];
        if !self.inner.iter().all(begins) {
            return Err("functions with branches between instructions");
        }
        Ok(())
    }

    fn end_block(&mut self) {
        self.block.clear();
        self.reads_table = false;
    }

    fn plain(&mut self, instruction: &Instruction) {
        if instruction.is_ip_rel_memory_operand() && instruction.code() == Code::Lea_r64_m {
            let address = instruction.ip_rel_memory_address();
            if self.file.is_code(address) { self.outer.push(address) } else { self.tables.push(address) }
        }
        if self.file.is_fixed {
            let file = self.file;
            self.outer.extend(immediates(instruction).filter(|address| file.is_code(*address)));
        }
        self.reads_table |= self.may_read_table(instruction);
        self.block.push(instruction.ip());
    }

    /// True if an instruction may read a table of addresses in this function. If data has no address inside this
    /// function, tables of addresses are tables of functions; other tables contain distances, which have another size.
    fn may_read_table(&self, instruction: &Instruction) -> bool {
        instruction.memory_index() != Register::None
            && instruction.code() != Code::Lea_r64_m
            && (self.has_labels || instruction.memory_index_scale() != 8)
    }

    fn direct(&mut self, instruction: &Instruction) -> Result<(), &'static str> {
        if instruction.op0_kind() != OpKind::NearBranch64 {
            return Err("functions with far branches");
        }
        let (at, target) = (instruction.ip(), instruction.near_branch64());
        let flow = instruction.flow_control();
        // A function may call itself; other branches to its first byte are loops.
        let is_recursion = flow == FlowControl::Call && target == self.range.start;
        let leaves = !self.range.contains(&target) || is_recursion;
        if leaves && flow == FlowControl::UnconditionalBranch && instruction.len() == 2 {
            self.add_indirect(instruction, true, Some(target));
        }
        if flow == FlowControl::ConditionalBranch {
            // The code after it is executed only after it.
            self.block.push(at);
        } else {
            self.end_block();
        }
        if !leaves {
            self.inner.push(target);
            return Ok(());
        }
        self.outer.push(target);
        let form = match (flow, instruction.len()) {
            (FlowControl::Call, 5) => DirectForm::Call,
            (FlowControl::UnconditionalBranch, 5) => DirectForm::Jump,
            (FlowControl::ConditionalBranch, 6) => DirectForm::ConditionalJump,
            (FlowControl::Call, _) => {
                self.unusual += 1;
                return Ok(());
            }
            (FlowControl::ConditionalBranch, _) => {
                self.short += 1;
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.branches.push(DirectBranch { at, form, target });
        Ok(())
    }

    fn indirect(&mut self, instruction: &Instruction) -> Result<(), &'static str> {
        if instruction.is_call_far_indirect() || instruction.is_jmp_far_indirect() {
            return Err("functions with far branches");
        }
        let is_jump = instruction.flow_control() == FlowControl::IndirectBranch;
        if is_jump {
            self.reads_table |= self.may_read_table(instruction);
            let at = instruction.ip();
            let is_tail = !self.reads_table && (self.bare)().iter().any(|range| range.contains(&at));
            self.jumps |= !is_tail;
            if instruction.memory_index() != Register::None {
                self.tables.push(instruction.memory_displacement64());
            }
        }
        self.add_indirect(instruction, is_jump, None);
        self.end_block();
        Ok(())
    }

    fn add_indirect(&mut self, instruction: &Instruction, is_jump: bool, short_to: Option<u64>) {
        let from = self.block.len().saturating_sub(MOST_MOVED);
        self.indirect.push(IndirectBranch {
            at: instruction.ip(),
            length: instruction.len() as u64,
            is_jump,
            unit: self.number,
            before: self.block[from..].to_vec(),
            reads_table: self.reads_table,
            short_to,
        });
    }
}

fn uses_gs(instruction: &Instruction) -> bool {
    let has_memory = (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
    let in_memory =
        instruction.segment_prefix() == Register::GS && has_memory && instruction.mnemonic() != Mnemonic::Nop;
    in_memory || matches!(instruction.code(), Code::Wrgsbase_r32 | Code::Wrgsbase_r64)
}

/// Returns the landing pads of a function; None if they cannot be read.
fn pads(file: &PlannedFile<'_>, table: u64, start: u64) -> Option<Vec<u64>> {
    let (address, bytes) = file.section(".gcc_except_table")?;
    landing_pads(bytes, address, table, start)
}

/// Numbers in an instruction that may be addresses.
fn immediates(instruction: &Instruction) -> impl Iterator<Item = u64> + '_ {
    (0..instruction.op_count()).filter_map(|index| match instruction.op_kind(index) {
        OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
            Some(instruction.immediate(index))
        }
        _ => None,
    })
}
