// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads one ELF file: its function symbols, sections, segments and identity.
//!
//! If a table leads outside the file, or a name outside its string table, the file is damaged, and this is an error; a
//! missing table is not an error. Formats: the System V gABI, and the GNU tools' manuals for the notes and debug
//! sections.

use super::fixed::{self, CodeSymbol};
use super::plt::{self, RawStub};
use super::{BinaryFunction, CodeSection, LabelRange, Segment, names};
use crate::error::{Error, ErrorCode, Result};
use crate::isa::Isa;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{
    Dyn as _, FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable,
};
use object::read::{SectionIndex, StringTable};
use object::{Endian as _, Endianness};
use std::collections::HashMap;

/// Largest number of bytes between two functions that may be padding, over which code runs on.
const MOST_PADDING: u64 = 64;

/// Symbols and sections of one ELF file, before it is known if its own symbols are enough.
#[derive(Debug, Default)]
pub(super) struct ElfImage<'data> {
    /// Bytes of the file.
    pub(super) file_size: u64,
    /// Functions of `.symtab`.
    pub(super) symbols: Vec<BinaryFunction>,
    /// Functions of `.dynsym`.
    pub(super) dynamic_symbols: Vec<BinaryFunction>,
    pub(super) build_id: Option<String>,
    pub(super) soname: Option<String>,
    pub(super) arch: Option<String>,
    pub(super) segments: Vec<Segment>,
    pub(super) code_sections: Vec<CodeSection>,
    /// Name and CRC-32 of the separate debug file.
    pub(super) debug_link: Option<(&'data [u8], u32)>,
    /// The compressed contents of `.gnu_debugdata`.
    pub(super) debug_data: Option<&'data [u8]>,
    pub(super) plt_stubs: Vec<RawStub>,
    /// Addresses of functions of `.symtab` that no linker may move, ascending.
    pub(super) fixed: Vec<u64>,
    /// Ranges of `.symtab` that labels mark.
    pub(super) label_ranges: Vec<LabelRange>,
}

/// Reads an ELF file of either class and byte order; from a separate debug file not what needs code.
pub(super) fn read(bytes: &[u8], is_debug_file: bool) -> Result<ElfImage<'_>> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(not_elf(bytes));
    }
    match bytes.get(4) {
        Some(&1) => read_class::<FileHeader32<Endianness>>(bytes, is_debug_file),
        Some(&2) => read_class::<FileHeader64<Endianness>>(bytes, is_debug_file),
        Some(other) => {
            Err(Error::at_offset(4, format!("unsupported ELF class {other}: expected 32 or 64 bits")))
        }
        None => Err(damaged("its header", &"the file ends inside it")),
    }
}

/// Returns only the build-id of an ELF file, in lower-case hex; `None` if it has none, or is not an ELF file.
pub(super) fn build_id(bytes: &[u8]) -> Option<String> {
    fn of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<String> {
        let header = Elf::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let reader = ElfReader::<Elf> { bytes, endian, machine: header.e_machine(endian), sections };
        reader.build_id(header.program_headers(endian, bytes).ok()?)
    }
    match bytes.get(4)? {
        1 => of::<FileHeader32<Endianness>>(bytes),
        2 => of::<FileHeader64<Endianness>>(bytes),
        _ => None,
    }
}

/// True for an ELF file that a kernel can start, directly or by a dynamic linker.
pub(super) fn is_program(bytes: &[u8]) -> bool {
    fn of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<bool> {
        let header = Elf::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let mut segments = header.program_headers(endian, bytes).ok()?.iter();
        let mut has_interpreter = || segments.any(|segment| segment.p_type(endian) == elf::PT_INTERP);
        Some(header.e_type(endian) == elf::ET_EXEC || has_interpreter())
    }
    let found = match bytes.get(4) {
        Some(1) => of::<FileHeader32<Endianness>>(bytes),
        Some(2) => of::<FileHeader64<Endianness>>(bytes),
        _ => None,
    };
    found.unwrap_or(false)
}

