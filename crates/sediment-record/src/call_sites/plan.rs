// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan of a file: the places in its code where calls are made, and what changes there so that a stub counts them.
//!
//! Problem: given an x86-64 file, find call sites that can lead through a stub while the program behaves as before.
//!
//! Steps:
//! 1. The unwind tables have the functions. Each is decoded from its first byte to its last. A function that does not decode to its end, or
//!    that a branch enters between two instructions, is refused: its bytes are not what they seem. Code without unwind tables is refused as
//!    a whole: programs copy such code, and assembler code among data looks like it.
//! 2. A direct call, or a direct jump to the first byte of another function (a tail jump), has a displacement of 4 bytes. Only it changes.
//!    A call through the global offset table becomes a direct call of the same length.
//! 3. An indirect call has too few bytes. Instructions before it move to the stub, and a call of the stub takes their place, which ends
//!    where the old call ended: the return address stays. No branch may lead between the moved instructions. Known targets are those of
//!    direct branches, jump tables, addresses in data and in `lea`, and landing pads.
//! 4. Stubs change the flags. A callee that reads a flag before it writes it is refused; compilers keep nothing in flags over a call.
//! 5. Bytes that change lie in one page: whoever is killed while it changes them leaves whole instructions.
//!
//! Ties: sites are in the order of their addresses, and the first of two that need the same byte has it.

use super::frames::{Frame, frames, landing_pads};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand,
    Mnemonic, OpKind, Register, RflagsBits,
};
use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _, Rela as _, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Bytes of a page, within which the bytes of a site lie.
pub(super) const PAGE: u64 = 4096;

/// Form of a direct site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// `call rel32`.
    Call,
    /// `jmp rel32`.
    Jump,
    /// `jcc rel32`.
    ConditionalJump,
    /// `call *slot(%rip)`.
    CallThroughSlot,
    /// `jmp *slot(%rip)`.
    JumpThroughSlot,
}

impl Form {
    /// Bytes of the instruction.
    pub(super) fn length(self) -> u64 {
        match self {
            Self::Call | Self::Jump => 5,
            Self::ConditionalJump | Self::CallThroughSlot | Self::JumpThroughSlot => 6,
        }
    }

    /// Bytes of the instruction that stay, before the displacement.
    fn opcode_length(self) -> u64 {
        self.length() - 4
    }
}

/// A call or jump whose target its instruction has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectSite {
    /// Address of the instruction.
    pub(super) at: u64,
    /// Form of the instruction.
    pub(super) form: Form,
    /// Address that it leads to, or of the slot that it reads.
    pub(super) target: u64,
    /// Slot of the global offset table that has the callee, where a linkage stub or the instruction itself reads it.
    pub(super) slot: Option<u64>,
}

/// Instructions that run elsewhere than where they were linked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Their bytes.
    pub(super) bytes: Vec<u8>,
    /// Displacements that depend on the place: where they are, where their instruction ends, and the address that they lead to.
    pub(super) relative: Vec<(usize, usize, u64)>,
}

/// A call or tail jump to an address in a register or in memory, or a tail jump of two bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndirectSite {
    /// Address of the call or jump.
    pub(super) at: u64,
    /// The bytes that change. The last instruction in them is the call or jump; behind a jump, padding may follow.
    pub(super) window: Range<u64>,
    /// True if it jumps.
    pub(super) is_tail: bool,
    /// The bytes as the file has them.
    pub(super) original: Vec<u8>,
    /// Instructions before the call.
    pub(super) before: Moved,
    /// Loads the target into r11, which lies saved on the stack.
    pub(super) load: Moved,
    /// Jumps to the target.
    pub(super) go: Moved,
}

/// Callee that a slot of the global offset table has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotCallee {
    /// The function of this name, which the dynamic linker finds.
    Named(String),
    /// The function that a resolver of the same file chooses, which is at this address.
    ChosenBy(u64),
}

/// A function that other files may call by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) address: u64,
    /// True if it is a resolver, which chooses the function.
    pub(super) is_resolver: bool,
}

/// A loaded segment with code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextSegment {
    /// Address and end as linked.
    pub(super) code: Range<u64>,
    pub(super) file_offset: u64,
}

/// Property of a program for which its processes are left alone, or followed with care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trait {
    /// It traces other processes, or has others trace it.
    Traces,
    /// It may use the register that finds the counters.
    UsesGs,
    /// It locks its memory.
    LocksMemory,
}

/// Number of sites that are left as they are, by reason.
pub(super) type Refused = BTreeMap<&'static str, u64>;

/// What changes in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// Addresses that the file occupies, in whole pages.
    pub(super) extent: Range<u64>,
    pub(super) text: Vec<TextSegment>,
    /// Direct sites: calls first, then the others.
    pub(super) direct: Vec<DirectSite>,
    pub(super) indirect: Vec<IndirectSite>,
    pub(super) slots: HashMap<u64, SlotCallee>,
    pub(super) exports: HashMap<String, Export>,
    /// First bytes of functions, in ascending order.
    pub(super) functions: Vec<u64>,
    pub(super) build_id: Option<String>,
    pub(super) soname: Option<String>,
    pub(super) traits: BTreeSet<Trait>,
    /// Why nothing of it changes, if so.
    pub(super) left_alone: Option<&'static str>,
    /// Number of sites that change, and of those that do not.
    pub(super) refused: Refused,
}

