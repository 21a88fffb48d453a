// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the parts of an ELF file that a plan needs: code, data, symbols, and the linkage to other files.

use super::sites::{FastMap, PAGE, SlotCallee, TextSegment, Trait};
use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _, Rela as _, SectionHeader as _};
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, SymbolFlags,
};
use sediment_core::isa::{AARCH64, StubTarget};
use std::collections::BTreeSet;
use std::ops::Range;

/// An ELF file of a known architecture.
pub(super) struct PlannedFile<'a> {
    bytes: &'a [u8],
    file: ElfFile64<'a, LittleEndian>,
    pub(super) text: Vec<TextSegment>,
    /// Other loaded segments: address, and bytes.
    data: Vec<(u64, &'a [u8])>,
    pub(super) extent: Range<u64>,
    /// True if it is linked to a fixed address.
    pub(super) is_fixed: bool,
}

impl<'a> PlannedFile<'a> {
    /// Parses a file of this architecture.
    pub(super) fn parse(bytes: &'a [u8], machine: elf::Machine) -> Result<Self, &'static str> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|_| "not an ELF file of 64 bits")?;
        let header = file.elf_header();
        if header.e_machine.get(LittleEndian) != machine {
            return Err("of another architecture");
        }
        let is_fixed = header.e_type.get(LittleEndian) == elf::ET_EXEC;
        let (mut text, mut data) = (Vec::new(), Vec::new());
        let mut extent = Range { start: u64::MAX, end: 0 };
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
                return Err("writable code");
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

    fn is_aarch64(&self) -> bool {
        self.file.elf_header().e_machine.get(LittleEndian) == elf::EM_AARCH64
    }

    /// Returns the code from this address to the end of its segment.
    pub(super) fn code_at(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.text.iter().find(|segment| segment.code.contains(&address))?;
        let offset = segment.file_offset + (address - segment.code.start);
        let end = segment.file_offset + (segment.code.end - segment.code.start);
        self.bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }

    pub(super) fn code(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        self.code_at(range.start)?.get(..usize::try_from(range.end - range.start).ok()?)
    }

    pub(super) fn data_at(&self, address: u64) -> Option<&'a [u8]> {
        self.data.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    /// True if the loaded parts contain these bytes.
    pub(super) fn mentions(&self, wanted: &[u8]) -> bool {
        let parts = self.data.iter().map(|(_, bytes)| *bytes);
        let text = self.text.iter().filter_map(|segment| self.code(&segment.code));
        parts.chain(text).any(|bytes| {
            let mut rest = bytes;
            while let Some(place) = rest.iter().position(|byte| *byte == wanted[0]) {
                rest = &rest[place..];
                if rest.starts_with(wanted) {
                    return true;
                }
                rest = &rest[1..];
            }
            false
        })
    }

    pub(super) fn is_code(&self, address: u64) -> bool {
        self.text.iter().any(|segment| segment.code.contains(&address))
    }

    pub(super) fn section(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let section = self.file.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    }

    /// Returns everything that a plan is made from, by offsets in the file: headers, loaded parts, and sections except
    /// debug information.
    pub(super) fn parts(&self) -> Vec<(u64, &'a [u8])> {
        let header = self.file.elf_header();
        let table = |offset: u64, count: u16, size: u16| offset..offset + u64::from(count) * u64::from(size);
        let end = LittleEndian;
        let mut parts = vec![
            0..u64::from(header.e_ehsize.get(end)),
            table(header.e_phoff.get(end), header.e_phnum.get(end), header.e_phentsize.get(end)),
            table(header.e_shoff.get(end), header.e_shnum.get(end), header.e_shentsize.get(end)),
        ];
        let loaded = self.file.elf_program_headers().iter().map(|segment| segment.file_range(end));
        parts.extend(loaded.map(|(offset, length)| offset..offset.saturating_add(length)));
        for section in self.file.sections() {
            let is_read = !section.name().is_ok_and(|name| name.starts_with(".debug"));
            let range = section.file_range().filter(|_| is_read);
            parts.extend(range.map(|(offset, length)| offset..offset.saturating_add(length)));
        }
        parts.sort_by_key(|part| (part.start, part.end));
        let mut read = Vec::new();
        let mut done = 0;
        for part in parts {
            let (from, to) = (part.start.max(done), part.end.min(self.bytes.len() as u64));
            if let Some(bytes) = self.bytes.get(from as usize..to as usize).filter(|bytes| !bytes.is_empty())
            {
                read.push((from, bytes));
                done = to;
            }
        }
        read
    }

    /// Returns the file's own library name.
    pub(super) fn soname(&self) -> Option<String> {
        let dynamic = self.file.elf_section_table().dynamic(LittleEndian, self.bytes).ok()??;
        let (entries, link) = dynamic;
        let strings = self.file.elf_section_table().strings(LittleEndian, self.bytes, link).ok()?;
        let name = entries.iter().find(|entry| entry.d_tag(LittleEndian) == elf::DT_SONAME)?;
        let name = strings.get(u32::try_from(name.d_val(LittleEndian)).ok()?).ok()?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    }

