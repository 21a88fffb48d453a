// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the bytes to change for an indirect call, and the instructions that move from there to its stub.

use super::sweep::{IndirectBranch, Sweep};
use crate::call_sites::elf::PlannedFile;
use crate::call_sites::frames::{CodeUnit, UnwindTables};
use crate::call_sites::sites::{
    CodeAddresses, DirectForm, DirectSite, FastMap, IndirectSite, JUMP, RED_ZONE, RelocatedCode, SlotCallee,
    in_one_page,
};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand,
    Mnemonic, OpKind, Register,
};
use std::ops::Range;

/// Result of examining an indirect call or jump.
pub(super) enum FoundSite {
    Direct(DirectSite),
    Indirect(IndirectSite),
    /// It jumps only inside its function.
    None,
}

/// Chooses the bytes that change for indirect sites.
pub(super) struct WindowChoice<'a, 'b> {
    pub(super) image: &'b PlannedFile<'a>,
    pub(super) units: &'b [CodeUnit],
    pub(super) tables: &'b UnwindTables<'a>,
    pub(super) sweep: &'b Sweep,
    /// Addresses that code may lead to.
    pub(super) targets: &'b CodeAddresses,
    pub(super) functions: &'b [u64],
    /// Bare code of the last examined function.
    pub(super) bare: Option<(usize, Vec<Range<u64>>)>,
    /// End of the last chosen bytes.
    pub(super) last: u64,
}

impl WindowChoice<'_, '_> {
    pub(super) fn site(
        &mut self,
        indirect: &IndirectBranch,
        slots: &FastMap<u64, SlotCallee>,
    ) -> Result<FoundSite, &'static str> {
        let last = decode(self.image, indirect.at).ok_or("calls that cannot be read")?;
        if let Some(target) = indirect.short_to {
            if self.functions.binary_search(&target).is_err() {
                return Ok(FoundSite::None);
            }
        } else if !indirect.is_jump || self.is_bare(indirect) {
            if let Some(site) = through_slot(&last, indirect, slots) {
                let bytes = site.at..site.at + site.form.length();
                return if in_one_page(&bytes) {
                    Ok(FoundSite::Direct(site))
                } else {
                    Err("sites across two pages")
                };
            }
        } else {
            return Ok(FoundSite::None);
        }
        if last.segment_prefix() != Register::None {
            return Err("calls through a segment");
        }
        let end = indirect.at + indirect.length;
        let end = if indirect.is_jump { self.end_with_padding(indirect.unit, end, indirect.at) } else { end };
        let mut start = indirect.at;
        let mut moved = Vec::new();
        let mut before = indirect.before.iter().rev();
        if indirect.is_jump && indirect.short_to.is_none() {
            // An entry of a table may be added to the table's address.
            if indirect.reads_table {
                return Ok(FoundSite::None);
            }
        }
        while end - start < JUMP {
            if self.sweep.unknown_tables[indirect.unit] {
                return Err("indirect calls next to unknown jump tables");
            }
            let address = *before.next().ok_or("indirect calls with too few bytes before them")?;
            let instruction = decode(self.image, address).ok_or("calls that cannot be read")?;
            let follows = moved.is_empty() && instruction.next_ip() == indirect.at;
            if !follows && instruction.next_ip() != start {
                return Err("indirect calls with too few bytes before them");
            }
            // A conditional jump to another function is a site of its own.
            if instruction.flow_control() == FlowControl::ConditionalBranch
                && !self.units[indirect.unit].code.contains(&instruction.near_branch64())
            {
                return Err("indirect calls after an unusual jump");
            }
            start = address;
            moved.insert(0, moved_step(self.image, instruction, indirect.is_jump)?);
        }
        let window = start..end;
        if (start + 1..end).any(|address| self.targets.contains(address)) {
            return Err("indirect calls with a branch into the bytes before them");
        }
        if start < self.last {
            return Err("indirect calls that share bytes");
        }
        if !in_one_page(&window) {
            return Err("sites across two pages");
        }
        let original = self.image.code(&window).ok_or("calls that cannot be read")?.to_vec();
        let site = encode(indirect.at, window.clone(), indirect.is_jump, original, &moved, &last)
            .ok_or("indirect calls that cannot be encoded")?;
        self.last = window.end;
        Ok(FoundSite::Indirect(site))
    }

    /// Finds the end of the bytes that a jump may change: after the last instruction of a function, padding may change,
    /// too.
    fn end_with_padding(&self, unit: usize, end: u64, at: u64) -> u64 {
        if end != self.units[unit].code.end || end - at >= JUMP {
            return end;
        }
        let next_function = self.functions.get(self.functions.partition_point(|start| *start < end));
        let next_unit = self.units.get(unit + 1).map(|unit| unit.code.start);
        let next = next_function.copied().into_iter().chain(next_unit).min().unwrap_or(end);
        let mut place = end;
        while place < next && place < at + JUMP {
            match padding(self.image, place) {
                Some(next) => place = next,
                None => return end,
            }
        }
        place.min(next).min(at + JUMP)
    }

    /// True if a jump leaves only the return address on the stack, for example a jump to another function.
    fn is_bare(&mut self, indirect: &IndirectBranch) -> bool {
        let unit = &self.units[indirect.unit];
        if self.bare.as_ref().is_none_or(|(unit, _)| *unit != indirect.unit) {
            self.bare = Some((indirect.unit, self.tables.bare(unit)));
        }
        self.bare.iter().flat_map(|(_, ranges)| ranges).any(|range| range.contains(&indirect.at))
    }
}