/// An ELF file of x86-64.
struct Image<'a> {
    bytes: &'a [u8],
    file: ElfFile64<'a, LittleEndian>,
    text: Vec<TextSegment>,
    /// Other loaded segments: address, and bytes.
    data: Vec<(u64, &'a [u8])>,
    extent: Range<u64>,
    is_fixed: bool,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|_| "not an ELF file of 64 bits")?;
        let header = file.elf_header();
        if header.e_machine.get(LittleEndian) != elf::EM_X86_64 {
            return Err("of another architecture");
        }
        let is_fixed = header.e_type.get(LittleEndian) == elf::ET_EXEC;
        let (mut text, mut data, mut extent) = (Vec::new(), Vec::new(), u64::MAX..0);
        for segment in file.elf_program_headers() {
            if segment.p_type(LittleEndian) != elf::PT_LOAD {
                continue;
            }
            let address = segment.p_vaddr(LittleEndian);
            let end = address.checked_add(segment.p_memsz(LittleEndian)).ok_or("damaged")?;
            extent.start = extent.start.min(address & !(PAGE - 1));
            extent.end = extent.end.max(end.checked_next_multiple_of(PAGE).ok_or("damaged")?);
            let content = segment.data(LittleEndian, bytes).map_err(|()| "damaged")?;
            let flags = segment.p_flags(LittleEndian);
            if flags.0 & elf::PF_X.0 == 0 {
                data.push((address, content));
            } else if flags.0 & elf::PF_W.0 != 0 {
                return Err("code that is writable");
            } else {
                let code = address..address + content.len() as u64;
                text.push(TextSegment { code, file_offset: segment.p_offset(LittleEndian) });
            }
        }
        text.sort_by_key(|segment| segment.code.start);
        let is_disjoint = text.windows(2).all(|pair| pair[0].code.end <= pair[1].code.start);
        if text.is_empty() || !is_disjoint {
            return Err("no code, or segments that overlap");
        }
        Ok(Self { bytes, file, text, data, extent, is_fixed })
    }

    /// Code from this address to the end of its segment.
    fn code_at(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.text.iter().find(|segment| segment.code.contains(&address))?;
        let offset = segment.file_offset + (address - segment.code.start);
        let end = segment.file_offset + (segment.code.end - segment.code.start);
        self.bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }

    fn code(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        self.code_at(range.start)?.get(..usize::try_from(range.end - range.start).ok()?)
    }

    fn data_at(&self, address: u64) -> Option<&'a [u8]> {
        self.data.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    fn is_code(&self, address: u64) -> bool {
        self.text.iter().any(|segment| segment.code.contains(&address))
    }

    fn section(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let section = self.file.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    }

    /// Name that the file gives itself as a library.
    fn soname(&self) -> Option<String> {
        let dynamic = self.file.elf_section_table().dynamic(LittleEndian, self.bytes).ok()??;
        let (entries, link) = dynamic;
        let strings = self.file.elf_section_table().strings(LittleEndian, self.bytes, link).ok()?;
        let name = entries.iter().find(|entry| entry.d_tag(LittleEndian) == elf::DT_SONAME)?;
        let name = strings.get(u32::try_from(name.d_val(LittleEndian)).ok()?).ok()?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    }

    /// Reason to leave the whole file alone.
    fn left_alone(&self) -> Option<&'static str> {
        let is_go = |name: &str| name.ends_with(".gopclntab") || name == ".go.buildinfo";
        if self.file.sections().any(|section| section.name().is_ok_and(is_go)) {
            return Some("a program of Go");
        }
        let relocates_text = self.file.elf_program_headers().iter().any(|segment| {
            let entries = segment.dynamic(LittleEndian, self.bytes).ok().flatten().unwrap_or_default();
            entries.iter().any(|entry| {
                let tag = entry.d_tag(LittleEndian);
                let value = entry.d_val(LittleEndian);
                tag == elf::DT_TEXTREL || tag == elf::DT_FLAGS && value & elf::DF_TEXTREL.0 != 0
            })
        });
        relocates_text.then_some("text relocations")
    }
}

/// Names of programs that look for leaks of memory, for which they trace themselves.
const LOOKS_FOR_LEAKS: [&str; 2] = ["__lsan_init", "__asan_init"];

/// Symbols of a file.
#[derive(Default)]
struct Symbols {
    /// First bytes of functions.
    starts: BTreeSet<u64>,
    /// First bytes of cold parts, by their names.
    cold: BTreeSet<u64>,
    exports: HashMap<String, Export>,
    traits: BTreeSet<Trait>,
}