    /// Returns the reason to leave the whole file unchanged.
    pub(super) fn left_alone(&self) -> Option<&'static str> {
        let is_go = |name: &str| name.ends_with(".gopclntab") || name == ".go.buildinfo";
        if self.file.sections().any(|section| section.name().is_ok_and(is_go)) {
            return Some("a Go program");
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

/// Names in programs that look for memory leaks, and therefore trace themselves.
const LOOKS_FOR_LEAKS: [&str; 2] = ["__lsan_init", "__asan_init"];

/// Symbols of a file.
#[derive(Default)]
pub(super) struct FileSymbols {
    /// First bytes of functions.
    pub(super) starts: BTreeSet<u64>,
    /// First bytes of cold parts, by their names.
    pub(super) cold: BTreeSet<u64>,
    pub(super) traits: BTreeSet<Trait>,
}

impl FileSymbols {
    pub(super) fn read(image: &PlannedFile<'_>, is_library: bool) -> Self {
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
        found
    }
}

/// Returns the functions that other files can call by name, with their addresses.
pub(super) fn exports(image: &PlannedFile<'_>) -> FastMap<String, u64> {
    let mut found = FastMap::default();
    for symbol in image.file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        if let Ok(name) = symbol.name() {
            found.entry(name.to_owned()).or_insert(symbol.address());
        }
    }
    found
}

/// Returns the slots of the global offset table whose callee is known.
pub(super) fn slots(image: &PlannedFile<'_>) -> FastMap<u64, SlotCallee> {
    let symbols = image.file.dynamic_symbol_table();
    let mut found = FastMap::default();
    let (of_function, chosen) = if image.is_aarch64() {
        ([elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT], elf::R_AARCH64_IRELATIVE)
    } else {
        ([elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT], elf::R_X86_64_IRELATIVE)
    };
    for section in image.file.elf_section_table().iter() {
        if section.sh_flags(LittleEndian).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(LittleEndian, image.bytes) else { continue };
        for relocation in relocations {
            let slot = relocation.r_offset(LittleEndian);
            let callee = match relocation.r_type(LittleEndian, false) {
                kind if of_function.contains(&kind) => {
                    let index = relocation.symbol(LittleEndian, false);
                    let symbol = index.and_then(|index| symbols.as_ref()?.symbol_by_index(index).ok());
                    let name = symbol.and_then(|symbol| symbol.name().ok());
                    name.map(|name| SlotCallee::Named(name.to_owned()))
                }
                kind if kind == chosen => {
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

/// Returns the linkage stubs: their first bytes, and the slots that they read.
pub(super) fn linkage_stubs(
    image: &PlannedFile<'_>,
    slots: &FastMap<u64, SlotCallee>,
) -> (Vec<Range<u64>>, FastMap<u64, u64>) {
    let is_aarch64 = image.is_aarch64();
    let step = if is_aarch64 { 4 } else { 8 };
    let (mut sections, mut found) = (Vec::new(), FastMap::default());
    for (start, bytes) in STUBS.iter().filter_map(|name| image.section(name)) {
        sections.push(start..start + bytes.len() as u64);
        for offset in (0..bytes.len()).step_by(step) {
            let at = start + offset as u64;
            let code = &bytes[offset..];
            let slot = if is_aarch64 { slot_of_a64_stub(code, at) } else { slot_of_x86_stub(code, at) };
            let slot = slot.filter(|slot| slots.contains_key(slot));
            found.extend(slot.map(|slot| (at, slot)));
        }
    }
    (sections, found)
}

/// Slot that the linkage stub at an address reads.
fn slot_of_x86_stub(code: &[u8], at: u64) -> Option<u64> {
    const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let pad = if code.starts_with(&LANDING_PAD) { LANDING_PAD.len() } else { 0 };
    // bnd jmp *slot(%rip), or without bnd.
    let bound = usize::from(code.get(pad) == Some(&0xf2));
    let jump = code.get(pad + bound..).and_then(|code| code.first_chunk::<6>())?;
    let [0xff, 0x25, displacement @ ..] = jump else { return None };
    let next = at + (pad + bound + 6) as u64;
    Some(next.wrapping_add(i32::from_le_bytes(*displacement) as i64 as u64))
}

fn slot_of_a64_stub(code: &[u8], at: u64) -> Option<u64> {
    match (AARCH64.stub)(code, at, 0) {
        Some((StubTarget::Slot(slot), _)) => Some(slot),
        _ => None,
    }
}

/// Collects the words of data that may be addresses of code.
pub(super) fn words_of_data(image: &PlannedFile<'_>, targets: &mut Vec<u64>) {
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