/// The texts of `.comment`, each once.
pub(super) fn producers(bytes: &[u8]) -> Vec<String> {
    /// Limit of texts; further compilers are dropped.
    const MOST: usize = 12;
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let section = object::Object::section_by_name(&file, ".comment");
    let Some(data) = section.and_then(|section| object::ObjectSection::data(&section).ok()) else {
        return Vec::new();
    };
    let mut texts: Vec<String> = Vec::new();
    for text in data.split(|byte| *byte == 0).filter(|text| !text.is_empty()) {
        let text = String::from_utf8_lossy(text).into_owned();
        if texts.len() < MOST && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The sections with code of an ELF file: name and contents.
pub(super) fn code(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    fn of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
        let header = Elf::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let reader = ElfReader::<Elf> { bytes, endian, machine: header.e_machine(endian), sections };
        let with_code = reader.sections.iter().filter(|section| reader.holds_code(section));
        with_code
            .map(|section| Some((reader.section_name(section).ok()?, section.data(endian, bytes).ok()?)))
            .collect()
    }
    match bytes.get(4)? {
        1 => of::<FileHeader32<Endianness>>(bytes),
        2 => of::<FileHeader64<Endianness>>(bytes),
        _ => None,
    }
}

/// Makes the error for a file that is not an ELF file; names its kind if the first bytes show it.
fn not_elf(bytes: &[u8]) -> Error {
    const KNOWN: [(&[u8], &str, &str); 12] = [
        (b"!<arch>\n", "a static library", "give the program or shared library linked from it"),
        (b"!<thin>\n", "a static library", "give the program or shared library linked from it"),
        (b"BC\xc0\xde", "LLVM bitcode", "give the linked program"),
        (b"MZ", "a program for Windows", "sediment works on ELF programs"),
        (b"\xcf\xfa\xed\xfe", "a program for macOS", "sediment works on ELF programs"),
        (b"\xca\xfe\xba\xbe", "a program for macOS or a Java class", "sediment works on ELF programs"),
        (b"#!", "a script", "give the program that it starts"),
        (b"PERFILE2", "a recording of perf", "give the program that was recorded"),
        (b"\x1f\x8b", "compressed by gzip", "unpack it first"),
        (b"\xfd7zXZ\0", "compressed by xz", "unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it first"),
        (b"digraph", "a profile", "give the program that was profiled"),
    ];
    if bytes.is_empty() {
        return Error::new(ErrorCode::EmptyInput, "empty file; expected an ELF program or library");
    }
    match KNOWN.iter().find(|(magic, _, _)| bytes.starts_with(magic)) {
        Some((_, what, hint)) => Error::new(ErrorCode::NotElf, format!("not an ELF file, but {what}"))
            .with_hint((*hint).to_owned()),
        None => Error::new(ErrorCode::NotElf, "not an ELF file")
            .with_found(&bytes[..bytes.len().min(16)])
            .with_hint("give the linked program or shared library"),
    }
}

fn damaged(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::Damaged, format!("damaged ELF file: {what}: {why}"))
        .with_hint("is the file complete?")
}

fn read_class<Elf: FileHeader<Endian = Endianness>>(
    bytes: &[u8],
    is_debug_file: bool,
) -> Result<ElfImage<'_>> {
    let header = Elf::parse(bytes).map_err(|e| damaged("its header", &e))?;
    let endian = header.endian().map_err(|e| damaged("its header", &e))?;
    match header.e_type(endian) {
        elf::ET_EXEC | elf::ET_DYN => {}
        elf::ET_REL => {
            return Err(Error::new(ErrorCode::NotElf, "an object file that is not linked yet")
                .with_hint("give the program or shared library linked from it"));
        }
        elf::ET_CORE => return Err(Error::new(ErrorCode::NotElf, "a core dump, not a program")),
        other => return Err(damaged("its header", &format_args!("unknown file type {:#x}", other.0))),
    }
    let program_headers =
        header.program_headers(endian, bytes).map_err(|e| damaged("its program headers", &e))?;
    let sections = header.sections(endian, bytes).map_err(|e| damaged("its section headers", &e))?;
    let segments: Vec<Segment> = program_headers
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .map(|segment| Segment {
            file_offset: segment.p_offset(endian).into(),
            file_size: segment.p_filesz(endian).into(),
            address: segment.p_vaddr(endian).into(),
            executable: segment.p_flags(endian).0 & elf::PF_X.0 != 0,
        })
        .collect();
    let machine = header.e_machine(endian);
    let reader = ElfReader::<Elf> { bytes, endian, machine, sections };
    let symbols = reader.symbol_table(elf::SHT_SYMTAB)?;
    let dynamic_symbols = reader.symbol_table(elf::SHT_DYNSYM)?;
    let plt_stubs = reader.plt_stubs(&symbols, &dynamic_symbols, &segments)?;
    let arch = architecture(machine, Elf::is_type_64_sized(), endian);
    let functions = reader.functions(&symbols)?;
    let fixed = || reader.fixed(&symbols, &functions, Isa::of(arch.as_deref()));
    let (fixed, label_ranges) = if is_debug_file { Default::default() } else { fixed() };
    Ok(ElfImage {
        file_size: bytes.len() as u64,
        fixed,
        label_ranges,
        symbols: functions,
        dynamic_symbols: reader.functions(&dynamic_symbols)?,
        build_id: reader.build_id(program_headers),
        soname: reader.soname(program_headers)?,
        arch,
        segments,
        code_sections: reader.code_sections()?,
        debug_link: reader.debug_link()?,
        debug_data: reader.section_data(b".gnu_debugdata")?.filter(|data| !data.is_empty()),
        plt_stubs,
    })
}