fn decode(image: &PlannedFile<'_>, address: u64) -> Option<Instruction> {
    let code = image.code_at(address)?;
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Returns the end of the padding at an address.
fn padding(image: &PlannedFile<'_>, address: u64) -> Option<u64> {
    let nothing = decode(image, address)?;
    matches!(nothing.mnemonic(), Mnemonic::Nop | Mnemonic::Int3).then(|| nothing.next_ip())
}

/// Makes the site at previously chosen bytes, from the file's bytes only; None if no such site is possible there.
pub(in crate::call_sites) fn window_again(
    image: &PlannedFile<'_>,
    at: u64,
    window: &Range<u64>,
    is_tail: bool,
) -> Option<IndirectSite> {
    if window.end - window.start < JUMP || !in_one_page(window) {
        return None;
    }
    let (mut moved, mut place) = (Vec::new(), window.start);
    while place < at {
        let instruction = decode(image, place)?;
        place = instruction.next_ip();
        moved.push(moved_step(image, instruction, is_tail).ok()?);
    }
    let last = decode(image, at).filter(|_| place == at)?;
    if last.segment_prefix() != Register::None {
        return None;
    }
    let is_such = match last.flow_control() {
        FlowControl::IndirectCall => !is_tail && !last.is_call_far_indirect(),
        FlowControl::IndirectBranch => is_tail && !last.is_jmp_far_indirect(),
        FlowControl::UnconditionalBranch => is_tail && last.len() == 2,
        _ => false,
    };
    place = last.next_ip();
    while is_tail && place < window.end {
        place = padding(image, place)?.min(window.end);
    }
    if !is_such || place != window.end {
        return None;
    }
    let original = image.code(window)?.to_vec();
    encode(at, window.clone(), is_tail, original, &moved, &last)
}

/// Converts an instruction before a call to the form that it has in the stub.
fn moved_step(
    image: &PlannedFile<'_>,
    instruction: Instruction,
    is_jump: bool,
) -> Result<MovedStep, &'static str> {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => {
            let code = image.code_at(instruction.ip()).unwrap_or_default();
            condition(code, &instruction).ok_or("indirect calls after an unusual jump")
        }
        FlowControl::Next => {
            movable(&instruction, is_jump)?;
            Ok(MovedStep::Plain(instruction))
        }
        _ => Err("indirect calls after an unusual instruction"),
    }
}

/// An instruction that moves to a stub.
#[derive(Debug, Clone, Copy)]
enum MovedStep {
    Plain(Instruction),
    /// A jump to this address, with this condition (the last four bits of its opcode).
    Jump(u8, u64),
}

/// A conditional jump.
fn condition(code: &[u8], instruction: &Instruction) -> Option<MovedStep> {
    let condition = match (code, instruction.len()) {
        ([opcode @ 0x70..=0x7f, ..], 2) | ([0x0f, opcode @ 0x80..=0x8f, ..], 6) => opcode & 0xf,
        _ => return None,
    };
    Some(MovedStep::Jump(condition, instruction.near_branch64()))
}

/// A call or jump through a slot of the global offset table whose callee is known.
fn through_slot(
    last: &Instruction,
    indirect: &IndirectBranch,
    slots: &FastMap<u64, SlotCallee>,
) -> Option<DirectSite> {
    if indirect.length != 6 || !last.is_ip_rel_memory_operand() || last.segment_prefix() != Register::None {
        return None;
    }
    let slot = last.ip_rel_memory_address();
    slots.contains_key(&slot).then(|| {
        let form = if indirect.is_jump { DirectForm::JumpThroughSlot } else { DirectForm::CallThroughSlot };
        DirectSite { at: indirect.at, form, target: slot, slot: Some(slot) }
    })
}

/// Checks that an instruction does the same in a stub, in which the return address is already on the stack unless the
/// stub is reached by a jump.
fn movable(instruction: &Instruction, is_jump: bool) -> Result<(), &'static str> {
    if instruction.has_lock_prefix() || instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        return Err("indirect calls after an instruction with a prefix");
    }
    if is_jump {
        return Ok(());
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let is_stack = |register: Register| register.full_register() == Register::RSP;
    let as_operand = (0..instruction.op_count()).any(|index| {
        instruction.op_kind(index) == OpKind::Register && is_stack(instruction.op_register(index))
    });
    let implicit = instruction.is_stack_instruction();
    let below = is_stack(instruction.memory_base()) && (instruction.memory_displacement64() as i64) < 0;
    if as_operand || implicit || below || is_stack(instruction.memory_index()) {
        return Err("indirect calls after a use of the stack");
    }
    let uses = info.used_memory().iter().any(|memory| is_stack(memory.base()));
    if uses && !is_stack(instruction.memory_base()) {
        return Err("indirect calls after a use of the stack");
    }
    Ok(())
}