impl Symbols {
    fn read(image: &Image<'_>, is_library: bool) -> Self {
        let mut found = Self::default();
        for symbol in image.file.symbols().chain(image.file.dynamic_symbols()) {
            let Ok(name) = symbol.name() else { continue };
            // The C library defines these, and a program uses them.
            let is_used = symbol.is_undefined() || !is_library;
            let found_trait = match name {
                "ptrace" if is_used => Some(Trait::Traces),
                "arch_prctl" if is_used => Some(Trait::UsesGs),
                "mlockall" if is_used => Some(Trait::LocksMemory),
                _ => LOOKS_FOR_LEAKS.contains(&name).then_some(Trait::Traces),
            };
            found.traits.extend(found_trait);
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            let kind = st_info.0 & 0xf;
            let is_resolver = kind == elf::STT_GNU_IFUNC.0;
            let address = symbol.address();
            if symbol.is_undefined() || !(is_resolver || kind == elf::STT_FUNC.0) || !image.is_code(address) {
                continue;
            }
            if name.ends_with(".cold") || name.contains(".cold.") {
                found.cold.insert(address);
            } else {
                found.starts.insert(address);
            }
        }
        for symbol in image.file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            let (Ok(name), SymbolFlags::Elf { st_info, .. }) = (symbol.name(), symbol.flags()) else {
                continue;
            };
            let is_resolver = st_info.0 & 0xf == elf::STT_GNU_IFUNC.0;
            let export = Export { address: symbol.address(), is_resolver };
            found.exports.entry(name.to_owned()).or_insert(export);
        }
        found
    }
}

/// Slots of the global offset table whose callee is known.
fn slots(image: &Image<'_>) -> HashMap<u64, SlotCallee> {
    let names: HashMap<usize, &str> = image
        .file
        .dynamic_symbols()
        .filter_map(|symbol| Some((symbol.index().0, symbol.name().ok()?)))
        .collect();
    let mut found = HashMap::new();
    for section in image.file.elf_section_table().iter() {
        if section.sh_flags(LittleEndian).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(LittleEndian, image.bytes) else { continue };
        for relocation in relocations {
            let slot = relocation.r_offset(LittleEndian);
            let callee = match relocation.r_type(LittleEndian, false) {
                elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => {
                    let symbol = relocation.symbol(LittleEndian, false).map(|index| index.0);
                    symbol
                        .and_then(|index| names.get(&index))
                        .map(|name| SlotCallee::Named((*name).to_owned()))
                }
                elf::R_X86_64_IRELATIVE => {
                    Some(SlotCallee::ChosenBy(relocation.r_addend(LittleEndian) as u64))
                }
                _ => None,
            };
            if let Some(callee) = callee {
                found.insert(slot, callee);
            }
        }
    }
    found
}

/// Sections of linkage stubs.
const STUBS: [&str; 4] = [".plt", ".plt.sec", ".plt.got", ".iplt"];

/// Linkage stubs: their first bytes, and the slots that they read.
fn linkage_stubs(
    image: &Image<'_>,
    slots: &HashMap<u64, SlotCallee>,
) -> (Vec<Range<u64>>, HashMap<u64, u64>) {
    const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const STEP: usize = 8;
    let (mut sections, mut found) = (Vec::new(), HashMap::new());
    for (start, bytes) in STUBS.iter().filter_map(|name| image.section(name)) {
        sections.push(start..start + bytes.len() as u64);
        for offset in (0..bytes.len()).step_by(STEP) {
            let code = &bytes[offset..];
            let pad = if code.starts_with(&LANDING_PAD) { LANDING_PAD.len() } else { 0 };
            // bnd jmp *slot(%rip), or without bnd.
            let bound = usize::from(code.get(pad) == Some(&0xf2));
            let Some([0xff, 0x25, displacement @ ..]) =
                code.get(pad + bound..).and_then(|code| code.first_chunk::<6>())
            else {
                continue;
            };
            let next = start + (offset + pad + bound + 6) as u64;
            let slot = next.wrapping_add(i32::from_le_bytes(*displacement) as i64 as u64);
            if slots.contains_key(&slot) {
                found.insert(start + offset as u64, slot);
            }
        }
    }
    (sections, found)
}

/// A direct branch to elsewhere than its own function, which may be a site.
struct Branch {
    at: u64,
    form: Form,
    target: u64,
}

/// An indirect call or jump, which may be a site, with the instructions that run before it, the nearest last: those of its basic block,
/// and of blocks that lead to it by a conditional jump that is not taken.
struct Indirect {
    at: u64,
    length: u64,
    is_jump: bool,
    unit: usize,
    before: Vec<u64>,
    /// True if an instruction before it in its basic block may read a table.
    reads_table: bool,
    /// The function that a short jump leads to, whose two bytes cannot reach a stub.
    short_to: Option<u64>,
}

/// What decoding all functions has found.
#[derive(Default)]
struct Sweep {
    branches: Vec<Branch>,
    indirect: Vec<Indirect>,
    /// Addresses that code may lead to, other than first bytes of functions.
    targets: Vec<u64>,
    /// By function: it decoded to its end.
    decoded: Vec<bool>,
    /// By function: it jumps by tables that were not found.
    unknown_tables: Vec<bool>,
    uses_gs: bool,
    refused: Refused,
}

/// Instructions before an indirect call that may move with it, at most.
const MOST_MOVED: usize = 5;
/// Entries of a jump table, at most.
const LONGEST_TABLE: usize = 1 << 14;