/// The architecture as `uname -m` spells it.
fn architecture(machine: elf::Machine, wide: bool, endian: Endianness) -> Option<String> {
    let little = endian.is_little_endian();
    let name = match machine {
        elf::EM_X86_64 => "x86_64",
        elf::EM_386 => "i686",
        elf::EM_AARCH64 if little => "aarch64",
        elf::EM_AARCH64 => "aarch64_be",
        elf::EM_ARM if little => "armv7l",
        elf::EM_ARM => "armv7b",
        elf::EM_PPC64 if little => "ppc64le",
        elf::EM_PPC64 => "ppc64",
        elf::EM_PPC => "ppc",
        elf::EM_RISCV if wide => "riscv64",
        elf::EM_RISCV => "riscv32",
        elf::EM_S390 if wide => "s390x",
        elf::EM_S390 => "s390",
        elf::EM_LOONGARCH if wide => "loongarch64",
        elf::EM_LOONGARCH => "loongarch32",
        elf::EM_MIPS if wide => "mips64",
        elf::EM_MIPS => "mips",
        elf::EM_SPARCV9 => "sparc64",
        elf::EM_SPARC | elf::EM_SPARC32PLUS => "sparc",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Removes the untyped symbols at the beginning of a typed function, or within one.
fn drop_untyped_within(functions: &mut Vec<BinaryFunction>) {
    if !functions.iter().any(|function| function.untyped) {
        return;
    }
    let mut typed: Vec<(u64, u64)> = functions
        .iter()
        .filter(|function| !function.untyped)
        .map(|function| (function.address, function.address.saturating_add(function.size.max(1))))
        .collect();
    typed.sort_unstable();
    // Running maximum of the ends of all functions up to here.
    let mut reach = 0;
    for (_, end) in &mut typed {
        reach = reach.max(*end);
        *end = reach;
    }
    functions.retain(|function| {
        let before = typed.partition_point(|(start, _)| *start <= function.address);
        !function.untyped || before == 0 || typed[before - 1].1 <= function.address
    });
}

struct ElfReader<'data, Elf: FileHeader<Endian = Endianness>> {
    bytes: &'data [u8],
    endian: Endianness,
    machine: elf::Machine,
    sections: SectionTable<'data, Elf>,
}

impl<'data, Elf: FileHeader<Endian = Endianness>> ElfReader<'data, Elf> {
    fn symbol_table(&self, kind: elf::SectionType) -> Result<SymbolTable<'data, Elf>> {
        self.sections.symbols(self.endian, self.bytes, kind).map_err(|e| damaged("a symbol table", &e))
    }

    fn section_name(&self, section: &Elf::SectionHeader) -> Result<&'data [u8]> {
        self.sections.section_name(self.endian, section).map_err(|e| damaged("the name of a section", &e))
    }

    fn section_data(&self, name: &[u8]) -> Result<Option<&'data [u8]>> {
        let Some((_, section)) = self.sections.section_by_name(self.endian, name) else { return Ok(None) };
        section
            .data(self.endian, self.bytes)
            .map(Some)
            .map_err(|e| damaged(&String::from_utf8_lossy(name), &e))
    }

    fn holds_code(&self, section: &Elf::SectionHeader) -> bool {
        let wanted = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        section.sh_flags(self.endian).0 & wanted == wanted
    }

    fn code_sections(&self) -> Result<Vec<CodeSection>> {
        let mut found = Vec::new();
        for section in self.sections.iter().filter(|section| self.holds_code(section)) {
            found.push(CodeSection {
                name: String::from_utf8_lossy(self.section_name(section)?).into_owned(),
                address: section.sh_addr(self.endian).into(),
                size: section.sh_size(self.endian).into(),
            });
        }
        found.sort_by(|a, b| (a.address, a.size, &a.name).cmp(&(b.address, b.size, &b.name)));
        Ok(found)
    }

    /// The function symbols of a table. A local symbol belongs to the STT_FILE symbol before it.
    ///
    /// Assembler code may leave out the types of its symbols (STT_NOTYPE). Untyped symbols in code count as functions,
    /// just as in nm and BOLT, if they have a size or are global. Exceptions: mapping symbols (`$x`), labels (`.L`),
    /// symbols at or within a function that has its type, and symbols at the end of a section, such as those that
    /// linkers define (`_etext`).
    fn functions(&self, table: &SymbolTable<'data, Elf>) -> Result<Vec<BinaryFunction>> {
        let mut found = Vec::new();
        let mut unit = SymbolUnit::default();
        // Neighbours in the table mostly share a section, so its name is computed once.
        let mut last_section: Option<(SectionIndex, Option<(String, u64)>)> = None;
        // The first entry of a table is reserved, whatever it contains.
        for (index, symbol) in table.enumerate().filter(|(index, _)| index.0 > 0) {
            let name = || {
                table
                    .symbol_name(self.endian, symbol)
                    .map_err(|e| damaged(&format!("the name of symbol {}", index.0), &e))
            };
            let kind = symbol.st_type();
            if kind == elf::STT_FILE {
                unit.begin(name()?);
                continue;
            }
            let local = symbol.st_bind() == elf::STB_LOCAL;
            let size: u64 = symbol.st_size(self.endian).into();
            let untyped = kind == elf::STT_NOTYPE && (size > 0 || !local);
            if kind != elf::STT_FUNC && kind != elf::STT_GNU_IFUNC && !untyped {
                continue;
            }
            let section_index = table
                .symbol_section(self.endian, symbol, index)
                .map_err(|e| damaged(&format!("the section of symbol {}", index.0), &e))?;
            let Some(section_index) = section_index else { continue };
            if last_section.as_ref().is_none_or(|(known, _)| *known != section_index) {
                let section = self
                    .sections
                    .section(section_index)
                    .map_err(|e| damaged(&format!("the section of symbol {}", index.0), &e))?;
                let name = if self.holds_code(section) {
                    let (address, size): (u64, u64) =
                        (section.sh_addr(self.endian).into(), section.sh_size(self.endian).into());
                    let name = String::from_utf8_lossy(self.section_name(section)?).into_owned();
                    Some((name, address.saturating_add(size)))
                } else {
                    None
                };
                last_section = Some((section_index, name));
            }
            let Some((_, Some((section, section_end)))) = &last_section else { continue };
            let Ok(name) = std::str::from_utf8(names::symbol(name()?).name) else { continue };
            if name.is_empty() {
                continue;
            }
            let mut address: u64 = symbol.st_value(self.endian).into();
            if self.machine == elf::EM_ARM {
                // The lowest bit marks a function in Thumb code; it is not part of the address.
                address &= !1;
            }
            if untyped && (name.starts_with('$') || name.starts_with(".L") || address >= *section_end) {
                continue;
            }
            found.push(BinaryFunction {
                name: name.to_owned(),
                address,
                size,
                section: section.clone(),
                file: if local { unit.file_of(name, (section_index.0, address)) } else { None },
                local,
                ifunc: kind == elf::STT_GNU_IFUNC,
                untyped,
            });
        }
        drop_untyped_within(&mut found);
        Ok(found)
    }

    /// Returns the ascending addresses of the functions whose position other code relies on (see `fixed`), and the
    /// ranges that labels mark.
    fn fixed(
        &self,
        table: &SymbolTable<'data, Elf>,
        functions: &[BinaryFunction],
        isa: &Isa,
    ) -> (Vec<u64>, Vec<LabelRange>) {
        let code_of = |index: SectionIndex, address: u64, size: u64| {
            let section = self.sections.section(index).ok().filter(|section| self.holds_code(section))?;
            let data = section.data(self.endian, self.bytes).ok()?;
            let at = usize::try_from(address.checked_sub(section.sh_addr(self.endian).into())?).ok()?;
            // A label may be at the end of a section.
            Some(data.get(at..).map_or(&[][..], |code| &code[..code.len().min(size as usize)]))
        };
        let mut symbols = Vec::new();
        for (index, symbol) in table.enumerate().filter(|(index, _)| index.0 > 0) {
            let (kind, place) = (symbol.st_type(), table.symbol_section(self.endian, symbol, index));
            let (true, Ok(Some(section))) = (matches!(kind, elf::STT_FUNC | elf::STT_NOTYPE), place) else {
                continue;
            };
            let (address, size): (u64, u64) =
                (symbol.st_value(self.endian).into(), symbol.st_size(self.endian).into());
            let name =
                table.symbol_name(self.endian, symbol).ok().and_then(|name| std::str::from_utf8(name).ok());
            let Some(name) = name.filter(|name| !name.is_empty() && !name.starts_with(['$', '.'])) else {
                continue;
            };
            let Some(code) = code_of(section, address, size) else { continue };
            symbols.push(CodeSymbol { name, place: (section.0, address), size, code });
        }
        let range = |(begin, end): (usize, usize)| LabelRange {
            begin: symbols[begin].name.to_owned(),
            end: symbols[end].name.to_owned(),
            from: symbols[begin].place.1,
            to: symbols[end].place.1,
        };
        let ranges = fixed::ranges(&symbols, isa).into_iter().map(range).collect();
        let mut fixed: Vec<u64> = fixed::marked(&symbols, isa).into_iter().map(|(_, at)| at).collect();
        let mut starts: Vec<(u64, &str)> =
            functions.iter().map(|function| (function.address, function.section.as_str())).collect();
        starts.sort_unstable();
        for symbol in symbols.iter().filter(|symbol| fixed::runs_on(symbol.code, isa)) {
            let (at, end) = (symbol.place.1, symbol.place.1.saturating_add(symbol.size));
            let own = starts.partition_point(|(start, _)| *start < at);
            let after = starts.partition_point(|(start, _)| *start < end);
            let next = starts.get(after).filter(|(start, section)| {
                *start - end < MOST_PADDING && starts.get(own).is_some_and(|(_, own)| own == section)
            });
            fixed.extend(next.into_iter().flat_map(|(start, _)| [at, *start]));
        }
        fixed.sort_unstable();
        fixed.dedup();
        (fixed, ranges)
    }

    /// Returns the build-id, from the note sections or, if there are none, from the note segments.
    fn build_id(&self, segments: &[Elf::ProgramHeader]) -> Option<String> {
        let in_sections =
            self.sections.iter().filter_map(|section| section.notes(self.endian, self.bytes).ok().flatten());
        let in_segments =
            segments.iter().filter_map(|segment| segment.notes(self.endian, self.bytes).ok().flatten());
        for mut notes in in_sections.chain(in_segments) {
            // A damaged note ends its section; the rest of the file is still usable.
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU
                    && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID
                    && !note.desc().is_empty()
                {
                    return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
                }
            }
        }
        None
    }

    /// Returns DT_SONAME, by the section headers or, if there are none, by PT_DYNAMIC.
    fn soname(&self, segments: &[Elf::ProgramHeader]) -> Result<Option<String>> {
        let in_sections = self
            .sections
            .dynamic_table(self.endian, self.bytes)
            .map_err(|e| damaged("its dynamic section", &e))?;
        let name = if in_sections.is_empty() && self.sections.is_empty() {
            self.soname_by_segments(segments)
        } else {
            let entry = in_sections.iter().find(|entry| entry.tag == elf::DT_SONAME);
            entry
                .map(|entry| in_sections.string(entry).map_err(|e| damaged("its DT_SONAME", &e)))
                .transpose()?
        };
        Ok(name.filter(|name| !name.is_empty()).and_then(|name| String::from_utf8(name.to_vec()).ok()))
    }

    fn soname_by_segments(&self, segments: &[Elf::ProgramHeader]) -> Option<&'data [u8]> {
        let entries =
            segments.iter().find_map(|segment| segment.dynamic(self.endian, self.bytes).ok().flatten())?;
        let value = |tag: elf::DynamicTag| -> Option<u64> {
            let entry = entries.iter().find(|entry| entry.d_tag(self.endian) == tag)?;
            Some(entry.d_val(self.endian).into())
        };
        let strings_address = value(elf::DT_STRTAB)?;
        let strings = segments.iter().find_map(|segment| {
            let size = value(elf::DT_STRSZ)?;
            segment.data_range(self.endian, self.bytes, strings_address, size).ok().flatten()
        })?;
        let offset = u32::try_from(value(elf::DT_SONAME)?).ok()?;
        StringTable::new(strings, 0, strings.len() as u64).get(offset).ok()
    }

    fn debug_link(&self) -> Result<Option<(&'data [u8], u32)>> {
        let Some(data) = self.section_data(b".gnu_debuglink")? else { return Ok(None) };
        if data.is_empty() {
            return Ok(None);
        }
        let read = || {
            let end = memchr::memchr(0, data)?;
            let crc = data.get((end + 4) & !3..)?.first_chunk::<4>()?;
            Some((
                &data[..end],
                if self.endian.is_little_endian() {
                    u32::from_le_bytes(*crc)
                } else {
                    u32::from_be_bytes(*crc)
                },
            ))
        };
        read().map(Some).ok_or_else(|| damaged(".gnu_debuglink", &"it ends inside an entry"))
    }

    /// Returns the stubs through which functions of other DSOs are called.
    fn plt_stubs(
        &self,
        symbols: &SymbolTable<'data, Elf>,
        dynamic_symbols: &SymbolTable<'data, Elf>,
        segments: &[Segment],
    ) -> Result<Vec<RawStub>> {
        if self.machine == elf::EM_PPC64 {
            return Ok(self.named_stubs(symbols));
        }
        let got = [&b".got.plt"[..], b".got"]
            .iter()
            .find_map(|name| self.sections.section_by_name(self.endian, name));
        let got = got.map_or(0, |(_, section)| section.sh_addr(self.endian).into());
        let Some(mut relocations) = plt::Relocations::new(self.machine, got) else { return Ok(Vec::new()) };
        for section in self.sections.iter() {
            self.add_relocations(section, dynamic_symbols, segments, &mut relocations)?;
        }
        let mut stubs = Vec::new();
        for section in self.sections.iter().filter(|section| self.holds_code(section)) {
            if !plt::is_stub_section(self.section_name(section)?) {
                continue;
            }
            let code = section.data(self.endian, self.bytes).map_err(|e| damaged("its linkage table", &e))?;
            let entry_size = section.sh_entsize(self.endian).into();
            relocations.read_stubs(section.sh_addr(self.endian).into(), code, entry_size, &mut stubs);
        }
        Ok(stubs)
    }

    /// Adds the entries of a section, if it is a relocation table of the dynamic linker, with or without addends.
    fn add_relocations(
        &self,
        section: &Elf::SectionHeader,
        symbols: &SymbolTable<'data, Elf>,
        segments: &[Segment],
        relocations: &mut plt::Relocations,
    ) -> Result<()> {
        use object::read::elf::{Rel as _, Rela as _};
        // With --emit-relocs the file also contains the relocations that the linker has applied, with symbols of
        // another table.
        let link = section.link(self.endian);
        let of_loader = link == symbols.section() || link.0 == 0;
        let loaded = section.sh_flags(self.endian).0 & elf::SHF_ALLOC.0 != 0;
        if !loaded || !of_loader {
            return Ok(());
        }
        let bad = |e: object::read::Error| damaged("a relocation table", &e);
        let is_plt =
            matches!(self.section_name(section)?, b".rela.plt" | b".rela.iplt" | b".rel.plt" | b".rel.iplt");
        let name = |index: Option<object::read::SymbolIndex>| {
            let named = |index| symbols.symbol(index).and_then(|s| symbols.symbol_name(self.endian, s));
            index.map(named).transpose().map_err(bad)
        };
        if let Some((entries, _)) = section.rela(self.endian, self.bytes).map_err(bad)? {
            for entry in entries {
                let kind = entry.r_type(self.endian, false);
                let symbol = name(entry.symbol(self.endian, false))?;
                let addend: i64 = entry.r_addend(self.endian).into();
                relocations
                    .add(is_plt, kind, entry.r_offset(self.endian).into(), symbol, || Some(addend as u64));
            }
        }
        if let Some((entries, _)) = section.rel(self.endian, self.bytes).map_err(bad)? {
            for entry in entries {
                let slot: u64 = entry.r_offset(self.endian).into();
                let symbol = name(entry.symbol(self.endian))?;
                let kind = entry.r_type(self.endian);
                relocations.add(is_plt, kind, slot, symbol, || self.word_at(slot, segments));
            }
        }
        Ok(())
    }

    /// The 32-bit word that the file has at a virtual address.
    fn word_at(&self, address: u64, segments: &[Segment]) -> Option<u64> {
        let offset = segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.file_size)?;
            segment.file_offset.checked_add(inside)
        })?;
        let word = self.bytes.get(usize::try_from(offset).ok()?..)?.first_chunk::<4>()?;
        Some(u64::from(if self.endian.is_little_endian() {
            u32::from_le_bytes(*word)
        } else {
            u32::from_be_bytes(*word)
        }))
    }

    /// Returns the stubs that have a symbol.
    fn named_stubs(&self, symbols: &SymbolTable<'data, Elf>) -> Vec<RawStub> {
        let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(self.endian));
        defined
            .filter_map(|symbol| {
                let name = symbols.symbol_name(self.endian, symbol).ok()?;
                plt::stub_by_name(name, symbol.st_value(self.endian).into())
            })
            .collect()
    }
}