/// Returns the same instruction for a stack that is deeper by some bytes.
fn deeper(instruction: &Instruction, by: i64) -> Instruction {
    let mut instruction = *instruction;
    if instruction.memory_base() == Register::RSP {
        let displacement = (instruction.memory_displacement64() as i64).wrapping_add(by);
        instruction.set_memory_displacement64(displacement as u64);
        instruction.set_memory_displ_size(8);
    }
    instruction
}

/// Returns the memory from which a call reads its target; None if the target is in a register.
fn memory_of(instruction: &Instruction) -> Option<MemoryOperand> {
    (instruction.op0_kind() == OpKind::Memory).then(|| {
        MemoryOperand::new(
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64() as i64,
            instruction.memory_displ_size(),
            false,
            Register::None,
        )
    })
}

/// Encodes instructions near an address.
fn encode_steps(steps: &[MovedStep], near: u64, is_tail: bool) -> Option<RelocatedCode> {
    let mut encoder = Encoder::new(64);
    let mut moved = RelocatedCode::default();
    for step in steps {
        let start = moved.bytes.len();
        match step {
            MovedStep::Plain(instruction) => {
                encoder.encode(instruction, near).ok()?;
                let place = encoder.get_constant_offsets().displacement_offset();
                moved.bytes.extend(encoder.take_buffer());
                if instruction.is_ip_rel_memory_operand() {
                    let target = instruction.ip_rel_memory_address();
                    moved.relative.push((start + place, moved.bytes.len(), target));
                }
            }
            MovedStep::Jump(condition, target) => {
                if is_tail {
                    moved.bytes.extend([0x0f, 0x80 | condition]);
                } else {
                    // A jump over the next one, with the opposite condition; the next one removes the return address,
                    // and keeps the flags.
                    moved.bytes.extend([0x70 | (condition ^ 1), 10, 0x48, 0x8d, 0x64, 0x24, 8, 0xe9]);
                }
                let place = moved.bytes.len();
                moved.bytes.extend([0; 4]);
                moved.relative.push((place, place + 4, *target));
            }
        }
    }
    Some(moved)
}

/// Encodes the program's instructions that a stub executes.
fn encode(
    at: u64,
    window: Range<u64>,
    is_tail: bool,
    original: Vec<u8>,
    moved: &[MovedStep],
    last: &Instruction,
) -> Option<IndirectSite> {
    /// The return address of a call.
    const RETURN_ADDRESS: i64 = 8;
    const SAVED: i64 = 8;
    let encoded = |steps: &[MovedStep]| encode_steps(steps, window.start, is_tail);
    let before: Vec<MovedStep> = moved
        .iter()
        .map(|step| match step {
            MovedStep::Plain(instruction) if !is_tail => {
                MovedStep::Plain(deeper(instruction, RETURN_ADDRESS))
            }
            step => *step,
        })
        .collect();
    let (while_saved, at_end) =
        if is_tail { (RED_ZONE + SAVED, 0) } else { (RETURN_ADDRESS + SAVED, RETURN_ADDRESS) };
    if last.op0_kind() == OpKind::NearBranch64 {
        let target = last.near_branch64();
        // lea target(%rip),%r11; jmp target
        let load =
            RelocatedCode { bytes: vec![0x4c, 0x8d, 0x1d, 0, 0, 0, 0], relative: vec![(3, 7, target)] };
        let go = RelocatedCode { bytes: vec![0xe9, 0, 0, 0, 0], relative: vec![(1, 5, target)] };
        return Some(IndirectSite { at, is_tail, original, before: encoded(&before)?, load, go, window });
    }
    // A stack pointer as the target does not point to code.
    if last.op0_kind() == OpKind::Register && last.op0_register() == Register::RSP {
        return None;
    }
    let deep = deeper(last, while_saved);
    let load = match memory_of(&deep) {
        Some(operand) => Instruction::with2(Code::Mov_r64_rm64, Register::R11, operand),
        None => Instruction::with2(Code::Mov_r64_rm64, Register::R11, last.op0_register()),
    };
    let end = deeper(last, at_end);
    let go = match memory_of(&end) {
        Some(operand) => Instruction::with1(Code::Jmp_rm64, operand),
        None => Instruction::with1(Code::Jmp_rm64, end.op0_register()),
    };
    let (load, go) = (load.ok()?, go.ok()?);
    Some(IndirectSite {
        at,
        is_tail,
        original,
        before: encoded(&before)?,
        load: encoded(&[MovedStep::Plain(load)])?,
        go: encoded(&[MovedStep::Plain(go)])?,
        window,
    })
}