impl Sweep {
    /// Decodes one function. `words`: addresses of code in data, in ascending order.
    fn unit(
        &mut self,
        image: &Image<'_>,
        (frame, frame_bytes): (&Frame, &[u8]),
        words: &[u64],
    ) -> Result<(), &'static str> {
        let range = &frame.code;
        let code = image.code(range).ok_or("functions outside code")?;
        let (branches, indirect, unit) = (self.branches.len(), self.indirect.len(), self.decoded.len());
        let mut boundaries = vec![false; code.len()];
        let (mut inner, mut outer, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        let (mut block, mut jumps, mut uses_gs): (Vec<u64>, bool, bool) = (Vec::new(), false, false);
        // Labels of this function in data, as of a jump by a table of addresses.
        let first = words.partition_point(|word| *word <= range.start);
        let has_labels = words.get(first).is_some_and(|word| *word < range.end);
        // Tables of addresses without labels are tables of functions. Others have distances, of other sizes.
        let may_read_table = |instruction: &Instruction| {
            instruction.memory_index() != Register::None
                && instruction.code() != Code::Lea_r64_m
                && (has_labels || instruction.memory_index_scale() != 8)
        };
        // True since an instruction of the block that may read a table.
        let mut reads_table = false;
        let mut bare: Option<Vec<Range<u64>>> = None;
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut odd = None;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                odd = Some("functions with bytes that are no code");
                break;
            }
            let at = instruction.ip();
            boundaries[(at - range.start) as usize] = true;
            uses_gs |= instruction.segment_prefix() == Register::GS
                && instruction.memory_base() != Register::None
                || matches!(instruction.code(), Code::Wrgsbase_r32 | Code::Wrgsbase_r64);
            let flow = if instruction.code() == Code::Syscall {
                FlowControl::Next
            } else {
                instruction.flow_control()
            };
            match flow {
                FlowControl::Next => {
                    if instruction.is_ip_rel_memory_operand() && instruction.code() == Code::Lea_r64_m {
                        let address = instruction.ip_rel_memory_address();
                        if image.is_code(address) { outer.push(address) } else { tables.push(address) }
                    }
                    if image.is_fixed {
                        outer.extend(immediates(&instruction).filter(|address| image.is_code(*address)));
                    }
                    reads_table |=
                        instruction.memory_index() != Register::None && instruction.code() != Code::Lea_r64_m;
                    block.push(at);
                }
                FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    if instruction.op0_kind() != OpKind::NearBranch64 {
                        odd = Some("functions with far branches");
                        break;
                    }
                    let target = instruction.near_branch64();
                    let is_call = flow == FlowControl::Call;
                    let is_short = flow == FlowControl::UnconditionalBranch && instruction.len() == 2;
                    if is_short && !range.contains(&target) {
                        let from = block.len().saturating_sub(MOST_MOVED);
                        let (before, length) = (block[from..].to_vec(), instruction.len() as u64);
                        let short_to = Some(target);
                        self.indirect.push(Indirect {
                            at,
                            length,
                            is_jump: true,
                            unit,
                            before,
                            reads_table,
                            short_to,
                        });
                    }
                    if flow == FlowControl::ConditionalBranch {
                        // What follows runs only after it.
                        block.push(at);
                    } else {
                        block.clear();
                        reads_table = false;
                    }
                    if range.contains(&target) && !(is_call && target == range.start) {
                        inner.push(target);
                        continue;
                    }
                    outer.push(target);
                    let form = match (flow, instruction.len()) {
                        (FlowControl::Call, 5) => Form::Call,
                        (FlowControl::UnconditionalBranch, 5) => Form::Jump,
                        (FlowControl::ConditionalBranch, 6) => Form::ConditionalJump,
                        (FlowControl::Call, _) => {
                            self.refuse("calls in an unusual form", 1);
                            continue;
                        }
                        (FlowControl::ConditionalBranch, _) => {
                            self.refuse("short jumps to other functions", 1);
                            continue;
                        }
                        _ => continue,
                    };
                    self.branches.push(Branch { at, form, target });
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    let is_jump = flow == FlowControl::IndirectBranch;
                    if instruction.is_call_far_indirect() || instruction.is_jmp_far_indirect() {
                        odd = Some("functions with far branches");
                        break;
                    }
                    if is_jump {
                        reads_table |= may_read_table(&instruction);
                        let bare = bare.get_or_insert_with(|| frame.bare(frame_bytes));
                        let is_tail = !reads_table && bare.iter().any(|range| range.contains(&at));
                        jumps |= !is_tail;
                        if instruction.memory_index() != Register::None {
                            tables.push(instruction.memory_displacement64());
                        }
                    }
                    let from = block.len().saturating_sub(MOST_MOVED);
                    let before = block[from..].to_vec();
                    let length = instruction.len() as u64;
                    self.indirect.push(Indirect {
                        at,
                        length,
                        is_jump,
                        unit,
                        before,
                        reads_table,
                        short_to: None,
                    });
                    block.clear();
                    reads_table = false;
                }
                FlowControl::XbeginXabortXend => {
                    odd = Some("functions with transactions");
                    break;
                }
                FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => {
                    block.clear();
                    reads_table = false;
                }
            }
        }
        let begins = |target: &u64| boundaries[(*target - range.start) as usize];
        if odd.is_none() && decoder.ip() != range.end {
            odd = Some("functions that end inside an instruction");
        }
        if odd.is_none() && !inner.iter().all(begins) {
            odd = Some("functions with branches between instructions");
        }
        let mut unknown_tables = false;
        if odd.is_none() && self.indirect.len() > indirect {
            unknown_tables = jumps && !self.read_tables(image, range, &tables) && !has_labels;
            match frame.exceptions.map(|table| pads(image, table, range.start)) {
                Some(Some(pads)) => inner.extend(pads),
                Some(None) => unknown_tables = true,
                None => {}
            }
        }
        self.targets.append(&mut inner);
        self.targets.append(&mut outer);
        self.uses_gs |= uses_gs && odd.is_none();
        self.decoded.push(odd.is_none());
        self.unknown_tables.push(unknown_tables);
        if let Some(odd) = odd {
            self.branches.truncate(branches);
            self.indirect.truncate(indirect);
            return Err(odd);
        }
        Ok(())
    }

    /// Adds the targets of jump tables of a function; true if one was found.
    fn read_tables(&mut self, image: &Image<'_>, function: &Range<u64>, tables: &[u64]) -> bool {
        let mut found = false;
        for table in tables {
            let Some(bytes) = image.data_at(*table) else { continue };
            for (index, entry) in bytes.chunks_exact(4).take(LONGEST_TABLE).enumerate() {
                let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let target = table.wrapping_add(distance as i64 as u64);
                if !image.is_code(target) {
                    break;
                }
                found |= index == 0 && function.contains(&target);
                self.targets.push(target);
            }
        }
        found
    }

    fn refuse(&mut self, why: &'static str, count: u64) {
        *self.refused.entry(why).or_default() += count;
    }
}