/// The compilation unit of local symbols of a table, from the STT_FILE symbol before them.
///
/// Assembler code has no such symbol, and some linkers (lld, gold) add none, so its symbols follow those of another
/// unit, also in the result of `ld -r`. A unit never has two local functions of the same name, so the second one begins
/// a unit without a name.
#[derive(Debug, Default)]
pub(super) struct SymbolUnit<'a> {
    file: Option<String>,
    /// Places of the local functions by name, if the file is known.
    functions: HashMap<&'a str, (usize, u64)>,
}

impl<'a> SymbolUnit<'a> {
    /// Begins the unit of an STT_FILE symbol.
    pub(super) fn begin(&mut self, name: &[u8]) {
        self.file = file_evidence(name);
        self.functions.clear();
    }

    /// The source file of the next local function.
    pub(super) fn file_of(&mut self, function: &'a str, place: (usize, u64)) -> Option<String> {
        self.file.as_ref()?;
        if *self.functions.entry(function).or_insert(place) != place {
            self.file = None;
        }
        self.file.clone()
    }
}

/// Returns the base name of a source file from an STT_FILE symbol. `None` if it is the invented name of a temporary
/// file or of a partition of link-time optimisation, because it differs between two builds of one program.
pub fn file_evidence(name: &[u8]) -> Option<String> {
    let base = name.rsplit(|byte| *byte == b'/').next()?;
    let text = std::str::from_utf8(base).ok()?;
    let temporary = |stem: &str| {
        stem.len() == 8 && stem.starts_with("cc") && stem.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let made_up = text.is_empty()
        || text.starts_with('<')
        || text.starts_with('{')
        || text.contains(".ltrans")
        || text.contains(".lto.")
        || text.starts_with("ld-temp.")
        || text.starts_with("lto.tmp")
        || text
            .split_once('.')
            .is_some_and(|(stem, rest)| temporary(stem) && !matches!(rest, "c" | "cc" | "cpp"));
    (!made_up).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::file_evidence;

    #[test]
    fn only_names_that_a_person_gave_are_evidence() {
        for name in ["main.c", "src/execMain.c", "ccache.c", "ccompile.c", "core.1f2e-cgu.0", "x.S"] {
            let base = name.rsplit('/').next().map(str::to_owned);
            assert_eq!(file_evidence(name.as_bytes()), base, "{name}");
        }
        for name in [
            "",
            "<artificial>",
            "<stdin>",
            "{standard input}",
            "ccQ1x9Zb.o",
            "/tmp/ccQ1x9Zb.s",
            "ccQ1x9Zb.ltrans0.ltrans.o",
            "prog.ltrans12.o",
            "ld-temp.o",
            "a.out.lto.o",
        ] {
            assert_eq!(file_evidence(name.as_bytes()), None, "{name}");
        }
    }
}