/// Landing pads of a function; None if they cannot be read.
fn pads(image: &Image<'_>, table: u64, start: u64) -> Option<Vec<u64>> {
    let (address, bytes) = image.section(".gcc_except_table")?;
    landing_pads(bytes, address, table, start)
}

/// Numbers in an instruction that may be addresses.
fn immediates(instruction: &Instruction) -> impl Iterator<Item = u64> + '_ {
    (0..instruction.op_count()).filter_map(|index| match instruction.op_kind(index) {
        OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
            Some(instruction.immediate(index) & 0xffff_ffff_ffff_ffff)
        }
        _ => None,
    })
}

/// Addresses of code that words of data may be.
fn words_of_data(image: &Image<'_>, targets: &mut Vec<u64>) {
    for (start, bytes) in &image.data {
        let skip = usize::try_from(start.wrapping_neg() & 7).unwrap_or(0).min(bytes.len());
        for word in bytes[skip..].chunks_exact(8) {
            let Some(word) = word.first_chunk().map(|word| u64::from_le_bytes(*word)) else { continue };
            if image.is_code(word) {
                targets.push(word);
            }
        }
    }
    for section in image.file.elf_section_table().iter() {
        if section.sh_flags(LittleEndian).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(LittleEndian, image.bytes) else { continue };
        let addends = relocations.iter().map(|relocation| relocation.r_addend(LittleEndian) as u64);
        targets.extend(addends.filter(|address| image.is_code(*address)));
    }
}

/// Answers whether code reads flags that its caller has set, which calls never rely on.
struct LiveFlags<'a, 'b> {
    image: &'b Image<'a>,
    known: HashMap<u64, bool>,
}

impl LiveFlags<'_, '_> {
    /// Instructions that are looked at.
    const FAR: usize = 64;

    fn at(&mut self, address: u64) -> bool {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let live = self.find(address);
        self.known.insert(address, live);
        live
    }

    fn find(&self, address: u64) -> bool {
        const ALL: u32 = RflagsBits::OF
            | RflagsBits::SF
            | RflagsBits::ZF
            | RflagsBits::AF
            | RflagsBits::CF
            | RflagsBits::PF;
        let Some(code) = self.image.code_at(address) else { return true };
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut written = 0;
        for _ in 0..Self::FAR {
            if !decoder.can_decode() {
                return false;
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return true;
            }
            if instruction.code() == Code::Syscall {
                return false;
            }
            if instruction.rflags_read() & ALL & !written != 0 {
                return true;
            }
            written |= instruction.rflags_modified();
            if written & ALL == ALL || instruction.flow_control() != FlowControl::Next {
                return false;
            }
        }
        false
    }
}

/// True if these bytes lie in one page.
fn in_one_page(bytes: &Range<u64>) -> bool {
    bytes.start / PAGE == (bytes.end - 1) / PAGE
}

impl Plan {
    /// Plans a file.
    pub(super) fn of(bytes: &[u8], build_id: Option<String>) -> Self {
        let image = match Image::parse(bytes) {
            Ok(image) => image,
            Err(why) => return Self { left_alone: Some(why), build_id, ..Self::default() },
        };
        let soname = image.soname();
        let symbols = Symbols::read(&image, soname.is_some());
        let slots = slots(&image);
        let mut plan = Self {
            extent: image.extent.clone(),
            text: image.text.clone(),
            build_id,
            soname,
            slots,
            left_alone: image.left_alone(),
            ..Self::default()
        };
        let Some((frames_at, frame_bytes)) = image.section(".eh_frame") else {
            plan.left_alone = plan.left_alone.or(Some("no unwind tables"));
            return plan.with_symbols(symbols);
        };
        if plan.left_alone.is_some() {
            return plan.with_symbols(symbols);
        }
        plan.find_sites(&image, &symbols, (frames_at, frame_bytes));
        plan.with_symbols(symbols)
    }

    fn with_symbols(mut self, symbols: Symbols) -> Self {
        self.exports = symbols.exports;
        self.traits.extend(symbols.traits);
        self
    }

    fn find_sites(&mut self, image: &Image<'_>, symbols: &Symbols, (frames_at, frame_bytes): (u64, &[u8])) {
        let (stub_sections, stubs) = linkage_stubs(image, &self.slots);
        let in_stubs = |address: u64| stub_sections.iter().any(|section| section.contains(&address));
        let mut frames = frames(frame_bytes, frames_at);
        frames.retain(|frame| image.is_code(frame.code.start) && !in_stubs(frame.code.start));
        let overlaps: Vec<bool> = (0..frames.len())
            .map(|index| {
                let with = |other: usize| {
                    let other = frames.get(other).map(|frame| &frame.code);
                    let own = &frames[index].code;
                    other.is_some_and(|other| other.start < own.end && own.start < other.end)
                };
                index.checked_sub(1).is_some_and(with) || with(index + 1)
            })
            .collect();
        let parts = frames.iter().filter(|frame| frame.is_part).map(|frame| frame.code.start);
        let cold: BTreeSet<u64> = parts.chain(symbols.cold.iter().copied()).collect();
        let starts = frames.iter().map(|frame| frame.code.start).chain(symbols.starts.iter().copied());
        self.functions =
            starts.filter(|start| !cold.contains(start)).collect::<BTreeSet<u64>>().into_iter().collect();
        let mut sweep = Sweep::default();
        let mut words = Vec::new();
        words_of_data(image, &mut words);
        words.sort_unstable();
        words.dedup();
        for (frame, overlaps) in frames.iter().zip(overlaps) {
            let done = if overlaps {
                Err("functions that overlap")
            } else {
                sweep.unit(image, (frame, frame_bytes), &words)
            };
            if let Err(why) = done {
                sweep.refuse(why, 1);
                if overlaps {
                    sweep.decoded.push(false);
                    sweep.unknown_tables.push(true);
                }
            }
        }
        sweep.targets.append(&mut words);
        sweep.targets.sort_unstable();
        sweep.targets.dedup();
        if sweep.uses_gs {
            self.traits.insert(Trait::UsesGs);
        }
        let mut flags = LiveFlags { image, known: HashMap::new() };
        for branch in &sweep.branches {
            match self.direct_site(branch, &stubs, &mut flags) {
                Ok(Some(site)) => self.direct.push(site),
                Ok(None) => {}
                Err(why) => *self.refused.entry(why).or_default() += 1,
            }
        }
        let mut chosen = Chosen {
            image,
            frames: &frames,
            frame_bytes,
            sweep: &sweep,
            functions: &self.functions,
            bare: None,
            last: 0,
        };
        for indirect in &sweep.indirect {
            if indirect.short_to.is_some_and(|target| flags.at(target)) {
                *self.refused.entry("callees that read flags").or_default() += 1;
                continue;
            }
            match chosen.site(indirect, &self.slots) {
                Ok(Site::Direct(site)) => self.direct.push(site),
                Ok(Site::Indirect(site)) => self.indirect.push(site),
                Ok(Site::None) => {}
                Err(why) => *self.refused.entry(why).or_default() += 1,
            }
        }
        for (why, count) in sweep.refused {
            *self.refused.entry(why).or_default() += count;
        }
        self.direct.sort_by_key(|site| (site.form != Form::Call, site.at));
    }

    /// Nothing of the file changes.
    pub(super) fn leave_alone(&mut self, why: &'static str) {
        self.left_alone = self.left_alone.or(Some(why));
        self.direct.clear();
        self.indirect.clear();
    }

    /// Number of direct sites that are calls; the others come after them.
    pub(super) fn calls(&self) -> usize {
        self.direct.partition_point(|site| site.form == Form::Call)
    }

    /// The site that a branch is; None if it stays inside its function.
    fn direct_site(
        &self,
        branch: &Branch,
        stubs: &HashMap<u64, u64>,
        flags: &mut LiveFlags<'_, '_>,
    ) -> Result<Option<DirectSite>, &'static str> {
        let Branch { at, form, target } = *branch;
        let slot = stubs.get(&target).copied();
        let is_function = self.functions.binary_search(&target).is_ok();
        if slot.is_none() && !is_function {
            // A jump between the parts of a function, or code that is no function.
            return if form == Form::Call { Err("calls of code that is no function") } else { Ok(None) };
        }
        if slot.is_none() && flags.at(target) {
            return Err("callees that read flags");
        }
        let displacement = at + form.opcode_length()..at + form.length();
        if !in_one_page(&displacement) {
            return Err("sites across two pages");
        }
        Ok(Some(DirectSite { at, form, target, slot }))
    }
}

/// Outcome of a look at an indirect call or jump.
enum Site {
    Direct(DirectSite),
    Indirect(IndirectSite),
    /// It jumps inside its function.
    None,
}

/// Choice of the bytes that indirect sites change.
struct Chosen<'a, 'b> {
    image: &'b Image<'a>,
    frames: &'b [Frame],
    frame_bytes: &'b [u8],
    sweep: &'b Sweep,
    functions: &'b [u64],
    /// Bare code of the function that was looked at last.
    bare: Option<(usize, Vec<Range<u64>>)>,
    /// End of the last chosen bytes.
    last: u64,
}

impl Chosen<'_, '_> {
    fn site(&mut self, indirect: &Indirect, slots: &HashMap<u64, SlotCallee>) -> Result<Site, &'static str> {
        let last = self.decode(indirect.at).ok_or("calls that cannot be read")?;
        if let Some(target) = indirect.short_to {
            if self.functions.binary_search(&target).is_err() {
                return Ok(Site::None);
            }
        } else if !indirect.is_jump || self.is_bare(indirect) {
            if let Some(site) = through_slot(&last, indirect, slots) {
                let bytes = site.at..site.at + site.form.length();
                return if in_one_page(&bytes) {
                    Ok(Site::Direct(site))
                } else {
                    Err("sites across two pages")
                };
            }
        } else {
            return Ok(Site::None);
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
            // A table's entry may be added to the table's address.
            if indirect.reads_table {
                return Ok(Site::None);
            }
        }
        while end - start < JUMP {
            if self.sweep.unknown_tables[indirect.unit] {
                return Err("indirect calls beside unknown jump tables");
            }
            let address = *before.next().ok_or("indirect calls with too few bytes before them")?;
            let instruction = self.decode(address).ok_or("calls that cannot be read")?;
            let follows = moved.is_empty() && instruction.next_ip() == indirect.at;
            if !follows && instruction.next_ip() != start {
                return Err("indirect calls with too few bytes before them");
            }
            let step = match instruction.flow_control() {
                FlowControl::ConditionalBranch => {
                    // One to another function is a site of its own.
                    if !self.frames[indirect.unit].code.contains(&instruction.near_branch64()) {
                        return Err("indirect calls after an unusual jump");
                    }
                    let code = self.image.code_at(address).unwrap_or_default();
                    condition(code, &instruction).ok_or("indirect calls after an unusual jump")?
                }
                _ => {
                    movable(&instruction, indirect.is_jump)?;
                    Step::Plain(instruction)
                }
            };
            start = address;
            moved.insert(0, step);
        }
        let window = start..end;
        let first_inside = self.sweep.targets.partition_point(|target| *target <= start);
        if self.sweep.targets.get(first_inside).is_some_and(|target| *target < end) {
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
        Ok(Site::Indirect(site))
    }

    /// Where the bytes end that a jump may change: behind the last instruction of a function, padding is as good as its own bytes.
    fn end_with_padding(&self, unit: usize, end: u64, at: u64) -> u64 {
        if end != self.frames[unit].code.end || end - at >= JUMP {
            return end;
        }
        let next_function = self.functions.get(self.functions.partition_point(|start| *start < end));
        let next_frame = self.frames.get(unit + 1).map(|frame| frame.code.start);
        let next = next_function.copied().into_iter().chain(next_frame).min().unwrap_or(end);
        let mut place = end;
        while place < next && place < at + JUMP {
            match self.decode(place) {
                Some(nothing) if matches!(nothing.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) => {
                    place = nothing.next_ip();
                }
                _ => return end,
            }
        }
        place.min(next).min(at + JUMP)
    }

    fn decode(&self, address: u64) -> Option<Instruction> {
        let code = self.image.code_at(address)?;
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// True if a jump leaves nothing on the stack but the return address, as one to another function does.
    fn is_bare(&mut self, indirect: &Indirect) -> bool {
        let frame = &self.frames[indirect.unit];
        if self.bare.as_ref().is_none_or(|(unit, _)| *unit != indirect.unit) {
            self.bare = Some((indirect.unit, frame.bare(self.frame_bytes)));
        }
        self.bare.iter().flat_map(|(_, ranges)| ranges).any(|range| range.contains(&indirect.at))
    }
}

/// An instruction that moves to a stub.
#[derive(Debug, Clone, Copy)]
enum Step {
    Plain(Instruction),
    /// A jump to this address, on this condition (the last four bits of its opcode).
    Jump(u8, u64),
}

/// A conditional jump.
fn condition(code: &[u8], instruction: &Instruction) -> Option<Step> {
    let condition = match (code, instruction.len()) {
        ([opcode @ 0x70..=0x7f, ..], 2) | ([0x0f, opcode @ 0x80..=0x8f, ..], 6) => opcode & 0xf,
        _ => return None,
    };
    Some(Step::Jump(condition, instruction.near_branch64()))
}

/// Bytes of a direct call or jump.
pub(super) const JUMP: u64 = 5;

/// A call or jump through a slot of the global offset table whose callee is known.
fn through_slot(
    last: &Instruction,
    indirect: &Indirect,
    slots: &HashMap<u64, SlotCallee>,
) -> Option<DirectSite> {
    if indirect.length != 6 || !last.is_ip_rel_memory_operand() || last.segment_prefix() != Register::None {
        return None;
    }
    let slot = last.ip_rel_memory_address();
    slots.contains_key(&slot).then(|| {
        let form = if indirect.is_jump { Form::JumpThroughSlot } else { Form::CallThroughSlot };
        DirectSite { at: indirect.at, form, target: slot, slot: Some(slot) }
    })
}

/// Checks that an instruction does the same in a stub, where the return address lies on the stack already unless the stub is jumped to.
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

/// Bytes that a stub puts on the stack before it loads the target: r11, and behind the red zone if it is jumped to.
pub(super) const RED_ZONE: i64 = 128;

/// Encodes what a stub executes of the program.
fn encode(
    at: u64,
    window: Range<u64>,
    is_tail: bool,
    original: Vec<u8>,
    moved: &[Step],
    last: &Instruction,
) -> Option<IndirectSite> {
    /// The return address of a call.
    const RETURN_ADDRESS: i64 = 8;
    const SAVED: i64 = 8;
    let deeper = |instruction: &Instruction, by: i64| {
        let mut instruction = *instruction;
        if instruction.memory_base() == Register::RSP {
            let displacement = (instruction.memory_displacement64() as i64).wrapping_add(by);
            instruction.set_memory_displacement64(displacement as u64);
            instruction.set_memory_displ_size(8);
        }
        instruction
    };
    let mut encoder = Encoder::new(64);
    let mut encoded = |steps: &[Step]| {
        let mut moved = Moved::default();
        for step in steps {
            let start = moved.bytes.len();
            let instruction = match step {
                Step::Plain(instruction) => instruction,
                Step::Jump(condition, target) => {
                    if is_tail {
                        moved.bytes.extend([0x0f, 0x80 | condition]);
                    } else {
                        // Over it on the opposite condition; it takes the return address off, with the flags as they are.
                        moved.bytes.extend([0x70 | (condition ^ 1), 10, 0x48, 0x8d, 0x64, 0x24, 8, 0xe9]);
                    }
                    let place = moved.bytes.len();
                    moved.bytes.extend([0; 4]);
                    moved.relative.push((place, place + 4, *target));
                    continue;
                }
            };
            encoder.encode(instruction, window.start).ok()?;
            let place = encoder.get_constant_offsets().displacement_offset();
            moved.bytes.extend(encoder.take_buffer());
            if instruction.is_ip_rel_memory_operand() {
                moved.relative.push((start + place, moved.bytes.len(), instruction.ip_rel_memory_address()));
            }
        }
        Some(moved)
    };
    let before: Vec<Step> = moved
        .iter()
        .map(|step| match step {
            Step::Plain(instruction) if !is_tail => Step::Plain(deeper(instruction, RETURN_ADDRESS)),
            step => *step,
        })
        .collect();
    let (while_saved, at_end) =
        if is_tail { (RED_ZONE + SAVED, 0) } else { (RETURN_ADDRESS + SAVED, RETURN_ADDRESS) };
    if last.op0_kind() == OpKind::NearBranch64 {
        let target = last.near_branch64();
        // lea target(%rip),%r11; jmp target
        let load = Moved { bytes: vec![0x4c, 0x8d, 0x1d, 0, 0, 0, 0], relative: vec![(3, 7, target)] };
        let go = Moved { bytes: vec![0xe9, 0, 0, 0, 0], relative: vec![(1, 5, target)] };
        return Some(IndirectSite { at, is_tail, original, before: encoded(&before)?, load, go, window });
    }
    let load = if last.op0_kind() == OpKind::Memory {
        let deep = deeper(last, while_saved);
        let operand = MemoryOperand::new(
            deep.memory_base(),
            deep.memory_index(),
            deep.memory_index_scale(),
            deep.memory_displacement64() as i64,
            deep.memory_displ_size(),
            false,
            Register::None,
        );
        Instruction::with2(Code::Mov_r64_rm64, Register::R11, operand).ok()?
    } else {
        // The stack pointer as a target is not code.
        if last.op0_register() == Register::RSP {
            return None;
        }
        Instruction::with2(Code::Mov_r64_rm64, Register::R11, last.op0_register()).ok()?
    };
    let end = deeper(last, at_end);
    let go = if end.op0_kind() == OpKind::Memory {
        let operand = MemoryOperand::new(
            end.memory_base(),
            end.memory_index(),
            end.memory_index_scale(),
            end.memory_displacement64() as i64,
            end.memory_displ_size(),
            false,
            Register::None,
        );
        Instruction::with1(Code::Jmp_rm64, operand).ok()?
    } else {
        Instruction::with1(Code::Jmp_rm64, end.op0_register()).ok()?
    };
    Some(IndirectSite {
        at,
        is_tail,
        original,
        before: encoded(&before)?,
        load: encoded(&[Step::Plain(load)])?,
        go: encoded(&[Step::Plain(go)])?,
        window,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans this test program itself: whatever the compiler made of it, few sites are refused, and changes never overlap.
    #[test]
    fn changes_do_not_overlap() {
        let path = std::env::var_os("SEDIMENT_PLANNED").map_or_else(
            || std::env::current_exe().expect("this program has a path"),
            std::path::PathBuf::from,
        );
        let bytes = std::fs::read(path).expect("this program can be read");
        let plan = Plan::of(&bytes, None);
        println!("{:?} {:?}", plan.left_alone, plan.refused);
        let direct = plan.direct.iter().map(|site| site.at..site.at + site.form.length());
        let indirect = plan.indirect.iter().map(|site| site.window.clone());
        let mut all: Vec<Range<u64>> = direct.chain(indirect).collect();
        all.sort_by_key(|range| (range.start, range.end));
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(all.len() > 100);
        let refused: u64 = plan.refused.values().sum();
        assert!(refused * 20 < all.len() as u64, "{:?}", plan.refused);
    }
}
